"""Kernel locks: one library, one account, one ledger, one manifest writer at a time (design 4, faults
F91–F96).

Rules of this file:
- Only the kernel's lock counts (flock, or Windows' byte lock, through `filelock`). It is free the moment its
  owner dies. No lock is ever broken because a file is old, empty, or names a process that is gone.
- Order, in every thread: library, account, ledger, manifest. Taking them the other way round raises at once.
- Every wait has a limit and ends in `LockTimeout`.
- The text beside a lock (`<lock>.owner`) is for people: who holds it, since when. It is removed on release,
  so text found by the next owner means that the previous one died; `acquire` then returns a `Takeover`.
- Children started while a lock is held do not inherit it.
- Where locking is a no-op (some network and emulated file systems) `lock_self_test` refuses to work.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

import attrs
from filelock import lock_descriptor, unlock_descriptor

from hibor.clock import Clock
from hibor.durable import Durable, DurableError
from hibor.reading import read_kept

LOCK_ORDER = ("library", "account", "ledger", "manifest")
"""Locks in the order in which a thread may take them (design 4)."""
NOTE_STEPS = frozenset({"lock.note", "lock.drop_note"})
"""Names of the steps that write and remove the text for people; nothing depends on their durability."""

_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05
_SELF_TEST_LIMIT_S = 30.0
_PROBE = (
    "import os, sys, filelock\n"
    "descriptor = os.open(sys.argv[1], os.O_RDWR)\n"
    "print('free' if filelock.lock_descriptor(descriptor, blocking=False) else 'busy')\n"
)
_REOPEN_LIMIT = 10


class KernelLock(Protocol):
    """A lock on one file that can be tried and given back."""

    def try_acquire(self) -> bool:
        """Take the lock if it is free. Raises `OSError` when locking is impossible here."""

    def release(self) -> None:
        """Give the lock back."""


class DescriptorLock:
    """The kernel's lock on a file that stays open, so that taking it costs microseconds.

    Before it counts, the open file is compared with the name: somebody may have removed the lock file, and
    two processes must not lock two different ones.
    """

    def __init__(self, path: Path, durable: Durable) -> None:
        self._path = path
        self._durable = durable
        self._descriptor: int | None = None
        _open_locks.add(self)

    def try_acquire(self) -> bool:
        """Take the lock if it is free."""
        for _ in range(_REOPEN_LIMIT):
            if self._descriptor is None:
                self._descriptor = self._durable.open_lock_file(self._path)
            if not lock_descriptor(self._descriptor, blocking=False):
                return False
            named = self._durable.stat(self._path)
            if named is not None and os.path.samestat(named, os.fstat(self._descriptor)):
                return True
            self.forget()
        raise OSError("the lock file is being replaced all the time")

    def release(self) -> None:
        """Give the lock back; the file stays open for the next time."""
        if self._descriptor is not None:
            unlock_descriptor(self._descriptor)

    def forget(self) -> None:
        """Close the file, which gives the lock back too unless a parent process holds it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        with suppress(OSError):
            self.forget()


_open_locks: WeakSet[DescriptorLock] = WeakSet()


def _forget_all() -> None:
    """In a forked child: close the parent's lock files, or the child would keep the locks of a dead
    parent.
    """
    for lock in list(_open_locks):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)

LockFactory = Callable[[Path, Durable], KernelLock]


class LockTimeout(Exception):
    """A lock stayed taken longer than its limit. `failure` is `lock_timeout`; `holder` is text for people."""

    failure = "lock_timeout"

    def __init__(self, name: str, path: Path, waited_s: float, holder: str | None) -> None:
        by = f" by {holder}" if holder else ""
        super().__init__(f"the {name} lock is held{by}; waited {waited_s:.1f} s")
        self.name = name
        self.path = path
        self.waited_s = waited_s
        self.holder = holder


class LockUnusable(Exception):
    """The lock file cannot be opened or locking does nothing here. `failure` is `lock_timeout`."""

    failure = "lock_timeout"


class LockOrderError(RuntimeError):
    """Locks taken against their order, or twice by one thread: a mistake in the program."""


@attrs.frozen
class Takeover:
    """The lock's previous owner died without releasing it; `owner` is the text it left."""

    name: str
    owner: str


class Lock:
    """One named lock on one file.

    Threads of this process exclude each other too. `limit_s` is the longest wait; `announce` writes the
    text for people and finds takeovers, which the locks held for milliseconds do not need.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        limit_s: float,
        durable: Durable,
        clock: Clock,
        announce: bool,
        factory: LockFactory = DescriptorLock,
    ) -> None:
        self.name = name
        self.path = path
        self._limit_s = limit_s
        self._durable = durable
        self._clock = clock
        self._announce = announce
        self._kernel = factory(path, durable)
        self._guard = threading.Lock()

    @property
    def owner_path(self) -> Path:
        """File with the text for people. Not the lock file itself: Windows lets nobody read a locked one."""
        return self.path.with_name(self.path.name + ".owner")

    def acquire(self) -> Takeover | None:
        """Take the lock within its limit; tells when the previous owner died. Raises `LockTimeout`."""
        _enter_order(self.name)
        try:
            self._wait()
        except BaseException:
            _leave_order(self.name)
            raise
        if not self._announce:
            return None
        left = self._holder()
        since = self._clock.now().isoformat(timespec="seconds")
        self._durable.leave_note(self.owner_path, f"process {os.getpid()} since {since}\n", step="lock.note")
        return Takeover(self.name, left) if left else None

    def release(self) -> None:
        """Give the lock back."""
        if self._announce:
            self._durable.drop_note(self.owner_path, step="lock.drop_note")
        try:
            self._kernel.release()
        finally:
            self._guard.release()
            _leave_order(self.name)

    def __enter__(self) -> Takeover | None:
        return self.acquire()

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _wait(self) -> None:
        begun_s = self._clock.monotonic_s()
        pause_s = _FIRST_PAUSE_S
        while not self._try():
            waited_s = self._clock.monotonic_s() - begun_s
            if waited_s >= self._limit_s:
                raise LockTimeout(self.name, self.path, waited_s, self._holder())
            self._clock.sleep(min(pause_s, self._limit_s - waited_s))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _try(self) -> bool:
        if not self._guard.acquire(blocking=False):
            return False
        try:
            taken = self._kernel.try_acquire()
        except BaseException as error:
            self._guard.release()
            if isinstance(error, (OSError, DurableError)):
                raise LockUnusable(
                    f"the {self.name} lock {self.path.name} cannot be taken: {error}"
                ) from error
            raise
        if not taken:
            self._guard.release()
        return taken

    def _holder(self) -> str | None:
        try:
            text = read_kept(self.owner_path).decode("utf-8", errors="replace").strip()
        except OSError:
            return None
        return text or None


@attrs.frozen
class Locks:
    """Makes the locks of a library; limits in seconds of `clock`, which should be the machine's own."""

    durable: Durable
    clock: Clock
    library_limit_s: float = 0.0
    account_limit_s: float = 0.0
    ledger_limit_s: float = 10.0
    manifest_limit_s: float = 10.0
    factory: LockFactory = DescriptorLock

    def library(self, folder: Path) -> Lock:
        """One collector a library: held for a whole run."""
        return self._lock("library", folder / "library.lock", self.library_limit_s, announce=True)

    def account(self, ledger_folder: Path) -> Lock:
        """One run with new downloads an account: lies beside the ledger, which several libraries may
        share.
        """
        return self._lock("account", ledger_folder / "account.lock", self.account_limit_s, announce=True)

    def ledger(self, ledger_file: Path) -> Lock:
        """Held over reading the head and appending, for milliseconds."""
        path = ledger_file.with_suffix(".lock")
        return self._lock("ledger", path, self.ledger_limit_s, announce=False)

    def manifest(self, manifest_file: Path) -> Lock:
        """Held over one manifest append, for milliseconds."""
        path = manifest_file.with_suffix(".lock")
        return self._lock("manifest", path, self.manifest_limit_s, announce=False)

    def _lock(self, name: str, path: Path, limit_s: float, *, announce: bool) -> Lock:
        return Lock(
            name,
            path,
            limit_s=limit_s,
            durable=self.durable,
            clock=self.clock,
            announce=announce,
            factory=self.factory,
        )


def lock_self_test(folder: Path, durable: Durable, *, factory: LockFactory = DescriptorLock) -> None:
    """Prove with a second process that a lock in `folder` excludes and is free again after release.

    Raises `LockUnusable` where the file system says yes to everybody (faults F96). Takes about 0.2 s.
    """
    path = folder / "self-test.lock"
    ours = factory(path, durable)
    try:
        if not ours.try_acquire():
            raise LockUnusable(f"another process runs its lock self-test in {folder.name}; try again")
    except (OSError, DurableError) as error:
        raise LockUnusable(f"no lock can be taken in {folder.name}: {error}") from error
    try:
        while_held = _ask_second_process(path)
    finally:
        ours.release()
    if while_held != "busy":
        raise LockUnusable(
            f"locks in {folder.name} do nothing: a second process got one that is held ({while_held}); "
            "put the library on a local disk"
        )
    after = _ask_second_process(path)
    if after != "free":
        raise LockUnusable(f"a released lock in {folder.name} stays taken ({after})")


def _ask_second_process(path: Path) -> str:
    try:
        answer = subprocess.run(
            [sys.executable, "-X", "utf8", "-c", _PROBE, str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SELF_TEST_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise LockUnusable(f"the lock self-test could not start a second process: {error}") from error
    lines = answer.stdout.decode(errors="replace").split()
    return lines[0] if lines else answer.stderr.decode(errors="replace").strip()[-200:]


_held = threading.local()


def _enter_order(name: str) -> None:
    """Note that this thread is about to take a lock; refuse what breaks the order."""
    held: list[str] = getattr(_held, "names", [])
    rank = LOCK_ORDER.index(name)
    if any(LOCK_ORDER.index(other) >= rank for other in held):
        raise LockOrderError(f"the {name} lock may not be taken while {', '.join(held)} is held")
    _held.names = [*held, name]


def _leave_order(name: str) -> None:
    held: list[str] = list(getattr(_held, "names", []))
    if name in held:
        held.remove(name)
    _held.names = held
