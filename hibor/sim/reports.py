"""The reports of the simulated phone: a catalogue from a seed, and one real PDF for each.

Rules: the same seed, base time and count give the same catalogue, and the same report gives the same bytes,
in every process and on every machine; so a PDF may be made on demand, thrown away and made again (design 5).
Page 1 carries title, institution, date and stock code as text, because that is what a collector may match a
file by. This is the only file of the simulator that imports pymupdf; it therefore also paints the
screenshots.
"""

from __future__ import annotations

import random
import re
import struct
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import attrs
import pymupdf as _pymupdf

from hibor.sim.cruel_pdf import bottomless_outline, endless_page, swelling_string

# The library is half typed: as `Any` its calls pass a strict check without a comment at each.
pymupdf: Any = _pymupdf

Color = tuple[float, float, float]
CRUEL: Mapping[str, Callable[[], bytes]] = {
    "spins": endless_page, "crashes": bottomless_outline, "swells": swelling_string,
}
"""PDFs that hurt their reader, whatever the report."""
VARIANTS = (
    "good", "html", "encrypted", "owner_only", "zero_pages", "damaged_xref", "truncated", "junk_header",
    "zip", "empty", "count_mismatch", "page_extra", "no_text", *CRUEL,
)

INSTITUTIONS = (
    "国信证券", "中信证券", "华泰证券", "国泰海通", "招商证券", "中金公司", "广发证券", "东吴证券",
    "兴业证券", "申万宏源", "长江证券", "天风证券", "浙商证券", "民生证券", "开源证券", "西部证券",
)
ANALYSTS = (
    "张三丰", "李思远", "王启明", "陈晓岚", "刘博文", "赵一鸣", "孙雨晴", "周子墨", "吴佳怡", "郑国栋",
)
STOCKS = (
    ("600519", "贵州茅台", "食品饮料"), ("300750", "宁德时代", "电力设备"),
    ("688981", "中芯国际", "半导体"), ("002594", "比亚迪", "汽车"), ("601318", "中国平安", "非银金融"),
    ("000858", "五粮液", "食品饮料"), ("600036", "招商银行", "银行"), ("688008", "澜起科技", "半导体"),
    ("603986", "兆易创新", "半导体"), ("300059", "东方财富", "非银金融"),
    ("000333", "美的集团", "家用电器"), ("601012", "隆基绿能", "电力设备"),
    ("002415", "海康威视", "计算机"), ("600276", "恒瑞医药", "医药生物"),
    ("601899", "紫金矿业", "有色金属"), ("688111", "金山办公", "计算机"),
    ("002371", "北方华创", "半导体"), ("600900", "长江电力", "公用事业"),
    ("300760", "迈瑞医疗", "医药生物"), ("603288", "海天味业", "食品饮料"),
)
TITLE_KINDS = {
    "个股": ("深度报告", "三季报点评", "首次覆盖", "跟踪报告", "事件点评", "调研纪要"),
    "行业": ("行业周报", "行业深度", "行业年度策略", "行业月报"),
    "宏观": ("宏观专题", "宏观周报", "策略周报", "固定收益周报", "金融工程专题", "宏观点评"),
}
# Two half sentences make a title; consecutive reports never share one, as two different real reports do not.
FIRST_HALVES = (
    "龙头地位稳固", "业绩超预期", "产能释放在即", "需求回暖", "回购彰显信心", "新品放量", "景气度回升",
    "国产替代加速", "拐点已现", "库存去化接近尾声", "出口韧性仍在", "财政发力", "风格切换", "曲线走陡",
    "格局优化", "海外拓展提速", "订单饱满", "成本压力缓解", "渠道改革见效", "技术迭代提速",
    "政策暖风频吹", "份额稳步提升", "现金流改善", "估值处于低位",
)
SECOND_HALVES = (
    "盈利能力持续提升", "毛利率环比改善", "成长空间打开", "静待花开", "配置价值凸显", "关注结构性机会",
    "全产业链梳理", "乘势而上", "价格企稳", "内需温和修复", "节奏与结构再审视", "稳健性检验",
    "三点信号值得重视", "迎来戴维斯双击", "第二曲线清晰", "长期逻辑不变", "短期扰动无碍大局", "剩者为王",
    "分红率有望提高", "全球布局再下一城", "从量变到质变", "供需紧平衡延续", "弹性可期",
)
RATINGS = ("买入", "增持", "推荐", "中性")
HOSTILE_TITLES = (
    "贵州茅台😀点评：📈业绩新高", "他说“买入”'还是\"卖出\"：一份报告",
    "$(touch /sdcard/owned)与`id`测试；rm -rf *",
    "标题中有\n换行符的跟踪报告", "长" * 290 + "标题到此为止", "\u202e倒序标记\u202c与\u200b零宽字符报告",
    "宏观专题：财政发力节奏与结构", "宏观专题：财政发力节奏与结构", "../../etc/报告 与 a/b\\c:d*?", "CON.",
)


@attrs.frozen
class Report:
    """One research report: what the list and the detail page show, and what its PDF is made from.

    `published` is aware. `hide_date` makes the app show no date at all (a hostile case of the scenarios).
    """

    report_id: str
    title: str
    institution: str
    published: datetime
    analysts: tuple[str, ...]
    pages: int
    kind: str
    stock_code: str
    stock_name: str
    industry: str
    rating: str
    summary: str
    seed: int
    hide_date: bool = False

    @property
    def date_text(self) -> str:
        """Day of publication as `YYYY-MM-DD` in the phone's zone."""
        return self.published.strftime("%Y-%m-%d")


def _subjects(seed: int) -> list[tuple[str, str, str, str, str]]:
    """Every (kind, title, stock code, stock name, industry) a catalogue can hold, in the seed's order.

    Each title stands once, so two reports of one catalogue are never likely duplicates by chance.
    """
    found = [
        ("个股", f"{name}{word}", code, name, industry)
        for word in TITLE_KINDS["个股"] for code, name, industry in STOCKS
    ]
    industries = sorted({industry for _, _, industry in STOCKS})
    found += [
        ("行业", f"{industry}{word}", "", "", industry)
        for word in TITLE_KINDS["行业"] for industry in industries
    ]
    found += [("宏观", word, "", "", "宏观策略") for word in TITLE_KINDS["宏观"]]
    dice = random.Random(f"subjects:{seed}")
    dice.shuffle(found)
    first, second = list(FIRST_HALVES), list(SECOND_HALVES)
    dice.shuffle(first)
    dice.shuffle(second)
    return [
        (kind, f"{head}：{first[place % len(first)]}，{second[place % len(second)]}", code, name, industry)
        for place, (kind, head, code, name, industry) in enumerate(found)
    ]


def make_report(seed: int, number: int, published: datetime, hostile_title: str | None = None) -> Report:
    """One report, wholly determined by its arguments; `number` makes the id unique within its day."""
    dice = random.Random(f"{seed}:{number}")
    subjects = _subjects(seed)
    kind, title, code, name, industry = subjects[number % len(subjects)]
    draw = dice.random()
    pages = dice.randint(3, 20) if draw < 0.85 else dice.choice((1, 2, 28, 41, 60))
    return Report(
        report_id=f"HB{published:%Y%m%d}{number:05d}",
        title=title if hostile_title is None else hostile_title,
        institution=dice.choice(INSTITUTIONS),
        published=published,
        analysts=tuple(dice.sample(ANALYSTS, dice.choice((1, 1, 2, 2, 3)))),
        pages=pages,
        kind=kind,
        stock_code=code,
        stock_name=name,
        industry=industry,
        rating=dice.choice(RATINGS) if kind == "个股" and dice.random() < 0.8 else "",
        summary=f"{title}。我们认为基本面持续改善，维持此前判断；风险提示：需求不及预期。",
        seed=dice.getrandbits(32),
    )


def make_catalogue(seed: int, newest: datetime, count: int, hostile: bool = False) -> tuple[Report, ...]:
    """`count` reports, newest first; the first is a few minutes older than `newest` (aware, phone's zone).

    With `hostile` the first ten have the titles of `HOSTILE_TITLES`, and the third shows no date.
    """
    dice = random.Random(f"catalogue:{seed}")
    moment = newest.replace(second=0, microsecond=0)
    made: list[Report] = []
    for rank in range(count):
        moment -= timedelta(minutes=dice.randint(4, 30) if rank < 12 else dice.randint(60, 240))
        title = HOSTILE_TITLES[rank] if hostile and rank < len(HOSTILE_TITLES) else None
        report = make_report(seed, count - rank, moment, title)
        made.append(attrs.evolve(report, hide_date=hostile and rank == 2))
    return tuple(made)


# The library keeps global state and is not made for threads; the phone has several.
_LIBRARY_LOCK = threading.RLock()


def make_pdf(report: Report, variant: str = "good") -> bytes:
    """The bytes the app downloads for `report`.

    Every variant but `good` is one way in which a served file can be bad (design 5, scenario list). The two
    encrypted ones are not byte-reproducible (the library salts them); everything else is.
    """
    if variant not in VARIANTS:
        raise ValueError(f"unknown PDF variant: {variant}")
    if variant == "html":
        return _html_page()
    if variant == "zip":
        return b"PK\x03\x04\x14\x00\x00\x00\x00\x00" + random.Random(report.seed).randbytes(4000)
    if variant == "empty":
        return b""
    if variant in CRUEL:
        return CRUEL[variant]()
    with _LIBRARY_LOCK:
        return _made(report, variant)


def _made(report: Report, variant: str) -> bytes:
    document = _draw_document(report, with_text=variant != "no_text")
    if variant == "page_extra":
        document.new_page(width=595, height=842)
    if variant == "encrypted":
        return _saved(document, encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="hibor", owner_pw="broker")
    if variant == "owner_only":
        return _saved(document, encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="", owner_pw="broker")
    return _damaged(_saved(document), variant, report)


def _saved(document: Any, **options: Any) -> bytes:
    data: bytes = document.tobytes(deflate=True, no_new_id=True, garbage=1, **options)
    document.close()
    return data


def _damaged(data: bytes, variant: str, report: Report) -> bytes:
    """Bytes of a good PDF, changed as `variant` says; the change is deterministic."""
    if variant == "truncated":
        return data[: len(data) * 3 // 5]
    if variant == "junk_header":
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n" + data
    if variant == "damaged_xref":
        return data[: data.rfind(b"startxref")] + b"startxref\n999999999\n%%EOF\n"
    if variant in ("zero_pages", "count_mismatch"):
        old = f"/Count {report.pages}"
        # The same length, so that every offset of the cross-reference table stays true.
        wrong = "0" if variant == "zero_pages" else str(10 ** (len(str(report.pages)) - 1) + report.pages % 7)
        if wrong == str(report.pages):
            wrong = str(report.pages - 1 or 2)
        return data.replace(old.encode(), f"/Count {wrong}".ljust(len(old)).encode(), 1)
    return data


def _html_page() -> bytes:
    return (
        "<!DOCTYPE html><html><head><meta charset=\"utf-8\"><title>502 Bad Gateway</title></head>"
        "<body><h1>服务器繁忙，请稍后再试</h1></body></html>\n"
    ).encode()


def _draw_document(report: Report, with_text: bool = True) -> Any:
    """A document of `report.pages` pages: title page, then tables, charts and running text by turns.

    All pages share one resource dictionary and each page is one drawing: adding the CJK font per page would
    take most of the time, and the phone makes PDFs while somebody waits.
    """
    dice = random.Random(f"pdf:{report.seed}")
    document = pymupdf.open()
    first = document.new_page(width=595, height=842)
    first.insert_font(fontname="china-s")
    kind, resources = document.xref_get_key(first.xref, "Resources")
    shared = document.get_new_xref()
    document.update_object(
        shared, document.xref_object(int(resources.split()[0])) if kind == "xref" else resources
    )
    for number in range(report.pages):
        page = first if number == 0 else document.new_page(width=595, height=842)
        document.xref_set_key(page.xref, "Resources", f"{shared} 0 R")
        shape = page.new_shape()
        if with_text:
            _write_page_text(shape, report, number, dice)
        if number % 3 == 0:
            _draw_chart(shape, dice, with_text)
        elif number % 3 == 1:
            _draw_table(shape, dice, with_text)
        shape.commit()
    side = dice.randint(180, 420)
    noise = pymupdf.Pixmap(pymupdf.csRGB, side, side, dice.randbytes(side * side * 3), False)
    document[0].insert_image(pymupdf.Rect(420, 690, 540, 810), pixmap=noise)
    stamp = report.published.strftime("D:%Y%m%d%H%M%S+08'00'")
    document.set_metadata(
        {
            "title": _printable(report.title), "author": "、".join(report.analysts), "subject": report.kind,
            "keywords": report.industry, "creator": report.institution, "producer": "Acrobat Distiller 21.0",
            "creationDate": stamp, "modDate": stamp,
        }
    )
    return document


def _printable(title: str) -> str:
    """The title without control and direction characters, as a typesetter would print it."""
    return "".join(char for char in title if char.isprintable() and ord(char) < 0x10000)


def _write_page_text(shape: Any, report: Report, number: int, dice: random.Random) -> None:
    """Heading on page 1, running header and body text on every page."""
    shape.insert_text((50, 40), f"{report.institution} · {report.kind}研究", fontname="china-s", fontsize=9)
    top = 70.0
    if number == 0:
        title = _printable(report.title)
        shape.insert_textbox(
            pymupdf.Rect(50, 55, 545, 140), title, fontname="china-s", fontsize=18 if len(title) < 80 else 9
        )
        facts = [f"{report.institution}　{report.date_text}", f"分析师：{'、'.join(report.analysts)}"]
        if report.stock_code:
            facts.append(f"{report.stock_name}（{report.stock_code}）　评级：{report.rating or '未评级'}")
        facts.append(f"行业：{report.industry}　编号：{report.report_id}")
        for row, fact in enumerate(facts):
            shape.insert_text((50, 160 + row * 18), fact, fontname="china-s", fontsize=11)
        top = 240.0
    body = "".join(
        dice.choice(
            (
                "公司营业收入同比增长{n}%，归母净利润稳步提升。", "行业供需格局持续改善，价格中枢上移{n}%。",
                "我们预计未来三年复合增速约为{n}%，对应估值具备吸引力。", "渠道库存回落至{n}天，动销良好。",
                "风险提示：原材料价格波动、政策不及预期、汇率变动。",
            )
        ).format(n=dice.randint(3, 48))
        for _ in range(8)
    )
    shape.insert_textbox(pymupdf.Rect(50, top, 545, top + 160), body, fontname="china-s", fontsize=10)
    shape.insert_text((280, 825), f"{number + 1} / {report.pages}", fontname="china-s", fontsize=8)


def _draw_chart(shape: Any, dice: random.Random, with_text: bool) -> None:
    """A bar chart with a line over it, as vector drawing."""
    base, left = 640.0, 70.0
    heights = [dice.uniform(20, 180) for _ in range(14)]
    for place, height in enumerate(heights):
        x = left + place * 32
        shape.draw_rect(pymupdf.Rect(x, base - height, x + 18, base))
    shape.finish(fill=(0.18, 0.38, 0.68), color=(0.1, 0.2, 0.4), width=0.4)
    shape.draw_polyline([(left + i * 32 + 9, base - h * 0.8 - 15) for i, h in enumerate(heights)])
    shape.finish(color=(0.85, 0.3, 0.1), width=1.2)
    shape.draw_line((left - 10, base), (left + 460, base))
    shape.finish(color=(0, 0, 0), width=0.8)
    if with_text:
        shape.insert_text((70, 665), "图：营业收入（亿元）与同比增速", fontname="china-s", fontsize=9)


def _draw_table(shape: Any, dice: random.Random, with_text: bool) -> None:
    """A ruled table of forecast figures."""
    top, left, height, width = 420.0, 60.0, 22.0, 94.0
    for row in range(10):
        shape.draw_line((left, top + row * height), (left + 5 * width, top + row * height))
    for column in range(6):
        shape.draw_line((left + column * width, top), (left + column * width, top + 9 * height))
    shape.finish(color=(0.3, 0.3, 0.3), width=0.5)
    if not with_text:
        return
    names = ("营业收入", "同比(%)", "归母净利", "同比(%)", "每股收益", "市盈率", "市净率", "净资产收益率")
    for column, head in enumerate(("指标", "2025A", "2026E", "2027E", "2028E")):
        shape.insert_text((left + column * width + 6, top + 15), head, fontname="china-s", fontsize=9)
    for row, name in enumerate(names):
        y = top + (row + 1) * height + 15
        shape.insert_text((left + 6, y), name, fontname="china-s", fontsize=9)
        for column in range(1, 5):
            figure = f"{dice.uniform(1, 900):.2f}"
            shape.insert_text((left + column * width + 6, y), figure, fontname="china-s", fontsize=9)


@attrs.frozen
class Stroke:
    """One thing to paint: a filled rectangle (pixels) with an optional text of `size_px` on it."""

    bounds: tuple[int, int, int, int]
    fill: Color | None
    text: str = ""
    size_px: int = 36
    color: Color = (0.1, 0.1, 0.1)


def paint_png(width: int, height: int, strokes: Sequence[Stroke]) -> bytes:
    """A PNG of `width` × `height` pixels with `strokes` painted in order on white."""
    with _LIBRARY_LOCK:
        document = pymupdf.open()
        page = document.new_page(width=width, height=height)
        shape = page.new_shape()
        for stroke in strokes:
            left, top, right, bottom = stroke.bounds
            if stroke.fill is not None and right > left and bottom > top:
                shape.draw_rect(pymupdf.Rect(left, top, right, bottom))
                shape.finish(color=None, fill=stroke.fill)
        shape.commit()
        shape = page.new_shape()
        for stroke in strokes:
            _paint_text(shape, stroke)
        shape.commit()
        pixels = bytes(page.get_pixmap(alpha=False).samples)
        document.close()
    return _png(width, height, pixels)


def _png(width: int, height: int, pixels: bytes) -> bytes:
    """RGB pixels as a PNG; twice as fast as the library's own writer, because it packs less tightly."""
    row = width * 3
    lines = b"".join(b"\0" + pixels[start : start + row] for start in range(0, row * height, row))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 1)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def _paint_text(shape: Any, stroke: Stroke) -> None:
    """The stroke's text, cut where its box ends; Latin letters in their own font, which is narrower."""
    left, top, right, bottom = stroke.bounds
    x, y = left + 8.0, min(bottom, top + (bottom - top + stroke.size_px) // 2)
    for run in re.findall(r"[\x20-\x7e]+|[^\x20-\x7e]+", _printable(stroke.text)):
        latin = run[0] <= "~"
        room = int((right - x) / (stroke.size_px * (0.5 if latin else 1.0)))
        shown = run[: max(0, room)]
        if not shown.strip():
            x += stroke.size_px * 0.28 * len(shown)
            continue
        font = "helv" if latin else "china-s"
        shape.insert_text((x, y), shown, fontname=font, fontsize=stroke.size_px, color=stroke.color)
        x += pymupdf.get_text_length(shown, "helv", stroke.size_px) if latin else stroke.size_px * len(shown)
