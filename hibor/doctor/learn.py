"""`--learn`: draft a whole profile from the app's own screens (design 5).

Rules of this file: the doctor taps one row of the list, after asking, and the back key; nothing else. With
`--find-file` a person downloads that report by hand while the doctor watches: the confirm question, the
button's states and the file are seen, not guessed. The draft is written only when it reads back and reads the
very screens it was made from.
"""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Final

import attrs

from hibor.collect.preflight import shipped
from hibor.device.errors import DeviceError
from hibor.device.navigate import KEY_BACK, same_report
from hibor.device.profile import ProfileError, parse_profile
from hibor.device.profile_types import (
    Anchor,
    AppSection,
    CacheSection,
    DetailSection,
    FieldRule,
    FieldRules,
    ListSection,
    MergedRule,
    Profile,
    QuotaSection,
    Step,
    TriggerSection,
)
from hibor.device.reading import ListRow, is_detail, is_list, read_detail, read_list
from hibor.device.uitree import UiNode, UiTree
from hibor.doctor.case import Case
from hibor.doctor.find_file import FoundFile, cache_section, places, say_found, watch
from hibor.doctor.learn_list import draft_list
from hibor.doctor.learn_page import (
    Watched,
    already_there,
    button_anchor,
    draft_access,
    draft_detail,
    draft_export,
    draft_quota,
    draft_trigger,
    find_button,
    note_screen,
)
from hibor.doctor.profile_toml import profile_toml
from hibor.doctor.rows import Stop
from hibor.doctor.screens import START_LIMIT_S, check_page, timed_dump

NOT_APPS: Final = re.compile(r"launcher|systemui|^android$|\.home$|com\.android\.settings")
PAGE_LIMIT_S: Final = 20.0
MOST_ROWS: Final = 4


@attrs.define
class Lesson:
    """What has been seen so far."""

    package: str
    version: str
    label: str
    list_tree: UiTree
    section: ListSection
    list_activity: str
    row: ListRow | None = None
    page_tree: UiTree | None = None
    page_activity: str = ""
    button: UiNode | None = None
    watched: Watched = attrs.field(factory=Watched)
    found: FoundFile | None = None


def learn(case: Case, out: Path, *, with_file: bool) -> None:
    """The whole of `--learn`; adds the row `learn`."""
    try:
        lesson = _begin(case)
        case.looked = True
        _open_page(case, lesson)
        if with_file:
            _watch_download(case, lesson)
        profile = _profile(lesson, out, _now(case))
        _write(case, lesson, profile, out)
    except DeviceError as error:
        case.failed("learn", error, fix="learn")


def _now(case: Case) -> datetime:
    return case.require_device().now()


def _stop(case: Case, said: str, tree: UiTree | None = None) -> Stop:
    if tree is not None:
        case.shoot("learn", tree)
    return Stop(case.add("learn", "fail", said, fix=said))


# -- screens ------------------------------------------------------------------------------------------------


def _begin(case: Case) -> Lesson:
    """The app in front, with its list on the screen."""
    device = case.require_device()
    package, label = _app(case)
    case.package = device.package(package)
    while True:
        tree = timed_dump(case)
        section = draft_list(tree, _now(case)) if tree.package == package else None
        if section is not None:
            break
        if not case.person.is_done("doctor.learn.open_list"):
            raise _stop(case, "no_list", tree)
    case.add("learn_list", "ok", "learn_list", package=package, version=case.package.version_name)
    activity = device.focus().activity or ""
    return Lesson(package, case.package.version_name, label, tree, section, _short(activity, package))


def _short(activity: str, package: str) -> str:
    return activity.removeprefix(package) if activity.startswith(package) else activity


def _app(case: Case) -> tuple[str, str]:
    """The app in front, else one a shipped profile knows, started; (package, label)."""
    device = case.require_device()
    known = {profile.app.package: profile.app.label for profile in shipped()}
    front = device.focus().package or ""
    if front and not NOT_APPS.search(front):
        return front, known.get(front, front)
    for package, label in known.items():
        try:
            device.package(package)
        except DeviceError as error:
            if error.failure != "package_missing":
                raise
            continue
        device.start(package)
        begun_s = case.clock.monotonic_s()
        while device.focus().package != package and case.clock.monotonic_s() - begun_s < START_LIMIT_S:
            case.clock.sleep(0.5)
        return package, label
    raise _stop(case, "no_app")


def _draft_rows(case: Case, lesson: Lesson) -> list[ListRow]:
    profile = _provisional(lesson)
    screen = read_list(lesson.list_tree, profile, _now(case))
    return [row for row in screen.entries() if not row.clipped]


def _open_page(case: Case, lesson: Lesson) -> None:
    """A report's page that offers the download; opened here after asking, else by the person."""
    if not case.person.agrees("doctor.ask.open_row"):
        raise _stop(case, "learn_needs_page")
    for place in range(MOST_ROWS):
        rows = _draft_rows(case, lesson)
        if place >= len(rows):
            break
        row = rows[place]
        point = lesson.list_tree.tap_point(row.node)
        if point is None:
            continue
        case.require_device().tap(*point, package=lesson.package)
        tree = _await_page(case)
        button = find_button(tree)
        if button is not None:
            lesson.row, lesson.page_tree, lesson.button = row, tree, button
            lesson.page_activity = _short(case.require_device().focus().activity or "", lesson.package)
            case.add("learn_page", "ok", "learn_page", button=button.label.strip())
            return
        _back_to_list(case, lesson)
    raise _stop(case, "no_button", case.shots[-1].tree if case.shots else lesson.list_tree)


def _await_page(case: Case) -> UiTree:
    """The page behind a row: one that offers the download, or says that the file is there."""
    end_s = case.clock.monotonic_s() + PAGE_LIMIT_S
    while True:
        tree = timed_dump(case)
        if find_button(tree) is not None or already_there(tree) or case.clock.monotonic_s() >= end_s:
            return tree
        case.clock.sleep(0.3)


def _back_to_list(case: Case, lesson: Lesson) -> None:
    case.require_device().key(KEY_BACK)
    end_s = case.clock.monotonic_s() + PAGE_LIMIT_S
    while case.clock.monotonic_s() < end_s:
        tree = timed_dump(case)
        if draft_list(tree, _now(case)) is not None:
            lesson.list_tree = tree
            return
        case.clock.sleep(0.3)
    raise _stop(case, "no_list", tree)


def _watch_download(case: Case, lesson: Lesson) -> None:
    """A person downloads this report; the doctor looks at screen and folders."""
    button = lesson.button
    assert button is not None
    told: set[str] = set()

    def look() -> None:
        try:
            note_screen(lesson.watched, case.require_device().dump("learn"), button)
        except DeviceError as error:
            if error.failure not in ("dump_unreadable", "dump_stale"):
                raise
        if lesson.watched.question is not None and "question" not in told:
            told.add("question")
            case.person.say("doctor.learn.seen_question")

    case.person.say("doctor.learn.download", button=button.label.strip())
    lesson.found = watch(case, places(lesson.package, lesson.label), look)
    look()
    say_found(case, lesson.found)


# -- the draft ----------------------------------------------------------------------------------------------


def _provisional(lesson: Lesson) -> Profile:
    """Enough of a profile to read the list with; the rest is of no app and taps nothing."""
    nothing = Anchor(id="nothing")
    return Profile(
        schema_version=1,
        name="draft",
        app=AppSection(lesson.package, lesson.label, (lesson.version,)),
        list=lesson.section,
        detail=DetailSection((nothing,), FieldRules(title=FieldRule(id="nothing"))),
        trigger=TriggerSection(nothing, (), (), (), (Step("nothing", nothing, paying=True),)),
        quota=QuotaSection("download"),
        cache=CacheSection(("Download",)),
    )


def _profile(lesson: Lesson, out: Path, now: datetime) -> Profile | None:
    """The whole draft; None where the page could not be understood."""
    button, page, row = lesson.button, lesson.page_tree, lesson.row
    assert button is not None and page is not None and row is not None
    anchor = button_anchor(button, lesson.watched)
    merged: MergedRule | None = lesson.section.merged
    detail = draft_detail(page, row.facts, merged, anchor, now)
    if detail is None:
        return None
    export = draft_export(lesson.watched, button)
    found = lesson.found
    by_export = found is not None and not found.folder.startswith("Android/data/")
    cache = (
        CacheSection((f"Android/data/{lesson.package}/files/Download",)) if found is None
        else cache_section(found, export if by_export else ())
    )  # fmt: skip
    name = re.sub(r"[^a-z0-9-]+", "-", out.stem.lower()).strip("-") or "learned"
    return Profile(
        schema_version=1,
        name=name,
        app=AppSection(
            lesson.package, lesson.label, (lesson.version,), lesson.list_activity, lesson.page_activity
        ),
        list=lesson.section,
        detail=detail,
        trigger=draft_trigger(button, lesson.watched),
        quota=draft_quota((lesson.list_tree, page), lesson.watched),
        cache=cache,
        access=draft_access(_ordinary(lesson)),
    )


def _ordinary(lesson: Lesson) -> list[str]:
    """Short labels of both pages outside the list's rows."""
    container = next(
        (n for n in lesson.list_tree.nodes if n.scrollable or "RecyclerView" in n.class_name), None
    )
    inside = {n.order for n in lesson.list_tree.descendants(container)} if container is not None else set()
    labels = [n.label for n in lesson.list_tree.nodes if n.order not in inside]
    page = lesson.page_tree.nodes if lesson.page_tree is not None else ()
    return [label for label in (*labels, *(n.label for n in page)) if 0 < len(label) <= 12]


def _write(case: Case, lesson: Lesson, profile: Profile | None, out: Path) -> None:
    """Check the draft against the screens it was made from, write it, say what is still a guess."""
    if profile is None:
        raise _stop(case, "no_title", lesson.page_tree)
    data = profile_toml(profile, _comments(case, lesson)).encode()
    try:
        read = parse_profile(data, out.name)
    except ProfileError as error:
        raise Stop(case.add("learn", "fail", "draft_faults", fix="learn", faults=error)) from error
    problem = _problem(case, lesson, read)
    if problem is not None:
        case.write("draft.toml", data)
        raise Stop(case.add("learn", "fail", problem, fix="learn"))
    case.profile = read
    assert lesson.page_tree is not None
    check_page(case, lesson.page_tree, "detail")
    if case.write_to(out.absolute(), data) is None:
        raise _stop(case, "learn_not_written")
    complete = lesson.found is not None and lesson.found.is_pdf and lesson.watched.done_label is not None
    if complete:
        case.add("learn", "ok", "learned", path=out)
    else:
        case.add("learn", "warn", "learned_in_part", fix="learn_find_file", path=out)


def _problem(case: Case, lesson: Lesson, profile: Profile) -> str | None:
    """What the draft cannot do with its own screens: a text key, None when it can."""
    page, row = lesson.page_tree, lesson.row
    assert page is not None and row is not None
    now = _now(case)
    if not is_list(lesson.list_tree, profile) or is_list(page, profile):
        return "draft_list_unclear"
    if not is_detail(page, profile) or is_detail(lesson.list_tree, profile):
        return "draft_page_unclear"
    if len(read_list(lesson.list_tree, profile, now).entries()) < 2:
        return "draft_rows_unread"
    screen = read_detail(page, profile, now)
    if screen.button != "idle" or not same_report(row.facts, screen.facts):
        return "draft_page_unread"
    return None


def _comments(case: Case, lesson: Lesson) -> dict[str, str]:
    words = case.words
    comments = {"": words("doctor.learn.comment", version=lesson.version)}
    if lesson.found is None:
        comments["cache"] = words("doctor.learn.comment_cache")
    if lesson.watched.question is None:
        comments["trigger"] = words("doctor.learn.comment_trigger")
    return comments
