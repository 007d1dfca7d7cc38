"""Moving through the app: start, list, detail, history, and back.

Rules of this file: a swipe is not a measure (fault F110): what was passed is proven by at least one
identical row on both screens, else half of it is swiped back; the end of the list is the profile's text or
the same screen twice after a settled swipe, never a loading text; a page change is proven by a second sign
(the report's own words, or the focused activity), and the control that should have caused it is not tapped
again (fault F34). Dumps are what costs time, so each one is used for as long as it is fresh, and known
distances are swiped without looking.
"""

from __future__ import annotations

import math
from typing import Final

import attrs

from hibor.clock import Clock
from hibor.device.anchors import find_one, present
from hibor.device.errors import DeviceError
from hibor.device.places import overlap, positions, row_of
from hibor.device.profile_types import Anchor, Profile, Route
from hibor.device.protocol import Device
from hibor.device.reading import (
    AccountLabel,
    DetailScreen,
    HistoryRow,
    ListRow,
    ListScreen,
    QuotaLabel,
    ReportFacts,
    drift_of_detail,
    is_detail,
    is_list,
    normalise,
    read_account,
    read_detail,
    read_dialog,
    read_history,
    read_list,
    read_quota,
    require_no_webview,
)
from hibor.device.screens import Looker, require_accepted
from hibor.device.uitree import UiTree
from hibor.device.windows import left_app

KEY_BACK: Final = 4
KEY_ENTER: Final = 66
KEY_WAKEUP: Final = 224
FLING_MS: Final = 150
"""A fast swipe, only towards the top, where passing rows unseen does no harm."""
FLING_GAIN: Final = 1.5  # lengths of the finger's way that a fling surely moves
MAX_BACKS: Final = 4
END_SWIPES: Final = 2
STILL_SWIPES: Final = 4
MAX_HALF_SWIPES: Final = 3
MAX_SWIPES: Final = 400


@attrs.frozen
class NextScreen:
    """The list after one swipe: the screen, the rows newly visible on it, and whether the end is proven.

    `before` is the screen the swipe began on. It may be a newer dump than the last one that was handed
    out, and the list may have moved between the two, so it may show rows nobody has seen yet.
    """

    screen: ListScreen
    new_rows: tuple[ListRow, ...]
    end: bool
    before: ListScreen


def same_report(row: ReportFacts, page: ReportFacts) -> bool:
    """Whether two descriptions are of one report: printed ids decide; else the words, as far as both have
    them.
    """
    if row.id_read and page.id_read:
        return row.report_id == page.report_id
    first, second = normalise(row.title or ""), normalise(page.title or "")
    if not first or not second or not (first.startswith(second) or second.startswith(first)):
        return False
    pairs = ((row.institution, page.institution), (row.date, page.date))
    return all(a is None or b is None or normalise(a) == normalise(b) for a, b in pairs)


class App:
    """The driver. It holds where it believes to be; every belief is checked against a dump before a tap."""

    def __init__(self, device: Device, profile: Profile, clock: Clock, *, route: str | None = None) -> None:
        self.looker = Looker(device, profile, clock)
        self.device = device
        self.profile = profile
        self.clock = clock
        routes = {r.name: r for r in profile.list.routes}
        self.route: Route = profile.list.routes[0] if route is None else routes[route]
        self._list: ListScreen | None = None
        self.opened: str | None = None  # report whose page was opened and not left since
        self._order: list[str] = []

    @property
    def last_tree(self) -> UiTree | None:
        """The latest dump, for evidence when something failed."""
        return self.looker.last_tree

    # -- where we are -------------------------------------------------------------------------------------

    def open_app(self) -> ListScreen:
        """Bring the app to the front and its list onto the screen. Wakes the screen; never unlocks it."""
        self.looker.sync_clock()
        focus = self.device.focus()
        if not focus.awake:
            require_accepted(self.device.key(KEY_WAKEUP))
            self.clock.sleep(self.profile.pace.page_settle_s)
            focus = self.device.focus()
        if focus.locked or not focus.awake:
            raise DeviceError("device_locked", "the screen is locked or stays off; unlock the phone by hand")
        if focus.package != self.profile.app.package:
            self._start()
        screen = self._return_to_list()
        return self._follow_route() if self.route.taps or self.route.text else screen

    def _start(self) -> None:
        """Start the app and wait for its window by asking for the focus, which costs less than a dump."""
        pace = self.profile.pace
        self.device.start(self.profile.app.package)
        begun_s = self.clock.monotonic_s()
        while self.device.focus().package != self.profile.app.package:
            if self.clock.monotonic_s() - begun_s >= pace.page_change_s:
                return  # the look that follows says which window is there instead
            self.clock.sleep(pace.poll_s / 3)
        self.clock.sleep(pace.page_settle_s)

    def _return_to_list(self) -> ListScreen:
        """From any page of the app to its list: back key, at most `MAX_BACKS` times; once a new start, when
        the back key has left the app."""
        started = False
        for attempt in range(MAX_BACKS + 1):
            tree = self.looker.raw_look("list")
            if attempt and not started and left_app(tree, self.profile.app.package):
                started = True
                self._start()
                tree = self.looker.raw_look("list")
            tree = self.looker.look("list", seen=tree)
            if is_list(tree, self.profile):
                self.looker.changed()
                return self._remember(tree)
            require_no_webview(tree)
            if attempt == MAX_BACKS or started:
                break
            require_accepted(self.device.key(KEY_BACK))
            self.clock.sleep(self.profile.pace.page_settle_s)
        for anchor in self.profile.list.anchors:
            find_one(tree, anchor, "list.anchors")
        raise DeviceError("cursor_lost", "the app's list cannot be reached")

    def ensure_list(self) -> None:
        """Back to the list if another page was opened since; nothing when the list is where we are."""
        if self._list is None:
            self._return_to_list()

    def _follow_route(self) -> ListScreen:
        self._tap_chain(self.route.taps, f"list.routes.{self.route.name}")
        if self.route.text is not None and self.route.text_into is not None:
            tree = self.looker.look("list")
            self.looker.tap(tree, find_one(tree, self.route.text_into, "text_into"), "text_into")
            require_accepted(self.device.type_text(self.route.text))
            require_accepted(self.device.key(KEY_ENTER))
            self.clock.sleep(self.profile.pace.page_settle_s)
        tree = self.looker.wait_for(lambda t: is_list(t, self.profile), "list", "the list")
        self.looker.changed()
        return self._remember(tree)

    def _tap_chain(self, taps: tuple[Anchor, ...], name: str) -> None:
        """Tap controls one after the other, each when it has appeared."""
        for place, anchor in enumerate(taps):
            label = f"{name}[{place}]"
            tree = self.looker.last_tree
            if tree is None or not self.looker.fresh(tree) or not present(tree, anchor):
                tree = self.looker.wait_for(lambda t, a=anchor: present(t, a), "other", label)  # type: ignore[misc]
            self.looker.tap(tree, find_one(tree, anchor, label), label)
            self.clock.sleep(self.profile.pace.page_settle_s)

    def _remember(self, tree: UiTree) -> ListScreen:
        screen = read_list(tree, self.profile, self.looker.phone_now())
        self._list = screen
        self.opened = None
        ids = [row.report_id for row in screen.entries() if row.report_id]
        known = [place for place, one in enumerate(self._order) if one in ids]
        if not known:
            self._order.extend(ids)
        else:
            fresh = [one for one in ids if one not in set(self._order)]
            before = [one for one in fresh if ids.index(one) < ids.index(self._order[known[0]])]
            after = [one for one in fresh if one not in before]
            self._order[known[0] : known[0]] = before
            at = known[-1] + len(before) + 1
            self._order[at:at] = after
        return screen

    # -- the list -----------------------------------------------------------------------------------------

    def list_screen(self) -> ListScreen:
        """The list as it is now: the last dump while it is fresh, else a new one."""
        if self._list is not None and self.looker.fresh(self._list.tree):
            return self._list
        tree = self.looker.look("list")
        if not is_list(tree, self.profile):
            require_no_webview(tree)
            find_one(tree, self.profile.list.container, "list.container")
        return self._remember(tree)

    def _swipe(self, container_share: float, screen: ListScreen, *, fling: bool = False) -> None:
        """Move the content up by a share of the list's height (negative: down), and let it settle."""
        self._swipe_px(int(screen.container.height * container_share), screen, fling=fling)

    def _page_px(self, screen: ListScreen) -> int:
        """As far down as leaves the last whole report at the top, so that overlap costs as little as it
        can.
        """
        most = int(screen.container.height * self.profile.pace.swipe_share)
        whole = [r for r in screen.rows if r.kind == "report" and r.report_id and not r.clipped]
        if len(whole) < 2:
            return most
        last = whole[-1].visible
        return max(whole[0].visible.height, min(most, last.top - screen.container.top - last.height // 5))

    def _swipe_px(self, distance_px: int, screen: ListScreen, *, fling: bool = False) -> None:
        frame, pace = screen.container, self.profile.pace
        x = frame.left + frame.width // 2
        half = min(abs(distance_px), frame.height * 9 // 10) // 2
        middle = (frame.top + frame.bottom) // 2
        low, high = middle + half, middle - half
        start, stop = (low, high) if distance_px > 0 else (high, low)
        self._list = None
        duration_ms = FLING_MS if fling else math.ceil(2 * half / pace.swipe_px_per_s * 1000)
        require_accepted(self.device.swipe(x, start, x, stop, duration_ms))
        self.clock.sleep(pace.swipe_settle_s)
        self.looker.changed()

    def swipe_on(self, count: int) -> None:
        """Swipe `count` pages down without looking, each as far as a page that is read, over rows known
        already. A negative count goes up, by half pages, so that no row is passed unseen."""
        screen = self.list_screen() if count else None
        for _ in range(abs(count)):
            assert screen is not None
            half_px = int(screen.container.height * self.profile.pace.swipe_share / 2)
            self._swipe_px(self._page_px(screen) if count > 0 else -half_px, screen)

    def to_list_top(self) -> ListScreen:
        """To the newest row. The top is where swiping further shows the same rows; it may refresh there."""
        self.looker.sync_clock()
        screen = self.list_screen()
        ahead = self._rows_above(screen)
        for _ in range(self._blind_swipes(ahead, screen) // 2):
            self._swipe(-self.profile.pace.swipe_share, screen, fling=True)
        for _ in range(MAX_SWIPES):
            before = positions(screen)
            for _ in range(END_SWIPES):  # one of them may be lost, and a lost one must not look like the top
                self._swipe(-self.profile.pace.swipe_share, screen, fling=True)
            screen = self.list_screen()
            if positions(screen) == before:
                self._order = []
                return self._remember(screen.tree)
        raise DeviceError("cursor_lost", "the top of the list cannot be reached")

    def _rows_above(self, screen: ListScreen) -> int:
        places = {one: place for place, one in enumerate(self._order)}
        shown = [places[row.report_id] for row in screen.entries() if row.report_id in places]
        return min(shown, default=0)

    def _blind_swipes(self, rows: int, screen: ListScreen) -> int:
        """How many swipes surely do not pass `rows` rows: as many as need no look in between."""
        shown = max(1, len(screen.entries()))
        per_swipe = max(1.0, shown * self.profile.pace.swipe_share)
        return max(0, int((rows - shown / 2) // per_swipe))

    def next_screen(self) -> NextScreen:
        """One page further down, with proven overlap. Raises `cursor_lost` when continuity cannot be proven
        or the list keeps loading.

        The end is the profile's end text; only where it names none, `END_SWIPES` swipes that each left the
        same screen: one may have been lost, and a dump may be old more than once (fault F34).
        """
        before = self.list_screen()
        begun_s = self.clock.monotonic_s()
        still = 0
        while True:
            self._swipe_px(self._page_px(before), before)
            after = self._settled_overlap(before)
            if positions(after) != positions(before):
                old = {row.key for row in before.rows if not row.incomplete}
                fresh = tuple(r for r in after.rows if not r.incomplete and r.key not in old)
                return NextScreen(after, fresh, after.end is True, before)
            still = 0 if after.loading else still + 1
            if after.end is True or (still >= END_SWIPES and not self.profile.list.end_texts):
                return NextScreen(after, (), True, before)
            if still >= STILL_SWIPES:
                raise DeviceError("cursor_lost", "the list neither moves nor shows its end")
            if not after.loading:
                continue
            if self.clock.monotonic_s() - begun_s >= self.profile.pace.page_change_s:
                raise DeviceError("cursor_lost", "the list goes on loading, or its loading failed")
            self.clock.sleep(self.profile.pace.poll_s)

    def _settled_overlap(self, before: ListScreen) -> ListScreen:
        """The screen after a swipe, swiped back by halves until a row is on both screens."""
        after = self.list_screen()
        back = self.profile.pace.swipe_share / 2
        for _ in range(MAX_HALF_SWIPES):
            if overlap(before, after) or not before.entries():
                return after
            self._swipe(-back, after)
            after = self.list_screen()
        if overlap(before, after):
            return after
        raise DeviceError("cursor_lost", "no row is on both screens: the list moved while it was read")

    def find_row(self, report_id: str, *, max_screens: int = 60) -> ListRow:
        """The row of a report: where it was seen before, else searched from the top. Raises `cursor_lost`."""
        self._blind_start(report_id)
        row = row_of(self.list_screen(), report_id)
        if row is None and report_id in self._order:
            row = self._seek_known(report_id)
        if row is not None:
            return row
        screen = self.to_list_top()
        for _ in range(max_screens):
            row = row_of(screen, report_id)
            if row is not None:
                return row
            following = self.next_screen()
            screen = following.screen
            if following.end and row_of(screen, report_id) is None:
                break
        raise DeviceError("cursor_lost", f"report {report_id} is not in the list any more")

    def _blind_start(self, report_id: str) -> None:
        """Far from the report by the last look, however old: the known distance first, then the next look.

        Only while that look's list has not been left; a swipe needs no fresh dump, a tap does.
        """
        screen = self._list
        if screen is None or self.looker.fresh(screen.tree):
            return
        places = {one: place for place, one in enumerate(self._order)}
        shown = [places[row.report_id] for row in screen.entries() if row.report_id in places]
        if report_id in places and shown and not min(shown) <= places[report_id] <= max(shown):
            self._swipe_towards(places[report_id], shown, screen, least=0)

    def _swipe_towards(self, wanted: int, shown: list[int], screen: ListScreen, least: int = 1) -> None:
        """Swipe the distance that surely does not pass the row at `wanted`. To the first rows of the list
        it is flung: the top stops what goes too far."""
        down = wanted > max(shown)
        distance = wanted - max(shown) if down else min(shown) - wanted
        fling = not down and wanted < len(shown)
        share = self.profile.pace.swipe_share * (1 if down else -1)
        swipes = self._blind_swipes(distance + len(shown) // 2, screen)
        swipes = math.ceil(swipes / FLING_GAIN) if fling else swipes
        for _ in range(max(least, swipes)):
            self._swipe(share, screen, fling=fling)

    def _seek_known(self, report_id: str) -> ListRow | None:
        """Swipe to where the report was seen; None when it is not there (any more)."""
        for _ in range(12):
            screen = self.list_screen()
            row = row_of(screen, report_id)
            if row is not None:
                return row
            places = {one: place for place, one in enumerate(self._order)}
            shown = [places[r.report_id] for r in screen.entries() if r.report_id in places]
            if not shown or report_id not in places:
                return None
            wanted = places[report_id]
            if min(shown) < wanted < max(shown):
                return None
            self._swipe_towards(wanted, shown, screen)
        return None

    # -- the detail page ----------------------------------------------------------------------------------

    def open_detail(self, row: ListRow) -> DetailScreen:
        """Tap a row and prove that its own page came. Raises `detail_mismatch` for another report's page,
        `dump_stale` when the phone says the page changed and the dump does not, `cursor_lost` otherwise."""
        screen = self.list_screen()
        current = next((r for r in screen.rows if r.key == row.key), None)
        if current is None:
            raise DeviceError("cursor_lost", "the row has left the screen")
        self.looker.tap(screen.tree, current.node, "list.row")
        self._list = None
        self.clock.sleep(self.profile.pace.page_settle_s)
        wrong: list[ReportFacts] = []

        def arrived(tree: UiTree) -> bool:
            if not is_detail(tree, self.profile):
                return False
            facts = read_detail(tree, self.profile, self.looker.phone_now()).facts
            if same_report(current.facts, facts):
                return True
            if wrong and wrong[-1] == facts:
                raise DeviceError("detail_mismatch", "the page that opened is another report's")
            wrong.append(facts)
            return False

        try:
            with self.looker.picturing():
                tree = self.looker.wait_for(arrived, "detail", "the detail page")
        except DeviceError as error:
            if error.failure != "cursor_lost":
                raise
            raise self._no_change(error) from error
        self.looker.changed()
        self.opened = current.report_id
        return read_detail(tree, self.profile, self.looker.phone_now())

    def _no_change(self, error: DeviceError) -> DeviceError:
        """Say whether the dump lags behind the phone, or the tap had no effect."""
        wanted = self.profile.app.detail_activity
        if self.last_tree is not None:
            require_no_webview(self.last_tree)
        activity = self.device.focus().activity or ""
        if wanted and activity.endswith(wanted):
            return drift_of_detail(self.last_tree, self.profile) or DeviceError(
                "dump_stale", "the detail page has the focus, but the dump shows the page before"
            )
        return DeviceError("cursor_lost", error.detail)

    def detail_screen(self, *, anew: bool = False) -> DetailScreen:
        """The detail page as it is now: the last dump while it is fresh and of that page, else (or `anew`) a
        new one, with a picture taken beside it.
        """
        tree = self.last_tree
        if anew or tree is None or not self.looker.fresh(tree) or not is_detail(tree, self.profile):
            with self.looker.picturing():
                tree = self.looker.look("detail")
        return read_detail(tree, self.profile, self.looker.phone_now())

    def back(self) -> ListScreen:
        """From the detail page (or a dialog on it) to the list, proven by the list's anchors without the
        page's.
        """
        for _ in range(MAX_BACKS):
            left = self.last_tree
            require_accepted(self.device.key(KEY_BACK))
            self.clock.sleep(self.profile.pace.page_settle_s)
            tree = self.looker.wait_for(lambda t, old=left: self._moved(t, old), "list", "the list")  # type: ignore[misc]
            self.looker.changed()
            if is_list(tree, self.profile):
                return self._remember(tree)
        raise DeviceError("cursor_lost", "the back key does not lead to the list")

    def _moved(self, tree: UiTree, left: UiTree | None) -> bool:
        if is_list(tree, self.profile) and not is_detail(tree, self.profile):
            return True
        return (
            left is not None and read_dialog(left, self.profile) is not None and is_detail(tree, self.profile)
        )

    # -- labels and history -------------------------------------------------------------------------------

    def read_quota_label(self) -> QuotaLabel | None:
        """The remaining quota on the current screen."""
        return read_quota(self._current(), self.profile)

    def read_account_label(self) -> AccountLabel | None:
        """The account on the current screen."""
        return read_account(self._current(), self.profile)

    def _current(self) -> UiTree:
        tree = self.last_tree
        return tree if tree is not None and self.looker.fresh(tree) else self.looker.look()

    def open_history(self) -> tuple[HistoryRow, ...]:
        """The first screen of the app's download history; empty when the app has no entries there."""
        history = self.profile.quota.history
        if history is None:
            return ()
        self._tap_chain(history.taps, "quota.history.taps")
        self._list = None
        tree = self.looker.wait_for(
            lambda t: not present(t, history.taps[-1]) and not is_list(t, self.profile),
            "history",
            "the history",
        )
        self.looker.changed()
        return read_history(tree, self.profile, self.looker.phone_now())

    def close_history(self) -> ListScreen:
        """Back to the list."""
        history = self.profile.quota.history
        if history is not None:
            for _ in range(history.backs):
                require_accepted(self.device.key(KEY_BACK))
                self.clock.sleep(self.profile.pace.page_settle_s)
            if history.home is not None:
                self.looker.last_tree = None
                self.looker.changed()
                self._tap_chain((history.home,), "quota.history.home")
        return self._return_to_list()
