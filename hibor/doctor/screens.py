"""The app's screen: every anchor of the page in front, how long a dump takes, walls, the quota label.

Rules of this file: pages are told apart as in a run; an anchor that is missing or ambiguous is named with its
nearest candidates; what the profile calls optional is never a failure; the account is recognised and never
shown.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, Final

import attrs

from generated.governance import GUARD_RAILS
from hibor.device.anchors import find_all, nearest
from hibor.device.errors import DeviceError
from hibor.device.fields import field_node
from hibor.device.profile import Profile
from hibor.device.profile_types import Anchor, FieldRule
from hibor.device.reading import is_detail, is_list, read_button, read_list, read_quota
from hibor.device.screens import MACHINE_AGE_S
from hibor.device.uitree import UiNode, UiTree
from hibor.device.windows import AccessControlError, require_app, require_no_wall
from hibor.doctor.case import Case
from hibor.doctor.rows import Status
from hibor.pdf.annotate import Mark

DUMPS: Final = 3
"""Dumps whose time is measured."""
START_LIMIT_S: Final = 12.0


@attrs.frozen
class Seen:
    """One anchor or field of the profile on one screen."""

    name: str
    nodes: tuple[UiNode, ...]
    wanted: str = ""  # the anchor's conditions, where it has to be there
    nearest: str = ""

    @property
    def good(self) -> bool:
        """Exactly one node, or none where none is required."""
        return len(self.nodes) == 1 or (not self.nodes and not self.wanted)


def page_of(tree: UiTree, profile: Profile) -> str:
    """`detail`, `list`, `dialog` (the trigger's own) or `other`."""
    if is_detail(tree, profile):
        return "detail"
    if is_list(tree, profile):
        return "list"
    dialog = profile.trigger.confirm_dialog
    return "dialog" if dialog is not None and find_all(tree, dialog) else "other"


def anchors_on(tree: UiTree, profile: Profile, page: str) -> list[Seen]:
    """Every anchor the profile has for this page, with the nodes that fit."""
    return [_see(tree, name, anchor) for name, anchor in _anchors(profile, page)] + [
        Seen(name, nodes)
        for name, rule in _fields(profile, page)
        if (nodes := _field_nodes(tree, rule)) or rule.optional
    ]


def _see(tree: UiTree, name: str, anchor: Anchor) -> Seen:
    nodes = find_all(tree, anchor)
    return Seen(name, nodes, anchor.describe(), "" if nodes else nearest(tree, anchor))


def _anchors(profile: Profile, page: str) -> Iterator[tuple[str, Anchor]]:
    if page == "dialog":
        if profile.trigger.confirm_dialog is not None:
            yield "trigger.confirm_dialog", profile.trigger.confirm_dialog
        if profile.trigger.cancel is not None:
            yield "trigger.cancel", profile.trigger.cancel
    elif page == "detail":
        yield from _numbered("detail.anchors", profile.detail.anchors)
        yield "trigger.button", profile.trigger.button
    else:
        yield from _numbered("list.anchors", profile.list.anchors)
        yield "list.container", profile.list.container
        if profile.quota.history is not None:
            yield "quota.history.taps[0]", profile.quota.history.taps[0]


def _numbered(name: str, anchors: tuple[Anchor, ...]) -> Iterator[tuple[str, Anchor]]:
    for place, anchor in enumerate(anchors):
        yield f"{name}[{place}]", anchor


def _fields(profile: Profile, page: str) -> Iterator[tuple[str, FieldRule]]:
    if page == "detail":
        for name, rule in profile.detail.fields.items():
            yield f"detail.fields.{name}", rule
    if page in ("detail", "list"):
        for name, labelled in (("label", profile.quota.label), ("account", profile.quota.account)):
            if labelled is not None:
                yield f"quota.{name}", labelled


def _field_nodes(tree: UiTree, rule: FieldRule) -> tuple[UiNode, ...]:
    node = field_node(tree, None, rule)
    return () if node is None else (node,)


def marks_of(tree: UiTree, seen: list[Seen]) -> list[Mark]:
    """The boxes for the annotated picture."""
    marks = []
    for one in seen:
        for node in one.nodes:
            box = tree.visible(node)
            marks.append(Mark((box.left, box.top, box.right, box.bottom), one.name, len(one.nodes) == 1))
    return marks


def row_marks(case: Case, tree: UiTree) -> list[Mark]:
    """The list's rows, green where all their fields were read; adds the row `rows`."""
    try:
        screen = read_list(tree, case.require_profile(), case.require_device().now())
    except DeviceError as error:
        case.failed("rows", error, fix="anchor_drift")
        return []
    whole = len(screen.entries())
    marks = [
        Mark(
            (r.visible.left, r.visible.top, r.visible.right, r.visible.bottom), f"{r.kind} {place}",
            not r.incomplete,
        )
        for place, r in enumerate(screen.rows)
    ]  # fmt: skip
    status: Status = "ok" if whole >= 2 else "warn" if whole else "fail"
    fix = "" if status == "ok" else "anchor_drift"
    case.add("rows", status, "rows", fix=fix, whole=whole, rows=len(screen.rows))
    return marks


def check_page(case: Case, tree: UiTree, page: str) -> bool:
    """A row for each anchor of the page, and the annotated picture; True when all of them are there."""
    profile = case.require_profile()
    seen = anchors_on(tree, profile, page)
    for one in seen:
        name = f"{page}: {one.name}"
        if one.good:
            found = case.words("doctor.said.there" if one.nodes else "doctor.said.absent")
            case.add("anchor", "ok", "anchor", about=name, found=found)
        elif one.nodes:
            count = len(one.nodes)
            case.add(
                "anchor",
                "fail",
                "anchor_many",
                fix="anchor_drift",
                about=name,
                count=count,
                anchor=one.wanted,
            )
        else:
            facts: dict[str, Any] = {"anchor": one.wanted, "nearest": one.nearest}
            case.add("anchor", "fail", "anchor_missing", fix="anchor_drift", about=name, **facts)
    marks = marks_of(tree, seen)
    if page == "list":
        marks += row_marks(case, tree)
    if page == "detail":
        state, _node = read_button(tree, profile)
        known = state != "unknown"
        said = case.words(f"doctor.said.button_{state}")
        case.add(
            "button", "ok" if known else "fail", "button", fix="" if known else "anchor_drift", state=said
        )
    case.shoot(page, tree, marks)
    return all(one.good for one in seen)


def bring_to_front(case: Case) -> None:
    """Start the app by its launcher intent where another window is in front. Raises `DeviceError`."""
    device, package = case.require_device(), case.require_profile().app.package
    if device.focus().package == package:
        return
    device.start(package)
    begun_s = case.clock.monotonic_s()
    while device.focus().package != package and case.clock.monotonic_s() - begun_s < START_LIMIT_S:
        case.clock.sleep(0.5)


def timed_dump(case: Case) -> UiTree:
    """A dump whose time is remembered. Raises `DeviceError`."""
    begun_s = case.clock.monotonic_s()
    tree = case.require_device().dump("doctor")
    case.dump_times_s.append(case.clock.monotonic_s() - begun_s)
    return tree


def check_dumps(case: Case) -> UiTree | None:
    """Several dumps of the app's screen: median and worst time. The last one, None when there is none."""
    tree: UiTree | None = None
    try:
        bring_to_front(case)
        for _ in range(DUMPS):
            tree = timed_dump(case)
        assert tree is not None
        require_app(tree, case.require_profile())
    except DeviceError as error:
        case.failed("dump", error, fix="dump")
        if tree is not None:
            case.shoot("foreign", tree)
        return None
    median_s, worst_s = statistics.median(case.dump_times_s), max(case.dump_times_s)
    limit_s = GUARD_RAILS["dump_worst_s"]
    scale = float(getattr(case.clock, "scale", 1.0))
    # On a scaled clock our own work takes phone time too, and is no fault of the phone.
    allowed_s = limit_s + MACHINE_AGE_S * (scale - 1.0)
    facts: dict[str, Any] = {
        "median_s": median_s,
        "worst_s": worst_s,
        "limit_s": limit_s,
        "count": len(case.dump_times_s),
    }
    if median_s <= allowed_s:
        case.add("dump", "ok", "dump", **facts)
    else:
        case.add("dump", "warn", "dump_slow", fix="dump_slow", **facts)
    return tree


def check_walls(case: Case, tree: UiTree) -> bool:
    """Whether the app asks for login, captcha and the like; True when it does not."""
    case.looked = True
    try:
        require_no_wall(tree, case.require_profile())
    except AccessControlError as wall:
        case.walled = True
        case.add(
            "access", "fail", "wall", fix="wall", kind=case.words(f"doctor.walls.{wall.kind}"), text=wall.text
        )
        case.shoot("wall", tree)
        return False
    case.add("access", "ok", "no_wall")
    return True


def check_quota(case: Case, tree: UiTree) -> None:
    """The remaining downloads, where the profile knows the label."""
    profile = case.require_profile()
    if profile.quota.label is None:
        case.add("quota", "warn", "quota_unknown")
        return
    label = read_quota(tree, profile)
    if label is None:
        case.add("quota", "warn", "quota_absent", fix="quota_absent")
    else:
        case.add("quota", "ok", "quota", left=label.left)


def check_app_screen(case: Case, *, anchors: bool = True) -> None:
    """Everything about the screen the app shows now; `anchors` False leaves the page's own to a walk."""
    tree = check_dumps(case)
    if tree is None or not check_walls(case, tree):
        return
    if not anchors:
        check_quota(case, tree)
        return
    profile = case.require_profile()
    page = page_of(tree, profile)
    if page == "other":
        near = "; ".join(nearest(tree, anchor) for anchor in profile.list.anchors[:2])
        case.add("page", "fail", "page_other", fix="page_other", nearest=near)
        case.shoot("other", tree, marks_of(tree, anchors_on(tree, profile, "list")))
        return
    case.add("page", "ok", "page", page=case.words(f"doctor.pages.{page}"))
    check_page(case, tree, page)
    if page != "dialog":
        check_quota(case, tree)
