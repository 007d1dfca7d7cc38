"""Drafting the list section of a profile from one dump of the list.

Rules of this file: pure; a row is what repeats; fields are recognised by how their values look over all rows,
never by an app's own names; a screen on which no list is recognised gives None, never half a section.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final

import attrs

from hibor.device.anchors import find_all
from hibor.device.dates import parse_date
from hibor.device.profile_types import (
    Anchor,
    FieldRule,
    FieldRules,
    ListSection,
    MergedRule,
    RowKinds,
    RowRule,
    Source,
)
from hibor.device.uitree import UiNode, UiTree

END_TEXTS: Final = ("没有更多", "已经到底", "到底了", "没有了", "已加载全部")
NOT_END_TEXTS: Final = ("正在加载", "加载中", "加载失败", "重试")
ADVERT, PINNED, NOTICE = r"^(?:广告|推广)", r"^\[?置顶", r"^(?:公告|通知)"
SEPARATORS: Final = ("-", "_", "|", "—", "·")
LEAST_ROWS: Final = 2
SHARE: Final = 0.6
_HOUSE = re.compile(r"证券|期货|中金|海通|申万|国泰|研究|资本|基金|银行|国际|公司")
_DATE = re.compile(
    r"20\d\d\D\d{1,2}\D\d{1,2}|今天|昨天|前天|前$|^\d{1,2}[-/.月]\d{1,2}|^\d{6}$|^\d{1,2}:\d\d$"
)
_RATING = re.compile(r"^(?:强烈推荐|推荐|买入|增持|中性|减持|卖出|持有|优于大市|跑赢行业)$")
CODE_PATTERN: Final = r"(?P<value>[A-Z]{1,4}\d{6,})"
PAGES_PATTERN: Final = r"(?P<value>\d+)\s*页"
STOCK_PATTERN: Final = r"(?P<value>\d{6})\s+(?P<stock_name>.+)"


def merged_pattern(separator: str) -> str:
    """券商-个股-代码-标题-YYMMDD with this separator; the stock may be absent."""
    mark = re.escape(separator)
    return (
        rf"(?s)^(?:\[?置顶\]?\s*)?(?P<institution>[^{mark}\[\]]+){mark}"
        rf"(?:(?P<stock_name>[^{mark}]+){mark}(?P<stock_code>\d{{6}}){mark})?"
        rf"(?P<title>.+){mark}(?P<date>20\d{{6}}|\d{{6}})$"
    )


def draft_list(tree: UiTree, now: datetime) -> ListSection | None:
    """The section for the list on this screen, None when none is recognised."""
    drafts = [
        draft
        for container in tree.nodes
        if (container.scrollable or "RecyclerView" in container.class_name)
        and (draft := _by_ids(tree, container, now) or _by_merged(tree, container)) is not None
    ]
    return drafts[0] if len(drafts) == 1 else None


def node_anchor(tree: UiTree, node: UiNode) -> Anchor | None:
    """An anchor that fits this node and no other: its id, else its class; None where neither is its own."""
    for anchor in (
        Anchor(id=node.short_id) if node.resource_id else None,
        Anchor(class_name=node.class_name),
    ):
        if anchor is not None and find_all(tree, anchor) == (node,):
            return anchor
    return None


def tab_anchors(tree: UiTree, container: UiNode) -> tuple[Anchor, ...]:
    """Up to two short, clickable, lasting labels outside the list: what tells this page from others with a
    list."""
    inside = {node.order for node in (container, *tree.descendants(container))}
    found = []
    for node in tree.nodes:
        label = node.label.strip()
        if (
            node.order in inside
            or not node.clickable
            or not 1 < len(label) <= 4
            or re.search(r"[\d\W]", label)
        ):
            continue
        anchor = label_anchor(node)
        if find_all(tree, anchor) == (node,):
            found.append(anchor)
    return tuple(found[:2])


def label_anchor(node: UiNode) -> Anchor:
    """An anchor by what the node says, and that it can be tapped."""
    text = node.label.strip()
    if node.text.strip():
        return Anchor(text=text, clickable=node.clickable)
    return Anchor(desc=text, clickable=node.clickable)


def source_of(node: UiNode) -> Source:
    """Where the node keeps its words."""
    return "text" if node.text.strip() else "desc"


# -- rows with ids --------------------------------------------------------------------------------------


def _by_ids(tree: UiTree, container: UiNode, now: datetime) -> ListSection | None:
    children = list(tree.children(container))
    counts = Counter(child.short_id for child in children if child.resource_id and _texts(tree, child) >= 2)
    if not counts or counts.most_common(1)[0][1] < LEAST_ROWS:
        return None
    row_id = counts.most_common(1)[0][0]
    anchor = node_anchor(tree, container)
    rows = [child for child in children if child.short_id == row_id]
    fields = _fields(tree, rows, now)
    if anchor is None or fields is None:
        return None
    others = {child.short_id for child in children if child.resource_id and child.short_id != row_id}
    adverts = {
        child.short_id for child in children
        if child.short_id in others
        and any(re.search(ADVERT, n.label) for n in (child, *tree.descendants(child)))
    }  # fmt: skip
    footers = {child.short_id for child in children if not tree.descendants(child)}
    return ListSection(
        anchors=(anchor, *tab_anchors(tree, container)),
        container=anchor,
        row=RowRule(id=row_id),
        fields=fields,
        kinds=RowKinds(
            advert=tuple(Anchor(id=one) for one in sorted(adverts)) or (Anchor(text_matches=ADVERT),),
            pinned=(Anchor(text_matches=PINNED),),
            announcement=tuple(Anchor(id=one) for one in sorted(others - adverts - footers)),
        ),
        end_texts=END_TEXTS,
        not_end_texts=NOT_END_TEXTS,
    )


def _texts(tree: UiTree, node: UiNode) -> int:
    return sum(1 for one in tree.descendants(node) if one.label.strip())


def _fields(tree: UiTree, rows: Sequence[UiNode], now: datetime) -> FieldRules | None:
    """Rules by id for what the rows' texts look like; None without title and institution."""
    values: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for node in tree.descendants(row):
            if node.resource_id and node.label.strip():
                values[node.short_id].append(node.label.strip())
    rules: dict[str, FieldRule] = {}
    free = dict(values)
    for name, fits, pattern in _looks(now):
        chosen = next((one for one, texts in free.items() if _share(texts, fits) >= SHARE), None)
        if chosen is not None:
            optional = name != "institution"
            rules[name] = FieldRule(id=chosen, pattern=pattern, optional=optional and name != "code")
            del free[chosen]
    longest = max(free, key=lambda one: sum(map(len, free[one])) / len(free[one]), default=None)
    if longest is None or "institution" not in rules:
        return None
    rules["title"] = FieldRule(id=longest)
    return FieldRules(**rules)


def _looks(now: datetime) -> Iterator[tuple[str, Callable[[str], bool], str | None]]:
    yield "code", lambda text: re.search(CODE_PATTERN, text) is not None and len(text) < 40, CODE_PATTERN
    yield "pages", lambda text: re.fullmatch(r"共?\s*\d+\s*页", text) is not None, PAGES_PATTERN
    yield "stock_code", lambda text: re.fullmatch(r"\d{6}\s+\S.{0,12}", text) is not None, STOCK_PATTERN
    yield "date", lambda text: is_date(text, now), None
    yield "rating", lambda text: _RATING.match(text) is not None, None
    yield "institution", lambda text: len(text) <= 14 and _HOUSE.search(text) is not None, None


def is_date(text: str, now: datetime) -> bool:
    """Whether a short text is a date as apps write them."""
    return len(text) <= 20 and _DATE.search(text) is not None and parse_date(text, now) is not None


def _share(texts: Sequence[str], fits: Callable[[str], bool]) -> float:
    return sum(map(fits, texts)) / len(texts)


# -- rows of one node ---------------------------------------------------------------------------------------


def _by_merged(tree: UiTree, container: UiNode) -> ListSection | None:
    nodes = [node for node in tree.descendants(container) if node.label.strip()]
    best: tuple[str, list[UiNode]] = ("", [])
    for separator in SEPARATORS:
        fitting = [node for node in nodes if re.search(merged_pattern(separator), node.label.strip())]
        best = max(best, (separator, fitting), key=lambda pair: len(pair[1]))
    separator, rows = best
    anchor = node_anchor(tree, container)
    if len(rows) < LEAST_ROWS or anchor is None:
        return None
    class_name = Counter(row.class_name for row in rows).most_common(1)[0][0]
    source = source_of(rows[0])
    row = attrs.evolve(
        _saying(source, re.escape(separator)), class_name=class_name, clickable=rows[0].clickable or None
    )
    return ListSection(
        anchors=(anchor, *tab_anchors(tree, container)),
        container=anchor,
        row=RowRule(anchor=row),
        merged=MergedRule(merged_pattern(separator), source=source),
        kinds=RowKinds(
            advert=(_saying(source, ADVERT),),
            pinned=(_saying(source, PINNED),),
            announcement=(_saying(source, NOTICE),),
        ),
        end_texts=END_TEXTS,
        not_end_texts=NOT_END_TEXTS,
    )


def _saying(source: Source, pattern: str) -> Anchor:
    return Anchor(text_matches=pattern) if source == "text" else Anchor(desc_matches=pattern)
