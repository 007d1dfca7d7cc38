"""The embedded host: policies, retries, atomic children, crashes, two processes, a locked file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hibor.discovery import Declined, DiscoveryHandler, Frontier, ScanEnd, register_discovery
from hibor.hosts.local import FatalJobError, HostError, HostLockedError, LocalHost

from . import worker

ALL = [f"r{n}" for n in range(worker.PAGES * worker.PER_PAGE)]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKER_LOG", str(tmp_path / "executed.txt"))
    return tmp_path / "catalogue.sqlite3"


def executed(path: Path) -> list[str]:
    log = path.parent / "executed.txt"
    return log.read_text("utf-8").split() if log.exists() else []


def run_worker(path: Path, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.hosts.worker", str(path), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=dict(os.environ),
    )


def test_scan_and_children_run_to_the_wall(path: Path) -> None:
    with worker.host(str(path)) as host:
        assert host.enqueue("scan", "all")
        summary = host.run()
        assert (summary.completed, summary.failed, summary.waiting) == (41, 0, 0)
        assert all(host.is_completed(f"proc::{name}") for name in ALL)
        assert host.debts() == []
        assert host.enqueue("scan", "all"), "discovery jobs rerun in every run"
        assert host.run().completed == 1
        assert host.scan_reports("scan")[0]["ended"] == "page_hit"
    assert sorted(executed(path)) == sorted(ALL)


@pytest.mark.parametrize(
    ("rerun", "after_success", "after_failure", "after_change"),
    [
        ("never", False, False, False),
        ("on_failure", False, True, False),
        ("every_run", True, True, True),
        ("on_input_change", False, False, True),
    ],
)
def test_rerun_policies(
    path: Path, rerun: str, after_success: bool, after_failure: bool, after_change: bool
) -> None:
    def work(job: Any, ctx: Any) -> bool:
        return job.job_id != "bad"

    with LocalHost(path, max_attempts=1) as host:
        host.register_handler("work", work)
        host.set_discovery_rerun("work", rerun)
        for name in ("good", "bad"):
            assert host.enqueue("work", name, {"v": 1})
            assert not host.enqueue("work", name, {"v": 1}), "queued already"
        host.run()
        assert host.enqueue("work", "good", {"v": 1}) is after_success
        assert host.enqueue("work", "bad", {"v": 1}) is after_failure
        host.run()
        assert host.enqueue("work", "good", {"v": 2}) is after_change


def test_unknown_rerun_is_refused(path: Path) -> None:
    with LocalHost(path) as host, pytest.raises(ValueError, match="rerun"):
        host.set_discovery_rerun("scan", "sometimes")


def test_retries_then_failed_with_reason_and_attempts(path: Path) -> None:
    attempts: list[int] = []

    def broken(job: Any, ctx: Any) -> None:
        attempts.append(job.attempt)
        ctx.spawn("broken", "child")
        raise OSError("no space")

    with LocalHost(path) as host:
        host.register_handler("broken", broken)
        host.enqueue("broken", "a")
        summary = host.run()
        assert (summary.failed, summary.retried, summary.waiting) == (1, 2, 0)
        assert attempts == [1, 2, 3]
        (failure,) = host.failures()
        assert (failure.uid, failure.reason, failure.attempts) == ("broken::a", "OSError: no space", 3)
        assert host.is_failed("broken::a")
        assert not host.is_completed("broken::a")
        assert host.retry("broken::a")
        assert not host.is_failed("broken::a")
        assert host.queued_uids() == ["broken::a"]


def test_fatal_error_is_not_retried(path: Path) -> None:
    def fatal(job: Any, ctx: Any) -> None:
        raise FatalJobError("gone")

    with LocalHost(path) as host:
        host.register_handler("f", fatal)
        host.enqueue("f", "a")
        assert host.run().failed == 1
        assert host.failures()[0].attempts == 1


def test_retry_wait_leaves_the_job_queued(path: Path) -> None:
    with LocalHost(path, retry_wait_s=3600) as host:
        host.register_handler("f", lambda job, ctx: False)
        host.enqueue("f", "a")
        summary = host.run()
        assert (summary.retried, summary.failed, summary.waiting) == (1, 0, 1)
        assert host.run().retried == 0


def test_interrupt_is_not_the_jobs_fault(path: Path) -> None:
    def interrupted(job: Any, ctx: Any) -> None:
        raise KeyboardInterrupt

    with LocalHost(path, max_attempts=1) as host:
        host.register_handler("f", interrupted)
        host.enqueue("f", "a")
        with pytest.raises(KeyboardInterrupt):
            host.run()
        assert host.queued_uids() == ["f::a"]
        assert host.failures() == []


def test_failed_attempt_leaves_nothing_of_what_it_handed_out(path: Path) -> None:
    def half(job: Any, ctx: Any) -> None:
        for n in range(1000):
            ctx.spawn("child", str(n))
            ctx.record("row", str(n), {"n": n})
            ctx.mark_seen(f"mark::{n}")
        ctx.set_scan_debt("list", True)
        ctx.set_scan_frontier("list", Frontier(3, ("a",)))
        raise RuntimeError

    with LocalHost(path, max_attempts=1) as host:
        host.register_handler("half", half)
        host.enqueue("half", "a")
        host.run()
        assert host.queued_uids() == []
        assert list(host.entries("row")) == []
        assert host.marks() == []
        assert host.debts() == ["list"], "debt is durable at once"
        assert host._store.rows("SELECT count(*) FROM spool") == [(0,)]


def test_killed_in_the_scan_nothing_is_handed_out_and_the_debt_stays(path: Path) -> None:
    process = run_worker(path, "die_in_scan")
    process.communicate(timeout=60)
    assert process.returncode != 0
    with worker.host(str(path)) as host:
        assert host.queued_uids() == ["scan::all"]
        assert host.debts() == ["scan"]
        host._store.rows("DELETE FROM queue")
        host.enqueue("scan", "all")
        assert host.run().completed == 41
        assert host.debts() == []
    assert sorted(executed(path)) == sorted(ALL)


def test_killed_in_a_child_the_next_process_takes_it_back(path: Path) -> None:
    process = run_worker(path, "die_in_child")
    process.communicate(timeout=60)
    assert process.returncode != 0
    with worker.host(str(path)) as host:
        assert "proc::r2" in host.queued_uids()
        assert host.run().waiting == 0
        assert all(host.is_completed(f"proc::{name}") for name in ALL)
    assert sorted(executed(path)) == sorted([*ALL, "r2"]), "only the killed one ran twice"


def test_a_job_that_kills_its_process_every_time_ends_in_failed(path: Path) -> None:
    with worker.host(str(path)) as host:
        host.enqueue("scan", "all", {"die_on_page": 1})
    for _ in range(3):
        run_worker(path, "children").communicate(timeout=60)
    with worker.host(str(path)) as host:
        host.run()
        (failure,) = host.failures()
        assert (failure.uid, failure.attempts) == ("scan::all", 3)
        assert "died" in failure.reason
        assert host.queued_uids() == []


def test_two_processes_share_the_queue_and_run_each_job_once(path: Path) -> None:
    with worker.host(str(path)) as host:
        host.enqueue("scan", "all")
        host.run(limit=1)
    processes = [run_worker(path, "children") for _ in range(2)]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert sorted(executed(path)) == sorted(ALL)


def test_locked_file_is_waited_for_and_then_refused_with_the_reason(path: Path) -> None:
    LocalHost(path).close()
    holder = run_worker(path, "hold")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        with pytest.raises(HostLockedError, match=r"locked by another process for 0\.2 s") as caught:
            LocalHost(path, lock_wait_s=0.2)
        assert caught.value.wait_s == 0.2
    finally:
        holder.communicate(timeout=60)
    with LocalHost(path, lock_wait_s=0.2) as host:
        assert host.enqueue("x", "1")


def test_a_lock_that_is_freed_in_time_is_waited_for(path: Path) -> None:
    LocalHost(path).close()
    holder = run_worker(path, "hold")
    assert holder.stdout is not None
    holder.stdout.readline()
    assert holder.stdin is not None
    holder.stdin.close()
    with LocalHost(path, lock_wait_s=30) as host:
        assert host.enqueue("x", "1")
    holder.wait(timeout=60)
    holder.stdout.close()


def test_a_lock_that_appears_while_a_job_runs_stops_the_run_and_costs_nothing(path: Path) -> None:
    intruders: list[sqlite3.Connection] = []

    def work(job: Any, ctx: Any) -> None:
        for n in range(600):
            ctx.spawn("child", str(n))
            if n == 100 and job.attempt == 1:
                intruders.append(sqlite3.connect(path, isolation_level=None))
                intruders[0].execute("BEGIN IMMEDIATE")

    with LocalHost(path, lock_wait_s=0.05) as host:
        host.register_handler("work", work)
        host.enqueue("work", "a")
        with pytest.raises(HostLockedError):
            host.run()
        intruders[0].execute("ROLLBACK")
        intruders[0].close()
        assert host.queued_uids() == ["work::a"]
        assert host.run().completed == 1
        assert len(host.queued_uids()) == 600


def test_a_missing_folder_is_said(path: Path) -> None:
    with pytest.raises(HostError, match="cannot be used"):
        LocalHost(path.parent / "missing" / "file.sqlite3")


def test_a_copy_of_the_files_taken_in_the_middle_of_a_job_is_a_clean_earlier_state(path: Path) -> None:
    """What a backup or a power cut sees: no part of the job's result without the rest."""
    copies = path.parent / "copies"

    def work(job: Any, ctx: Any) -> None:
        for n in range(1000):
            ctx.spawn("child", str(n))
            if n % 300 == 0:
                folder = copies / str(n)
                folder.mkdir(parents=True)
                for part in path.parent.glob(f"{path.name}*"):
                    if not part.name.endswith(".lock"):
                        shutil.copy(part, folder / part.name)

    with LocalHost(path) as host:
        host.register_handler("work", work)
        host.enqueue("work", "a")
        host.run()
        assert len(host.queued_uids()) == 1000
    for folder in copies.iterdir():
        with LocalHost(folder / path.name) as copy:
            assert copy.queued_uids() == ["work::a"]
            copy.register_handler("work", lambda job, ctx: ctx.spawn("child", "x") is None)
            copy.run()
            assert copy.failures()[0].reason.endswith("returned False")


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"this is not a database, but long enough to look like one" * 40)
    with pytest.raises(HostError, match="not a usable database"):
        LocalHost(path)


def test_a_file_of_a_later_format_is_refused(path: Path) -> None:
    with LocalHost(path) as host:
        host._store.rows("PRAGMA user_version=99")
    with pytest.raises(HostError, match="format 99"):
        LocalHost(path)


def test_context_is_the_snapshot_at_dispatch(path: Path) -> None:
    answers: list[tuple[bool, bool, list[str]]] = []

    def look(job: Any, ctx: Any) -> None:
        other = LocalHost(path)
        other.seed(["proc::late"])
        other.close()
        answers.append(
            (ctx.is_completed("proc::early"), ctx.is_completed("proc::late"), list(ctx.attempted_uids()))
        )

    with LocalHost(path) as host:
        host.seed(["proc::early"])
        host.register_handler("look", look)
        host.run_job("look", "a")
        assert host.is_completed("proc::late")
    assert answers == [(True, False, ["proc::early"])]


def test_seed_counts_what_is_new_and_refuses_all_for_one_bad_uid(path: Path) -> None:
    with LocalHost(path) as host:
        assert host.seed(f"proc::{n}" for n in range(1000)) == 1000
        assert host.seed(["proc::5", "proc::new"]) == 1
        with pytest.raises(ValueError, match="task_type::job_id"):
            host.seed(["proc::x", "no separator"])
        assert not host.is_completed("proc::x")


HIDDEN: set[str] = set()


def fetch_twice_three(job: Any, ctx: Any, page: int) -> list[str]:
    """Two pages; what is in `HIDDEN` is not listed."""
    pages = {1: ["ad-1", "a", "b"], 2: ["c", "ad-2"]}
    return [item for item in pages.get(page, []) if item not in HIDDEN]


def same(item: str) -> str:
    return item


def catalogue(job: Any, ctx: Any, item: str, content_id: str) -> Declined | None:
    if item.startswith("ad-"):
        return Declined("advert", "rule-1")
    ctx.record("catalogue", content_id, {"title": f"报告 {item}"}, sort_key=f"2026-11-{ord(item[0]) - 80}")
    return None


def gone(job: Any, ctx: Any, content_ids: list[str]) -> None:
    ctx.vanish("catalogue", content_ids)


def make_catalogue(path: Path) -> LocalHost:
    host = LocalHost(path)
    register_discovery(
        host, "list", fetch_twice_three, same, catalogue, "catalogue", on_missing=gone, continuity=True,
        confirm_missing=True, resume=True,
    )  # fmt: skip
    return host


def test_catalogue_rows_are_seen_entries_in_the_order_of_their_keys(path: Path) -> None:
    with make_catalogue(path) as host:
        assert host.run_job("list", "all")
        assert [entry.content_id for entry in host.entries("catalogue")] == ["c", "b", "a"]
        assert [entry.content_id for entry in host.entries("catalogue", since_sort_key="2026-11-18")] == [
            "c",
            "b",
        ]
        assert host.entry("catalogue::a").entry == {"title": "报告 a"}  # type: ignore[union-attr]
        assert host.is_completed("catalogue::a")
        assert [(mark.uid, mark.reason) for mark in host.marks("rule-1")] == [
            ("catalogue::ad-1", "advert"),
            ("catalogue::ad-2", "advert"),
        ]
        assert host.run_job("list", "all")
        assert host.scan_reports("list")[0]["ended"] == ScanEnd.PAGE_HIT


def test_dry_scan_lists_what_is_new_and_writes_nothing(path: Path) -> None:
    handler = DiscoveryHandler(fetch_twice_three, same, catalogue, "catalogue")
    with make_catalogue(path) as host:
        host.seed(["catalogue::a"])
        before = host._store.rows("SELECT * FROM sqlite_sequence")
        assert host.dry_scan(handler).new_ids == ("ad-1", "b", "c", "ad-2")
        assert (list(host.entries("catalogue")), host.debts(), host.scan_reports()) == ([], [], [])
        assert host._store.rows("SELECT * FROM sqlite_sequence") == before


def test_old_scan_reports_are_dropped(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hibor.hosts.local_context.REPORTS_KEPT", 3)
    with make_catalogue(path) as host:
        for _ in range(5):
            host.run_job("list", "all")
        assert len(host.scan_reports("list")) == 3


def test_removed_marks_bring_their_entries_back(path: Path) -> None:
    with make_catalogue(path) as host:
        host.run_job("list", "all")
        assert host.remove_marks(rule_version="other") == 0
        assert host.remove_marks(rule_version="rule-1") == 2
        assert host.debts() == ["list"]
        host.run_job("list", "all")
        assert len(host.marks()) == 2
        assert host.debts() == []


def test_vanished_rows_are_marked_after_two_full_scans_and_come_back(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make_catalogue(path) as host:
        host.run_job("list", "all")
        monkeypatch.setattr(sys.modules[__name__], "HIDDEN", {"a"})
        for expected in (False, True):
            host.run_job("list", "full", {"scan_mode": "full"})
            assert (host.entry("catalogue::a").vanished_at is not None) is expected  # type: ignore[union-attr]
        assert host.scan_reports("list")[0]["missing"] == ["a"]
        remaining = [entry.content_id for entry in host.entries("catalogue", include_vanished=False)]
        assert remaining == ["c", "b"]


def test_frontier_and_missing_memory_survive_in_the_file(path: Path) -> None:
    def write(job: Any, ctx: Any) -> None:
        ctx.set_scan_frontier("list", Frontier(7, ("x", "y")))
        ctx.set_missing_before("list", {"b", "a"})
        ctx.set_scan_debt("list", False)

    read: list[Any] = []

    def look(job: Any, ctx: Any) -> None:
        read.extend([ctx.scan_frontier("list"), ctx.missing_before("list"), ctx.scan_frontier("other")])

    with LocalHost(path) as host:
        host.register_handler("write", write)
        host.register_handler("look", look)
        host.run_job("write", "a")
    with LocalHost(path) as host:
        host.register_handler("look", look)
        host.run_job("look", "a")
    assert read == [Frontier(7, ("x", "y")), ["a", "b"], None]


def test_run_job_raises_what_the_last_attempt_raised(path: Path) -> None:
    def broken(job: Any, ctx: Any) -> None:
        raise ConnectionError("link")

    with LocalHost(path, max_attempts=2) as host:
        host.register_handler("b", broken)
        with pytest.raises(ConnectionError, match="link"):
            host.run_job("b", "x")
        assert host.failures()[0].attempts == 2


@pytest.mark.parametrize("name", ["", "a::b"])
def test_bad_names_are_refused(path: Path, name: str) -> None:
    with LocalHost(path) as host:
        with pytest.raises(ValueError, match="'::'"):
            host.enqueue(name, "x")
        with pytest.raises(ValueError, match="'::'"):
            host.enqueue("x", name)


def test_payload_schema_is_checked_before_the_handler_runs(path: Path) -> None:
    class Schema:
        def __init__(self, *, pages: int) -> None:
            self.pages = pages

    with LocalHost(path, max_attempts=1) as host:
        host.register_handler("s", lambda job, ctx: True, payload_schema=Schema)
        host.enqueue("s", "good", {"pages": 3})
        host.enqueue("s", "bad", {"page": 3})
        summary = host.run()
        assert (summary.completed, summary.failed) == (1, 1)
        assert "unexpected keyword" in host.failures()[0].reason
