"""Readable traces of one item's way through the machine, compared byte for byte with the files beside this
one.

A trace is written by the machine itself: the work it names at a node, the event, the order's steps with
what each moves and leaves behind, the evidence afterwards. `pytest tests/traces --rewrite-traces` writes
them anew; the diff is then read by a person. The last tests compare the traces with what real items of a
real run left behind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from fsm import Facts, ItemMachine, WorkOrder
from tests.conftest import WarmLibrary
from tests.main_job import events, item_folder, journal, lines_of

FOLDER = Path(__file__).parent
NEW, PURE = "NEW_TRIGGER", "PURE_REUSE"


@attrs.frozen
class Fire:
    """An event at the node the machine stands at (`close:<variant>`: the event that closes it as that).

    `quota` and `known` are the item's facts from then on.
    """

    event: str
    quota: str | None = None
    known: bool | None = None


@attrs.frozen
class Stop:
    """The work stops with a code: the item closes if a closure accepts that, else its state is kept."""

    code: str
    artifact: str | None = None
    why: str = ""


@attrs.frozen
class Found:
    """Evidence that is seen without a step of this order (a PURE item's staging counts from its STATE on)."""

    letter: str
    value: str


@attrs.frozen
class Scenario:
    """One item's story."""

    title: str
    lane: str
    story: tuple[Fire | Stop | Found, ...]


TRIGGERED = (Fire("admitted", "RESERVED"), Fire("detail_open"), Fire("confirmed", "CONFIRMED"), Fire("seek"))
PACKED = (Fire("recorded"), Fire("told"), Fire("timed"))
DELIVERED = (*PACKED, Fire("close:C01_NEW_SUCCESS"))
REUSED = (*PACKED, Fire("close:C03_REUSE_SUCCESS"))
SCENARIOS = {
    "new_success": Scenario(
        "A new download, from reservation to delivery.",
        NEW,
        (*TRIGGERED, Fire("matched", known=True), Fire("pulled"), Fire("sound"), *DELIVERED),
    ),
    "new_duplicate": Scenario(
        "The path holds the identical file already: decided at P05, written by the closure (rulings R5, R7).",
        NEW,
        (*TRIGGERED, Fire("matched", known=True), Fire("pulled"), Fire("identical")),
    ),
    "new_rejected_file": Scenario(
        "The paid file is no PDF: the verdict is appended first, then the item closes (ruling R11).",
        NEW,
        (
            *TRIGGERED,
            Fire("matched", known=True),
            Fire("pulled"),
            Fire("refused"),
            Stop("PDF_NOT_OPENABLE", "FAILURE"),
        ),
    ),
    "new_changed_file": Scenario(
        "The file changes while it is pulled: back to the match, once (ruling R14).",
        NEW,
        (
            *TRIGGERED,
            Fire("matched", known=True),
            Fire("changed"),
            Fire("matched"),
            Fire("pulled"),
            Fire("sound"),
            *DELIVERED,
        ),
    ),
    "new_not_occurred": Scenario(
        "It is proved that the tap started nothing: the reservation is released (ruling R21).",
        NEW,
        (
            Fire("admitted", "RESERVED"),
            Fire("detail_open"),
            Fire("not_occurred", "RELEASED"),
            Stop("TRIGGER_NOT_OCCURRED"),
        ),
    ),
    "new_uncertain_found": Scenario(
        "The tap's outcome is unknown, but the file is there: the item goes on (ruling R14).",
        NEW,
        (
            Fire("admitted", "RESERVED"),
            Fire("detail_open"),
            Fire("uncertain", "UNCERTAIN"),
            Fire("seek", known=True),
            Fire("matched"),
            Fire("pulled"),
            Fire("sound"),
            *DELIVERED,
        ),
    ),
    "new_uncertain_lost": Scenario(
        "The tap's outcome stays unknown after one later look: closed, never released (rulings R10, R19).",
        NEW,
        (
            Fire("admitted", "RESERVED"),
            Fire("detail_open"),
            Fire("uncertain", "UNCERTAIN"),
            Stop("TRIGGER_UNCERTAIN"),
        ),
    ),
    "new_kept": Scenario(
        "The window closes on a paid item: nothing is written off, the state is kept (ruling R10).",
        NEW,
        (*TRIGGERED, Fire("matched", known=True), Fire("pulled"), Stop("DEADLINE_EXPIRED")),
    ),
    "new_no_quota": Scenario("No quota is left: nothing was reserved.", NEW, (Stop("QUOTA_EXHAUSTED"),)),
    "pure_library": Scenario("A verified copy is in the library.", PURE, (Fire("held"), *REUSED)),
    "pure_cache": Scenario(
        "The phone's cache holds the file: P06 is entered in one step, nothing is spent.",
        PURE,
        (Found("S", "V"), Fire("published"), *REUSED),
    ),
    "pure_duplicate": Scenario(
        "A cached file whose path holds the identical file without a row: told while publishing (R7).",
        PURE,
        (Found("S", "V"), Fire("identical"), *PACKED, Fire("close:C04_REUSE_DUPLICATE")),
    ),
    "pure_rejected": Scenario(
        "The cached file fails its checks: closed at P00, a NEW item may follow (ruling R20).",
        PURE,
        (Stop("CANDIDATE_REJECTED"),),
    ),
}


class Teller:
    """Walks a scenario and tells it."""

    def __init__(self, scenario: Scenario) -> None:
        self.machine = ItemMachine(scenario.lane)
        self.objects = self.machine.tables.objects
        self.presence = "N" * len(self.objects)
        self.quota, self.known = "NONE", False
        self.seen: dict[str, str] = {}
        self.lines = [f"# {scenario.title}", f"{scenario.lane}", ""]
        for part in scenario.story:
            self.tell(part)

    def tell(self, part: Fire | Stop | Found) -> None:
        if isinstance(part, Found):
            self.seen[part.letter] = part.value
        elif isinstance(part, Fire):
            self.quota = part.quota or self.quota
            self.known = self.known if part.known is None else part.known
            self.fire(part.event)
        else:
            self.stop(part)

    def facts(self) -> Facts:
        return Facts(self.quota, cache_identity_known=self.known)

    def fire(self, event: str) -> None:
        node, work = self.machine.node, self.machine.work()
        _close, _colon, variant = event.partition(":")
        if variant:
            event = self.machine.tables.close_events[self.machine.lane, node][variant]
        order = self.machine.order(event, self.facts())
        self.lines.append(f"{node} {self.presence}  {work} → {event}")
        self.do(order)

    def do(self, order: WorkOrder) -> None:
        before = self.presence
        letters = dict(zip(self.objects, before, strict=True)) | self.seen
        self.seen = {}
        for step in order.steps:
            moves = " ".join(f"{name}={letter}" for name, letter in step.moves)
            marks = f"[{step.marks}]" if step.marks else ""
            self.lines.append(f"    {step.name:<19} {step.kind:<10} {step.of:<8} {moves:<8} {marks}".rstrip())
            letters |= dict(step.moves)
        after = "".join(letters[name] for name in self.objects)
        self.machine.commit(order, Facts(self.quota, cache_identity_known=True), before, after)
        self.presence = after
        closed = f"  as {order.variant} from {order.source}" if order.variant else ""
        if order.closes:
            self.lines.append(f"{order.target} {after}{closed}")

    def stop(self, part: Stop) -> None:
        machine, node = self.machine, self.machine.node
        self.lines.append(f"{node} {self.presence}  {machine.work()} stops: {part.code}")
        action = machine.tables.keep_or_close[machine.lane][node][self.quota][part.code]
        if action == "keep":
            self.lines.append(f"{node} {self.presence}  kept, quota {self.quota}; the next run goes on")
            return
        order = machine.closing_order(self.presence, part.artifact, part.code)
        assert order is not None, "to be closed, and no closure accepts it"
        self.do(order)


@pytest.mark.parametrize("name", SCENARIOS)
def test_trace(name: str, rewrite_traces: bool) -> None:
    told = "\n".join(Teller(SCENARIOS[name]).lines) + "\n"
    path = FOLDER / f"{name}.txt"
    if rewrite_traces:
        path.write_text(told, encoding="utf-8", newline="\n")
    assert path.read_text("utf-8") == told


def test_every_trace_file_has_its_scenario() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SCENARIOS)


# -- the same story, left behind by a real item ----------------------------------------------------------


def steps_of(name: str) -> Iterator[str]:
    """Names of the durable steps of a trace, in order."""
    for line in (FOLDER / f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("    "):
            yield line.split()[0]


RECORD_OF = {
    "open.journal": "ITEM_OPENED",
    "reserve.append": "RESERVED",
    "intent.journal": "TRIGGER_INTENT",
    "confirm.append": "CONFIRMED",
    "seek.journal": "STATE",
    "identity.journal": "CACHE_IDENTITY",
    "publish.journal": "PUBLISH_INTENT",
    "artifact.append": "ARTIFACT_SUCCESS",
    "reuse.journal": "STATE",
    "manifest.append": "manifest row",
    "terminal.write": "terminal.json",
}


def left_behind(library: Path, item: dict[str, Any]) -> list[str]:
    """Every dated record of one item, in order of time: journal, ledger, manifest, terminal."""
    rows = [(row, "manifest row") for row in lines_of(library / "manifest.jsonl")]
    rows += [(event, event["type"]) for event in events(library)]
    found = [(record["at"], record["event"]) for record in journal(library, item)]
    found += [(row["at"], what) for row, what in rows if row["item_id"] == item["item_id"]]
    terminal = json.loads((item_folder(library, item) / "terminal.json").read_bytes())
    found.append((terminal["written_at"], "terminal.json"))
    return [what for _at, what in sorted(found, key=lambda one: one[0])]


@pytest.mark.parametrize(
    ("source", "trace"),
    [("NEW_TRIGGER", "new_success"), ("CACHE_REUSE", "pure_cache"), ("PROJECT_REUSE", "pure_library")],
)
def test_real_items_left_what_their_trace_tells(warm: WarmLibrary, source: str, trace: str) -> None:
    items = [item for item in (*warm.first.items, *warm.second.items) if item["source"] == source]
    assert items
    told = [RECORD_OF[step] for step in steps_of(trace) if step in RECORD_OF]
    for item in items:
        assert left_behind(warm.path, item) == told, item["item_index"]
