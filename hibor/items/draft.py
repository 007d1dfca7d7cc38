"""What one item knows while it runs, and how that is rebuilt from its journal.

1. Everything recovery needs is in the journal before it is acted on; `Draft.replay` gives the same facts
  back.
2. Presence is never stored: it is probed. What was seen as U in this run stays U (ruling R2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import attrs

from fsm import FinalFile, ItemPackageSnapshot, Tables
from generated.ledger import EVENT_ARTIFACT
from hibor.device.protocol import RemoteFile
from hibor.durable import Sink
from hibor.items.catalogue import CatalogueEntry
from hibor.items.evidence import Evidence
from hibor.package.journal import Record
from hibor.pdf import PdfReport
from hibor.quota.events import Event

EMPTY_PRESENCE = "NNNNNNNN"
HOST_STATES_FROM = 5
"""Index of the first state whose work needs no phone (P05)."""


@attrs.frozen(kw_only=True)
class ItemJob:
    """What an item is asked to do. `cached` is the phone's file for CACHE_REUSE, `copy` the manifest values
    of the
    library copy for PROJECT_REUSE; `final_path` is relative to the library."""

    index: int
    item_id: str
    run_id: str
    source: str
    lane: str
    entry: CatalogueEntry
    final_path: str
    cached: RemoteFile | None = None
    copy: FinalFile | None = None
    retrigger: bool = False

    def opened(self) -> dict[str, Any]:
        """Data of the ITEM_OPENED record."""
        return {
            "item_index": self.index,
            "item_id": self.item_id,
            "run_id": self.run_id,
            "source": self.source,
            "lane": self.lane,
            "entry": self.entry.to_dict(),
            "final_path": self.final_path,
            "cached": None if self.cached is None else attrs.asdict(self.cached),
            "copy": None if self.copy is None else attrs.asdict(self.copy),
            "retrigger": self.retrigger,
        }

    @classmethod
    def from_opened(cls, data: Mapping[str, Any]) -> ItemJob:
        """The job whose ITEM_OPENED record has `data`."""
        cached, copy = data["cached"], data["copy"]
        return cls(
            index=data["item_index"],
            item_id=data["item_id"],
            run_id=data["run_id"],
            source=data["source"],
            lane=data["lane"],
            entry=CatalogueEntry.from_dict(data["entry"]),
            final_path=data["final_path"],
            cached=None if cached is None else RemoteFile(**cached),
            copy=None if copy is None else FinalFile(**copy),
            retrigger=data["retrigger"],
        )


@attrs.frozen
class CacheIdentity:
    """The one file on the phone that is this report, matched by content (ruling R14)."""

    path: str
    size_bytes: int
    mtime_s: int
    inode: int
    sha256: str
    basis: str

    def same_file(self, file: RemoteFile) -> bool:
        """True while the phone's file has not been touched since."""
        return (self.size_bytes, self.mtime_s, self.inode) == (file.size_bytes, file.mtime_s, file.inode)


@attrs.frozen
class Stage:
    """Time spent at one node: seconds since the run's start on the clock's time line."""

    state: str
    entered_s: float
    left_s: float
    lane: str


@attrs.define(kw_only=True)
class Draft:
    """The working facts of one item."""

    job: ItemJob
    presence: str = EMPTY_PRESENCE
    opened: bool = False
    quota_state: str = "NONE"
    reservation: Event | None = None
    quota_terminal: Event | None = None
    artifact: Event | None = None
    artifact_kind: str | None = None
    intent: Mapping[str, Any] | None = None
    baseline: tuple[RemoteFile, ...] = ()
    prepared: Any = None  # the open detail page the trigger continues on
    learned_analysts: tuple[str, ...] | None = None  # what only the detail page shows
    trigger_evidence: Mapping[str, Any] | None = None
    pending_final: FinalFile | None = None  # a PURE item's final before its STATE is journalled
    waited_s: float = 0.0  # spacing between triggers spent waiting
    sought: bool = False  # STATE P03 is journalled
    identity: CacheIdentity | None = None
    changes_seen: int = 0
    exported: bool = False  # the app's export route was begun in this run; never twice
    sink: Sink | None = None
    report: PdfReport | None = None
    publish_intent: FinalFile | None = None
    reused: bool = False  # STATE P06 of a PURE item is journalled
    final: FinalFile | None = None
    duplicate: bool = False
    restricted: bool = False
    variant: str | None = None
    closing: Mapping[str, Any] | None = None
    manifest_row_id: str | None = None
    code: str | None = None
    detail: str | None = None
    verdict_code: str | None = None
    mark: str = "NONE"
    stages: list[Stage] = attrs.field(factory=list)
    run_started_s: float = 0.0
    doubts: set[str] = attrs.field(factory=set)
    unsure: bool = False
    validated: ItemPackageSnapshot = attrs.field(
        default=attrs.Factory(lambda self: _first_snapshot(self.job), takes_self=True)
    )

    # -- facts -----------------------------------------------------------------------------------------------

    def doubt(self, moves: Iterable[tuple[str, str]]) -> None:
        """A write is neither known to be there nor known not to be: its objects are U from now on (ruling
        R2).
        """
        self.unsure = True
        self.doubts.update(name for name, _letter in moves)

    def took_artifact(self, event: Event) -> None:
        """The artifact event of this item's family stands."""
        self.artifact = event
        self.artifact_kind = event.data.get("kind", EVENT_ARTIFACT[event.type][0])

    def stopped_with(self, code: str, detail: str) -> None:
        """Why the item stops. A verdict already journalled stays the reason."""
        if self.verdict_code is None or code != self.verdict_code:
            self.detail = detail
        self.code = code

    def rejected_with(self, code: str, detail: str) -> None:
        """A definite verdict on the file (ruling R11)."""
        self.verdict_code = self.code = code
        self.detail = detail

    def journalled_stages(self, records: Sequence[Record]) -> tuple[Stage, ...]:
        """Where the seconds went as far as the journal tells: what an item finished later can say of itself.

        The same journal gives the same stages, however often its recovery was interrupted.
        """
        tables = Tables.default()
        index = {
            "ITEM_OPENED": 0,
            "TRIGGER_INTENT": 2,
            "CACHE_IDENTITY": 4,
            "PUBLISH_INTENT": HOST_STATES_FROM,
        }
        entered: list[tuple[str, float]] = []
        for record in records:
            state = record.data["state"] if record.event == "STATE" else None
            if record.event in index:
                state = tables.states[index[record.event]]
            if state is not None:
                begun = datetime.fromisoformat(records[0].at)
                at_s = (datetime.fromisoformat(record.at) - begun).total_seconds()
                entered.append((state, round(at_s, 3)))
        ends = [at_s for _state, at_s in entered[1:]] + [at_s for _state, at_s in entered[-1:]]
        return tuple(
            Stage(state, at_s, left_s, _lane_of(state))
            for (state, at_s), left_s in zip(entered, ends, strict=True)
        )

    def note_stage(self, node: str, entered_s: float, left_s: float) -> None:
        """Remember the time spent at a node."""
        state = Tables.state_of(node)
        lane = _lane_of(state)
        start, end = entered_s - self.run_started_s, left_s - self.run_started_s
        last = self.stages[-1] if self.stages else None
        if last is not None and last.state == state:
            self.stages[-1] = attrs.evolve(last, left_s=end)
        else:
            self.stages.append(Stage(state, start, end, lane))

    def snapshot(self, state: str, evidence: Evidence) -> ItemPackageSnapshot:
        """The validated facts as the closed constructor takes them."""
        return make_snapshot(self, state, evidence)

    # -- replay ----------------------------------------------------------------------------------------------

    @property
    def phone(self) -> str | None:
        """The mark of the phone that the taps were made on; None before them, or where it was not noted."""
        return None if self.intent is None else self.intent.get("phone")

    def replay(self, records: Iterable[Record]) -> None:
        """Take the facts of a journal, in order."""
        for record in records:
            self.apply(record.event, record.data)

    def apply(self, event: str, data: Mapping[str, Any]) -> None:
        """Take one record's facts; the same code runs when it is written and when it is read again."""
        match event:
            case "ITEM_OPENED":
                self.opened = True
            case "TRIGGER_INTENT":
                self.intent = data
                self.baseline = tuple(RemoteFile(**file) for file in data["baseline"])
                if data["analysts"] is not None and self.job.entry.analysts is None:
                    entry = attrs.evolve(self.job.entry, analysts=tuple(data["analysts"]))
                    self.job = attrs.evolve(self.job, entry=entry)
            case "STATE":
                self._apply_state(data)
            case "CACHE_IDENTITY":
                self.identity = CacheIdentity(**data["identity"])
            case "PUBLISH_INTENT":
                self.publish_intent = FinalFile(**data["final"])
                self.restricted = data["restricted"]
                if data.get("identity") is not None:
                    self.identity = CacheIdentity(**data["identity"])
            case "CODE":
                self.verdict_code = self.code = data["code"]
                self.detail = data["detail"]
            case "CLOSING":
                self.closing = data
                self.code, self.detail = data["code"], data["detail"]
                self.restricted = data.get("restricted", self.restricted)
            case _:
                return  # KEPT and RECOVERED change nothing
        self.mark = event

    def _apply_state(self, data: Mapping[str, Any]) -> None:
        self.changes_seen = data.get("changes_seen", self.changes_seen)
        if data.get("identity") is not None:
            self.identity = CacheIdentity(**data["identity"])
        elif data.get("forget_identity"):
            self.identity = None
        if self.job.lane == "NEW_TRIGGER":
            self.sought = True
        else:
            self.reused = True
            self.final = FinalFile(**data["final"])
            self.duplicate = data["duplicate"]
            self.restricted = data["restricted"]


def lane_seconds(stages: Iterable[Stage], lane: str) -> float:
    """Seconds spent in a lane."""
    return round(sum(stage.left_s - stage.entered_s for stage in stages if stage.lane == lane), 3)


def _lane_of(state: str) -> str:
    return "host" if Tables.default().states.index(state) >= HOST_STATES_FROM else "phone"


def make_snapshot(draft: Draft, state: str, evidence: Evidence) -> ItemPackageSnapshot:
    """Draft and evidence as the value `fsm.build_terminal_item` validates."""
    job, quota_state = draft.job, draft.quota_state
    attempted, triggered = _trigger_pair(draft, state)
    shown = evidence.presence
    return ItemPackageSnapshot(
        run_id=job.run_id,
        item_index=job.index,
        item_id=job.item_id,
        report_id=job.entry.report_id,
        source=job.source,
        lane=job.lane,
        state=state,
        presence=shown,
        artifact=evidence.artifact,
        quota_state=quota_state,
        reservation_event_id=None if draft.reservation is None else draft.reservation.event_id,
        quota_terminal_event_id=None if draft.quota_terminal is None else draft.quota_terminal.event_id,
        artifact_event_id=None if draft.artifact is None else draft.artifact.event_id,
        trigger_attempted=attempted,
        triggered=triggered,
        title=job.entry.title,
        institution=job.entry.institution,
        date=job.entry.date,
        analysts=job.entry.analysts,
        final=evidence.final,
        manifest_row_id=evidence.manifest_row_id,
        cache_identity=None if draft.identity is None else draft.identity.path,
        closing=None if draft.closing is None else draft.closing["variant"],
    )


def _trigger_pair(draft: Draft, state: str) -> tuple[bool, bool | None]:
    tables = Tables.default()
    pair = tables.trigger_pairs.get(draft.quota_state)
    if pair is not None:
        return pair
    reserved = tables.trigger_pairs_reserved
    first, second = tables.states[1], tables.states[2]
    return reserved[first] if draft.intent is None else reserved[second]


def _first_snapshot(job: ItemJob) -> ItemPackageSnapshot:
    return ItemPackageSnapshot(
        run_id=job.run_id,
        item_index=job.index,
        item_id=job.item_id,
        report_id=job.entry.report_id,
        source=job.source,
        lane=job.lane,
        state=Tables.default().states[0],
        presence=EMPTY_PRESENCE,
        title=job.entry.title,
        institution=job.entry.institution,
        date=job.entry.date,
        analysts=job.entry.analysts,
    )
