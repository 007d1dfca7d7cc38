"""Where an item may stop with which code, what has no closure, and what is then kept or closed.

V006 §4 with §2.3, rulings R4, R10-R12, R22: every (node, quota state, code) of both lanes.
"""

from __future__ import annotations

from collections import Counter
from itertools import product

from fsm import ContractError, FsmError, ItemMachine, Tables, allowed_codes, code_class, quota_ids
from tests.fsm import v006
from tests.fsm.samples import kind_of_artifact

from . import expected
from .findings import Check, Violation

SPEC = "codes.yaml"


def check_classes(tables: Tables) -> Check:
    """Every code is in exactly one class and its class gives the contract's status; unknown codes are
    refused.
    """
    violations: list[Violation] = []
    if set(tables.code_class) != v006.ALL_CODES:
        example = ", ".join(sorted(set(tables.code_class) ^ v006.ALL_CODES))
        violations.append(Violation("conflicting", SPEC, "the 41 codes", example))
    for code in sorted(v006.ALL_CODES & set(tables.code_class)):
        status = tables.status_of_class.get(code_class(code, tables))
        if status != v006.STATUS_OF_CODE[code]:
            violations.append(Violation("conflicting", SPEC, f"{code} gives the status {status}", code))
    for word in ("", "none", "TIMEOUT", "STOP", "FAILED"):
        try:
            code_class(word, tables)
        except ContractError:
            continue
        violations.append(Violation("conflicting", SPEC, "an unknown code has a class", word))
    return Check("code classes", {"codes": len(tables.code_class)}, tuple(violations))


def check_domains(tables: Tables) -> Check:
    """Every defined presence, quota state and code."""
    counts: Counter[str] = Counter()
    violations: list[Violation] = []
    for (_lane, node), presences in expected.NODE_PRESENCES.items():
        short = expected.SHORT_NODE[node]
        state = node.split("-")[0]
        for presence, quota in product(presences, (None, *v006.QUOTA_STATES)):
            found = _domain(tables, state, presence, quota)
            due: frozenset[str] | None = v006.DOMAIN[short]
            if short == "P02-V" and quota is not None:  # the only node where the quota state narrows (R12)
                due = v006.P02_V_DOMAIN.get(quota)
            counts["triples"] += len(v006.ALL_CODES)
            counts["admissible"] += len(found or ())
            violations += _compare(node, presence, quota, found, due)
    return Check("code domains", counts, tuple(violations))


def _domain(tables: Tables, state: str, presence: str, quota: str | None) -> frozenset[str] | None:
    try:
        return allowed_codes(state, presence, quota, tables)
    except FsmError:
        return None


def _compare(
    node: str, presence: str, quota: str | None, found: frozenset[str] | None, due: frozenset[str] | None
) -> list[Violation]:
    where = f"{node} {presence} {quota or 'any quota state'}"
    if (found is None) != (due is None):
        word = "gap" if found is None else "conflicting"
        return [Violation(word, SPEC, f"{where} is {'refused' if found is None else 'answered'}", presence)]
    missing, extra = (
        sorted((due or frozenset()) - (found or set())),
        sorted((found or set()) - (due or set())),
    )
    violations = []
    if missing:
        violations.append(Violation("gap", SPEC, f"{where} does not admit", missing[0]))
    if extra:
        violations.append(Violation("conflicting", SPEC, f"{where} admits beside the contract", extra[0]))
    return violations


def check_ids(tables: Tables) -> Check:
    """The id pattern of every quota state with every letter of A (V006 §3.3, ruling R22)."""
    violations: list[Violation] = []
    for quota, letter in product(v006.QUOTA_STATES, v006.LETTERS):
        due = expected.ID_PATTERNS.get((quota, letter))
        try:
            found: str | None = quota_ids(quota, letter, tables)
        except ContractError:
            found = None
        if found != due:
            text = f"{quota} with A={letter} gives {found}, not {due}"
            violations.append(Violation("conflicting", "terminal.yaml", text, f"{quota} A={letter}"))
    return Check("id patterns", {"pairs": 25}, tuple(violations))


def check_node_quota(tables: Tables) -> Check:
    """Which quota states a node may carry (V006 §2.3, ruling R14)."""
    violations: list[Violation] = []
    found = {
        (lane, node): set(quotas)
        for lane, nodes in tables.node_quota.items()
        for node, quotas in nodes.items()
    }
    for key in sorted(found.keys() | expected.NODE_QUOTA.keys()):
        shown, due = found.get(key, set()), set(expected.NODE_QUOTA.get(key, ()))
        for quota in sorted(shown ^ due):
            word = "gap" if quota in due else "conflicting"
            violations.append(Violation(word, "presence.yaml", f"quota state at {' '.join(key)}", quota))
    return Check("quota states of nodes", {"nodes": len(found)}, tuple(violations))


def without_closure(tables: Tables) -> dict[tuple[str, str], frozenset[str]]:
    """(lane, node) → the codes an item may stop with there and that no closure takes."""
    found = {}
    for (lane, node), presences in expected.NODE_PRESENCES.items():
        short = expected.SHORT_NODE[node]
        machine = ItemMachine(lane, node, tables)
        codes = set()
        for presence in presences:
            kind = kind_of_artifact(short) if presence[3] == "V" else None
            domain = _domain(tables, node.split("-")[0], presence, None) or frozenset()
            codes |= {code for code in domain if machine.closing_order(presence, kind, code) is None}
        machine.release()
        found[lane, node] = frozenset(codes)
    return found


def check_without_closure(tables: Tables) -> Check:
    """The pairs without a closure are exactly those that rulings R10 and R12 imply."""
    violations: list[Violation] = []
    found = without_closure(tables)
    lines = []
    for (lane, node), codes in found.items():
        due = v006.WITHOUT_CLOSURE[lane, expected.SHORT_NODE[node]]
        if codes:
            lines.append(f"{lane} {node}: {', '.join(sorted(codes))}")
        for code in sorted(codes - due):
            violations.append(
                Violation("gap", "closures.yaml", f"no closure takes {code} at {lane} {node}", code)
            )
        for code in sorted(due - codes):
            text = f"{code} at {lane} {node} has a closure that R10 and R12 do not give"
            violations.append(Violation("conflicting", "closures.yaml", text, code))
    pairs = sum(len(codes) for codes in found.values())
    return Check("stops without a closure", {"pairs": pairs}, tuple(violations), tuple(lines))


def check_keep(tables: Tables) -> Check:
    """Keep or close for every stop; what is to close has a closure (ruling R10)."""
    violations: list[Violation] = []
    found = {
        (lane, node, quota, code): action
        for lane, nodes in tables.keep_or_close.items()
        for node, quotas in nodes.items()
        for quota, codes in quotas.items()
        for code, action in codes.items()
    }
    for key in sorted(found.keys() | expected.KEEP.keys()):
        action, due = found.get(key), expected.KEEP.get(key)
        if action == due:
            continue
        word = "gap" if action is None else "conflicting"
        text = f"{' '.join(key)} is {action}, not {due}"
        violations.append(Violation(word, "keep.yaml", text, key[3]))
    open_pairs = without_closure(tables)
    for (lane, node, _quota, code), action in found.items():
        if action == "close" and code in open_pairs.get((lane, node), ()):
            text = f"{lane} {node} {code} is to close and no closure takes it"
            violations.append(Violation("conflicting", "keep.yaml", text, code))
    return Check("keep or close", {"stops": len(found)}, tuple(violations))


def check_failures(tables: Tables) -> Check:
    """Stage × failure → code is the contract's; each code is one an item may stop with there (R11)."""
    found = {
        (failure, place): code
        for failure, places in tables.failure_codes.items()
        for place, code in places.items()
    }
    violations: list[Violation] = []
    for key in sorted(found.keys() | expected.FAILURE_CODES.keys()):
        code, due = found.get(key), expected.FAILURE_CODES.get(key)
        if code != due:
            word = "gap" if code is None else "conflicting"
            text = f"{key[0]} at {key[1]} gives {code}"
            violations.append(Violation(word, "failures.yaml", text, f"not {due}"))
    pairs = 0
    nodes = {node for _lane, node in expected.NODE_PRESENCES}
    for failure, places in tables.failure_codes.items():
        for place, code in places.items():
            pairs += 1
            if place not in nodes:
                continue
            if code not in tables.node_codes[place]:
                text = f"{failure} at {place} gives {code}, which is no code of it"
                violations.append(Violation("conflicting", "failures.yaml", text, code))
    for node in sorted(nodes):
        if node not in tables.failure_codes.get("unexpected", {}):
            text = "a defect of the program has no code there"
            violations.append(Violation("gap", "failures.yaml", text, node))
    for state, due in expected.DOUBT.items():
        if tables.doubt_codes.get(state) != due:
            violations.append(Violation("conflicting", SPEC, f"doubt at {state} (ruling R4)", str(due)))
    return Check("failures", {"words": len(tables.failure_codes), "pairs": pairs}, tuple(violations))
