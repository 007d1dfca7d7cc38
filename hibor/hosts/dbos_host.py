"""Many phones on many machines: discovery and jobs on DBOS (design 6 'Hosts', 'dbos').

Rules of this file:

* A job's uid is its workflow id, so the engine itself refuses the second one: a report wanted by two phones
  is collected once. A job whose policy lets it run again gets `uid::2`, `uid::3`, … as workflow id.
* One queue per phone, concurrency 1. A worker listens to its own phone's queue only and carries the phone's
  name as executor id, so only the phone's owner resumes what a killed worker left.
* A handler may run again after a crash: `job.attempt` counts starts over all processes. A handler that spends
  something begins with its own recovery when `job.attempt > 1` (never a tap after a TRIGGER_INTENT).
* What a job hands out (spawned jobs, marks, settled debt, memories) is one transaction at its success. The
  engine records the success itself after that; a crash in between runs the handler again, and the ids absorb
  what it spawns again.
* No retention is configured: the engine must not collect finished workflows, they are the wall.

Needs the extra `farm` (dbos 3 or later). One `DbosHost` per process, as the engine is one per process.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import attrs

from hibor.clock import Clock, SystemClock
from hibor.discovery.protocols import Frontier
from hibor.discovery.registration import RERUN_POLICIES

from .dbos_store import ACTIVE, FAILED, FINISHED, DbosStore, last_run, write_effect
from .local import FatalJobError
from .local_context import stamp, to_json, uid_of
from .local_reading import Failure
from .local_store import HostError

__all__ = ["DbosContext", "DbosHost", "DbosJob", "FatalJobError", "JobView", "queue_name"]

APPLICATION = "hibor"
APPLICATION_VERSION = "hibor-jobs-1"
WORKFLOW = "hibor.job"
_MAX_RECOVERIES = 50


def queue_name(phone: str) -> str:
    """The queue of one phone."""
    return f"phone:{phone}"


@attrs.frozen
class DbosJob:
    """One dispatched job. `attempt` counts starts, crashed ones included; `workflow_id` is the engine's
    id.
    """

    task_type: str
    job_id: str
    payload: dict[str, Any]
    attempt: int
    workflow_id: str
    phone: str

    @property
    def uid(self) -> str:
        """`task_type::job_id`."""
        return f"{self.task_type}::{self.job_id}"


@attrs.frozen
class JobView:
    """The newest run of a job: whose queue it is in, the engine's status, why it failed (None: not known)."""

    job_id: str
    phone: str
    status: str
    reason: str | None = None

    @property
    def finished(self) -> bool:
        """Done with success."""
        return self.status in FINISHED

    @property
    def failed(self) -> bool:
        """Failed for good."""
        return self.status in FAILED


@attrs.frozen
class _Spawned:
    task_type: str
    job_id: str
    payload: str
    phone: str
    rerun: str | None


class DbosContext:
    """The context of one job: `DiscoveryContext` with the optional protocols, and spawn."""

    def __init__(self, store: DbosStore, job: DbosJob, now: str) -> None:
        self._store = store
        self._job = job
        self._at = now
        self._snapshot = store.snapshot()
        self._debtors: dict[str, list[str]] = {}
        self.spawned: list[_Spawned] = []
        self.effects: list[tuple[str, dict[str, Any]]] = []

    def is_completed(self, uid: str) -> bool:
        """Whether `uid` was finished when this job was dispatched."""
        return bool(self._snapshot.with_status([uid], FINISHED))

    def is_failed(self, uid: str) -> bool:
        """Whether `uid` had failed for good when this job was dispatched."""
        return bool(self._snapshot.with_status([uid], FAILED))

    def seen_uids(self, uids: Collection[str]) -> set[str]:
        """Those of `uids` that were finished or had failed when this job was dispatched; one query."""
        return self._snapshot.with_status(uids, FINISHED + FAILED)

    def attempted_uids(self) -> Iterator[str]:
        """Finished and failed uids, streamed from the snapshot."""
        return self._snapshot.attempted_uids()

    def spawn(
        self,
        task_type: str,
        job_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        phone: str | None = None,
        rerun: str | None = None,
    ) -> str:
        """Enqueues a job (for this phone, or another one) with this job's success; returns its uid."""
        uid = uid_of(task_type, job_id)
        text = to_json(dict(payload or {}))
        self.spawned.append(_Spawned(task_type, job_id, text, phone or self._job.phone, rerun))
        return uid

    def mark_seen(self, uid: str) -> None:
        """Declines `uid` without a reason."""
        self.mark_declined(uid, "", "")

    def mark_declined(self, uid: str, reason: str, rule_version: str) -> None:
        """Declines `uid`, with this job's success."""
        self.effects.append(("mark", {"uid": uid, "reason": reason, "rule_version": rule_version}))

    def is_marked_seen(self, uid: str) -> bool:
        """Whether `uid` was declined before this job was dispatched."""
        return self._snapshot.is_marked(uid)

    def scan_debt(self, key: str) -> bool:
        """Whether some scan of `key`, of any phone, has not been followed by a complete end."""
        self._debtors[key] = self._snapshot.debt_owners(key)
        return bool(self._debtors[key])

    def set_scan_debt(self, key: str, debt: bool) -> None:
        """True: durable at once, in this job's name. False: with this job's success, settles what it saw."""
        owner = self._job.workflow_id
        if debt:
            with self._store.transaction() as connection:
                sql = "INSERT INTO hibor_debts VALUES (:key,:owner,:at) ON CONFLICT DO NOTHING"
                self._store.execute(connection, sql, key=key, owner=owner, at=self._at)
        else:
            self.effects.append(("settle", {"key": key, "owners": [*self._debtors.get(key, ()), owner]}))

    def scan_frontier(self, key: str) -> Frontier | None:
        """How far the last incomplete scan of `key` got; None while several scans of it are open."""
        if any(owner != self._job.workflow_id for owner in self._debtors.get(key, ())[1:]):
            return None
        value = self._snapshot.recall(f"frontier::{key}")
        return None if value is None else Frontier(int(value["page"]), tuple(value["ids"]))

    def set_scan_frontier(self, key: str, frontier: Frontier | None) -> None:
        """Replaces the frontier of `key`, with this job's success."""
        value = None if frontier is None else {"page": frontier.page, "ids": list(frontier.ids)}
        self.effects.append(("memory", {"key": f"frontier::{key}", "value": value}))

    def missing_before(self, key: str) -> list[str]:
        """Content ids the last complete full scan of `key` missed."""
        return [str(content_id) for content_id in self._snapshot.recall(f"missing::{key}") or ()]

    def set_missing_before(self, key: str, content_ids: Collection[str]) -> None:
        """Replaces the missing ids of `key`, with this job's success."""
        self.effects.append(("memory", {"key": f"missing::{key}", "value": sorted(content_ids)}))

    def store_scan_report(self, key: str, report: Mapping[str, Any]) -> None:
        """Keeps a scan report, with this job's success."""
        body = {"key": key, "report": dict(report), "owner": self._job.workflow_id}
        self.effects.append(("report", body))

    def close(self) -> None:
        """Ends the snapshot."""
        self._snapshot.close()


class DbosHost:
    """`DiscoveryHost` on DBOS: a worker for one phone, or (phone None) a planner that only enqueues.

    database_url: `sqlite:///file` for one machine, `postgresql://…` for several. max_attempts: attempts of a
    job that raises; retry_wait_s between them. polling_s: how often the queue is looked at. lock_wait_s: how
    long to wait for SQLite's lock.

    Register handlers, then `launch()`. Raises `HostError` when the extra `farm` is missing.
    """

    def __init__(
        self,
        database_url: str,
        *,
        phone: str | None = None,
        clock: Clock | None = None,
        max_attempts: int = 3,
        retry_wait_s: float = 1.0,
        polling_s: float = 1.0,
        lock_wait_s: float = 30.0,
    ) -> None:
        try:
            import dbos
        except ImportError as error:
            raise HostError("the farm needs the package dbos: pip install 'hibor-collector[farm]'") from error
        self._dbos: Any = dbos
        self._database_url = database_url
        self._phone = phone
        self._clock = clock or SystemClock()
        self._max_attempts = max_attempts
        self._retry_wait_s = retry_wait_s
        self._polling_s = polling_s
        self._handlers: dict[str, Callable[..., Any]] = {}
        self._schemas: dict[str, type] = {}
        self._rerun: dict[str, str] = {}
        self._store = DbosStore(database_url, lock_wait_s=lock_wait_s)
        self._client: Any = None

    def __enter__(self) -> DbosHost:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # DiscoveryHost.

    def register_handler(
        self,
        task_type: str,
        handler_func: Callable[..., Any],
        default_resources: dict[str, float] | None = None,
        payload_schema: type | None = None,
    ) -> None:
        """Runs `handler_func(job, ctx)` for jobs of `task_type` on this worker; call it before `launch`.

        A phone runs one job at a time, so `default_resources` has nothing to limit.
        """
        uid_of(task_type, "x")
        if task_type in self._handlers:
            raise ValueError(f"{task_type!r} has a handler already")
        self._handlers[task_type] = handler_func
        if payload_schema is not None:
            self._schemas[task_type] = payload_schema

    def set_discovery_rerun(self, task_type: str, rerun: str) -> None:
        """Default rerun policy for jobs of `task_type` that do not name one."""
        if rerun not in RERUN_POLICIES:
            raise ValueError(f"rerun must be one of {', '.join(RERUN_POLICIES)}, got {rerun!r}")
        self._rerun[task_type] = rerun

    # Life.

    def launch(self) -> None:
        """Starts the engine; a worker first takes back what its phone's last worker left unfinished."""
        if self._store.is_sqlite:
            # Before the engine: write-ahead logging can only be switched on while nobody else has the file.
            self._store.create_tables()
        config: dict[str, Any] = {
            "name": APPLICATION,
            "system_database_url": self._database_url,
            "application_version": APPLICATION_VERSION,
            "executor_id": f"phone-{self._phone}" if self._phone else f"planner-{secrets.token_hex(4)}",
            "log_level": "WARNING",
            "scheduler_polling_interval_sec": 3600.0,
        }
        engine = self._dbos.DBOS
        engine(config=config)

        # The engine writes attributes on the function it is given, which a bound method does not allow.
        def workflow(task_type: str, job_id: str, payload: str, phone: str) -> bool:
            return self._workflow(task_type, job_id, payload, phone)

        engine.workflow(name=WORKFLOW, max_recovery_attempts=_MAX_RECOVERIES)(workflow)
        engine.listen_queues([queue_name(self._phone)] if self._phone else [])
        engine.launch()
        if not self._store.is_sqlite:
            # After the engine, which makes the database itself where it is missing. No job can need the
            # tables earlier: the first worker's queue does not exist yet, later workers find them.
            self._store.create_tables()
        self._client = self._dbos.DBOSClient(
            system_database_url=self._database_url, application_name=APPLICATION
        )
        if self._phone:
            self.add_phone(self._phone)

    def add_phone(self, phone: str) -> None:
        """Makes the queue of `phone`, with concurrency 1 over all machines, when it is missing."""
        self._dbos.DBOS.register_queue(
            queue_name(phone),
            global_concurrency=1,
            worker_concurrency=1,
            polling_interval_sec=self._polling_s,
            on_conflict="always_update",
        )

    def close(self) -> None:
        """Stops the engine and closes the database; a job that is running is left for the next worker."""
        if self._client is not None:
            self._client.destroy()
            self._client = None
            self._dbos.DBOS.destroy(destroy_registry=True)
        self._store.close()

    # Jobs.

    def enqueue(
        self,
        task_type: str,
        job_id: str,
        payload: Mapping[str, Any] | None = None,
        *,
        phone: str | None = None,
        rerun: str | None = None,
    ) -> bool:
        """Enqueues a job for `phone` (default: this worker's); False when it exists or its policy says no."""
        target = phone or self._phone
        if target is None:
            raise ValueError("a planner must name the phone")
        uid_of(task_type, job_id)
        job = _Spawned(task_type, job_id, to_json(dict(payload or {})), target, rerun)
        with self._store.transaction() as connection:
            self._store.take_turns(connection)
            return self._enqueue_row(connection, job)

    def _enqueue_row(self, connection: Any, job: _Spawned) -> bool:
        uid = uid_of(job.task_type, job.job_id)
        rerun = job.rerun or self._rerun.get(job.task_type, "never")
        if rerun not in RERUN_POLICIES:
            raise ValueError(f"rerun must be one of {', '.join(RERUN_POLICIES)}, got {rerun!r}")
        last = last_run(self._store, connection, uid)
        if last is not None and not last.may_be_followed(rerun, job.payload):
            return False
        run = 1 if last is None else last.run + 1
        workflow_id = uid if run == 1 else f"{uid}::{run}"
        if rerun != "never":
            sql = "INSERT INTO hibor_runs VALUES (:uid,:run,:payload)"
            self._store.execute(connection, sql, uid=uid, run=run, payload=job.payload)
        options = {
            "workflow_name": WORKFLOW,
            "queue_name": queue_name(job.phone),
            "workflow_id": workflow_id,
            "app_version": APPLICATION_VERSION,
        }
        self._client.enqueue_in_transaction(
            connection, options, job.task_type, job.job_id, job.payload, job.phone
        )
        return True

    def _workflow(self, task_type: str, job_id: str, payload: str, phone: str) -> bool:
        """The one workflow: a single step with bounded retries. Its id is the job's."""
        workflow_id = str(self._dbos.DBOS.workflow_id)
        options = {
            "name": "attempt",
            "retries_allowed": self._max_attempts > 1,
            "max_attempts": self._max_attempts,
            "interval_seconds": self._retry_wait_s,
            "backoff_rate": 1.0,
            "should_retry": _is_retryable,
        }
        return bool(
            self._dbos.DBOS.run_step(options, self._attempt, workflow_id, task_type, job_id, payload, phone)
        )

    def _attempt(self, workflow_id: str, task_type: str, job_id: str, payload: str, phone: str) -> bool:
        attempt = self._count_attempt(workflow_id)
        job = DbosJob(task_type, job_id, json.loads(payload), attempt, workflow_id, phone)
        handler = self._handlers.get(task_type)
        if handler is None:
            raise FatalJobError(f"this worker has no handler for {task_type!r}")
        context = DbosContext(self._store, job, stamp(self._clock.now()))
        try:
            schema = self._schemas.get(task_type)
            if schema is not None:
                schema(**job.payload)
            if handler(job, context) is False:
                raise RuntimeError("the handler returned False")
        finally:
            context.close()
        at = stamp(self._clock.now())
        with self._store.transaction() as connection:
            self._store.take_turns(connection)
            for spawned in context.spawned:
                self._enqueue_row(connection, spawned)
            for kind, body in context.effects:
                write_effect(self._store, connection, kind, body, at)
        return True

    def _count_attempt(self, workflow_id: str) -> int:
        with self._store.transaction() as connection:
            self._store.execute(
                connection,
                "INSERT INTO hibor_attempts VALUES (:workflow_id, 1) ON CONFLICT (workflow_id) DO UPDATE "
                "SET attempts = hibor_attempts.attempts + 1",
                workflow_id=workflow_id,
            )
            row = self._store.execute(
                connection, "SELECT attempts FROM hibor_attempts WHERE workflow_id=:id", id=workflow_id
            ).one()
            return int(row[0])

    # What is known.

    def active(self, phone: str | None = None) -> int:
        """How many jobs of `phone` (default: this worker's; a planner: of all) are queued or running."""
        target = phone or self._phone
        where = " AND queue_name=:queue" if target else ""
        sql = f"SELECT count(*) FROM {self._store.status_table} WHERE status IN :statuses{where}"
        values = {"queue": queue_name(target)} if target else {}
        return int(self._store.rows(sql, statuses=ACTIVE, **values)[0][0])

    def wait_idle(self, *, phone: str | None = None, wait_s: float) -> bool:
        """Waits until no job of `phone` is queued or running; False when `wait_s` passed first."""
        until_s = self._clock.monotonic_s() + wait_s
        while self.active(phone):
            if self._clock.monotonic_s() >= until_s:
                return False
            self._clock.sleep(min(self._polling_s, wait_s))
        return True

    def is_completed(self, uid: str) -> bool:
        """Whether `uid` is finished now."""
        return self._has_status(uid, FINISHED)

    def is_failed(self, uid: str) -> bool:
        """Whether `uid` has failed for good now."""
        return self._has_status(uid, FAILED)

    def _has_status(self, uid: str, statuses: tuple[str, ...]) -> bool:
        sql = f"SELECT 1 FROM {self._store.status_table} WHERE workflow_uuid=:uid AND status IN :statuses"
        return bool(self._store.rows(sql, uid=uid, statuses=statuses))

    def failures(self) -> list[Failure]:
        """Jobs that failed for good, by uid, with the reason the engine recorded."""
        found = self._client.list_workflows(status=list(FAILED), load_input=False)
        attempts = dict(self._store.rows("SELECT workflow_id, attempts FROM hibor_attempts"))
        failures = [
            Failure(
                status.workflow_id,
                str(status.error) if status.error is not None else status.status,
                int(attempts.get(status.workflow_id, 0)),
                stamp(datetime.fromtimestamp((status.updated_at or 0) / 1000, UTC)),
            )
            for status in found
        ]
        return sorted(failures, key=lambda failure: failure.uid)

    def jobs(self, task_type: str) -> list[JobView]:
        """Every job of `task_type`, each by its newest run, in the order of their first runs."""
        reasons = {failure.uid: failure.reason for failure in self.failures()}
        sql = (
            f"SELECT workflow_uuid, status, queue_name FROM {self._store.status_table} "
            "WHERE workflow_uuid LIKE :pattern ORDER BY created_at, workflow_uuid"
        )
        found: dict[str, JobView] = {}
        for workflow_id, status, queue in self._store.rows(sql, pattern=f"{task_type}::%"):
            job_id = str(workflow_id).split("::")[1]
            phone = str(queue).removeprefix(queue_name(""))
            found[job_id] = JobView(job_id, phone, str(status), reasons.get(str(workflow_id)))
        return list(found.values())

    def debts(self) -> list[str]:
        """Keys of listings that have not been read to a complete end."""
        return [str(key) for (key,) in self._store.rows("SELECT DISTINCT key FROM hibor_debts ORDER BY key")]


def _is_retryable(error: BaseException) -> bool:
    return not isinstance(error, FatalJobError)
