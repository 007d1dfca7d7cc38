"""The embedded host: one SQLite file, one process at a time per job, no server (design 6 'Hosts', 'local').

Rules of this file:

* A job's uid is `task_type::job_id`. It runs until its handler returns (anything but False: success) or has
  failed `max_attempts` times, crashed attempts included; then it is in `wall` or in `failed`.
* The rerun policy is asked when a job is put into the queue: `never`, `on_failure` (again after a failure),
  `every_run`, `on_input_change` (again when the payload changed).
* Several processes may run the same file. Each holds a kernel lock on a slot file beside it; the lock is free
  the moment its process dies, and whoever runs next takes the dead process's jobs back.
* Job, children, marks, catalogue rows and debt of one job are one transaction (`local_context.apply_spool`).
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs
import filelock

from hibor.clock import Clock, SystemClock
from hibor.discovery import RERUN_POLICIES, DiscoveryHandler, ScanReport

from .local_context import (
    LocalContext,
    LocalJob,
    apply_spool,
    enqueue_row,
    input_hash,
    milliseconds,
    stamp,
    to_json,
    uid_of,
)
from .local_reading import CatalogueEntry, Failure, LocalReader, Mark
from .local_store import HostError, HostLockedError, Store

__all__ = [
    "CatalogueEntry",
    "Failure",
    "FatalJobError",
    "HostError",
    "HostLockedError",
    "LocalHost",
    "Mark",
    "RunSummary",
]

_SLOTS = 64


class FatalJobError(Exception):
    """Raised by a handler whose job must not be tried again."""


@attrs.frozen
class RunSummary:
    """What one `run` did. retried: attempts that failed and stay queued. waiting: jobs left in the queue."""

    completed: int
    failed: int
    retried: int
    waiting: int


@attrs.frozen
class _Claim:
    seq: int
    uid: str
    payload: str
    attempt: int


class LocalHost(LocalReader):
    """`DiscoveryHost` over one SQLite file.

    path: the file, made when missing (its folder must exist). clock: for stamps and retry waits.
    lock_wait_s: how long to wait for another process's write before `HostLockedError`.
    max_attempts: attempts of a job before it fails for good. retry_wait_s: pause before the next attempt.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock | None = None,
        lock_wait_s: float = 10.0,
        max_attempts: int = 3,
        retry_wait_s: float = 0.0,
    ) -> None:
        if max_attempts < 1:
            raise ValueError(f"max_attempts must be positive, got {max_attempts!r}")
        self._path = Path(path)
        self._clock = clock or SystemClock()
        self._max_attempts = max_attempts
        self._retry_wait_s = retry_wait_s
        self._handlers: dict[str, Callable[..., Any]] = {}
        self._schemas: dict[str, type] = {}
        self._rerun: dict[str, str] = {}
        self._slot: filelock.BaseFileLock | None = None
        self._owner = ""
        self._store = Store(self._path, lock_wait_s)

    def __enter__(self) -> LocalHost:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file and frees this process's slot."""
        self._store.close()
        if self._slot is not None:
            self._slot.release()
            self._slot = None

    # DiscoveryHost.

    def register_handler(
        self,
        task_type: str,
        handler_func: Callable[..., Any],
        default_resources: dict[str, float] | None = None,
        payload_schema: type | None = None,
    ) -> None:
        """Runs `handler_func(job, ctx)` for jobs of `task_type`; registering twice raises `ValueError`.

        This host runs one job at a time, so `default_resources` has nothing to limit. `payload_schema`, when
        given, is called with the payload's items as keywords before each attempt; what it raises fails the
        job.
        """
        uid_of(task_type, "x")
        if task_type in self._handlers:
            raise ValueError(f"{task_type!r} has a handler already")
        self._handlers[task_type] = handler_func
        if payload_schema is not None:
            self._schemas[task_type] = payload_schema

    def set_discovery_rerun(self, task_type: str, rerun: str) -> None:
        """Default rerun policy for jobs of `task_type` that do not name one."""
        self._rerun[task_type] = _checked_rerun(rerun)

    # Queue.

    def enqueue(
        self,
        task_type: str,
        job_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        rerun: str | None = None,
    ) -> bool:
        """Queues a job; False when it is queued already or its rerun policy says no (default: `never`)."""
        uid = uid_of(task_type, job_id)
        policy = _checked_rerun(rerun) if rerun is not None else self._rerun.get(task_type, "never")
        with self._store.transaction() as connection:
            return bool(enqueue_row(connection, uid, to_json(dict(payload or {})), policy))

    def run(self, *, limit: int | None = None) -> RunSummary:
        """Runs queued jobs whose type has a handler here, oldest first, until none is ready (or `limit` ran).

        Exceptions of handlers are recorded, not raised; KeyboardInterrupt and the like leave the job queued.
        """
        self._take_slot()
        self._recover()
        counts = {"completed": 0, "failed": 0, "retried": 0}
        done = 0
        while limit is None or done < limit:
            claim = self._claim()
            if claim is None:
                break
            counts[self._attempt(claim)] += 1
            done += 1
        waiting = self._count("SELECT count(*) FROM queue")
        return RunSummary(counts["completed"], counts["failed"], counts["retried"], waiting)

    def run_job(self, task_type: str, job_id: str, payload: Mapping[str, Any] | None = None) -> bool:
        """Runs one job now, to its end, whatever its rerun policy and the queue say; True on success.

        Its children stay queued for `run`. The last attempt's exception is raised again.
        """
        if task_type not in self._handlers:
            raise ValueError(f"{task_type!r} has no handler")
        self._take_slot()
        self._recover()
        uid = uid_of(task_type, job_id)
        with self._store.transaction() as connection:
            enqueue_row(connection, uid, to_json(dict(payload or {})), "every_run")
        while True:
            claim = self._claim(uid)
            if claim is None:
                raise HostError(f"{uid} is being run by another process")
            outcome = self._attempt(claim, raise_last=True)
            if outcome != "retried":
                return outcome == "completed"

    def dry_scan(self, handler: DiscoveryHandler, payload: Mapping[str, Any] | None = None) -> ScanReport:
        """What a scan with `handler` would find now; nothing is processed, remembered or written."""
        job = LocalJob("dry-scan", "now", dict(payload or {}), 1)
        context = LocalContext(self._store, job, self._clock.now())
        try:
            return handler.scan(job, context, dry_run=True)
        finally:
            context.close()

    def _claim(self, uid: str | None = None) -> _Claim | None:
        """Takes the oldest ready job (or `uid`), counting the attempt, so that a crash counts too."""
        types = sorted(self._handlers)
        marks = ",".join("?" * len(types))
        now_s = self._clock.now().timestamp()
        where = "uid=?" if uid is not None else "not_before_s<=?"
        with self._store.transaction() as connection:
            row = connection.execute(
                f"SELECT seq,uid,payload,attempts FROM queue WHERE claimed_by IS NULL AND {where} "
                f"AND task_type IN ({marks}) ORDER BY seq LIMIT 1",
                (uid if uid is not None else now_s, *types),
            ).fetchone()
            if row is None:
                return None
            connection.execute("DELETE FROM spool WHERE job_uid=?", (row[1],))
            connection.execute(
                "UPDATE queue SET claimed_by=?, attempts=attempts+1 WHERE seq=?", (self._owner, row[0])
            )
            return _Claim(row[0], row[1], row[2], row[3] + 1)

    def _attempt(self, claim: _Claim, *, raise_last: bool = False) -> str:
        """Runs one attempt; returns `completed`, `failed` or `retried`."""
        task_type, job_id = claim.uid.split("::", 1)
        job = LocalJob(task_type, job_id, json.loads(claim.payload), claim.attempt)
        context = LocalContext(self._store, job, self._clock.now())
        try:
            schema = self._schemas.get(task_type)
            if schema is not None:
                schema(**job.payload)
            if self._handlers[task_type](job, context) is False:
                raise RuntimeError("the handler returned False")
            context.flush()
        # A handler is the user's code: whatever it raises is this job's failure, not the host's.
        except Exception as error:
            outcome = self._settle_failure(claim, error)
            if raise_last and outcome == "failed":
                raise
            return outcome
        except BaseException:
            self._release(claim)
            raise
        finally:
            context.close()
        self._settle_success(claim)
        return "completed"

    def _settle_success(self, claim: _Claim) -> None:
        at = stamp(self._clock.now())
        with self._store.transaction() as connection:
            owned = connection.execute(
                "DELETE FROM queue WHERE seq=? AND claimed_by=?", (claim.seq, self._owner)
            ).rowcount
            if not owned:
                raise HostError(f"{claim.uid} was taken over by another process; its result here is void")
            connection.execute("DELETE FROM failed WHERE uid=?", (claim.uid,))
            connection.execute(
                "INSERT OR REPLACE INTO wall VALUES (?,?,?)",
                (claim.uid, milliseconds(at), input_hash(claim.payload)),
            )
            apply_spool(connection, claim.uid, at, self._rerun)

    def _settle_failure(self, claim: _Claim, error: Exception) -> str:
        reason = f"{type(error).__name__}: {error}"
        final = isinstance(error, FatalJobError) or claim.attempt >= self._max_attempts
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM spool WHERE job_uid=?", (claim.uid,))
            if final:
                self._fail(connection, claim, reason)
            else:
                connection.execute(
                    "UPDATE queue SET claimed_by=NULL, last_error=?, not_before_s=? WHERE seq=?",
                    (reason, self._clock.now().timestamp() + self._retry_wait_s, claim.seq),
                )
        return "failed" if final else "retried"

    def _fail(self, connection: sqlite3.Connection, claim: _Claim, reason: str) -> None:
        connection.execute("DELETE FROM queue WHERE seq=?", (claim.seq,))
        connection.execute(
            "INSERT OR REPLACE INTO failed VALUES (?,?,?,?,?,?)",
            (
                claim.uid,
                reason,
                claim.attempt,
                stamp(self._clock.now()),
                claim.payload,
                input_hash(claim.payload),
            ),
        )

    def _release(self, claim: _Claim) -> None:
        """An interrupted attempt is not the job's fault: back into the queue, uncounted."""
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM spool WHERE job_uid=?", (claim.uid,))
            connection.execute(
                "UPDATE queue SET claimed_by=NULL, attempts=attempts-1 WHERE seq=?", (claim.seq,)
            )

    # Ownership.

    def _slot_lock(self, slot: int) -> filelock.BaseFileLock:
        return filelock.FileLock(f"{self._path}.slot{slot}.lock", thread_local=False)

    def _take_slot(self) -> None:
        """Holds the first free slot's kernel lock until this host is closed or its process dies."""
        if self._slot is not None:
            return
        for slot in range(_SLOTS):
            lock = self._slot_lock(slot)
            try:
                lock.acquire(timeout=0)
            except filelock.Timeout:
                continue
            self._slot = lock
            self._owner = f"{slot}:{secrets.token_hex(8)}"
            return
        raise HostError(f"{_SLOTS} processes use {self._path.name} already")

    def _recover(self) -> None:
        """Takes back jobs whose process is gone; the last attempt of a crashing job fails it.

        A claim of our own is a leftover too: nothing runs here now, so its outcome could not be written.
        """
        own_slot = self._owner.split(":", 1)[0]
        rows = self._store.rows(
            "SELECT seq,uid,payload,attempts,claimed_by FROM queue WHERE claimed_by IS NOT NULL"
        )
        for seq, uid, payload, attempts, claimed_by in rows:
            if not self._is_gone(claimed_by, own_slot):
                continue
            claim = _Claim(seq, uid, payload, attempts)
            with self._store.transaction() as connection:
                still = connection.execute(
                    "UPDATE queue SET claimed_by=NULL, last_error='the attempt was cut off' "
                    "WHERE seq=? AND claimed_by=?",
                    (claim.seq, claimed_by),
                ).rowcount
                if still:
                    connection.execute("DELETE FROM spool WHERE job_uid=?", (claim.uid,))
                if still and claim.attempt >= self._max_attempts:
                    self._fail(connection, claim, "no attempt reached its end: the process died each time")

    def _is_gone(self, claimed_by: str, own_slot: str) -> bool:
        slot = claimed_by.split(":", 1)[0]
        if slot == own_slot:
            return True
        lock = self._slot_lock(int(slot))
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            return False
        lock.release()
        return True

    # What is known.

    def seed(self, uids: Iterable[str]) -> int:
        """Puts uids into the wall as finished, in one transaction; returns how many were new.

        For taking over another program's archive; a million uids in one call is meant to work. Raises
        `ValueError` for a uid that is not `task_type::job_id`, and then nothing is written.
        """
        at_ms = milliseconds(stamp(self._clock.now()))
        with self._store.transaction() as connection:
            # Sorted by SQLite first (on disk, where it is large): inserted in order, the tree is written
            # once, its pages are full, and a million random uids take seconds.
            connection.execute("CREATE TEMP TABLE seeds (uid TEXT)")
            try:
                checked = ((_checked_uid(uid),) for uid in uids)
                connection.executemany("INSERT INTO seeds VALUES (?)", checked)
                before = connection.total_changes
                connection.execute(
                    "INSERT OR IGNORE INTO wall SELECT uid,?,NULL FROM (SELECT uid FROM seeds ORDER BY uid)",
                    (at_ms,),
                )
                return connection.total_changes - before
            finally:
                connection.execute("DROP TABLE seeds")

    def retry(self, uid: str) -> bool:
        """Puts a failed job back into the queue with fresh attempts; False when it had not failed."""
        with self._store.transaction() as connection:
            row = connection.execute("SELECT payload FROM failed WHERE uid=?", (uid,)).fetchone()
            if row is None:
                return False
            connection.execute("DELETE FROM failed WHERE uid=?", (uid,))
            enqueue_row(connection, uid, row[0], "every_run")
            return True

    def remove_marks(self, *, uid: str | None = None, rule_version: str | None = None) -> int:
        """Takes back marks of one uid, of one rule version, or (neither given) all; returns how many.

        What was hidden below them is found again: every listing gets scan debt.
        """
        clauses = [
            f"{name}=?" for name, value in (("uid", uid), ("rule_version", rule_version)) if value is not None
        ]
        values = tuple(value for value in (uid, rule_version) if value is not None)
        where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
        with self._store.transaction() as connection:
            removed = connection.execute(f"DELETE FROM marks{where}", values).rowcount
            if removed:
                connection.execute(
                    "INSERT OR IGNORE INTO debts SELECT DISTINCT key,? FROM reports",
                    (stamp(self._clock.now()),),
                )
                connection.execute("DELETE FROM memory WHERE key LIKE 'frontier::%'")
            return removed


def _checked_rerun(rerun: str) -> str:
    if rerun not in RERUN_POLICIES:
        raise ValueError(f"rerun must be one of {', '.join(RERUN_POLICIES)}, got {rerun!r}")
    return rerun


def _checked_uid(uid: str) -> str:
    task_type, separator, job_id = uid.partition("::")
    if not separator:
        raise ValueError(f"a uid is task_type::job_id, got {uid!r}")
    return uid_of(task_type, job_id)
