"""Snapshots made by hand, and the naive twin of the constructor, read from V006 §3 sentence by sentence."""

from __future__ import annotations

from typing import Any, Final

from fsm import Closure, FinalFile, ItemOutcome, ItemPackageSnapshot
from tests.fsm import v006

SHA: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
FINAL: Final = FinalFile(
    "reports/2026/11/2026-11-30_国信证券_存储行业周报_HB2026113000012.pdf", 482_113, SHA, 12
)
KEYS: Final = (
    "schema_version", "run_id", "item_index", "item_id", "report_id", "source", "state", "status",
     "stop_code",
    "error_or_note", "reused_without_new_trigger", "trigger_attempted", "triggered", "quota_state",
    "quota_reservation_event_id", "quota_terminal_event_id", "artifact_terminal_event_id", "title",
     "institution",
    "date", "analysts", "final_path", "bytes", "sha256", "page_count", "manifest_row_id",
)  # fmt: skip
SOURCES: Final = {v006.NEW: ("NEW_TRIGGER",), v006.PURE: ("PROJECT_REUSE", "CACHE_REUSE")}
IDS: Final = ("reservation-event", "quota-event", "artifact-event")
PATTERN: Final = {
    ("NONE", "N"): "NNN", ("RESERVED", "N"): "RNN", ("RELEASED", "N"): "RRN", ("CONFIRMED", "N"): "RRN",
    ("CONFIRMED", "U"): "RRN", ("CONFIRMED", "V"): "RRR", ("UNCERTAIN", "N"): "RRN", ("UNCERTAIN",
     "U"): "RRN",
    ("UNCERTAIN", "V"): "RRR",
}  # fmt: skip
PAIR: Final[dict[str, tuple[bool, bool | None]]] = {
    "NONE": (False, False), "RELEASED": (True, False), "CONFIRMED": (True, True), "UNCERTAIN": (True, None),
}  # fmt: skip


def trigger_pair(quota_state: str, short: str) -> tuple[bool, bool | None]:
    """V006 §3.2: RESERVED is before the action at P01 and unknown at P02."""
    if quota_state == "RESERVED":
        return (True, None) if short == "P02" else (False, False)
    return PAIR[quota_state]


def kind_of_artifact(node: str) -> str | None:
    """V006 §2.3: what an A that is verified at this node is."""
    if node in ("P03-V", "P04-V", "P05-V"):
        return "FAILURE"
    return "SUCCESS" if node in v006.POST else None


def snapshot(
    lane: str, short: str, presence: str, quota_state: str, artifact: str | None, /, **changes: Any
) -> ItemPackageSnapshot:
    """A snapshot whose facts follow from presence, quota state and the state they belong to."""
    ids = [
        value if letter == "R" else None
        for value, letter in zip(IDS, PATTERN[quota_state, presence[3]], strict=True)
    ]
    attempted, triggered = trigger_pair(quota_state, short)
    facts: dict[str, Any] = {
        "run_id": "20261130T003105Z-0a1b2c", "item_index": 1, "item_id": "0123456789abcdef",
        "report_id": "HB2026113000012", "source": "CACHE_REUSE" if lane == v006.PURE else "NEW_TRIGGER",
         "lane": lane,
        "state": v006.FULL[short], "presence": presence, "artifact": artifact, "quota_state": quota_state,
        "reservation_event_id": ids[0], "quota_terminal_event_id": ids[1], "artifact_event_id": ids[2],
        "trigger_attempted": attempted, "triggered": triggered, "title": "存储行业周报",
         "institution": "国信证券",
        "date": "2026-11-30", "analysts": ("张三", "李四"), "final": FINAL if presence[1] == "V" else None,
        "manifest_row_id": "m-0123456789abcdef" if presence[4] == "V" else None,
        "cache_identity": "sdcard:report.pdf" if quota_state in v006.PAID and short not in ("P00", "P01",
         "P02") else None,
    }  # fmt: skip
    return ItemPackageSnapshot(**{**facts, **changes})


def running(
    lane: str, node: str, quota_state: str | None = None, presence: str | None = None, **changes: Any
) -> ItemPackageSnapshot:
    """A running item at `node` (`P03-N`), with the node's first presence and quota state by default."""
    shown = presence or v006.NODE_PRESENCES[lane, node][0]
    quota = quota_state or v006.NODE_QUOTA[lane, node][0]
    artifact = kind_of_artifact(node) if shown[3] == "V" else None
    return snapshot(lane, node[:3], shown, quota, artifact, **changes)


def closed(
    lane: str, short: str, presence: str, quota_state: str, artifact: str | None = None, /, **changes: Any
) -> ItemPackageSnapshot:
    """The item closed from the state `short` (`P05`)."""
    return snapshot(lane, short, presence, quota_state, artifact, **{"state": v006.CLOSED, **changes})


def stopped(code: str) -> ItemOutcome:
    """A stop without a closure."""
    return ItemOutcome(code)


def closing(code: str, variant: str, source: str) -> ItemOutcome:
    """A closure of `source` (`P05`)."""
    return ItemOutcome(code, Closure(variant, v006.FULL[source]))


# ---------------------------------------------------------------- the naive twin
class Refused(Exception):
    """The twin does not accept the snapshot or the outcome."""


def demand(holds: object, why: str) -> None:
    """One sentence of the contract."""
    if not holds:
        raise Refused(why)


_ACCEPTED = v006.accepted_closings()


def in_duplicate_window(s: ItemPackageSnapshot) -> bool:
    """R5: P05, F=Q=A=V (and S=V by R6), kind DUPLICATE, any Prefix3, only with the CLOSING C02 record."""
    return (
        s.closing == "C02_NEW_DUPLICATE" and s.lane == v006.NEW and s.state == "P05_STAGING_VALID"
        and s.artifact == "DUPLICATE" and s.presence in {f"VVVV{prefix}N" for prefix in v006.PREFIXES}
    )  # fmt: skip


def _source(s: ItemPackageSnapshot, o: ItemOutcome) -> str:
    """The short state the facts belong to; checks presence, kind of A, closure and code."""
    status = v006.STATUS_OF_CODE[o.code]
    demand((s.artifact is None) == (s.presence[3] != "V"), "the kind of A goes with A=V")
    if s.state == v006.CLOSED:
        demand(o.closure is not None, "P10 has a closure")
        assert o.closure is not None
        demand(o.closure.source_state in v006.OPEN_STATES, "source state")
        short = v006.SHORT_OF[o.closure.source_state]
        variant = _ACCEPTED.get((s.lane, short, s.presence, s.artifact, status))
        demand(variant is not None and variant == o.closure.variant, "exact closure variant")
        demand(variant != "C04_REUSE_DUPLICATE" or s.source == "CACHE_REUSE", "R7")
        if status in ("FAILED", "STOPPED"):
            demand(o.code in v006.domain(closed_node(s, short), s.quota_state), "code of the source")
        if variant == "C09_POSTPUBLISH_STOP":
            demand(o.code in ("MANIFEST_INVALID", "DEADLINE_EXPIRED", "PERSIST_LATE"), "R9")
        return short
    demand(o.closure is None, "a closure only at P10")
    demand(status in ("FAILED", "STOPPED"), "no success without a closure")
    short = v006.SHORT_OF[s.state]
    if in_duplicate_window(s):
        demand(o.code == "UNEXPECTED_EXCEPTION", "R24 in the window")
        return short
    demand(v006.judge(s.lane, short, s.presence) in ("LEGAL", "HALT"), "a defined presence")
    node = v006.node_of(s.state, s.presence)
    demand(s.presence[3] != "V" or s.artifact == kind_of_artifact(node), "kind of A at the node")
    demand(s.quota_state in v006.NODE_QUOTA[s.lane, node], "quota state of the node")
    demand(o.code in v006.domain(node, s.quota_state), "code of the node")
    return short


def closed_node(s: ItemPackageSnapshot, short: str) -> str:
    """The node of the source of a closed item: Q and A stay as they were."""
    node = v006.node_of(v006.FULL[short], s.presence)
    demand(s.quota_state in v006.NODE_QUOTA[s.lane, node], "quota state of the source")
    return node


def public_item(s: ItemPackageSnapshot, o: ItemOutcome) -> dict[str, Any]:
    """The 26 keys, or Refused."""
    demand(s.lane in v006.LANES and s.source in SOURCES.get(s.lane, ()), "lane and source")
    demand(s.state in v006.OPEN_STATES or s.state == v006.CLOSED, "state")
    demand(o.code in v006.ALL_CODES, "code")
    demand(s.quota_state in v006.QUOTA_STATES, "quota state")
    demand(len(s.presence) == 8 and set(s.presence) <= set(v006.LETTERS), "presence")
    demand(type(s.item_index) is int and s.item_index > 0, "item index")
    demand(all((s.run_id, s.item_id, s.report_id)), "ids of the item")
    demand(s.closing is None or s.closing in v006.VARIANTS, "closing record")
    short = _source(s, o)
    node = closed_node(s, short)
    demand(s.source != "PROJECT_REUSE" or s.presence[0] == "N", "V006 §2.2: project reuse has S=N")
    ids = (s.reservation_event_id, s.quota_terminal_event_id, s.artifact_event_id)
    pattern = PATTERN.get((s.quota_state, s.presence[3]))
    demand(pattern == "".join("N" if value is None else "R" for value in ids), "id pattern")
    demand("" not in ids and s.manifest_row_id != "", "an id is not an empty text")
    demand((s.trigger_attempted, s.triggered) == trigger_pair(s.quota_state, short), "trigger pair")
    demand((s.final is not None) == (s.presence[1] == "V"), "final iff F=V")
    demand((s.manifest_row_id is not None) == (s.presence[4] == "V"), "manifest row iff M=V")
    demand(s.final is None or sound_final(s.final), "the final facts are valid")
    demand(s.quota_state != "UNCERTAIN" or node[:3] <= "P02" or s.cache_identity, "R14")
    return _document(s, o)


def sound_final(final: FinalFile) -> bool:
    """A relative path with "/", bytes and pages, a lower-case sha256."""
    parts = final.path.split("/")
    numbers = (final.size_bytes, final.page_count)
    return (
        all(type(number) is int and number > 0 for number in numbers)
        and len(final.sha256) == 64 and set(final.sha256) <= set("0123456789abcdef")
        and not {"", ".", ".."} & set(parts) and "\\" not in final.path and ":" not in final.path
    )  # fmt: skip


def _document(s: ItemPackageSnapshot, o: ItemOutcome) -> dict[str, Any]:
    status = v006.STATUS_OF_CODE[o.code]
    if status == "SUCCESS":
        note = "ZERO_QUOTA_REUSE" if s.lane == v006.PURE else "NONE"
        if s.quota_state == "UNCERTAIN":
            note = "WARNING:TRIGGER_UNCERTAIN_CACHE_IDENTITY_CONFIRMED"
    else:
        note = {"DUPLICATE": "", "FAILED": "FAILED:", "STOPPED": "STOP:"}[status] + o.code
    final = s.final
    values = (
        1, s.run_id, s.item_index, s.item_id, s.report_id, s.source, s.state, status,
        None if status == "SUCCESS" else o.code, note, s.lane == v006.PURE, s.trigger_attempted, s.triggered,
        s.quota_state, s.reservation_event_id, s.quota_terminal_event_id, s.artifact_event_id, s.title,
         s.institution,
        s.date, None if s.analysts is None else list(s.analysts), final and final.path,
         final and final.size_bytes,
        final and final.sha256, final and final.page_count, s.manifest_row_id,
    )  # fmt: skip
    return dict(zip(KEYS, values, strict=True))
