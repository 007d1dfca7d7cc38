"""The paying tap on the simulated phone: sent once, told before, judged by proof (design 5, ruling R21)."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from hibor.device.errors import DeviceError
from hibor.device.evidence import ScreenEvidence
from hibor.device.profile_types import MAX_DISMISSALS, Anchor, Dialog, Step
from hibor.device.reading import ListRow
from hibor.device.trigger import (
    AlreadyDownloaded,
    TriggerOutcome,
    TriggerRun,
    cancel_dialog,
    run_export,
    run_trigger,
    watch_outcome,
)
from hibor.sim.server import PrivateAdbServer
from tests.device.phones import PROFILE, Bench, bench
from tests.device.test_navigate import fault


def first_page(run: Bench, place: int = 0) -> ListRow:
    row = run.app.open_app().entries()[place]
    run.app.open_detail(row)
    return row


def triggered(run: Bench) -> tuple[ListRow, TriggerRun, TriggerOutcome]:
    row = first_page(run)
    done = run_trigger(run.app, row.facts, lambda evidence: None)
    assert isinstance(done, TriggerRun)
    return row, done, watch_outcome(run.app, done)


def test_confirmed_by_the_after_state_with_each_control_tapped_once(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    with bench(adb_server, tmp_path) as run:
        row = first_page(run)
        told: list[tuple[ScreenEvidence, int]] = []
        done = run_trigger(run.app, row.facts, lambda e: told.append((e, len(run.truth("tap")))))
        assert isinstance(done, TriggerRun) and done.taps == ("download", "confirm") and done.paying_sent
        (evidence, taps_before) = told[0]
        assert len(told) == 1 and taps_before == 1  # the row's tap; told before any of the trigger's
        assert len(evidence.dump_sha256) == 64 and evidence.screenshot_sha256 and not evidence.black
        outcome = watch_outcome(run.app, done)
        assert outcome.outcome == "confirmed" and outcome.reason.startswith("button_")
        assert outcome.label_after == 19 and outcome.dump_sha256
        assert run.taps("btn_download") == run.taps("dialog_ok") == 1 and run.served() == [row.report_id]


def test_f28_a_file_the_app_already_has_is_not_tapped_for(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    with bench(adb_server, tmp_path, "[cache]\nprefilled = [1]\n") as run:
        row = first_page(run)
        done = run_trigger(run.app, row.facts, lambda e: pytest.fail("nothing may be announced"))
        assert isinstance(done, AlreadyDownloaded) and not done.busy
        assert run.taps("btn_download") == 0 and run.served() == []


def test_what_the_callback_raises_prevents_every_tap(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    def no_journal(evidence: ScreenEvidence) -> None:
        raise OSError(28, "disk full")

    with bench(adb_server, tmp_path) as run:
        row = first_page(run)
        with pytest.raises(OSError):
            run_trigger(run.app, row.facts, no_journal)
        assert run.taps("btn_download") == 0


def test_ignored_paying_tap_is_not_occurred_while_the_dialog_stays(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    with bench(adb_server, tmp_path, fault("tap_ignored", control="dialog_ok")) as run:
        _, done, outcome = triggered(run)
        assert done.paying_sent and (outcome.outcome, outcome.reason) == ("not_occurred", "dialog_open")
        assert run.taps("dialog_ok") == 1 and run.served() == []
        assert outcome.screenshot_sha256
        assert cancel_dialog(run.app) and not cancel_dialog(run.app)


def test_ignored_first_tap_never_reaches_the_paying_one(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    profile = attrs.evolve(PROFILE, pace=attrs.evolve(PROFILE.pace, page_change_s=4.0))
    with bench(adb_server, tmp_path, fault("tap_ignored", control="btn_download"), profile=profile) as run:
        _, done, outcome = triggered(run)
        assert not done.paying_sent and outcome.outcome == "not_occurred"
        assert run.taps("btn_download") == 1 and run.taps("dialog_ok") == 0


def test_refused_input_is_proof(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, fault("input_blocked", call=2, times=0)) as run:
        _, done, outcome = triggered(run)
        assert done.refused and (outcome.outcome, outcome.reason) == ("not_occurred", "trigger_refused")
        assert run.served() == []


def test_late_acknowledgement_is_one_tap(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, fault("tap_ack_late", control="dialog_ok", wait_s=5.0)) as run:
        row, _, outcome = triggered(run)
        assert (
            outcome.outcome == "confirmed" and run.taps("dialog_ok") == 1 and run.served() == [row.report_id]
        )


def test_lost_acknowledgement_is_never_not_occurred(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, fault("tap_ack_lost", control="dialog_ok")) as run:
        row, done, outcome = triggered(run)
        assert done.paying_sent and done.problem is not None and done.problem.command_sent
        assert outcome.outcome in ("confirmed", "uncertain")
        assert run.taps("dialog_ok") == 1 and run.served() == [row.report_id]


@pytest.mark.parametrize(
    ("wall", "outcome"), [("member_wall", "not_occurred"), ("risk_wall", "not_occurred")]
)
def test_wall_after_the_first_tap(
    adb_server: PrivateAdbServer, tmp_path: Path, wall: str, outcome: str
) -> None:
    with bench(adb_server, tmp_path, fault(wall, site="download")) as run:
        _, done, seen = triggered(run)
        assert not done.paying_sent and (seen.outcome, seen.reason) == (outcome, "access_control")
        assert run.served() == []


def test_risk_wall_after_the_paying_tap_is_uncertain(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    profile = attrs.evolve(PROFILE, trigger=attrs.evolve(PROFILE.trigger, settle_s=3.0))
    with bench(adb_server, tmp_path, fault("risk_wall", site="confirm"), profile=profile) as run:
        _, done, outcome = triggered(run)
        assert done.paying_sent and (outcome.outcome, outcome.reason) == ("uncertain", "access_control")


def test_quota_used_up(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, "[quota]\nlimit = 3\nused = 3\n") as run:
        _, done, outcome = triggered(run)
        assert not done.paying_sent and outcome.reason == "access_control" and "quota" in outcome.detail
        assert run.served() == []


def test_another_reports_page_is_refused_before_any_tap(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path) as run:
        rows = run.app.open_app().entries()
        run.app.open_detail(rows[1])
        with pytest.raises(DeviceError) as caught:
            run_trigger(run.app, rows[0].facts, lambda e: None)
        assert caught.value.failure == "detail_mismatch" and run.taps("btn_download") == 0


def test_foreign_window_before_the_first_tap(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, fault("permission_dialog", site="dump", call=3)) as run:
        row = first_page(run)
        run.app.looker.last_tree = None  # as if the dump had grown too old
        with pytest.raises(DeviceError) as caught:
            run_trigger(run.app, row.facts, lambda e: None)
        assert caught.value.failure == "foreign_window" and run.taps("btn_download") == 0


def test_a_dump_that_grows_old_while_the_intent_is_written_is_taken_anew(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    with bench(adb_server, tmp_path) as run:
        row = first_page(run)
        done = run_trigger(run.app, row.facts, lambda evidence: run.clock.sleep(4.0))
        assert isinstance(done, TriggerRun) and done.taps == ("download", "confirm")
        assert run.taps("btn_download") == 1 and run.served() == [row.report_id]


def test_export_steps_are_tapped_once_and_only_dialogs_the_profile_names_are_closed(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    steps = (Step("open", Anchor(id="btn_download", text="下载")),)
    asking = Dialog("ask", Anchor(id="dialog_root"), "下载将消耗", Anchor(id="dialog_cancel"))
    profile = attrs.evolve(
        PROFILE, cache=attrs.evolve(PROFILE.cache, acquire="export", export=steps), dialogs=(asking,)
    )
    with bench(adb_server, tmp_path, profile=profile) as run:
        first_page(run)
        for closed in range(1, MAX_DISMISSALS + 1):
            run_export(run.app)
            run.app.looker.look("detail")
            assert run.app.looker.dismissed == run.taps("dialog_cancel") == closed
            run.app.looker.changed()
        run_export(run.app)
        with pytest.raises(DeviceError) as caught:
            run.app.looker.look("detail")
        assert caught.value.failure == "dialog_open" and run.taps("dialog_cancel") == MAX_DISMISSALS
        assert run.served() == []


def test_a_new_file_confirms_what_the_screen_does_not(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, fault("anr_dialog", site="tap", control="dialog_ok")) as run:
        row = first_page(run)
        done = run_trigger(run.app, row.facts, lambda e: None)
        assert isinstance(done, TriggerRun)
        outcome = watch_outcome(run.app, done, new_file=lambda: True)
        assert (outcome.outcome, outcome.reason) == ("confirmed", "new_file")


def test_secure_screen_is_said(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, "[phone]\nsecure_screen = true\n") as run:
        row = first_page(run)
        told: list[ScreenEvidence] = []
        run_trigger(run.app, row.facts, told.append)
        assert told[0].black and "forbids" in told[0].note
