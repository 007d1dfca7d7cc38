"""The only place that spends quota: the profile's trigger steps, each tapped once, and what came of them.

Rules of this file: nothing here repeats a tap, for whatever reason; before the first one the caller is
told, with the hashes of dump and screenshot, so that it can journal TRIGGER_INTENT (design 5, "Trigger and
cache match"); errors before the first tap are raised, errors after it are evidence. `confirmed` needs the
profile's after-state or a new file; `not_occurred` needs positive proof (ruling R21, or an idle button, no
file and an unchanged label after the settle time); everything else is `uncertain`. A file the app already
holds is not tapped for.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import attrs

from hibor.device.anchors import find_all, find_one
from hibor.device.errors import DeviceError
from hibor.device.evidence import ScreenEvidence, capture
from hibor.device.navigate import App, same_report
from hibor.device.profile_types import Profile, Step
from hibor.device.reading import ReportFacts, read_access, read_button, read_detail, read_quota
from hibor.device.uitree import UiNode, UiTree
from hibor.device.windows import foreign_reason, require_no_wall

Outcome = Literal["confirmed", "not_occurred", "uncertain"]
_FRESH_TRIES = 3
_PROOF_WALLS = ("quota", "member")
"""Walls that answer a download with a clear no; the others say nothing about it."""


@attrs.frozen
class AlreadyDownloaded:
    """The app already has the file (or is fetching it): no tap was made, look for the file."""

    busy: bool
    evidence: ScreenEvidence


@attrs.frozen
class TriggerRun:
    """What was done. `taps` are the steps whose tap left us; `paying_sent` whether the paying one did.
    `problem` is what stopped the steps, if anything; `refused` quotes a phone that took no input; times are
    the clock's."""

    taps: tuple[str, ...]
    paying_sent: bool
    sent_s: float
    label_before: int | None
    evidence: ScreenEvidence
    problem: DeviceError | None = None
    refused: str | None = None
    expected: ReportFacts | None = None


@attrs.frozen
class Prepared:
    """The page in front of the first tap: its evidence, the dump the first control is in, the label there."""

    expected: ReportFacts
    evidence: ScreenEvidence
    tree: UiTree
    label_before: int | None


@attrs.frozen
class TriggerOutcome:
    """The verdict with its `reason` (a failure word, or the sign that proved it) and the hashes behind it.
    `seen` is the screen itself; only what is not confirmed needs one."""

    outcome: Outcome
    reason: str
    detail: str
    dump_sha256: str | None
    screenshot_sha256: str | None
    label_after: int | None
    seen: ScreenEvidence | None = None


def prepare(app: App, expected: ReportFacts) -> Prepared | AlreadyDownloaded:
    """Stop in front of the first control of the detail page of `expected`; nothing is tapped.

    Raises `DeviceError` (`detail_mismatch`, `access_control`, `anchor_drift`, `foreign_window`, link words
    …).
    """
    page = app.detail_screen()
    if not same_report(expected, page.facts):
        raise DeviceError("detail_mismatch", "the page on the screen is not the report's", command_sent=False)
    require_no_wall(page.tree, app.profile)
    if page.button in ("done", "busy"):
        return AlreadyDownloaded(page.button == "busy", capture(app.device, page.tree))
    if page.button != "idle":
        find_one(page.tree, app.profile.trigger.button, "trigger.button")
        raise DeviceError("anchor_drift", "the download button says something unknown", command_sent=False)
    evidence = app.looker.evidence(page.tree)
    tree = page.tree if app.looker.fresh(page.tree) else _same_page(app, expected)
    first = app.profile.trigger.steps[0]
    app.looker.target(tree, _control(tree, first), f"trigger.steps.{first.name}")
    label = read_quota(tree, app.profile)
    return Prepared(expected, evidence, tree, label.left if label else None)


def press(app: App, prepared: Prepared, *, before_paying: Callable[[], None] = lambda: None) -> TriggerRun:
    """Tap every step's control once. The caller has journalled TRIGGER_INTENT; nothing is raised from here
    on. `before_paying` waits, if need be, until a trigger is allowed again.
    """
    run = TriggerRun(
        (),
        False,
        app.clock.monotonic_s(),
        prepared.label_before,
        prepared.evidence,
        expected=prepared.expected,
    )
    return _steps(app, run, prepared.tree, before_paying)


def run_trigger(
    app: App, expected: ReportFacts, before_first_tap: Callable[[ScreenEvidence], None]
) -> TriggerRun | AlreadyDownloaded:
    """`prepare`, tell the caller, `press`. What `before_first_tap` raises stops everything and is raised
    unchanged.
    """
    prepared = prepare(app, expected)
    if isinstance(prepared, AlreadyDownloaded):
        return prepared
    before_first_tap(prepared.evidence)
    return press(app, prepared)


def _same_page(app: App, expected: ReportFacts) -> UiTree:
    """A new dump, because the first grew too old; it must still show the report, idle."""
    tree = app.looker.look("detail")
    page = read_detail(tree, app.profile, app.looker.phone_now())
    if not same_report(expected, page.facts) or page.button != "idle":
        raise DeviceError("detail_mismatch", "the page changed before the first tap", command_sent=False)
    return tree


def _control(tree: UiTree, step: Step) -> UiNode:
    for anchor in step.requires:
        find_one(tree, anchor, f"trigger.steps.{step.name}.requires")
    return find_one(tree, step.tap, f"trigger.steps.{step.name}.tap")


def _steps(app: App, run: TriggerRun, tree: UiTree, before_paying: Callable[[], None]) -> TriggerRun:
    """Every step once. From here on nothing is raised: what went wrong is part of the result."""
    for place, step in enumerate(app.profile.trigger.steps):
        name = f"trigger.steps.{step.name}"
        try:
            if place:
                tree = _await_control(app, step, name)
            elif not app.looker.fresh(tree) and run.expected is not None:
                tree = _same_page(app, run.expected)
            node = _control(tree, step)
            if step.paying:
                before_paying()
            x, y = app.looker.target(tree, node, name)
        except DeviceError as error:
            return attrs.evolve(run, problem=error)
        run = attrs.evolve(run, sent_s=app.clock.monotonic_s())
        try:
            result = app.device.tap(x, y, package=app.profile.app.package)
        except DeviceError as error:
            if error.command_sent:
                run = attrs.evolve(
                    run, taps=(*run.taps, step.name), paying_sent=run.paying_sent or step.paying
                )
            return attrs.evolve(run, problem=error)
        if not result.accepted:
            return attrs.evolve(run, refused=result.refusal or "refused")
        run = attrs.evolve(run, taps=(*run.taps, step.name), paying_sent=run.paying_sent or step.paying)
        app.clock.sleep(app.profile.pace.page_settle_s)
    return run


def _await_control(app: App, step: Step, name: str) -> UiTree:
    """The screen on which the next step's control has appeared; looks only."""

    def appeared(tree: UiTree) -> bool:
        anchors = (*step.requires, step.tap)
        return all(len(find_all(tree, anchor)) == 1 for anchor in anchors)

    return app.looker.wait_for(appeared, "dialog", name)


@attrs.frozen
class _Sign:
    """What one look after the taps said: an outcome at once, or what may become one when the time is up."""

    outcome: Outcome | None
    reason: str
    detail: str
    tree: UiTree | None
    label: int | None = None


def _look(app: App, run: TriggerRun) -> _Sign:
    """One look after the taps, with the page's own words for it."""
    try:
        tree = app.looker.raw_look("detail")
    except DeviceError as error:
        return _Sign(None, error.failure, error.detail, None)
    profile = app.profile
    foreign = foreign_reason(tree, profile.app.package)
    if foreign is not None:
        return _Sign(None, foreign.failure, foreign.detail, tree)
    label = read_quota(tree, profile)
    left = label.left if label else None
    if any(re.search(p, n.label) for p in profile.trigger.success_texts for n in tree.nodes if n.label):
        return _Sign("confirmed", "success_text", "the app says that it is done", tree, left)
    wall = read_access(tree, profile)
    if wall is not None:
        proven = wall.kind in _PROOF_WALLS
        return _Sign(
            "not_occurred" if proven else None, "access_control", f"{wall.kind}: {wall.text}", tree, left
        )
    state, _ = read_button(tree, profile)
    if state in ("busy", "done"):
        mine = run.expected is None or same_report(run.expected, _facts(tree, app))
        if mine:
            return _Sign("confirmed", f"button_{state}", "the download button changed", tree, left)
        return _Sign(None, "detail_mismatch", "another report's page is shown", tree, left)
    if profile.trigger.confirm_dialog is not None and find_all(tree, profile.trigger.confirm_dialog):
        return _Sign(None, "dialog_open", "the confirm dialog is still open", tree, left)
    if state == "idle":
        return _Sign(None, "no_new_file", "the download button is idle", tree, left)
    return _Sign(None, "anchor_drift", "the page shows no download button", tree, left)


def _facts(tree: UiTree, app: App) -> ReportFacts:
    try:
        return read_detail(tree, app.profile, app.looker.phone_now()).facts
    except DeviceError:
        return ReportFacts(None, False, None, None, None, None, None, None, None, None, None, None, None)


def watch_outcome(
    app: App,
    run: TriggerRun,
    *,
    new_file: Callable[[], bool] | None = None,
    patience_s: float | None = None,
) -> TriggerOutcome:
    """Decide what the taps did, looking for at most `patience_s` (default: the profile's settle time twice).

    `new_file` says whether a new cache file of this report has appeared; its `DeviceError` counts as "no".
    """
    settle_s = app.profile.trigger.settle_s
    end_s = run.sent_s + max(settle_s, 2 * settle_s if patience_s is None else patience_s)
    while True:
        sign = _look(app, run)
        if sign.outcome is not None:
            return _verdict(app, sign.outcome, sign)
        if _has_file(new_file):
            return _verdict(
                app, "confirmed", attrs.evolve(sign, reason="new_file", detail="a new file appeared")
            )
        now_s = app.clock.monotonic_s()
        early = _proof_without_waiting(run, sign)
        if early is not None:
            return _verdict(app, "not_occurred", early)
        if now_s - run.sent_s >= settle_s and _idle_proof(run, sign):
            return _verdict(app, "not_occurred", sign)
        if now_s >= end_s:
            return _verdict(app, "uncertain", sign)
        app.clock.sleep(app.profile.pace.poll_s)


def _has_file(new_file: Callable[[], bool] | None) -> bool:
    try:
        return new_file is not None and new_file()
    except DeviceError:
        return False


def _proof_without_waiting(run: TriggerRun, sign: _Sign) -> _Sign | None:
    """The paying tap was refused by the phone, or provably never left us."""
    if run.refused is not None and not run.paying_sent:
        return attrs.evolve(
            sign, reason="trigger_refused", detail=f"the phone refused the tap: {run.refused[:120]}"
        )
    if not run.paying_sent:
        problem = run.problem
        reason = problem.failure if problem is not None else "trigger_refused"
        detail = problem.detail if problem is not None else "the paying tap was not sent"
        return attrs.evolve(sign, reason=reason, detail=detail)
    return None


def _idle_proof(run: TriggerRun, sign: _Sign) -> bool:
    """After the settle time: dialog still open (R21), or button idle and label as before."""
    if sign.reason == "dialog_open":
        return True
    if sign.reason != "no_new_file":
        return False
    return run.label_before is None or sign.label == run.label_before


def _verdict(app: App, outcome: Outcome, sign: _Sign) -> TriggerOutcome:
    """The outcome with its hashes; a confirmed one needs no picture, and pictures cost time on the phone."""
    dump_hash = sign.tree.digest if sign.tree is not None else None
    seen = None
    if sign.tree is not None and outcome != "confirmed":
        seen = capture(app.device, sign.tree)
    picture_hash = None if seen is None else seen.screenshot_sha256
    return TriggerOutcome(outcome, sign.reason, sign.detail, dump_hash, picture_hash, sign.label, seen)


def cancel_dialog(app: App) -> bool:
    """Close the confirm dialog by its cancel button, after a `not_occurred`; True when it was there."""
    profile: Profile = app.profile
    if profile.trigger.confirm_dialog is None or profile.trigger.cancel is None:
        return False
    tree = app.looker.raw_look("dialog")
    if foreign_reason(tree, profile.app.package) or not find_all(tree, profile.trigger.confirm_dialog):
        return False
    app.looker.tap(tree, find_one(tree, profile.trigger.cancel, "trigger.cancel"), "trigger.cancel")
    app.clock.sleep(profile.pace.page_settle_s)
    return True


def run_export(app: App) -> None:
    """Tap the export route's steps, each once; its taps cost nothing, so failures are simply raised.

    A target that grew too old before its tap left us was not tapped: it is looked for again, a few times.
    """
    for place, step in enumerate(app.profile.cache.export):
        name = f"cache.export[{place}]"
        for attempt in range(_FRESH_TRIES):
            tree = _await_control(app, step, name)
            node = _control(tree, step)
            if app.looker.fresh(tree) or attempt == _FRESH_TRIES - 1:
                break
        app.looker.tap(tree, node, name)
        app.clock.sleep(app.profile.pace.page_settle_s)
