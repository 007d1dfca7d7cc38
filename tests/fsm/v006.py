"""V006 and the rulings, copied by hand into plain Python, and the most naive reading of them.

Nothing here is read from `spec/`,
 `generated/` or `fsm/`: these are the expectations the tests of `fsm` compare with,
so a mistake in the authored tables cannot hide behind the same mistake in the test.
"""

from __future__ import annotations

from itertools import product
from typing import Final

NEW: Final = "NEW_TRIGGER"
PURE: Final = "PURE_REUSE"
LANES: Final = (NEW, PURE)
LETTERS: Final = "NVIUX"
SHORT: Final = ("P00", "P01", "P02", "P03", "P04", "P05", "P06", "P07", "P08", "P09")
FULL: Final = {
    "P00": "P00_INIT",
    "P01": "P01_RESERVED",
    "P02": "P02_TRIGGER_UNKNOWN",
    "P03": "P03_CACHE_MATCHED",
    "P04": "P04_STAGING_PARTIAL",
    "P05": "P05_STAGING_VALID",
    "P06": "P06_PUBLISHED",
    "P07": "P07_MANIFESTED",
    "P08": "P08_DELIVERY",
    "P09": "P09_TIMING",
    "P10": "P10_CLOSED",
}
OPEN_STATES: Final = tuple(FULL[short] for short in SHORT)
CLOSED: Final = "P10_CLOSED"
SHORT_OF: Final = {full: short for short, full in FULL.items()}

# V006 §2.1 and §2.2, columns S F Q A M D T Z, as printed.
MATRIX: Final = {
    (NEW, "P00"): "N N N N N N N N",
    (NEW, "P01"): "N N N N N N N N",
    (NEW, "P02"): "N N N|U|V N N N N N",
    (NEW, "P03"): "N N V N|U|V N N N N",
    (NEW, "P04"): "I N V N|U|V N N N N",
    (NEW, "P05"): "V N V N|U|V N N N N",
    (NEW, "P06"): "N|V V V V N N N N",
    (NEW, "P07"): "N|V V V V V N N N",
    (NEW, "P08"): "N|V V V V V V N N",
    (NEW, "P09"): "N|V V V V V V V N",
    (PURE, "P00"): "N N N N N N N N",
    (PURE, "P01"): "X X X X X X X X",
    (PURE, "P02"): "X X X X X X X X",
    (PURE, "P03"): "X X X X X X X X",
    (PURE, "P04"): "X X X X X X X X",
    (PURE, "P05"): "X X X X X X X X",
    (PURE, "P06"): "N|V V N N N N N N",
    (PURE, "P07"): "N|V V N N V N N N",
    (PURE, "P08"): "N|V V N N V V N N",
    (PURE, "P09"): "N|V V N N V V V N",
}


def cells(lane: str, short: str) -> list[list[str]]:
    """The letters each of the eight cells lists."""
    return [cell.split("|") for cell in MATRIX[lane, short].split()]


def judge(lane: str, short: str, presence: str) -> str:
    """Ruling R1, read word by word for one presence."""
    row = cells(lane, short)
    if "X" in presence or row[0] == ["X"]:
        return "CONTRACT_ERROR"
    every_listed = all(letter in cell for letter, cell in zip(presence, row, strict=True))
    if every_listed:
        return "HALT" if "U" in presence else "LEGAL"
    if all(letter == "U" or letter in cell for letter, cell in zip(presence, row, strict=True)):
        return "UNCERTAIN"
    return "CONTRACT_ERROR"


def index(presence: str) -> int:
    """Place of a presence in a verdict table: base 5 with N V I U X = 0 1 2 3 4, S most significant."""
    value = 0
    for letter in presence:
        value = value * 5 + LETTERS.index(letter)
    return value


def whole_table(lane: str, short: str) -> bytes:
    """All 390 625 verdict bytes, made the other way round: generate what is defined, the rest is 3."""
    table = bytearray(b"\x03" * 5**8)
    row = cells(lane, short)
    if row[0] == ["X"]:
        return bytes(table)
    for letters in product(*({*cell, "U"} for cell in row)):
        table[index("".join(letters))] = 2
    for letters in product(*row):
        table[index("".join(letters))] = 1 if "U" in letters else 0
    return bytes(table)


# ------------------------------------------------ nodes: a state with the letter that splits it
NODE_PRESENCES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    (NEW, "P00"): ("NNNNNNNN",),
    (NEW, "P01"): ("NNNNNNNN",),
    (NEW, "P02-N"): ("NNNNNNNN",),
    (NEW, "P02-U"): ("NNUNNNNN",),
    (NEW, "P02-V"): ("NNVNNNNN",),
    (NEW, "P03-N"): ("NNVNNNNN",),
    (NEW, "P03-U"): ("NNVUNNNN",),
    (NEW, "P03-V"): ("NNVVNNNN",),
    (NEW, "P04-N"): ("INVNNNNN",),
    (NEW, "P04-U"): ("INVUNNNN",),
    (NEW, "P04-V"): ("INVVNNNN",),
    (NEW, "P05-N"): ("VNVNNNNN",),
    (NEW, "P05-U"): ("VNVUNNNN",),
    (NEW, "P05-V"): ("VNVVNNNN",),
    (NEW, "P06"): ("NVVVNNNN", "VVVVNNNN"),
    (NEW, "P07"): ("NVVVVNNN", "VVVVVNNN"),
    (NEW, "P08"): ("NVVVVVNN", "VVVVVVNN"),
    (NEW, "P09"): ("NVVVVVVN", "VVVVVVVN"),
    (PURE, "P00"): ("NNNNNNNN",),
    (PURE, "P06"): ("NVNNNNNN", "VVNNNNNN"),
    (PURE, "P07"): ("NVNNVNNN", "VVNNVNNN"),
    (PURE, "P08"): ("NVNNVVNN", "VVNNVVNN"),
    (PURE, "P09"): ("NVNNVVVN", "VVNNVVVN"),
}
PAID: Final = ("CONFIRMED", "UNCERTAIN")
NODE_QUOTA: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    (NEW, "P00"): ("NONE",),
    (NEW, "P01"): ("RESERVED",),
    (NEW, "P02-N"): ("RESERVED",),
    (NEW, "P02-U"): ("RESERVED",),
    (NEW, "P02-V"): ("RELEASED", "CONFIRMED", "UNCERTAIN"),
    **{(NEW, f"P0{stage}-{letter}"): PAID for stage in (3, 4, 5) for letter in "NUV"},
    **{(NEW, f"P0{stage}"): PAID for stage in (6, 7, 8, 9)},
    **{(PURE, f"P0{stage}"): ("NONE",) for stage in (0, 6, 7, 8, 9)},
}
QUOTA_STATES: Final = ("NONE", "RESERVED", "RELEASED", "CONFIRMED", "UNCERTAIN")


def node_of(state: str, presence: str) -> str:
    """V006 §2.3: P02 is split by Q, P03 to P05 by A."""
    short = SHORT_OF[state]
    if short == "P02":
        return f"P02-{presence[2]}"
    if short in ("P03", "P04", "P05"):
        return f"{short}-{presence[3]}"
    return short


# ---------------------------------------------------------------- codes
FAIL_CODES: Final = frozenset(
    [
        "PULL_FAILED",
        "PDF_MAGIC_INVALID",
        "BYTE_COUNT_MISMATCH",
        "HASH_MISMATCH",
        "PDF_NOT_OPENABLE",
        "PAGE_COUNT_MISMATCH",
        "PDF_ENCRYPTED",
        "PUBLISH_FAILED",
        "MANIFEST_INVALID",
        "UNEXPECTED_EXCEPTION",
    ]
)
STOP_CODES: Final = frozenset(
    [
        "TASK_SPEC_INVALID",
        "CLOCK_INVALID",
        "PROCESS_START_FAILED",
        "PROCESS_TIMEOUT",
        "PROCESS_OUTPUT_LIMIT",
        "PROCESS_LIVENESS_UNKNOWN",
        "DEVICE_NOT_UNIQUE",
        "DEVICE_NOT_ONLINE",
        "PACKAGE_MISSING",
        "CACHE_UNREADABLE",
        "ACCESS_CONTROL_PRESENT",
        "CANDIDATE_REJECTED",
        "LOCK_TIMEOUT",
        "QUOTA_LEDGER_INVALID",
        "QUOTA_REPLAY_CONFLICT",
        "QUOTA_EXHAUSTED",
        "QUOTA_DATE_UNCERTAIN",
        "RECOVERY_UNKNOWN",
        "UI_ANCHOR_DRIFT",
        "UI_CURSOR_RESTORE_FAILED",
        "DETAIL_RESULT_MISMATCH",
        "TRIGGER_NOT_OCCURRED",
        "TRIGGER_UNCERTAIN",
        "CACHE_TIMEOUT",
        "CACHE_AMBIGUOUS",
        "REMOTE_FILE_CHANGED",
        "FINAL_PATH_CONFLICT",
        "PERSIST_LATE",
        "DEADLINE_EXPIRED",
    ]
)
DUPLICATE_CODE: Final = "DUPLICATE_EXISTING_ARTIFACT"
ALL_CODES: Final = FAIL_CODES | STOP_CODES | {"NONE", DUPLICATE_CODE}
STATUS_OF_CODE: Final = {
    **dict.fromkeys(FAIL_CODES, "FAILED"),
    **dict.fromkeys(STOP_CODES, "STOPPED"),
    "NONE": "SUCCESS",
    DUPLICATE_CODE: "DUPLICATE",
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# V006 §4 with §2.3 and rulings R11, R12, written out node by node.
DOMAIN: Final[dict[str, frozenset[str]]] = {
    "P00": _words(
        "DEADLINE_EXPIRED UNEXPECTED_EXCEPTION TASK_SPEC_INVALID CLOCK_INVALID PROCESS_START_FAILED "
        "PROCESS_TIMEOUT PROCESS_OUTPUT_LIMIT PROCESS_LIVENESS_UNKNOWN DEVICE_NOT_UNIQUE DEVICE_NOT_ONLINE "
        "PACKAGE_MISSING CACHE_UNREADABLE ACCESS_CONTROL_PRESENT CANDIDATE_REJECTED LOCK_TIMEOUT "
        "QUOTA_LEDGER_INVALID QUOTA_REPLAY_CONFLICT QUOTA_EXHAUSTED QUOTA_DATE_UNCERTAIN RECOVERY_UNKNOWN"
    ),
    "P01": _words(
        "DEADLINE_EXPIRED UNEXPECTED_EXCEPTION PROCESS_START_FAILED PROCESS_TIMEOUT PROCESS_OUTPUT_LIMIT "
        "PROCESS_LIVENESS_UNKNOWN UI_ANCHOR_DRIFT ACCESS_CONTROL_PRESENT UI_CURSOR_RESTORE_FAILED "
        "DETAIL_RESULT_MISMATCH TRIGGER_NOT_OCCURRED TRIGGER_UNCERTAIN RECOVERY_UNKNOWN"
    ),
    "P02-N": _words("PROCESS_LIVENESS_UNKNOWN RECOVERY_UNKNOWN"),
    "P02-U": _words("QUOTA_LEDGER_INVALID PROCESS_LIVENESS_UNKNOWN RECOVERY_UNKNOWN"),
    "P02-V": _words(
        "DEADLINE_EXPIRED UNEXPECTED_EXCEPTION PROCESS_LIVENESS_UNKNOWN RECOVERY_UNKNOWN "
        "TRIGGER_NOT_OCCURRED TRIGGER_UNCERTAIN"
    ),
    "P03-N": _words(
        "DEADLINE_EXPIRED UNEXPECTED_EXCEPTION PROCESS_START_FAILED PROCESS_TIMEOUT PROCESS_OUTPUT_LIMIT "
        "PROCESS_LIVENESS_UNKNOWN CACHE_TIMEOUT CACHE_AMBIGUOUS REMOTE_FILE_CHANGED PULL_FAILED "
        "RECOVERY_UNKNOWN"
    ),
    "P03-U": _words("PROCESS_LIVENESS_UNKNOWN RECOVERY_UNKNOWN"),
    "P03-V": _words("PULL_FAILED UNEXPECTED_EXCEPTION"),
    "P04-N": _words(
        "DEADLINE_EXPIRED UNEXPECTED_EXCEPTION PROCESS_START_FAILED PROCESS_TIMEOUT PROCESS_OUTPUT_LIMIT "
        "PROCESS_LIVENESS_UNKNOWN PULL_FAILED BYTE_COUNT_MISMATCH HASH_MISMATCH RECOVERY_UNKNOWN"
    ),
    "P04-U": _words("PROCESS_LIVENESS_UNKNOWN RECOVERY_UNKNOWN"),
    "P04-V": _words("PULL_FAILED BYTE_COUNT_MISMATCH HASH_MISMATCH UNEXPECTED_EXCEPTION"),
    "P05-N": _words(
        "DEADLINE_EXPIRED UNEXPECTED_EXCEPTION PDF_MAGIC_INVALID BYTE_COUNT_MISMATCH HASH_MISMATCH "
        "PDF_NOT_OPENABLE PAGE_COUNT_MISMATCH PDF_ENCRYPTED FINAL_PATH_CONFLICT PUBLISH_FAILED "
        "RECOVERY_UNKNOWN"
    ),
    "P05-U": _words("RECOVERY_UNKNOWN"),
    "P05-V": _words(
        "PDF_MAGIC_INVALID BYTE_COUNT_MISMATCH HASH_MISMATCH PDF_NOT_OPENABLE PAGE_COUNT_MISMATCH "
        "PDF_ENCRYPTED PUBLISH_FAILED UNEXPECTED_EXCEPTION"
    ),
    "P06": _words("DEADLINE_EXPIRED UNEXPECTED_EXCEPTION LOCK_TIMEOUT MANIFEST_INVALID PERSIST_LATE"),
    "P07": _words("DEADLINE_EXPIRED UNEXPECTED_EXCEPTION PERSIST_LATE"),
    "P08": _words("DEADLINE_EXPIRED UNEXPECTED_EXCEPTION PERSIST_LATE"),
    "P09": _words("DEADLINE_EXPIRED UNEXPECTED_EXCEPTION PERSIST_LATE"),
}
_SETTLED: Final = "DEADLINE_EXPIRED UNEXPECTED_EXCEPTION PROCESS_LIVENESS_UNKNOWN RECOVERY_UNKNOWN"
P02_V_DOMAIN: Final[dict[str, frozenset[str]]] = {
    "RELEASED": _words(_SETTLED + " TRIGGER_NOT_OCCURRED"),
    "CONFIRMED": _words(_SETTLED),
    "UNCERTAIN": _words(_SETTLED + " TRIGGER_UNCERTAIN"),
}


def domain(node: str, quota_state: str) -> frozenset[str]:
    """The codes an item at `node` with this quota state may stop with."""
    return P02_V_DOMAIN[quota_state] if node == "P02-V" else DOMAIN[node]


# ---------------------------------------------------------------- closures
PREFIXES: Final = ("NNN", "VNN", "VVN", "VVV")
LONGER: Final = {"P06": PREFIXES, "P07": PREFIXES[1:], "P08": PREFIXES[2:], "P09": PREFIXES[3:]}
POST: Final = ("P06", "P07", "P08", "P09")

Closing = tuple[str, str, str, str | None, str]  # lane, source (short), presence, artifact kind, status


def accepted_closings() -> dict[Closing, str]:
    """Every closing V006 §2.4 accepts, with rulings R5, R6, R8: 157 of them, spelt out variant by variant."""
    found: dict[Closing, str] = {}

    def accept(
        variant: str, lane: str, source: str, presence: str, artifact: str | None, status: str
    ) -> None:
        key = (lane, source, presence, artifact, status)
        assert key not in found, (key, found.get(key), variant)
        found[key] = variant

    for source in POST:
        for s in "NV":
            accept("C01_NEW_SUCCESS", NEW, source, s + "VVVVVVV", "SUCCESS", "SUCCESS")
            accept("C02_NEW_DUPLICATE", NEW, source, s + "VVVVVVV", "DUPLICATE", "DUPLICATE")
            accept("C03_REUSE_SUCCESS", PURE, source, s + "VNNVVVV", None, "SUCCESS")
            accept("C04_REUSE_DUPLICATE", PURE, source, s + "VNNVVVV", None, "DUPLICATE")
            for prefix in LONGER[source]:
                for status in ("STOPPED", "FAILED"):
                    accept("C09_POSTPUBLISH_STOP", NEW, source, f"{s}VVV{prefix}V", "SUCCESS", status)
                    accept("C10_REUSE_POSTPUBLISH_STOP", PURE, source, f"{s}VNN{prefix}V", None, status)
    accept("C02_NEW_DUPLICATE", NEW, "P05", "VVVVVVVV", "DUPLICATE", "DUPLICATE")
    for prefix in PREFIXES:
        accept("C05_PREQUOTA_STOP", NEW, "P00", f"NNNN{prefix}V", None, "STOPPED")
        accept("C05_PREQUOTA_STOP", PURE, "P00", f"NNNN{prefix}V", None, "STOPPED")
        accept("C06_RESERVED_STOP", NEW, "P01", f"NNNN{prefix}V", None, "STOPPED")
        accept("C06_RESERVED_STOP", NEW, "P02", f"NNNN{prefix}V", None, "STOPPED")
        accept("C06_RESERVED_STOP", NEW, "P02", f"NNUN{prefix}V", None, "STOPPED")
        accept("C07_TRIGGER_CLOSED_NO_ARTIFACT", NEW, "P02", f"NNVN{prefix}V", None, "STOPPED")
        accept("C07_TRIGGER_CLOSED_NO_ARTIFACT", NEW, "P03", f"NNVN{prefix}V", None, "STOPPED")
        accept("C07_TRIGGER_CLOSED_NO_ARTIFACT", NEW, "P03", f"NNVU{prefix}V", None, "STOPPED")
        accept("C08_PROCESSING_FAILED", NEW, "P03", f"NNVV{prefix}V", "FAILURE", "FAILED")
        accept("C08_PROCESSING_FAILED", NEW, "P04", f"INVV{prefix}V", "FAILURE", "FAILED")
        accept("C08_PROCESSING_FAILED", NEW, "P05", f"VNVV{prefix}V", "FAILURE", "FAILED")
    return found


VARIANTS: Final = (
    "C01_NEW_SUCCESS",
    "C02_NEW_DUPLICATE",
    "C03_REUSE_SUCCESS",
    "C04_REUSE_DUPLICATE",
    "C05_PREQUOTA_STOP",
    "C06_RESERVED_STOP",
    "C07_TRIGGER_CLOSED_NO_ARTIFACT",
    "C08_PROCESSING_FAILED",
    "C09_POSTPUBLISH_STOP",
    "C10_REUSE_POSTPUBLISH_STOP",
)

# Rulings R10 and R12: (lane, node) -> codes that no closure takes.
WITHOUT_CLOSURE: Final[dict[tuple[str, str], frozenset[str]]] = {
    (NEW, "P00"): _words("UNEXPECTED_EXCEPTION"),
    (NEW, "P01"): _words("UNEXPECTED_EXCEPTION"),
    (NEW, "P02-N"): frozenset(),
    (NEW, "P02-U"): frozenset(),
    (NEW, "P02-V"): _words("UNEXPECTED_EXCEPTION"),
    (NEW, "P03-N"): _words("PULL_FAILED UNEXPECTED_EXCEPTION"),
    (NEW, "P03-U"): frozenset(),
    (NEW, "P03-V"): frozenset(),
    (NEW, "P04-N"): DOMAIN["P04-N"],
    (NEW, "P04-U"): DOMAIN["P04-U"],
    (NEW, "P04-V"): frozenset(),
    (NEW, "P05-N"): DOMAIN["P05-N"],
    (NEW, "P05-U"): DOMAIN["P05-U"],
    (NEW, "P05-V"): frozenset(),
    (NEW, "P06"): _words("UNEXPECTED_EXCEPTION LOCK_TIMEOUT"),
    (NEW, "P07"): _words("UNEXPECTED_EXCEPTION"),
    (NEW, "P08"): _words("UNEXPECTED_EXCEPTION"),
    (NEW, "P09"): _words("UNEXPECTED_EXCEPTION"),
    (PURE, "P00"): _words("UNEXPECTED_EXCEPTION"),
    (PURE, "P06"): frozenset(),
    (PURE, "P07"): frozenset(),
    (PURE, "P08"): frozenset(),
    (PURE, "P09"): frozenset(),
}
