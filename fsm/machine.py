"""The item machine: a `transitions` machine built from the compiled edges, which hands out work orders.

1. The machine's node is always the highest one whose evidence is durable. `order` only reads the table;
   nothing has moved until `commit` is called with the evidence probed after the steps were done.
2. `commit` fires the edge in `transitions` and judges by the node before and after, never by a return value.
   The machine is built with `auto_transitions=False, send_event=True, ignore_invalid_triggers=False,
   queued=False` and resolved callables only; no callback has a side effect.
3. An effect never decides the next node. It reports an event or a failure word; the tables decide.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

import attrs
from transitions import EventData, Machine, MachineError

from fsm.closures import match_closure, source_presence
from fsm.codes import allowed_codes, code_class
from fsm.errors import ContractError, StateUncertain
from fsm.guards import GUARDS, Facts
from fsm.presence import Verdict, check_name, move_allowed, verdict
from fsm.tables import Tables


@attrs.frozen(cache_hash=True)
class Step:
    """One durable step: what it moves in the item's evidence and which journal record it leaves."""

    name: str
    kind: str
    of: str
    moves: tuple[tuple[str, str], ...]
    marks: str | None


@attrs.frozen(cache_hash=True)
class WorkOrder:
    """What an event asks for: the steps, in order, each durable before the next, and where they lead."""

    lane: str
    source: str
    event: str
    target: str
    steps: tuple[Step, ...]
    variant: str | None = None

    @property
    def closes(self) -> bool:
        """True when this order ends the item."""
        return self.variant is not None


class _Cursor:
    """The model `transitions` moves: one item's node."""

    node: str
    trigger: Callable[..., bool]


def _condition(guard: str) -> Callable[[EventData], bool]:
    holds = GUARDS[guard]

    def condition(event: EventData) -> bool:
        return holds(event.kwargs["facts"])

    return condition


def build_machine(lane: str, tables: Tables) -> Machine:
    """The `transitions` machine of one lane; states are the lane's nodes and P10."""
    rows = [
        {
            "trigger": event,
            "source": source,
            "dest": target,
            "conditions": [_condition(guard)] if guard else [],
        }
        for edge_lane, source, event, target, guard, _steps in tables.edges
        if edge_lane == lane
    ]
    return Machine(
        model=None,
        states=[*tables.nodes[lane], tables.closed_state],
        transitions=rows,
        initial=tables.nodes[lane][0],
        auto_transitions=False,
        send_event=True,
        ignore_invalid_triggers=False,
        queued=False,
        model_attribute="node",
    )


class _Lane:
    """One lane of one `Tables` value: its machine and its edges by (node, event)."""

    def __init__(self, lane: str, tables: Tables) -> None:
        self.machine = build_machine(lane, tables)
        variants = {
            (node, event): variant
            for (close_lane, node), events in tables.close_events.items()
            if close_lane == lane
            for variant, event in events.items()
        }
        self.edges: dict[tuple[str, str], tuple[WorkOrder, str | None]] = {}
        for edge_lane, source, event, target, guard, names in tables.edges:
            if edge_lane != lane:
                continue
            steps = tuple(Step(name, *tables.steps[name]) for name in names)
            order = WorkOrder(lane, source, event, target, steps, variants.get((source, event)))
            self.edges[source, event] = (order, guard)
        self.accepted: set[tuple[WorkOrder, str, str]] = set()


_MOST_ACCEPTED = 4096
_LANES: WeakKeyDictionary[Tables, dict[str, _Lane]] = WeakKeyDictionary()


class ItemMachine:
    """One item's way through the contract."""

    def __init__(self, lane: str, node: str | None = None, tables: Tables | None = None) -> None:
        """Start at `node` (default: the lane's first). Raises ContractError for unknown names."""
        self.tables = tables or Tables.default()
        check_name("lane", lane, self.tables.nodes)
        self.lane = lane
        start = node or self.tables.nodes[lane][0]
        check_name("node", start, self.tables.nodes[lane])
        lanes = _LANES.setdefault(self.tables, {})
        if lane not in lanes:
            lanes[lane] = _Lane(lane, self.tables)
        self._lane = lanes[lane]
        self._cursor = _Cursor()
        self._lane.machine.add_model(self._cursor, initial=start)

    @property
    def node(self) -> str:
        """The highest node whose evidence is durable."""
        return self._cursor.node

    @property
    def state(self) -> str:
        """The state of the node, as the public item shows it."""
        return self.tables.state_of(self.node)

    def work(self, recovering: bool = False) -> str:
        """The name of the work to do at this node; `recovering` names work that never taps."""
        live, recovery, _events = self.tables.work[self.lane][self.node]
        return recovery if recovering else live

    def order(self, event: str, facts: Facts) -> WorkOrder:
        """The work order of `event` here. Raises ContractError when no edge or its guard allows it."""
        found = self._lane.edges.get((self.node, event))
        if found is None:
            raise ContractError(f"{self.lane} {self.node} has no edge for {event}")
        order, guard = found
        if guard is not None and not GUARDS[guard](facts):
            raise ContractError(f"{self.lane} {self.node}: {event} is refused by the guard {guard}")
        return order

    def may(self, event: str, facts: Facts) -> bool:
        """True when `order` would give one."""
        found = self._lane.edges.get((self.node, event))
        return found is not None and (found[1] is None or GUARDS[found[1]](facts))

    def closing_order(self, presence: str, artifact: str | None, code: str) -> WorkOrder | None:
        """The order that closes this item with `code`, or None where no closure accepts that (ruling R10)."""
        kind = code_class(code, self.tables)
        status = self.tables.status_of_class[kind]
        variant = match_closure(self.lane, self.state, presence[:-1] + "V", artifact, status, self.tables)
        if variant is None:
            return None
        own = source_presence(self.lane, self.state, presence, self.tables)
        if kind in ("FAIL", "STOP") and code not in allowed_codes(self.state, own, None, self.tables):
            return None
        allowed = self.tables.closures[variant]["codes"][status]
        event = self.tables.close_events.get((self.lane, self.node), {}).get(variant)
        if event is None or (allowed != "stage" and code not in allowed):
            return None
        return self._lane.edges[self.node, event][0]

    def commit(self, order: WorkOrder, facts: Facts, before: str, after: str) -> None:
        """Enter the order's target on the evidence probed after its steps.

        Raises StateUncertain (a U that no target provides for) or ContractError (anything else that is not
        the target); the node then stays.
        """
        if (order.lane, order.source) != (self.lane, self.node):
            raise ContractError(f"an order of {order.lane} {order.source} at {self.lane} {self.node}")
        self._check_evidence(order, before, after)
        try:
            self._cursor.trigger(order.event, facts=facts)
        except MachineError as error:
            raise ContractError(str(error)) from error
        if self.node != order.target:
            raise ContractError(f"{order.event} at {order.source} led to {self.node}, not to {order.target}")

    def _check_evidence(self, order: WorkOrder, before: str, after: str) -> None:
        """Judge the evidence by the tables alone; what was accepted once is accepted again without a new
        look.
        """
        key, accepted = (order, before, after), self._lane.accepted
        if key in accepted:
            return
        self._judge_evidence(order, before, after)
        if len(accepted) < _MOST_ACCEPTED:
            accepted.add(key)

    def _judge_evidence(self, order: WorkOrder, before: str, after: str) -> None:
        if order.variant is not None:
            self._check_closed(order, order.variant, before, after)
            return
        target_state = self.tables.state_of(order.target)
        found = verdict(self.lane, target_state, after, self.tables)
        if found in (Verdict.UNCERTAIN, Verdict.HALT):
            raise StateUncertain(f"{order.event} to {order.target}: evidence is {after}")
        if found is not Verdict.LEGAL or self.tables.node_of(target_state, after) != order.target:
            raise ContractError(f"{order.event} to {order.target}: evidence is {after}")
        if not move_allowed(before, after, self.tables):
            raise ContractError(
                f"{order.event} to {order.target}: {before} cannot become {after} (ruling R3)"
            )

    def _check_closed(self, order: WorkOrder, variant: str, before: str, after: str) -> None:
        """A closed item is exactly its variant, and moved by its steps alone (V006 §2.4, ruling R5)."""
        closure = self.tables.closures[variant]
        fits = match_closure(
            self.lane, self.state, after, closure["artifact"], closure["statuses"][0], self.tables
        )
        moved = {name: letter for step in order.steps for name, letter in step.moves}
        due = "".join(moved.get(name, old) for name, old in zip(self.tables.objects, before, strict=True))
        if fits != variant or after != due:
            wrong = StateUncertain if "U" in after else ContractError
            raise wrong(f"{order.event} of {before}: evidence is {after}, not {due} as {variant}")

    def release(self) -> None:
        """Forget this item; the lane's machine no longer holds it."""
        self._lane.machine.remove_model(self._cursor)
