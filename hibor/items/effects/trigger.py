"""P01 and P02: the open detail page, the one tap, and what it turned out to be (rulings R14, R18, R21;
design 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from hibor.device.errors import DeviceError
from hibor.device.evidence import ScreenEvidence, capture
from hibor.device.history import in_history
from hibor.device.navigate import App, same_report
from hibor.device.patient import BROKEN
from hibor.device.reading import DetailScreen, ReportFacts
from hibor.device.trigger import (
    AlreadyDownloaded,
    Prepared,
    TriggerOutcome,
    TriggerRun,
    cancel_dialog,
    prepare,
    press,
    watch_outcome,
)
from hibor.items.effects.export import export, export_downloaded, needed
from hibor.items.effects.match import Search, find_later, find_now, look_once
from hibor.items.failures import EffectFailure
from hibor.items.kept_screen import keep_failure, keep_note, keep_screen
from hibor.package.match import named_like

if TYPE_CHECKING:
    from hibor.items.catalogue import CatalogueEntry
    from hibor.items.item import ItemRun

HISTORY_SPARE_S: Final = 15.0
"""Seconds of phone work that are left for the rest when the download history is not read any further."""


def open_detail(item: ItemRun) -> str:
    """Find the row again, open its page, compare it, and stop in front of the first control."""
    services, entry = item.services, item.job.entry
    services.deadline.require_phone_time(services.pace.trigger_s)
    app, cache = services.require_app(), services.require_cache()
    page = approach(app, entry)
    if not same_report(expected_facts(entry), page.facts):
        raise EffectFailure("detail_mismatch", "the page that opened is not the report of the catalogue")
    item.draft.learned_analysts = page.facts.analysts
    item.draft.baseline = cache.listing()
    _wait_for_turn(item, page)
    prepared = prepare(app, page.facts)
    if isinstance(prepared, AlreadyDownloaded):
        export_downloaded(item)
        raise EffectFailure(
            "already_downloaded", "the app already holds this report's file; nothing was tapped"
        )
    item.draft.prepared = prepared
    return "detail_open"


def _wait_for_turn(item: ItemRun, page: DetailScreen) -> None:
    """Wait for the spacing, so that the dump the first tap rests on is fresh when the turn comes."""
    services, looker = item.services, item.services.require_app().looker
    lead_s = services.pacer.lead_s
    left_s = services.pacer.left_s(lead_s)
    if left_s > looker.dump_s and looker.age_s(page.tree) + left_s > looker.profile.pace.max_dump_age_s:
        services.pacer.wait_for_turn(lead_s + looker.dump_s)
        services.require_app().detail_screen(anew=True)
    services.pacer.wait_for_turn(lead_s)


def approach(app: App, entry: CatalogueEntry) -> DetailScreen:
    """Open a report's page, unless it is the one that is open; taps no control of it.

    Where opening is free, a link that broke on the way costs one more walk, begun by looking where we are.
    """
    if app.opened == entry.report_id:
        return app.detail_screen()
    try:
        app.ensure_list()
        return app.open_detail(app.find_row(entry.report_id))
    except DeviceError as error:
        free = app.profile.detail.opening_is_free and app.profile.quota.charged_on != "open"
        if error.failure not in BROKEN or not free:
            raise
    app.open_app()
    return app.open_detail(app.find_row(entry.report_id))


def intent_journal(item: ItemRun) -> None:
    """Step `intent.journal`: from here on a download may have been asked for. The day is checked once
    more."""
    services, draft = item.services, item.draft
    prepared: Prepared = draft.prepared
    services.calendar.check(services.clock.now(), services.day)
    data = {
        "baseline": [attrs.asdict(file) for file in draft.baseline],
        "dump_sha256": prepared.evidence.dump_sha256,
        "screenshot_sha256": prepared.evidence.screenshot_sha256,
        "label_before": prepared.label_before,
        "analysts": None if draft.learned_analysts is None else list(draft.learned_analysts),
        "ledger_head": services.require_ledger().head.to_dict(),
        "phone": services.require_device().identity.mark,
    }
    item.note("TRIGGER_INTENT", data, step="intent.journal")


def trigger(item: ItemRun) -> str:
    """Tap each control once and decide what came of it. Never repeated, whatever happens."""
    services, draft = item.services, item.draft
    app = services.require_app()
    before: ScreenEvidence = draft.prepared.evidence
    begun_s = services.clock.monotonic_s()
    run = press(app, draft.prepared, before_paying=services.pacer.wait_for_turn)
    services.pacer.triggered(run.sent_s, begun_s=begun_s if run.paying_sent else None)
    draft.prepared = None
    seen = Search()
    try:
        outcome = watch_outcome(app, run, new_file=lambda: _has_come(item, seen))
    except DeviceError as error:
        draft.detail = error.detail
        keep_failure(item.folder.evidence, services, error.failure, error.detail)
        return "uncertain" if run.paying_sent else "not_occurred"
    verdict = _books_verdict(run, outcome)
    draft.detail = outcome.detail
    draft.trigger_evidence = {
        "outcome": verdict,
        "reason": outcome.reason,
        "taps": list(run.taps),
        "dump_sha256": outcome.dump_sha256,
        "screenshot_sha256": outcome.screenshot_sha256,
        "label_after": outcome.label_after,
    }
    if verdict != "confirmed":
        _keep_screens(item, before, outcome)
    services.follow_label(outcome.label_after)
    services.on_outcome(outcome.reason, outcome.detail)
    _leave_page(item, proven_idle=verdict == "not_occurred")
    return verdict


def _books_verdict(run: TriggerRun, outcome: TriggerOutcome) -> str:
    """What the ledger is told. A paying tap whose acknowledgement was lost is in doubt even where the app
    shows a download: nobody can say how often it arrived. Its file is then found in the cache."""
    if outcome.outcome == "confirmed" and run.paying_sent and run.problem is not None:
        return "uncertain"
    return outcome.outcome


def _has_come(item: ItemRun, seen: Search) -> bool:
    """True when a new cache file of this very report is there, by its name or its content (design 5 P03).

    A late file of another report is no sign for this one.
    """
    new = item.services.require_cache().new_since(item.draft.baseline)
    if any(named_like(file.path, item.job.entry) for file in new):
        return True
    try:
        return bool(new) and look_once(item, seen) is not None
    except EffectFailure:
        return False


def _keep_screens(item: ItemRun, before: ScreenEvidence, outcome: TriggerOutcome) -> None:
    """The screens before the first tap and after the last, where it is not plain what the taps did."""
    folder, services = item.folder.evidence, item.services
    keep_screen(folder, services, outcome.reason, "before the first tap", before)
    words, app = f"after the taps: {outcome.detail}", services.require_app()
    if outcome.seen is not None:
        keep_screen(folder, services, outcome.reason, words, outcome.seen)
    elif app.last_tree is not None and app.last_tree.digest == outcome.dump_sha256:
        keep_screen(folder, services, outcome.reason, words, capture(app.device, app.last_tree))
    else:
        keep_note(folder, services, outcome.reason, f"{words}; the screen could not be read")


def _leave_page(item: ItemRun, *, proven_idle: bool) -> None:
    """Close a dialog that would cover the next item, and leave a page whose download survives that.

    A courtesy to the next item: it must not cost this one.
    """
    app = item.services.require_app()
    try:
        if proven_idle:
            cancel_dialog(app)
        if proven_idle or app.profile.detail.survives_leaving:
            app.back()
    except DeviceError as error:
        item.services.log.warning("the page could not be left: %s", error.detail)


def look(item: ItemRun) -> str:
    """Recovery of P02-N: the phone is looked at and never tapped; without the file the trigger is uncertain.

    The app's download history is no proof: it does not say which tap a download came of, and a report that is
    asked for again was in it before.
    """
    item.services.deadline.require_phone_time()
    return "uncertain" if find_now(item) is None else "confirmed"


def _in_history(item: ItemRun) -> bool:
    """True when the app's own download history has the report, so that its file may be on the way."""
    services = item.services
    app, report_id = services.require_app(), item.job.entry.report_id
    try:
        app.open_app()
        return in_history(app, report_id, may_go_on=lambda: services.deadline.remaining_s() > HISTORY_SPARE_S)
    except DeviceError as error:
        services.log.warning("the download history could not be read: %s", error.detail)
        return False


def decide(item: ItemRun) -> str:
    """P02-V: go on to the cache, or close; an uncertain trigger gets its one later look (rulings R10,
    R14)."""
    draft = item.draft
    if not item.machine.may("seek", item.facts()):
        if draft.quota_state == "RELEASED":
            raise EffectFailure(
                "trigger_refused", draft.detail or "it is proved that no download was started"
            )
        if needed(item):
            export(item)
        draft.identity = find_later(item, under_way=_under_way(item))
        if draft.identity is None:
            raise EffectFailure(
                "trigger_unresolved", draft.detail or "no file appeared and nothing proves a download"
            )
    return "seek"


def _under_way(item: ItemRun) -> bool:
    """True when the file is worth waiting for: the app showed a download although the tap is in doubt, or has
    the report in its history after a crash."""
    if item.recovering:
        return _in_history(item)
    evidence = item.draft.trigger_evidence or {}
    return str(evidence.get("reason", "")).startswith(("button_", "success_text", "new_file"))


def append_quota(item: ItemRun, event_type: str, step: str) -> None:
    """The quota terminal, with the evidence it rests on."""
    evidence = item.draft.trigger_evidence or {"recovered": True}
    item.append_event(event_type, evidence, step=step)


def seek_journal(item: ItemRun) -> None:
    """Step `seek.journal`: entry into P03, with the identity an uncertain trigger needs."""
    identity = item.draft.identity
    data = {
        "state": item.services.tables.states[3],
        "identity": None if identity is None else attrs.asdict(identity),
        "changes_seen": item.draft.changes_seen,
        "ledger_head": item.services.ledger_head().to_dict(),
    }
    item.note("STATE", data, step="seek.journal")


def expected_facts(entry: CatalogueEntry) -> ReportFacts:
    """The catalogue entry in the words screens are compared in."""
    return ReportFacts(
        report_id=entry.report_id,
        id_read=False,
        title=entry.title,
        institution=entry.institution,
        date=entry.date,
        pages=entry.page_count_hint,
        stock_code=entry.stock_code,
        stock_name=entry.stock_name,
        industry=entry.industry,
        rating=entry.rating,
        report_type=entry.report_type,
        analysts=entry.analysts,
        summary=None,
    )
