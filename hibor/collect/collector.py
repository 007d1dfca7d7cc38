"""One run from a task to its terminal (design 1 "The main job").

Preflight → leftovers → discovery → selection → both lanes → close. Whatever happens on the way, the run ends
with its
one document; nothing is reserved before preflight has passed.
"""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack, suppress
from datetime import date
from pathlib import Path
from typing import Any

import attrs

from fsm import Tables
from generated.governance import GUARD_RAILS
from hibor.clock import SystemClock
from hibor.collect import preflight
from hibor.collect.awake import keep_awake
from hibor.collect.breaker import Canary, CircuitBreaker
from hibor.collect.consent import note_first_use
from hibor.collect.deadline import Deadline
from hibor.collect.experience import experience
from hibor.collect.feed import FeedReading, read_feed
from hibor.collect.governance import QUOTA_CODE
from hibor.collect.hold import read_hold, set_hold
from hibor.collect.holdings import holdings_of
from hibor.collect.plan import plan_bytes, plan_rows, planned, read_plan
from hibor.collect.preflight import PhoneFacts
from hibor.collect.schedule import Finished, Refusal, Schedule
from hibor.collect.selection import Choice, Holdings, LikelyDuplicate, choose, require_named
from hibor.collect.services import Pacer, Services
from hibor.collect.station import Station
from hibor.collect.stops import RunStop, unusable
from hibor.device.errors import DeviceError, redact
from hibor.device.reading import QuotaLabel, read_quota
from hibor.durable import DurableError
from hibor.items.catalogue import CatalogueEntry
from hibor.items.item import ItemResult
from hibor.items.kept_screen import keep_failure
from hibor.items.leftovers import Broken
from hibor.items.recovery import recover_all
from hibor.locks import Locks, LockTimeout, LockUnusable
from hibor.package.layout import Library, new_run_id
from hibor.package.manifest import Manifest
from hibor.package.run_terminal import QuotaSummary, StopReason
from hibor.pdf import PdfWorkerUnavailable, warm_up
from hibor.people.libraries import sync_program
from hibor.people.progress import Progress
from hibor.quota.errors import LedgerInvalid
from hibor.quota.ledger import Label
from hibor.task import Task
from hibor.want import read_wants, want_unfunded


@attrs.frozen(kw_only=True)
class Orders:
    """What the command line adds to a task."""

    retrigger: frozenset[str] = frozenset()
    quota_limit_given: bool = False
    dry_run: bool = False
    plan: Path | None = None
    entries: tuple[CatalogueEntry, ...] = ()  # exactly these reports; the list is not read for others


@attrs.define
class Collector:
    """One run. `run` never raises for anything that can happen to it; what it learned is in its fields."""

    task: Task
    station: Station
    progress: Progress
    deadline: Deadline
    orders: Orders = attrs.field(factory=Orders)
    run_id: str = ""
    library: Library | None = None
    services: Services | None = None
    phone: PhoneFacts | None = None
    schedule: Schedule | None = None
    stop: RunStop | None = None
    reading: FeedReading | None = None
    duplicates: list[LikelyDuplicate] = attrs.field(factory=list)
    recovered: list[ItemResult] = attrs.field(factory=list)
    broken: list[Broken] = attrs.field(factory=list)
    selected: int = 0
    more_match: bool = False  # reports beyond the task's `new_max`, while `count` is not reached
    quota: QuotaSummary = attrs.field(factory=QuotaSummary)
    plan_rows: list[dict[str, Any]] | None = None
    wall: StopReason | None = None
    breaker: CircuitBreaker = attrs.field(factory=CircuitBreaker)
    pacer: Pacer | None = None
    _confirmed_before: int = 0
    _log: logging.Logger = attrs.field(factory=lambda: logging.getLogger("hibor"))

    def run(self, held: ExitStack) -> None:
        """Do the run; afterwards `telling` tells it.

        The library's lock and what else the run holds go with `held`, so that the caller can write the run's
        own
        files before another run begins.
        """
        self.run_id = self.run_id or new_run_id(self.station.clock.now())
        try:
            self._work(held)
        except RunStop as stop:
            self._stopped(stop)
        except DeviceError as error:
            self._stopped(RunStop(error.failure, error.detail))
        self._close_quota()

    def _stopped(self, stop: RunStop) -> None:
        """The run as a whole cannot go on: why, and what the screen showed."""
        self.stop = stop
        self.progress.warn("stopped", code=stop.code, detail=stop.detail)
        if stop.writes:
            self._keep_screen(stop.failure, stop.detail)

    def _keep_screen(self, failure: str, detail: str) -> None:
        """Keep what stopped the run or its reading of the list; a wall holds the account until a person has
        looked.
        """
        services = self.services
        if services is None or services.ledger is None:
            return
        keep_failure(services.library.run(self.run_id).evidence, services, failure, detail)
        self._watch_for_walls(failure, detail)

    def _work(self, stack: ExitStack) -> None:
        self._open_services(stack)
        services = self._services
        self._open_ledger(stack)
        services.on_stage = self.progress.item_at
        self.progress.doing("preflight")
        phone = preflight.open_phone(self.station, self.task, services)
        self.phone = phone
        services.day = services.calendar.day(services.clock.now())
        if not self.orders.dry_run:
            keep_awake(services, phone.serial_hash, stack, wanted=self.task.policy.keep_awake)
        self._open_app()
        if not self.orders.dry_run:
            self.progress.doing("recovering")
            self._recover()
        # What recovery found to be paid was paid before the label was read: it explains no later drop of it.
        self._confirmed_before = services.require_ledger().sums(services.day).confirmed
        self._discover_and_collect(stack)

    # -- preflight -------------------------------------------------------------------------------------------

    @property
    def _services(self) -> Services:
        assert self.services is not None
        return self.services

    def _open_services(self, stack: ExitStack) -> None:
        durable = preflight.library_disk()
        library = preflight.library_of(self.task)
        with preflight.checked_ledger(self.task, library, durable, self.station.clock):
            library, takeover = preflight.open_library(self.task, durable, stack)
        self.library = library
        note_first_use(self.station, library)
        if takeover is not None:
            self.progress.say("takeover", owner=takeover.owner)
        program = sync_program(library.root)
        if program is not None:
            self.progress.warn("sync_folder", program=program)
        locks = Locks(durable, SystemClock())
        self.services = Services(
            run_id=self.run_id,
            tables=Tables.default(),
            clock=self.station.clock,
            deadline=self.deadline,
            durable=durable,
            library=library,
            manifest=Manifest(library.manifest, durable, locks),
            task=self.task,
            log=self._log,
            quota_limit=self.task.quota.limit,
            quota_limit_source="option" if self.orders.quota_limit_given else "task",
            pacer=self.pacer
            or Pacer(self.station.clock, max(self.task.quota.spacing_s, GUARD_RAILS["spacing_min_s"])),
        )
        self.services.started_at = self.services.stamp()
        preflight.check_manifest(self.services)

    def _open_ledger(self, stack: ExitStack) -> None:
        services = self._services
        durable, library = services.durable, services.library
        try:
            durable.make_folders(library.ledger_folder(self.task.account), step="ledger.folder")
        except DurableError as error:
            raise unusable("the ledger's folder", library.ledger_folder(self.task.account), error) from error
        services.ledger = preflight.open_ledger(
            self.task, library, durable, self.station.clock, services.calendar
        )
        stack.callback(services.ledger.close)

    def _open_app(self) -> None:
        """The app on its list, input proven, labels read."""
        services, phone = self._services, self.phone
        assert phone is not None
        app = services.require_app()
        threading.Thread(target=_warm_pdf_worker, name="pdf-warm-up", daemon=True).start()
        app.open_app()
        preflight.require_input(services)
        services.require_cache().listing()
        label = app.read_quota_label()
        services.quota_label = (
            None if label is None else services.require_ledger().read_label(services.day, label.left)
        )
        self._open_quota(services.quota_label)
        key = "preflight_no_label" if label is None else "preflight"
        left = None if label is None else label.left
        self.progress.say(key, model=phone.model, version=phone.app_version, left=left)
        self.progress.phone(phone.model, phone.app_version, self.quota.safe_before, services.pacer.left_s)

    def _open_quota(self, label: Label | None) -> None:
        services = self._services
        self.quota = QuotaSummary(
            account=self.task.account,
            day=services.day,
            limit=services.quota_limit,
            limit_source=services.quota_limit_source,
            safe_before=services.require_ledger().safe_available(services.day, services.quota_limit, label),
            label_before=None if label is None else label.remaining,
        )

    # -- leftovers -------------------------------------------------------------------------------------------

    def _recover(self) -> None:
        """Everything earlier runs left, within its share of the window (design 4)."""
        services = self._services

        def tell(result: ItemResult) -> None:
            self.recovered.append(result)
            shown = result.item
            self.progress.say(
                "recovered",
                title=shown["title"],
                state=shown["state"],
                status=shown["status"],
                note=shown["error_or_note"],
            )

        try:
            done = recover_all(services, budget_s=GUARD_RAILS["recovery_budget_s"], on_result=tell)
        except LedgerInvalid as error:
            raise RunStop("ledger_invalid", str(error)) from error
        self.broken = done.broken

    # -- discovery, selection, lanes -------------------------------------------------------------------------

    def _discover_and_collect(self, stack: ExitStack) -> None:
        services = self._services
        entries = self._entries()
        selected, spare = self._select(entries, holdings_of(services, entries))
        self.selected = len(selected)
        self.more_match = len(selected) < self.task.count and bool(spare)
        self._say_selected(selected)
        if self.orders.dry_run:
            self._show_plan(selected)
            return
        self.progress.chosen([(one.entry.report_id, one.entry.title, one.source) for one in selected])
        self.schedule = self._schedule(selected, stack)
        self.schedule.run(selected, spare)
        self._want_unfunded(self.schedule)

    def _want_unfunded(self, schedule: Schedule) -> None:
        """Reports that matched and met the end of the quota go first next time (design 1, want-list)."""
        services = self._services
        met = [one.choice for one in schedule.finished if one.result.code == QUOTA_CODE]
        if not met:
            return
        ids = [choice.entry.report_id for choice in (*met, *schedule.not_begun)]
        try:
            want_unfunded(services.library, services.durable, ids, at=services.stamp())
        except (DurableError, LockTimeout, LockUnusable) as error:
            self._log.warning("the want-list could not be written: %s", error)

    def _entries(self) -> tuple[CatalogueEntry, ...]:
        """What is selected from: the reports that were ordered, else what the app's list and the catalogue
        hold.

        An ordered report that recovery delivered, left open or found paid for is not opened once more.
        """
        if not self.orders.entries:
            self.reading = self._discover()
            return self.reading.entries
        settled = {
            result.item["report_id"]
            for result in self.recovered
            if not result.closed
            or result.item["status"] in ("SUCCESS", "DUPLICATE")
            or result.item["quota_state"] not in ("NONE", "RELEASED")
        }
        return tuple(entry for entry in self.orders.entries if entry.report_id not in settled)

    def _discover(self) -> FeedReading:
        services = self._services
        self.progress.doing("reading_list")
        reading = read_feed(
            services.require_app(),
            services.clock,
            services.library.catalogue,
            since_days=self.task.select.since_days,
            today=date.fromisoformat(services.day),
            budget_s=min(GUARD_RAILS["discovery_budget_s"], services.deadline.remaining_s()),
            dry_run=self.orders.dry_run,
        )
        self.progress.say("discovered", entries=len(reading.entries), screens=reading.screens)
        if reading.incomplete is not None:
            self.progress.warn("incomplete", detail=reading.incomplete, failure=reading.failure)
        if reading.failure is not None:
            self._keep_screen(reading.failure, reading.incomplete or "")
        return reading

    def _select(
        self, entries: tuple[CatalogueEntry, ...], holdings: Holdings
    ) -> tuple[list[Choice], list[Choice]]:
        """(selected, spare): what the plan says, else what the task's filter finds."""
        if self.orders.plan is not None and not self.orders.dry_run:
            return planned(read_plan(self.orders.plan), entries, holdings), []
        today = date.fromisoformat(self._services.day)
        entries = tuple(read_wants(self._services.library).first(entries))
        again = self.orders.retrigger
        entries = tuple(sorted(entries, key=lambda entry: entry.report_id not in again))
        selected, spare, self.duplicates = choose(entries, self.task, today, holdings, again)
        require_named(again, entries, selected, holdings)
        for duplicate in self.duplicates:
            self.progress.warn("skipped_duplicate", path=duplicate.path, title=duplicate.entry.title)
        return selected, spare

    def _show_plan(self, selected: list[Choice]) -> None:
        """A dry run ends here: the plan is shown, and saved where a file was named."""
        self.plan_rows = plan_rows(selected, self.duplicates)
        for row in self.plan_rows:
            self.progress.warn("plan_row", **{**row, "rank": row["rank"] or "-"})
        if self.orders.plan is not None:
            self._services.durable.write_once(
                self.orders.plan.absolute(), plan_bytes(self.plan_rows), step="plan.write"
            )

    def _schedule(self, selected: list[Choice], stack: ExitStack) -> Schedule:
        services, phone = self._services, self.phone
        assert phone is not None and self.library is not None
        known = experience(
            self.library,
            services.durable,
            model=phone.model,
            app_version=phone.app_version,
            profile_sha256=phone.profile.sha256,
        )
        services.pages_are_exact = known.pages_exact
        refused = self._new_refused(phone)
        if refused is None and any(choice.lane == "NEW_TRIGGER" for choice in selected):
            refused = self._account_taken(stack)
        schedule = Schedule(services, self.progress, self.breaker, Canary(known.proven), new_refused=refused)
        services.on_outcome = self._watch_for_walls
        return schedule

    def _account_taken(self, stack: ExitStack) -> Refusal | None:
        """One run with new downloads an account (design 1): None when the account is ours now."""
        services = self._services
        folder = services.library.ledger_folder(self.task.account)
        lock = Locks(services.durable, SystemClock()).account(folder)
        try:
            lock.acquire()
        except (LockTimeout, LockUnusable) as error:
            return Refusal("lock_timeout", str(error))
        stack.callback(lock.release)
        return None

    def _watch_for_walls(self, reason: str, detail: str = "") -> None:
        """An access-control text met anywhere stops the NEW lane, and the account until doctor ran."""
        if reason != "access_control":
            return
        services = self._services
        said = f"the app showed an access-control text: {redact(detail)}" if detail else ""
        wall = RunStop(reason, said or "the app showed an access-control text")
        self.wall = StopReason(wall.code, wall.detail)
        if self.schedule is not None:
            self.schedule.breaker.trip(wall.code)
        set_hold(
            services.library.ledger_folder(self.task.account),
            services.durable,
            code=wall.code,
            detail=wall.detail,
            at=services.stamp(),
        )

    def _say_selected(self, selected: list[Choice]) -> None:
        reuse = sum(choice.lane == "PURE_REUSE" for choice in selected)
        self.progress.say("selected", total=len(selected), reuse=reuse, new=len(selected) - reuse)

    def _new_refused(self, phone: PhoneFacts) -> Refusal | None:
        """Why no NEW item may be opened at all, None when it may."""
        held = read_hold(self._services.library.ledger_folder(self.task.account))
        if held is not None:
            return Refusal("access_control", held)
        if not phone.version_supported:
            return Refusal(
                "version_untested", f"app version {phone.app_version} was not tested with the profile"
            )
        dump_s = self._services.require_app().looker.median_dump_s()
        if dump_s > GUARD_RAILS["dump_worst_s"]:
            return Refusal("dump_slow", f"reading the screen takes {dump_s:.1f} s")
        if not phone.battery_ok:
            return Refusal("battery_low", "the phone's battery is too low or too hot")
        return None

    # -- close -----------------------------------------------------------------------------------------------

    def _close_quota(self) -> None:
        services = self.services
        if services is None or services.ledger is None or services.ledger_blocked or not services.day:
            return
        sums = services.ledger.sums(services.day)
        quota = self.quota
        self.progress.doing("closing")
        label = self._label_after()
        quota.reserved, quota.confirmed, quota.uncertain = sums.reserved, sums.confirmed, sums.uncertain
        quota.safe_after = services.ledger.safe_available(
            services.day, services.quota_limit, services.quota_label if label is None else label
        )
        quota.label_after = label
        if quota.label_before is not None and label is not None:
            quota.unexplained = quota.label_before - label - (sums.confirmed - self._confirmed_before)
        if quota.unexplained is not None and quota.unexplained > 0:
            self.progress.warn("unexplained", count=quota.unexplained)
        if quota.safe_after is not None:
            self.progress.say("quota_left", left=quota.safe_after)

    def _label_after(self) -> int | None:
        """The app's remaining quota at the end, None where it cannot be read any more."""
        services = self.services
        if (
            services is None
            or services.app is None
            or self.quota.label_before is None
            or self.stop is not None
        ):
            return None
        try:
            label = self._label_seen_since() or services.app.read_quota_label()
        except DeviceError as error:
            self._log.info("the quota label could not be read at the end: %s", error.detail)
            return None
        return None if label is None else label.left

    def _label_seen_since(self) -> QuotaLabel | None:
        """The label of a screen seen after the last trigger, where it agrees with the books; else it is read
        anew.
        """
        services, first = self._services, self.quota.label_before
        tree, last_s = services.require_app().last_tree, services.pacer.last_s
        if first is None or tree is None or last_s is None or tree.taken_s <= last_s:
            return None
        label = read_quota(tree, services.require_profile())
        spent = services.require_ledger().sums(services.day).confirmed - self._confirmed_before
        return label if label is not None and first - label.left == spent else None

    # -- telling ---------------------------------------------------------------------------------------------

    @property
    def results(self) -> list[Finished]:
        """What came of every opened item, in the order they were opened."""
        done = [] if self.schedule is None else self.schedule.finished
        return sorted(done, key=lambda one: one.result.item["item_index"])


def _warm_pdf_worker() -> None:
    """Start the PDF worker while the phone is busy; one that cannot be started is told of when it is needed.
    """
    with suppress(PdfWorkerUnavailable):
        warm_up()
