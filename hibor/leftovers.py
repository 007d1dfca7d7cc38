"""Items of earlier runs that did not close: found, understood and gone on with (design 4 "Recovery").

1. What recovery sees of an item is its evidence and the last marking journal record; `spec/recovery.yaml` says what is
   done with that, for every instant a run can end at.
2. Recovery reads journal, ledger, staging, final, manifest and package files, and nothing else. It may look at the
   phone and never taps.
3. It runs twice, or is ended half-way and runs again, with the same result: what stands already is not done again.
4. Paid items come first. Reservations of closed or lost items are settled (ruling R19).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from fsm import ContractError, StateUncertain, Tables, Verdict, verdict
from hibor.draft import Draft, ItemJob
from hibor.evidence import Evidence, probe
from hibor.item import ItemResult, ItemRun
from hibor.package.journal import Journal, JournalInvalid
from hibor.package.layout import ItemFolder
from hibor.quota.events import Event
from hibor.services import Services


@attrs.frozen
class Leftover:
    """One item without a terminal: where it stands and what the recovery table says."""

    folder: ItemFolder
    draft: Draft
    node: str
    mark: str
    action: str
    since: str

    @property
    def paid(self) -> bool:
        """True when quota was, or may have been, spent for it."""
        return self.draft.quota_state not in ("NONE", "RELEASED") and self.draft.intent is not None


@attrs.frozen
class Broken:
    """An item that cannot be understood; it blocks its own report and nothing else."""

    folder: ItemFolder
    report_id: str | None
    why: str
    uncertain: bool


def find(services: Services) -> tuple[list[Leftover], list[Broken]]:
    """All items of all runs that have no terminal, paid ones first, oldest first."""
    found: list[Leftover] = []
    broken: list[Broken] = []
    for folder in open_folders(services):
        try:
            leftover = understand(folder, services)
        except (ContractError, StateUncertain, JournalInvalid) as error:
            report_id = _report_of(folder, services)
            broken.append(Broken(folder, report_id, str(error), isinstance(error, StateUncertain)))
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


def understand(folder: ItemFolder, services: Services) -> Leftover | None:
    """What an item's folder, ledger family and manifest say; None when it never got as far as a record."""
    journal = Journal(folder.journal, services.durable, services.clock, services.calendar.tzinfo)
    if journal.unfinished:
        journal.move_unfinished(step="tail.move")
        journal = Journal(folder.journal, services.durable, services.clock, services.calendar.tzinfo)
    if not journal.records:
        return None
    first = journal.records[0]
    draft = Draft(job=ItemJob.from_opened(first.data))
    draft.replay(journal.records)
    evidence = probe(draft, services)
    draft.presence = evidence.presence
    node = node_seen(draft, evidence, services.tables)
    draft.validated = draft.snapshot(services.tables.state_of(node), evidence)
    action = services.tables.recovery[draft.job.lane].get(node, {}).get(draft.mark)
    if action is None:
        raise ContractError(f"{node} after {draft.mark}: no recovery action")
    return Leftover(folder, draft, node, draft.mark, action, journal.records[-1].at)


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
    try:
        records = Journal(folder.journal, services.durable, services.clock).records
    except JournalInvalid:
        return None
    return ItemJob.from_opened(records[0].data).entry.report_id if records else None


def resume(leftover: Leftover, services: Services) -> ItemResult:
    """Do what the recovery table says, to the end of what can be done now."""
    item = ItemRun(leftover.draft.job, services, draft=leftover.draft, node=leftover.node)
    try:
        item.resume(leftover.action)
        return item.run_host()
    finally:
        item.settle()


def attempted_reports(leftovers: Iterable[Leftover], broken: Iterable[Broken]) -> frozenset[str]:
    """Reports a tap may be in flight for, whatever the ledger says."""
    attempted = {
        leftover.draft.job.entry.report_id for leftover in leftovers if leftover.draft.intent is not None
    }
    return frozenset(attempted | {item.report_id for item in broken if item.report_id is not None})


def settle_lost(services: Services) -> list[Event]:
    """Settle open reservations of items that closed or whose folder is gone (ruling R19); the others are left.

    An item that still stands at P01 or P02 settles its own reservation when it is gone on with.
    """
    ledger, settled = services.require_ledger(), []
    for reservation in ledger.open_reservations():
        folder = _folder_of(reservation, services)
        if folder is not None and not services.files.occupied(folder.terminal) and folder.journal.exists():
            continue
        attempted = None if folder is None or not folder.journal.exists() else _attempted(folder, services)
        step = "settle.release" if attempted is False else "settle.doubt"
        settled.append(ledger.settle(reservation, attempted=attempted, step=step))
    return settled


def _folder_of(reservation: Event, services: Services) -> ItemFolder | None:
    if reservation.run_id is None:
        return None
    for folder in services.library.run(reservation.run_id).item_folders():
        if folder.item_id == reservation.item_id:
            return folder
    return None


def _attempted(folder: ItemFolder, services: Services) -> bool | None:
    try:
        journal = Journal(folder.journal, services.durable, services.clock)
    except JournalInvalid:
        return None
    return journal.last("TRIGGER_INTENT") is not None
