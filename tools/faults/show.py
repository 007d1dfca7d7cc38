"""The table for people (text, HTML) and for programs (JSON)."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from tools.faults.expect import Expected
from tools.faults.judge import delivered, item_words, odd_items
from tools.faults.play import Played, RunSeen

HEADINGS = ("scenario", "faults", "run", "items", "quota", "served", "screens", "recovery", "verdict")
_STYLE = """body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}
td,th{border:1px solid #bbb;padding:.3em .5em;vertical-align:top;text-align:left}
th{background:#eee}.fail td{background:#fdd}td{white-space:pre-line}"""


@attrs.frozen
class Row:
    """One line of the table."""

    played: Played
    expected: Expected | None
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True when nothing is wrong."""
        return not self.problems


def run_words(seen: RunSeen) -> str:
    """Status, exit, stop code of a run."""
    if seen.document is None:
        return f"no document, exit {seen.exit_code}"
    reason = seen.document["stop_reason"]
    return f"{seen.document['status']} {seen.exit_code}" + ("" if reason is None else f" {reason['code']}")


def item_lines(seen: RunSeen) -> list[str]:
    """`n delivered` and one line for each kind of other item."""
    if seen.document is None:
        return []
    counted = Counter(odd_items(seen.document))
    other = [f"{count}x {words}" if count > 1 else words for words, count in counted.items()]
    return [f"{delivered(seen.document)} delivered", *other]


def quota_words(seen: RunSeen) -> str:
    """The ledger's families by state, e.g. `C6 U1`."""
    quota = seen.books.quota()
    words = [f"{state[0]}{quota[state]}" for state in ("CONFIRMED", "UNCERTAIN") if quota[state]]
    others = (("RELEASED", "Rel"), ("RESERVED", "Res"))
    words += [f"{short}{quota[state]}" for state, short in others if quota[state]]
    return " ".join(words) or "0"


def screen_words(seen: RunSeen) -> str:
    """What was kept of screens: how many records, and what the first is made of, e.g. `2 xml+png`."""
    kept = seen.books.evidence
    if not kept:
        return "-"
    parts = [part for part in ("xml", "png") if f"screen.{part}" in kept[0].files]
    return f"{len(kept)} {'+'.join(parts) or 'words'}"


def cells(row: Row) -> tuple[str, ...]:
    """The row's text, in the order of HEADINGS."""
    first, after = row.played.first, row.played.after
    recovered = [] if after.document is None else [item_words(item) for item in after.document["recovered"]]
    recovery = [run_words(after), *item_lines(after), *(f"recovered: {words}" for words in recovered)]
    recovery.append(f"served {sum(after.books.served.values())}")
    rows = () if row.expected is None else row.expected.rows
    return (
        row.played.name,
        " ".join(rows),
        run_words(first),
        "\n".join(item_lines(first)),
        quota_words(first),
        str(sum(first.books.served.values())),
        screen_words(first),
        "\n".join(recovery),
        "ok" if row.passed else "\n".join(row.problems),
    )


def as_text(rows: Sequence[Row]) -> str:
    """The table as lines: one for each scenario, details below it where there are any."""
    lines = [
        f"{'scenario':<24}{'faults':<12}{'run':<44}{'quota':<10}{'served':<8}{'screens':<12}{'recovery':<34}verdict"
    ]
    for row in rows:
        name, faults, run, items, quota, served, screens, recovery, _verdict = cells(row)
        first, *more = recovery.split("\n")
        mark = "ok" if row.passed else "WRONG"
        short = faults if len(faults) < 12 else faults[:7] + " …"
        lines.append(
            f"{name:<24}{short:<12}{run:<44}{quota:<10}{served:<8}{screens:<12}{first:<34}{mark}"
        )
        lines += [f"    {line}" for line in items.split("\n")[1:]]
        lines += [f"    later {line}" for line in more if line.startswith("recovered") or " STOP" in line]
        lines += [f"    ! {problem}" for problem in row.problems]
    failed = sum(not row.passed for row in rows)
    lines.append(f"{len(rows)} scenarios, {failed} not as expected")
    return "\n".join(lines) + "\n"


def as_values(rows: Sequence[Row]) -> dict[str, Any]:
    """The table as one JSON value."""
    table = []
    for row in rows:
        values = dict(zip(HEADINGS, cells(row), strict=True))
        table.append({**values, "passed": row.passed, "why": row.expected.why if row.expected else None})
    return {"schema_version": 1, "passed": all(row.passed for row in rows), "rows": table}


def as_html(rows: Sequence[Row]) -> str:
    """The table as one self-contained page."""
    head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
    body = []
    for row in rows:
        texts = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells(row))
        why = html.escape(row.expected.why if row.expected else "")
        body.append(f'<tr class="{"" if row.passed else "fail"}" title="{why}">{texts}</tr>')
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Fault table</title>'
        f"<style>{_STYLE}</style><h1>Fault table</h1>"
        f"<p>{len(rows)} scenarios, {sum(not row.passed for row in rows)} not as expected.</p>"
        f"<table><tr>{head}</tr>{''.join(body)}</table></html>\n"
    )
