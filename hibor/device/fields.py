"""Fields of a report, read from the nodes of a row or page by the profile's rules.

Rules of this file: pure; identity never rests on a raw title, because the same title differs between dumps
(fault F35); an id the app prints is told from one derived of institution, title and date; what is absent is
None.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime

import attrs

from hibor.device.anchors import same_id
from hibor.device.dates import parse_date
from hibor.device.profile_types import FieldRule, FieldRules, MergedRule, Source
from hibor.device.uitree import UiNode, UiTree


@attrs.frozen
class ReportFacts:
    """What a row or page says about a report; absent is None. `date` is ISO, absolute. `id_read` tells a
    report id the app printed from one derived of institution, title and date."""

    report_id: str | None
    id_read: bool
    title: str | None
    institution: str | None
    date: str | None
    pages: int | None
    stock_code: str | None
    stock_name: str | None
    industry: str | None
    rating: str | None
    report_type: str | None
    analysts: tuple[str, ...] | None
    summary: str | None


def normalise(text: str) -> str:
    """Letters and digits only, NFKC, case folded: what of a text is stable between dumps (fault F35)."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(letter for letter in folded if unicodedata.category(letter)[0] in "LN")


def derived_id(institution: str, title: str, date: str) -> str:
    """32 hex digits of sha256 over normalised institution, title and date (design 5, "App profile")."""
    words = "\n".join((normalise(institution), normalise(title), date))
    return hashlib.sha256(words.encode("utf-8")).hexdigest()[:32]


def source_text(node: UiNode, source: Source) -> str:
    text = node.text if source == "text" else node.desc if source == "desc" else node.label
    return text.strip()


def _places(rule: FieldRule) -> bool:
    """Whether a rule says where its node is, rather than only what it says."""
    return not (rule.id is None and rule.class_name is None and rule.nth is None)


def field_node(tree: UiTree, scope: UiNode | None, rule: FieldRule) -> UiNode | None:
    nodes = tree.nodes if scope is None else (scope, *tree.descendants(scope))
    found = [
        node
        for node in nodes
        if (rule.id is None or same_id(node, rule.id))
        and (_places(rule) or re.search(rule.pattern or "", source_text(node, rule.source)))
        and (rule.class_name is None or node.class_name == rule.class_name)
        and source_text(node, rule.source)
        and not tree.visible(node).empty
    ]
    if rule.nth is not None:
        return found[rule.nth] if rule.nth < len(found) else None
    return found[0] if found else None


def merged_node(tree: UiTree, scope: UiNode | None, merged: MergedRule) -> UiNode | None:
    if merged.id is None and scope is not None:
        return scope
    pattern = None if merged.id is not None else merged.pattern
    return field_node(tree, scope, FieldRule(merged.id, source=merged.source, pattern=pattern))


def read_fields(
    tree: UiTree, scope: UiNode | None, rules: FieldRules, merged: MergedRule | None
) -> dict[str, str]:
    """Field name → text, for what is there; `scope` None means the whole screen."""
    found: dict[str, str] = {}
    if merged is not None:
        node = merged_node(tree, scope, merged)
        match = re.search(merged.pattern, source_text(node, merged.source)) if node else None
        if match:
            found.update({name: value.strip() for name, value in match.groupdict().items() if value})
    for name, rule in rules.items():
        node = field_node(tree, scope, rule)
        if node is None:
            continue
        text = source_text(node, rule.source)
        if rule.pattern is None:
            found[name] = text
            continue
        match = re.search(rule.pattern, text)
        if match:
            groups = match.groupdict()
            found[name] = (groups.pop("value", None) or match.group(0)).strip()
            found.update({key: value.strip() for key, value in groups.items() if value})
    return found


def facts_of(fields: Mapping[str, str], now: datetime) -> ReportFacts:
    title, institution = fields.get("title"), fields.get("institution")
    day = parse_date(fields["date"], now) if "date" in fields else None
    date = day.isoformat() if day else None
    code = fields.get("code")
    report_id = code
    if code is None and title and institution and date:
        report_id = derived_id(institution, title, date)
    pages = re.search(r"\d+", fields.get("pages", ""))
    names = re.split(r"[、,，;；/\s]+", fields.get("analysts", ""))
    analysts = tuple(name for name in names if name) or None
    return ReportFacts(
        report_id,
        code is not None,
        title,
        institution,
        date,
        int(pages.group(0)) if pages else None,
        fields.get("stock_code"),
        fields.get("stock_name"),
        fields.get("industry"),
        fields.get("rating"),
        fields.get("report_type"),
        analysts,
        fields.get("summary"),
    )
