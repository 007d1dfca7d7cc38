"""The versions of the simulated app: what differs between them, and what a dump shows of a page in each.

Rules: the pages, what they do and what they cost are one; versions differ only in what accessibility tells of
them and in where files go, so that a collector can follow by its profile alone. Version 2 merges: a row is
one clickable node whose content-desc is 券商-个股-代码-标题-YYMMDD, no node has an id, no report number is
shown. Version 3 keeps its files where adb cannot read them, and has 分享 → 保存到手机. The picture of a page
and what a tap hits are read from the page itself, which merging does not move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from hibor.sim.reports import Report
from hibor.sim.screens import APP_PACKAGE, Widget, Window

VERSION_NAMES: Mapping[str, str] = {"1": "7.2.1", "2": "8.0.3", "3": "9.1.0"}
PUBLIC_FOLDER = f"/storage/emulated/0/Android/data/{APP_PACKAGE}/files/Download"
PRIVATE_FOLDER = f"/data/user/0/{APP_PACKAGE}/files/Download"
EXPORT_FOLDER = "/storage/emulated/0/Download/慧博"
MERGED_CLASS = "android.view.ViewGroup"
NODE_CLASS = "android.view.View"
_KEPT_CLASSES = ("android.widget.Button", "android.widget.ImageButton")
_HIDDEN_CELLS = ("detail_institution", "detail_date", "detail_code")


def cache_folder(app: str) -> str:
    """Where this version puts the files it downloads."""
    return PRIVATE_FOLDER if app == "3" else PUBLIC_FOLDER


def has_export(app: str) -> bool:
    """Whether this version's detail page has 分享."""
    return app == "3"


def shown(window: Window, app: str, report: Callable[[str], Report]) -> Window:
    """The window as a dump of this version shows it."""
    if app != "2" or window.package != APP_PACKAGE:
        return window
    return attrs.evolve(window, root=_merged(window.root, report))


def merged_text(report: Report) -> str:
    """券商-个股-代码-标题-YYMMDD; without a stock, and without a hidden date, those parts are left out."""
    stock = [report.stock_name, report.stock_code] if report.stock_code else []
    date = [] if report.hide_date else [f"{report.published:%y%m%d}"]
    return "-".join([report.institution, *stock, report.title, *date])


def _merged(widget: Widget, report: Callable[[str], Report]) -> Widget:
    if widget.id_name in ("report_row", "history_row", "ad_row", "notice_row"):
        text = _row_text(widget, report)
        return attrs.evolve(widget, class_name=MERGED_CLASS, id_name="", description=text, children=[])
    children = [_merged(child, report) for child in widget.children if child.id_name not in _HIDDEN_CELLS]
    text = widget.text or widget.description
    if widget.id_name == "detail_title":
        text = merged_text(report(widget.report_id or ""))
    elif widget.id_name == "detail_summary":
        text = f"摘要：{text}"
    keeps = bool(children) or widget.class_name in _KEPT_CLASSES or widget.password or not text
    return attrs.evolve(
        widget, id_name="android:id/content" if widget.id_name == "android:id/content" else "",
        class_name=widget.class_name if keeps else NODE_CLASS, text="", description=text, children=children,
    )


def _row_text(row: Widget, report: Callable[[str], Report]) -> str:
    texts = [one.text for one in row.children if one.text]
    if row.id_name == "ad_row":
        return "：".join(texts)
    if row.id_name == "notice_row":
        return f"公告：{' '.join(texts)}"
    text = merged_text(report(row.report_id or ""))
    if row.id_name == "history_row":
        moment = next((one.text for one in row.children if one.id_name == "history_time"), "")
        return f"{text}\n{moment}"
    pinned = any(one.id_name == "row_pin" for one in row.children)
    return f"[置顶]{text}" if pinned else text
