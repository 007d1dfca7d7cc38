"""The layouts of the simulated app and of the system screens that can lie over it.

Rules: a layout is a pure function from facts to a widget tree, for any screen size; it decides nothing. Ids,
texts and the order of things are those of app version 7.2.1, on which profiles are written. A dialog is a
window of its own, so while one is open a dump shows the dialog and nothing of the page behind it, as on a
real phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import attrs

from hibor.sim.feed import FOOTER_HEIGHT, FOOTERS, AppList, Row
from hibor.sim.reports import Report
from hibor.sim.screens import APP_PACKAGE, BUTTON, FRAME, TEXT, Action, Bounds, Widget, Window, clip_tree

LIST_TOP, TABS_HEIGHT, NAVIGATION_HEIGHT = 230, 150, 60
HISTORY_ROW_HEIGHT = 180
LIST_VIEW = "androidx.recyclerview.widget.RecyclerView"


@attrs.frozen
class Header:
    """What the toolbar shows; `quota_left` None means that the label is not drawn."""

    quota_left: int | None
    account: str
    toast: str = ""


def list_date(published: datetime, now: datetime, relative: bool) -> str:
    """The date in a list row, as the app prints it at `now` (both in the phone's zone).

    The relative forms are only used where they lead back to the right day.
    """
    age = now - published
    if relative and published.date() == now.date() and age >= timedelta(0):
        hours = int(age / timedelta(hours=1))
        plain = (now - timedelta(hours=hours)).date() == published.date()
        if hours >= 1 and plain and published.minute % 2 == 0:
            return f"{hours}小时前"
        return f"今天 {published:%H:%M}"
    if relative and published.date() == (now - timedelta(days=1)).date():
        return f"昨天 {published:%H:%M}"
    return f"{published:%Y-%m-%d}"


def _root(size: tuple[int, int], children: list[Widget]) -> Widget:
    """A window's outermost frames."""
    whole = (0, 0, *size)
    content = Widget(FRAME, whole, "android:id/content", children=children)
    return Widget(FRAME, whole, children=[Widget("android.widget.LinearLayout", whole, children=[content])])


def _toolbar(size: tuple[int, int], header: Header, title: str) -> Widget:
    width = size[0]
    children = [Widget(TEXT, (40, 100, width // 2, 210), "toolbar_title", title)]
    if header.quota_left is not None:
        text = f"今日剩余 {header.quota_left} 次"
        children.append(Widget(TEXT, (width // 2, 90, width - 30, 152), "quota_left", text))
    children.append(
        Widget(TEXT, (width // 2, 156, width - 30, 216), "account_label", f"账号 {header.account}")
    )
    return Widget("android.view.ViewGroup", (0, 80, width, 220), "toolbar", children=children)


def _tabs(size: tuple[int, int]) -> Widget:
    width, bottom = size[0], size[1] - NAVIGATION_HEIGHT
    top = bottom - TABS_HEIGHT
    children = [
        Widget(
            TEXT, (place * width // 2, top, (place + 1) * width // 2, bottom), f"tab_{name}", text,
            clickable=True, action=("tab", name),
        )
        for place, (name, text) in enumerate((("home", "首页"), ("me", "我的")))
    ]
    return Widget("android.widget.LinearLayout", (0, top, width, bottom), "tab_bar", children=children)


def _toast(size: tuple[int, int], header: Header) -> list[Widget]:
    if not header.toast:
        return []
    width, height = size
    box = (width // 4, height - 420, width * 3 // 4, height - 330)
    return [Widget(TEXT, box, "toast_text", header.toast)]


def list_bounds(size: tuple[int, int]) -> Bounds:
    """Where the list of the home page lies."""
    return (0, LIST_TOP, size[0], size[1] - TABS_HEIGHT - NAVIGATION_HEIGHT)


def home_window(
    size: tuple[int, int], header: Header, shown: AppList, now: datetime, relative_dates: bool,
    opaque: bool = False,
) -> Window:
    """The list. `opaque` draws it as a web view that tells nothing (fault F43)."""
    area = list_bounds(size)
    if opaque:
        inner: Widget = Widget("android.webkit.WebView", area, focusable=True)
    else:
        inner = Widget(LIST_VIEW, area, "report_list", scrollable=True, focusable=True)
        rows = [
            _row(row, area, area[1] + top, now, relative_dates)
            for row, top in shown.visible(area[3] - area[1])
        ]
        rows.append(_footer(shown, area))
        inner.children = [kept for one in rows if (kept := clip_tree(one, area)) is not None]
    children = [_toolbar(size, header, "慧博投研"), inner, _tabs(size), *_toast(size, header)]
    return Window(_root(size, children))


def _footer(shown: AppList, area: Bounds) -> Widget:
    top = area[1] + shown.footer_top()
    retry: Action = ("retry", "") if shown.status == "failed" else ("", "")
    return Widget(
        TEXT, (0, top, area[2], top + FOOTER_HEIGHT), "list_footer", FOOTERS[shown.status],
        clickable=shown.status == "failed", action=retry,
    )


def _row(row: Row, area: Bounds, top: int, now: datetime, relative_dates: bool) -> Widget:
    width = area[2]
    bounds = (0, top, width, top + row.height)
    if row.report is not None:
        return _report_row(row, row.report, bounds, now, relative_dates)
    if row.kind == "advert":
        texts = [
            Widget(TEXT, (40, top + 20, 160, top + 80), "ad_tag", "广告"),
            Widget(TEXT, (40, top + 90, width - 40, top + 190), "ad_text", row.text),
        ]
        return Widget(FRAME, bounds, "ad_row", clickable=True, action=("advert", row.key), children=texts)
    text = Widget(TEXT, (40, top + 30, width - 40, top + 120), "notice_text", row.text)
    return Widget(FRAME, bounds, "notice_row", clickable=True, action=("notice", row.key), children=[text])


def _report_row(row: Row, report: Report, bounds: Bounds, now: datetime, relative_dates: bool) -> Widget:
    _, top, width, _ = bounds
    cells: list[tuple[str, str, Bounds]] = [
        ("row_title", report.title, (40, top + 16, width - 40, top + 112)),
        ("row_institution", report.institution, (40, top + 120, 380, top + 172)),
    ]
    if not report.hide_date:
        date = list_date(report.published, now, relative_dates)
        cells.append(("row_date", date, (400, top + 120, 740, top + 172)))
    cells.append(("row_pages", f"共 {report.pages} 页", (760, top + 120, width - 40, top + 172)))
    cells.append(("row_code", f"编号 {report.report_id}", (40, top + 180, 560, top + 230)))
    if report.stock_code:
        text = f"{report.stock_code} {report.stock_name}"
        cells.append(("row_stock", text, (580, top + 180, width - 40, top + 230)))
    cells.append(("row_industry", report.industry, (40, top + 238, 380, top + 286)))
    if report.rating:
        cells.append(("row_rating", report.rating, (400, top + 238, 640, top + 286)))
    if row.kind == "pinned":
        cells.append(("row_pin", "置顶", (width - 200, top + 238, width - 40, top + 286)))
    return Widget(
        FRAME, bounds, "report_row", clickable=True, action=("open", report.report_id),
        report_id=report.report_id, children=[Widget(TEXT, box, name, text) for name, text, box in cells],
    )


def detail_window(
    size: tuple[int, int], header: Header, report: Report, button: str, share: bool = False
) -> Window:
    """One report's page; `button` is 下载, 下载中 N% or 打开; `share`: it has 分享 in its toolbar."""
    width, height = size
    identity = report.report_id
    cells: list[tuple[str, str, Bounds]] = [
        ("detail_title", report.title, (40, 250, width - 40, 430)),
        ("detail_institution", report.institution, (40, 450, 440, 510)),
    ]
    if not report.hide_date:
        cells.append(("detail_date", report.date_text, (460, 450, 780, 510)))
    cells += [
        ("detail_analysts", f"分析师：{'、'.join(report.analysts)}", (40, 530, width - 40, 590)),
        ("detail_code", f"编号 {identity}", (40, 610, 580, 670)),
        ("detail_pages", f"共 {report.pages} 页", (600, 610, width - 40, 670)),
        ("detail_summary", report.summary, (40, 700, width - 40, max(760, height - 500))),
    ]
    action = ("read" if button == "打开" else "download" if button == "下载" else "", identity)
    download = Widget(
        BUTTON, (60, height - 260, width - 60, height - 120), "btn_download", button, clickable=True,
        action=action, report_id=identity,
    )
    back = Widget(
        "android.widget.ImageButton", (0, 80, 120, 220), "btn_back", description="返回", clickable=True,
        action=("back", ""),
    )
    toolbar = _toolbar(size, header, "研报详情")
    toolbar.children[0].bounds = (130, 100, width // 2, 210)
    texts = [Widget(TEXT, box, name, text, report_id=identity) for name, text, box in cells]
    children = [toolbar, back, *texts, download]
    if share:
        box = (width - 220, height - 420, width - 60, height - 300)
        children.append(Widget(BUTTON, box, "btn_share", "分享", clickable=True, action=("share", identity)))
    children += _toast(size, header)
    return Window(_root(size, children), activity=f"{APP_PACKAGE}.DetailActivity")


def me_window(size: tuple[int, int], header: Header) -> Window:
    """The page 我的."""
    width = size[0]
    items = (
        ("menu_history", "下载记录", "history"), ("menu_favorites", "我的收藏", ""),
        ("menu_settings", "设置", ""),
    )
    rows = [
        Widget(
            TEXT, (0, 500 + place * 150, width, 640 + place * 150), name, text, clickable=True,
            action=(action, ""),
        )
        for place, (name, text, action) in enumerate(items)
    ]
    children = [_toolbar(size, header, "我的"), *rows, _tabs(size), *_toast(size, header)]
    return Window(_root(size, children))


def history_window(
    size: tuple[int, int], header: Header, entries: Sequence[tuple[Report, datetime]], offset: int
) -> Window:
    """下载记录, newest first; `offset` is the number of pixels it is scrolled down."""
    area = (0, LIST_TOP, size[0], size[1] - NAVIGATION_HEIGHT)
    listed = Widget(LIST_VIEW, area, "history_list", scrollable=True)
    for place, (report, moment) in enumerate(entries):
        top = area[1] + place * HISTORY_ROW_HEIGHT - offset
        cells = (
            ("history_title", report.title, (40, top + 14, size[0] - 40, top + 90)),
            ("history_code", f"编号 {report.report_id}", (40, top + 100, 560, top + 160)),
            ("history_time", f"{moment:%Y-%m-%d %H:%M}", (580, top + 100, size[0] - 40, top + 160)),
        )
        row = Widget(
            FRAME, (0, top, size[0], top + HISTORY_ROW_HEIGHT), "history_row", clickable=True,
            action=("open", report.report_id), report_id=report.report_id,
            children=[Widget(TEXT, box, name, text) for name, text, box in cells],
        )
        kept = clip_tree(row, area)
        if kept is not None:
            listed.children.append(kept)
    if not entries:
        listed.children.append(Widget(TEXT, (0, 600, size[0], 700), "history_empty", "暂无下载记录"))
    children = [_toolbar(size, header, "下载记录"), listed]
    return Window(_root(size, children), activity=f"{APP_PACKAGE}.HistoryActivity")


def reader_window(size: tuple[int, int], report: Report) -> Window:
    """The app's own reader; its page is drawn, so a dump has no text of it."""
    children = [
        Widget(TEXT, (130, 100, size[0] - 40, 210), "reader_title", report.title),
        Widget("android.view.View", (0, 230, size[0], size[1] - NAVIGATION_HEIGHT), "reader_page"),
    ]
    return Window(_root(size, children), activity=f"{APP_PACKAGE}.ReaderActivity")


def dialog_window(
    size: tuple[int, int], activity: str, message: str, buttons: Sequence[tuple[str, str, Action]],
    report_id: str | None = None, package: str = APP_PACKAGE,
) -> Window:
    """A dialog with up to two buttons (id, text, action), from right to left."""
    width, height = size
    left, top, right, bottom = 90, height // 2 - 250, width - 90, height // 2 + 250
    middle = (left + right) // 2
    children = [Widget(TEXT, (left + 60, top + 80, right - 60, top + 300), "dialog_message", message)]
    for place, (name, text, action) in enumerate(buttons):
        box = (middle + 10, bottom - 150, right - 40, bottom - 30)
        if place == 1:
            box = (left + 40, bottom - 150, middle - 10, bottom - 30)
        children.append(
            Widget(BUTTON, box, name, text, clickable=True, action=action, report_id=report_id)
        )
    root = Widget(FRAME, (left, top, right, bottom), "dialog_root", children=children)
    return Window(Widget(FRAME, (left, top, right, bottom), children=[root]), package, activity)


def share_window(size: tuple[int, int], activity: str, report_id: str) -> Window:
    """The sheet behind 分享."""
    width, height = size
    top = height - 560
    items = (
        ("share_save", "保存到手机", ("export", report_id)), ("share_friend", "微信好友", ("", "")),
        ("share_cancel", "取消", ("cancel", "")),
    )
    children = []
    for place, (name, text, action) in enumerate(items):
        box = (60, top + 30 + place * 160, width - 60, top + 170 + place * 160)
        children.append(
            Widget(TEXT, box, name, text, clickable=True, action=action, report_id=report_id)
        )
    area = (0, top, width, height - NAVIGATION_HEIGHT)
    root = Widget(FRAME, area, "share_root", children=children)
    return Window(Widget(FRAME, area, children=[root]), APP_PACKAGE, activity)


def wall_window(size: tuple[int, int], kind: str) -> Window:
    """Login or captcha in place of the app."""
    width = size[0]
    field = "android.widget.EditText"
    if kind == "login":
        children = [
            Widget(TEXT, (60, 400, width - 60, 500), "login_title", "登录"),
            Widget(field, (60, 560, width - 60, 680), "login_account", "请输入手机号", focusable=True),
            Widget(field, (60, 720, width - 60, 840), "login_password", "", password=True, focusable=True),
            Widget(BUTTON, (60, 920, width - 60, 1040), "login_submit", "登录", clickable=True),
        ]
        activity = "LoginActivity"
    else:
        children = [
            Widget(TEXT, (60, 400, width - 60, 500), "captcha_title", "请完成验证"),
            Widget(TEXT, (60, 540, width - 60, 620), "captcha_hint", "请输入图中的验证码"),
            Widget("android.view.View", (60, 660, width - 60, 1000), "captcha_image"),
        ]
        activity = "VerifyActivity"
    root = Widget(FRAME, (0, 80, width, size[1] - NAVIGATION_HEIGHT), f"{kind}_root", children=children)
    return Window(_root(size, [root]), activity=f"{APP_PACKAGE}.{activity}")


def system_window(size: tuple[int, int], kind: str) -> Window:
    """What is not the app: launcher, lock screen, another app, ANR and permission dialogs."""
    width, height = size
    whole = (0, 0, width, height)
    if kind == "launcher":
        icon = Widget(
            TEXT, (60, 300, 300, 560), "icon", "慧博投研", "慧博投研", clickable=True, action=("start", "")
        )
        package, activity = "com.android.launcher3", "com.android.launcher3.uioverrides.QuickstepLauncher"
        return Window(Widget(FRAME, whole, children=[icon]), package, activity)
    if kind == "lock":
        texts = [
            Widget(TEXT, (200, 300, width - 200, 500), "lockscreen_clock_view", "09:41"),
            Widget(TEXT, (200, 1900, width - 200, 1980), "keyguard_indication_text", "向上滑动即可解锁"),
        ]
        return Window(
            Widget(FRAME, whole, "keyguard_root_view", children=texts), "com.android.systemui",
            "NotificationShade",
        )
    if kind == "foreign":
        text = Widget(TEXT, (40, 300, width - 40, 400), "chat_title", "微信")
        return Window(Widget(FRAME, whole, children=[text]), "com.tencent.mm", "com.tencent.mm.ui.LauncherUI")
    return _system_dialog(size, kind)


def _system_dialog(size: tuple[int, int], kind: str) -> Window:
    width, height = size
    box = (60, height // 2 - 260, width - 60, height // 2 + 260)
    top, bottom = box[1], box[3]
    middle = width // 2
    if kind == "anr":
        package, activity = "android", "Application Not Responding: com.huibo.research"
        title = Widget(TEXT, (100, top + 40, width - 100, top + 160), "alertTitle", "慧博投研没有响应")
        names = (("aerr_close", "关闭应用", "close_app"), ("aerr_wait", "等待", "dismiss_popup"))
    else:
        package = "com.android.permissioncontroller"
        activity = f"{package}.permission.ui.GrantPermissionsActivity"
        title = Widget(
            TEXT, (100, top + 40, width - 100, top + 200), "permission_message",
            "要允许“慧博投研”访问此设备上的照片和媒体内容吗？",
        )
        names = (
            ("permission_allow_button", "允许", "dismiss_popup"),
            ("permission_deny_button", "不允许", "dismiss_popup"),
        )
    boxes = ((80, bottom - 140, middle, bottom - 30), (middle, bottom - 140, width - 80, bottom - 30))
    buttons = [
        Widget(BUTTON, box, name, text, clickable=True, action=(action, kind))
        for box, (name, text, action) in zip(boxes, names, strict=True)
    ]
    return Window(Widget(FRAME, box, children=[title, *buttons]), package, activity)
