"""`hibor library verify`: hash and open every final PDF again (issue "For the people who use it", 8).

Rules of this file:

* Nothing in the library is changed. Progress is kept in `<library>/verify.sqlite3`, which may be deleted at
  any time; an interrupted pass goes on where it stopped, a finished one begins anew.
* A file is checked against the newest manifest row of its path: size, sha256, page count, and whether it
  opens.
* What is said about a fault is the code the PDF check gives it; a file that is gone is its own word,
  `missing`.
* PDFs under `reports/` that no manifest row names are listed as strangers: a warning, not a fault.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import attrs
import click

from hibor.clock import SystemClock
from hibor.package.layout import Library
from hibor.package.manifest import ManifestRow
from hibor.pdf import PdfWorkerUnavailable, check_pdf
from hibor.people.commandline import (
    DONE,
    FOUND,
    WARNINGS,
    Answers,
    Refusal,
    SpokenCommand,
    SpokenGroup,
    Words,
    run_command,
    shared,
)
from hibor.people.libraries import library_at, sync_program
from hibor.people.run_view import manifest_rows

STATE_NAME: Final = "verify.sqlite3"
MISSING: Final = "missing"
CHECK_TIMEOUT_S: Final = 60.0
BUSY_S: Final = 5.0
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS pass (started_at TEXT NOT NULL, finished INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS checked "
    "(final_path TEXT PRIMARY KEY, sha256 TEXT NOT NULL, finding TEXT NOT NULL)",
)
WELL: Final = "ok"


@attrs.frozen(kw_only=True)
class Fault:
    """One file that is not what the manifest says. `finding` is a code of the PDF check or `missing`."""

    final_path: str
    report_id: str
    title: str | None
    finding: str


class Pass:
    """One pass over the library that survives an interruption; in memory where the library cannot be
    written.
    """

    def __init__(self, library: Library, *, again: bool) -> None:
        try:
            self._database = sqlite3.connect(library.root / STATE_NAME, timeout=BUSY_S, isolation_level=None)
            self._begin(again)
        except sqlite3.Error:
            self._database = sqlite3.connect(":memory:", isolation_level=None)
            self._begin(again)

    def _begin(self, again: bool) -> None:
        for statement in _SCHEMA:
            self._database.execute(statement)
        row = self._database.execute("SELECT finished FROM pass").fetchone()
        self.resumed = row is not None and not row[0] and not again
        if not self.resumed:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.execute("DELETE FROM checked")
            self._database.execute("DELETE FROM pass")
            at = SystemClock().now().isoformat(timespec="milliseconds")
            self._database.execute("INSERT INTO pass VALUES (?, 0)", (at,))
            self._database.execute("COMMIT")

    def known(self) -> dict[str, tuple[str, str]]:
        """What this pass has checked: path to (sha256 it was checked against, finding)."""
        rows = self._database.execute("SELECT final_path, sha256, finding FROM checked")
        return {path: (sha256, finding) for path, sha256, finding in rows}

    def note(self, row: ManifestRow, finding: str) -> None:
        """Keep the result of one file."""
        values = (row.final_path, row.sha256 or "", finding)
        self._database.execute("INSERT OR REPLACE INTO checked VALUES (?, ?, ?)", values)

    def finish(self) -> None:
        """The whole library was looked at."""
        self._database.execute("UPDATE pass SET finished = 1")

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


def finals(library: Library) -> dict[str, ManifestRow]:
    """The newest manifest row of each final path, in the order of paths. Raises `Refusal`."""
    newest = {row.final_path: row for row in manifest_rows(library) if row.final_path is not None}
    return dict(sorted(newest.items()))


def check_final(library: Library, row: ManifestRow) -> str:
    """`ok`, `missing`, or the code of what is wrong. Raises `PdfWorkerUnavailable`."""
    try:
        path = library.absolute(str(row.final_path))
    except ValueError:
        return MISSING
    if not os.path.lexists(path):
        return MISSING
    found = check_pdf(
        path, size_bytes=row.bytes, sha256=row.sha256, page_count=row.page_count, timeout_s=CHECK_TIMEOUT_S
    )
    return WELL if found.ok else found.code


def strangers(library: Library, known: Sequence[str]) -> Iterator[str]:
    """PDFs under `reports/` that no manifest row names, in the order of paths."""
    names = set(known)
    if not library.reports.is_dir():
        return
    for path in sorted(library.reports.rglob("*.pdf")):
        relative = library.relative(path)
        if relative not in names:
            yield relative


def build(words: Words) -> click.Command:
    """The command in a language."""
    group = SpokenGroup(words=words, section="library")
    group.add_command(_build_verify(words))
    return group


def _build_verify(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="library.verify")
    @click.option("--again", is_flag=True, help=words("library.verify.again"))
    @shared(words)
    def verify(
        again: bool, library: Path | None, task: Path | None, json_wanted: bool, quiet: bool, lang: str | None
    ) -> int:
        del lang
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        place = library_at(library, task)
        if not place.runs.is_dir() and not place.manifest.exists():
            raise Refusal("library.verify.no_library", path=place.root)
        program = sync_program(place.root)
        if program is not None:
            answers.warn("common.sync_folder", program=program)
        rows = finals(place)
        with closing(Pass(place, again=again)) as state:
            faults = _verify(place, rows, state, answers)
            state.finish()
        odd = list(strangers(place, list(rows)))
        for fault in faults:
            answers.tell(_told(fault, words))
        if faults:
            answers.tell(words("library.verify.way_out"))
        for relative in odd:
            answers.tell(words("library.verify.stranger", path=relative))
        answers.tell(words("library.verify.done", count=len(rows), faults=len(faults), strangers=len(odd)))
        answers.document(
            {"checked": len(rows), "faults": [attrs.asdict(fault) for fault in faults], "strangers": odd}
        )
        return FOUND if faults else WARNINGS if odd or program is not None else DONE

    return verify


def _verify(library: Library, rows: dict[str, ManifestRow], state: Pass, answers: Answers) -> list[Fault]:
    known = state.known()
    if state.resumed and known:
        answers.say("library.verify.resumed", count=len(known))
    faults: list[Fault] = []
    step = max(1, len(rows) // 20)
    for number, (path, row) in enumerate(rows.items(), start=1):
        before = known.get(path)
        if before is not None and before[0] == (row.sha256 or ""):
            finding = before[1]
        else:
            try:
                finding = check_final(library, row)
            except PdfWorkerUnavailable as error:
                raise Refusal("library.verify.no_worker", exit_code=FOUND) from error
            state.note(row, finding)
        if finding != WELL:
            faults.append(Fault(final_path=path, report_id=row.report_id, title=row.title, finding=finding))
        if number % step == 0 or number == len(rows):
            answers.say("library.verify.progress", number=number, count=len(rows), faults=len(faults))
    return faults


def _told(fault: Fault, words: Words) -> str:
    kind = "missing" if fault.finding == MISSING else "altered"
    what = words(f"library.verify.{kind}")
    return words("library.verify.fault", path=fault.final_path, what=what, code=fault.finding)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "library", arguments)


if __name__ == "__main__":
    sys.exit(main())
