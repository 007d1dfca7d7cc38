"""Options, task files and signals of the main job: every way in and every way out ends with the one
document.

A run is interrupted at instants read from its own journal and ledger, so the signal meets the tap and not
a guess.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hibor.package.layout import Library
from hibor.people.commandline import Refusal
from hibor.people.numbers import duration_s
from hibor.people.run_view import find_run
from hibor.sim.process import start_phone
from hibor.sim.server import PrivateAdbServer
from tests.main_job import (
    ITEM_KEYS,
    SMALL_FEED,
    MainJob,
    Run,
    events,
    finish,
    item_folder,
    journal,
    lines_of,
    nothing_reserved,
    served,
    start,
    wait_until,
)

# -- options ---------------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "mistyped option": (("--libary", "x"), "--libary"),
    "value is no number": (("--count", "ten"), "ten"),
    "negative count": (("--count", "-1"), "count"),
    "no window": (("--deadline", "0"), "deadline"),
    "unknown language": (("--lang", "fr"), "fr"),
    "an argument too many": (("reports",), "reports"),
    "option without value": (("--library",), "--library"),
    "time stands still": (("--time-scale", "0"), "--time-scale"),
    "two kinds of phone": (("--scenario", "default", "--device", "R58M000000A"), "--scenario"),
    "named phone without library": (("--device", "R58M000000A"), "--library"),
    "scaled real phone": (("--device", "R58M000000A", "--library", "x", "--time-scale", "2"), "--time-scale"),
    "no such task file": (("--task", "nowhere.toml"), "nowhere.toml"),
    "wait is no duration": (("--wait", "soon"), "soon"),
    "no name of a phone": (("--device", ""), "--device"),
    "no name of a task": (("--task", ""), "--task"),
    "wait without end": (("--wait", "9" * 30 + "h"), "a week at most"),
    "again beside a plan": (("--retrigger", "HB1", "--plan", "plan.json"), "--retrigger"),
    "address is none": (
        ("--adb-server", "nowhere", "--device", "R58M000000A", "--library", "x"),
        "--adb-server",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_on_the_command_line(mistake: str, tmp_path: Path) -> None:
    options, named = MISTAKES[mistake]
    run = finish(start(options, cwd=tmp_path), None)
    assert run.summary() == (64, "TASK_INVALID", "TASK_SPEC_INVALID")
    assert named in run.document["stop_reason"]["detail"]
    assert run.document["items"] == [] and "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []  # nothing was begun


def test_unknown_scenario_names_the_known_ones(tmp_path: Path) -> None:
    run = finish(start(("--library", tmp_path / "library", "--scenario", "defualt")), None)
    assert run.summary() == (64, "TASK_INVALID", "TASK_SPEC_INVALID")
    assert "default" in run.document["stop_reason"]["detail"] and "Traceback" not in run.stderr
    assert nothing_reserved(tmp_path)


def test_help_tells_options_exit_codes_and_guard_rails(tmp_path: Path) -> None:
    run = finish(start(("--help",), cwd=tmp_path), None)
    said = run.stdout.decode()
    assert run.exit_code == 0 and "Traceback" not in run.stderr
    options = (
        "--task --library --device --adb-server --profile --deadline --quota-limit --count --scenario "
        "--time-scale --retrigger --wait --plan --dry-run --yes --lang --quiet --verbose"
    )
    for word in (*options.split(), "Guard rails"):
        assert word in said


@pytest.mark.parametrize(
    ("text", "wait_s"), [("90s", 90), ("30m", 1800), ("1h", 3600), ("15", 15), ("1.5m", 90), (" 2 h ", 7200)]
)
def test_durations(text: str, wait_s: float) -> None:
    assert duration_s(text) == wait_s


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5 days", "1h30m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration_s(text)


# -- task files ------------------------------------------------------------------------------------------

TASK = """\
library = "library"
account = "team-a"
count = 5

[select]
since_days = 3
"""


def run_task(tmp_path: Path, content: bytes) -> Run:
    task = tmp_path / "task.toml"
    task.write_bytes(content)
    return finish(start(("--task", task, "--scenario", "default")), tmp_path / "library")


def test_unknown_key_names_file_and_line(tmp_path: Path) -> None:
    run = run_task(tmp_path, TASK.replace("since_days", "since_day").encode())
    assert run.summary() == (64, "TASK_INVALID", "TASK_SPEC_INVALID")
    detail = run.document["stop_reason"]["detail"]
    assert "task.toml:6" in detail and "since_day" in detail
    assert "Traceback" not in run.stderr and not (tmp_path / "library").exists()


UNREADABLE = {
    "not TOML": b"library = \n",
    "not UTF-8": b'library = "\xff\xfe"\n',
    "UTF-16": TASK.encode("utf-16"),
    "empty": b"",
    "wrong type": TASK.replace("count = 5", 'count = "5"').encode(),
    "spacing lowered": (TASK + "[quota]\nspacing_s = 2\n").encode(),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_unreadable_task_file(tmp_path: Path, kind: str) -> None:
    run = run_task(tmp_path, UNREADABLE[kind])
    assert run.summary() == (64, "TASK_INVALID", "TASK_SPEC_INVALID")
    assert "task.toml" in run.document["stop_reason"]["detail"]
    assert "Traceback" not in run.stderr and not (tmp_path / "library").exists()


def test_task_file_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "task.toml").mkdir()
    run = finish(start(("--task", tmp_path / "task.toml")), None)
    assert run.summary() == (64, "TASK_INVALID", "TASK_SPEC_INVALID")
    assert "task.toml" in run.document["stop_reason"]["detail"] and "Traceback" not in run.stderr


FAST_PHONE = """\
description = "A quick phone on real time, for the way a named phone is reached."

[pace]
dump_s = 0.05
tap_s = 0.05
inject_s = 0.01
start_s = 0.1
load_s = 0.05

[feed]
reports = 6
pinned = []
notices = []
adverts_every = 0

[cache]
prefilled = [1, 2]
"""


@pytest.fixture
def named_phone(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """(adb server, serial) of a simulated phone reached as a real one is: by its name, on real time."""
    scenario = tmp_path / "fast.toml"
    scenario.write_text(FAST_PHONE, encoding="utf-8")
    with ExitStack() as stack:
        server = stack.enter_context(PrivateAdbServer())
        phone = stack.enter_context(start_phone(tmp_path / "phone", scenario, 1.0))
        server.connect(phone.serial)
        yield server.address, phone.serial


def test_task_on_a_named_phone(main_job: MainJob, named_phone: tuple[str, str], tmp_path: Path) -> None:
    """The way to a real phone: task file, adb server, confirmation recorded once; reuse only, so nothing is
    spent.
    """
    address, serial = named_phone
    task = tmp_path / "task.toml"
    lines = [
        'library = "library"',
        'account = "team-a"',
        f'device = "{serial}"',
        "count = 2",
        "[policy]",
        'reuse = "only"',
    ]
    task.write_text("\n".join(lines) + "\n", encoding="utf-8")
    library = tmp_path / "library"
    first = main_job("--task", task, "--adb-server", address, "--yes", scale=None)
    assert first.summary() == (0, "COMPLETE", None), first.stderr
    assert [item["source"] for item in first.items] == ["CACHE_REUSE"] * 2
    assert first.document["device"]["simulated"] is False
    assert len(list((library / "consent").iterdir())) == 1
    run_folder = library / first.document["paths"]["run"]
    assert (run_folder / "task.toml").read_bytes() == task.read_bytes()
    assert serial not in first.stdout.decode().replace(f'"device": "{serial}"', "")
    second = main_job("--task", task, "--adb-server", address, scale=None)  # not asked again
    assert second.summary() == (0, "COMPLETE", None), second.stderr
    assert [item["source"] for item in second.items] == ["PROJECT_REUSE"] * 2
    assert nothing_reserved(library)
    assert not [line for line in lines_of(tmp_path / "phone" / "truth.jsonl") if line["event"] == "served"]


# -- looking without touching ----------------------------------------------------------------------------


def test_dry_run_reserves_and_taps_nothing(main_job: MainJob, tmp_path: Path) -> None:
    library = tmp_path / "library"
    scenario = main_job.scenario(SMALL_FEED)
    run = main_job("--library", library, "--scenario", scenario, "--count", "2", "--dry-run")
    assert run.exit_code == 0, run.stderr
    assert events(library) == [] and served(library) == []
    assert not list(library.glob("reports/**/*.pdf"))
    with pytest.raises(Refusal, match="runs_dry"):
        find_run(Library(library), None)
    assert "plan of 2: 0 reused, 2 to download" in run.stderr.splitlines()[-1]


# -- one library, two runs -------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="a console event reaches the whole console here")
def test_second_run_on_a_library_in_use_is_busy(main_job: MainJob, tmp_path: Path) -> None:
    """Two windows, the same command: the second one says BUSY and disturbs nothing."""
    library = tmp_path / "library"
    options = ("--library", library, "--scenario", main_job.scenario(SMALL_FEED), "--count", "1")
    with main_job.started(*options, scale=1) as process:  # a minute: the second comes and goes in it
        wait_until((library / "library.lock").exists, process)
        second = finish(start(("--library", library)), library)
        process.send_signal(signal.SIGINT)
    first = main_job.ended(process, options)
    assert second.summary() == (75, "BUSY", "BUSY")
    assert "Traceback" not in second.stderr
    assert first.document["status"] == "INTERRUPTED"


# -- signals ---------------------------------------------------------------------------------------------


def journals(library: Path) -> list[dict[str, Any]]:
    return [
        record for path in sorted(library.glob("runs/*/items/*/journal.jsonl")) for record in lines_of(path)
    ]


def tap_in_flight(library: Path) -> bool:
    return any(record["event"] == "TRIGGER_INTENT" for record in journals(library))


def quota_settled(library: Path) -> bool:
    return any(event["type"] in ("CONFIRMED", "RELEASED", "UNCERTAIN") for event in events(library))


SIGNALS = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name) and os.name == "posix"]


@pytest.mark.skipif(not SIGNALS, reason="a console event reaches the whole console here")
@pytest.mark.parametrize("name", SIGNALS[:2])
def test_signal_in_the_middle_of_a_tap(main_job: MainJob, tmp_path: Path, name: str) -> None:
    """The tap is settled, the run ends 130; the next run finishes the paid item first and taps nothing for
    it.
    """
    library = tmp_path / "library"
    scenario = main_job.scenario(SMALL_FEED)
    options = ("--library", library, "--scenario", scenario, "--count", "3")
    with main_job.started(*options, scale=15) as process:
        wait_until(lambda: tap_in_flight(library), process)
        settled_before = quota_settled(library)
        process.send_signal(getattr(signal, name))
    first = main_job.ended(process, options)
    assert not settled_before, "the signal came after the tap was settled"
    assert first.exit_code == 130 and first.document["status"] == "INTERRUPTED"
    assert first.document["stop_reason"]["code"] == "INTERRUPTED"
    assert "[   0 s]" not in first.stderr and "window" not in first.stderr.partition("INTERRUPTED:")[0]
    (paid,) = first.items
    assert [event["type"] for event in events(library)] == ["RESERVED", "CONFIRMED"]
    assert served(library) == [paid["report_id"]]
    assert (paid["status"], paid["stop_code"]) == ("STOPPED", "DEADLINE_EXPIRED")
    assert (paid["quota_state"], paid["trigger_attempted"], paid["triggered"]) == ("CONFIRMED", True, True)
    assert not (item_folder(library, paid) / "terminal.json").exists()  # kept, not written off
    assert first.document["quota"]["reserved"] == 0

    second = main_job("--library", library, "--scenario", scenario, "--count", "2")
    assert second.summary()[:2] == (0, "COMPLETE"), second.stderr
    (recovered,) = second.document["recovered"]
    assert list(recovered) == ITEM_KEYS
    assert (recovered["item_id"], recovered["run_id"]) == (paid["item_id"], paid["run_id"])
    assert (recovered["state"], recovered["status"]) == ("P10_CLOSED", "SUCCESS")
    assert (library / recovered["final_path"]).stat().st_size == recovered["bytes"]
    assert served(library).count(paid["report_id"]) == 1
    finished_at = max(record["at"] for record in journal(library, recovered))
    opened_at = [journal(library, item)[0]["at"] for item in second.items]
    assert opened_at and finished_at <= min(opened_at)  # the paid item came first


@pytest.mark.skipif(not SIGNALS, reason="a console event reaches the whole console here")
def test_signal_while_nothing_is_open(main_job: MainJob, tmp_path: Path) -> None:
    """During discovery: nothing was reserved, and nothing is."""
    library = tmp_path / "library"
    options = ("--library", library, "--count", "3")
    with main_job.started(*options) as process:
        wait_until((library / "manifest.lock").exists, process)
        process.send_signal(signal.SIGINT)
    run = main_job.ended(process, options)
    assert run.exit_code == 130 and run.document["status"] == "INTERRUPTED"
    assert nothing_reserved(library) and served(library) == []


@pytest.mark.skipif(not SIGNALS, reason="a console event reaches the whole console here")
@pytest.mark.parametrize("name", SIGNALS[1:])
def test_signal_before_the_phone_is_there(main_job: MainJob, tmp_path: Path, name: str) -> None:
    """While the phone's station is set up there is no window yet; the answer is the same."""
    library = tmp_path / "library"
    options = ("--library", library)
    with main_job.started(*options) as process:
        wait_until((library / "sim-phone" / "phone.log").exists, process)
        process.send_signal(getattr(signal, name))
    run = main_job.ended(process, options)
    assert run.exit_code == 130 and run.document["status"] == "INTERRUPTED"
    assert nothing_reserved(library) and served(library) == []


@pytest.mark.skipif(not SIGNALS, reason="a console event reaches the whole console here")
def test_second_signal_still_ends_with_the_document(main_job: MainJob, tmp_path: Path) -> None:
    """An impatient second Ctrl-C: whatever it cuts short, the document and the books are whole."""
    library = tmp_path / "library"
    scenario = main_job.scenario(SMALL_FEED)
    options = ("--library", library, "--scenario", scenario, "--count", "2")
    with main_job.started(*options, scale=10) as process:
        wait_until(lambda: tap_in_flight(library), process)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: quota_settled(library), process)
        process.send_signal(signal.SIGINT)
    run = main_job.ended(process, options)
    assert run.exit_code == 130 and run.document["status"] == "INTERRUPTED"
    again = main_job("--library", library, "--scenario", scenario, "--count", "1")
    assert again.summary()[:2] == (0, "COMPLETE"), again.stderr
    assert len(again.document["recovered"]) == 1
    assert served(library).count(again.document["recovered"][0]["report_id"]) == 1
