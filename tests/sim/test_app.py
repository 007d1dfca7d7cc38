"""The app: from the list to the file in the cache, what it costs, and every way in which it can go wrong."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import attrs
import pymupdf
import pytest

from hibor.sim.downloads import CACHE_FOLDER
from hibor.sim.scenario import Fault, load_scenario
from hibor.sim.screens import APP_PACKAGE, Widget, Window, window_xml
from hibor.sim.seam import PhoneCore
from hibor.sim.truth import served_counts
from tests.sim.driving import LONG_S, MORNING, Person, VirtualClock, nodes_of, started, with_faults


def test_core_keeps_the_seam(tmp_path: Path) -> None:
    core: PhoneCore = Person(tmp_path).phone
    assert core.props["ro.product.model"] == "SIM-A1"
    assert core.packages()[APP_PACKAGE].version_name == "7.2.1"


def test_default_phone_has_forty_reports_twenty_downloads_and_four_of_the_ten_newest(tmp_path: Path) -> None:
    person = started(tmp_path)
    assert len(person.phone.feed.reports()) == 40
    assert person.quota_label() == "今日剩余 20 次"
    cached = person.cache()
    assert len(cached) == 4
    ten = person.phone.feed.reports()[:10]
    in_cache = [one for one in ten if person.phone.downloads.in_cache(one.report_id)]
    assert len(in_cache) == 4
    for report in in_cache:
        name = next(name for name in cached if report.title in name)
        assert name.startswith(report.institution) and name.endswith(f"-{report.published:%y%m%d}.pdf")
        assert not report.stock_code or f"-{report.stock_code}-" in name
        with pymupdf.open(stream=cached[name]) as document:
            assert document.page_count == report.pages and report.title in document[0].get_text()


def test_list_to_detail_to_dialog_to_file(tmp_path: Path) -> None:
    person = started(tmp_path)
    report = person.phone.feed.at_rank(1)
    person.open_rank(1)
    assert person.find("detail_title").text == report.title
    assert person.find("detail_code").text == f"编号 {report.report_id}"
    assert person.find("detail_analysts").text.startswith("分析师：")
    assert person.find("btn_download").text == "下载"
    person.tap("btn_download")
    assert person.find("dialog_message").text == "下载将消耗 1 次下载额度，确定下载？"
    # A dialog is a window of its own: nothing of the page behind it is in the dump.
    assert "detail_title" not in person.ids()
    assert not person.truth("served")
    person.tap("dialog_ok")
    assert person.find("btn_download").text.startswith("下载中")
    assert person.quota_label() == "今日剩余 19 次"
    person.clock.sleep(LONG_S)
    assert person.find("btn_download").text == "打开"
    assert len(person.cache()) == 5
    assert [event.report_id for event in person.truth("served")] == [report.report_id]


def test_cancel_costs_nothing(tmp_path: Path) -> None:
    person = started(tmp_path)
    person.open_rank(1)
    person.tap("btn_download")
    person.tap("dialog_cancel")
    assert person.find("btn_download").text == "下载"
    assert person.quota_label() == "今日剩余 20 次" and not person.truth("served")


def test_file_grows_as_temp_and_is_then_renamed(tmp_path: Path) -> None:
    scenario = load_scenario("default")
    scenario = attrs.evolve(scenario, pace=attrs.evolve(scenario.pace, cache_bytes_per_s=20_000.0))
    person = started(tmp_path, scenario)
    before = set(person.cache())
    person.order(1)
    sizes: list[int] = []
    for _ in range(100):
        person.clock.sleep(0.5)
        new = {name: data for name, data in person.cache().items() if name not in before}
        if new and next(iter(new)).endswith(".pdf"):
            break
        sizes += [len(data) for name, data in new.items() if name.endswith(".pdf.temp")]
    assert len(sizes) > 5 and sizes == sorted(sizes) and sizes[0] < sizes[-1]
    (name, data), = new.items()
    assert name.endswith(".pdf") and len(data) > sizes[-1]


def test_download_survives_leaving_the_page_and_says_so(tmp_path: Path) -> None:
    person = started(tmp_path)
    person.order(1)
    person.look()
    person.back()
    assert person.find("report_list")
    toasts = [person.ids() & {"toast_text"} for _ in range(12)]
    assert {"toast_text"} in toasts
    assert len(person.cache()) == 5


def test_two_downloads_run_side_by_side(tmp_path: Path) -> None:
    person = started(tmp_path, "slow")
    first = person.order(1)
    person.look()
    person.back()
    second = person.order(3)
    assert {first, second} == {event.report_id for event in person.truth("served")}
    person.clock.sleep(61.0)
    assert len(person.cache()) == 6


def test_cached_report_shows_open_and_is_never_served(tmp_path: Path) -> None:
    person = started(tmp_path)
    person.open_rank(2)
    assert person.find("btn_download").text == "打开"
    person.tap("btn_download")
    assert "reader_page" in person.ids()
    assert not person.truth("served") and len(person.truth("tap")) == 2


def test_second_confirm_while_the_dialog_closes_is_not_served_twice(tmp_path: Path) -> None:
    person = started(tmp_path)
    person.open_rank(1)
    person.tap("btn_download")
    box = person.find("dialog_ok").middle
    for _ in range(4):
        person.phone.tap(*box)
    assert served_counts(person.truth()) == {person.phone.feed.at_rank(1).report_id: 1}


def test_every_tap_is_in_the_truth_with_what_it_hit(tmp_path: Path) -> None:
    person = started(tmp_path)
    report_id = person.order(1)
    person.clock.sleep(1.0)
    person.phone.tap(5, 5)
    taps = person.truth("tap")
    controls = [tap.detail.split(" ")[1] for tap in taps]
    assert controls == ["report_row", "btn_download", "dialog_ok", "nothing"]
    assert [tap.report_id for tap in taps] == [report_id] * 3 + [None]
    times = [event.t for event in person.truth()]
    assert times == sorted(times)
    assert [event.event for event in person.truth()].index("served") == 4


def test_quota_runs_out_and_comes_back_at_midnight_in_shanghai(tmp_path: Path) -> None:
    clock = VirtualClock(MORNING + timedelta(hours=14, minutes=50))
    scenario = load_scenario("default")
    person = Person(tmp_path, attrs.evolve(scenario, quota=attrs.evolve(scenario.quota, used=20)), clock)
    person.begin()
    assert person.quota_label() == "今日剩余 0 次"
    person.open_rank(1)
    person.tap("btn_download")
    assert person.find("dialog_message").text == "今日下载额度已用完"
    assert [event.detail for event in person.truth("refused")] == ["exhausted"]
    person.tap("dialog_ok")
    clock.sleep(600.0)
    assert person.quota_label() == "今日剩余 20 次"


def test_history_lists_paid_and_earlier_downloads_newest_first(tmp_path: Path) -> None:
    person = started(tmp_path)
    report_id = person.order(1)
    person.look()
    person.back()
    person.look()
    person.tap("tab_me")
    person.tap("menu_history")
    codes = [node.text for node in person.look() if node.id_name == "history_code"]
    assert codes[0] == f"编号 {report_id}" and len(codes) == 5
    assert "history_time" in person.ids()
    person.back()
    person.tap("tab_home")
    assert "report_list" in person.ids()


# -- dumps and pictures ----------------------------------------------------------------------------------


def test_xml_is_what_uiautomator_writes(tmp_path: Path) -> None:
    person = started(tmp_path)
    xml = person.phone.dump_xml(False).xml
    assert xml is not None
    text = xml.decode()
    head = "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>"
    assert text.startswith(head + '<hierarchy rotation="0"><node index="0"')
    first = text[text.index("<node") : text.index(">", text.index("<node"))]
    keys = [part.split("=")[0] for part in first.removeprefix("<node ").split()]
    assert keys == [
        "index", "text", "resource-id", "class", "package", "content-desc", "checkable", "checked",
        "clickable", "enabled", "focusable", "focused", "scrollable", "long-clickable", "password",
        "selected", "bounds",
    ]
    assert "sim" not in text.lower().replace("hibor", "")


def test_compressed_dump_has_the_same_texts_and_fewer_nodes(tmp_path: Path) -> None:
    person = started(tmp_path)
    plain, small = person.phone.dump_xml(False).xml, person.phone.dump_xml(True).xml
    assert plain is not None and small is not None
    assert [n.text for n in nodes_of(small) if n.text] == [n.text for n in nodes_of(plain) if n.text]
    assert len(nodes_of(small)) < len(nodes_of(plain))


def test_text_that_xml_cannot_carry_becomes_dots() -> None:
    window = Window(Widget("android.widget.TextView", (0, 0, 9, 9), text='a😀b\x0bc<"&\n\u202e\ufffe'))
    (node,) = nodes_of(window_xml(window, 0))
    assert node.text == 'a..b.c<"&\n\u202e.'


def test_picture_has_the_size_of_the_display_and_shows_a_screen(tmp_path: Path) -> None:
    person = started(tmp_path)
    picture = pymupdf.Pixmap(person.phone.screencap_png())
    assert (picture.width, picture.height) == (1080, 2340)
    assert len(set(picture.samples[::997])) > 3
    secret = started(tmp_path / "secure", "screen_black")
    assert set(pymupdf.Pixmap(secret.phone.screencap_png()).samples[::997]) == {0}


def test_display_override_and_rotation_move_bounds_and_taps_together(tmp_path: Path) -> None:
    small = started(tmp_path / "a", "screen_override")
    assert small.phone.display().override == (720, 1560)
    assert all(node.bounds[2] <= 720 and node.bounds[3] <= 1560 for node in small.look())
    small.open_rank(1)
    assert "detail_title" in small.ids()
    turned = started(tmp_path / "b", "screen_rotated")
    xml = turned.phone.dump_xml(False).xml
    assert xml is not None and b'rotation="1"' in xml
    assert max(node.bounds[2] for node in nodes_of(xml)) == 2340


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("dump_null_root", "null root node"), ("dump_never_idle", "could not get idle state"),
        ("dump_slot_taken", "already registered"),
    ],
)
def test_failed_dumps_say_so_and_write_nothing(tmp_path: Path, kind: str, words: str) -> None:
    person = started(tmp_path, with_faults(Fault(kind, "dump", call=2)))
    person.look()
    result = person.phone.dump_xml(False)
    assert words in result.output and result.xml is None
    assert "report_list" in person.ids()


def test_never_idle_may_work_compressed(tmp_path: Path) -> None:
    person = started(tmp_path, "dump_never_idle")
    assert person.phone.dump_xml(False).xml is None
    assert person.phone.dump_xml(True).xml is not None


def test_stale_dump_shows_the_screen_before(tmp_path: Path) -> None:
    person = started(tmp_path, with_faults(Fault("dump_stale", "dump", call=2, times=2)))
    row = next(node for node in person.look() if node.id_name == "report_row")
    person.phone.tap(*row.middle)
    assert "report_list" in person.ids() and "report_list" in person.ids()
    assert "detail_title" in person.ids()


def test_junk_dump_is_no_xml(tmp_path: Path) -> None:
    person = started(tmp_path, "dump_junk")
    xml = person.phone.dump_xml(False).xml
    assert xml is not None and b"&#0;" in xml
    with pytest.raises(SyntaxError):
        nodes_of(xml)


def test_drifted_anchors_have_other_names(tmp_path: Path) -> None:
    person = started(tmp_path, "anchor_drift")
    assert "item_root" in person.ids() and "report_row" not in person.ids()


# -- surviving a kill -------------------------------------------------------------------------------------


def test_a_killed_phone_goes_on_where_it_was(tmp_path: Path) -> None:
    person = started(tmp_path)
    report_id = person.order(1)
    facts = {name: stat for name, stat in person.phone.vfs.list(CACHE_FOLDER)}
    # No close(): the process is gone; what is on disk must do.
    person.clock.sleep(LONG_S)
    later = Person(tmp_path, "default", person.clock)
    later.begin()
    assert later.quota_label() == "今日剩余 19 次"
    assert later.phone.downloads.in_cache(report_id) and len(later.cache()) == 5
    for name, stat in later.phone.vfs.list(CACHE_FOLDER):
        if name in facts:
            assert stat == facts[name]
    assert [event.event for event in later.truth()].count("served") == 1
    assert later.truth()[-1].t >= 0


def test_spent_faults_stay_spent_after_a_kill(tmp_path: Path) -> None:
    person = started(tmp_path, with_faults(Fault("dump_null_root", "dump")))
    assert person.phone.dump_xml(False).xml is None
    later = Person(tmp_path, person.scenario, person.clock)
    assert later.phone.dump_xml(False).xml is not None


def test_file_removed_through_adb_stays_removed(tmp_path: Path) -> None:
    person = started(tmp_path)
    name = next(iter(person.cache()))
    person.phone.vfs.remove(f"{CACHE_FOLDER}/{name}", checked=True)
    person.phone.close()
    later = Person(tmp_path, "default", person.clock)
    assert name not in later.cache() and len(later.cache()) == 3
    later.begin()
    later.open_rank(next(r for r in (2, 5, 7, 9) if later.phone.feed.at_rank(r).title in name))
    assert later.find("btn_download").text == "下载"


def test_reports_of_a_phone_stay_its_own_under_another_scenario(tmp_path: Path) -> None:
    person = started(tmp_path)
    person.order(1)
    person.clock.sleep(LONG_S)
    person.phone.close()
    for name in ("empty_feed", "hostile_names"):
        later = Person(tmp_path, name, person.clock)
        assert later.phone.feed.reports() == person.phone.feed.reports()
        later.begin()
        later.tap("tab_me")
        later.tap("menu_history")
        assert len([node for node in later.look() if node.id_name == "history_row"]) == 5
