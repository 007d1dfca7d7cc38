"""Kernel locks between threads and processes, and over the deaths of their owners (faults F91, F94, F96,
F106).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hibor.clock import SystemClock
from hibor.durable import Durable
from hibor.durable_fs import OsFileSystem
from hibor.locks import (
    NOTE_STEPS,
    DescriptorLock,
    KernelLock,
    LockOrderError,
    Locks,
    LockTimeout,
    LockUnusable,
    lock_self_test,
)
from tests.quota.support import SetClock

HOLD = """
import subprocess, sys
from pathlib import Path
from hibor.clock import SystemClock
from hibor.durable import Durable
from hibor.durable_fs import OsFileSystem
from hibor.locks import NOTE_STEPS, Locks
clock = SystemClock()
locks = Locks(Durable(OsFileSystem(), clock, NOTE_STEPS), clock)
lock = locks.library(Path(sys.argv[1]))
lock.acquire()
child = None
if sys.argv[2] == "with-child":
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE,
                             close_fds=False)
if sys.argv[2] == "with-fork":
    import os
    reader, writer = os.pipe()
    if os.fork() == 0:
        print("held", os.getpid(), flush=True)
        sys.stdin.read()
        os._exit(0)
    sys.stdin.read()
print("held", child.pid if child else 0, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def locks() -> Locks:
    clock = SetClock()
    return Locks(Durable(OsFileSystem(), clock, NOTE_STEPS), clock)


class Holder:
    """Another process that holds the library's lock until it is killed."""

    def __init__(self, folder: Path, how: str = "alone") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(folder), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
        )
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        assert words[:1] == [b"held"]
        self.child = int(words[1])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()
        if self.child:
            try:
                os.kill(self.child, signal.SIGTERM)
            except ProcessLookupError:
                return


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Holder]:
    made = Holder(tmp_path)
    yield made
    made.end()


def test_a_held_lock_times_out_and_names_its_holder(locks: Locks, tmp_path: Path, holder: Holder) -> None:
    with pytest.raises(LockTimeout) as raised:
        locks.library(tmp_path).acquire()
    assert raised.value.failure == "lock_timeout"
    assert f"process {holder.process.pid}" in str(raised.value)


def test_the_wait_is_bounded_by_the_limit(tmp_path: Path, holder: Holder) -> None:
    clock = SetClock()
    begun_s = clock.monotonic_s()
    slow = Locks(Durable(OsFileSystem(), clock, NOTE_STEPS), clock, library_limit_s=5.0)
    with pytest.raises(LockTimeout):
        slow.library(tmp_path).acquire()
    assert clock.monotonic_s() - begun_s == pytest.approx(5.0)


def test_a_killed_holder_frees_the_lock_at_once_and_the_takeover_is_said(
    locks: Locks, tmp_path: Path, holder: Holder
) -> None:
    """F94: no waiting for an age, no guessing by pid."""
    holder.kill()
    lock = locks.library(tmp_path)
    takeover = lock.acquire()
    assert takeover is not None
    assert f"process {holder.process.pid}" in takeover.owner
    lock.release()
    assert lock.acquire() is None, "after a clean release there is nothing to take over"
    lock.release()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork there")
@pytest.mark.parametrize("how", ["with-child", "with-fork"])
def test_children_do_not_keep_a_dead_parents_lock(locks: Locks, tmp_path: Path, how: str) -> None:
    holder = Holder(tmp_path, how)
    try:
        holder.kill()
        os.kill(holder.child, 0)  # the child lives on
        with locks.library(tmp_path) as takeover:
            assert takeover is not None
    finally:
        holder.end()


@pytest.mark.parametrize("content", ["", "process 1 since 1999-01-01", "elsewhere 4711", "\x00\x00"])
def test_lock_files_are_not_believed(locks: Locks, tmp_path: Path, content: str) -> None:
    """F94: an empty lock file, a living foreign pid, another host's name: only the kernel's word counts."""
    lock = locks.library(tmp_path)
    lock.path.write_text(content)
    os.utime(lock.path, (0, 0))
    with lock:
        pass


def test_no_lock_is_broken_by_age(locks: Locks, tmp_path: Path, holder: Holder) -> None:
    lock = locks.library(tmp_path)
    os.utime(lock.path, (0, 0))
    lock.owner_path.unlink()
    with pytest.raises(LockTimeout):
        lock.acquire()
    assert holder.process.poll() is None


def test_a_removed_lock_file_does_not_make_two_owners(locks: Locks, tmp_path: Path) -> None:
    one, two = locks.ledger(tmp_path / "l.jsonl"), locks.ledger(tmp_path / "l.jsonl")
    with one:
        pass
    one.path.unlink()
    with two:
        results: list[bool] = []

        def attempt() -> None:
            try:
                with one:
                    results.append(True)
            except LockTimeout:
                results.append(False)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    assert results == [False], "the lock that was opened before the removal looks again"


def test_order_is_library_account_ledger_manifest(locks: Locks, tmp_path: Path) -> None:
    made = [
        locks.library(tmp_path),
        locks.account(tmp_path),
        locks.ledger(tmp_path / "ledger.jsonl"),
        locks.manifest(tmp_path / "manifest.jsonl"),
    ]
    for lock in made:
        lock.acquire()
    for lock in reversed(made):
        lock.release()
    for first, inner in enumerate(made):
        for outer in made[first:]:
            with outer, pytest.raises(LockOrderError):
                inner.acquire()
    with made[3]:
        done: list[object] = []

        def take_the_earlier_one() -> None:
            done.append(made[2].acquire())
            made[2].release()

        thread = threading.Thread(target=take_the_earlier_one)
        thread.start()
        thread.join()
        assert done == [None], "the order is a thread's own"


def test_threads_exclude_each_other(tmp_path: Path) -> None:
    clock = SystemClock()
    shared = Locks(Durable(OsFileSystem(), clock, NOTE_STEPS), clock, ledger_limit_s=60.0)
    same = shared.ledger(tmp_path / "l.jsonl")
    inside, worst = [0], [0]

    def work(own: bool) -> None:
        lock = shared.ledger(tmp_path / "l.jsonl") if own else same
        for _ in range(50):
            with lock:
                inside[0] += 1
                worst[0] = max(worst[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work, args=(own,)) for own in (True, False, False)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == [1]


class YesMan:
    """A lock that says yes to everybody, as on WSL1 or NFS without lock daemon."""

    def try_acquire(self) -> bool:
        return True

    def release(self) -> None:
        return


class Sticky(DescriptorLock):
    """A lock that is not given back."""

    def release(self) -> None:
        return


def test_self_test_passes_on_a_local_disk(locks: Locks, tmp_path: Path) -> None:
    lock_self_test(tmp_path, locks.durable)


def test_self_test_refuses_a_lock_that_always_says_yes(locks: Locks, tmp_path: Path) -> None:
    """F96."""

    def factory(path: Path, _durable: Durable) -> KernelLock:
        path.touch()
        return YesMan()

    with pytest.raises(LockUnusable, match="do nothing"):
        lock_self_test(tmp_path, locks.durable, factory=factory)


def test_self_test_refuses_a_lock_that_stays(locks: Locks, tmp_path: Path) -> None:
    with pytest.raises(LockUnusable, match="stays taken"):
        lock_self_test(tmp_path, locks.durable, factory=Sticky)


def test_a_folder_that_cannot_be_locked(locks: Locks, tmp_path: Path) -> None:
    with pytest.raises(LockUnusable):
        lock_self_test(tmp_path / "missing", locks.durable)
    with pytest.raises(LockUnusable):
        locks.ledger(tmp_path / "missing" / "ledger.jsonl").acquire()
