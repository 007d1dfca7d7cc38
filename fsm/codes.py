"""Codes: their class, and where an item may stop with one (V006 §3, §4; rulings R12, R25)."""

from __future__ import annotations

from fsm.errors import ContractError
from fsm.presence import Verdict, check_name, check_presence, require_defined, verdict
from fsm.tables import Tables


def code_class(code: str, tables: Tables | None = None) -> str:
    """`NONE`, `DUPLICATE`, `FAIL` or `STOP`. Raises ContractError for an unknown code."""
    tables = tables or Tables.default()
    check_name("code", code, tables.code_class)
    return tables.code_class[code]


def allowed_codes(
    state: str, presence: str, quota_state: str | None = None, tables: Tables | None = None
) -> frozenset[str]:
    """FAIL and STOP codes an item in `state` with `presence` may stop with.

    At P02-V the quota state narrows the set; without one it is the union. Raises ContractError for unknown
    names, P10, a malformed presence, a presence that is no defined cell of the state in either lane and, at
    P02-V, a quota state that cannot be there; elsewhere the quota state changes nothing. Raises
    StateUncertain for a presence with a U that no sub-state provides for.
    """
    tables = tables or Tables.default()
    check_name("state", state, tables.state_set)
    if quota_state is not None:
        check_name("quota state", quota_state, tables.quota_ids)
    check_presence(presence, tables)
    verdicts = {lane: verdict(lane, state, presence, tables) for lane in tables.matrix}
    lanes = [lane for lane, found in verdicts.items() if found in (Verdict.LEGAL, Verdict.HALT)]
    if not lanes:
        doubtful = [lane for lane, found in verdicts.items() if found is Verdict.UNCERTAIN]
        require_defined((doubtful or list(verdicts))[0], state, presence, tables)
    node = tables.node_of(state, presence)
    narrowed = tables.node_quota_codes.get(node)
    if quota_state is None or narrowed is None:
        return frozenset(tables.node_codes[node])
    if quota_state not in narrowed:
        raise ContractError(f"{node} cannot carry the quota state {quota_state}")
    return frozenset(narrowed[quota_state])


def failure_code(failure: str, node: str, tables: Tables | None = None) -> str:
    """The code of `failure` met at `node` (or `run`). Raises ContractError where the table has none."""
    tables = tables or Tables.default()
    check_name("failure", failure, tables.failure_codes)
    try:
        return tables.failure_codes[failure][node]
    except KeyError:
        raise ContractError(f"the failure {failure} has no code at {node}") from None


def quota_ids(quota_state: str, a: str, tables: Tables | None = None) -> str:
    """Which of the ids of reservation, terminal and artifact are set (V006 §3.3, ruling R22).

    Raises ContractError for a combination that cannot be.
    """
    tables = tables or Tables.default()
    check_name("quota state", quota_state, tables.quota_ids)
    check_name("letter of A", a, tables.letters)
    try:
        return tables.quota_ids[quota_state][a]
    except KeyError:
        raise ContractError(f"quota state {quota_state} cannot stand beside A={a}") from None
