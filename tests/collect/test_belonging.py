"""A library belongs to the practice phone or to real phones: its books are kept by that phone's clock."""

from __future__ import annotations

import json
import os
import shutil
import signal
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from hibor.clock import SystemClock
from hibor.collect.belonging import Owner, last_event_at, owner_of, practice_record, require_owner
from hibor.collect.consent import note_first_use
from hibor.collect.session import open_station
from hibor.collect.station import Station
from hibor.collect.stops import RunStop
from hibor.device.adb import AdbServer
from hibor.package.layout import Library
from hibor.recover import main as recover
from hibor.sim.state import PHONE_ZONE, start_clock
from hibor.task import Task
from tests.faults.test_commands import SCALE, killed_run, run
from tests.main_job import SMALL_FEED

RUNS = ("20261130T010000Z-00000a", "20261130T020000Z-00000b")


def library_with(root: Path, *evidence: str) -> Library:
    """A library in which such things lie: `sim-phone/`, `consent/`, and one run for each other word."""
    library = Library(root)
    (root / "runs").mkdir(parents=True)
    for name in (one for one in evidence if one.endswith("/")):
        (root / name).mkdir()
    if "consent/" in evidence:
        (root / "consent" / "0123456789abcdef.json").write_text("{}", encoding="utf-8")
    for run_id, word in zip(RUNS, (one for one in evidence if not one.endswith("/")), strict=False):
        (root / "runs" / run_id).mkdir()
        device = {"simulated": word == "practice", "model": None if word == "stopped" else "A1"}
        if word != "killed":
            (root / "runs" / run_id / "run.json").write_text(json.dumps({"device": device}), encoding="utf-8")
    return library


@pytest.mark.parametrize(
    ("evidence", "owner"),
    [
        ((), None),
        (("sim-phone/",), None),
        (("consent/",), None),
        (("sim-phone/", "killed"), "practice"),
        (("consent/", "killed"), "real"),
        (("sim-phone/", "consent/", "killed"), None),
        (("killed",), None),
        (("practice",), "practice"),
        (("practice", "killed", "consent/", "sim-phone/"), "practice"),
        (("stopped", "practice"), "practice"),
        (("real", "practice", "sim-phone/"), "real"),
        (("real", "consent/"), "real"),
        (("stopped",), None),
    ],
)
def test_what_lies_in_a_library_says_whose_it_is(
    tmp_path: Path, evidence: tuple[str, ...], owner: Owner | None
) -> None:
    library = library_with(tmp_path / "library", *evidence)
    assert owner_of(library) == owner
    for simulated in (True, False):
        if owner in (None, "practice" if simulated else "real"):
            require_owner(library, simulated=simulated)
        else:
            with pytest.raises(RunStop, match=r"belongs to .* another folder") as refused:
                require_owner(library, simulated=simulated)
            assert refused.value.task_invalid and str(library.root) in refused.value.detail


def test_the_first_practice_is_on_record_and_outlives_the_phones_folder(tmp_path: Path) -> None:
    library = library_with(tmp_path / "library", "sim-phone/", "killed")
    practice = Station(SystemClock(), AdbServer(port=1), None, simulated=True, time_scale=1.0)
    note_first_use(practice, library)
    shutil.rmtree(library.phone_state)
    note_first_use(practice, library)
    (library.root / "consent" / "0123456789abcdef.json").write_text("{}", encoding="utf-8")
    assert owner_of(library) == "practice"
    assert json.loads(practice_record(library).read_bytes())["phone"] == "practice"


@pytest.mark.parametrize("simulated", [True, False])
def test_a_phone_of_the_other_kind_is_refused_before_anything_is_written(
    tmp_path: Path, simulated: bool
) -> None:
    library = library_with(tmp_path / "library", "real" if simulated else "practice")
    before = sorted(library.root.rglob("*"))
    task = Task(library=str(library.root), account="team-a")
    options = {"scenario": None, "time_scale": None, "adb_server": None, "task": "task.toml", "device": None}
    with pytest.raises(RunStop, match="belongs to"), open_station(options, task, simulated):
        pass
    assert sorted(library.root.rglob("*")) == before


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_practice_library_is_not_recovered_with_a_named_phone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lang: str
) -> None:
    library = library_with(tmp_path / "library", "practice")
    before = sorted(library.root.rglob("*"))
    assert recover(["--library", str(library.root), "--device", "R58M123ABC", "--lang", lang]) == 64
    assert f"hibor recover --library {library.root}" in capsys.readouterr().err
    assert sorted(library.root.rglob("*")) == before


def test_a_new_practice_phone_begins_where_the_books_end(tmp_path: Path) -> None:
    """Whoever deletes `sim-phone/` is not locked out of the library by its ledger."""
    today = datetime.now(PHONE_ZONE).replace(hour=9, minute=0, second=0, microsecond=0)
    ahead, behind = today + timedelta(hours=3), today - timedelta(hours=3)
    assert start_clock(tmp_path / "a", 1.0, True, ahead).anchor_wall == ahead
    assert start_clock(tmp_path / "b", 1.0, True, behind).anchor_wall == today
    assert start_clock(tmp_path / "c", 1.0, True).anchor_wall == today


def test_what_is_no_ledger_has_no_last_event(tmp_path: Path) -> None:
    junk = tmp_path / "ledger.jsonl"
    assert last_event_at(junk) is None and last_event_at(tmp_path) is None
    for data in (b"", b"\n", b"{}\n", os.urandom(200)):
        junk.write_bytes(data)
        assert last_event_at(junk) is None


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL is POSIX")
def test_a_killed_practice_is_recovered_with_a_practice_phone_whatever_the_task_says(tmp_path: Path) -> None:
    """The library was moved and its phone deleted; the task names a real phone. Every event fits the books'
    clock."""
    task = tmp_path / "task.toml"
    task.write_text('library = "first"\naccount = "team-a"\ndevice = "R58M123ABC"\n', encoding="utf-8")
    first, moved = tmp_path / "first", tmp_path / "moved"
    few = tmp_path / "few.toml"
    few.write_text(SMALL_FEED, encoding="utf-8")
    killed_run(first, "confirm.append", "begin", "--task", str(task), "--scenario", str(few), "--count", "1")
    shutil.move(first, moved)
    shutil.rmtree(moved / "sim-phone")
    named = ("--library", str(moved), "--task", str(task), "--time-scale", SCALE, "--lang", "en")
    code, done, said = run(*named, "--json", module="hibor.recover")
    assert "These downloads were begun on the practice phone" in said
    assert (code, len(done["recovered"])) == (0, 1), said
    lines = (moved / "quota" / "team-a" / "ledger.jsonl").read_text("utf-8").splitlines()
    times = [datetime.fromisoformat(json.loads(line)["at"]) for line in lines]
    last_beat = datetime.fromisoformat(json.loads((moved / "sim-phone/heartbeat.json").read_bytes())["wall"])
    assert len(times) == 2 and times == sorted(times) and times[-1] <= last_beat
