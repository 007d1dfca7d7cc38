"""Dumps for tests, written the way `uiautomator` writes them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from xml.sax.saxutils import quoteattr

from hibor.device.uitree import UiTree, parse_tree

PACKAGE = "com.huibo.research"
NOW = datetime(2026, 11, 30, 8, 31, 5, tzinfo=timezone(timedelta(hours=8)))


def node(
    name: str = "",
    text: str = "",
    bounds: tuple[int, int, int, int] = (0, 0, 1080, 2340),
    *children: str,
    kind: str = "android.widget.TextView",
    package: str = PACKAGE,
    desc: str = "",
    clickable: bool = False,
) -> str:
    left, top, right, bottom = bounds
    full = f"{package}:id/{name}" if name and ":" not in name else name
    return (
        f'<node index="0" text={quoteattr(text)} resource-id={quoteattr(full)} class={quoteattr(kind)} '
        f'package={quoteattr(package)} content-desc={quoteattr(desc)} clickable="{str(clickable).lower()}" '
        f'enabled="true" scrollable="false" selected="false" '
        f'bounds="[{left},{top}][{right},{bottom}]">{"".join(children)}</node>'
    )


def hierarchy(*nodes: str, rotation: int = 0) -> bytes:
    head = "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>"
    return f'{head}<hierarchy rotation="{rotation}">{"".join(nodes)}</hierarchy>'.encode()


def tree(*nodes: str, rotation: int = 0, taken_s: float = 0.0) -> UiTree:
    return parse_tree(hierarchy(*nodes, rotation=rotation), taken_s=taken_s)


def row(
    top: int,
    title: str,
    code: str | None = "HB2026113000012",
    *,
    height: int = 300,
    date: str | None = "2026-11-30",
    pages: str | None = "共 12 页",
    extra: str = "",
    institution: str = "国信证券",
) -> str:
    right = 1000
    cells = [node("row_title", title, (40, top + 10, right, top + 60))]
    cells.append(node("row_institution", institution, (40, top + 70, 400, top + 110)))
    if date is not None:
        cells.append(node("row_date", date, (410, top + 70, right, top + 110)))
    if code is not None:
        cells.append(node("row_code", f"编号 {code}", (40, top + 120, right, top + 160)))
    if pages is not None:
        cells.append(node("row_pages", pages, (40, top + 170, right, top + 210)))
    frame = (0, top, 1080, top + height)
    return node("report_row", "", frame, *cells, extra, kind="android.widget.FrameLayout", clickable=True)


def list_page(*rows: str, footer: str = "") -> str:
    inside = list(rows)
    if footer:
        inside.append(node("list_footer", footer, (0, 2050, 1080, 2120)))
    container = node(
        "report_list", "", (0, 230, 1080, 2130), *inside, kind="androidx.recyclerview.widget.RecyclerView"
    )
    labels = node("quota_left", "今日剩余 14 次", (500, 80, 1000, 150)) + node(
        "account_label", "账号 138****0001", (500, 150, 1000, 220)
    )
    return node("", "", (0, 0, 1080, 2340), labels, container, kind="android.widget.FrameLayout")


def detail_page(button: str = "下载", *, title: str = "存储行业深度", code: str = "HB2026113000012") -> str:
    return node(
        "",
        "",
        (0, 0, 1080, 2340),
        node("quota_left", "今日剩余 14 次", (500, 80, 1000, 150)),
        node("detail_title", title, (40, 250, 1000, 430)),
        node("detail_institution", "国信证券", (40, 450, 440, 510)),
        node("detail_date", "2026-11-30", (460, 450, 780, 510)),
        node("detail_analysts", "分析师：张三、李四", (40, 530, 1000, 590)),
        node("detail_code", f"编号 {code}", (40, 610, 580, 670)),
        node("detail_pages", "共 12 页", (600, 610, 1000, 670)),
        node("detail_summary", "开通会员的用户数增长", (40, 700, 1000, 1700)),
        node("btn_download", button, (60, 2080, 1020, 2220), kind="android.widget.Button", clickable=True),
        kind="android.widget.FrameLayout",
    )
