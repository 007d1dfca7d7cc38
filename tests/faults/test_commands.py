"""What the issue asks to see end to end: real processes, the embedded simulated phone, the real commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hibor.sim.truth import read_truth
from tests.faults.world import NEXT_RUN, moment, open_world

SCALE = "60"
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


def tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "sim-phone" not in path.parts
    }


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
    # The next run delivers it from the library and downloads nothing twice.
    code, document, said = run("--library", str(library), "--count", "1", "--time-scale", SCALE)
    again = [item for item in document["items"] if item["report_id"] == paid[0]["report_id"]]
    assert [item["source"] for item in again] == ["PROJECT_REUSE"], said
    assert max(served(library).values()) == 1


@posix
def test_without_a_file_it_is_settled_as_uncertain_and_never_downloaded_again(
    library: Path, tmp_path: Path
) -> None:
    scenario = tmp_path / "never.toml"
    scenario.write_text(
        'description = "no file ever comes"\n[[fault]]\nkind = "file_never"\ntimes = 0\n'
        '[[fault]]\nkind = "tap_ignored"\ncontrol = "dialog_ok"\ntimes = 0\n',
        encoding="utf-8",
    )
    more = ("--scenario", str(scenario), "--count", "1")
    killed_run(library, "release.append", "begin", *more)
    assert served(library) == {}
    run("--library", str(library), "--time-scale", SCALE, *more)
    ledger = next((library / "quota").glob("*/ledger.jsonl")).read_text("utf-8").splitlines()
    events = [json.loads(line) for line in ledger]
    first = events[0]["report_id"]
    assert [event["type"] for event in events if event["report_id"] == first] == ["RESERVED", "UNCERTAIN"]
    code, document, said = run("--library", str(library), "--time-scale", SCALE, *more)
    del code
    ledger = next((library / "quota").glob("*/ledger.jsonl")).read_text("utf-8").splitlines()
    types = [event["type"] for event in map(json.loads, ledger) if event["report_id"] == first]
    assert types == ["RESERVED", "UNCERTAIN"], said
    refused = [item["stop_code"] for item in document["items"] if item["report_id"] == first]
    assert refused in ([], ["CANDIDATE_REJECTED"])


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
    ledger = next((library / "quota").glob("*/ledger.jsonl")).read_text("utf-8").splitlines()
    types = [json.loads(line)["type"] for line in ledger]
    first = document["items"][0]
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
        "open.journal",
        "begin",
        "--library",
        str(library),
        "--time-scale",
        SCALE,
        "--count",
        "1",
    ]
    first = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**ENVIRONMENT, "HIBOR_HANG": "1"}
    )
    try:
        assert first.stderr is not None
        assert any(b"at the step" in line for line in first.stderr)
        before = tree(library)
        code, document, _said = run("--library", str(library), "--time-scale", SCALE)
        assert (code, document["status"]) == (75, "BUSY")
        assert run("--library", str(library), "--json", module="hibor.recover")[0] == 75
        assert tree(library) == before
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


@pytest.mark.parametrize("damage", ["byte", "line", "emptied", "removed"] if DEEP else ["byte", "line"])
def test_a_damaged_ledger_ends_in_27_with_no_write(damaged: Path, damage: str, tmp_path: Path) -> None:
    library = tmp_path / "copy"
    shutil.copytree(damaged, library)
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
