"""Verdicts: what holds after every run whatever its fault, and what a scenario's row says.

Rules of this file: pure; a problem is one sentence for people; an empty list is a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from generated.failures import FAILURE_CODES
from hibor.items.kept_screen import UI_FAILURES
from tools.faults.books import Books
from tools.faults.expect import Expected, RunExpected
from tools.faults.play import Played, RunSeen

DELIVERED = ("SUCCESS", "DUPLICATE")
CLOSING_REAL_S = 1.0
"""Real seconds a run may take to close after its window."""
PLAIN_NOTES = ("NONE", "ZERO_QUOTA_REUSE")


def screen_codes(table: Mapping[str, Mapping[str, str]] = FAILURE_CODES) -> frozenset[str]:
    """Codes that only failures have whose reason can be seen: the screen must lie beside them."""
    seen = {code for failure in UI_FAILURES for code in table.get(failure, {}).values()}
    others = (codes for failure, codes in table.items() if failure not in UI_FAILURES)
    return frozenset(seen.difference(*(codes.values() for codes in others)))


SCREEN_CODES = screen_codes()


def item_words(item: dict[str, Any]) -> str:
    """An item as the table shows it: `STATE STATUS NOTE QUOTA`."""
    return " ".join(str(item[key]) for key in ("state", "status", "error_or_note", "quota_state"))


def odd_items(document: dict[str, Any]) -> list[str]:
    """Items that did not simply succeed."""
    return sorted(
        item_words(item)
        for item in document["items"]
        if item["status"] != "SUCCESS" or item["error_or_note"] not in PLAIN_NOTES
    )


def delivered(document: dict[str, Any]) -> int:
    """How many items have their PDF in the package."""
    return sum(item["status"] in DELIVERED for item in document["items"])


def always(seen: RunSeen, which: str) -> list[str]:
    """What holds after every run."""
    problems: list[str] = []
    if seen.hung:
        problems.append("did not end by itself")
    if "Traceback" in seen.stderr:
        problems.append("a traceback on stderr")
    document = seen.document
    if document is None:
        problems.append("stdout is not one JSON document")
    else:
        if document["exit_code"] != seen.exit_code:
            problems.append(f"exit {seen.exit_code}, the document says {document['exit_code']}")
        problems += [*_window_and_label(document), *_screens_kept(seen.books, document)]
    return [f"{which}: {problem}" for problem in [*problems, *_books(seen.books)]]


def _window_and_label(document: dict[str, Any]) -> list[str]:
    """The run ends with its window, but for its own files; safe_available follows the label."""
    problems, timing, quota = [], document["timing"], document["quota"] or {}
    if timing is not None:
        late_s = timing["phone_time_s"] - timing["deadline_s"]
        if late_s > CLOSING_REAL_S * timing.get("time_scale", 1.0):
            problems.append(f"{timing['phone_time_s']:.0f} s of phone time, past its window")
    label, safe = quota.get("label_after"), quota.get("safe_after")
    if label is not None and safe is not None and safe > label:
        problems.append(f"safe_available {safe}, but the app's label says {label}")
    return problems


def _screens_kept(books: Books, document: dict[str, Any]) -> list[str]:
    """A screen that stopped an item or the run is kept whole, and the run's document names its files."""
    own = f"runs/{document['run_id']}/"
    kept = [one for one in books.evidence if one.folder.startswith(own)]
    problems = [f"{one.folder}: {', '.join(one.files)} is no whole record" for one in kept if not one.whole]
    named = set((document.get("paths") or {}).get("evidence", ()))
    there = {f"{one.folder}/{name}" for one in kept for name in one.files}
    if named != there:
        problems.append(f"the document names other screens: {sorted(named ^ there)}")
    owners = {one.owner.split("-", 1)[-1] for one in kept}
    for item in document["items"]:
        code = item["error_or_note"].partition(":")[2]
        if code in SCREEN_CODES and item["quota_state"] != "NONE" and item["item_id"] not in owners:
            problems.append(f"{code} without its screen")
    code = (document["stop_reason"] or {}).get("code")
    if document["status"] == "STOPPED" and code in SCREEN_CODES and not kept:
        problems.append(f"{code} without its screen")
    return problems


def _books(books: Books) -> list[str]:
    """No double spend, no bad PDF, nothing executed."""
    quota, served = books.quota(), sum(books.served.values())
    doubtful = quota["UNCERTAIN"] + sum(
        family.terminal is None and family.item_id in books.intents for family in books.families
    )
    problems = []
    if not quota["CONFIRMED"] <= served <= quota["CONFIRMED"] + doubtful:
        problems.append(f"served {served}, CONFIRMED {quota['CONFIRMED']}, in doubt {doubtful}")
    families = Counter(family.report_id for family in books.families if family.terminal != "RELEASED")
    twice = [report for report, count in books.served.items() if count > max(1, families[report])]
    if twice:
        problems.append(f"served twice: {', '.join(twice)}")
    if books.substitutions:
        problems.append(f"{books.substitutions} shell substitutions ran on the phone")
    return [*problems, *books.wrong_finals]


def judge(played: Played, expected: Expected | None) -> list[str]:
    """Every problem of a played scenario."""
    problems = [*always(played.first, "run 1"), *always(played.after, "run 2")]
    if expected is None:
        return [*problems, "no row in expected.toml"]
    problems += _against(played.first, expected.first, "run 1")
    problems += _against(played.after, expected.after, "run 2")
    return [*problems, *_first_books(played.first, expected)]


def _against(seen: RunSeen, expected: RunExpected, which: str) -> list[str]:
    document = seen.document
    if document is None:
        return []
    reason = document["stop_reason"]
    pairs: list[tuple[str, Any, Any]] = [
        ("status", document["status"], expected.status),
        ("exit", seen.exit_code, expected.exit),
    ]
    if expected.stop != "*":
        pairs.append(("stop", "" if reason is None else reason["code"], expected.stop))
    if expected.recovered is not None:
        found = sorted(map(item_words, document["recovered"]))
        pairs.append(("recovered", found, sorted(expected.recovered)))
    if expected.delivered is not None:
        pairs.append(("delivered", delivered(document), expected.delivered))
    if expected.odd is not None:
        pairs.append(("other items", odd_items(document), sorted(expected.odd)))
    return [f"{which}: {name} {got}, expected {wanted}" for name, got, wanted in pairs if got != wanted]


def _first_books(seen: RunSeen, expected: Expected) -> list[str]:
    """Quota, evidence and words of the run with the fault."""
    problems, books = [], seen.books
    served = sum(books.served.values())
    if expected.served is not None and served != expected.served:
        problems.append(f"run 1: served {served}, expected {expected.served}")
    if expected.quota is not None and dict(books.quota()) != dict(expected.quota):
        problems.append(f"run 1: ledger {dict(books.quota())}, expected {dict(expected.quota)}")
    if expected.hold != (books.hold is not None):
        problems.append(f"run 1: hold {books.hold!r}")
    document = seen.document or {}
    if expected.unexplained is not None:
        unexplained = (document.get("quota") or {}).get("unexplained")
        if unexplained != expected.unexplained:
            problems.append(f"run 1: unexplained {unexplained}, expected {expected.unexplained}")
    return [*problems, *_screens(books, document, expected)]


def _screens(books: Books, document: dict[str, Any], expected: Expected) -> list[str]:
    problems = []
    kept = [one for one in books.evidence if "diagnosis.txt" in one.files]
    if expected.evidence and not any(one.dump for one in kept):
        problems.append("run 1: no saved screen")
    if expected.evidence and not any(one.picture for one in kept):
        problems.append("run 1: no screenshot, and no word why")
    said = "\n".join([*(one.diagnosis for one in books.evidence), str(document.get("stop_reason"))])
    problems += [f"run 1: nothing says {word!r}" for word in expected.mentions if word not in said]
    return problems
