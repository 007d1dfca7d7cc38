"""Moving through the app on the simulated phone, with the faults of faults.md areas UI and SCAN."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from hibor.device.errors import DeviceError
from hibor.device.history import in_history
from hibor.device.navigate import App
from hibor.device.windows import AccessControlError
from hibor.sim.server import PrivateAdbServer
from tests.device.phones import PROFILE, Bench, bench


def fault(kind: str, **options: object) -> str:
    lines = [
        f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"
        for key, value in options.items()
    ]
    return "\n[[fault]]\n" + "\n".join([f'kind = "{kind}"', *lines]) + "\n"


def scan(app: App, screens: int = 40) -> list[str]:
    """Report ids from the top to the proven end."""
    found = [r.report_id for r in app.to_list_top().entries()]
    for _ in range(screens):
        following = app.next_screen()
        found += [r.report_id for r in following.new_rows if r.kind == "report"]
        if following.end:
            return [one for one in found if one]
    raise AssertionError("no end")


def word_of(run: Bench, call: object, *arguments: object) -> str:
    with pytest.raises(DeviceError) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.failure


def test_the_whole_list_then_a_detail_page_and_back(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, "[feed]\nreports = 22\npinned = [15]\nnotices = ['公告']\n") as run:
        run.app.open_app()
        label, account = run.app.read_quota_label(), run.app.read_account_label()
        assert label is not None and label.left == 20 and account is not None
        found = scan(run.app)
        assert len(found) == len(set(found)) == 22
        row = run.app.find_row(found[3])
        page = run.app.open_detail(row)
        assert page.facts.report_id == found[3] and page.button == "idle"
        assert page.facts.title == row.facts.title and page.facts.analysts
        screen = run.app.back()
        assert found[3] in [r.report_id for r in screen.rows]
        assert run.app.open_history() == ()
        assert run.app.close_history().rows
        assert run.served() == []


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.3])
def test_f110_scroll_length_is_checked_not_assumed(
    adb_server: PrivateAdbServer, tmp_path: Path, factor: float
) -> None:
    wanted = "[feed]\nreports = 22\n" + fault("swipe_factor", factor=factor, call=3, times=1)
    with bench(adb_server, tmp_path, wanted) as run:
        run.app.open_app()
        found = [r.report_id for r in run.app.list_screen().entries()]
        for _ in range(20):
            following = run.app.next_screen()
            found += [r.report_id for r in following.new_rows if r.kind == "report"]
            if following.end:
                break
        assert len(set(found)) == len(found) == 22


def test_f101_insert_and_delete_between_screens_do_not_break_continuity(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    moving = fault("feed_insert", site="swipe", call=3, amount=2) + fault(
        "feed_delete", site="swipe", call=4, amount=1
    )
    with bench(adb_server, tmp_path, "[feed]\nreports = 22\n" + moving) as run:
        run.app.open_app()
        found = scan(run.app)
        assert len(found) == len(set(found)) >= 21


def test_loading_is_never_an_end(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    profile = attrs.evolve(PROFILE, pace=attrs.evolve(PROFILE.pace, page_change_s=4.0))
    wanted = "[feed]\nreports = 30\npage_rows = 8\n" + fault("load_stuck", times=0)
    with bench(adb_server, tmp_path, wanted, profile=profile) as run:
        run.app.open_app()
        with pytest.raises(DeviceError) as caught:
            scan(run.app)
        assert caught.value.failure == "cursor_lost" and "loading" in caught.value.detail


def test_f29_f31_dump_troubles_are_passed(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    troubles = fault("dump_null_root", call=1, times=2) + fault(
        "dump_never_idle", call=4, times=1, compressed_works="X"
    )
    with bench(adb_server, tmp_path, troubles.replace('"X"', "true")) as run:
        assert run.app.open_app().rows
        assert run.app.next_screen().new_rows


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("dump_null_root", "dump_unreadable"),
        ("dump_never_idle", "dump_unreadable"),
        ("dump_slot_taken", "ui_slot_taken"),
    ],
)
def test_f29_f31_f44_dump_that_never_comes(
    adb_server: PrivateAdbServer, tmp_path: Path, kind: str, word: str
) -> None:
    with bench(adb_server, tmp_path, fault(kind, times=0)) as run:
        assert word_of(run, run.app.open_app) == word
        assert run.truth("tap") == []


def test_f34_stale_dumps_do_not_cause_a_second_tap(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, fault("dump_stale", call=2, times=2)) as run:
        screen = run.app.open_app()
        page = run.app.open_detail(screen.entries()[0])
        assert page.facts.report_id == screen.entries()[0].report_id
        assert run.taps("report_row") == 1


def test_f34_a_dump_that_stays_stale_is_said(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    profile = attrs.evolve(PROFILE, pace=attrs.evolve(PROFILE.pace, page_change_s=4.0))
    with bench(adb_server, tmp_path, fault("dump_stale", call=2, times=0), profile=profile) as run:
        screen = run.app.open_app()
        assert word_of(run, run.app.open_detail, screen.entries()[0]) == "dump_stale"
        assert run.taps("report_row") == 1


def test_tap_without_effect_is_not_repeated(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    profile = attrs.evolve(PROFILE, pace=attrs.evolve(PROFILE.pace, page_change_s=4.0))
    with bench(adb_server, tmp_path, fault("tap_ignored", control="report_row"), profile=profile) as run:
        screen = run.app.open_app()
        assert word_of(run, run.app.open_detail, screen.entries()[0]) == "cursor_lost"
        assert run.taps("report_row") == 1


def test_wrong_page_is_a_mismatch(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, fault("wrong_detail")) as run:
        screen = run.app.open_app()
        assert word_of(run, run.app.open_detail, screen.entries()[0]) == "detail_mismatch"


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("anr_dialog", "foreign_window"),
        ("permission_dialog", "foreign_window"),
        ("foreign_focus", "foreign_window"),
        ("screen_locks", "device_locked"),
    ],
)
def test_f40_f41_f42_windows_over_the_app(
    adb_server: PrivateAdbServer, tmp_path: Path, kind: str, word: str
) -> None:
    with bench(adb_server, tmp_path, fault(kind, site="dump", call=2)) as run:
        run.app.open_app()
        assert word_of(run, run.app.next_screen) == word
        assert run.truth("tap") == []


def test_f42_locked_from_the_start(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, "[phone]\nlocked = true\nasleep = true\n") as run:
        assert word_of(run, run.app.open_app) == "device_locked"


def test_f43_web_view(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    profile = attrs.evolve(PROFILE, pace=attrs.evolve(PROFILE.pace, page_change_s=4.0))
    with bench(adb_server, tmp_path, fault("webview", times=0), profile=profile) as run:
        assert word_of(run, run.app.open_app) == "opaque_webview"


@pytest.mark.parametrize("kind", ["login", "captcha", "kicked"])
def test_f47_walls_end_it_without_a_tap(adb_server: PrivateAdbServer, tmp_path: Path, kind: str) -> None:
    name = "kicked_out" if kind == "kicked" else f"{kind}_wall"
    with bench(adb_server, tmp_path, fault(name, site="start")) as run:
        with pytest.raises(AccessControlError) as caught:
            run.app.open_app()
        assert caught.value.kind == kind and run.truth("tap") == []


def test_renamed_anchor_is_diagnosed(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    drift = '\n[[fault]]\nkind = "anchor_drift"\ntimes = 0\nrename = { report_list = "reports_list" }\n'
    profile = attrs.evolve(PROFILE, pace=attrs.evolve(PROFILE.pace, page_change_s=3.0))
    with bench(adb_server, tmp_path, drift, profile=profile) as run:
        with pytest.raises(DeviceError) as caught:
            run.app.open_app()
        assert caught.value.failure == "anchor_drift" and "reports_list" in caught.value.detail
        assert run.app.last_tree is not None


@pytest.mark.parametrize("phone", ["rotation = 1", "override_width = 720\noverride_height = 1560"])
def test_f45_taps_are_in_the_dumps_own_space(
    adb_server: PrivateAdbServer, tmp_path: Path, phone: str
) -> None:
    with bench(adb_server, tmp_path, f"[phone]\n{phone}\n") as run:
        screen = run.app.open_app()
        row = screen.entries()[0]
        assert run.app.open_detail(row).facts.report_id == row.report_id


def test_f45_a_dump_of_another_space_is_not_tapped(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path) as run:
        screen = run.app.open_app()
        turned = attrs.evolve(screen.tree, rotation=1)
        with pytest.raises(DeviceError) as caught:
            run.app.looker.tap(turned, screen.entries()[0].node, "row")
        assert caught.value.failure == "dump_stale" and "rotation" in caught.value.detail
        assert run.truth("tap") == []


def test_blocked_input_is_said_with_the_way_out(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, fault("input_blocked", times=0)) as run:
        screen = run.app.open_app()
        with pytest.raises(DeviceError) as caught:
            run.app.open_detail(screen.entries()[0])
        assert caught.value.failure == "input_blocked" and "developer options" in caught.value.detail


def test_replaced_phone_stops_before_the_tap(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with bench(adb_server, tmp_path, fault("phone_replaced", site="shell", match="wm size")) as run:
        screen = run.app.open_app()
        assert word_of(run, run.app.open_detail, screen.entries()[0]) == "device_replaced"
        assert run.truth("tap") == []


def test_f34_old_dumps_in_a_row_are_no_end_of_a_list_that_names_its_end(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    stale = fault("dump_stale", call=4, times=2)
    with bench(adb_server, tmp_path, stale) as run:
        run.app.open_app()
        assert len(set(scan(run.app))) == 40


def test_f34_a_list_that_never_moves_and_never_ends_is_not_read_to_its_end(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    with bench(adb_server, tmp_path, fault("swipe_factor", times=0, factor=0.0)) as run:
        run.app.open_app()
        run.app.to_list_top()
        with pytest.raises(DeviceError) as raised:
            run.app.next_screen()
        assert raised.value.failure == "cursor_lost" and "end" in raised.value.detail


def test_a_long_download_history_is_searched_screen_by_screen(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    """Fifteen entries, eleven or so a screen: the oldest is found, one that is not there ends the search."""
    ranks = list(range(1, 16))
    with bench(
        adb_server, tmp_path, f"[feed]\nreports = 16\npinned = []\n[cache]\nprefilled = {ranks}\n"
    ) as run:
        run.app.open_app()
        found = scan(run.app)
        first = {row.report_id for row in run.app.open_history()}
        run.app.close_history()
        hidden = [report for report in found[:15] if report not in first]
        assert len(hidden) >= 2 and found[15] not in first
        assert all(in_history(run.app, report) for report in hidden)
        assert not in_history(run.app, hidden[0], may_go_on=lambda: False)
        assert not in_history(run.app, found[15])
        assert run.app.list_screen().rows and run.served() == []
