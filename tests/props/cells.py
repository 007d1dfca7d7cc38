"""The materialiser: one item's files, ledger and journal on disk, exactly as a cell of the contract says.

A cell is a node with a presence, quota state and source. Which journal records an item at a node has is
written here from design 4 and not taken from the machine; letters are put on disk one by one: N nothing
there, V the true bytes, I other bytes under the name, U a write this run is in doubt about.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from fsm import FinalFile, ItemOutcome
from fsm.snapshot import Closure
from hibor.device.protocol import RemoteFile
from hibor.items.draft import CacheIdentity, Draft, ItemJob
from hibor.items.evidence import Evidence, probe
from hibor.package.delivery import item_delivery
from hibor.package.journal import Journal
from hibor.package.layout import ItemFolder
from hibor.package.manifest import ManifestRow, row_id
from hibor.package.terminal import Stage, Terminal, Timing, write_terminal, write_timing
from hibor.quota.events import Event
from tests.fsm import samples, v006
from tests.props.world import World, pdf, reports

OBJECTS = "SFQAMDTZ"
FULL = v006.FULL


def full(node: str) -> str:
    """`P02-N` as the tables name it."""
    return FULL[node[:3]] + node[3:]


@attrs.frozen
class Cell:
    """A cell of the contract. `node` is short (`P03-V`); `kind` is the kind of A when it is verified."""

    lane: str
    node: str
    presence: str
    quota: str
    source: str
    kind: str | None = None
    closing: str | None = None
    duplicate: bool = False

    @property
    def short(self) -> str:
        """The short state."""
        return self.node[:3]

    def __str__(self) -> str:
        parts = [self.source, self.node, self.presence, self.quota]
        return " ".join(parts + ([self.closing] if self.closing else []))


def cells() -> Iterator[Cell]:
    """Every defined cell with every quota state and source it may have."""
    for (lane, node), presences in v006.NODE_PRESENCES.items():
        for presence in presences:
            kind = samples.kind_of_artifact(node) if presence[3] == "V" else None
            for quota in v006.NODE_QUOTA[lane, node]:
                for source in samples.SOURCES[lane]:
                    if source == "PROJECT_REUSE" and presence[0] == "V":
                        continue  # V006 §2.2: a project copy has no staging
                    yield Cell(lane, node, presence, quota, source, kind)


@attrs.define
class Made:
    """A cell on disk."""

    cell: Cell
    job: ItemJob
    folder: ItemFolder
    identity: CacheIdentity
    final: FinalFile
    closure: Closure | None = None
    code: str = ""
    data: bytes = b""


def make(
    world: World,
    cell: Cell,
    *,
    code: str = "",
    closure: Closure | None = None,
    data: bytes | None = None,
) -> Made:
    """Put `cell` on disk as an item of its own; with `closure` as the closed item. `data` is the file's
    content.
    """
    data = pdf(0) if data is None else data
    identity, final_of = _facts(data)
    job = _job(world, cell, data)
    folder = world.services.item_folder(job.run_id, job.index, job.item_id)
    made = Made(cell, job, folder, identity, attrs.evolve(final_of, path=job.final_path), closure, code, data)
    folder.path.mkdir(parents=True)
    journal = Journal(folder.journal, world.services.durable, world.clock, world.services.calendar.tzinfo)
    _ledger_and_journal(world, made, journal)
    for place, name in enumerate(OBJECTS):
        if name in "SFMDTZ":
            put(world, made, name, cell.presence[place])
    return made


def _facts(data: bytes) -> tuple[CacheIdentity, FinalFile]:
    sha = hashlib.sha256(data).hexdigest()
    path = "/sdcard/Android/data/com.huibo.research/files/Download/report.pdf"
    identity = CacheIdentity(path, len(data), 1_796_000_000, 77, sha, "new_file_and_text")
    return identity, FinalFile("", len(data), sha, reports()[0].pages)


def _job(world: World, cell: Cell, data: bytes) -> ItemJob:
    identity, final = _facts(data)
    job = world.job(cell.source)
    if cell.source == "PROJECT_REUSE":
        return attrs.evolve(job, copy=attrs.evolve(final, path=job.final_path))
    if cell.source == "CACHE_REUSE":
        cached = RemoteFile(
            path=identity.path,
            name=identity.path.rpartition("/")[2],
            kind="file",
            size_bytes=identity.size_bytes,
            mtime_s=identity.mtime_s,
            inode=identity.inode,
        )
        return attrs.evolve(job, cached=cached)
    return job


# -- journal and ledger ----------------------------------------------------------------------------


def _ledger_and_journal(world: World, made: Made, journal: Journal) -> None:
    """The records of an item at this node, in the order of design 4."""
    cell, at = made.cell, int(made.cell.short[1:])
    journal.append("ITEM_OPENED", made.job.opened(), step="open.journal")
    touched = "V" in cell.presence[2:4]
    reservation = _reserve(world, made) if touched or (at >= 1 and cell.lane == v006.NEW) else None
    if cell.lane == v006.PURE:
        if at >= 6:
            _reuse_record(journal, made)
        _closing_record(journal, made)
        _quota_events(world, made, reservation)
        return
    if at >= 2:
        journal.append("TRIGGER_INTENT", _intent(world), step="intent.journal")
    if at >= 3:
        known = made.identity if cell.quota == "UNCERTAIN" else None
        data = {
            "state": FULL["P03"],
            "identity": None if known is None else attrs.asdict(known),
            "changes_seen": 0,
        }
        journal.append("STATE", data, step="seek.journal")
    if at >= 4:
        journal.append("CACHE_IDENTITY", {"identity": attrs.asdict(made.identity)}, step="identity.journal")
    if cell.kind == "FAILURE":
        data = {"code": made.code or _verdict_code(cell), "detail": "refused", "state": FULL[cell.short]}
        journal.append("CODE", data, step="code.journal")
    if at >= 6 and cell.kind != "DUPLICATE":
        publish_intent(journal, made)
    _closing_record(journal, made)
    _quota_events(world, made, reservation)


def _quota_events(world: World, made: Made, reservation: Event | None) -> None:
    """Q and A as the ledger's events; records of other files do not depend on their order."""
    if made.cell.presence[2] == "V":
        _append(world, made.cell.quota, reservation, {"outcome": made.cell.quota.lower()})
    if made.cell.presence[3] == "V":
        _append(world, *_artifact(made, reservation))


def publish_intent(journal: Journal, made: Made) -> None:
    """The record that opens the publish window (ruling R29)."""
    data = {"final": attrs.asdict(made.final), "restricted": False}
    journal.append("PUBLISH_INTENT", data, step="publish.journal")


def _reuse_record(journal: Journal, made: Made) -> None:
    cell = made.cell
    if cell.source == "CACHE_REUSE" and not cell.duplicate:
        publish_intent(journal, made)
    data = {
        "state": FULL["P06"],
        "final": attrs.asdict(made.final),
        "duplicate": cell.duplicate,
        "restricted": False,
        "identity": attrs.asdict(made.identity) if cell.source == "CACHE_REUSE" else None,
    }
    journal.append("STATE", data, step="reuse.journal")


def _closing_record(journal: Journal, made: Made) -> None:
    """CLOSING: every closing but success and the reuse duplicate announces itself."""
    if made.cell.closing is None:
        return
    final = attrs.asdict(made.final) if made.cell.closing == "C02_NEW_DUPLICATE" else None
    data = {
        "variant": made.cell.closing,
        "source_state": made.closure.source_state if made.closure else FULL[made.cell.short],
        "code": made.code or "DUPLICATE_EXISTING_ARTIFACT",
        "detail": None,
        "final": final,
    }
    journal.append("CLOSING", data, step="closing.journal")


def _verdict_code(cell: Cell) -> str:
    return {"P04": "HASH_MISMATCH", "P05": "PDF_NOT_OPENABLE"}.get(cell.short, "PULL_FAILED")


def _reserve(world: World, made: Made) -> Event:
    services, job = world.services, made.job
    return services.require_ledger().reserve(
        job.entry.report_id,
        job.item_id,
        job.run_id,
        services.day,
        services.quota_limit,
        "task",
        None,
        step="reserve.append",
    )


def _intent(world: World) -> dict[str, Any]:
    return {
        "baseline": [],
        "dump_sha256": "0" * 64,
        "screenshot_sha256": None,
        "label_before": 20,
        "analysts": ["张三"],
        "ledger_head": world.services.require_ledger().head.to_dict(),
    }


def _append(world: World, event: str, reservation: Event | None, data: dict[str, Any]) -> None:
    assert reservation is not None
    world.services.require_ledger().append(event, reservation, data, step="confirm.append")


def _artifact(made: Made, reservation: Event | None) -> tuple[str, Event | None, dict[str, Any]]:
    if made.cell.kind == "SUCCESS":
        return "ARTIFACT_SUCCESS", reservation, attrs.asdict(made.final)
    if made.cell.kind == "DUPLICATE":
        return "ARTIFACT_DUPLICATE_OR_FAILED", reservation, {"kind": "DUPLICATE"}
    data = {"code": made.code or _verdict_code(made.cell), "kind": "FAILURE"}
    return "ARTIFACT_DUPLICATE_OR_FAILED", reservation, data


# -- letters ---------------------------------------------------------------------------------------


def put(world: World, made: Made, name: str, letter: str) -> None:
    """Put one object's letter on disk: N, V or I. Q and A are ledger events and are put when the cell is
    made.
    """
    if letter in "NU":
        return
    _PUT[name](world, made, letter)


def _bytes(made: Made, letter: str) -> bytes:
    return made.data if letter == "V" else made.data[: len(made.data) // 2]


def _staging(world: World, made: Made, letter: str) -> None:
    made.folder.staging.write_bytes(_bytes(made, letter))


def _final(world: World, made: Made, letter: str) -> None:
    path = world.services.library.root / made.final.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_bytes(made, letter))


def _manifest(world: World, made: Made, letter: str) -> None:
    if letter == "I":
        with world.services.library.manifest.open("ab") as file:
            file.write(b'{"schema_version":1}\n')
        return
    job, entry = made.job, made.job.entry
    final = made.final if made.cell.presence[1] == "V" else None
    draft = observed(world, made)
    row = ManifestRow(
        manifest_row_id=row_id(job.run_id, job.item_id),
        run_id=job.run_id,
        item_id=job.item_id,
        report_id=entry.report_id,
        source=job.source,
        title=entry.title,
        institution=entry.institution,
        date=entry.date,
        analysts=entry.analysts,
        stock_code=entry.stock_code,
        stock_name=entry.stock_name,
        industry=None,
        report_type=None,
        rating=None,
        final_path=None if final is None else final.path,
        bytes=None if final is None else final.size_bytes,
        sha256=None if final is None else final.sha256,
        page_count=None if final is None else final.page_count,
        restricted=False,
        match_basis=None if draft.identity is None else draft.identity.basis,
        quota_state=draft.quota_state,
        reservation_event_id=_id(draft.reservation),
        quota_terminal_event_id=_id(draft.quota_terminal),
        artifact_event_id=_id(draft.artifact),
        at=world.services.stamp(),
    )
    world.services.manifest.append(row, step="manifest.append")


def _id(event: Event | None) -> str | None:
    return None if event is None else event.event_id


def _delivery(world: World, made: Made, letter: str) -> None:
    if letter == "I":
        made.folder.delivery.write_bytes("# 采集结果\n".encode())
        return
    head = world.services.ledger_head().to_dict()
    item = _public(world, made) or _stand_in(made)
    made.folder.delivery.write_text(item_delivery(item, ledger_head=head, lang="zh"), encoding="utf-8")


def _timing(world: World, made: Made, letter: str) -> None:
    if letter == "I":
        made.folder.timing.write_bytes(b"{}\n")
        return
    timing = Timing(
        run_id=made.job.run_id,
        item_id=made.job.item_id,
        deadline_s=600.0,
        started_at=world.services.stamp(),
        stages=(Stage(FULL["P00"], 0.0, 1.0, "phone"),),
        phone_s=1.0,
        host_s=0.5,
        waited_s=0.0,
    )
    write_timing(made.folder.timing, timing, world.services.durable, step="timing.write")


def _terminal(world: World, made: Made, letter: str) -> None:
    """A terminal that is whole; on an item that is not closed it is a stranger's word about it."""
    if letter == "I":
        made.folder.terminal.write_bytes(b'{"schema_version": 1}\n')
        return
    item = _public(world, made) or _stand_in(made)
    closure = made.closure or Closure("C01_NEW_SUCCESS", FULL["P09"])
    row = world.services.manifest.find(made.job.run_id, made.job.item_id)
    terminal = Terminal(
        item=item,
        presence=made.cell.presence,
        closure_variant=closure.variant,
        source_state=closure.source_state,
        ledger_head=world.services.ledger_head(),
        delivery_sha256=_sha(made.folder.delivery),
        timing_sha256=_sha(made.folder.timing),
        manifest_line_sha256=None if row is None else row.line_sha256,
        written_at=world.services.stamp(),
    )
    keys = world.services.tables.keys
    write_terminal(
        made.folder.terminal, terminal, world.services.durable, item_keys=keys, step="terminal.write"
    )


_PUT = {"S": _staging, "F": _final, "M": _manifest, "D": _delivery, "T": _timing, "Z": _terminal}


def _sha(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


# -- what is read back -----------------------------------------------------------------------------


def observed(world: World, made: Made, *doubts: str) -> Draft:
    """The item's facts as a run reads them back from disk; `doubts` are objects this run is unsure of."""
    journal = Journal(
        made.folder.journal, world.services.durable, world.clock, world.services.calendar.tzinfo
    )
    draft = Draft(job=ItemJob.from_opened(journal.records[0].data))
    draft.replay(journal.records)
    probe(draft, world.services)
    if doubts:
        draft.doubt([(name, "U") for name in doubts])
    return draft


def read_back(world: World, made: Made, *doubts: str) -> Evidence:
    """The probe's answer."""
    return probe(observed(world, made, *doubts), world.services)


def doubted(presence: str) -> tuple[str, ...]:
    """The objects of a presence that are U."""
    return tuple(name for name, letter in zip(OBJECTS, presence, strict=True) if letter == "U")


def _public(world: World, made: Made) -> dict[str, Any] | None:
    """The public item as the naive twin says it, from facts read back; None while it is not closed."""
    if made.closure is None:
        return None
    cell = made.cell
    draft = observed(world, made, *doubted(cell.presence))
    evidence = probe(draft, world.services)
    row = row_id(made.job.run_id, made.job.item_id) if cell.presence[4] == "V" else None
    closed = attrs.evolve(evidence, presence=cell.presence, manifest_row_id=row)
    snapshot = draft.snapshot(v006.CLOSED, closed)
    return samples.public_item(snapshot, ItemOutcome(made.code, made.closure))


def _stand_in(made: Made) -> dict[str, Any]:
    """A note is written before its item is closed; the note's own tests are about its words."""
    values: dict[str, Any] = dict.fromkeys(samples.KEYS)
    entry = made.job.entry
    values.update(
        schema_version=1,
        run_id=made.job.run_id,
        item_index=made.job.index,
        item_id=made.job.item_id,
        report_id=entry.report_id,
        source=made.job.source,
        state=v006.CLOSED,
        status="SUCCESS",
        error_or_note="NONE",
        quota_state=made.cell.quota,
        title=entry.title,
        final_path=made.final.path,
        bytes=made.final.size_bytes,
        sha256=made.final.sha256,
        page_count=made.final.page_count,
    )
    return values
