"""The farm as its users run it: two simulated phones, two worker processes, one list of work, one worker
killed.

Rules of this file: everything runs in an environment with the real engine, on SQLite and on a real
PostgreSQL server. Ledgers, journals and the phones' truth are read by the second reader of
`tests.main_job`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.main_job import ROOT, environment, lines_of, read_ledger, truth, wait_until
from tests.services import farm_python, postgres_server

SCENARIO = """\
description = "Eight reports, nothing in the phone's cache."

[feed]
reports = 8
pinned = []
notices = []
adverts_every = 0

[pace]
dump_s = 0.6
prepare_min_s = 3.0
prepare_max_s = 5.0
"""
SCALE = "20"
LIMIT_S = 200.0


@pytest.fixture(scope="module")
def python() -> str:
    return farm_python()


@pytest.fixture(scope="module")
def server(python: str) -> Iterator[str]:
    with postgres_server() as url:
        yield url


class Farm:
    """One database, two phones with their libraries, and the command as processes."""

    def __init__(self, python: str, database: str, folder: Path) -> None:
        self.python, self.database, self.folder = python, database, folder
        self.scenario = folder / "own.toml"
        self.scenario.write_text(SCENARIO, encoding="utf-8")
        self.phone_options = ["--scenario", str(self.scenario), "--time-scale", SCALE]

    def library(self, phone: str) -> Path:
        return self.folder / phone

    def start(self, module: str, *options: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [self.python, "-m", module, *options, "--lang", "en"],
            cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=os.name == "posix",
        )  # fmt: skip

    def end(self, process: subprocess.Popen[bytes]) -> tuple[int, Any]:
        """(exit code, the JSON document on stdout)."""
        try:
            stdout, stderr = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(process.communicate()[1].decode("utf-8", "replace")[-4000:]) from None
        assert b"Traceback" not in stderr, stderr.decode("utf-8", "replace")
        return process.returncode, json.loads(stdout) if stdout.strip() else None

    def discover(self, phone: str) -> None:
        library = str(self.library(phone))
        code, _ = self.end(self.start("hibor.discover", "--library", library, *self.phone_options))
        assert code == 0

    def plan(self, library: str, *phones: str, more: Sequence[str] = ()) -> list[dict[str, Any]]:
        chosen = [word for phone in phones for word in ("--phone", phone)]
        options = ["plan", "--database", self.database, "--library", str(self.library(library)), *chosen]
        code, document = self.end(self.start("hibor.farm", *options, *more, "--json"))
        assert code == 0
        planned: list[dict[str, Any]] = document["planned"]
        return planned

    @contextmanager
    def worker(self, phone: str) -> Iterator[subprocess.Popen[bytes]]:
        """A worker under way; killed when the test fails meanwhile."""
        options = ["--phone", phone, "--library", str(self.library(phone)), "--database", self.database]
        process = self.start("hibor.farm", "work", *options, *self.phone_options, "--json")
        try:
            yield process
        except BaseException:
            process.kill()
            process.communicate()
            raise

    def work(self, phone: str) -> tuple[int, Any]:
        with self.worker(phone) as process:
            return self.end(process)

    def status(self) -> dict[str, Any]:
        code, document = self.end(self.start("hibor.farm", "status", "--database", self.database, "--json"))
        assert code == 0
        found: dict[str, Any] = document
        return found

    # -- books

    def served(self, phone: str) -> Counter[str]:
        lines = truth(self.library(phone))
        return Counter(line["report_id"] for line in lines if line["event"] == "served")

    def intents(self, phone: str) -> set[str]:
        """Item ids with a TRIGGER_INTENT."""
        found = set()
        for path in self.library(phone).glob("runs/*/items/*/journal.jsonl"):
            if any(record["event"] == "TRIGGER_INTENT" for record in lines_of(path)):
                found.add(path.parent.name.split("-", 1)[1])
        return found

    def families(self, phone: str) -> Counter[str]:
        """Quota states of the phone's ledger: CONFIRMED, UNCERTAIN, RELEASED, and RESERVED with an intent."""
        paths = list(self.library(phone).rglob("ledger.jsonl"))
        state: dict[tuple[str, int], str] = {}
        intents = self.intents(phone)
        for path in paths:
            for event in read_ledger(path):
                key = (event["report_id"], event["ordinal"])
                if event["type"] == "RESERVED":
                    state[key] = "RESERVED" if event["item_id"] in intents else "UNTOUCHED"
                elif event["type"] in ("CONFIRMED", "UNCERTAIN", "RELEASED"):
                    state[key] = event["type"]
        return Counter(state.values())

    def delivered(self, phone: str) -> list[str]:
        """Reports in the phone's library, one entry a manifest row, each with its file."""
        rows = [row for row in lines_of(self.library(phone) / "manifest.jsonl") if row.get("final_path")]
        assert all((self.library(phone) / row["final_path"]).is_file() for row in rows)
        return [row["report_id"] for row in rows]

    def check_books(self, phone: str, *, equal: bool) -> None:
        """CONFIRMED ≤ served ≤ CONFIRMED + UNCERTAIN + RESERVED with intent; served once; equality on
        request.
        """
        served, states = self.served(phone), self.families(phone)
        most = states["CONFIRMED"] + states["UNCERTAIN"] + states["RESERVED"]
        assert states["CONFIRMED"] <= served.total() <= most, (served, states)
        assert not served or max(served.values()) == 1
        if equal:
            assert served.total() == states["CONFIRMED"] and states["UNCERTAIN"] == 0


@pytest.fixture(params=["sqlite", "postgresql"])
def farm(request: pytest.FixtureRequest, python: str, tmp_path: Path) -> Farm:
    if request.param == "sqlite":
        return Farm(python, f"sqlite:///{(tmp_path / 'farm.sqlite3').as_posix()}", tmp_path)
    url: str = request.getfixturevalue("server")
    name = "t" + "".join(character for character in tmp_path.name if character.isalnum()).lower()[-40:]
    return Farm(python, f"{url.rsplit('/', 1)[0]}/{name}", tmp_path)


@pytest.fixture
def sqlite_farm(python: str, tmp_path: Path) -> Farm:
    return Farm(python, f"sqlite:///{(tmp_path / 'farm.sqlite3').as_posix()}", tmp_path)


def kill_when(process: subprocess.Popen[bytes], holds: Callable[[], bool]) -> None:
    """What the OOM killer does, at a moment of the test's choice."""
    wait_until(holds, process)
    process.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    process.communicate()
    assert process.returncode != 0


def test_two_phones_one_worker_killed_while_its_download_runs_every_report_once(farm: Farm) -> None:
    farm.discover("a")
    first = farm.plan("a", "a", more=["--count", "4"])
    assert [one["phone"] for one in first] == ["a"] * 4
    both = farm.plan("a", "b")
    assert [one["why"] for one in both[:4]] == ["planned"] * 4, "wanted by b too, and collected once"
    assert [one["phone"] for one in both[4:]] == ["b"] * 4
    with farm.worker("b") as other:
        with farm.worker("a") as victim:
            kill_when(victim, lambda: farm.served("a").total() >= 2)
        assert farm.status()["phones"]["a"]["running"] == 1, "what it had begun stays with its phone"
        code, document = farm.work("a")
        assert (code, document["refused"], document["ended"]) == (0, {}, None)
        assert farm.end(other)[0] == 0
    collected = farm.delivered("a") + farm.delivered("b")
    assert sorted(collected) == sorted(one["report_id"] for one in both)
    assert len(farm.delivered("a")) == len(farm.delivered("b")) == 4
    farm.check_books("a", equal=True)
    farm.check_books("b", equal=True)
    assert farm.status()["phones"] == {
        phone: {"queued": 0, "running": 0, "done": 4, "failed": 0} for phone in "ab"
    }


def test_a_worker_killed_at_the_intent_never_taps_that_report_again(sqlite_farm: Farm) -> None:
    farm = sqlite_farm
    farm.discover("a")
    planned = [one["report_id"] for one in farm.plan("a", "a", more=["--count", "3"])]
    with farm.worker("a") as victim:
        kill_when(victim, lambda: len(farm.intents("a")) >= 2)
    for _ in range(4):
        code, document = farm.work("a")
        if document["ended"] is None:
            break
    assert document["ended"] is None, document
    collected = farm.delivered("a")
    assert len(collected) == len(set(collected)) and set(collected) <= set(planned)
    assert len(collected) >= 2 and len(collected) + len(farm.status()["reports"]) >= 3
    farm.check_books("a", equal=False)
    failed = [one for one in farm.status()["reports"] if one["state"] == "failed"]
    assert {one["report_id"] for one in failed} == set(planned) - set(collected)
    assert all(one["reason"].startswith("PAID ") for one in failed)
    assert code == (1 if document["refused"] else 0)


def test_quota_used_up_leaves_the_rest_in_the_queue(sqlite_farm: Farm) -> None:
    farm = sqlite_farm
    farm.scenario.write_text(f"{SCENARIO}\n[quota]\nlimit = 2\n", encoding="utf-8")
    farm.discover("a")
    farm.plan("a", "a", more=["--count", "4"])
    code, document = farm.work("a")
    assert code == 11 and len(document["delivered"]) == 2, "PARTIAL_QUOTA_STOP"
    assert document["ended"]["code"] == "QUOTA_EXHAUSTED"
    counts = farm.status()["phones"]["a"]
    assert (counts["done"], counts["failed"], counts["queued"] + counts["running"]) == (2, 0, 2)
    farm.check_books("a", equal=True)


def test_a_second_worker_of_a_phone_is_refused(sqlite_farm: Farm) -> None:
    farm = sqlite_farm
    farm.discover("a")
    farm.plan("a", "a", more=["--count", "2"])
    with farm.worker("a") as process:
        wait_until(lambda: bool(farm.intents("a")), process)
        second = farm.start("hibor.farm", "work", "--phone", "a", "--library", str(farm.library("a")),
                            "--database", farm.database, *farm.phone_options)  # fmt: skip
        assert farm.end(second)[0] == 75
        assert farm.end(process)[0] == 0
    farm.check_books("a", equal=True)
