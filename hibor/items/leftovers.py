"""Items of earlier runs that did not close: found, understood and gone on with (design 4 "Recovery").

1. What recovery sees of an item is its evidence and the last marking journal record; `spec/recovery.yaml`
  says what is
   done with that, for every instant a run can end at.
2. Recovery reads journal, ledger, staging, final, manifest and package files, and nothing else. It may look
  at the
   phone and never taps.
3. It runs twice, or is ended half-way and runs again, with the same result: what stands already is not done
  again.
4. What was read may still be in the page cache of a machine whose process died; it is made durable before
  anything
   is done on its strength.
5. Reservations of closed or lost items are settled (ruling R19).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import attrs

from fsm import ContractError, ItemMachine, StateUncertain, Tables, Verdict, verdict
from hibor.collect.services import Services
from hibor.durable import DurableError
from hibor.items.draft import Draft, ItemJob
from hibor.items.evidence import Evidence, probe
from hibor.items.item import ItemResult, ItemRun
from hibor.package.journal import Journal, JournalInvalid, Record, read_journal
from hibor.package.layout import ItemFolder
from hibor.package.manifest import ManifestInvalid
from hibor.quota.events import Event

_NOT_UNDERSTOOD = (ContractError, StateUncertain, JournalInvalid, ManifestInvalid, DurableError, OSError)


@attrs.frozen
class Leftover:
    """One item without a terminal: where it stands and what the recovery table says.

    `opened_at` and `since` are the times of its first and last record; `kept_code` is the code it was kept
    with, `kept_detail` what the log says of it.
    """

    folder: ItemFolder
    draft: Draft
    node: str
    mark: str
    action: str
    opened_at: str
    since: str
    kept_code: str | None = None
    kept_detail: str | None = None

    @property
    def paid(self) -> bool:
        """True when quota was, or may have been, spent for it."""
        return self.draft.quota_state not in ("NONE", "RELEASED") and self.draft.intent is not None

    def age(self, now: datetime) -> timedelta:
        """Time since the item was opened."""
        return now - datetime.fromisoformat(self.opened_at)


@attrs.frozen
class Broken:
    """An item that cannot be understood; it blocks its own report and nothing else."""

    folder: ItemFolder
    report_id: str | None
    why: str
    uncertain: bool


def find(services: Services, *, writes: bool = True) -> tuple[list[Leftover], list[Broken]]:
    """All items of all runs that have no terminal, paid ones first, oldest first.

    With `writes` False nothing at all is changed: an unfinished journal line is left where it is and not
    counted.
    Raises LedgerInvalid: a ledger in doubt is nobody's item (ruling R28).
    """
    found: list[Leftover] = []
    broken: list[Broken] = []
    for folder in open_folders(services):
        try:
            leftover = understand(folder, services, writes=writes)
        except _NOT_UNDERSTOOD as error:
            report_id = _report_of(folder, services)
            uncertain = isinstance(error, (StateUncertain, DurableError, OSError))
            broken.append(Broken(folder, report_id, str(error), uncertain))
            continue
        if leftover is not None:
            found.append(leftover)
    found.sort(key=lambda leftover: not leftover.paid)
    return found, broken


def open_folders(services: Services) -> Iterator[ItemFolder]:
    """Item folders without `terminal.json`, of every run but this one, oldest run first."""
    for run in services.library.run_folders():
        if run.run_id == services.run_id:
            continue
        for folder in run.item_folders():
            if not services.files.occupied(folder.terminal):
                yield folder


def understand(folder: ItemFolder, services: Services, *, writes: bool = True) -> Leftover | None:
    """What an item's folder, ledger family and manifest say; None when it never got as far as a record."""
    records = _records(folder, services) if writes else read_journal(folder.journal, services.durable).records
    if not records:
        return None
    draft = Draft(job=_job(folder, records[0]))
    draft.replay(records)
    evidence = probe(draft, services)
    draft.presence = evidence.presence
    node = node_seen(draft, evidence, services.tables)
    draft.validated = draft.snapshot(services.tables.state_of(node), evidence)
    action = services.tables.recovery[draft.job.lane].get(node, {}).get(draft.mark)
    if action is None:
        raise ContractError(f"{node} after {draft.mark}: no recovery action")
    kept = next((record.data for record in reversed(records) if record.event == "KEPT"), {})
    code, detail = kept.get("code"), kept.get("detail")
    return Leftover(folder, draft, node, draft.mark, action, records[0].at, records[-1].at, code, detail)


def _records(folder: ItemFolder, services: Services) -> tuple[Record, ...]:
    """The journal's records, with an unfinished last line moved aside and everything read made durable."""
    durable, zone = services.durable, services.calendar.tzinfo
    journal = Journal(folder.journal, durable, services.clock, zone)
    if journal.unfinished:
        journal.move_unfinished(step="tail.move")
        journal = Journal(folder.journal, durable, services.clock, zone)
    if journal.records:
        durable.confirm(folder.journal, services.library.root, step="recover.sync")
        # P05 says that the bytes are on the disk (R13): a killed process may have written, not synced them.
        durable.confirm(folder.staging, folder.path, step="recover.sync")
    return journal.records


def _job(folder: ItemFolder, first: Record) -> ItemJob:
    """The job of the first record, which has to be this folder's own."""
    if first.event != "ITEM_OPENED":
        raise JournalInvalid(folder.journal, 1, "does not begin with ITEM_OPENED")
    try:
        job = ItemJob.from_opened(first.data)
    except (KeyError, TypeError, ValueError) as error:
        raise JournalInvalid(folder.journal, 1, f"ITEM_OPENED has other data: {error}") from error
    if (job.index, job.item_id) != (folder.index, folder.item_id) or job.run_id != folder.path.parents[
        1
    ].name:
        raise JournalInvalid(folder.journal, 1, "the record belongs to another item")
    return job


def node_seen(draft: Draft, evidence: Evidence, tables: Tables) -> str:
    """The node that evidence and journal show (ruling R18). Raises ContractError when there is none."""
    lane, presence = draft.job.lane, evidence.presence
    if draft.closing is not None and draft.artifact_kind == "DUPLICATE":
        source: str = draft.closing["source_state"]
        return next(node for node in tables.nodes[lane] if tables.state_of(node) == source)
    fitting = [
        node
        for node in tables.nodes[lane]
        if verdict(lane, tables.state_of(node), presence, tables) in (Verdict.LEGAL, Verdict.HALT)
        and tables.node_of(tables.state_of(node), presence) == node
        and draft.quota_state in tables.node_quota[lane][node]
    ]
    if len(fitting) > 1:
        # Equal presence: a trigger intent tells P02 from P01, the record of P03 tells it from P02.
        later = draft.sought if "V" in presence else draft.intent is not None
        fitting = fitting[-1:] if later else fitting[:1]
    if not fitting:
        raise ContractError(f"{presence} with quota state {draft.quota_state} is no cell of {lane}")
    return fitting[0]


def _report_of(folder: ItemFolder, services: Services) -> str | None:
    """The report of an item that is not understood, as far as the first line of its journal can be read."""
    try:
        line = services.durable.read_bytes(folder.journal).partition(b"\n")[0]
        value = json.loads(line.decode())
        return _job(folder, Record(value["seq"], value["at"], value["event"], value["data"])).entry.report_id
    except (JournalInvalid, DurableError, OSError, ValueError, KeyError, TypeError):
        return None


def resume(leftover: Leftover, services: Services) -> ItemResult:
    """Do what the recovery table says, to the end of what can be done now."""
    _tidy(leftover.folder, services)
    item = ItemRun(leftover.draft.job, services, draft=leftover.draft, node=leftover.node)
    try:
        with services.working_for(leftover.draft.phone):
            item.resume(leftover.action)
            return item.run_host()
    finally:
        item.settle()


def _tidy(folder: ItemFolder, services: Services) -> None:
    """Remove temporary files of the run that ended: they were never evidence (R14) and may be large."""
    for path in sorted(folder.path.glob("*.tmp")):
        try:
            services.durable.remove(path, step="candidate.remove")
        except DurableError as error:
            services.log.warning("a temporary file stays: %s", error)


def write_off(leftover: Leftover, services: Services, detail: str) -> ItemResult | None:
    """Close a kept item as it stands (`recover --close`, the age limit); None when no closure accepts it
    (R10).
    """
    item = ItemRun(leftover.draft.job, services, draft=leftover.draft, node=leftover.node)
    item.note_recovery()
    try:
        closed = item.write_off(_closing_codes(leftover, services.tables), detail)
        return item.result if closed else None
    finally:
        item.settle()


def closable(leftover: Leftover, tables: Tables) -> bool:
    """Whether `write_off` would find a closure for an item as it stands (ruling R10); nothing is written."""
    presence = leftover.draft.presence
    if "U" in presence:
        return False
    lane, node = leftover.draft.job.lane, leftover.node
    artifact = leftover.draft.artifact_kind if presence[tables.objects.index("A")] == "V" else None
    machine = ItemMachine(lane, node, tables)
    try:
        orders = (
            machine.closing_order(presence, artifact, code) for code in _closing_codes(leftover, tables)
        )
        return any(order is not None for order in orders)
    finally:
        machine.release()


def _closing_codes(leftover: Leftover, tables: Tables) -> list[str]:
    """The codes an item may be written off with, the one it was kept with first."""
    words = ("abandoned", "disk_failed", "deadline")
    codes = [leftover.kept_code, *(tables.failure_codes[word].get(leftover.node) for word in words)]
    return [code for code in codes if code is not None]


def attempted_reports(leftovers: Iterable[Leftover], broken: Iterable[Broken]) -> frozenset[str]:
    """Reports a tap may be in flight for, whatever the ledger says."""
    attempted = {
        leftover.draft.job.entry.report_id
        for leftover in leftovers
        if leftover.draft.intent is not None and leftover.draft.quota_state != "RELEASED"
    }
    return frozenset(attempted | {item.report_id for item in broken if item.report_id is not None})


def settle_lost(services: Services, *, lost_too: bool = True) -> list[Event]:
    """Settle open reservations of items that closed or whose folder is gone (ruling R19); the others are
    left.

    An item that still stands at P01 or P02 settles its own reservation when it is gone on with. `lost_too`
    False
    leaves those without a folder here: they may be another library's, at work right now. Raises
    LedgerInvalid,
    DurableError, LockTimeout.
    """
    ledger, settled = services.require_ledger(), []
    for reservation in ledger.open_reservations():
        folder = _folder_of(reservation, services)
        if folder is None or not _has_records(folder, services):
            if not lost_too:
                continue
            attempted = None
        elif services.files.occupied(folder.terminal):
            services.durable.confirm(folder.terminal, services.library.root, step="recover.sync")
            attempted = _attempted(folder, services)
        else:
            continue
        step = "settle.release" if attempted is False else "settle.doubt"
        settled.append(ledger.settle(reservation, attempted=attempted, step=step))
    return settled


def is_settled_by_preflight(reservation: Event, services: Services) -> bool:
    """Whether an open reservation belongs to a closed or a lost item (ruling R19)."""
    folder = _folder_of(reservation, services)
    return folder is None or not _has_records(folder, services) or services.files.occupied(folder.terminal)


def _folder_of(reservation: Event, services: Services) -> ItemFolder | None:
    try:
        run = services.library.run(reservation.run_id or "")
    except ValueError:
        return None
    return next((folder for folder in run.item_folders() if folder.item_id == reservation.item_id), None)


def _has_records(folder: ItemFolder, services: Services) -> bool:
    try:
        return bool(read_journal(folder.journal, services.durable).records)
    except JournalInvalid:
        return True


def _attempted(folder: ItemFolder, services: Services) -> bool | None:
    try:
        journal = Journal(folder.journal, services.durable, services.clock)
    except JournalInvalid:
        return None
    return journal.last("TRIGGER_INTENT") is not None
