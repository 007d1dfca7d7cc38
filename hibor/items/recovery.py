"""What a run's preflight and `python -m hibor.recover` do with everything earlier runs left (design 4
"Recovery").

The order is fixed, so that a recovery that ended half-way goes on where it was and ends in the same bytes:
1. what was read is made durable (ledger and manifest here, each item's own files as it is looked at);
2. reservations of closed and of lost items are settled, before anything else is appended;
3. items, paid ones first, each to the end of what can be done now;
4. items that were asked for, or are older than the age limit, are closed where a closure accepts them
  (ruling R10);
5. refused files older than their limit leave the quarantine, and half-written files the library.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta

import attrs

from fsm import FsmError
from generated.governance import GUARD_RAILS
from hibor.clock import SystemClock
from hibor.collect.services import Services
from hibor.durable import DurableError
from hibor.items import leftovers
from hibor.items.item import ItemResult
from hibor.items.leftovers import Broken, Leftover
from hibor.items.tidy import tidy
from hibor.locks import Locks, LockTimeout, LockUnusable
from hibor.quota.errors import LedgerInvalid
from hibor.quota.events import Event

_SETTLING_FAILED = (DurableError, LockTimeout, LockUnusable)


@attrs.define
class Recovered:
    """What a recovery did: results in the order of work, what is left, what was settled."""

    results: list[ItemResult] = attrs.field(factory=list)
    kept: list[Leftover] = attrs.field(factory=list)
    broken: list[Broken] = attrs.field(factory=list)
    settled: list[Event] = attrs.field(factory=list)
    expired: list[str] = attrs.field(factory=list)  # files that left the quarantine, by name

    @property
    def uncertain(self) -> bool:
        """True when something of some item is U."""
        return any(result.uncertain for result in self.results) or any(item.uncertain for item in self.broken)

    @property
    def contract_error(self) -> bool:
        """True when some item breaks the contract."""
        return any(result.contract_error for result in self.results) or any(
            not item.uncertain for item in self.broken
        )


def recover_all(
    services: Services,
    *,
    budget_s: float | None = None,
    close: Collection[str] = (),
    on_result: Callable[[ItemResult], None] = lambda result: None,
) -> Recovered:
    """Go on with everything earlier runs left. The caller holds the library's lock.

    `budget_s` bounds the phone's part, in seconds of the clock; `close` are ids of items to close even if
    they
    are kept. Raises LedgerInvalid when the ledger is in doubt before anything was done (ruling R28).
    """
    done = Recovered()
    make_durable(services)
    found, done.broken = leftovers.find(services)
    services.attempted_reports = leftovers.attempted_reports(found, done.broken)
    window = services.deadline
    if budget_s is not None:
        services.deadline = window.within(budget_s)
    try:
        _settle(services, done)
        for leftover in found:
            result = _go_on(leftover, services, done, close)
            done.results.append(result)
            on_result(result)
        _settle(services, done)
    finally:
        services.deadline = window
    services.attempted_reports = leftovers.attempted_reports(done.kept, done.broken)
    done.expired = empty_quarantine(services)
    tidy(services)
    return done


def make_durable(services: Services) -> None:
    """Put ledger and manifest, as they were read, on stable storage."""
    root = services.library.root
    if services.ledger is not None:
        ledger = services.ledger.path
        services.durable.confirm(ledger, ledger.parent.parent, step="recover.sync")
    services.durable.confirm(services.library.manifest, root, step="recover.sync")


def _go_on(leftover: Leftover, services: Services, done: Recovered, close: Collection[str]) -> ItemResult:
    """One item to the end of what can be done now; closed after that if it is asked for or too old."""
    result = leftovers.resume(leftover, services)
    if result.closed or result.uncertain or result.contract_error:
        return result
    try:
        kept = leftovers.understand(leftover.folder, services)
    except (FsmError, DurableError, OSError) as error:
        done.broken.append(Broken(leftover.folder, leftover.draft.job.entry.report_id, str(error), True))
        return result
    if kept is None:
        return result
    too_old = kept.age(services.clock.now()) > timedelta(days=GUARD_RAILS["kept_for_days"])
    asked = leftover.draft.job.item_id in close
    if asked or too_old:
        why = "closed on request" if asked else f"closed after {GUARD_RAILS['kept_for_days']} days"
        written_off = leftovers.write_off(kept, services, why)
        if written_off is not None:
            return written_off
    done.kept.append(kept)
    return result


def _settle(services: Services, done: Recovered) -> None:
    """Settle what can be settled; what cannot be appended now is left open for the next time."""
    if services.ledger_blocked is not None:
        return
    folder = services.library.ledger_folder(services.task.account)
    lock = Locks(services.durable, SystemClock()).account(folder)
    try:
        lock.acquire()
    except (LockTimeout, LockUnusable):
        alone = False
    else:
        alone = True
    try:
        done.settled.extend(leftovers.settle_lost(services, lost_too=alone))
    except LedgerInvalid as error:
        services.block_ledger(str(error))
    except _SETTLING_FAILED as error:
        services.log.warning("reservations of earlier runs stay open: %s", error)
    finally:
        if alone:
            lock.release()


def empty_quarantine(services: Services) -> list[str]:
    """Remove refused files that are older than their limit, with the staging file that holds the same bytes;
    names of those that went."""
    folder = services.library.quarantine
    gone: list[str] = []
    if not folder.is_dir():
        return gone
    limit = timedelta(days=GUARD_RAILS["quarantine_days"])
    oldest_s = (services.clock.now() - limit).timestamp()
    for path in sorted(folder.iterdir()):
        try:
            facts = services.durable.stat(path)
            if facts is not None and facts.st_mtime < oldest_s and path.suffix == ".pdf":
                item = services.library.refused_item(path)
                if item is not None and item.terminal.is_file():
                    services.durable.remove(item.staging, step="quarantine.remove")
                services.durable.remove(path, step="quarantine.remove")
                gone.append(path.name)
        except DurableError as error:
            services.log.warning("a refused file stays in the quarantine: %s", error)
    return gone
