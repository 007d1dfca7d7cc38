"""The simulated app's other versions: followed by their profiles alone (issue "The phone as it really is",
item 1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from hibor.clock import ScaledClock
from hibor.device.adb import AdbDevice, AdbServer
from hibor.device.errors import DeviceError
from hibor.device.navigate import App, same_report
from hibor.device.profile import find_shipped, load_profile, parse_profile
from hibor.device.profile_types import Anchor, FieldRule, RowRule
from hibor.device.reading import (
    derived_id,
    is_detail,
    is_list,
    read_access,
    read_detail,
    read_history,
    read_list,
    read_quota,
)
from hibor.device.trigger import run_export
from hibor.device.uitree import UiTree, parse_tree
from hibor.sim.process import start_phone
from hibor.sim.scenario import Scenario, load_scenario, parse_scenario
from hibor.sim.server import PrivateAdbServer
from hibor.sim.versions import PRIVATE_FOLDER, VERSION_NAMES
from tests.main_job import MainJob, Run, check_streams, events, truth
from tests.sim.driving import Person

MERGED = load_profile("hibor-sim-2")
EXPORTED = load_profile("hibor-sim-3")
ONE_REPORT = """\
description = "One report, nothing in the phone's cache, files stored privately."
app = "3"

[feed]
reports = 3
pinned = []
notices = []
adverts_every = 0
"""


class MergedPerson(Person):
    """A person whose fingers go by version 1's places, which merging does not move."""

    def __init__(self, folder: Path, scenario: Scenario | str = "app2") -> None:
        super().__init__(folder, scenario)

    def dump(self) -> UiTree:
        result = self.phone.dump_xml(False)
        assert result.xml is not None
        return parse_tree(result.xml, taken_s=0.0)

    def now(self) -> datetime:
        return self.phone.now()


@pytest.fixture
def merged(tmp_path: Path) -> MergedPerson:
    person = MergedPerson(tmp_path / "phone")
    person.phone.start("com.huibo.research", ".MainActivity")
    person.clock.sleep(2.0)
    return person


def test_every_version_has_its_profile() -> None:
    for app, version in VERSION_NAMES.items():
        found = find_shipped("com.huibo.research", version)
        assert found is not None and found.name == f"hibor-sim-{app}"
    assert find_shipped("com.huibo.research", "8.0.0") == load_profile("hibor-sim-1")


def test_a_merged_list_is_read_row_by_row(merged: MergedPerson) -> None:
    tree = merged.dump()
    assert not any(":id/" in node.resource_id.replace("android:id/content", "") for node in tree.nodes)
    assert is_list(tree, MERGED) and not is_detail(tree, MERGED)
    screen = read_list(tree, MERGED, merged.now())
    kinds = [row.kind for row in screen.rows]
    assert kinds[:2] == ["announcement", "pinned"] and set(kinds[2:]) <= {"report", "advert"}
    newest = screen.entries()[0].facts
    report = merged.phone.feed.at_rank(1)
    assert (newest.title, newest.institution) == (report.title, report.institution)
    assert newest.date == report.date_text and newest.stock_code == (report.stock_code or None)
    assert newest.report_id == derived_id(report.institution, report.title, report.date_text)
    assert not newest.id_read
    label = read_quota(tree, MERGED)
    assert label is not None and label.left == 20
    assert screen.end is None and read_access(tree, MERGED) is None


def test_a_merged_page_and_history_tell_the_same_report(merged: MergedPerson) -> None:
    row = read_list(merged.dump(), MERGED, merged.now()).entries()[0]
    merged.phone.tap(*row.visible.center)
    merged.clock.sleep(1.0)
    tree = merged.dump()
    page = read_detail(tree, MERGED, merged.now())
    assert is_detail(tree, MERGED) and not is_list(tree, MERGED)
    assert same_report(row.facts, page.facts) and page.facts.report_id == row.report_id
    assert page.button == "idle" and page.facts.pages and page.facts.analysts and page.facts.summary
    merged.back()
    merged.clock.sleep(1.0)
    for control in ("我的", "下载记录"):
        node = next(n for n in merged.dump().nodes if n.desc == control)
        merged.phone.tap(*node.bounds.center)
        merged.clock.sleep(1.0)
    tree = merged.dump()
    assert not is_list(tree, MERGED)
    rows = read_history(tree, MERGED, merged.now())
    wanted = {merged.phone.feed.at_rank(rank) for rank in (2, 5, 7, 9)}
    ids = {derived_id(report.institution, report.title, report.date_text) for report in wanted}
    assert {one.report_id for one in rows} == ids and all(one.time for one in rows)


def test_report_text_on_a_page_without_ids_is_no_wall(merged: MergedPerson) -> None:
    row = read_list(merged.dump(), MERGED, merged.now()).entries()[0]
    merged.phone.tap(*row.visible.center)
    merged.clock.sleep(1.0)
    result = merged.phone.dump_xml(False)
    assert result.xml is not None
    for word, walled in (("摘要：开通会员", False), ("提示 开通会员", True)):
        xml = result.xml.decode().replace("摘要：", word)
        assert (read_access(parse_tree(xml.encode(), taken_s=0.0), MERGED) is not None) == walled


def test_private_files_cannot_be_read(tmp_path: Path) -> None:
    person = Person(tmp_path / "phone", "app3")
    with pytest.raises(OSError, match="Permission denied"):
        person.phone.vfs.list(PRIVATE_FOLDER, checked=True)
    assert len(person.phone.vfs.list(PRIVATE_FOLDER)) == 4
    assert len(person.phone.vfs.list("/sdcard/Download/慧博", checked=True)) == 4


def test_a_download_that_ends_while_the_phone_tidies_up_is_kept(tmp_path: Path) -> None:
    person = Person(tmp_path / "phone", "app3")
    person.begin()
    report_id = person.order(1)
    person.clock.sleep(30.0)
    person.phone.downloads.notice_removed()  # its first look at the file system lets the download end
    assert person.phone.downloads.in_cache(report_id)


def test_a_rule_needs_a_way_to_choose() -> None:
    with pytest.raises(ValueError, match="pattern"):
        FieldRule(optional=True)
    assert FieldRule(pattern="x").id is None and RowRule(anchor=Anchor(desc="x")).id is None
    data = (Path(__file__).parents[2] / "hibor/profiles/hibor-sim-3.toml").read_bytes()
    paying = data.replace(b'name = "save"', b'name = "save"\npaying = true')
    with pytest.raises(Exception, match="cost nothing"):
        parse_profile(paying, "p.toml")
    with pytest.raises(Exception, match="app"):
        parse_scenario('description = "x"\napp = "9"\n')
    assert load_scenario("app2").app == "2" and load_scenario("default").app == "1"


# -- the main job ----------------------------------------------------------------------------------------


@contextmanager
def phone_of(library: Path, scenario: Path) -> Iterator[tuple[AdbDevice, ScaledClock]]:
    """The library's own phone, in a person's hands."""
    state = library / "sim-phone"
    with PrivateAdbServer() as server, start_phone(state, scenario, 20.0, embedded=True) as phone:
        server.connect(phone.serial)
        clock = phone.clock()
        yield AdbDevice(AdbServer("127.0.0.1", server.port), phone.serial, clock=clock), clock


def checked(run: Run, library: Path) -> tuple[int, int]:
    """(served, CONFIRMED), after one document and no traceback."""
    check_streams(run)
    served = sum(line["event"] == "served" for line in truth(library))
    return served, sum(event["type"] == "CONFIRMED" for event in events(library))


@pytest.mark.parametrize("app", ["2", "3"])
def test_six_and_four_by_profile_alone(tmp_path: Path, app: str) -> None:
    library = tmp_path / "library"
    run = MainJob(tmp_path)("--scenario", f"app{app}", "--library", library)
    assert run.summary() == (0, "COMPLETE", None), run.stderr
    assert run.document["device"]["profile"] == f"hibor-sim-{app}"
    assert run.document["device"]["app_version"] == VERSION_NAMES[app]
    assert sorted(item["source"] for item in run.items) == ["CACHE_REUSE"] * 4 + ["NEW_TRIGGER"] * 6
    assert checked(run, library) == (6, 6)
    exported = sum(line["event"] == "exported" for line in truth(library))
    assert exported == (6 if app == "3" else 0)


def test_an_export_that_failed_is_made_good_by_recovery_without_a_second_download(tmp_path: Path) -> None:
    job = MainJob(tmp_path)
    scenario = job.scenario(ONE_REPORT + '\n[[fault]]\nkind = "tap_ignored"\ncontrol = "share_save"\n')
    library = tmp_path / "library"
    first = job("--scenario", scenario, "--library", library, "--count", "1", scale=40.0)
    assert first.items[0]["state"] == "P03_CACHE_DOWNLOAD_WAIT" or first.items[0]["status"] != "SUCCESS"
    assert checked(first, library) == (1, 1)
    second = job("--scenario", scenario, "--library", library, "--count", "1", scale=40.0)
    (recovered,) = second.document["recovered"]
    assert recovered["status"] == "SUCCESS" and recovered["report_id"] == first.items[0]["report_id"]
    served = [line["report_id"] for line in truth(library) if line["event"] == "served"]
    assert served.count(recovered["report_id"]) == 1
    assert checked(second, library)[0] == checked(second, library)[1]


def test_a_file_the_app_had_before_is_exported_and_reused(tmp_path: Path) -> None:
    job = MainJob(tmp_path)
    scenario, library = job.scenario(ONE_REPORT), tmp_path / "library"
    library.mkdir()
    with phone_of(library, scenario) as (device, clock):
        app = App(device, EXPORTED, clock)
        app.open_detail(app.open_app().entries()[0])
        for control in ("btn_download", "dialog_ok"):
            node = next(n for n in app.looker.raw_look().nodes if n.short_id == control)
            device.tap(*node.bounds.center)
            clock.sleep(1.5)
        while app.detail_screen().button != "done":
            app.looker.last_tree = None
            clock.sleep(1.0)
    run = job("--scenario", scenario, "--library", library, "--count", "1")
    delivered = [item for item in run.items if item["status"] == "SUCCESS"]
    assert [item["source"] for item in delivered] == ["CACHE_REUSE"], run.stderr
    assert checked(run, library) == (1, 0)


def test_an_export_taps_each_control_once_and_names_a_missing_one(tmp_path: Path) -> None:
    library, scenario = tmp_path / "library", tmp_path / "own.toml"
    scenario.write_text(ONE_REPORT, encoding="utf-8")
    library.mkdir()
    with phone_of(library, scenario) as (device, clock):
        app = App(device, EXPORTED, clock)
        app.open_detail(app.open_app().entries()[0])
        with pytest.raises(DeviceError, match=r"cache\.export\[0\]"):
            run_export(app)
    taps = [
        json.loads(line) for line in (library / "sim-phone" / "truth.jsonl").read_text("utf-8").splitlines()
    ]
    assert not any("btn_share" in str(one["detail"]) for one in taps)
