"""The doctor on the simulated phone: rows with fixes, pictures, the walk, the draft, the bundle; and no quota
spent."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hibor.clock import SystemClock
from hibor.collect.hold import read_hold, set_hold
from hibor.collect.walked import has_walked
from hibor.device.profile import load_profile, parse_profile
from hibor.doctor.bundle import account_boxes
from hibor.doctor.command import Wishes, examine, main, run_doctor
from hibor.doctor.ports import port_holder
from hibor.doctor.profile_toml import profile_toml
from hibor.durable import Durable
from hibor.durable_fs import OsFileSystem
from hibor.messages import catalogue
from hibor.people.commandline import Answers, Words
from hibor.sim.server import PrivateAdbServer
from tests.doctor_bench import Hands, Practice, practice
from tests.main_job import MainJob, check_streams, events, truth

ROOT = Path(__file__).parents[1]
STUDY_S = 4.0
"""How long a person looks at what a tap brought, in seconds of the phone: the doctor looks meanwhile."""
OFFLINE_AT = 'kind = "link_offline"\nsite = "shell"\nmatch = "uiautomator"\ntimes = 0\ncall = '


@pytest.fixture(scope="module")
def adb_server() -> Iterator[PrivateAdbServer]:
    with PrivateAdbServer() as server:
        yield server


def hold_of(run: Practice) -> Path:
    folder = run.library / "quota" / "simulated"
    disk = Durable(OsFileSystem(), SystemClock(), frozenset({"hold.write", "ledger.folder"}))
    disk.make_folders(folder, step="ledger.folder")
    set_hold(
        folder, disk, code="ACCESS_CONTROL_PRESENT", detail="captcha", at="2026-11-30T09:00:00.000+08:00"
    )
    return folder


def test_a_ready_phone_is_ready_the_stop_ends_and_the_bundle_is_redacted(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    out = tmp_path / "bundle.zip"
    answers = Answers(Words("en"), quiet=True, json_wanted=False)
    with practice(adb_server, tmp_path, "default") as run:
        folder = hold_of(run)
        assert run_doctor(run.case, Wishes(bundle=out), answers) == 0
        assert run.rows("hold") == ["ok"] and read_hold(folder) is None
        anchors = {row.about: row.status for row in run.case.rows if row.check == "anchor"}
        assert anchors["list: list.container"] == "ok" and len(anchors) == 5
        assert '"tap"' not in run.truth() and '"opened"' not in run.truth()
        (picture,) = (run.library / "doctor").glob("*-list.png")
        assert picture.read_bytes() != run.case.shots[0].png  # boxes were drawn on it
        assert len(run.case.dump_times_s) == 3
        serial, shot = run.serial, run.case.shots[0]
    assert len(account_boxes(shot.tree)) == 1
    with zipfile.ZipFile(out) as bundle:
        names = bundle.namelist()
        texts = b"".join(bundle.read(name) for name in names if not name.endswith(".png")).decode()
        assert bundle.read("01-list.png").startswith(b"\x89PNG")
    assert {"doctor.json", "profile.toml", "01-list.xml"} <= set(names)
    for secret in (serial, "SIMA1000001", "138****0001", str(Path.home())):
        assert secret not in texts
    assert "report_row" in texts


@pytest.mark.parametrize("scenario", ["login_at_start", "phone_locked"])
def test_a_wall_or_an_unfinished_look_keeps_the_stop(
    adb_server: PrivateAdbServer, tmp_path: Path, scenario: str
) -> None:
    with practice(adb_server, tmp_path, scenario) as run:
        folder = hold_of(run)
        status, code = examine(run.case, Wishes())
        assert (status, code) == ("BLOCKED", 1)
        assert run.rows("hold") == ["fail"] and read_hold(folder) is not None
        assert all(row.fix for row in run.case.rows if row.status == "fail")


def test_walking_checks_both_pages_and_admits_an_untested_version(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    with practice(adb_server, tmp_path, "app_untested") as run:
        assert examine(run.case, Wishes(walk=True)) == ("READY_WITH_WARNINGS", 2)
        assert run.rows("walk") == ["ok"]
        pages = {row.about.split(":")[0] for row in run.case.rows if row.check == "anchor"}
        assert pages == {"list", "detail"}
        profile = load_profile("hibor-sim-1")
        facts = {"profile_sha256": profile.sha256, "app_version": "8.0.0", "model": "SIM-A1"}
        assert has_walked(run.library, **facts)
        assert not has_walked(run.library, **{**facts, "app_version": "8.0.1"})
        assert '"served"' not in run.truth() and '"opened"' in run.truth()
        assert "btn_download" not in run.truth()
    done = MainJob(tmp_path)("--scenario", "app_untested", "--library", tmp_path / "library", "--count", "1")
    assert [item["source"] for item in done.items] == ["NEW_TRIGGER"] and done.exit_code == 0, done.stderr


def test_a_page_that_may_cost_is_not_opened_unasked(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    careful = tmp_path / "careful.toml"
    text = profile_text("hibor-sim-1").replace("opening_is_free = true", "opening_is_free = false")
    careful.write_text(text, encoding="utf-8")
    with practice(adb_server, tmp_path, "default", profile=str(careful)) as run:
        assert examine(run.case, Wishes(walk=True))[1] == 2
        assert run.hands.asked == ["doctor.ask.open"] and run.rows("walk") == ["warn"]
        assert '"opened"' not in run.truth()


def profile_text(name: str) -> str:
    return (ROOT / "hibor" / "profiles" / f"{name}.toml").read_text("utf-8")


def test_a_drifted_anchor_is_named_with_its_nearest(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    drifted = tmp_path / "drifted.toml"
    text = profile_text("hibor-sim-1").replace('id = "report_list"', 'id = "reports_list"')
    drifted.write_text(text, encoding="utf-8")
    with practice(adb_server, tmp_path, "default", profile=str(drifted)) as run:
        assert examine(run.case, Wishes())[1] == 1
        (page,) = [row for row in run.case.rows if row.check == "page"]
        assert page.status == "fail" and "report_list" in page.detail and page.fix


@pytest.mark.parametrize(
    "kind, fix",
    [
        (f"{OFFLINE_AT}2", "device_offline"),
        (f"{OFFLINE_AT}5", "device_offline"),
        ('kind = "captcha_wall"\nsite = "open_detail"', "wall"),
    ],
)
def test_what_ends_an_examination_has_its_own_advice_and_is_said_once(
    adb_server: PrivateAdbServer, tmp_path: Path, kind: str, fix: str
) -> None:
    scenario = tmp_path / "broken.toml"
    scenario.write_text(f'description = "broken"\n[[fault]]\n{kind}\n', encoding="utf-8")
    with practice(adb_server, tmp_path, scenario, hands=Hands(yes=True)) as run:
        assert examine(run.case, Wishes(walk=True, yes=True))[1] == 1
        failed = [row for row in run.case.rows if row.status == "fail" and row.check != "hold"]
        assert [row.fix for row in failed] == [Words("en")(f"doctor.fixes.{fix}")], run.case.rows


def test_mended_and_entered_looks_again(
    adb_server: PrivateAdbServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with practice(adb_server, tmp_path, "default", hands=Hands(enters=1)) as run:
        run.finger().start("com.huibo.research")
        run.tap_label("我的")
        hands, words = run.hands, Words("en")
        first = run.hands.is_done

        def mend(key: str, /, **facts: object) -> bool:
            run.tap_label("首页")
            return first(key, **facts)

        hands.is_done = mend  # type: ignore[method-assign]
        assert run_doctor(run.case, Wishes(), Answers(words, quiet=True, json_wanted=False)) == 0
        said = capsys.readouterr().out
        assert said.index("Not ready") < said.rindex("Ready.") and hands.asked == ["doctor.ask.again"]


def learn_with_hands(run: Practice, out: Path, *further: str) -> tuple[str, int]:
    """A person taps 下载, leaves the question open until the doctor has seen it, confirms it, and then taps
    what the app needs `further` until the file is where adb can see it."""

    def download() -> None:
        run.hands.heard("doctor.find.ready").wait(60)
        run.tap_label("下载")
        assert run.hands.heard("doctor.learn.seen_question").wait(60)
        run.tap_label("确定")
        for label in further:
            if label == "分享":
                run.see("打开")
            run.tap_label(label)
            run.case.clock.sleep(STUDY_S)

    run.hands.on["doctor.learn.download"] = download
    result = examine(run.case, Wishes(learn=out, find_file=True, yes=True))
    run.hands.finish()
    return result


def test_a_learned_profile_collects_from_the_second_app_without_a_hand_edit(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    out = tmp_path / "learned.toml"
    with practice(adb_server, tmp_path, "app2", hands=Hands(yes=True)) as run:
        status, code = learn_with_hands(run, out)
        assert (status, code) == ("READY", 0), [row for row in run.case.rows if row.status != "ok"]
        assert run.truth().count('"served"') == 1  # the person's own download
    learned = parse_profile(out.read_bytes(), out.name)
    assert learned.app.versions == ("8.0.3",) and learned.list.merged and learned.list.row.id is None
    assert [step.paying for step in learned.trigger.steps] == [False, True]
    job = MainJob(tmp_path)
    library = tmp_path / "collected"
    done = job("--scenario", "app2", "--library", library, "--profile", out)
    check_streams(done)  # the app prints no report number, so ledger and truth are compared by count alone
    assert done.summary() == (0, "COMPLETE", None), done.stderr
    sources = sorted(item["source"] for item in done.items)
    assert sources == ["CACHE_REUSE"] * 4 + ["NEW_TRIGGER"] * 6
    served = [line for line in truth(library) if line["event"] == "served"]
    assert len(served) == 6 == sum(event["type"] == "CONFIRMED" for event in events(library))


def test_an_export_is_learned_and_collected_by_without_a_hand_edit(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    out = tmp_path / "learned.toml"
    with practice(adb_server, tmp_path, "app3", hands=Hands(yes=True)) as run:
        status, code = learn_with_hands(run, out, "分享", "保存到手机")
        assert (status, code) == ("READY", 0), [row for row in run.case.rows if row.status != "ok"]
    learned, shipped = parse_profile(out.read_bytes(), out.name), load_profile("hibor-sim-3")
    assert (learned.cache.acquire, learned.cache.folders) == ("export", shipped.cache.folders)
    assert [step.tap for step in learned.cache.export] == [step.tap for step in shipped.cache.export]
    if os.environ.get("HIBOR_DEEP") == "1":
        library = tmp_path / "collected"
        done = MainJob(tmp_path)("--scenario", "app3", "--library", library, "--profile", out)
        check_streams(done)
        assert done.summary() == (0, "COMPLETE", None), done.stderr
        assert sorted(item["source"] for item in done.items) == ["CACHE_REUSE"] * 4 + ["NEW_TRIGGER"] * 6


def test_without_a_download_the_draft_says_what_it_guesses(
    adb_server: PrivateAdbServer, tmp_path: Path
) -> None:
    out = tmp_path / "guess.toml"
    with practice(adb_server, tmp_path, "default", hands=Hands(yes=True)) as run:
        assert examine(run.case, Wishes(learn=out, yes=True)) == ("READY_WITH_WARNINGS", 2)
        assert '"served"' not in run.truth() and "btn_download" not in run.truth()
    learned = parse_profile(out.read_bytes(), out.name)
    shipped = load_profile("hibor-sim-1")
    assert learned.list.row == shipped.list.row and learned.trigger.button == shipped.trigger.button
    assert learned.list.fields.title == shipped.list.fields.title
    assert learned.list.fields.code is not None and learned.detail.fields.code is not None
    assert "--find-file" in out.read_text("utf-8")


def test_learning_without_consent_opens_nothing(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    out = tmp_path / "none.toml"
    with practice(adb_server, tmp_path, "app2") as run:
        assert examine(run.case, Wishes(learn=out))[1] == 1
        assert not out.exists() and '"tap"' not in run.truth()


def test_a_file_downloaded_by_hand_is_found_and_drafted(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with practice(adb_server, tmp_path, "default") as run:

        def download() -> None:
            device = run.finger()
            device.start("com.huibo.research")
            rows = []
            while not rows:
                tree = device.dump()
                rows = [n for n in tree.nodes if n.short_id == "row_code" and n.text.endswith("40")]
            device.tap(*rows[0].bounds.center)
            run.tap_label("下载")
            run.tap_label("确定")

        run.hands.on["doctor.find.ready"] = download
        assert examine(run.case, Wishes(find_file=True))[1] == 0
        run.hands.finish()
        (row,) = [row for row in run.case.rows if row.check == "file"]
        assert "%PDF-" in row.detail and "Android/data/com.huibo.research/files/Download" in row.detail
        (draft,) = (run.library / "doctor").glob("*-cache.toml")
        assert "temp" in draft.read_text("utf-8")


def command(*options: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "hibor.doctor", *options], cwd=cwd, env=environment, capture_output=True,
        stdin=subprocess.DEVNULL, timeout=120, check=False,
    )  # fmt: skip


def test_the_command_prints_one_document(tmp_path: Path) -> None:
    done = command("--scenario", "battery_low", "--time-scale", "20", "--json", "--lang", "zh", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 2 == document["exit_code"], done.stderr.decode()
    assert document["status"] == "READY_WITH_WARNINGS" and document["dump"]["count"] == 3
    (battery,) = [row for row in document["checks"] if row["check"] == "battery"]
    assert battery["status"] == "warn" and re.search("[一-龥]", battery["fix"])


def test_mistakes_are_told_and_files_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "there.toml").write_text("mine")
    done = command("--scenario", "default", "--learn", "there.toml", "--lang", "en", cwd=tmp_path)
    assert done.returncode == 64 and b"there.toml" in done.stderr
    assert (tmp_path / "there.toml").read_text() == "mine"
    done = command("--adb-server", "nonsense", "--lang", "en", cwd=tmp_path)
    assert done.returncode == 64 and b"HOST:PORT" in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.parametrize("option", ["--bundle", "--learn"])
def test_no_folder_is_made_for_a_file_that_was_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """A mistyped folder is said before any phone is asked for."""
    wanted = tmp_path / "typo" / "out"
    assert main([option, str(wanted), "--library", str(tmp_path / "library"), "--lang", "en"]) == 64
    assert f"there is no folder {wanted.parent}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_phone_nobody_named_is_not_touched(adb_server: PrivateAdbServer, tmp_path: Path) -> None:
    with practice(adb_server, tmp_path, "default") as run:
        done = command("--adb-server", f"127.0.0.1:{adb_server.port}", "--lang", "en", cwd=tmp_path)
        assert done.returncode == 1 and b"--device" in done.stdout
        assert '"tap"' not in run.truth()


def test_the_holder_of_the_port_is_named(adb_server: PrivateAdbServer) -> None:
    if sys.platform == "linux":
        assert re.fullmatch(r"adb \(pid \d+\)", port_holder(adb_server.port) or "")
    assert port_holder(1) is None


@pytest.mark.parametrize("name", ["hibor-sim-1", "hibor-sim-2", "hibor-sim-3"])
def test_a_profile_written_as_text_reads_back_equal(name: str) -> None:
    import attrs

    profile = load_profile(name)
    again = parse_profile(profile_toml(profile, {"": "two\nlines", "cache": "x"}).encode(), "p.toml")
    assert attrs.evolve(again, source="", sha256="") == attrs.evolve(profile, source="", sha256="")


def test_both_languages_have_the_same_texts() -> None:
    def keys(table: object, path: str = "") -> set[str]:
        if not isinstance(table, dict):
            return {path + str(sorted(set(re.findall(r"{(\w+)", str(table)))))}
        return {key for name, value in table.items() for key in keys(value, f"{path}.{name}")}

    assert keys(catalogue("zh")["doctor"]) == keys(catalogue("en")["doctor"])


def test_every_text_the_doctor_asks_for_is_there() -> None:
    texts = catalogue("en")["doctor"]
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "hibor" / "doctor").glob("*.py"))
    for section, key in re.findall(r'"doctor\.(\w+)\.(\w+)"', source):
        assert key in texts[section], (section, key)
    for check, said in re.findall(r'\.add\(\s*"(\w+)", "(?:ok|warn|fail|skip)", "(\w+)"', source):
        assert check in texts["checks"] and said in texts["said"], (check, said)
    for fix in re.findall(r'fix="(\w+)"', source):
        assert fix in texts["fixes"], fix
