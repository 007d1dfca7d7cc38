"""What a screen says: pure functions of a UI tree and a profile.

Rules of this file: nothing is tapped and nothing waits; unreadable is told apart from empty (a container
without rows, a web view, a wall are different answers); a row that is partly cut off is flagged, never
completed by guessing; identity never rests on a raw title, because the same title differs between dumps
(fault F35); access markers are looked for outside report text only, so that a report about 会员 is no wall.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal

import attrs

from hibor.device.anchors import find_all, find_one, nearest, present, same_id
from hibor.device.errors import DeviceError
from hibor.device.fields import (
    ReportFacts as ReportFacts,
)
from hibor.device.fields import (
    derived_id as derived_id,
)
from hibor.device.fields import (
    facts_of,
    field_node,
    merged_node,
    read_fields,
)
from hibor.device.fields import (
    normalise as normalise,
)
from hibor.device.profile_types import (
    AccessKind,
    Anchor,
    Dialog,
    FieldRule,
    FieldRules,
    Profile,
    RowRule,
)
from hibor.device.uitree import Rect, UiNode, UiTree

RowKind = Literal["report", "pinned", "advert", "announcement"]
ButtonState = Literal["idle", "busy", "done", "unknown"]

_EDGE_PX = 2
_ROW_TEXTS = 3
"""Texts that make a block of the list a row; a footer and a notice have fewer."""
_LOWER_FIELDS = ("date", "pages")
"""Fields that may be absent on a whole row, but on a clipped one may just be out of sight."""


@attrs.frozen
class ListRow:
    """One row. `incomplete`: a field that every row must have is missing; `clipped`: it touches the list's
    edge.
    """

    kind: RowKind
    facts: ReportFacts
    node: UiNode
    visible: Rect
    clipped: bool
    incomplete: bool

    @property
    def report_id(self) -> str | None:
        """The report's id, None where it could not be read."""
        return self.facts.report_id

    @property
    def key(self) -> tuple[str, ...]:
        """Identity of the row for overlap between two screens: kind, id or normalised words."""
        words = (self.facts.title or "", self.facts.institution or "", self.facts.date or "")
        return (self.kind, self.facts.report_id or "|".join(normalise(w) for w in words))


@attrs.frozen
class ListScreen:
    """One screen of the list. `end` is True (the end is proven), False (loading or retry: not an end) or None
    (not known); `loading` says a not-an-end text is shown."""

    rows: tuple[ListRow, ...]
    end: bool | None
    loading: bool
    container: Rect
    tree: UiTree

    def entries(self) -> tuple[ListRow, ...]:
        """The rows that are reports and could be read whole."""
        return tuple(row for row in self.rows if row.kind == "report" and not row.incomplete)


@attrs.frozen
class DetailScreen:
    """The detail page: what it says, and its download button."""

    facts: ReportFacts
    button: ButtonState
    button_node: UiNode | None
    tree: UiTree


@attrs.frozen
class DialogState:
    """A dialog of the app: `name` is `confirm` for the trigger's own, else the profile's; `dismiss` its
    button.
    """

    name: str
    text: str
    dismiss: UiNode | None


@attrs.frozen
class QuotaLabel:
    """The remaining downloads as the app shows them."""

    left: int
    text: str


@attrs.frozen
class AccountLabel:
    """The account as the app shows it (masked by the app); never written to public details."""

    text: str


@attrs.frozen
class AccessControl:
    """A wall: which kind, and the words that gave it away."""

    kind: AccessKind
    text: str


@attrs.frozen
class HistoryRow:
    """One row of the app's download history."""

    report_id: str | None
    title: str
    time: str
    node: UiNode


def _row_nodes(tree: UiTree, container: UiNode, rule: RowRule) -> tuple[UiNode, ...]:
    anchor = Anchor(id=rule.id) if rule.id is not None else rule.anchor
    if anchor is not None:
        return tuple(n for n in find_all(tree, anchor, container) if n is not container)
    rows = []
    for child in tree.children(container):
        texts = sum(1 for n in (child, *tree.descendants(child)) if n.label.strip())
        if texts >= rule.min_texts and tree.visible(child).height >= rule.min_height_px:
            rows.append(child)
    return tuple(rows)


def _kind(tree: UiTree, node: UiNode, profile: Profile) -> RowKind:
    kinds = profile.list.kinds
    for anchors, kind in (
        (kinds.advert, "advert"),
        (kinds.announcement, "announcement"),
        (kinds.pinned, "pinned"),
    ):
        if any(find_all(tree, anchor, node) for anchor in anchors):
            return kind  # type: ignore[return-value]
    return "report"


def _needed(profile: Profile) -> tuple[str, ...]:
    """Field names every whole row shows."""
    rules = profile.list.fields
    named = tuple(name for name, rule in rules.items() if not rule.optional)
    if profile.list.merged is None:
        return named
    return tuple({*named, "title"})


def _texts_in(tree: UiTree, patterns: tuple[str, ...], scope: UiNode) -> bool:
    nodes = (scope, *tree.descendants(scope))
    return any(re.search(p, n.label) for n in nodes if n.label for p in patterns)


def read_list(tree: UiTree, profile: Profile, now: datetime) -> ListScreen:
    """The list page. Raises `anchor_drift` (no list, or rows without their fields) and `opaque_webview`."""
    container = find_one(tree, profile.list.container, "list.container")
    nodes = list(_row_nodes(tree, container, profile.list.row))
    others = (*profile.list.kinds.advert, *profile.list.kinds.announcement)
    extra = [n for anchor in others for n in find_all(tree, anchor, container)]
    inside = {d.order for n in nodes for d in (n, *tree.descendants(n))}
    nodes = sorted(
        {n.order: n for n in (*nodes, *(e for e in extra if e.order not in inside))}.values(), key=_order
    )
    frame = tree.visible(container)
    rows = _mark_clipped(tuple(_read_row(tree, node, profile, now) for node in nodes), profile, frame)
    _require_fields(rows, profile)
    if not rows:
        require_no_webview(tree, container)
    if profile.list.row.id is not None and not any(row.kind in ("report", "pinned") for row in rows):
        _require_no_strange_rows(tree, container, profile, rows)
    inner = set(d.order for r in rows for d in (r.node, *tree.descendants(r.node)))
    footer = [n for n in tree.descendants(container) if n.order not in inside | inner and n.label]
    loading = any(re.search(p, n.label) for n in footer for p in profile.list.not_end_texts)
    ended = any(re.search(p, n.label) for n in footer for p in profile.list.end_texts)
    return ListScreen(rows, False if loading else True if ended else None, loading, frame, tree)


def _order(node: UiNode) -> int:
    return node.order


def _read_row(tree: UiTree, node: UiNode, profile: Profile, now: datetime) -> ListRow:
    kind = _kind(tree, node, profile)
    fields: dict[str, str] = {}
    if kind in ("report", "pinned"):
        fields = read_fields(tree, node, profile.list.fields, profile.list.merged)
    facts = facts_of(fields, now)
    missing = any(name not in fields for name in _needed(profile)) or facts.report_id is None
    return ListRow(kind, facts, node, tree.visible(node), False, missing and kind in ("report", "pinned"))


def _mark_clipped(rows: tuple[ListRow, ...], profile: Profile, frame: Rect) -> tuple[ListRow, ...]:
    """Flag the rows that the list's edge cuts: they touch it and are lower than the highest of their kind.

    What a whole row may lack (a report without a date) may on a cut one just be out of sight: incomplete.
    """
    highest: dict[str, int] = {}
    for row in rows:
        highest[row.kind] = max(highest.get(row.kind, 0), row.visible.height)
    marked = []
    for row in rows:
        edge = row.visible.top <= frame.top + _EDGE_PX or row.visible.bottom >= frame.bottom - _EDGE_PX
        peers = sum(1 for other in rows if other.kind == row.kind)
        clipped = edge and (peers == 1 or row.visible.height < highest[row.kind] - _EDGE_PX)
        hidden = clipped and any(
            getattr(profile.list.fields, name) is not None and getattr(row.facts, name) is None
            for name in _LOWER_FIELDS
        )
        incomplete = row.incomplete or (hidden and row.kind in ("report", "pinned"))
        marked.append(attrs.evolve(row, clipped=clipped, incomplete=incomplete))
    return tuple(marked)


def _require_fields(rows: tuple[ListRow, ...], profile: Profile) -> None:
    """Whole rows that all lack their fields mean the app has changed, not that the list is empty."""
    whole = [row for row in rows if row.kind == "report" and not row.clipped]
    if len(whole) >= 2 and all(row.incomplete for row in whole):
        raise DeviceError(
            "anchor_drift",
            f"{len(whole)} rows are on the screen, but none has all of: {', '.join(_needed(profile))}",
        )


def _require_no_strange_rows(
    tree: UiTree, container: UiNode, profile: Profile, rows: tuple[ListRow, ...]
) -> None:
    """A list without one known row, but with blocks of text that look like rows, is not an empty list."""
    known = {n.order for row in rows for n in (row.node, *tree.descendants(row.node))}
    strange = [
        child
        for child in tree.children(container)
        if child.order not in known
        and sum(1 for n in (child, *tree.descendants(child)) if n.label.strip()) >= _ROW_TEXTS
    ]
    if len(strange) >= 2:
        row = Anchor(id=profile.list.row.id)
        raise DeviceError(
            "anchor_drift",
            f"list.row ({row.describe()}) is not on the screen, but {len(strange)} other rows are; "
            f"{nearest(tree, row, candidates=strange)}",
        )


def require_no_webview(tree: UiTree, below: UiNode | None = None) -> None:
    """Raise `opaque_webview` for a web view whose content the dump does not show (fault F43)."""
    nodes = tree.nodes if below is None else (below, *tree.descendants(below))
    for node in nodes:
        if "WebView" in node.class_name and not any(n.label for n in tree.descendants(node)):
            raise DeviceError("opaque_webview", "the page is a web view whose content cannot be read")


def is_list(tree: UiTree, profile: Profile) -> bool:
    """Whether every anchor of the list page is there."""
    return all(present(tree, anchor) for anchor in profile.list.anchors)


def is_detail(tree: UiTree, profile: Profile) -> bool:
    """Whether every anchor of the detail page is there."""
    return all(present(tree, anchor) for anchor in profile.detail.anchors)


def drift_of_detail(tree: UiTree | None, profile: Profile) -> DeviceError | None:
    """The detail page's missing anchor, with its diagnosis, when the dump is no list any more: the page came,
    but changed. None where there is none."""
    if tree is None or is_list(tree, profile):
        return None
    try:
        for anchor in profile.detail.anchors:
            find_one(tree, anchor, "detail.anchors")
    except DeviceError as error:
        return error
    return None


def read_detail(tree: UiTree, profile: Profile, now: datetime) -> DetailScreen:
    """The detail page. Raises `anchor_drift` when it is another page, `opaque_webview` for an empty web
    view.
    """
    if not is_detail(tree, profile):
        require_no_webview(tree)
        for anchor in profile.detail.anchors:
            find_one(tree, anchor, "detail.anchors")
    facts = facts_of(read_fields(tree, None, profile.detail.fields, profile.detail.merged), now)
    state, node = read_button(tree, profile)
    return DetailScreen(facts, state, node, tree)


def read_button(tree: UiTree, profile: Profile) -> tuple[ButtonState, UiNode | None]:
    """The download button's state; `unknown` when it is absent, ambiguous or says something else."""
    found = find_all(tree, profile.trigger.button)
    if len(found) != 1:
        return "unknown", None
    label = found[0].label.strip()
    states: tuple[tuple[ButtonState, tuple[str, ...]], ...] = (
        ("idle", profile.trigger.idle),
        ("busy", profile.trigger.busy),
        ("done", profile.trigger.done),
    )
    for state, patterns in states:
        if any(re.search(pattern, label) for pattern in patterns):
            return state, found[0]
    return "unknown", found[0]


def read_quota(tree: UiTree, profile: Profile) -> QuotaLabel | None:
    """The remaining-quota label, None where this screen (or the profile) has none."""
    text = _labelled(tree, profile.quota.label)
    match = re.search(r"\d+", text) if text else None
    return QuotaLabel(int(match.group(0)), text or "") if match else None


def read_account(tree: UiTree, profile: Profile) -> AccountLabel | None:
    """The account label, None where this screen has none."""
    text = _labelled(tree, profile.quota.account)
    return AccountLabel(text) if text else None


def _labelled(tree: UiTree, rule: FieldRule | None) -> str | None:
    return read_fields(tree, None, FieldRules(title=rule), None).get("title") if rule else None


def _dialog_text(tree: UiTree, root: UiNode) -> str:
    return " ".join(n.label.strip() for n in (root, *tree.descendants(root)) if n.label.strip())


def read_dialog(tree: UiTree, profile: Profile) -> DialogState | None:
    """The app's dialog on this screen, if any: the trigger's own, or one the profile names."""
    for dialog in profile.dialogs:
        state = _named_dialog(tree, dialog)
        if state is not None:
            return state
    if profile.trigger.confirm_dialog is not None:
        roots = find_all(tree, profile.trigger.confirm_dialog)
        if roots:
            cancel = find_all(tree, profile.trigger.cancel, roots[0]) if profile.trigger.cancel else ()
            return DialogState(
                "confirm", _dialog_text(tree, roots[0]), cancel[0] if len(cancel) == 1 else None
            )
    return None


def _named_dialog(tree: UiTree, dialog: Dialog) -> DialogState | None:
    for root in find_all(tree, dialog.root):
        text = _dialog_text(tree, root)
        if re.search(dialog.text, text):
            buttons = find_all(tree, dialog.dismiss, root)
            return DialogState(dialog.name, text, buttons[0] if len(buttons) == 1 else None)
    return None


def read_access(tree: UiTree, profile: Profile) -> AccessControl | None:
    """The wall on this screen, if any (fault F47). Report text is not looked at."""
    hidden = _report_text(tree, profile)
    for marker in profile.access:
        for node in tree.nodes:
            if any(same_id(node, wanted) for wanted in marker.ids):
                return AccessControl(marker.kind, node.label or node.short_id)
            if node.order in hidden or not node.label:
                continue
            if any(re.search(pattern, node.label) for pattern in marker.texts):
                return AccessControl(marker.kind, node.label)
    return None


def _report_text(tree: UiTree, profile: Profile) -> set[int]:
    """Orders of the nodes that show report text: list rows and the detail page's fields."""
    hidden: set[int] = set()
    for container in find_all(tree, profile.list.container):
        hidden.update(n.order for n in tree.descendants(container))
    detail = profile.detail
    ids = [rule.id for _, rule in detail.fields.items() if rule.id]
    hidden.update(n.order for n in tree.nodes if any(same_id(n, wanted) for wanted in ids))
    if is_detail(tree, profile):
        found = [field_node(tree, None, rule) for _, rule in detail.fields.items() if not rule.id]
        found += [merged_node(tree, None, detail.merged)] if detail.merged else []
        hidden.update(node.order for node in found if node is not None)
    return hidden


def read_history(tree: UiTree, profile: Profile, now: datetime | None = None) -> tuple[HistoryRow, ...]:
    """The rows of the download history on this screen. With `now` (the phone's clock) an id that the app does
    not print is derived, as it is for a list row."""
    history = profile.quota.history
    if history is None:
        return ()
    rows = []
    roots = tuple(tree.roots())
    for root in roots:
        for node in _row_nodes(tree, root, history.row):
            fields = read_fields(tree, node, history.fields, history.merged)
            report_id = fields.get("code") if now is None else facts_of(fields, now).report_id
            rows.append(HistoryRow(report_id, fields.get("title", ""), fields.get("time", ""), node))
    return tuple(rows)
