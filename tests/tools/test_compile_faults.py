"""tools.compile refuses one deliberate fault of each kind, and says in which file and line it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tools.spec_copy import copy_spec
from tools.compile.check import compile_folder

# Each row: file, what stands there, what is put there, how many lines below the change the fault is named
# (None: on another line, named by the text alone), and the fault.
FAULTS = [
    # form
    ("closures", "    quota_ids: RRN", "    quota_ids: RRN\n    quota_ids: RRN", 1, "duplicate key"),
    ("closures", "    quota_ids: RRN", "    quota_idss: RRN", 0, "unknown key"),
    ("closures", "    quota_ids: RRN\n", "", None, "C07.quota_ids: this key is missing"),
    ("governance", "closing_reserve_s: 20", "closing_reserve_s: twenty", 0, "expected a whole number"),
    ("governance", "dump_worst_s: 6", "dump_worst_s: 6.5", 0, "neither a word, a whole number"),
    (
        "ledger",
        "outside_families: [REPAIRED, CLOCK_ACCEPTED]",
        "outside_families: REPAIRED",
        0,
        "expected a list",
    ),
    ("pdf", "findings:\n", "findings: [\n", None, "not YAML"),
    ("evidence", "letter: X, name", "letter: &x X, name", 0, "anchors"),
    # evidence and presence
    ("evidence", "VNN, VVN", "NVN, VVN", 0, "NVN has a later object without the earlier ones"),
    ("evidence", "  S: [NI, IV", "  S: [NI, IW", 0, "IW is not a move"),
    (
        "evidence",
        "[D], [T], [Z]]\n  PURE",
        "[D], [Z], [T]]\n  PURE",
        0,
        "Z must be the last to become durable",
    ),
    ("presence", "    P04: [I,   N, V, ", "    P04: [I,   N, ", 0, "7 cells"),
    (
        "presence",
        "    P04: [I,   N, V, ",
        "    P04: [I,   N, W, ",
        0,
        "holds no letters of the contract: 'W'",
    ),
    (
        "presence",
        "    P04: [I,   N, V, ",
        "    P04: [I,   N, V|X, ",
        0,
        "unreachable and something else at once",
    ),
    ("presence", "    P04: [I,   N, V, ", "    P04: [I,   N, V|V, ", 0, "lists a letter twice"),
    ("presence", "    P04: [I,   N, V, ", "    P11: [I,   N, V, ", 0, "unknown state: P11"),
    ("presence", "    P02: [N,   N, N|U|V,", "    P02: [N,   N, N|U|V|I,", None, "P02 Q=I is no sub-state"),
    ("presence", "  P01: [RESERVED]\n", "", None, "P01 has no quota states"),
    ("presence", "  P09: SUCCESS", "  P09: SUCCES", 0, "unknown artifact kind: SUCCES"),
    (
        "presence",
        "artifact: DUPLICATE, prefix3",
        "artifact: FAILURE, prefix3",
        0,
        "closes with artifact DUPLICATE",
    ),
    # closures
    ("closures", "sources: [P02, P03]", "sources: [P02, P33]", 0, "C07.sources: unknown state: P33"),
    ("closures", "producer: [P02, P03]", "producer: [P02, P04]", 0, "unknown source of this variant: P04"),
    (
        "closures",
        "cells: {S: N, F: N, Q: N|U, A: N}",
        "cells: {S: N, F: N, Q: N|U}",
        0,
        "object has no row: A",
    ),
    (
        "closures",
        "cells: {S: N, F: N, Q: N|U, A: N}",
        "cells: {S: N, F: N, Q: N|U, A: V}",
        0,
        "artifact kind",
    ),
    (
        "closures",
        "FAILED: [MANIFEST_INVALID]}",
        "FAILED: [PERSIST_LATE]}",
        0,
        "PERSIST_LATE is of class STOP",
    ),
    ("closures", "FAILED: [MANIFEST_INVALID]}", "FAILED: []}", 0, "names no code"),
    ("closures", "FAILED: [MANIFEST_INVALID]}", "FAILED: all}", 0, "expected a list of codes"),
    (
        "closures",
        "codes: {DUPLICATE: [DUPLICATE_EXISTING_ARTIFACT]}\n    only_sources: [CACHE_REUSE]",
        "codes: {SUCCESS: [NONE]}\n    only_sources: [CACHE_REUSE]",
        0,
        "unknown status: SUCCESS",
    ),
    (
        "closures",
        "[DUPLICATE]\n    codes: {DUPLICATE: [DUPLICATE_EXISTING_ARTIFACT]}\n    only",
        "[SUCCESS]\n    codes: {SUCCESS: [NONE]}\n    only",
        None,
        "C04: accepts what C03_REUSE_SUCCESS accepts",
    ),
    (
        "closures",
        "cells: {S: N|I|V, F: N, Q: V, A: V}",
        "cells: {S: I|V, F: N, Q: V, A: V}",
        None,
        "no run closes with P03",
    ),
    (
        "closures",
        "cells: {S: N, F: N, Q: V, A: N|U}",
        "cells: {S: V, F: N, Q: V, A: N|U}",
        None,
        "the producer cannot close from P02",
    ),
    ("closures", "    quota_ids: RRN", "    quota_ids: RNN", 0, "gives the id pattern RNN"),
    (
        "closures",
        "only_sources: [CACHE_REUSE]",
        "only_sources: [NEW_TRIGGER]",
        0,
        "unknown source of its lanes",
    ),
    (
        "unreachable",
        "sources: [P06, P07, P08], reason: 'the producer closes from P09 only (ruling R8)'}\n  - {kind: closu"
        "re_source, variant: C03",
        "sources: [P06, P07], reason: 'the producer closes from P09 only (ruling R8)'}\n  - {kind"
        ": closure_source, variant: C03",
        None,
        "C01.sources: no run closes with P08",
    ),
    (
        "unreachable",
        "variant: C02_NEW_DUPLICATE, sources: [P06,",
        "variant: C02_NEW_DUPLICATE, sources: [P05, P06,",
        0,
        "C02_NEW_DUPLICATE is reached with P05",
    ),
    # codes
    (
        "codes",
        "    - PDF_ENCRYPTED\n    - PUBLISH_FAILED\n    - MANIFEST_INVALID",
        "    - PUBLISH_FAILED\n    - MANIFEST_INVALID",
        None,
        "stages.P05.6: unknown FAIL or STOP code: PDF_ENCRYPTED",
    ),
    (
        "codes",
        "    - DEADLINE_EXPIRED\n\n# V006 §3.5",
        "    - DEADLINE_EXPIRED\n    - PULL_FAILED\n\n# V006 §3.5",
        1,
        "PULL_FAILED is in class FAIL already",
    ),
    (
        "codes",
        "  P07: [PERSIST_LATE]",
        "  P07: [PERSIST_LATER]",
        0,
        "unknown FAIL or STOP code: PERSIST_LATER",
    ),
    ("codes", "  P07: [PERSIST_LATE]\n", "", None, "stages: state has no row: P07"),
    (
        "codes",
        "    - CACHE_AMBIGUOUS\n    - REMOTE_FILE_CHANGED\n    - PULL",
        "    - REMOTE_FILE_CHANGED\n    - PULL",
        None,
        "no stage has CACHE_AMBIGUOUS",
    ),
    (
        "codes",
        "- {node: P03-V, of_class: FAIL}",
        "- {node: P03-V, of_class: NONE}",
        0,
        "unknown class of stops: NONE",
    ),
    (
        "codes",
        "- {node: P03-V, of_class: FAIL}",
        "- {node: P03-W, of_class: FAIL}",
        0,
        "unknown sub-state: P03-W",
    ),
    (
        "codes",
        "{RELEASED: [TRIGGER_NOT_OCCURRED]",
        "{RESERVED: [TRIGGER_NOT_OCCURRED]",
        None,
        "unknown quota state",
    ),
    ("codes", "  P06: UNEXPECTED_EXCEPTION", "  P06: RECOVERY_UNKNOWN", 0, "unknown code of the stage"),
    # terminal, steps
    ("terminal", "  - sha256", "  - bytes", None, "keys listed twice: bytes"),
    (
        "terminal",
        '  CONFIRMED: {"N": RRN, U: RRN, V: RRR}',
        '  CONFIRMED: {"N": RRN, V: RRR}',
        0,
        "may carry CONFIRMED with A=U",
    ),
    ("terminal", "  P02: [true, null]", "  P05: [true, null]", None, "state has no row: P02"),
    ("steps", "step: staging.fill, kind: sink", "step: staging.fill, kind: sing", 0, "unknown kind: sing"),
    ("steps", "marks: CACHE_IDENTITY", "marks: CACHE_IDENTTY", 0, "unknown journal event: CACHE_IDENTTY"),
    ("steps", "step: candidate.remove,", "step: candidate.fill,", 0, "step is already on line"),
    # edges
    ("edges", "target: P03-N, guard", "target: P03-Z, guard", 0, "unknown target node: P03-Z"),
    ("edges", "guard: may_seek", "guard: may_peek", 0, "unknown guard: may_peek"),
    ("edges", "steps: [staging.fill]", "steps: [staging.filled]", 0, "unknown step: staging.filled"),
    ("edges", "event: uncertain, target", "event: confirmed, target", 0, "edge is already on line"),
    (
        "edges",
        "events: [pulled, changed, refused]",
        "events: [pulled, changed, refused, lost]",
        0,
        "no edge answers the event lost",
    ),
    (
        "edges",
        "events: [pulled, changed, refused]",
        "events: [pulled, refused]",
        None,
        "never ends with changed",
    ),
    (
        "edges",
        "steps: [confirm.append]",
        "steps: [intent.journal]",
        0,
        "leaves NNNNNNNN, which the row of P02-V",
    ),
    (
        "edges",
        "steps: [staging.fill]",
        "steps: [staging.fill, staging.remove, artifact.append]",
        0,
        "leaves NVVVNNNN",
    ),
    (
        "edges",
        "[publish.journal, publish.folder, publish.link, artifact.append]}",
        "[publish.journal, publish.folder, publish.link, manifest.append, artifact.append]}",
        0,
        "artifact.append makes F durable after M",
    ),
    (
        "edges",
        "event: seek, target: P03-N, guard: may_seek, steps: [seek.journal]",
        "event: seek, target: P03-N, guard: may_seek, steps: [confirm.append]",
        0,
        "moves nothing: Q is V already",
    ),
    (
        "edges",
        "event: matched, target: P04-N, steps: [identity.journal, staging.create]",
        "event: matched, target: P03-N, steps: [identity.journal]",
        None,
        "no edge leads here",
    ),
    (
        "edges",
        "steps: [closing.journal, terminal.write]\n  exc",
        "steps: [terminal.write, closing.journal]\n  exc",
        None,
        "the last step must make Z durable",
    ),
    (
        "edges",
        "delivery.write, timing.write, terminal.write]",
        "timing.write, delivery.write, terminal.write]",
        None,
        "C02_NEW_DUPLICATE: delivery.write makes D durable after T",
    ),
    (
        "presence",
        "DUPLICATE, prefix3: [NNN, VNN, VVN, VVV]",
        "DUPLICATE, prefix3: [NNN, VNN, VVN]",
        None,
        "after 5 steps the evidence shows neither source, target nor a closing window",
    ),
    # failures
    (
        "failures",
        "- {failure: cursor_lost, at: {P01: UI_CURSOR",
        "- {failure: cursor_lost, at: {P11: UI_CURSOR",
        0,
        "unknown node, state or group: P11",
    ),
    (
        "failures",
        "- {failure: cursor_lost, at: {P01: UI_CURSOR_RESTORE_FAILED,",
        "- {failure: cursor_lost, at: {P01: PERSIST_LATE,",
        0,
        "an item cannot stop with PERSIST_LATE at P01",
    ),
    (
        "failures",
        "phone: [P00, P01, P03, P04, run]",
        "phone: [P00, P01, P02, P03, P04, run]",
        None,
        "an item cannot stop with PROCESS_TIMEOUT at P02",
    ),
    ("failures", "failure: no_new_file", "failure: detail_mismatch", 0, "failure is already on line"),
    ("failures", "failure: no_new_file", "failure: No-new-file", 0, "is not written in lower case"),
    # keep, recovery
    (
        "keep",
        "nodes: [P03-N, P03-U], codes: all, action: keep",
        "nodes: [P03-N], codes: all, action: keep",
        None,
        "no row decides NEW_TRIGGER P03-U CONFIRMED: PROCESS_LIVENESS_UNKNOWN, RECOVERY_UNKNOWN",
    ),
    (
        "keep",
        "nodes: [P06, P07, P08], codes: [PERSIST_LATE]",
        "nodes: [P06, P07, P08, P09], codes: [PERSIST_LATE]",
        1,
        "is decided on line",
    ),
    (
        "keep",
        "nodes: [P06], codes: [MANIFEST_INVALID]",
        "nodes: [P06], codes: [MANIFEST_INVALID, LOCK_TIMEOUT]",
        0,
        "no closure accepts LOCK_TIMEOUT at P06",
    ),
    (
        "keep",
        "nodes: [P06, P07, P08, P09], codes: all, action: close",
        "nodes: [P06, P07, P08, P09], codes: all, action: drop",
        0,
        "unknown action: drop",
    ),
    (
        "recovery",
        "nodes: [P03-N], marks: [STATE, CACHE_IDENTITY]",
        "nodes: [P03-N], marks: [STATE]",
        None,
        "a run may end at NEW_TRIGGER P03-N with mark CACHE_IDENTITY",
    ),
    (
        "recovery",
        "nodes: [P01], marks: [ITEM_OPENED]",
        "nodes: [P01, P00], marks: [ITEM_OPENED]",
        0,
        "NEW_TRIGGER P00 ITEM_OPENED is answered on line",
    ),
    # the rest
    ("ledger", "  RELEASED: {}", "  RELEASED: {CONFIRMED: CONFIRMD}", 0, "unknown automaton state: CONFIRMD"),
    (
        "ledger",
        "  RELEASED: {quota_state: RELEASED, object: Q}",
        "  RELEASED: {quota_state: CONFIRMED, object: Q}",
        0,
        "leads to RELEASED and shows CONFIRMED",
    ),
    (
        "ledger",
        "  CONFIRMED: {quota_state: CONFIRMED, object: Q}",
        "  CONFIRMED: {quota_state: CONFIRMED}",
        0,
        "CONFIRMED is quota terminal: object Q",
    ),
    ("governance", "status: PARTIAL, exit: 10", "status: PARTIAL, exit: 11", 0, "exit is already on line"),
    (
        "governance",
        "code: CACHE_TIMEOUT, at: 1",
        "code: CACHE_TIMEOUTS, at: 1",
        0,
        "unknown code: CACHE_TIMEOUTS",
    ),
    (
        "pdf",
        "finding: empty, code: PDF_MAGIC_INVALID",
        "finding: empty, code: CACHE_TIMEOUT",
        0,
        "no verdict on a file",
    ),
    (
        "pdf",
        "finding: empty, code: PDF_MAGIC_INVALID",
        "finding: magic, code: PDF_MAGIC_INVALID",
        1,
        "finding is already on line",
    ),
    (
        "rulings",
        "witness: [{closure: [NEW_TRIGGER, P06,",
        "witness: [{closure: [NEW_TRIGGER, P66,",
        0,
        "unknown state: P66",
    ),
    (
        "rulings",
        "[{test: a full disk at terminal.json leaves the item at P09}]",
        "[]",
        None,
        "a ruling without a witness",
    ),
]


@pytest.mark.parametrize(
    ("name", "old", "new", "below", "text"), FAULTS, ids=[f"{r[0]}: {r[4]}" for r in FAULTS]
)
def test_fault_is_refused_and_located(
    tmp_path: Path, name: str, old: str, new: str, below: int | None, text: str
) -> None:
    spec = copy_spec(tmp_path)
    line = spec.change(name, old, new)
    faults = [str(fault) for fault in compile_folder(spec.folder).faults]
    hits = [fault for fault in faults if text in fault]
    assert hits, faults
    assert all(re.match(r"spec/[a-z]+\.yaml:\d+", fault) for fault in faults)
    if below is not None:
        assert any(fault.startswith(f"spec/{name}.yaml:{line + below} ") for fault in hits), hits
