"""`hibor want`: the want-list of a library, reports that go first when they can be had.

Format: `<library>/want.jsonl`, one JSON line an entry or a removal, keys in the order of `Want`; only ever
appended to, under its own lock. Recovery rule: an unfinished last line was never acknowledged and is left
out; the next append moves it aside. A line that cannot be read is reported and left out; the list is a
wish, never a reason to pay.

An entry wants reports by code (a stock code such as 600519, or a report id), institution and keyword; all
that are given must fit. An entry ends when a report that fits it is in the manifest after it was added, or
when it is removed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import attrs
import click

from hibor.clock import SystemClock
from hibor.durable import Durable, DurableError
from hibor.durable_fs import OsFileSystem
from hibor.locks import NOTE_STEPS, Locks, LockTimeout, LockUnusable
from hibor.package.layout import Library
from hibor.package.names import normalise_text
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
from hibor.people.run_view import manifest_rows, read_time
from hibor.reading import read_kept

SCHEMA_VERSION: Final = 1
STEP: Final = "want.append"
ADDED, REMOVED = "added", "removed"


class Described(Protocol):
    """What a report is matched by: a catalogue entry or a manifest row."""

    @property
    def report_id(self) -> str: ...
    @property
    def title(self) -> str | None: ...
    @property
    def institution(self) -> str | None: ...
    @property
    def stock_code(self) -> str | None: ...


Report = TypeVar("Report", bound=Described)


@attrs.frozen(kw_only=True)
class Want:
    """One wish. `want_id` is 8 hex digits, `at` ISO 8601, `source` says who wished (`person`, `unfunded`)."""

    want_id: str
    at: str
    code: str | None = None
    institution: str | None = None
    keyword: str | None = None
    source: str = "person"

    def fits(self, report: Described) -> bool:
        """Whether a report is one that is wanted; a wish for nothing fits nothing."""
        codes = (normalise_text(report.report_id), normalise_text(report.stock_code or ""))
        institution, title = normalise_text(report.institution or ""), normalise_text(report.title or "")
        asked = (self.code, self.institution, self.keyword)
        code, broker, keyword = (None if text is None else normalise_text(text) for text in asked)
        fits = (code is None or code in codes, broker is None or broker in institution)
        return any(asked) and all(fits) and (keyword is None or keyword in title)


@attrs.frozen
class WantList:
    """The wishes that are still open, oldest first, and how many lines could not be read."""

    wants: tuple[Want, ...] = ()
    unread: int = 0

    def wanted(self, report: Described) -> bool:
        """Whether any wish fits."""
        return any(want.fits(report) for want in self.wants)

    def first(self, reports: Iterable[Report]) -> list[Report]:
        """The same reports, wanted ones in front, otherwise in the order given (newest first)."""
        return sorted(reports, key=lambda report: not self.wanted(report))


def want_path(library: Library) -> Path:
    """Where the list lies."""
    return library.root / "want.jsonl"


def read_wants(library: Library) -> WantList:
    """The open wishes of a library: neither removed nor met by a report that came since."""
    try:
        data = read_kept(want_path(library))
    except FileNotFoundError:
        return WantList()
    except OSError:
        return WantList(unread=1)
    wants: dict[str, Want] = {}
    unread = 0
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        try:
            value = json.loads(line)
            event, version = value.pop("event"), value.pop("schema_version")
            if version != SCHEMA_VERSION or event not in (ADDED, REMOVED):
                raise ValueError
            want = Want(**value)
        except (ValueError, TypeError, KeyError, AttributeError):
            unread += 1
            continue
        if event == ADDED:
            wants[want.want_id] = want
        else:
            wants.pop(want.want_id, None)
    return WantList(tuple(_unmet(library, wants.values())), unread)


def _unmet(library: Library, wants: Iterable[Want]) -> Iterable[Want]:
    try:
        rows = manifest_rows(library)
    except Refusal:  # a damaged manifest proves nothing
        rows = ()
    for want in wants:
        since = read_time(want.at)
        came = [moment for row in rows if want.fits(row) and (moment := read_time(row.at)) is not None]
        if since is None or not any(moment >= since for moment in came):
            yield want


def add_want(
    library: Library,
    durable: Durable,
    *,
    at: str,
    code: str | None = None,
    institution: str | None = None,
    keyword: str | None = None,
    source: str = "person",
) -> Want:
    """Add a wish, or return the open one that says the same. Raises `DurableError`, `LockTimeout`."""
    for open_want in read_wants(library).wants:
        if (open_want.code, open_want.institution, open_want.keyword) == (code, institution, keyword):
            return open_want
    text = "\n".join(part or "" for part in (at, code, institution, keyword))
    want_id = hashlib.sha256(text.encode()).hexdigest()[:8]
    want = Want(want_id=want_id, at=at, code=code, institution=institution, keyword=keyword, source=source)
    _append(library, durable, ADDED, want)
    return want


def want_unfunded(library: Library, durable: Durable, report_ids: Iterable[str], *, at: str) -> list[Want]:
    """Wish for selected reports that met the end of the quota, so that the next run takes them first.

    Raises `DurableError`, `LockTimeout`; what was added before stays.
    """
    return [add_want(library, durable, at=at, code=report_id, source="unfunded") for report_id in report_ids]


def remove_want(library: Library, durable: Durable, want: Want) -> None:
    """End a wish. Raises `DurableError`, `LockTimeout`."""
    _append(library, durable, REMOVED, want)


def _append(library: Library, durable: Durable, event: str, want: Want) -> None:
    value = {"schema_version": SCHEMA_VERSION, "event": event, **attrs.asdict(want)}
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    path = want_path(library)
    with Locks(durable, SystemClock()).manifest(path):
        durable.move_unfinished_tail(path, step=STEP)
        durable.append_line(path, line, step=STEP)


def _durable() -> Durable:
    return Durable(OsFileSystem(), SystemClock(), NOTE_STEPS | {STEP})


def build(words: Words) -> click.Command:
    """The command in a language."""
    group = SpokenGroup(words=words, section="want")
    group.add_command(_build_add(words))
    group.add_command(_build_list(words))
    group.add_command(_build_remove(words))
    return group


def _build_add(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="want.add")
    @click.argument("code", required=False, metavar=words("want.add.metavar"))
    @click.option("--institution", help=words("want.add.institution"))
    @click.option("--keyword", help=words("want.add.keyword"))
    @shared(words)
    def add(
        code: str | None,
        institution: str | None,
        keyword: str | None,
        library: Path | None,
        task: Path | None,
        json_wanted: bool,
        quiet: bool,
        lang: str | None,
    ) -> int:
        del lang
        given = [text.strip() or None if text else None for text in (code, institution, keyword)]
        if not any(given):
            raise Refusal("want.add.nothing")
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        place = library_at(library, task)
        at = SystemClock().now().isoformat(timespec="milliseconds")
        try:
            want = add_want(place, _durable(), at=at, code=given[0], institution=given[1], keyword=given[2])
        except (DurableError, LockTimeout, LockUnusable) as error:
            raise Refusal("common.not_written", exit_code=FOUND, path=want_path(place)) from error
        answers.tell(words("want.add.done", want=want.want_id, what=_told(want, words)))
        answers.document({"added": attrs.asdict(want)})
        return DONE

    return add


def _build_list(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="want.list")
    @shared(words)
    def list_wants(
        library: Path | None, task: Path | None, json_wanted: bool, quiet: bool, lang: str | None
    ) -> int:
        del lang
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        found = read_wants(library_at(library, task))
        if found.unread:
            answers.warn("want.list.unread", count=found.unread)
        if not found.wants:
            answers.tell(words("want.list.empty"))
        for want in found.wants:
            answers.tell(f"{want.want_id}  {want.at[:10]}  {_told(want, words)}")
        answers.document({"wants": [attrs.asdict(want) for want in found.wants]})
        return DONE

    return list_wants


def _build_remove(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="want.remove")
    @click.argument("want_id")
    @shared(words)
    def remove(
        want_id: str,
        library: Path | None,
        task: Path | None,
        json_wanted: bool,
        quiet: bool,
        lang: str | None,
    ) -> int:
        del lang
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        place = library_at(library, task)
        want = next((one for one in read_wants(place).wants if one.want_id == want_id), None)
        if want is None:
            raise Refusal("want.remove.unknown", exit_code=FOUND, want=want_id)
        try:
            remove_want(place, _durable(), want)
        except (DurableError, LockTimeout, LockUnusable) as error:
            raise Refusal("common.not_written", exit_code=FOUND, path=want_path(place)) from error
        answers.tell(words("want.remove.done", what=_told(want, words)))
        answers.document({"removed": attrs.asdict(want)})
        return DONE

    return remove


def _told(want: Want, words: Words) -> str:
    parts: list[tuple[str, Any]] = [
        ("code", want.code),
        ("institution", want.institution),
        ("keyword", want.keyword),
    ]
    return words("want.separator").join(
        f"{words(f'want.part.{name}')} {value}" for name, value in parts if value
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "want", arguments)


if __name__ == "__main__":
    sys.exit(main())
