"""What the issue asks to see end to end: real processes, the embedded simulated phone, the real commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hibor.sim.truth import read_truth
from tests.faults.world import NEXT_RUN, moment, open_world

SCALE = "60"
UNHURRIED = ("--time-scale", "25", "--deadline", "6000")
"""For runs whose preflight recovers: its minute is one second of a busy machine's time at SCALE."""
DEEP = os.environ.get("HIBOR_DEEP") == "1"
ENVIRONMENT = {**os.environ, "PYTHONUTF8": "1"}
KILLER = """
import os, signal, sys
from hibor import durable_fs
step, moment = sys.argv[1], sys.argv[2]
real = durable_fs.OsFileSystem.mark
def mark(self, name, when):
    if name == step and when == moment:
        print("at the step", file=sys.stderr, flush=True)
        if os.environ.get("HIBOR_HANG"):
            signal.pause()
        os.kill(os.getpid(), signal.SIGKILL)
durable_fs.OsFileSystem.mark = mark
from hibor.run import main
sys.exit(main(sys.argv[3:]))
"""
posix = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")


def run(*arguments: str, module: str = "hibor.run") -> tuple[int, dict[str, Any], str]:
    """A command: exit code, its JSON document, what it told people."""
    if module == "hibor.run" and "--deadline" not in arguments:
        arguments = (*arguments, "--deadline", "6000")
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        env=ENVIRONMENT,
        timeout=200,
        check=False,
    )
    text = done.stdout.decode()
    return done.returncode, json.loads(text) if text.startswith("{") else {}, done.stderr.decode()


def killed_run(library: Path, step: str, moment: str, *more: str) -> str:
    """A run that SIGKILL ends at a step."""
    command = [
        sys.executable,
        "-c",
        KILLER,
        step,
        moment,
        "--library",
        str(library),
        "--time-scale",
        SCALE,
        "--deadline",
        "6000",
        *more,
    ]
    done = subprocess.run(command, capture_output=True, env=ENVIRONMENT, timeout=200, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return done.stderr.decode()


def served(library: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for event in read_truth(library / "sim-phone" / "truth.jsonl"):
        if event.event == "served" and event.report_id is not None:
            counts[event.report_id] = counts.get(event.report_id, 0) + 1
    return counts


def paying_taps(library: Path) -> dict[str | None, int]:
    """How often the button that pays was really pressed, for each report."""
    events = read_truth(library / "sim-phone" / "truth.jsonl")
    return Counter(
        event.report_id for event in events if event.event == "tap" and event.detail.endswith(" dialog_ok")
    )


def tree(folder: Path, *, phone: bool = False) -> dict[str, bytes]:
    """Every folder and file of a library with its bytes; of the `phone` in it what does not change by itself.
    """
    alive = ("heartbeat.json", "phone.log")
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b"(folder)"
        for path in sorted(folder.rglob("*"))
        if (phone and path.name not in alive and path.suffix != ".tmp") or "sim-phone" not in path.parts
    }


def next_day(library: Path) -> None:
    """A day passes while the phone is off."""
    beat = library / "sim-phone" / "heartbeat.json"
    wall = datetime.fromisoformat(json.loads(beat.read_bytes())["wall"]) + timedelta(days=1)
    beat.write_text(json.dumps({"wall": wall.isoformat()}), encoding="utf-8")


def ledger_types(library: Path, report_id: str | None = None) -> list[str]:
    """The types of all events, or of a report's, oldest first."""
    lines = next((library / "quota").glob("*/ledger.jsonl")).read_text("utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    return [event["type"] for event in events if report_id in (None, event["report_id"])]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "library"
    shutil.rmtree(tmp_path / "library", ignore_errors=True)


@posix
def test_a_run_killed_after_the_tap_is_finished_from_the_cache(library: Path) -> None:
    """Killed after the tap and before the quota terminal: recovery never taps and finishes the item."""
    killed_run(library, "confirm.append", "begin", "--count", "1")
    assert sum(served(library).values()) == 1
    code, listed, _said = run("--library", str(library), "--list", "--json", module="hibor.recover")
    assert code == 1
    paid = [one for one in listed["leftovers"] if one["quota_state"] == "RESERVED"]
    assert [one["action"] for one in paid] == ["ask_phone"]
    before = tree(library)
    assert run("--library", str(library), "--dry-run", module="hibor.recover")[0] == 1
    assert tree(library) == before
    code, done, said = run("--library", str(library), "--json", "--time-scale", SCALE, module="hibor.recover")
    assert code == 0, said
    assert paid[0]["item_id"] in {
        item["item_id"] for item in done["recovered"] if item["status"] == "SUCCESS"
    }
    assert sum(served(library).values()) == 1
    # The next day's run delivers it from the library and downloads nothing twice.
    next_day(library)
    report = paid[0]["report_id"]
    code, document, said = run("--library", str(library), "--count", "1", "--time-scale", SCALE)
    again = [item for item in document["items"] if item["report_id"] == report]
    assert [item["source"] for item in again] == ["PROJECT_REUSE"], said
    assert ledger_types(library, report) == ["RESERVED", "CONFIRMED", "ARTIFACT_SUCCESS"]
    assert (served(library), paying_taps(library)) == ({report: 1}, {report: 1})


@posix
def test_a_paid_report_whose_file_is_lost_is_uncertain_and_never_downloaded_again(
    library: Path, tmp_path: Path
) -> None:
    """The phone was charged and no file ever comes: the next day's run looks for it, settles it as uncertain,
    and does not pay once more; the app's history, which has the report, is no proof of this tap."""
    scenario = tmp_path / "lost.toml"
    scenario.write_text(
        'description = "one file is lost"\n[[fault]]\nkind = "file_never"\nreport = 1\ntimes = 0\n',
        encoding="utf-8",
    )
    more = ("--scenario", str(scenario), "--count", "1")
    killed_run(library, "confirm.append", "begin", *more)
    (report,) = served(library)
    next_day(library)
    code, document, said = run("--library", str(library), *UNHURRIED, *more)
    assert code == 0, said  # another report was delivered in its place
    (looked_at,) = document["recovered"]
    # Looked for within recovery's share of the window; its end is not what the report failed for.
    assert (looked_at["state"], looked_at["error_or_note"]) == ("P10_CLOSED", "STOP:TRIGGER_UNCERTAIN")
    refused = [item["stop_code"] for item in document["items"] if item["report_id"] == report]
    assert refused == ["CANDIDATE_REJECTED"]
    assert ledger_types(library, report) == ["RESERVED", "UNCERTAIN"]
    assert (served(library)[report], paying_taps(library)[report]) == (1, 1)
    code, listed, _said = run("--library", str(library), "--list", "--json", module="hibor.recover")
    assert (code, listed["leftovers"]) == (0, [])


@posix
def test_without_a_file_it_is_settled_as_uncertain_and_never_downloaded_again(
    library: Path, tmp_path: Path
) -> None:
    """Nobody can tell whether the tap was taken: the unit counts as spent, today and the next day, and only
    `--retrigger` asks for the report once more."""
    scenario = tmp_path / "never.toml"
    scenario.write_text(
        'description = "no file ever comes"\n[[fault]]\nkind = "file_never"\ntimes = 0\n'
        '[[fault]]\nkind = "tap_ignored"\ncontrol = "dialog_ok"\ntimes = 0\n',
        encoding="utf-8",
    )
    more = (*UNHURRIED, "--count", "1")
    killed_run(library, "release.append", "begin", "--scenario", str(scenario), "--count", "1")
    assert served(library) == {}
    run("--library", str(library), "--scenario", str(scenario), *more)
    ledger = next((library / "quota").glob("*/ledger.jsonl")).read_text("utf-8").splitlines()
    first = json.loads(ledger[0])["report_id"]
    assert ledger_types(library, first) == ["RESERVED", "UNCERTAIN"]
    books = {path: path.read_bytes() for path in (library / "quota").glob("*/ledger.jsonl")}
    code, document, said = run("--library", str(library), "--retrigger", first, "--lang", "en", *more)
    assert (code, [item["report_id"] for item in document["items"]]) == (20, [first]), "bought another one"
    assert "a retrigger is possible in" in said and all(path.read_bytes() == books[path] for path in books)
    next_day(library)
    _code, document, said = run("--library", str(library), "--scenario", str(scenario), *more)
    assert ledger_types(library, first) == ["RESERVED", "UNCERTAIN"], said
    refused = [item["stop_code"] for item in document["items"] if item["report_id"] == first]
    assert refused == ["CANDIDATE_REJECTED"]
    code, document, said = run("--library", str(library), "--retrigger", first, "--lang", "en", *more)
    assert (code, [item["report_id"] for item in document["items"]]) == (0, [first]), said
    assert f"{first} was paid for or attempted" in said
    assert "UNCERTAIN, file -" in said
    assert ledger_types(library, first)[2:] == ["RESERVED", "CONFIRMED", "ARTIFACT_SUCCESS"]
    assert served(library) == {first: 1}


def test_a_failure_at_p01_gives_its_unit_back_in_the_same_run(library: Path, tmp_path: Path) -> None:
    """Six new items, a limit of six, one page that is wrong: its unit is free again at once."""
    scenario = tmp_path / "wrong.toml"
    scenario.write_text(
        'description = "one wrong page"\n[[fault]]\nkind = "wrong_detail"\nreport = 1\ntimes = 0\n',
        encoding="utf-8",
    )
    code, document, said = run(
        "--library",
        str(library),
        "--scenario",
        str(scenario),
        "--count",
        "6",
        "--quota-limit",
        "6",
        "--time-scale",
        SCALE,
    )
    types, first = ledger_types(library), document["items"][0]
    assert (code, document["status"]) == (10, "PARTIAL"), said
    assert (first["stop_code"], first["quota_state"]) == ("DETAIL_RESULT_MISMATCH", "RESERVED")
    assert types[:3] == ["RESERVED", "RELEASED", "RESERVED"]
    assert types.count("CONFIRMED") == 5
    assert (document["quota"]["reserved"], document["quota"]["safe_after"]) == (0, 1)


@posix
def test_a_second_process_is_busy_and_the_next_one_takes_over(library: Path) -> None:
    command = [
        sys.executable,
        "-c",
        KILLER,
        "intent.journal",  # the ledger is there, its index is not yet
        "begin",
        "--library",
        str(library),
        "--time-scale",
        SCALE,
        "--count",
        "1",
        "--deadline",
        "6000",
    ]
    first = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**ENVIRONMENT, "HIBOR_HANG": "1"}
    )
    try:
        assert first.stderr is not None
        assert any(b"at the step" in line for line in first.stderr)
        before = tree(library, phone=True)
        code, document, _said = run("--library", str(library), "--time-scale", SCALE)
        assert (code, document["status"]) == (75, "BUSY")
        assert run("--library", str(library), "--json", module="hibor.recover")[0] == 75
        assert tree(library, phone=True) == before
    finally:
        first.kill()
        first.wait(20)
        if first.stderr is not None:
            first.stderr.close()
    code, _document, said = run(
        "--library", str(library), "--count", "1", "--time-scale", SCALE, "--lang", "en"
    )
    assert "taken over" in said
    assert code == 0


@pytest.mark.parametrize("damage", ["byte", "line", "emptied", "removed"])
def test_a_damaged_ledger_ends_in_27_with_no_write(damaged: Path, damage: str, tmp_path: Path) -> None:
    library = tmp_path / "copy"
    shutil.copytree(damaged, library)
    shutil.rmtree(library / "consent")  # a library of before there was such a record
    ledger = next((library / "quota").glob("*/ledger.jsonl"))
    data = ledger.read_bytes()
    lines = data.splitlines(keepends=True)
    if damage == "byte":
        ledger.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    elif damage == "line":
        ledger.write_bytes(b"".join(lines[:-1]))
    elif damage == "emptied":
        ledger.write_bytes(b"")
    else:
        ledger.unlink()
    before = tree(library)
    code, document, _said = run("--library", str(library), "--time-scale", SCALE)
    assert (code, document["status"]) == (27, "STATE_UNCERTAIN")
    assert document["stop_reason"]["code"] == "QUOTA_LEDGER_INVALID"
    after = tree(library)
    assert after == before
    if DEEP or damage == "removed":
        assert run("--library", str(library), "--json", module="hibor.recover")[0] == 27
        assert tree(library) == before


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with a ledger of more than fifty events that a run left whole, and no index to help."""
    library = tmp_path_factory.mktemp("whole") / "library"
    world = open_world(library, None, moment() - timedelta(days=30), account="simulated")
    ledger = world.services.require_ledger()
    for number in range(25):
        day = world.services.day
        made = ledger.reserve(
            f"OLD{number}", f"{number:016x}", NEXT_RUN, day, 99, "task", None, step="reserve.append"
        )
        ledger.append("RELEASED", made, {}, step="release.append")
    world.close()
    code, _document, said = run("--library", str(library), "--count", "1", "--time-scale", SCALE)
    assert code == 0, said
    for index in (library / "quota").glob("*/*.sqlite3*"):
        index.unlink()
    return library
