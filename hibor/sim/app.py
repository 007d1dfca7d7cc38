"""The Hibor-like app: which screen is in front, what a tap on it does, what it costs.

Rules: the app knows phone time only as numbers handed in and never waits; a tap starts a change of screen
that is finished `tap_s` later, and until then touches go nowhere, as during a real window transition. The
only place where quota is spent is `_confirm`: the 确定 of the download dialog. The truth of it is recorded
before anything is shown. A report whose file is in the cache shows 打开 and is never served again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import attrs

from hibor.sim import pages
from hibor.sim.downloads import Downloads
from hibor.sim.faultbook import FaultBook
from hibor.sim.feed import AppList, ServerFeed
from hibor.sim.reports import Report
from hibor.sim.scenario import Fault, Scenario
from hibor.sim.screens import NO_ACTION, Action, Widget, Window, hit
from hibor.sim.state import PHONE_ZONE, PhoneState
from hibor.sim.versions import has_export

TOAST_S = 3.0
WALL_KINDS = ("login_wall", "captcha_wall", "member_wall", "kicked_out", "risk_wall")
POPUP_KINDS = {
    "permission_dialog": "permission", "anr_dialog": "anr", "foreign_focus": "foreign",
    "screen_locks": "lock",
}
WALL_TEXTS = {
    "member_wall": "该报告为会员专享，开通会员后可下载",
    "kicked_out": "账号已在其他设备登录",
    "risk_wall": "操作频繁，请稍后再试",
    "exhausted": "今日下载额度已用完",
}
CONFIRM_TEXT = "下载将消耗 1 次下载额度，确定下载？"

Record = Callable[[str, str | None, str], None]


@attrs.define
class Page:
    """One page of the app's back stack; `scrolled` is used by the history only."""

    kind: str
    report_id: str = ""
    scrolled: int = 0


@attrs.define
class Dialog:
    """A dialog over the page in front."""

    kind: str
    message: str
    report_id: str = ""


class ResearchApp:
    """The app's state and its answers to input. Not thread-safe: the phone calls it under one lock."""

    def __init__(
        self, scenario: Scenario, state: PhoneState, feed: ServerFeed, downloads: Downloads,
        faults: FaultBook, record: Record,
    ) -> None:
        self._scenario = scenario
        self._state = state
        self._feed = feed
        self._downloads = downloads
        self._faults = faults
        self._record = record
        self.list = AppList(feed, scenario.feed.page_rows)
        self.pages: list[Page] = []
        self.dialog: Dialog | None = None
        self.popup = ""
        self.opaque_list = False
        self._stale_dumps = 0
        self._change: tuple[float, Callable[[], None]] | None = None
        self._load_due_s: float | None = None
        self._toast = ""
        self._toast_until_s = 0.0

    # -- time ------------------------------------------------------------------------------------------

    def advance(self, now_s: float) -> None:
        """Let everything happen that is due at phone time `now_s`."""
        if self._change is not None and self._change[0] <= now_s:
            apply = self._change[1]
            self._change = None
            apply()
        for _, text in self._downloads.advance(now_s):
            self._toast, self._toast_until_s = text, now_s + TOAST_S
        if self._load_due_s is not None and self._load_due_s <= now_s:
            self._load_due_s = None
            self._loaded()

    def take_stale(self) -> bool:
        """Whether the next dump still shows the page before (fault F34)."""
        self._stale_dumps -= self._stale_dumps > 0
        return self._stale_dumps > 0

    def idle_at_s(self, now_s: float) -> float:
        """When the screen comes to rest: the end of the running change, else now."""
        return now_s if self._change is None else max(now_s, self._change[0])

    def _later(self, now_s: float, wait_s: float, apply: Callable[[], None]) -> None:
        self._change = (now_s + wait_s, apply)

    # -- quota -----------------------------------------------------------------------------------------

    def quota_left(self, server_now: datetime) -> int:
        """Downloads left today; the count starts anew at local midnight."""
        day = server_now.astimezone(PHONE_ZONE).date().isoformat()
        if self._state.quota_day != day:
            self._state.quota_day, self._state.quota_used = day, 0
        return max(0, self._scenario.quota.limit - self._state.quota_used)

    def use_quota_elsewhere(self, amount: int) -> None:
        """Somebody downloads with the same account on another device."""
        self._state.quota_used += amount

    # -- what is in front ------------------------------------------------------------------------------

    def window(
        self, size: tuple[int, int], now_s: float, shown_now: datetime, server_now: datetime
    ) -> Window:
        """The active window. `shown_now` is the phone's clock, `server_now` the true one."""
        if self.popup:
            return pages.system_window(size, self.popup)
        if not self.pages:
            return pages.system_window(size, "launcher")
        page = self._page_window(size, now_s, shown_now, server_now)
        return page if self.dialog is None else self._dialog_window(size, self.dialog, page.activity)

    def page_behind(
        self, size: tuple[int, int], now_s: float, shown_now: datetime, server_now: datetime
    ) -> Widget | None:
        """The page an open dialog or system dialog lies on, for the picture; None when nothing is behind."""
        if not self.pages or (self.dialog is None and self.popup not in ("anr", "permission")):
            return None
        return self._page_window(size, now_s, shown_now, server_now).root

    def _header(self, now_s: float, server_now: datetime) -> pages.Header:
        left = self.quota_left(server_now) if self._scenario.quota.label else None
        toast = self._toast if now_s < self._toast_until_s else ""
        return pages.Header(left, self._scenario.phone.account_label, toast)

    def _page_window(
        self, size: tuple[int, int], now_s: float, shown_now: datetime, server_now: datetime
    ) -> Window:
        page, header = self.pages[-1], self._header(now_s, server_now)
        if page.kind == "detail":
            report = self._feed.report(page.report_id)
            button, share = self._button(page.report_id, now_s), has_export(self._scenario.app)
            return pages.detail_window(size, header, report, button, share)
        if page.kind == "me":
            return pages.me_window(size, header)
        if page.kind == "history":
            return pages.history_window(size, header, self._history(), page.scrolled)
        if page.kind == "reader":
            return pages.reader_window(size, self._feed.report(page.report_id))
        if page.kind in ("login", "captcha"):
            return pages.wall_window(size, page.kind)
        relative = self._scenario.feed.relative_dates
        moment = shown_now.astimezone(PHONE_ZONE)
        return pages.home_window(size, header, self.list, moment, relative, opaque=self.opaque_list)

    def _history(self) -> list[tuple[Report, datetime]]:
        first = self._state.first_start.astimezone(PHONE_ZONE)
        newest = sorted(self._state.history, key=lambda entry: entry[1], reverse=True)
        return [(self._feed.report(one), first + timedelta(seconds=at_s)) for one, at_s in newest]

    def _button(self, report_id: str, now_s: float) -> str:
        percent = self._downloads.percent(report_id, now_s)
        if percent is not None:
            return f"下载中 {percent}%"
        return "打开" if self._downloads.in_cache(report_id) else "下载"

    def _dialog_window(self, size: tuple[int, int], dialog: Dialog, activity: str) -> Window:
        if dialog.kind == "share":
            return pages.share_window(size, activity, dialog.report_id)
        if dialog.kind == "confirm":
            buttons: Sequence[tuple[str, str, Action]] = (
                ("dialog_ok", "确定", ("confirm", dialog.report_id)),
                ("dialog_cancel", "取消", ("cancel", "")),
            )
        elif dialog.kind == "member_wall":
            buttons = (("dialog_ok", "开通会员", ("cancel", "")), ("dialog_cancel", "取消", ("cancel", "")))
        elif dialog.kind == "kicked_out":
            buttons = (("dialog_ok", "重新登录", ("relogin", "")),)
        else:
            buttons = (("dialog_ok", "知道了", ("cancel", "")),)
        return pages.dialog_window(size, activity, dialog.message, buttons, dialog.report_id or None)

    # -- input -----------------------------------------------------------------------------------------

    def target(self, window: Window, x: int, y: int) -> Widget | None:
        """The control a tap at this point hits; None while the screen changes or where nothing is."""
        return None if self._change is not None else hit(window.root, x, y)

    def perform(self, action: Action, now_s: float, server_now: datetime) -> None:
        """Do what the tapped control does."""
        name, argument = action
        if action == NO_ACTION or not name:
            return
        wait_s = self._scenario.pace.tap_s
        simple: dict[str, Callable[[], None]] = {
            "cancel": self._close_dialog, "back": self._pop, "dismiss_popup": self._close_popup,
            "close_app": self.close, "relogin": self._relogin,
            "history": lambda: self._push(Page("history")),
            "read": lambda: self._push(Page("reader", argument)),
        }
        if name in simple:
            if name == "history" and self._wall("history", None, now_s):
                return
            self._later(now_s, wait_s, simple[name])
        elif name == "tab":
            self._later(now_s, wait_s, lambda: self._tab(argument))
        elif name == "open":
            self._open(argument, now_s, server_now)
        elif name == "download":
            self._ask(argument, now_s, server_now)
        elif name == "confirm":
            self._confirm(argument, now_s, server_now)
        elif name == "share":
            self._share(argument, now_s)
        elif name == "export":
            self._export(argument, now_s)
        elif name == "retry":
            self._begin_load(now_s)
        elif name == "start":
            self.start(now_s)

    def back(self, now_s: float) -> None:
        """The back key."""
        if self._change is not None:
            return
        if self.popup in ("anr", "permission"):
            self._later(now_s, self._scenario.pace.tap_s, self._close_popup)
        elif self.popup:
            return
        elif self.dialog is not None:
            self._later(now_s, self._scenario.pace.tap_s, self._close_dialog)
        else:
            self._later(now_s, self._scenario.pace.tap_s, self._pop)

    def home(self, now_s: float) -> None:
        """The home key: the launcher comes to the front; the app is started anew afterwards."""
        self._later(now_s, self._scenario.pace.tap_s, self.close)

    def start(self, now_s: float) -> None:
        """Bring the app to the front; a stopped app begins with its list."""
        if self.popup == "foreign":
            self.popup = ""
        if not self.pages:
            self._later(now_s, self._scenario.pace.start_s, self._launch)
            self._wall("start", None, now_s, self._scenario.pace.start_s)

    def close(self) -> None:
        """Leave the app."""
        self.pages, self.dialog, self.popup = [], None, ""

    def _launch(self) -> None:
        self.pages, self.dialog = [Page("home")], None
        self.list.refresh()

    def _push(self, page: Page) -> None:
        self.pages.append(page)

    def _pop(self) -> None:
        self.pages = self.pages[:-1]

    def _tab(self, name: str) -> None:
        self.pages = [Page("home")] if name == "home" else [Page("home"), Page("me")]

    def _close_dialog(self) -> None:
        self.dialog = None

    def _close_popup(self) -> None:
        self.popup = ""

    def _relogin(self) -> None:
        self.pages, self.dialog = [Page("login")], None

    # -- reports ---------------------------------------------------------------------------------------

    def _open(self, report_id: str, now_s: float, server_now: datetime) -> None:
        struck = self._faults.take("open_detail", report_id)
        self.disturb(struck, server_now)
        if self._wall_struck(struck, report_id, now_s):
            return
        shown = report_id
        if any(fault.kind == "wrong_detail" for fault in struck):
            listed = [one.report_id for one in self._feed.reports() if one.report_id != report_id]
            shown = listed[self._feed.rank(report_id) % len(listed)]

        def apply() -> None:
            self._push(Page("detail", shown))
            self._record("opened", shown, "detail page")

        self._later(now_s, self._scenario.pace.tap_s, apply)

    def _ask(self, report_id: str, now_s: float, server_now: datetime) -> None:
        """下载 was tapped: the app asks, or says why it will not."""
        if self._wall("download", report_id, now_s):
            return
        if self.quota_left(server_now) <= 0:
            self._refuse(report_id, "exhausted", now_s)
            return
        asked = Dialog("confirm", CONFIRM_TEXT, report_id)
        self._later(now_s, self._scenario.pace.tap_s, lambda: setattr(self, "dialog", asked))

    def _refuse(self, report_id: str | None, kind: str, now_s: float) -> None:
        self._record("refused", report_id, kind)
        self._show_wall(kind, now_s, self._scenario.pace.tap_s)

    def _confirm(self, report_id: str, now_s: float, server_now: datetime) -> None:
        """确定 was tapped: the paying tap."""
        self._later(now_s, self._scenario.pace.tap_s, self._close_dialog)
        running = self._downloads.percent(report_id, now_s) is not None
        if running or self._downloads.in_cache(report_id):
            return
        struck = self._faults.take("confirm", report_id)
        self.disturb(struck, server_now)
        walls = [fault.kind for fault in struck if fault.kind in WALL_KINDS]
        if walls or self.quota_left(server_now) <= 0:
            self._refuse(report_id, walls[0] if walls else "exhausted", now_s)
        elif any(fault.kind == "server_refuses" for fault in struck):
            self._record("refused", report_id, "server")
            self._toast, self._toast_until_s = "下载失败，请稍后重试", now_s + 2 * TOAST_S
        else:
            self._state.quota_used += 1
            self._record("served", report_id, f"quota used {self._state.quota_used}")
            self._downloads.accept(self._feed.report(report_id), now_s, struck)

    def _share(self, report_id: str, now_s: float) -> None:
        """分享 was tapped: a sheet, where there is a file to share."""
        if not self._downloads.in_cache(report_id):
            self._toast, self._toast_until_s = "请先下载", now_s + TOAST_S
            return
        sheet = Dialog("share", "", report_id)
        self._later(now_s, self._scenario.pace.tap_s, lambda: setattr(self, "dialog", sheet))

    def _export(self, report_id: str, now_s: float) -> None:
        """保存到手机 was tapped: a copy in the shared storage; costs nothing."""
        wait_s = self._scenario.pace.tap_s

        def apply() -> None:
            self.dialog = None
            self._downloads.export(report_id, now_s + wait_s)
            self._record("exported", report_id, "copy in the shared storage")
            self._toast, self._toast_until_s = "已保存到 Download/慧博", now_s + wait_s + TOAST_S

        self._later(now_s, wait_s, apply)

    # -- walls and disturbances ------------------------------------------------------------------------

    def _wall(self, site: str, report_id: str | None, now_s: float, wait_s: float | None = None) -> bool:
        """Ask for walls at `site`; True when one came up."""
        struck = self._faults.take(site, report_id, kinds=WALL_KINDS)
        return self._wall_struck(struck, report_id, now_s, wait_s)

    def _wall_struck(
        self, struck: Sequence[Fault], report_id: str | None, now_s: float, wait_s: float | None = None
    ) -> bool:
        for fault in struck:
            if fault.kind in WALL_KINDS:
                self._record("refused", report_id, fault.kind)
                self._show_wall(fault.kind, now_s, self._scenario.pace.tap_s if wait_s is None else wait_s)
                return True
        return False

    def _show_wall(self, kind: str, now_s: float, wait_s: float) -> None:
        """Login and captcha replace the page; the others are dialogs over it."""

        def apply() -> None:
            self.dialog = None
            if not self.pages:
                self._launch()
            if kind in ("login_wall", "captcha_wall"):
                self._push(Page("login" if kind == "login_wall" else "captcha"))
            else:
                self.dialog = Dialog(kind, WALL_TEXTS[kind])

        self._later(now_s, wait_s, apply)

    def disturb(self, struck: Sequence[Fault], server_now: datetime) -> None:
        """Play what can happen to the app at any site: popups, a moving list, quota used elsewhere."""
        for fault in struck:
            if fault.kind in POPUP_KINDS:
                self.popup = POPUP_KINDS[fault.kind]
            elif fault.kind == "quota_elsewhere":
                self.quota_left(server_now)
                self.use_quota_elsewhere(fault.amount)
            elif fault.kind == "feed_insert":
                self._feed.insert(server_now, fault.amount)
                self.list.follow_server()
            elif fault.kind == "feed_delete":
                self._delete(fault)
                self.list.follow_server()
            elif fault.kind == "feed_refresh":
                self.list.refresh()
            elif fault.kind == "dump_stale" and fault.site != "dump":
                self._stale_dumps = fault.amount + 1

    def _delete(self, fault: Fault) -> None:
        """Delete the report of the fault's rank, else the newest ones that are scrolled past."""
        if 1 <= fault.report <= len(self._feed.original):
            self._feed.delete(self._feed.at_rank(fault.report).report_id)
            return
        for report in self._feed.reports()[: fault.amount]:
            self._feed.delete(report.report_id)

    # -- scrolling -------------------------------------------------------------------------------------

    def scroll(self, distance: int, viewport: int, now_s: float, server_now: datetime) -> None:
        """The finger moved the content by `distance` pixels (positive: towards older rows)."""
        if self.popup or self.dialog is not None or not self.pages or self._change is not None:
            return
        page = self.pages[-1]
        if page.kind == "history":
            height = len(self._state.history) * pages.HISTORY_ROW_HEIGHT
            page.scrolled = max(0, min(page.scrolled + distance, height - viewport))
            return
        if page.kind != "home":
            return
        struck = self._faults.take("swipe")
        for fault in struck:
            if fault.kind == "swipe_factor":
                distance = int(distance * fault.factor)
        at_top = self.list.offset == 0
        self.list.scroll(distance, viewport)
        if at_top and distance < -300:
            self.list.refresh()
        self.disturb(struck, server_now)
        self._wall_struck(struck, None, now_s)
        if self.list.status == "more" and self.list.near_end(viewport):
            self._begin_load(now_s)

    def _begin_load(self, now_s: float) -> None:
        self.list.status = "loading"
        self._load_due_s = now_s + self._scenario.pace.load_s

    def _loaded(self) -> None:
        kinds = {fault.kind for fault in self._faults.take("load")}
        if "load_stuck" in kinds:
            self.list.status = "loading"
        elif "load_fails" in kinds:
            self.list.status = "failed"
        else:
            self.list.load_page()
