"""`hibor quota`: what became of each account's downloads, by day; for people and spreadsheets.

Rules of this file:

* The ledger is verified while it is read, without a lock; a line that is being written right now is left
  out. A ledger in doubt is reported with exit code 27 and nothing of it is counted.
* Everything but a released reservation counts as used, as for the collector (design 4).
"""

from __future__ import annotations

import csv
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import attrs
import click

from generated.governance import ERROR_EXITS
from hibor.package.layout import Library
from hibor.people.commandline import DONE, USAGE, Answers, Refusal, SpokenCommand, Words, run_command, shared
from hibor.people.libraries import library_at
from hibor.people.run_view import manifest_rows, reader
from hibor.quota.errors import LedgerInvalid
from hibor.quota.events import RESERVED
from hibor.quota.noted import known_heads, ledgers_of
from hibor.quota.reading import LedgerReading
from hibor.quota.statement import DOWNLOAD, UNEXPLAINED, Entry, statement

INVALID: Final = ERROR_EXITS["StateUncertain"]
SHOWN_DAYS: Final = 7
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_STATES: Final = ("CONFIRMED", "UNCERTAIN", "RESERVED", "RELEASED")
COLUMNS: Final = (
    "account",
    "day",
    "at",
    "report_id",
    "title",
    "institution",
    "state",
    "file",
    "run_id",
    "item_id",
)
STATEMENT_COLUMNS: Final = ("entry", *COLUMNS, "tapped_at", "units", "balance", "label")


@attrs.define(kw_only=True)
class Use:
    """One reservation and what became of it. `state` is a ledger type, `file` the artifact's, None without
    one.
    """

    account: str
    day: str
    at: str
    report_id: str
    run_id: str
    item_id: str
    state: str
    limit: int | None
    file: str | None = None
    title: str | None = None
    institution: str | None = None


def ledgers_named(library: Library, account: str | None) -> list[tuple[str, Path]]:
    """(account, ledger) of every ledger of a library, or of the named account. Raises `Refusal`."""
    found = ledgers_of(library)
    if account is None:
        return found
    its = [one for one in found if one[0] == account]
    if not its:
        known = ", ".join(name for name, _path in found) or "-"
        raise Refusal("quota.no_account", exit_code=USAGE, account=account, known=known)
    return its


def uses_of(library: Library, path: Path, account: str) -> list[Use]:
    """Every reservation of a ledger, oldest first. Raises `LedgerInvalid`."""
    heads = known_heads(library, reader(), account)
    uses: dict[str | None, Use] = {}
    for event in LedgerReading(path, account, heads, in_use=True).events():
        if event.type == RESERVED:
            uses[event.family] = Use(
                account=event.account,
                day=event.day,
                at=event.at,
                report_id=str(event.report_id),
                run_id=str(event.run_id),
                item_id=str(event.item_id),
                state=RESERVED,
                limit=event.data.get("limit"),
            )
        elif event.family in uses:
            use = uses[event.family]
            if event.type in _STATES:
                use.state = event.type
            else:
                use.file = event.type
    return list(uses.values())


def _name_reports(uses: Sequence[Use], library: Library) -> None:
    """Titles from the manifest, where the report came."""
    try:
        known = {row.report_id: row for row in manifest_rows(library)}
    except Refusal:
        return
    for use in uses:
        row = known.get(use.report_id)
        if row is not None:
            use.title, use.institution = row.title, row.institution


def sums_by_day(uses: Sequence[Use]) -> dict[str, dict[str, Any]]:
    """For each day, newest first: number of reservations in each state, what counts as used, the last
    limit.
    """
    days: dict[str, dict[str, Any]] = defaultdict(
        lambda: dict.fromkeys(map(str.lower, _STATES), 0) | {"limit": None}
    )
    for use in uses:
        days[use.day][use.state.lower()] += 1
        days[use.day]["limit"] = use.limit if use.limit is not None else days[use.day]["limit"]
    for sums in days.values():
        sums["used"] = sums["confirmed"] + sums["uncertain"] + sums["reserved"]
    return dict(sorted(days.items(), reverse=True))


def build(words: Words) -> click.Command:
    """The command in a language."""

    @click.command(cls=SpokenCommand, words=words, section="quota")
    @click.option("--account", help=words("quota.account"))
    @click.option("--day", metavar="YYYY-MM-DD", help=words("quota.day"))
    @click.option("--csv", "csv_wanted", is_flag=True, help=words("quota.csv"))
    @shared(words)
    def quota(
        account: str | None,
        day: str | None,
        csv_wanted: bool,
        library: Path | None,
        task: Path | None,
        json_wanted: bool,
        quiet: bool,
        lang: str | None,
    ) -> int:
        del lang
        if day is not None and not _is_day(day):
            raise Refusal("quota.bad_day", exit_code=USAGE, day=day)
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted or csv_wanted)
        place = library_at(library, task)
        uses: list[Use] = []
        for name, path in ledgers_named(place, account):
            try:
                found = uses_of(place, path, name)
            except LedgerInvalid as error:
                raise Refusal("quota.invalid", exit_code=INVALID, account=name, where=error.where) from error
            uses += [use for use in found if day is None or use.day == day]
        _name_reports(uses, place)
        by_account: dict[str, list[Use]] = defaultdict(list)
        for use in uses:
            by_account[use.account].append(use)
        days_of = (
            {name: statement(its, place, name, day) for name, its in by_account.items()} if day else {}
        )
        if csv_wanted and day:
            lines = [_line(one, name, day, words) for name, its in days_of.items() for one in its]
            _csv(lines, STATEMENT_COLUMNS, words)
            return DONE
        if csv_wanted:
            _csv([_row(use) for use in uses], COLUMNS, words)
            return DONE
        for name, its in by_account.items():
            _tell(name, its, words, answers, days_of.get(name, ()))
        if not uses:
            answers.tell(words("quota.empty"))
        days = {name: sums_by_day(its) for name, its in by_account.items()}
        answers.document(
            {
                "accounts": days,
                "uses": [attrs.asdict(use) for use in uses] if day else [],
                "statement": {
                    name: [attrs.asdict(one, filter=_no_use) for one in its]
                    for name, its in days_of.items()
                },
            }
        )
        return DONE

    return quota


def _is_day(text: str) -> bool:
    try:
        return _DAY.fullmatch(text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _no_use(attribute: attrs.Attribute[Any], _value: Any) -> bool:
    return attribute.name != "use"


def _tell(
    account: str, uses: Sequence[Use], words: Words, answers: Answers, lines: Sequence[Entry]
) -> None:
    answers.tell(words("quota.heading", account=account))
    for day, sums in list(sums_by_day(uses).items())[:SHOWN_DAYS]:
        limit = words("quota.no_limit") if sums["limit"] is None else sums["limit"]
        answers.tell("  " + words("quota.line", **{**sums, "day": day, "limit": limit}))
    for one in lines:
        if one.entry == DOWNLOAD and one.use is not None:
            title = one.use.title or one.use.report_id
            effect = words(f"page.quota_effect.{one.use.state}")
            answers.tell(f"  {one.use.at[11:19]}  {effect}  {title}")
            continue
        unknown = words("quota.no_limit")
        shown = {
            name: unknown if value is None else value
            for name, value in (("balance", one.balance), ("label", one.label), ("units", one.units))
        }
        key = "ends" if one.entry != UNEXPLAINED else "unexplained"
        at = " " * 8 if one.at is None else one.at[11:19]
        answers.tell(f"  {at}  " + words(f"quota.{key}", entry=words(f"quota.entry.{one.entry}"), **shown))


def _row(use: Use) -> Mapping[str, Any]:
    return attrs.asdict(use)


def _line(one: Entry, account: str, day: str, words: Words) -> Mapping[str, Any]:
    """A line of the statement as the columns name it."""
    shown = dict.fromkeys(STATEMENT_COLUMNS) if one.use is None else dict(_row(one.use))
    values = attrs.asdict(one, filter=_no_use)
    return {**shown, **values, "account": account, "day": day, "entry": words(f"quota.entry.{one.entry}")}


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], words: Words) -> None:
    """A byte order mark for spreadsheets when the output goes to a file."""
    if not sys.stdout.isatty():
        sys.stdout.write("\ufeff")
    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    writer.writerow([words(f"quota.column.{name}") for name in columns])
    for row in rows:
        writer.writerow([_cell(row[name]) for name in columns])


def _cell(value: Any) -> str:
    from hibor.package_zip import spreadsheet_cell

    return spreadsheet_cell(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "quota", arguments)
