"""A worker that crashes, hangs, prints or eats memory is a finding about one file; the next file goes on."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hibor.pdf import PdfWorkerUnavailable, Pool, check_pdf_with
from hibor.pdf import pool as pool_module
from hibor.sim import cruel_pdf
from tests.pdf import samples

WORKER = Path(__file__).with_name("faulty_worker.py")


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    good, evil = tmp_path / "good.pdf", tmp_path / "evil.pdf"
    for path in (good, evil):
        path.write_bytes(samples.good())
    yield good, evil


def faulty(mode: str, scratch: Path | None = None, **options: int) -> Pool:
    command = [sys.executable, "-B", str(WORKER), mode, *([str(scratch)] if scratch else [])]
    return Pool(command=command, **options)


posix = pytest.mark.skipif(os.name == "nt", reason="signals end processes on POSIX only")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="how much stack there is depends on it")
def test_f61_a_file_that_really_ends_the_library_costs_that_file(files: tuple[Path, Path]) -> None:
    """No worker of ours misbehaves here: the library itself dies of the file."""
    good, evil = files
    evil.write_bytes(cruel_pdf.bottomless_outline())
    pool = Pool()
    try:
        assert check_pdf_with(pool, evil).finding == "worker_died"
        assert check_pdf_with(pool, good).ok
    finally:
        pool.close()


def test_f62_a_file_that_really_takes_for_ever_costs_its_time(files: tuple[Path, Path]) -> None:
    good, evil = files
    evil.write_bytes(cruel_pdf.endless_page())
    pool = Pool()
    try:
        pool.warm_up()
        assert check_pdf_with(pool, evil, timeout_s=0.6).finding == "timed_out"
        assert check_pdf_with(pool, good).ok
    finally:
        pool.close()


@pytest.mark.skipif(os.environ.get("HIBOR_DEEP") != "1", reason="fills two gibibytes; with HIBOR_DEEP=1")
def test_f62_a_file_that_really_swells_costs_that_file(files: tuple[Path, Path]) -> None:
    good, evil = files
    evil.write_bytes(cruel_pdf.swelling_string())
    pool = Pool()
    try:
        assert check_pdf_with(pool, evil, timeout_s=120.0).finding == "over_memory"
        assert check_pdf_with(pool, good).ok
    finally:
        pool.close()


@posix
@pytest.mark.parametrize("mode", ["segv", "abrt", "kill"])
def test_f61_crash_is_a_finding_and_the_next_file_goes_on(mode: str, files: tuple[Path, Path]) -> None:
    good, evil = files
    pool = faulty(mode)
    try:
        report = check_pdf_with(pool, evil)
        assert (report.finding, report.code, report.ok) == ("worker_died", "PDF_NOT_OPENABLE", False)
        assert report.sha256 is not None and report.size_bytes == evil.stat().st_size
        assert check_pdf_with(pool, good).ok
    finally:
        pool.close()


def test_a_death_that_does_not_repeat_does_not_convict(files: tuple[Path, Path], tmp_path: Path) -> None:
    pool = faulty("die-once", tmp_path / "scratch")
    try:
        assert check_pdf_with(pool, files[1]).ok
        assert (tmp_path / "scratch").exists(), "the first worker did die"
    finally:
        pool.close()


@pytest.mark.parametrize("mode", ["spin", "hang"])
def test_f62_hang_is_killed(mode: str, files: tuple[Path, Path]) -> None:
    good, evil = files
    pool = faulty(mode)
    try:
        pool.warm_up()
        hanging = pool.worker_pid
        report = check_pdf_with(pool, evil, timeout_s=0.6)
        assert (report.finding, report.code) == ("timed_out", "PDF_NOT_OPENABLE")
        assert pool.worker_pid is None
        assert hanging is not None
        if os.name != "nt":
            with pytest.raises(ProcessLookupError):
                os.kill(hanging, 0)
        assert check_pdf_with(pool, good).ok
    finally:
        pool.close()


@posix
def test_f62_processor_time_is_limited_even_without_a_parent(files: tuple[Path, Path]) -> None:
    """The worker's own limit ends a spin when nobody is left to kill it: the parent here waits far longer."""
    pool = faulty("spin")
    try:
        pool.warm_up()
        request = {"do": "check", "path": str(files[1])}
        deadline_s = time.monotonic() + 60
        worker = pool._worker
        assert worker is not None and worker.send({**request, "id": 1, "timeout_s": 0.1})
        assert worker.next_answer(deadline_s) == "worker_died"
        assert worker.end() == -signal.SIGXCPU
    finally:
        pool.close()


@pytest.mark.parametrize("mode", ["raise-memory", "limited-bomb"])
def test_f62_memory_limit_inside(mode: str, files: tuple[Path, Path]) -> None:
    if mode == "limited-bomb" and not sys.platform.startswith("linux"):
        pytest.skip("only Linux enforces RLIMIT_AS")
    good, evil = files
    pool = faulty(mode)
    try:
        report = check_pdf_with(pool, evil)
        assert (report.finding, report.code) == ("over_memory", "PDF_NOT_OPENABLE")
        assert check_pdf_with(pool, good).ok
    finally:
        pool.close()


def test_f62_memory_watched_by_the_parent(files: tuple[Path, Path]) -> None:
    good, evil = files
    pool = faulty("bomb", memory_limit_bytes=400 << 20)
    try:
        report = check_pdf_with(pool, evil, timeout_s=60.0)
        assert (report.finding, report.code) == ("over_memory", "PDF_NOT_OPENABLE")
        assert check_pdf_with(pool, good).ok
    finally:
        pool.close()


def test_what_the_library_prints_goes_nowhere(
    files: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    pool = faulty("print")
    try:
        assert check_pdf_with(pool, files[1]).ok
    finally:
        pool.close()
    assert capfd.readouterr() == ("", "")


def test_the_worker_is_warm_and_replaced_after_many_requests(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "REQUESTS_PER_WORKER", 3)
    pool = Pool()
    try:
        pids = []
        for _ in range(5):
            assert check_pdf_with(pool, files[0]).ok
            pids.append(pool.worker_pid)
        assert pids[0] == pids[1] == pids[2] != pids[3] == pids[4]
    finally:
        pool.close()
    assert pool.worker_pid is None


@posix
def test_a_worker_killed_while_idle_is_replaced_without_a_word(files: tuple[Path, Path]) -> None:
    pool = Pool()
    try:
        pool.warm_up()
        first = pool.worker_pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        report = check_pdf_with(pool, files[0])
        assert report.ok and pool.worker_pid not in (None, first)
    finally:
        pool.close()


@pytest.mark.parametrize("mode", ["no-start", "garbage"])
def test_a_worker_that_cannot_start_accuses_no_file(mode: str, files: tuple[Path, Path]) -> None:
    pool = faulty(mode)
    with pytest.raises(PdfWorkerUnavailable):
        check_pdf_with(pool, files[0])
    with pytest.raises(PdfWorkerUnavailable):
        Pool(command=["/nonexistent/python"]).warm_up()


def test_threads_share_one_worker(files: tuple[Path, Path]) -> None:
    pool = Pool()
    reports: list[bool] = []
    try:
        threads = [
            threading.Thread(target=lambda: reports.append(check_pdf_with(pool, files[0]).ok))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        pool.close()
    assert reports == [True] * 6


def test_waiting_for_another_file_is_not_charged_to_this_one(files: tuple[Path, Path]) -> None:
    """The first file uses its whole time up; the second waited with less and is judged fairly."""
    good, evil = files
    good.write_bytes(samples.good().replace(b"\ntrailer", b"\n%" + b"x" * (3 << 20) + b"\ntrailer", 1))
    pool = faulty("hang")
    findings: dict[str, str] = {}

    def check(path: Path, timeout_s: float) -> None:
        findings[path.name] = check_pdf_with(pool, path, timeout_s=timeout_s).finding

    try:
        pool.warm_up()
        first = threading.Thread(target=check, args=(evil, 1.8))
        first.start()
        while not pool._lock.locked():
            first.join(timeout=0.01)
        check(good, 1.3)
        first.join()
    finally:
        pool.close()
    assert findings == {"evil.pdf": "timed_out", "good.pdf": "ok"}


def test_a_file_replaced_while_it_is_checked(files: tuple[Path, Path]) -> None:
    """The parent looked at another file than the worker found: no hash speaks for it."""
    good, evil = files
    pool = Pool()
    try:
        status = good.stat()
        answer = pool.ask(
            {
                "do": "check",
                "path": str(evil),
                "identity": [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns],
            },
            timeout_s=20.0,
        )
        assert answer.observed == ("changed",)
    finally:
        pool.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_forked_child_leaves_the_parents_worker_alone(files: tuple[Path, Path]) -> None:
    pool = Pool()
    try:
        pool.warm_up()
        pid = pool.worker_pid
        child = os.fork()
        if child == 0:
            pool.abandon()
            os._exit(0 if pool.worker_pid is None else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert check_pdf_with(pool, files[0]).ok and pool.worker_pid == pid
    finally:
        pool.close()
