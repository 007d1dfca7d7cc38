"""Everything that can stand between a collector and its file: walls, dialogs, input, link and file faults."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pymupdf
import pytest

from hibor.sim.downloads import CACHE_FOLDER
from hibor.sim.scenario import Fault, Scenario
from hibor.sim.screens import APP_PACKAGE
from hibor.sim.seam import LinkFault
from tests.sim.driving import LONG_S, MORNING, Person, started, with_faults


@pytest.mark.parametrize(
    ("kind", "mark"),
    [
        ("login_wall", "登录"), ("captcha_wall", "请完成验证"),
        ("member_wall", "该报告为会员专享，开通会员后可下载"),
        ("kicked_out", "账号已在其他设备登录"), ("risk_wall", "操作频繁，请稍后再试"),
    ],
)
@pytest.mark.parametrize("site", ["open_detail", "download", "confirm"])
def test_walls_come_up_where_they_should_and_cost_nothing(
    tmp_path: Path, kind: str, mark: str, site: str
) -> None:
    person = started(tmp_path, with_faults(Fault(kind, site, times=0)))
    report_id = person.open_rank(1)
    if site != "open_detail":
        person.tap("btn_download")
    if site == "confirm":
        person.tap("dialog_ok")
    assert mark in person.texts()
    assert [(event.report_id, event.detail) for event in person.truth("refused")] == [(report_id, kind)]
    assert not person.truth("served")


def test_a_fault_can_begin_at_any_moment(tmp_path: Path) -> None:
    person = started(tmp_path)
    person.phone.meet(Fault("login_wall", "open_detail"))
    person.open_rank(1)
    assert "登录" in person.texts()
    person.back()
    person.open_rank(2)
    assert "登录" not in person.texts(), "it struck once"


def test_wall_at_start_replaces_the_list(tmp_path: Path) -> None:
    assert "login_root" in started(tmp_path, "login_at_start").ids()


def test_blocked_input_is_refused_and_hits_nothing(tmp_path: Path) -> None:
    person = started(tmp_path, "input_blocked")
    for result in (
        person.phone.tap(540, 700), person.phone.keyevent("0"), person.phone.swipe(540, 1800, 540, 900, 300),
        person.phone.text("abc"),
    ):
        assert "INJECT_EVENTS" in result.stderr and result.exit_code != 0
    assert not person.truth("tap")


def test_ignored_tap_leaves_the_dialog_open(tmp_path: Path) -> None:
    person = started(tmp_path, "tap_ignored")
    person.order(1)
    assert "dialog_ok" in person.ids() and not person.truth("served")
    person.tap("dialog_ok")
    assert len(person.truth("served")) == 1


def test_late_answer_comes_late_and_the_tap_counts(tmp_path: Path) -> None:
    person = started(tmp_path, "tap_ack_late")
    before_s = person.clock.monotonic_s()
    person.order(1)
    assert person.clock.monotonic_s() - before_s > 40.0
    assert len(person.truth("served")) == 1


def test_lost_answer_is_announced_to_the_link_for_the_paying_tap_only(tmp_path: Path) -> None:
    person = started(tmp_path, "tap_ack_lost")
    person.open_rank(1)
    x, y = person.find("btn_download").middle
    assert person.phone.link_fault("shell", f"input tap {x} {y}") is None
    person.phone.tap(x, y)
    x, y = person.find("dialog_ok").middle
    assert person.phone.link_fault("shell", f"input tap {x} {y}") == LinkFault("drop", 0.0, -1)
    person.phone.tap(x, y)
    assert len(person.truth("served")) == 1


def test_wrong_detail_page_opens_another_report(tmp_path: Path) -> None:
    person = started(tmp_path, "wrong_detail")
    report_id = person.open_rank(1)
    assert person.find("detail_code").text != f"编号 {report_id}"


def test_system_dialogs_are_other_packages_over_the_app(tmp_path: Path) -> None:
    for kind, package in (
        ("permission_dialog", "com.android.permissioncontroller"), ("anr_dialog", "android"),
        ("foreign_focus", "com.tencent.mm"), ("screen_locks", "com.android.systemui"),
    ):
        person = started(tmp_path / kind, with_faults(Fault(kind, "dump", call=2)))
        person.look()
        assert {node.package for node in person.look()} == {package}
        assert person.phone.focus()[0] == package
    assert person.phone.keyguard()


def test_back_and_start_lead_out_of_what_can_be_left(tmp_path: Path) -> None:
    person = started(tmp_path / "a", with_faults(Fault("anr_dialog", "dump", call=2)))
    person.look()
    assert "没有响应" in "".join(person.texts())
    person.back()
    assert "report_list" in person.ids()
    other = started(tmp_path / "b", with_faults(Fault("foreign_focus", "dump", call=2)))
    other.look()
    other.look()
    other.begin()
    assert "report_list" in other.ids()
    for _ in range(2):
        other.back()
        other.look()
    assert other.phone.focus()[0] == "com.android.launcher3"


def test_locked_phone_stays_locked_and_an_asleep_one_wakes(tmp_path: Path) -> None:
    locked = started(tmp_path / "a", "phone_locked")
    locked.phone.swipe(540, 2000, 540, 500, 200)
    locked.back()
    assert locked.phone.keyguard() and {node.package for node in locked.look()} == {"com.android.systemui"}
    asleep = started(tmp_path / "b", "phone_asleep")
    assert asleep.phone.wakefulness() == "Asleep" and not asleep.phone.keyguard()
    asleep.phone.tap(540, 700)
    assert not asleep.truth("opened")
    asleep.phone.keyevent("KEYCODE_WAKEUP")
    assert asleep.phone.wakefulness() == "Awake" and "report_list" in asleep.ids()


def test_missing_app_does_not_start(tmp_path: Path) -> None:
    person = Person(tmp_path, "app_missing")
    assert APP_PACKAGE not in person.phone.packages()
    assert person.phone.start(APP_PACKAGE, ".MainActivity").exit_code != 0
    assert person.phone.start(APP_PACKAGE, None).exit_code == 252


def test_device_facts_follow_the_scenario(tmp_path: Path) -> None:
    skewed = Person(tmp_path / "a", "clock_off").phone
    assert skewed.now() - MORNING == timedelta(minutes=10)
    assert Person(tmp_path / "b", "battery_low").phone.battery()[0] == 9
    assert Person(tmp_path / "c", "app_cloned").phone.packages()[APP_PACKAGE].user_ids == (0, 999)
    assert Person(tmp_path / "d", "app_untested").phone.packages()[APP_PACKAGE].version_name == "8.0.0"


def test_phone_is_replaced_at_a_command_and_stays_replaced(tmp_path: Path) -> None:
    person = Person(tmp_path, with_faults(Fault("phone_replaced", "shell", call=3)))
    first = dict(person.phone.props)
    for _ in range(3):
        assert person.phone.props["ro.serialno"] == "SIMA1000001"
        person.phone.link_fault("shell", "true")
    assert person.phone.props["ro.serialno"] != first["ro.serialno"]
    assert Person(tmp_path, "default", person.clock).phone.props == person.phone.props


def test_quota_used_elsewhere_drops_the_label_by_itself(tmp_path: Path) -> None:
    person = started(tmp_path, with_faults(Fault("quota_elsewhere", "dump", call=2, amount=3)))
    assert person.quota_label() == "今日剩余 20 次"
    assert person.quota_label() == "今日剩余 17 次"
    assert not person.truth("served")


def test_settings_are_kept(tmp_path: Path) -> None:
    person = Person(tmp_path)
    assert person.phone.settings_get("global", "nothing") == "null"
    person.phone.settings_put("global", "stay_on_while_plugged_in", "3")
    later = Person(tmp_path, "default", person.clock).phone
    assert later.settings_get("global", "stay_on_while_plugged_in") == "3"


# -- files ------------------------------------------------------------------------------------------------


def ordered(folder: Path, scenario: Scenario | str) -> tuple[Person, dict[str, bytes]]:
    """A person who paid for rank 1 and waited; and what is new in the cache."""
    person = started(folder, scenario)
    before = set(person.cache())
    person.order(1)
    person.clock.sleep(LONG_S)
    return person, {name: data for name, data in person.cache().items() if name not in before}


def test_file_never_appears_though_paid(tmp_path: Path) -> None:
    person, new = ordered(tmp_path, "file_never")
    assert new == {} and len(person.truth("served")) == 1
    assert person.find("btn_download").text == "下载中 0%"


def test_two_files_and_wrong_file(tmp_path: Path) -> None:
    _, twins = ordered(tmp_path / "a", "two_files")
    assert len(twins) == 2 and len(set(twins.values())) == 1
    person, wrong = ordered(tmp_path / "b", "wrong_file")
    ((name, data),) = wrong.items()
    report = person.phone.feed.at_rank(1)
    assert report.title in name
    with pymupdf.open(stream=data) as document:
        assert report.title not in document[0].get_text()
        assert person.phone.feed.at_rank(2).title in document[0].get_text()


def test_bad_pdf_is_what_the_cache_holds(tmp_path: Path) -> None:
    _, new = ordered(tmp_path / "a", "pdf_html")
    ((name, data),) = new.items()
    assert name.endswith(".pdf") and data.startswith(b"<!DOCTYPE html>")
    _, locked = ordered(tmp_path / "b", "pdf_encrypted")
    with pymupdf.open(stream=next(iter(locked.values()))) as document:
        assert document.needs_pass


def test_final_name_before_the_file_is_whole(tmp_path: Path) -> None:
    person = started(tmp_path, "file_renamed_early")
    before = set(person.cache())
    person.order(1)
    seen: dict[int, str] = {}
    for _ in range(400):
        person.clock.sleep(0.05)
        for name, data in person.cache().items():
            if name not in before:
                seen[len(data)] = name
    finals = [size for size, name in seen.items() if name.endswith(".pdf")]
    assert len(finals) >= 2 and min(finals) < max(finals)


def test_full_storage_leaves_an_unfinished_file_and_is_paid(tmp_path: Path) -> None:
    person, new = ordered(tmp_path, "storage_full")
    assert all(name.endswith(".temp") for name in new)
    assert person.find("btn_download").text == "下载" and len(person.truth("served")) == 1


def test_refusing_server_costs_nothing_and_works_the_second_time(tmp_path: Path) -> None:
    person, new = ordered(tmp_path, "server_refuses")
    assert new == {} and not person.truth("served") and len(person.truth("refused")) == 1
    assert person.quota_label() == "今日剩余 20 次"
    person.tap("btn_download")
    person.tap("dialog_ok")
    assert len(person.truth("served")) == 1


def test_file_grows_while_it_is_pulled(tmp_path: Path) -> None:
    person = Person(tmp_path, "file_grows_in_pull")
    name, data = next(iter(person.cache().items()))
    path = f"/sdcard/Android/data/{APP_PACKAGE}/files/Download/{name}"
    reader = person.phone.vfs.open(path)
    assert person.phone.link_fault("data", f"{path} 0") is None
    assert reader.read(10_000_000) == data + bytes(4096)
    assert person.phone.vfs.stat(path).size_bytes == len(data) + 4096


def test_link_faults_count_transfers_not_pieces(tmp_path: Path) -> None:
    fault = Fault("pull_flip", "data", call=2, match=".pdf", at_bytes=7)
    person = Person(tmp_path, with_faults(fault))
    pieces = ("a.pdf 0", "a.pdf 65536", "w.xml 0", "b.pdf 0", "b.pdf 65536", "c.pdf 0")
    asked = [person.phone.link_fault("data", f"/sdcard/{piece}") for piece in pieces]
    assert asked == [None, None, None, LinkFault("flip", 0.0, 7), None, None]


def test_unreadable_cache_is_denied_or_looks_empty_to_the_shell_user(tmp_path: Path) -> None:
    denied = Person(tmp_path / "a", "cache_denied").phone
    with pytest.raises(OSError, match="Permission denied"):
        denied.vfs.list(CACHE_FOLDER, checked=True)
    hidden = Person(tmp_path / "b", "cache_hidden").phone
    assert hidden.vfs.list(f"/sdcard/Android/data/{APP_PACKAGE}", checked=True) == []
    assert len(hidden.vfs.list(CACHE_FOLDER)) == 4


def test_hostile_names_reach_the_cache_as_they_are(tmp_path: Path) -> None:
    person = started(tmp_path, "hostile_names")
    for rank in (1, 3, 4, 6, 8):
        person.order(rank)
        person.look()
        person.back()
        person.clock.sleep(1.0)
    person.clock.sleep(LONG_S)
    names = "|".join(person.cache())
    assert "😀" in names and "$(touch _sdcard_owned)" in names and "\n" in names and "\u202e" in names
    assert all(len(name.encode()) <= 255 for name in person.cache())


def test_twin_titles_get_their_own_files(tmp_path: Path) -> None:
    person = started(tmp_path, "hostile_names")
    person.order(8)
    person.clock.sleep(LONG_S)
    assert len(person.cache()) == 5


def test_reworded_app_says_other_words_in_its_dumps_only(tmp_path: Path) -> None:
    fault = Fault("text_drift", "dump", times=0, rename=(("下载", "获取"),))
    person = started(tmp_path, with_faults(fault))
    report_id = person.open_rank(1)
    assert person.find("btn_download").text == "获取"
    person.tap("btn_download")
    person.tap("dialog_ok")
    assert [event.report_id for event in person.truth("served")] == [report_id]


def test_lost_answer_with_a_time_takes_the_whole_link(tmp_path: Path) -> None:
    person = started(tmp_path, with_faults(Fault("tap_ack_lost", "tap", control="btn_download", wait_s=60.0)))
    person.open_rank(1)
    x, y = person.find("btn_download").middle
    assert person.phone.link_fault("shell", f"input tap {x} {y}") == LinkFault("offline", 60.0, -1)


def test_dumps_after_a_tap_still_show_the_list(tmp_path: Path) -> None:
    person = started(tmp_path, with_faults(Fault("dump_stale", "open_detail", amount=2)))
    person.ids()
    person.open_rank(1)
    assert ["report_list" in person.ids() for _ in range(2)] == [True, True]
    assert "detail_title" in person.ids()


def test_outdated_file_is_replaced_under_its_own_name(tmp_path: Path) -> None:
    person = started(tmp_path, "cache_replaced")
    report = person.phone.feed.at_rank(1)
    before = {name: data for name, data in person.cache().items() if report.title in name}
    person.order(1)
    person.clock.sleep(LONG_S)
    person.phone.settle()
    after = {name: data for name, data in person.cache().items() if report.title in name}
    assert len(before) == 1 and list(after) == list(before) and after != before
