"""`hibor quarantine list | copy`: files that were paid for and failed a check, kept for a while (design 4).

Rules of this file: a refused file is shown and can be copied out; nothing here puts it into the library or
removes it. The next run or `hibor recover` removes what is older than the limit.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

import attrs
import click

from generated.governance import GUARD_RAILS
from hibor.clock import SystemClock
from hibor.durable import Durable, DurableError, FileAlreadyThere
from hibor.durable_fs import OsFileSystem
from hibor.messages import advice
from hibor.package.layout import Library
from hibor.people.commandline import (
    DONE,
    FOUND,
    Answers,
    Refusal,
    SpokenCommand,
    SpokenGroup,
    Words,
    run_command,
    shared,
)
from hibor.people.libraries import library_at
from hibor.people.run_view import records_of
from hibor.reading import open_kept, read_object

STEP: Final = "export.write"
_HEAD_BYTES: Final = 16


@attrs.frozen(kw_only=True)
class Refused:
    """One refused file: its name in the quarantine, what it is, since when and until when it is kept (ISO
    dates).
    """

    name: str
    size_bytes: int
    since: str
    until: str
    code: str | None
    title: str | None
    institution: str | None
    head: str


def refused_files(library: Library) -> list[Refused]:
    """Everything in the quarantine, newest first."""
    if not library.quarantine.is_dir():
        return []
    found = []
    for path in library.quarantine.iterdir():
        if path.is_file() and not path.is_symlink() and path.suffix == ".pdf":
            found.append(_refused(library, path))
    return sorted(found, key=lambda one: (one.since, one.name), reverse=True)


def _refused(library: Library, path: Path) -> Refused:
    facts = path.stat()
    since = datetime.fromtimestamp(facts.st_mtime, UTC)
    with open_kept(path) as stream:
        head = stream.read(_HEAD_BYTES)
    code = title = institution = None
    folder = library.refused_item(path)
    if folder is not None:
        item = read_object(folder.terminal).get("item") or {}
        code, title, institution = item.get("stop_code"), item.get("title"), item.get("institution")
        for record in records_of(folder):
            entry = record.data.get("entry") or {}
            title, institution = title or entry.get("title"), institution or entry.get("institution")
            code = code or record.data.get("code")
    return Refused(
        name=path.name,
        size_bytes=facts.st_size,
        since=since.date().isoformat(),
        until=(since + timedelta(days=GUARD_RAILS["quarantine_days"])).date().isoformat(),
        code=code,
        title=title,
        institution=institution,
        head="".join(chr(byte) if 32 <= byte < 127 else "." for byte in head),
    )


def build(words: Words) -> click.Command:
    """The command in a language."""
    group = SpokenGroup(words=words, section="quarantine")
    group.add_command(_build_list(words))
    group.add_command(_build_copy(words))
    return group


def _build_list(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="quarantine.list")
    @shared(words)
    def list_files(
        library: Path | None, task: Path | None, json_wanted: bool, quiet: bool, lang: str | None
    ) -> int:
        del lang
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        place = library_at(library, task)
        found = refused_files(place)
        if not found:
            answers.tell(words("quarantine.list.empty"))
        for one in found:
            answers.tell("  ".join(filter(None, (one.since, one.code, one.institution, one.title))))
            if one.code:
                answers.tell(f"    {advice(words.lang, one.code).what}")
            answers.tell(
                "    " + words("quarantine.list.kept", until=one.until, size=one.size_bytes, head=one.head)
            )
            answers.tell(f"    {place.quarantine / one.name}")
        answers.document({"files": [attrs.asdict(one) for one in found]})
        return DONE

    return list_files


def _build_copy(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="quarantine.copy")
    @click.argument("name")
    @click.option("-o", "--output", type=click.Path(path_type=Path), help=words("quarantine.copy.output"))
    @click.option("--replace", is_flag=True, help=words("common.replace"))
    @shared(words)
    def copy(
        name: str,
        output: Path | None,
        replace: bool,
        library: Path | None,
        task: Path | None,
        json_wanted: bool,
        quiet: bool,
        lang: str | None,
    ) -> int:
        del lang
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        place = library_at(library, task)
        if name not in {one.name for one in refused_files(place)}:
            raise Refusal("quarantine.copy.unknown", exit_code=FOUND, name=name)
        path = (output or Path(name)).absolute()

        def fill(stream: BinaryIO) -> None:
            with open_kept(place.quarantine / name) as source:
                shutil.copyfileobj(source, stream)

        durable = Durable(OsFileSystem(), SystemClock(), frozenset({STEP}))
        try:
            durable.export(path, fill, step=STEP, replace=replace)
        except FileAlreadyThere as error:
            raise Refusal("common.exists", exit_code=FOUND, path=path) from error
        except DurableError as error:
            raise Refusal("common.not_written", exit_code=FOUND, path=path) from error
        answers.tell(words("quarantine.copy.done", path=path))
        answers.document({"path": str(path)})
        return DONE

    return copy


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "quarantine", arguments)


if __name__ == "__main__":
    sys.exit(main())
