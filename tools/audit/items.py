"""Every construction of the public item (V006 §3; rulings R4, R5, R9, R21-R24), against a naive twin.

The twin reads V006 §3 sentence by sentence and shares nothing with `fsm.build_terminal_item`. Enumerated are
all running items and all closings with every quota state, source and code, wrong closures, the windows of
C02, and every single-field deviation of a sound snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import attrs

from fsm import Closure, FsmError, ItemOutcome, ItemPackageSnapshot, Tables, build_terminal_item
from tests.fsm import samples, v006

from .findings import Check, Violation

SPEC = "terminal.yaml"
CODES = tuple(sorted(v006.ALL_CODES))
SAMPLE_CODES = ("NONE", "DUPLICATE_EXISTING_ARTIFACT", "DEADLINE_EXPIRED", "UNEXPECTED_EXCEPTION")

Case = tuple[ItemPackageSnapshot, ItemOutcome]


def running_items() -> Iterator[Case]:
    """Every node, presence, quota state (also those it may not carry), source and code."""
    for (lane, node), presences in v006.NODE_PRESENCES.items():
        for presence, quota, source in product(presences, v006.QUOTA_STATES, samples.SOURCES[lane]):
            if (quota, presence[3]) not in samples.PATTERN:
                continue
            snapshot = samples.running(lane, node, quota, presence, source=source)
            for code in CODES:
                yield snapshot, ItemOutcome(code)


def closed_items() -> Iterator[Case]:
    """Every closing of the contract with every quota state, source and code."""
    for (lane, short, presence, kind, _status), variant in v006.accepted_closings().items():
        for quota, source in product(v006.QUOTA_STATES, samples.SOURCES[lane]):
            if (quota, presence[3]) not in samples.PATTERN:
                continue
            if quota == "RESERVED" and short not in ("P01", "P02"):
                continue
            snapshot = samples.closed(lane, short, presence, quota, kind, source=source)
            closure = Closure(variant, v006.FULL[short])
            for code in CODES:
                yield snapshot, ItemOutcome(code, closure)


def wrong_closures() -> Iterator[Case]:
    """Every closing under every other variant's name, and from every other source."""
    for (lane, short, presence, kind, status), _variant in v006.accepted_closings().items():
        quota = v006.NODE_QUOTA[lane, _node(short, presence)][0]
        code = next(code for code in (*SAMPLE_CODES, *CODES) if v006.STATUS_OF_CODE[code] == status)
        snapshot = samples.closed(lane, short, presence, quota, kind)
        for variant, source in product(v006.VARIANTS, v006.OPEN_STATES):
            yield snapshot, ItemOutcome(code, Closure(variant, source))


def _node(short: str, presence: str) -> str:
    return v006.node_of(v006.FULL[short], presence)


def windows() -> Iterator[Case]:
    """The windows of C02 with and without its record, and records where they do not belong (ruling R5)."""
    fours = {"VVVV"} | {"VVVV"[:at] + letter + "VVVV"[at + 1 :] for at in range(4) for letter in v006.LETTERS}
    records = (None, "C02_NEW_DUPLICATE", "C08_PROCESSING_FAILED")
    for prefix, closing, quota in product(("".join(p) for p in product("NV", repeat=3)), records, v006.PAID):
        for four, kind in product(sorted(fours), ("DUPLICATE", "SUCCESS", "FAILURE", None)):
            if (quota, four[3]) not in samples.PATTERN:
                continue
            snapshot = samples.snapshot(v006.NEW, "P05", f"{four}{prefix}N", quota, kind, closing=closing)
            for code in SAMPLE_CODES[1:]:
                yield snapshot, ItemOutcome(code)
    for closing in v006.VARIANTS:
        snapshot = samples.snapshot(v006.NEW, "P05", "VVVVVNNN", "CONFIRMED", "DUPLICATE", closing=closing)
        yield snapshot, ItemOutcome("UNEXPECTED_EXCEPTION")


def deviations() -> Iterator[Case]:
    """A sound snapshot with one field changed."""
    sound = [
        (samples.running(v006.NEW, "P03-N", "CONFIRMED"), ItemOutcome("CACHE_TIMEOUT")),
        (samples.running(v006.NEW, "P09", "UNCERTAIN"), ItemOutcome("PERSIST_LATE")),
        (samples.running(v006.PURE, "P07"), ItemOutcome("DEADLINE_EXPIRED")),
        (samples.running(v006.NEW, "P01"), ItemOutcome("RECOVERY_UNKNOWN")),
    ]
    changes: dict[str, tuple[Any, ...]] = {
        "item_index": (0, -1, True),
        "run_id": ("",),
        "item_id": ("",),
        "report_id": ("",),
        "source": ("CACHE_REUSE", "NEW_TRIGGER", "PROJECT_REUSE", "OTHER"),
        "lane": ("NEW", v006.PURE, v006.NEW),
        "state": (*v006.FULL.values(), "P03"),
        "artifact": (None, "SUCCESS", "FAILURE", "DUPLICATE"),
        "quota_state": (*v006.QUOTA_STATES, "PAID"),
        "reservation_event_id": (None, "", "another"),
        "quota_terminal_event_id": (None, "", "another"),
        "artifact_event_id": (None, "", "another"),
        "trigger_attempted": (True, False),
        "triggered": (True, False, None),
        "final": (None, samples.FINAL, *_finals()),
        "manifest_row_id": (None, "", "m-1"),
        "cache_identity": (None, "file"),
        "closing": (None, *v006.VARIANTS, "C11"),
        "title": (None,),
        "analysts": (None, ()),
    }
    for (snapshot, outcome), (field, values) in product(sound, changes.items()):
        for value in values:
            yield attrs.evolve(snapshot, **{field: value}), outcome


def _finals() -> tuple[Any, ...]:
    good = samples.FINAL
    return (
        attrs.evolve(good, size_bytes=0),
        attrs.evolve(good, page_count=-1),
        attrs.evolve(good, sha256="A" * 64),
        attrs.evolve(good, sha256="0" * 63),
        attrs.evolve(good, path="/reports/a.pdf"),
        attrs.evolve(good, path="../a.pdf"),
        attrs.evolve(good, path="reports\\a.pdf"),
        attrs.evolve(good, path="C:/a.pdf"),
    )


KINDS: Final = (
    ("running", running_items),
    ("deviations", deviations),
    ("windows of C02", windows),
    ("closed", closed_items),
    ("wrong closures", wrong_closures),
)
MOST_SHOWN: Final = 20


def check_items(tables: Tables) -> Check:
    """All constructions: refused alike, or the same 26 values. Ends early once enough is wrong."""
    counts: Counter[str] = Counter()
    violations: list[Violation] = []
    for kind, cases in KINDS:
        for snapshot, outcome in cases():
            counts[kind] += 1
            fault = _difference(snapshot, outcome, tables, counts)
            if fault is not None:
                violations.append(fault)
            if len(violations) == MOST_SHOWN:
                return Check("public items", counts, tuple(violations))
    return Check("public items", counts, tuple(violations))


def _difference(
    snapshot: ItemPackageSnapshot, outcome: ItemOutcome, tables: Tables, counts: Counter[str]
) -> Violation | None:
    try:
        due: dict[str, Any] | None = samples.public_item(snapshot, outcome)
    except samples.Refused:
        due = None
    try:
        found: dict[str, Any] | None = build_terminal_item(snapshot, outcome, tables).to_dict()
    except FsmError:
        found = None
    counts["accepted"] += found is not None
    if found == due and (found is None or due is None or list(found) == list(due)):
        return None
    closure = outcome.closure
    example = f"{snapshot.lane} {snapshot.state} {snapshot.presence} {snapshot.quota_state} {outcome.code}"
    if closure is not None:
        example += f" {closure.variant} from {closure.source_state}"
    if found is None or due is None:
        word = "gap" if found is None else "conflicting"
        return Violation(word, SPEC, "refused" if found is None else "accepted beside the contract", example)
    keys = [key for key in due if found.get(key) != due[key]]
    return Violation(
        "conflicting", SPEC, f"the public item differs in {', '.join(keys) or 'its keys'}", example
    )
