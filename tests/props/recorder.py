"""What the suite reached through side effects: the coverage table of design 7, and its gate.

Only the real item machine counts: a cell when the probe of a driven item showed it, an edge or closing when
the machine committed it on probed evidence, codes, notes and stops when an item ended with them. What the
contract says there is to reach comes from the tables; what need not be reached comes from `known_unreachable`
alone, with one rule: a closing never shows a longer prefix than its source (ruling R5), C02 aside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from typing import Any

import attrs

from fsm import ItemMachine, Tables, Verdict, WorkOrder, verdict
from fsm.closures import source_prefix_length
from generated.unreachable import KNOWN_UNREACHABLE
from hibor.items.evidence import Evidence
from hibor.items.item import ItemRun
from tools.audit.closing import accepted_closings

VERDICT_EVENT = "refused"
TABLES = ("cells", "edges", "closures", "codes", "notes", "stops")


@attrs.define
class Recorder:
    """Which keys of which table were reached, and by which tests."""

    reached: dict[str, dict[str, set[str]]] = attrs.field(factory=lambda: {name: {} for name in TABLES})
    check: Callable[[ItemRun], None] | None = None
    faults: list[BaseException] = attrs.field(factory=list)

    def judge(self, item: ItemRun) -> None:
        """Check an ended item; faults are kept for the test, the item would take them for failures."""
        if self.check is not None:
            try:
                self.check(item)
            except Exception as error:
                self.faults.append(error)

    def raise_faults(self) -> None:
        """Raise the first thing a check found wrong since the last call."""
        faults, self.faults = self.faults, []
        if faults:
            raise faults[0]

    def note(self, table: str, key: str) -> None:
        """`key` was reached by the test that runs now."""
        self.reached[table].setdefault(key, set()).add(_test_now())

    def saw(self, item: ItemRun, evidence: Evidence) -> None:
        """A probe of a driven item."""
        machine = item.machine
        state = machine.state
        if state == machine.tables.closed_state:
            return
        if verdict(machine.lane, state, evidence.presence, machine.tables) in (Verdict.LEGAL, Verdict.HALT):
            node = machine.tables.node_of(state, evidence.presence)
            self.note("cells", f"{machine.lane} {node} {evidence.presence}")

    def moved(self, machine: ItemMachine, order: WorkOrder, after: str) -> None:
        """A committed order."""
        self.note("edges", edge_key(order.lane, order.source, order.event))
        if order.variant is not None:
            state = machine.tables.state_of(order.source)
            self.note("closures", closing_key(order.variant, order.lane, state, after))
        else:
            self.note("cells", f"{machine.lane} {order.target} {after}")


def _test_now() -> str:
    name = os.environ.get("PYTEST_CURRENT_TEST", "outside a test")
    return name.rpartition("/")[2].partition("[")[0].removesuffix(" (call)").removesuffix(" (setup)")


def edge_key(lane: str, source: str, event: str) -> str:
    """An edge's name in the table."""
    return f"{lane} {source} {event}"


def closing_key(variant: str, lane: str, state: str, presence: str) -> str:
    """A closing's name in the table."""
    return f"{variant} {lane} from {state} as {presence}"


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Listen to every item machine of this process."""
    commit, probe, perform = ItemMachine.commit, ItemRun.probe, ItemRun.perform
    finish, broken = ItemRun._finish, ItemRun._broken

    def committed(self: ItemMachine, order: WorkOrder, facts: Any, before: str, after: str) -> None:
        commit(self, order, facts, before, after)
        recorder.moved(self, order, after)

    def probed(self: ItemRun) -> Evidence:
        evidence = probe(self)
        recorder.saw(self, evidence)
        return evidence

    def performed(self: ItemRun, event: str) -> None:
        node, quota = self.machine.node, self.draft.quota_state
        perform(self, event)
        if event == VERDICT_EVENT:  # ruling R11: the stop is the verdict; what follows closes it
            recorder.note("stops", f"{self.job.lane} {node} {quota} {self.draft.verdict_code}")

    def finished(self: ItemRun, *args: Any, **more: Any) -> None:
        finish(self, *args, **more)
        assert self.result is not None
        closing = self.draft.closing or {}
        recorder.note("codes", self.result.code)
        recorder.note("notes", str(self.result.item["error_or_note"]))
        _note_stop(recorder, self, closing)
        recorder.judge(self)

    def broke(self: ItemRun, error: Any) -> None:
        broken(self, error)
        recorder.judge(self)

    patched: Mapping[Any, Mapping[str, Any]] = {
        ItemMachine: {"commit": committed},
        ItemRun: {"probe": probed, "perform": performed, "_finish": finished, "_broken": broke},
    }
    for owner, methods in patched.items():
        for name, method in methods.items():
            setattr(owner, name, method)
    try:
        yield
    finally:
        ItemMachine.commit = commit  # type: ignore[method-assign]
        ItemRun.probe, ItemRun.perform = probe, perform  # type: ignore[method-assign]
        ItemRun._finish, ItemRun._broken = finish, broken  # type: ignore[method-assign]


def _note_stop(recorder: Recorder, item: ItemRun, closing: Mapping[str, Any]) -> None:
    """(lane, node, quota state, code) of a stop; a closed item stopped at the source of its closure."""
    machine, draft = item.machine, item.draft
    node = machine.node
    if node == machine.tables.closed_state:
        if not closing or draft.code is None:
            return
        node = machine.tables.node_of(closing["source_state"], draft.presence)
    else:
        node = machine.tables.node_of(machine.state, draft.presence)
    recorder.note("stops", f"{item.job.lane} {node} {draft.quota_state} {item.result and item.result.code}")


# -- what there is to reach ------------------------------------------------------------------------


def due(tables: Tables) -> dict[str, list[str]]:
    """Every key of every table."""
    cells = [
        f"{lane} {node} {presence}" for lane in tables.lanes for node in tables.nodes[lane]
        for presence in _presences(tables, lane, node)
    ]  # fmt: skip
    edges = [edge_key(lane, source, event) for lane, source, event, *_rest in tables.edges]
    closings = accepted_closings(tables)
    closures = sorted({closing_key(variant, key[0], key[1], key[2]) for key, variant in closings.items()})
    notes = []
    for code, kind in tables.code_class.items():
        if kind in ("FAIL", "STOP"):
            notes.append(str(tables.notes[tables.status_of_class[kind]]).format(code=code))
    notes += [
        tables.notes["DUPLICATE"],
        tables.notes["success_uncertain_trigger"],
        *tables.notes["SUCCESS"].values(),
    ]
    stops = [
        f"{lane} {node} {quota} {code}"
        for lane, nodes in tables.keep_or_close.items() for node, quotas in nodes.items()
        for quota, codes in quotas.items() for code in codes
    ]  # fmt: skip
    return {"cells": cells, "edges": edges, "closures": closures, "codes": list(tables.code_class),
            "notes": notes, "stops": stops}  # fmt: skip


def _presences(tables: Tables, lane: str, node: str) -> list[str]:
    row = tables.matrix[lane][tables.state_of(node)]
    found = ["".join(letters) for letters in product(*row)]
    return [presence for presence in found if tables.node_of(tables.state_of(node), presence) == node]


def excused(tables: Tables) -> dict[str, dict[str, str]]:
    """table → key → why it cannot be reached."""
    found: dict[str, dict[str, str]] = {name: {} for name in TABLES}
    for (lane, state, presence, _kind, _status), variant in accepted_closings(tables).items():
        why = _why_not(tables, variant, lane, state, presence)
        if why is not None:
            found["closures"][closing_key(variant, lane, state, presence)] = why
    for row in KNOWN_UNREACHABLE:
        for node in row.get("nodes", ()):
            lane = tables.closures[row["variant"]]["lanes"][0]
            event = tables.close_events.get((lane, node), {}).get(row["variant"])
            if event is not None:
                found["edges"][edge_key(lane, node, event)] = row["reason"]
    return found


def _why_not(tables: Tables, variant: str, lane: str, state: str, presence: str) -> str | None:
    prefix = presence[4:7]
    for row in KNOWN_UNREACHABLE:
        if row["variant"] != variant:
            continue
        if state in row["sources"] or prefix in row["prefixes"]:
            return row["reason"]
        if any(tables.node_of(state, presence) == node for node in row.get("nodes", ())):
            return row["reason"]
    own = "V" * source_prefix_length(lane, state, tables)
    producer = state in tables.closures[variant]["producer"]
    if (
        producer
        and prefix.rstrip("N") != own
        and not any(w["closing"] == variant for w in tables.closing_windows)
    ):
        return "a closure writes Z and nothing else, so the prefix is the source's own (ruling R5)"
    return None


def report(recorder: Recorder, tables: Tables) -> dict[str, Any]:
    """The record `coverage.json` holds."""
    wanted, excuses = due(tables), excused(tables)
    shown: dict[str, Any] = {}
    for name in TABLES:
        reached = recorder.reached[name]
        shown[name] = {
            "reached": {key: sorted(reached[key])[:3] for key in wanted[name] if key in reached},
            "excused": {key: why for key, why in excuses[name].items() if key not in reached},
            "missing": [key for key in wanted[name] if key not in reached and key not in excuses[name]],
        }
    return {"tables": shown}


def as_text(record: Mapping[str, Any]) -> str:
    """The coverage as a table people read."""
    lines = [f"{'table':<10}{'reached':>9}{'of':>6}{'excused':>9}  missing"]
    for name, table in record["tables"].items():
        of = len(table["reached"]) + len(table["missing"])
        missing = "; ".join(table["missing"]) or "none"
        lines.append(f"{name:<10}{len(table['reached']):>9}{of:>6}{len(table['excused']):>9}  {missing}")
    return "\n".join(lines)
