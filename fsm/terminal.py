"""The closed constructor of the public item (V006 §3; rulings R4, R5, R9, R21-R24).

The snapshot is validated first and never repaired. Every check raises ContractError with what does not fit;
there is no default and no nearest branch.
"""

from __future__ import annotations

import re
from typing import Any

from fsm.closures import match_closure, source_presence
from fsm.codes import allowed_codes, code_class, quota_ids
from fsm.errors import ContractError
from fsm.presence import check_name, check_presence, require_defined
from fsm.snapshot import ItemOutcome, ItemPackageSnapshot, TerminalItem
from fsm.tables import Tables


def build_terminal_item(
    snapshot: ItemPackageSnapshot, outcome: ItemOutcome, tables: Tables | None = None
) -> TerminalItem:
    """The public item of `snapshot` that ended or stopped with `outcome`.

    Raises ContractError when snapshot or outcome break the contract, StateUncertain when the snapshot has a U
    that no sub-state provides for.
    """
    tables = tables or Tables.default()
    _check_names(snapshot, tables)
    source_state = _check_presence(snapshot, outcome, tables)
    _check_quota(snapshot, source_state, tables)
    _check_trigger(snapshot, source_state, tables)
    _check_files(snapshot, tables)
    status = _check_outcome(snapshot, outcome, source_state, tables)
    return _assemble(snapshot, outcome.code, status, tables)


def validate_snapshot(snapshot: ItemPackageSnapshot, tables: Tables | None = None) -> None:
    """Refuse a running item's snapshot (P00-P09) that breaks it; raises as `build_terminal_item`."""
    tables = tables or Tables.default()
    _check_names(snapshot, tables)
    if snapshot.state == tables.closed_state:
        raise ContractError("a closed item is validated with its closure")
    source_state = _check_presence(snapshot, None, tables)
    _check_quota(snapshot, source_state, tables)
    _check_trigger(snapshot, source_state, tables)
    _check_files(snapshot, tables)


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise ContractError(message)


def _check_names(snapshot: ItemPackageSnapshot, tables: Tables) -> None:
    check_name("lane", snapshot.lane, tables.matrix)
    check_name("state", snapshot.state, tables.state_set)
    check_name("source", snapshot.source, tables.lane_sources[snapshot.lane])
    check_name("quota state", snapshot.quota_state, tables.quota_ids)
    check_presence(snapshot.presence, tables)
    _need(
        type(snapshot.item_index) is int and snapshot.item_index >= 1,
        f"item_index {snapshot.item_index!r} is not a number from 1 on",
    )
    for field in ("run_id", "item_id", "report_id"):
        value = getattr(snapshot, field)
        _need(isinstance(value, str) and value != "", f"{field} {value!r} is not a non-empty text")
    for field in ("reservation_event_id", "quota_terminal_event_id", "artifact_event_id", "manifest_row_id"):
        value = getattr(snapshot, field)
        _need(
            value is None or (isinstance(value, str) and value != ""),
            f"{field} {value!r} is neither an id nor absent",
        )
    if snapshot.closing is not None:
        check_name("closing record", snapshot.closing, tables.closures)


def _window(snapshot: ItemPackageSnapshot, tables: Tables) -> bool:
    """True inside the window of an announced closure that has successors to write (ruling R5)."""
    for window in tables.closing_windows:
        if (snapshot.closing, snapshot.lane, snapshot.state) != (
            window["closing"],
            window["lane"],
            window["state"],
        ):
            continue
        if snapshot.artifact != window["artifact"] or snapshot.presence[-1] != "N":
            continue
        if all(letter in cell for letter, cell in zip(snapshot.presence, window["cells"], strict=False)):
            return snapshot.presence[4:7] in window["prefix3"]
    return False


def _check_presence(snapshot: ItemPackageSnapshot, outcome: ItemOutcome | None, tables: Tables) -> str:
    """Check presence, artifact kind and Z against state and closure; return the state the facts belong to."""
    letter_a = snapshot.presence[3]
    _need(
        snapshot.source != "PROJECT_REUSE" or snapshot.presence[0] == "N",
        "a project copy has no staging file",
    )
    _need(
        (snapshot.artifact is not None) == (letter_a == "V"),
        f"A={letter_a} with artifact kind {snapshot.artifact!r}",
    )
    closure = outcome.closure if outcome else None
    if snapshot.state == tables.closed_state:
        _need(closure is not None, f"{snapshot.state} without a closure")
        assert closure is not None
        check_name("closure", closure.variant, tables.closures)
        check_name("source state", closure.source_state, tables.state_set)
        _need(closure.source_state != tables.closed_state, "a closed item is not a source")
        _need(snapshot.presence[-1] == "V", "a closed item whose terminal is not verified")
        return closure.source_state
    _need(closure is None, f"a closure on an item that is still {snapshot.state}")
    if _window(snapshot, tables):
        return snapshot.state
    require_defined(snapshot.lane, snapshot.state, snapshot.presence, tables)
    if letter_a == "V":
        node = tables.node_of(snapshot.state, snapshot.presence)
        _need(
            tables.node_artifact.get(node) == snapshot.artifact,
            f"{node} cannot have the artifact kind {snapshot.artifact}",
        )
    return snapshot.state


def _check_quota(snapshot: ItemPackageSnapshot, source_state: str, tables: Tables) -> None:
    before = source_presence(snapshot.lane, source_state, snapshot.presence, tables)
    node = tables.node_of(source_state, before)
    possible = tables.node_quota[snapshot.lane].get(node)
    _need(possible is not None, f"{snapshot.lane} has no {node}")
    _need(
        snapshot.quota_state in (possible or ()),
        f"{node} cannot carry the quota state {snapshot.quota_state}",
    )
    pattern = quota_ids(snapshot.quota_state, snapshot.presence[3], tables)
    ids = (snapshot.reservation_event_id, snapshot.quota_terminal_event_id, snapshot.artifact_event_id)
    shown = "".join(letter if value else "N" for value, letter in zip(ids, "RRR", strict=True))
    _need(
        shown == pattern,
        f"quota ids {shown} where {snapshot.quota_state} with A={snapshot.presence[3]} has {pattern}",
    )
    uncertain_goes_on = snapshot.quota_state == "UNCERTAIN" and snapshot.presence[2] == "V"
    if uncertain_goes_on and source_state not in (tables.states[0], tables.states[1], tables.states[2]):
        _need(
            snapshot.cache_identity is not None,
            f"UNCERTAIN at {source_state} without a cache identity (ruling R14)",
        )


def _check_trigger(snapshot: ItemPackageSnapshot, source_state: str, tables: Tables) -> None:
    pair = tables.trigger_pairs.get(snapshot.quota_state) or tables.trigger_pairs_reserved[source_state]
    shown = (snapshot.trigger_attempted, snapshot.triggered)
    _need(
        all(a is b for a, b in zip(shown, pair, strict=True)),
        f"trigger pair {shown} where {snapshot.quota_state} at {source_state} has {tuple(pair)}",
    )


def _check_files(snapshot: ItemPackageSnapshot, tables: Tables) -> None:
    final, letter_f, letter_m = snapshot.final, snapshot.presence[1], snapshot.presence[4]
    _need((final is not None) == (letter_f == "V"), f"F={letter_f} with final {final!r}")
    _need(
        (snapshot.manifest_row_id is not None) == (letter_m == "V"),
        f"M={letter_m} with manifest row {snapshot.manifest_row_id!r}",
    )
    if final is None:
        return
    numbers = (final.size_bytes, final.page_count)
    _need(
        all(type(number) is int and number > 0 for number in numbers),
        f"a final file of {numbers} bytes and pages",
    )
    _need(
        isinstance(final.sha256, str) and re.fullmatch("[0-9a-f]{64}", final.sha256) is not None,
        f"{final.sha256!r} is not a lower-case sha256",
    )
    # A colon would make the path absolute on Windows ("C:/..."); names never have one (design 9).
    parts = final.path.split("/") if isinstance(final.path, str) else [""]
    _need(
        not {"", ".", ".."} & set(parts) and not any(sign in final.path for sign in "\\:"),
        f"final path {final.path!r}",
    )


def _check_outcome(
    snapshot: ItemPackageSnapshot, outcome: ItemOutcome, source_state: str, tables: Tables
) -> str:
    kind = code_class(outcome.code, tables)
    status = tables.status_of_class[kind]
    closure = outcome.closure
    if closure is None:
        _need(kind in ("FAIL", "STOP"), f"{outcome.code} without a closure (ruling R9)")
        _check_domain(snapshot, outcome.code, source_state, snapshot.presence, tables)
        return status
    fits = match_closure(snapshot.lane, source_state, snapshot.presence, snapshot.artifact, status, tables)
    _need(fits is not None, f"no closure accepts {status} from {source_state} with {snapshot.presence}")
    row = tables.closures[closure.variant]
    # C03 and C04 differ in the status alone, so a variant other than the named one is always a wrong name.
    _need(fits == closure.variant, f"this is {fits}, not {closure.variant}")
    _need(snapshot.source in row["only_sources"], f"{closure.variant} is not for {snapshot.source}")
    codes = row["codes"][status]
    _need(
        codes == "stage" or outcome.code in codes,
        f"{closure.variant} cannot close {status} with {outcome.code} (ruling R9)",
    )
    if kind in ("FAIL", "STOP"):
        # V006 §4: also where the variant names its codes, they must be codes of the source.
        _check_domain(snapshot, outcome.code, source_state, snapshot.presence, tables)
    return status


def _check_domain(
    snapshot: ItemPackageSnapshot, code: str, source_state: str, presence: str, tables: Tables
) -> None:
    if _window(snapshot, tables):
        # Inside a closing window the verdict stands already; only the writing can fail (rulings R5, R24).
        writing_failed = tables.failure_codes["unexpected"][tables.node_of(source_state, presence)]
        _need(code == writing_failed, f"{code} inside the window of {snapshot.closing}")
        return
    before = source_presence(snapshot.lane, source_state, presence, tables)
    domain = allowed_codes(source_state, before, snapshot.quota_state, tables)
    _need(code in domain, f"{code} is not a code of {tables.node_of(source_state, before)}")


def _note(snapshot: ItemPackageSnapshot, code: str, status: str, tables: Tables) -> str:
    if status == "SUCCESS":
        if snapshot.quota_state == "UNCERTAIN":
            return str(tables.notes["success_uncertain_trigger"])
        return str(tables.notes[status][snapshot.lane])
    return str(tables.notes[status]).format(code=code)


def _assemble(snapshot: ItemPackageSnapshot, code: str, status: str, tables: Tables) -> TerminalItem:
    final = snapshot.final
    values: dict[str, Any] = {
        "schema_version": tables.schema_version,
        "run_id": snapshot.run_id,
        "item_index": snapshot.item_index,
        "item_id": snapshot.item_id,
        "report_id": snapshot.report_id,
        "source": snapshot.source,
        "state": snapshot.state,
        "status": status,
        "stop_code": None if status == "SUCCESS" else code,
        "error_or_note": _note(snapshot, code, status, tables),
        "reused_without_new_trigger": snapshot.lane == "PURE_REUSE",
        "trigger_attempted": snapshot.trigger_attempted,
        "triggered": snapshot.triggered,
        "quota_state": snapshot.quota_state,
        "quota_reservation_event_id": snapshot.reservation_event_id,
        "quota_terminal_event_id": snapshot.quota_terminal_event_id,
        "artifact_terminal_event_id": snapshot.artifact_event_id,
        "title": snapshot.title,
        "institution": snapshot.institution,
        "date": snapshot.date,
        "analysts": None if snapshot.analysts is None else list(snapshot.analysts),
        "final_path": None if final is None else final.path,
        "bytes": None if final is None else final.size_bytes,
        "sha256": None if final is None else final.sha256,
        "page_count": None if final is None else final.page_count,
        "manifest_row_id": snapshot.manifest_row_id,
    }
    return TerminalItem(tuple((key, values[key]) for key in tables.keys))
