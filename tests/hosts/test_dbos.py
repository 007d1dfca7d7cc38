"""The farm's host on the real engine: two workers, one killed in the middle, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services import dbos_python, postgres_server

ROOT = Path(__file__).parents[2]
NAMES = [f"r{n * 7919 % 1009}" for n in range(12)]


@pytest.fixture(scope="module")
def python() -> str:
    return dbos_python()


@pytest.fixture(scope="module")
def server(python: str) -> Iterator[str]:
    with postgres_server() as url:
        yield url


class Farm:
    """One database with planners and workers as processes of their own."""

    def __init__(self, python: str, url: str, folder: Path) -> None:
        self.python = python
        self.url = url
        self.log = folder / "log.jsonl"

    def start(self, mode: str, argument: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, "-m", "tests.hosts.dbos_driver", self.url, str(self.log), mode, argument],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        )  # fmt: skip

    def finish(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        stdout, stderr = process.communicate(timeout=150)
        assert process.returncode == 0, stderr[-4000:]
        line = next(line for line in stdout.splitlines() if line.startswith("RESULT "))
        result: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
        return result

    def plan(self, *jobs: list[Any]) -> list[bool]:
        accepted: list[bool] = self.finish(self.start("plan", json.dumps(jobs)))["accepted"]
        return accepted

    def work(self, phone: str) -> dict[str, Any]:
        return self.finish(self.start("work", phone))

    def killed(self, phone: str) -> None:
        process = self.start("work", phone)
        process.communicate(timeout=150)
        assert process.returncode != 0

    def events(self, event: str) -> list[dict[str, Any]]:
        lines = self.log.read_text("utf-8").splitlines() if self.log.exists() else []
        return [entry for entry in map(json.loads, lines) if entry["event"] == event]

    def ended(self) -> list[str]:
        return sorted(entry["uid"].removeprefix("item::") for entry in self.events("end"))


@pytest.fixture
def sqlite_farm(python: str, tmp_path: Path) -> Farm:
    return Farm(python, f"sqlite:///{(tmp_path / 'farm.sqlite3').as_posix()}", tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def farm(request: pytest.FixtureRequest, python: str, tmp_path: Path, sqlite_farm: Farm) -> Farm:
    """The same scenario on both databases; the engine makes the PostgreSQL one itself."""
    if request.param == "sqlite":
        return sqlite_farm
    url: str = request.getfixturevalue("server")
    name = "t" + "".join(character for character in tmp_path.name if character.isalnum()).lower()[-40:]
    return Farm(python, f"{url.rsplit('/', 1)[0]}/{name}", tmp_path)


def scan_job(phone: str, listing: list[str], job_id: str = "all", **payload: Any) -> list[Any]:
    return ["scan", job_id, {"listing": listing, **payload}, phone, None]


def test_scan_rediscovery_failures_and_marks(farm: Farm) -> None:
    listing = ["ad-1", "bad", "fatal", "flaky", *NAMES]
    assert farm.plan(scan_job("p1", listing)) == [True]
    result = farm.work("p1")
    assert farm.ended() == sorted(["bad", "bad", "bad", "flaky", *NAMES])
    assert [(uid, attempts) for uid, _, attempts in result["failures"]] == [
        ("item::bad", 3),
        ("item::fatal", 1),
    ]
    assert result["debts"] == []
    assert farm.plan(scan_job("p1", ["new", *listing]), ["item", NAMES[0], {}, "p2", None]) == [True, False]
    pages_before = len(farm.events("fetch"))
    farm.work("p1")
    assert farm.ended() == sorted(["bad", "bad", "bad", "flaky", "new", *NAMES])
    assert len(farm.events("fetch")) - pages_before == 4, "page 1, page 2, and both once more: nothing deeper"


def test_two_workers_one_killed_in_the_middle_every_report_once(farm: Farm) -> None:
    listing = ["kill-1", *NAMES]
    farm.plan(scan_job("p1", listing))
    farm.killed("p1")
    survivors = [farm.start("work", "p1"), farm.start("work", "p2")]
    for process in survivors:
        assert farm.finish(process)["failures"] == []
    assert farm.ended() == sorted(listing)
    killed = [entry["attempt"] for entry in farm.events("start") if entry["uid"] == "item::kill-1"]
    assert killed == [1, 2], "the second start knows that it is not the first"


def test_a_report_wanted_by_two_phones_is_collected_once(sqlite_farm: Farm) -> None:
    sqlite_farm.plan(scan_job("p1", NAMES, "a"), scan_job("p2", NAMES, "b"))
    workers = [sqlite_farm.start("work", "p1"), sqlite_farm.start("work", "p2")]
    for process in workers:
        sqlite_farm.finish(process)
    # A worker may have been idle before the other one's scan had spread its finds.
    for phone in ("p1", "p2"):
        sqlite_farm.work(phone)
    assert sqlite_farm.ended() == sorted(NAMES)


def test_items_go_to_the_phones_the_scan_names_and_only_their_worker_runs_them(sqlite_farm: Farm) -> None:
    sqlite_farm.plan(scan_job("p1", NAMES, phones=["p1", "p2"]))
    sqlite_farm.work("p1")
    first = Counter(entry["phone"] for entry in sqlite_farm.events("end"))
    assert set(first) == {"p1"}
    sqlite_farm.work("p2")
    both = Counter(entry["phone"] for entry in sqlite_farm.events("end"))
    assert both["p1"] == first["p1"]
    assert both["p2"] == len(NAMES) - first["p1"] > 0


def test_a_worker_killed_in_its_scan_hands_out_nothing_and_the_next_one_reads_on(farm: Farm) -> None:
    farm.plan(scan_job("p1", NAMES, die_on_page=2))
    farm.killed("p1")
    assert farm.events("start") == []
    result = farm.work("p1")
    assert result["debts"] == []
    assert farm.ended() == sorted(NAMES)


def test_missing_is_confirmed_and_plain_uids_only(sqlite_farm: Farm) -> None:
    sqlite_farm.plan(scan_job("p1", NAMES))
    sqlite_farm.work("p1")
    for _ in range(2):
        assert sqlite_farm.events("missing") == []
        sqlite_farm.plan(scan_job("p1", NAMES[1:], scan_mode="full"))
        sqlite_farm.work("p1")
    assert [entry["ids"] for entry in sqlite_farm.events("missing")] == [[NAMES[0]]]


def test_rerun_policies(sqlite_farm: Farm) -> None:
    def jobs(rerun: str, value: int) -> list[list[Any]]:
        return [
            ["item", f"{kind}-{rerun}", {"item": f"{kind}{value}"}, "p1", rerun] for kind in ("good", "bad")
        ]

    policies = ("never", "on_failure", "every_run", "on_input_change")
    first = [job for rerun in policies for job in jobs(rerun, 1)]
    assert sqlite_farm.plan(*first) == [True] * 8
    assert sqlite_farm.plan(*first) == [False] * 8, "queued already"
    sqlite_farm.work("p1")
    changed = [job for rerun in policies for job in jobs(rerun, 2)]
    assert sqlite_farm.plan(*changed) == [False, False, False, True, True, True, True, True]
    sqlite_farm.work("p1")
    again = [job for rerun in policies for job in jobs(rerun, 2)]
    assert sqlite_farm.plan(*again) == [False, False, False, True, True, True, False, False]
