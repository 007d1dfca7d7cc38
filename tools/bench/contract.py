"""The contract's own cost: a checked transition against a bare one, the whole audit, the start of the
command.

Rules of this file: a transition is the machine's part of one: the order asked for, the evidence judged
before and after, the move made. Reading that evidence from disk and ledger is the disk's time and not in
it. The audit and the starts are processes of their own, so that what they cost is all theirs.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import attrs

from fsm import Facts, FsmError, ItemMachine, Tables
from fsm.machine import WorkOrder, build_machine

from .rows import Row

ROOT = Path(__file__).resolve().parents[2]
REPEATS = 400
STARTS = 15
_AUDIT = """
import json, sys
from tools.audit.gate import enumerate_all
done = enumerate_all()
json.dump({"s": done.seconds, "cpu_s": done.cpu_seconds, "mb": done.peak_mb, "bad": len(done.violations)},
sys.stdout)
"""


@attrs.frozen
class Case:
    """One edge with evidence that it leads from and to."""

    lane: str
    node: str
    event: str
    facts: Facts
    before: str
    after: str


def cases(tables: Tables) -> list[Case]:
    """Every edge that does not close, with the first evidence of its source's row that its steps move to
    its target's."""
    found = []
    for lane, source, event, target, _guard, _steps in tables.edges:
        if target != tables.closed_state:
            case = next(_fitting(tables, lane, source, event), None)
            if case is None:
                raise RuntimeError(f"no evidence leads {lane} from {source} by {event}")
            found.append(case)
    return found


def _fitting(tables: Tables, lane: str, source: str, event: str) -> Any:
    for quota, known in product(("RESERVED", "CONFIRMED", "UNCERTAIN", "RELEASED", "NONE"), (True, False)):
        facts = Facts(quota, cache_identity_known=known)
        machine = ItemMachine(lane, source, tables)
        if not machine.may(event, facts):
            continue
        for before in _row(tables, lane, source):
            after = _moved(tables, machine.order(event, facts), before)
            try:
                ItemMachine(lane, source, tables).commit(machine.order(event, facts), facts, before, after)
            except FsmError:
                continue
            yield Case(lane, source, event, facts, before, after)


def _row(tables: Tables, lane: str, node: str) -> list[str]:
    """The presences of a node: its state's row, with the letter that splits it."""
    state = tables.state_of(node)
    letters = tables.matrix[lane][state]
    return ["".join(one) for one in product(*letters) if tables.node_of(state, "".join(one)) == node]


def _moved(tables: Tables, order: WorkOrder, before: str) -> str:
    moved = {name: letter for step in order.steps for name, letter in step.moves}
    return "".join(moved.get(name, old) for name, old in zip(tables.objects, before, strict=True))


class _Model:
    """What a bare `transitions` machine moves."""

    node: str
    trigger: Any


def transition_row(rounds: int) -> Row:
    """Time of `order` and `commit` over that of the bare trigger, all edges."""
    tables = Tables.default()
    todo = cases(tables)
    machines = {lane: build_machine(lane, tables) for lane in tables.lanes}
    values, ours_s, bare_s = [], 0.0, 0.0
    for _ in range(rounds):
        ours, bare = [], []
        for _ in range(REPEATS):
            items = [ItemMachine(case.lane, case.node, tables) for case in todo]
            begun_s = time.perf_counter()
            for item, case in zip(items, todo, strict=True):
                item.commit(item.order(case.event, case.facts), case.facts, case.before, case.after)
            ours.append(time.perf_counter() - begun_s)
            models = [_Model() for _ in todo]
            for model, case in zip(models, todo, strict=True):
                machines[case.lane].add_model(model, initial=case.node)
            begun_s = time.perf_counter()
            for model, case in zip(models, todo, strict=True):
                model.trigger(case.event, facts=case.facts)
            bare.append(time.perf_counter() - begun_s)
            for item, model, case in zip(items, models, todo, strict=True):
                item.release()
                machines[case.lane].remove_model(model)
        ours_s, bare_s = statistics.median(ours), statistics.median(bare)
        values.append(ours_s / bare_s)
    each = len(todo)
    return Row(
        name="transition with verdict",
        against="the bare transitions trigger",
        limit=1.3,
        values=tuple(values),
        note=f"{ours_s / each * 1e6:.1f} us against {bare_s / each * 1e6:.1f} us, {len(todo)} edges",
    )


def audit_rows(rounds: int) -> list[Row]:
    """Seconds and MB of the whole enumeration."""
    done = [json.loads(_python("-c", _AUDIT)) for _ in range(rounds)]
    note = f"CPU {', '.join(format(one['cpu_s'], '.2f') for one in done)} s; violations {done[0]['bad']}"
    memory = tuple(one["mb"] for one in done if one["mb"] is not None)
    return [
        Row(
            name="audit: everything enumerated", against="-", limit=5.0, unit="s",
            values=tuple(one["s"] for one in done), note=note,
        ),
        Row(name="audit: memory", against="-", limit=300.0, unit="MB", values=memory),
    ]  # fmt: skip


def start_row(rounds: int) -> Row:
    """`--help` of the main job over importing click alone, taken in turns; the least of each round's
    starts."""
    values, ours_s, bare_s = [], 0.0, 0.0
    for _ in range(rounds):
        pairs = [(_timed("-m", "hibor.run", "--help"), _timed("-c", "import click")) for _ in range(STARTS)]
        ours_s, bare_s = min(ours for ours, _bare in pairs), min(bare for _ours, bare in pairs)
        values.append(ours_s / bare_s)
    return Row(
        name="python -m hibor.run --help",
        against='python -c "import click"',
        limit=2.0,
        values=tuple(values),
        note=f"{ours_s * 1e3:.0f} ms against {bare_s * 1e3:.0f} ms (least of {STARTS})",
    )


def _timed(*words: str) -> float:
    begun_s = time.perf_counter()
    _python(*words)
    return time.perf_counter() - begun_s


def _python(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, check=True, capture_output=True, text=True, encoding="utf-8"
    )
    return done.stdout
