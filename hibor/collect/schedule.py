"""The two lanes (design 2): the phone does one thing at a time, everything after the pull happens beside it.

PURE items come before any NEW item. A NEW item is opened only while the circuit breaker is closed, the
window has room and, for a phone and app not yet proven, the canary has come back. A rejected candidate is
replaced by the next match; a reuse that failed may be made good by a NEW item of the same report.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import attrs

from fsm import Tables
from hibor.collect.breaker import Canary, CircuitBreaker
from hibor.collect.governance import LATE_CODES, QUOTA_CODE
from hibor.collect.selection import Choice
from hibor.collect.services import Services
from hibor.device.errors import DeviceError
from hibor.items.draft import ItemJob
from hibor.items.effects.trigger import approach
from hibor.items.item import ItemResult, ItemRun
from hibor.package.layout import item_id
from hibor.package.names import final_relative_path, utf16_length
from hibor.people.progress import Progress

_TABLES = Tables.default()
MOST_WAITING = 16
"""Reused items that may wait for the host lane at once: what a run keeps in memory does not grow with its
items."""
HAND_OVER_S = 0.5
"""From a file's standing still to the next item's first tap: pull, reservation, checks; in seconds."""
REJECTED_CODE = _TABLES.failure_codes["foreign_final"][_TABLES.states[0]]
OFFLINE_CODE = _TABLES.failure_codes["device_offline"][_TABLES.states[0]]


@attrs.frozen
class Refusal:
    """Why no NEW item may be opened in this run: a failure word and a sentence."""

    failure: str
    detail: str


@attrs.define
class Finished:
    """What came of one choice."""

    choice: Choice
    result: ItemResult

    @property
    def delivered(self) -> bool:
        """Its PDF is in the package."""
        return self.result.item["status"] in ("SUCCESS", "DUPLICATE")


@attrs.define
class Schedule:
    """Runs choices through both lanes and collects results in the order the items were opened."""

    services: Services
    progress: Progress
    breaker: CircuitBreaker
    canary: Canary
    new_refused: Refusal | None = None
    finished: list[Finished] = attrs.field(factory=list)
    replaced: set[str] = attrs.field(factory=set)
    deadline_ended: bool = False
    not_begun: list[Choice] = attrs.field(factory=list)
    _index: int = 0
    _breaker_told: bool = False
    _opened: set[str] = attrs.field(factory=set)
    _tried: set[tuple[str, str]] = attrs.field(factory=set)

    def run(self, selected: Iterable[Choice], spare: Iterable[Choice]) -> None:
        """Work until nothing selected is left or nothing more may be opened."""
        spares = deque(spare)
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="host-lane") as host:
            pure = [choice for choice in selected if choice.lane == "PURE_REUSE"]
            new = [choice for choice in selected if choice.lane == "NEW_TRIGGER"]
            made_good = self._pure_items(pure, host)
            self._new_items(deque([*made_good, *new]), spares, host)

    # -- lanes -----------------------------------------------------------------------------------------------

    def _pure_items(self, choices: list[Choice], host: ThreadPoolExecutor) -> list[Choice]:
        """All PURE items; returns the NEW choices that make good what could not be reused."""
        waiting, made_good = deque[_Pending](), list[Choice]()
        for choice in choices:
            if len(waiting) == MOST_WAITING:
                self._take_pure(waiting.popleft(), made_good)
            waiting.append(self._open(choice, host))
        for pending in waiting:
            self._take_pure(pending, made_good)
        return made_good

    def _take_pure(self, pending: _Pending, made_good: list[Choice]) -> None:
        done = self._take(pending)
        if self._may_be_made_good(done):
            self.replaced.add(done.result.item["item_id"])
            made_good.append(Choice(done.choice.entry))

    def _may_be_made_good(self, done: Finished) -> bool:
        """A reuse that closed at P00 for its file or transport, not for a foreign final (rulings R15,
        R20)."""
        reuse_only = self.services.task.policy.reuse == "only"
        path = self.services.library.root / self._final_path(done.choice)
        return (
            not done.delivered
            and done.result.closed
            and not reuse_only
            and done.result.code not in LATE_CODES
            and not self.services.files.occupied(path)
        )

    def _new_items(self, queue: deque[Choice], spares: deque[Choice], host: ThreadPoolExecutor) -> None:
        pending: list[_Pending] = []
        while queue and not self._closed_for_new(pending):
            choice = queue.popleft()
            if self.canary.must_wait:
                self._take_all(pending, queue, spares)
                if self._closed_for_new(pending):
                    queue.appendleft(choice)
                    break
            self.canary.sent()
            pending.append(self._open(choice, host, queue))
            if not queue:
                self._take_all(pending, queue, spares)
        self._take_all(pending, queue, spares)
        self.not_begun = list(queue)
        if queue and self.services.deadline.soft_passed:
            self.deadline_ended = True
            self.progress.say("closing_early")

    def _closed_for_new(self, pending: list[_Pending]) -> bool:
        """True when no further NEW item may be opened; results that are there already are looked at first."""
        for one in [one for one in pending if one.done]:
            self._note_new(one.result)
        return self.breaker.open or self.services.deadline.soft_passed or self._halted()

    def _halted(self) -> bool:
        return self.services.ledger_blocked is not None

    def _take_all(self, pending: list[_Pending], queue: deque[Choice], spares: deque[Choice]) -> None:
        """Wait for all opened items; what was rejected is replaced (design 1 "Selection")."""
        for one in pending:
            done = self._take(one)
            self._note_new(done.result)
            rejected = done.result.code == REJECTED_CODE and done.result.closed
            if rejected and self.new_refused is None and not done.choice.retrigger:
                self._replace(done, queue, spares)
            elif self._now_cached(done):
                cached = self._cached_choice(done.choice)
                if cached is None:
                    self._replace(done, queue, spares)
                else:
                    self.replaced.add(done.result.item["item_id"])
                    queue.appendleft(cached)
        pending.clear()

    def _replace(self, done: Finished, queue: deque[Choice], spares: deque[Choice]) -> None:
        """A report that cannot be had stays listed; the next newest takes its place."""
        self.replaced.add(done.result.item["item_id"])
        following = self._next_spare(spares)
        if following is not None:
            queue.append(following)

    @staticmethod
    def _next_spare(spares: deque[Choice]) -> Choice | None:
        while spares:
            choice = spares.popleft()
            if choice.lane == "NEW_TRIGGER":
                return choice
        return None

    def _now_cached(self, done: Finished) -> bool:
        """The app said that it holds the file already: it is had from the cache instead (design 5)."""
        return done.choice.source == "NEW_TRIGGER" and done.result.already_downloaded

    def _cached_choice(self, choice: Choice) -> Choice | None:
        """The same report from the phone's cache; None when no file fits or that was tried before in this
        run."""
        cache = self.services.require_cache()
        try:
            cached = cache.file_of(choice.entry, cache.listing())
        except DeviceError as error:
            self.services.log.info("the cache could not be listed: %s", error.detail)
            return None
        found = attrs.evolve(choice, cached=cached)
        return None if cached is None or (choice.entry.report_id, found.source) in self._tried else found

    def _note_new(self, result: ItemResult) -> None:
        if result.item["item_id"] in self._opened:
            return
        self._opened.add(result.item["item_id"])
        code = result.item["stop_code"]
        if result.item["status"] == "SUCCESS":
            self.canary.delivered()
        self.breaker.note(code)
        if code in (QUOTA_CODE, OFFLINE_CODE):
            self.breaker.trip(code)
        if self.breaker.open and not self._breaker_told:
            self._breaker_told = True
            self.progress.warn("breaker", code=self.breaker.reason)

    # -- one item --------------------------------------------------------------------------------------------

    def _open(self, choice: Choice, host: ThreadPoolExecutor, queue: Sequence[Choice] = ()) -> _Pending:
        """Do the item's phone part here and hand the rest to the host lane; `queue` is what comes after
        it."""
        self._index += 1
        self._tried.add((choice.entry.report_id, choice.source))
        job = self._job(choice, self._index)
        item = ItemRun(job, self.services)
        self.progress.say("item_begins", index=job.index, source=job.source, title=job.entry.title)
        if choice.lane == "NEW_TRIGGER" and self.new_refused is not None:
            item.refuse(self.new_refused.failure, self.new_refused.detail)
            self.breaker.trip(item.ended.code)
        if queue:
            item.while_waiting = self._open_page_ahead(queue)
            item.ahead = partial(self._look_ahead, item, queue)
        needs_phone = choice.source != "PROJECT_REUSE"
        more = item.run_phone() if needs_phone else True
        item.while_waiting = item.ahead = None
        if more and choice.lane == "NEW_TRIGGER":
            self._learn(item)
        if not more:
            item.settle()
            return _Pending(choice, item.ended)
        return _Pending(choice, host.submit(_host_part, item))

    def _open_page_ahead(self, queue: Sequence[Choice]) -> Iterator[None]:
        """While the app's server prepares a download, the next report's page is opened, in steps of a dump
        or two.

        Only where the profile says that a download survives leaving its page and that opening one costs
        nothing. Nothing is reserved for it yet, so a page that could not be opened costs nothing either.
        """
        services = self.services
        app = services.require_app()
        free = app.profile.detail.survives_leaving and app.profile.detail.opening_is_free
        if not free or app.profile.quota.charged_on == "open" or self.breaker.open:
            return
        if services.deadline.remaining_s() <= services.pace.new_item_s or queue[0].lane != "NEW_TRIGGER":
            return
        try:
            if app.opened != queue[0].entry.report_id:
                app.ensure_list()
                app.find_row(queue[0].entry.report_id)
                yield
            approach(app, queue[0].entry)
            yield
        except DeviceError as error:
            services.log.info("the next page could not be opened ahead: %s", error.detail)

    def _learn(self, item: ItemRun) -> None:
        """What this item took on the phone is what the next ones are judged by."""
        states = self.services.tables.states
        taken = {stage.state: stage.left_s - stage.entered_s for stage in item.draft.stages}
        self.services.pace.note(sum(taken.values()), sum(taken.get(state, 0.0) for state in states[1:3]))

    def _look_ahead(
        self, item: ItemRun, queue: Sequence[Choice], settling: bool
    ) -> Callable[[], None] | None:
        """While a file that has come stands still, the opened page is looked at once more: the dump is still
        fresh when the file has been pulled, and the first tap of the next item can rest on it.

        Where a dump takes much longer than the file has to stand still, the rest of it would be waited for;
        there the dump is kept fresh from the beginning.
        """
        app = self.services.require_app()
        if queue[0].lane != "NEW_TRIGGER" or app.opened != queue[0].entry.report_id:
            return None
        settle_s, tree = app.profile.cache.settle_s, app.last_tree
        lasting_s = app.profile.pace.max_dump_age_s - settle_s - HAND_OVER_S
        if tree is not None and app.looker.age_s(tree) < lasting_s:
            return None
        return partial(self._look_again, item) if settling or app.looker.dump_s > 2 * settle_s else None

    def _look_again(self, item: ItemRun) -> None:
        try:
            self.services.require_app().detail_screen(anew=True)
        except DeviceError as error:
            item.ahead = None
            self.services.log.info("the next page could not be looked at ahead: %s", error.detail)

    def _take(self, pending: _Pending) -> Finished:
        result = pending.result
        done = Finished(pending.choice, result)
        self.finished.append(done)
        shown = result.item
        self.progress.say(
            "item_ends",
            index=shown["item_index"],
            state=shown["state"],
            status=shown["status"],
            note=shown["error_or_note"],
            title=shown["title"],
        )
        if not done.delivered and result.detail:
            self.progress.warn("item_why", code=shown["stop_code"], detail=result.detail)
        return done

    def _final_path(self, choice: Choice) -> str:
        if choice.copy is not None:
            return choice.copy.path
        entry = choice.entry
        root_length = utf16_length(str(self.services.library.root.absolute()))
        return final_relative_path(
            entry.date, entry.institution, entry.title, entry.report_id, root_length=root_length
        )

    def _job(self, choice: Choice, index: int) -> ItemJob:
        run_id = self.services.run_id
        return ItemJob(
            index=index,
            item_id=item_id(run_id, choice.entry.report_id, choice.source),
            run_id=run_id,
            source=choice.source,
            lane=choice.lane,
            entry=choice.entry,
            final_path=self._final_path(choice),
            cached=choice.cached,
            copy=choice.copy,
            retrigger=choice.retrigger,
        )


@attrs.define
class _Pending:
    """What was opened for a choice: still in the host lane, or ended with its phone part."""

    choice: Choice
    _outcome: Future[ItemResult] | ItemResult

    @property
    def done(self) -> bool:
        """Whether the item has ended."""
        return not isinstance(self._outcome, Future) or self._outcome.done()

    @property
    def result(self) -> ItemResult:
        """How it ended; waits for the host lane."""
        return self._outcome.result() if isinstance(self._outcome, Future) else self._outcome


def _host_part(item: ItemRun) -> ItemResult:
    result = item.run_host()
    item.settle()
    return result
