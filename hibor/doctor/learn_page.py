"""Drafting detail page, trigger, quota and access sections of a profile from what was seen.

Rules of this file: pure; the report whose row was opened is the key: a field of the page is a node that says
what the row said. Nothing is invented for the tap that pays: a confirm question that was not seen is not in
the draft, and the collector then stops at it, which costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from hibor.device.dates import parse_date
from hibor.device.fields import ReportFacts, normalise
from hibor.device.profile_types import (
    AccessMarker,
    Anchor,
    DetailSection,
    FieldRule,
    FieldRules,
    MergedRule,
    QuotaSection,
    Step,
    TriggerSection,
)
from hibor.device.uitree import UiNode, UiTree
from hibor.doctor.learn_list import CODE_PATTERN, PAGES_PATTERN, is_date, label_anchor, source_of

IDLE = re.compile(r"^(?:立即|免费)?下载(?:报告|原文|PDF|pdf|研报)?$")
BUSY = ("^下载中", "^正在下载", r"^\d+\s*%")
DONE = ("^打开", "^查看", "^阅读", "^已下载")
AGREE = re.compile(r"^(?:确定|确认|继续|下载|立即下载|是|OK)$", re.IGNORECASE)
CANCEL = re.compile(r"^(?:取消|否|再想想|暂不)$")
QUESTION = re.compile(r"下载|额度|消耗|扣除|\d+\s*次")
SHARE_WORD = re.compile(r"^(?:分享|导出|另存为?|更多)$")
SAVE_WORD = re.compile(r"保存到|存储到|保存至|另存|下载到本地|保存文件")
SUCCESS: Final = ("^下载完成$", "^下载成功$")
LABEL = r"剩余\D{0,8}(?P<value>\d+)\s*(?:次|篇|份|个)"
ACCOUNT = r"账[号户][:：]?\s*(?P<value>\S+)"
ACCESS: Final = (
    AccessMarker("login", texts=("^登录$", "请(?:先|重新)?登录")),
    AccessMarker("captcha", texts=("请完成(?:安全)?验证", "验证码")),
    AccessMarker("kicked", texts=("在其[他它]设备登录",)),
    AccessMarker("member", texts=("开通会员", "会员专享")),
    AccessMarker("quota", texts=("(?:额度|次数)已?(?:用完|用尽|不足)",)),
    AccessMarker("risk", texts=("操作(?:过于)?频繁", "风控")),
)


@attrs.define
class Watched:
    """What was seen while a person downloaded one report by hand."""

    question: UiTree | None = None
    button_labels: list[str] = attrs.field(factory=list)
    share: UiNode | None = None
    save: UiNode | None = None

    @property
    def done_label(self) -> str | None:
        """What the button said at the end, when it was neither idle nor busy."""
        labels = [one for one in self.button_labels if not IDLE.match(one) and not is_busy(one)]
        return labels[-1] if labels else None


def is_busy(label: str) -> bool:
    """Whether a button's label tells of a download under way."""
    return any(re.search(pattern, label) for pattern in BUSY)


def find_button(tree: UiTree) -> UiNode | None:
    """The one clickable node that offers the download, None when there is none or several."""
    found = [
        n for n in tree.nodes if n.clickable and IDLE.match(n.label.strip()) and not tree.visible(n).empty
    ]
    return found[0] if len(found) == 1 else None


def already_there(tree: UiTree) -> bool:
    """Whether the page says that this report's file is in the app already."""
    return any(n.clickable and re.search("|".join(DONE), n.label.strip()) for n in tree.nodes)


def find_question(tree: UiTree) -> tuple[UiNode, UiNode, UiNode] | None:
    """(message, yes, no) of a question about the download, None when the screen shows none."""
    shown = [n for n in tree.nodes if n.label.strip() and not tree.visible(n).empty]
    agree = [n for n in shown if n.clickable and AGREE.match(n.label.strip())]
    cancel = [n for n in shown if n.clickable and CANCEL.match(n.label.strip())]
    message = [n for n in shown if not n.clickable and QUESTION.search(n.label) and len(n.label) <= 120]
    if len(agree) == 1 and len(cancel) == 1 and len(message) == 1:
        return message[0], agree[0], cancel[0]
    return None


def note_screen(watched: Watched, tree: UiTree, button: UiNode) -> None:
    """Take what one dump shows of the download's course."""
    if watched.question is None and find_question(tree) is not None:
        watched.question = tree
    for node in tree.nodes:
        same = node.class_name == button.class_name and node.resource_id == button.resource_id
        if same and node.bounds == button.bounds and node.label.strip():
            label = node.label.strip()
            if not watched.button_labels or watched.button_labels[-1] != label:
                watched.button_labels.append(label)
        if node.clickable and SHARE_WORD.match(node.label.strip()):
            watched.share = node
        if node.clickable and SAVE_WORD.search(node.label):
            watched.save = node


# -- detail page --------------------------------------------------------------------------------------------


def draft_detail(
    tree: UiTree, row: ReportFacts, merged: MergedRule | None, button: Anchor, now: datetime
) -> DetailSection | None:
    """The section for the page of the report `row` tells of; None where its title is not on the page."""
    title = _title_node(tree, row)
    header = _merged_header(tree, row, merged)
    rules: dict[str, FieldRule] = {}
    if header is None:
        if title is None:
            return None
        rules["title"] = rule_for(tree, title)
        rules.update(_row_fields(tree, row, now))
    rules.update(_page_fields(tree))
    anchors = [button, *_headings(tree)]
    if header is None and title is not None and title.resource_id:
        anchors.insert(0, Anchor(id=title.short_id))
    return DetailSection(anchors=tuple(anchors), fields=FieldRules(**rules), merged=header)


def _title_node(tree: UiTree, row: ReportFacts) -> UiNode | None:
    wanted = normalise(row.title or "")
    return next((n for n in tree.nodes if wanted and normalise(n.label) == wanted), None)


def _merged_header(tree: UiTree, row: ReportFacts, merged: MergedRule | None) -> MergedRule | None:
    """The list's own merged form, when the page's heading has it too."""
    if merged is None:
        return None
    for node in tree.nodes:
        match = re.search(merged.pattern, node.label.strip())
        if match and normalise(match.group("title")) == normalise(row.title or ""):
            return MergedRule(merged.pattern, source=source_of(node))
    return None


def rule_for(tree: UiTree, node: UiNode, **more: Any) -> FieldRule:
    """A rule that chooses this node: its id, else its class and place."""
    source = source_of(node)
    if node.resource_id:
        return FieldRule(id=node.short_id, **more)
    peers = [
        n for n in tree.nodes
        if n.class_name == node.class_name and not tree.visible(n).empty
        and (n.text if source == "text" else n.desc).strip()
    ]  # fmt: skip
    return FieldRule(class_name=node.class_name, nth=peers.index(node), source=source, **more)


def _row_fields(tree: UiTree, row: ReportFacts, now: datetime) -> dict[str, FieldRule]:
    """Institution, date and code, where the page says what the row said."""
    found: dict[str, FieldRule] = {}
    for node in tree.nodes:
        label = node.label.strip()
        if not label:
            continue
        if "institution" not in found and normalise(label) == normalise(row.institution or ""):
            found["institution"] = rule_for(tree, node)
        elif "date" not in found and is_date(label, now):
            day = parse_date(label, now)
            if day is not None and day.isoformat() == row.date:
                found["date"] = rule_for(tree, node, optional=True)
        elif "code" not in found and row.id_read and row.report_id and row.report_id in label:
            found["code"] = rule_for(tree, node, pattern=CODE_PATTERN)
    return found


def _page_fields(tree: UiTree) -> dict[str, FieldRule]:
    """What only pages show, chosen by how it begins."""
    looks = {
        "pages": rf"^共?\s*{PAGES_PATTERN}$",
        "analysts": r"^(?:分析师|作者|研究员)[:：]\s*(?P<value>.+)$",
        "summary": r"(?s)^(?:摘要|核心观点)[:：]\s*(?P<value>.+)$",
    }
    return {
        name: FieldRule(pattern=pattern, optional=True)
        for name, pattern in looks.items()
        if any(re.search(pattern, node.label.strip()) for node in tree.nodes)
    }


def _headings(tree: UiTree) -> list[Anchor]:
    """A heading such as 研报详情, which only this page has."""
    for node in tree.nodes:
        label = node.label.strip()
        if re.fullmatch(r"\S{0,4}详情", label) and not node.clickable:
            return [Anchor(text=label) if node.text.strip() else Anchor(desc=label)]
    return []


# -- trigger, quota, access ---------------------------------------------------------------------------------


def button_anchor(button: UiNode, watched: Watched) -> Anchor:
    """The download button in all its states."""
    if button.resource_id:
        return Anchor(id=button.short_id)
    idle = re.escape(button.label.strip())
    done = [re.escape(watched.done_label)] if watched.done_label else [one.lstrip("^") for one in DONE]
    pattern = rf"^(?:{idle}|下载中.*|正在下载.*|{'|'.join(done)})$"
    return _saying(button, pattern)


def _saying(node: UiNode, pattern: str) -> Anchor:
    if source_of(node) == "text":
        return Anchor(text_matches=pattern, class_name=node.class_name)
    return Anchor(desc_matches=pattern, class_name=node.class_name)


def control(node: UiNode) -> Anchor:
    """A control by its id and words."""
    plain = label_anchor(node)
    if node.resource_id:
        return attrs.evolve(plain, id=node.short_id, clickable=None)
    return attrs.evolve(plain, class_name=node.class_name, clickable=None)


def draft_trigger(button: UiNode, watched: Watched) -> TriggerSection:
    """The steps as they were seen; without a question, the button itself is the tap that pays."""
    label = button.label.strip()
    done = (f"^{re.escape(watched.done_label)}$",) if watched.done_label else DONE
    question = find_question(watched.question) if watched.question is not None else None
    first = Step("download", control(button), paying=question is None)
    common: dict[str, Any] = {
        "button": button_anchor(button, watched), "idle": (f"^{re.escape(label)}$",), "busy": BUSY,
        "done": done, "success_texts": SUCCESS,
    }  # fmt: skip
    if question is None:
        return TriggerSection(steps=(first,), **common)
    message, agree, cancel = question
    asked = re.sub(r"\d+", lambda _: r"\d+", re.escape(message.label.strip()))
    message_anchor = Anchor(text_matches=asked) if message.text.strip() else Anchor(desc_matches=asked)
    confirm = Step("confirm", control(agree), requires=(message_anchor,), paying=True)
    return TriggerSection(
        steps=(first, confirm), confirm_dialog=message_anchor, cancel=control(cancel), **common
    )


def draft_quota(trees: Sequence[UiTree], watched: Watched) -> QuotaSection:
    """Where the remaining number and the account are shown."""
    return QuotaSection(
        charged_on="download" if watched.question is None else "confirm",
        label=_labelled(trees, LABEL),
        account=_labelled(trees, ACCOUNT),
    )


def _labelled(trees: Sequence[UiTree], pattern: str) -> FieldRule | None:
    for tree in trees:
        found = [n for n in tree.nodes if re.search(pattern, n.label) and len(n.label) <= 40]
        if len(found) == 1:
            return FieldRule(id=found[0].short_id or None, pattern=pattern)
    return None


def draft_access(labels: Iterable[str]) -> tuple[AccessMarker, ...]:
    """The usual walls, without texts that stand on an ordinary page of this app outside report text."""
    ordinary = list(labels)
    kept = []
    for marker in ACCESS:
        texts = tuple(p for p in marker.texts if not any(re.search(p, label) for label in ordinary))
        if texts:
            kept.append(attrs.evolve(marker, texts=texts))
    return tuple(kept)


def draft_export(watched: Watched, button: UiNode) -> tuple[Step, ...]:
    """分享 → 保存到手机, where both were seen."""
    if watched.share is None or watched.save is None or watched.done_label is None:
        return ()
    ready = _saying(button, f"^{re.escape(watched.done_label)}$")
    if button.resource_id:
        ready = attrs.evolve(ready, id=button.short_id, class_name=None)
    return (
        Step("share", control(watched.share), requires=(ready,)), Step("save", control(watched.save)),
    )  # fmt: skip
