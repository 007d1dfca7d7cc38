"""The item machine: edges with steps, guards, evidence check, closings, release (design 2-4; R2-R5, R14)."""

from __future__ import annotations

import gc
import weakref
from itertools import product

import attrs
import pytest

from fsm import ContractError, Facts, ItemMachine, StateUncertain, Tables, WorkOrder, move_allowed, verdict
from tests.fsm import v006

NEW, PURE = v006.NEW, v006.PURE
PLAIN = Facts(quota_state="CONFIRMED")


def full(node: str) -> str:
    """`P02-N` as the tables name it; P10 is P10_CLOSED."""
    short, dash, letter = node.partition("-")
    return v006.FULL[short] + dash + letter


# lane, source, event, target, guard, steps, presences: design 4, "what is written before what"
EDGES = [
    (NEW, "P00", "admitted", "P01", None, "open.journal reserve.append", "NNNNNNNN", "NNNNNNNN"),
    (NEW, "P01", "detail_open", "P02-N", None, "intent.journal", "NNNNNNNN", "NNNNNNNN"),
    (NEW, "P02-N", "confirmed", "P02-V", None, "confirm.append", "NNNNNNNN", "NNVNNNNN"),
    (NEW, "P02-N", "not_occurred", "P02-V", None, "release.append", "NNNNNNNN", "NNVNNNNN"),
    (NEW, "P02-N", "uncertain", "P02-V", None, "doubt.append", "NNNNNNNN", "NNVNNNNN"),
    (NEW, "P02-V", "seek", "P03-N", "may_seek", "seek.journal", "NNVNNNNN", "NNVNNNNN"),
    (NEW, "P03-N", "matched", "P04-N", None, "identity.journal staging.create", "NNVNNNNN", "INVNNNNN"),
    (NEW, "P03-N", "refused", "P03-V", None, "code.journal reject.append", "NNVNNNNN", "NNVVNNNN"),
    (NEW, "P04-N", "pulled", "P05-N", None, "staging.fill", "INVNNNNN", "VNVNNNNN"),
    (NEW, "P04-N", "changed", "P03-N", None, "staging.remove changed.journal", "INVNNNNN", "NNVNNNNN"),
    (NEW, "P04-N", "refused", "P04-V", None, "code.journal reject.append", "INVNNNNN", "INVVNNNN"),
    (NEW, "P05-N", "sound", "P06", None, "publish.journal publish.folder publish.link artifact.append",
     "VNVNNNNN",
     "VVVVNNNN"),
    (NEW, "P05-N", "refused", "P05-V", None, "code.journal quarantine.publish reject.append", "VNVNNNNN",
     "VNVVNNNN"),
    (NEW, "P06", "recorded", "P07", None, "staging.remove manifest.append", "VVVVNNNN", "NVVVVNNN"),
    (NEW, "P07", "told", "P08", None, "delivery.write", "NVVVVNNN", "NVVVVVNN"),
    (NEW, "P08", "timed", "P09", None, "timing.write", "NVVVVVNN", "NVVVVVVN"),
    (PURE, "P00", "held", "P06", None, "open.journal reuse.journal", "NNNNNNNN", "NVNNNNNN"),
    (PURE, "P00", "published", "P06", None,
     "open.journal publish.journal publish.folder publish.link reuse.journal",
     "NNNNNNNN", "VVNNNNNN"),
    (PURE, "P00", "identical", "P06", None, "open.journal reuse.journal", "NNNNNNNN", "VVNNNNNN"),
    (PURE, "P06", "recorded", "P07", None, "staging.remove manifest.append", "VVNNNNNN", "NVNNVNNN"),
    (PURE, "P07", "told", "P08", None, "delivery.write", "NVNNVNNN", "NVNNVVNN"),
    (PURE, "P08", "timed", "P09", None, "timing.write", "NVNNVVNN", "NVNNVVVN"),
]  # fmt: skip
SHUT = "closing.journal terminal.write"
C02_STEPS = "closing.journal duplicate.append manifest.append delivery.write timing.write terminal.write"
# lane, source, variant, steps, presence, kind of A, code, presence as closed
CLOSINGS = [
    (NEW, "P00", "C05_PREQUOTA_STOP", SHUT, "NNNNNNNN", None, "QUOTA_EXHAUSTED", "NNNNNNNV"),
    (PURE, "P00", "C05_PREQUOTA_STOP", SHUT, "NNNNNNNN", None, "CACHE_UNREADABLE", "NNNNNNNV"),
    (NEW, "P01", "C06_RESERVED_STOP", SHUT, "NNNNNNNN", None, "UI_ANCHOR_DRIFT", "NNNNNNNV"),
    (NEW, "P02-N", "C06_RESERVED_STOP", SHUT, "NNNNNNNN", None, "PROCESS_LIVENESS_UNKNOWN", "NNNNNNNV"),
    (NEW, "P02-U", "C06_RESERVED_STOP", SHUT, "NNUNNNNN", None, "QUOTA_LEDGER_INVALID", "NNUNNNNV"),
    (NEW, "P02-V", "C07_TRIGGER_CLOSED_NO_ARTIFACT", SHUT, "NNVNNNNN", None, "TRIGGER_NOT_OCCURRED",
     "NNVNNNNV"),
    (NEW, "P03-N", "C07_TRIGGER_CLOSED_NO_ARTIFACT", SHUT, "NNVNNNNN", None, "CACHE_TIMEOUT", "NNVNNNNV"),
    (NEW, "P03-U", "C07_TRIGGER_CLOSED_NO_ARTIFACT", SHUT, "NNVUNNNN", None, "RECOVERY_UNKNOWN", "NNVUNNNV"),
    (NEW, "P03-V", "C08_PROCESSING_FAILED", SHUT, "NNVVNNNN", "FAILURE", "PULL_FAILED", "NNVVNNNV"),
    (NEW, "P04-V", "C08_PROCESSING_FAILED", SHUT, "INVVNNNN", "FAILURE", "HASH_MISMATCH", "INVVNNNV"),
    (NEW, "P05-V", "C08_PROCESSING_FAILED", SHUT, "VNVVNNNN", "FAILURE", "PDF_ENCRYPTED", "VNVVNNNV"),
    (NEW, "P06", "C09_POSTPUBLISH_STOP", SHUT, "VVVVNNNN", "SUCCESS", "MANIFEST_INVALID", "VVVVNNNV"),
    (NEW, "P07", "C09_POSTPUBLISH_STOP", SHUT, "NVVVVNNN", "SUCCESS", "PERSIST_LATE", "NVVVVNNV"),
    (NEW, "P08", "C09_POSTPUBLISH_STOP", SHUT, "NVVVVVNN", "SUCCESS", "DEADLINE_EXPIRED", "NVVVVVNV"),
    (NEW, "P09", "C09_POSTPUBLISH_STOP", SHUT, "NVVVVVVN", "SUCCESS", "PERSIST_LATE", "NVVVVVVV"),
    (NEW, "P09", "C01_NEW_SUCCESS", "terminal.write", "NVVVVVVN", "SUCCESS", "NONE", "NVVVVVVV"),
    (PURE, "P06", "C10_REUSE_POSTPUBLISH_STOP", SHUT, "VVNNNNNN", None, "UNEXPECTED_EXCEPTION", "VVNNNNNV"),
    (PURE, "P07", "C10_REUSE_POSTPUBLISH_STOP", SHUT, "NVNNVNNN", None, "PERSIST_LATE", "NVNNVNNV"),
    (PURE, "P08", "C10_REUSE_POSTPUBLISH_STOP", SHUT, "NVNNVVNN", None, "DEADLINE_EXPIRED", "NVNNVVNV"),
    (PURE, "P09", "C10_REUSE_POSTPUBLISH_STOP", SHUT, "NVNNVVVN", None, "PERSIST_LATE", "NVNNVVVV"),
    (PURE, "P09", "C03_REUSE_SUCCESS", "terminal.write", "NVNNVVVN", None, "NONE", "NVNNVVVV"),
    (PURE, "P09", "C04_REUSE_DUPLICATE", "terminal.write", "VVNNVVVN", None, "DUPLICATE_EXISTING_ARTIFACT",
     "VVNNVVVV"),
]  # fmt: skip


def at(lane: str, node: str) -> ItemMachine:
    """A machine at `node` (`P02-N`)."""
    return ItemMachine(lane, full(node))


def ordered(lane: str, node: str, presence: str, artifact: str | None, code: str) -> WorkOrder:
    """The closing order, which must be there."""
    order = at(lane, node).closing_order(presence, artifact, code)
    assert order is not None
    return order


def test_the_edges_are_these_and_no_others() -> None:
    found = {
        (lane, source, event, target, guard, steps)
        for lane, source, event, target, guard, steps in Tables.default().edges
        if target != v006.CLOSED
    }
    assert found == {(lane, full(source), event, full(target), guard, tuple(steps.split()))
                     for lane, source, event, target, guard, steps, _before, _after in EDGES}  # fmt: skip


def test_the_closing_edges_are_these_and_no_others() -> None:
    tables = Tables.default()
    variant_of = {
        (key, event): name for key, events in tables.close_events.items() for name, event in events.items()
    }
    found = {(lane, source, variant_of[(lane, source), event], steps)
             for lane, source, event, target, _guard,
              steps in tables.edges if target == v006.CLOSED}  # fmt: skip
    expected = {(row[0], full(row[1]), row[2], tuple(row[3].split())) for row in CLOSINGS}
    assert found == expected | {(NEW, full("P05-N"), "C02_NEW_DUPLICATE", tuple(C02_STEPS.split()))}


@pytest.mark.parametrize(("lane", "source", "event", "target", "guard", "steps", "before", "after"), EDGES)
def test_an_edge_end_to_end(
    lane: str, source: str, event: str, target: str, guard: str | None, steps: str, before: str, after: str
) -> None:
    machine = at(lane, source)
    order = machine.order(event, PLAIN)
    assert (order.lane, order.source, order.event, order.target) == (lane, full(source), event, full(target))
    assert [step.name for step in order.steps] == steps.split()
    assert order.variant is None and not order.closes
    assert machine.node == full(source), "an order moves nothing"
    machine.commit(order, PLAIN, before, after)
    assert machine.node == full(target)
    assert machine.state == v006.FULL[target[:3]]
    assert verdict(lane, machine.state, after) == "LEGAL"


@pytest.mark.parametrize(("lane", "source", "event", "target", "guard", "steps", "before", "after"), EDGES)
def test_what_the_steps_move_leads_from_row_to_row(
    lane: str, source: str, event: str, target: str, guard: str | None, steps: str, before: str, after: str
) -> None:
    for start in v006.NODE_PRESENCES[lane, source]:
        shown = dict(zip("SFQAMDTZ", start, strict=True))
        for step in at(lane, source).order(event, PLAIN).steps:
            for name, letter in step.moves:
                assert shown[name] == letter or move_allowed(f"{shown[name]}NNNNNNN", f"{letter}NNNNNNN")
                shown[name] = letter
        assert "".join(shown.values()) in v006.NODE_PRESENCES[lane, target]


@pytest.mark.parametrize(("lane", "source", "event", "target", "guard", "steps", "before", "after"), EDGES)
def test_evidence_that_is_not_the_targets_leaves_the_node(
    lane: str, source: str, event: str, target: str, guard: str | None, steps: str, before: str, after: str
) -> None:
    allowed = set(v006.NODE_PRESENCES[lane, target])
    for place, letter in product(range(8), v006.LETTERS):
        shown = after[:place] + letter + after[place + 1 :]
        if shown in allowed:
            continue
        machine = at(lane, source)
        judged = v006.judge(lane, target[:3], shown)
        wrong = StateUncertain if judged in ("HALT", "UNCERTAIN") else ContractError
        with pytest.raises(wrong) as caught:
            machine.commit(machine.order(event, PLAIN), PLAIN, before, shown)
        assert type(caught.value) is wrong, shown
        assert machine.node == full(source)


@pytest.mark.parametrize(
    ("lane", "source", "variant", "steps", "presence", "artifact", "code", "after"), CLOSINGS
)
def test_a_closing_end_to_end(
    lane: str,
    source: str,
    variant: str,
    steps: str,
    presence: str,
    artifact: str | None,
    code: str,
    after: str,
) -> None:
    machine = at(lane, source)
    order = machine.closing_order(presence, artifact, code)
    assert order is not None
    assert order.closes and order.variant == variant and order.target == v006.CLOSED
    assert [step.name for step in order.steps] == steps.split()
    assert machine.node == full(source)
    machine.commit(order, PLAIN, presence, after)
    assert machine.node == machine.state == v006.CLOSED
    with pytest.raises(ContractError):
        machine.order(order.event, PLAIN)
    with pytest.raises(ContractError):
        machine.commit(order, PLAIN, presence, after)


@pytest.mark.parametrize(
    ("lane", "source", "variant", "steps", "presence", "artifact", "code", "after"), CLOSINGS
)
def test_a_closing_accepts_z_and_nothing_else(
    lane: str,
    source: str,
    variant: str,
    steps: str,
    presence: str,
    artifact: str | None,
    code: str,
    after: str,
) -> None:
    for place, letter in product(range(8), v006.LETTERS):
        shown = after[:place] + letter + after[place + 1 :]
        if shown == after:
            continue
        machine = at(lane, source)
        order = machine.closing_order(presence, artifact, code)
        assert order is not None
        wrong = StateUncertain if "U" in shown else ContractError
        with pytest.raises(wrong):
            machine.commit(order, PLAIN, presence, shown)
        assert machine.node == full(source), shown


def test_the_duplicate_closing_writes_its_successors_and_ends_only_complete() -> None:
    machine = at(NEW, "P05-N")
    order = machine.order("identical", PLAIN)
    assert order.variant == "C02_NEW_DUPLICATE" and order.target == v006.CLOSED
    assert [step.name for step in order.steps] == C02_STEPS.split()
    for after in ("VVVVNNNN", "VVVVVVVN", "VVVVVVNV", "VNVVVVVV", "NVVVVVVV", "VVVNVVVV"):
        with pytest.raises(ContractError):
            machine.commit(order, PLAIN, "VNVNNNNN", after)
        assert machine.node == full("P05-N")
    machine.commit(order, PLAIN, "VNVNNNNN", "VVVVVVVV")
    assert machine.node == v006.CLOSED
    resumed = at(NEW, "P05-N")
    resumed.commit(resumed.order("identical", PLAIN), PLAIN, "VVVVVNNN", "VVVVVVVV")
    assert resumed.node == v006.CLOSED


def test_no_closing_order_exactly_where_r10_and_r12_say() -> None:
    for (lane, node), quotas in v006.NODE_QUOTA.items():
        presence = v006.NODE_PRESENCES[lane, node][0]
        artifact = None if presence[3] != "V" else "FAILURE" if "-" in node else "SUCCESS"
        domain = frozenset().union(*(v006.domain(node, quota) for quota in quotas))
        without = {code for code in domain if at(lane, node).closing_order(presence, artifact, code) is None}
        assert without == v006.WITHOUT_CLOSURE[lane, node], (lane, node)
        for code in (v006.FAIL_CODES | v006.STOP_CODES) - domain:
            assert at(lane, node).closing_order(presence, artifact, code) is None, (lane, node, code)


def test_success_and_duplicate_close_only_from_the_producers_nodes() -> None:
    for (lane, node), presences in v006.NODE_PRESENCES.items():
        for presence, code in product(presences, ("NONE", "DUPLICATE_EXISTING_ARTIFACT")):
            artifact = None if presence[3] != "V" else "FAILURE" if "-" in node else "SUCCESS"
            order = at(lane, node).closing_order(presence, artifact, code)
            if node == "P09" and (lane == PURE or code == "NONE"):
                assert order is not None
            else:
                assert order is None, (lane, node, code)


def test_the_guard_of_seek() -> None:
    machine = at(NEW, "P02-V")
    for facts, allowed in (
        (Facts("CONFIRMED"), True),
        (Facts("CONFIRMED", True), True),
        (Facts("UNCERTAIN", True), True),
        (Facts("UNCERTAIN", False), False),
        (Facts("RELEASED", True), False),
        (Facts("RELEASED"), False),
        (Facts("RESERVED", True), False),
        (Facts(), False),
    ):
        assert machine.may("seek", facts) is allowed
        if allowed:
            assert machine.order("seek", facts).target == full("P03-N")
        else:
            with pytest.raises(ContractError):
                machine.order("seek", facts)
    order = machine.order("seek", PLAIN)
    with pytest.raises(ContractError):
        machine.commit(order, Facts("RELEASED"), "NNVNNNNN", "NNVNNNNN")
    assert machine.node == full("P02-V")


def test_unknown_events_lanes_and_nodes() -> None:
    machine = ItemMachine(NEW)
    assert machine.node == machine.state == "P00_INIT"
    for event in ("", "finished", "told", "P01_RESERVED", "to_P06_PUBLISHED", "close"):
        assert not machine.may(event, PLAIN)
        with pytest.raises(ContractError):
            machine.order(event, PLAIN)
    for lane, node in (("NEW", None), (NEW, "P02"), (NEW, "P02_TRIGGER_UNKNOWN"), (PURE, "P01_RESERVED"),
                       (NEW, v006.CLOSED), (NEW, "P02_TRIGGER_UNKNOWN-X")):  # fmt: skip
        with pytest.raises(ContractError):
            ItemMachine(lane, node)


def test_an_order_of_another_node_or_lane_is_refused() -> None:
    machine = at(NEW, "P06")
    with pytest.raises(ContractError):
        machine.commit(at(NEW, "P07").order("told", PLAIN), PLAIN, "NVVVVNNN", "NVVVVVNN")
    with pytest.raises(ContractError):
        machine.commit(at(PURE, "P06").order("recorded", PLAIN), PLAIN, "NVVVNNNN", "NVVVVNNN")
    assert machine.node == full("P06")


def test_uncertain_is_sticky() -> None:
    for node in ("P02-U", "P03-U", "P04-U", "P05-U"):
        machine = at(NEW, node)
        events = {event for _l, _s, event, *_rest in Tables.default().edges}
        offered = {event for event in events if machine.may(event, PLAIN)}
        assert all(event.startswith("close:") for event in offered)
        assert bool(offered) == (node in ("P02-U", "P03-U"))
        assert machine.work() == machine.work(recovering=True) == "halt"
    for letter in "NIVX":
        assert not move_allowed("NNUNNNNN", f"NN{letter}NNNNN")
    machine = at(NEW, "P02-N")
    order = machine.order("confirmed", PLAIN)
    with pytest.raises(StateUncertain):
        machine.commit(order, PLAIN, "NNNNNNNN", "NNUNNNNN")
    with pytest.raises(ContractError):
        machine.commit(order, PLAIN, "NNUNNNNN", "NNVNNNNN")
    assert machine.node == full("P02-N")


def test_recovery_work_never_taps_and_never_opens() -> None:
    tables = Tables.default()
    for lane, node in v006.NODE_PRESENCES:
        machine = at(lane, node)
        assert machine.work(recovering=True) not in ("admit", "open_detail", "trigger", "validate")
        assert machine.work(recovering=True) == tables.work[lane][full(node)][1]
    assert at(NEW, "P02-N").work() == "trigger"
    assert at(NEW, "P02-N").work(recovering=True) == "look"
    assert sum(live == "trigger" for lane in tables.work.values() for live, _r, _e in lane.values()) == 1


def test_from_p00_every_lane_reaches_its_success() -> None:
    for lane, path in (
        (NEW, [*EDGES[:3], EDGES[5], EDGES[6], EDGES[8], EDGES[11], *EDGES[13:16]]),
        (PURE, [*EDGES[16:17], *EDGES[19:]]),
    ):
        machine = ItemMachine(lane)
        shown = "NNNNNNNN"
        for _lane, _source, event, target, _guard, _steps, _before, after in path:
            order = machine.order(event, PLAIN)
            machine.commit(order, PLAIN, shown, after)
            shown = after
            assert machine.node == full(target)
        order = ordered(lane, "P09", shown, "SUCCESS" if lane == NEW else None, "NONE")
        machine.commit(order, PLAIN, shown, shown[:-1] + "V")
        assert machine.state == v006.CLOSED


def test_items_do_not_share_a_node_and_are_let_go_of() -> None:
    first, second = ItemMachine(NEW), ItemMachine(NEW)
    first.commit(first.order("admitted", PLAIN), PLAIN, "NNNNNNNN", "NNNNNNNN")
    assert (first.node, second.node) == ("P01_RESERVED", "P00_INIT")
    lane = first._lane.machine
    held = len(lane.models)
    cursor = weakref.ref(first._cursor)
    first.release()
    assert len(lane.models) == held - 1
    del first
    gc.collect()
    assert cursor() is None
    second.commit(second.order("admitted", PLAIN), PLAIN, "NNNNNNNN", "NNNNNNNN")
    assert second.node == "P01_RESERVED"
    second.release()


def test_the_machine_follows_the_tables_given_and_lets_them_go() -> None:
    default = Tables.default()
    edges = tuple(edge for edge in default.edges if edge[2] != "changed")
    changed = attrs.evolve(default, edges=edges)
    machine = ItemMachine(NEW, full("P04-N"), changed)
    assert not machine.may("changed", PLAIN)
    assert at(NEW, "P04-N").may("changed", PLAIN)
    alive = weakref.ref(changed)
    machine.release()
    del machine, changed
    gc.collect()
    assert alive() is None, "a tried contract must not stay in memory"
