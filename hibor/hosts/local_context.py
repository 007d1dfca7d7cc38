"""What a handler of the local host sees: a snapshot to read from, and a spool to write to.

Rules of this file (design 6 'Hosts'):

* Reading goes through one open read transaction, begun when the job was dispatched. It *is* the snapshot, so
  memory does not grow with the wall.
* Everything a job hands out is written to the `spool` table, in batches, and becomes real in the transaction
  that finishes the job. A crash leaves spool rows, which are thrown away when the job is claimed again.
* One exception: `set_scan_debt(key, True)` is durable when it returns, because it must outlive a crash.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import attrs

from hibor.discovery.protocols import Frontier

from .local_store import HostError, HostLockedError, Store

REPORTS_KEPT = 200
"""Scan reports kept per listing; the oldest go first."""

_BATCH = 256


def to_json(value: object) -> str:
    """`value` as compact JSON with sorted keys; raises `ValueError` for what JSON does not have."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except TypeError as error:
        raise ValueError(f"not JSON: {error}") from error


def uid_of(task_type: str, job_id: str) -> str:
    """`task_type::job_id`; raises `ValueError` for an empty part or `::` inside one."""
    if not task_type or not job_id or "::" in task_type or "::" in job_id:
        raise ValueError(
            f"task type and job id must be non-empty and without '::', got {task_type!r}, {job_id!r}"
        )
    return f"{task_type}::{job_id}"


def stamp(moment: datetime) -> str:
    """ISO 8601 with offset and milliseconds (design 9)."""
    return moment.isoformat(timespec="milliseconds")


def milliseconds(at: str) -> int:
    """A stamp as milliseconds since 1970 (UTC)."""
    return round(datetime.fromisoformat(at).timestamp() * 1000)


@attrs.frozen
class LocalJob:
    """One dispatched job. `attempt` counts from 1, crashed attempts included."""

    task_type: str
    job_id: str
    payload: dict[str, Any]
    attempt: int

    @property
    def uid(self) -> str:
        """`task_type::job_id`."""
        return f"{self.task_type}::{self.job_id}"


class LocalContext:
    """The context of one job: `DiscoveryContext` with all optional protocols, spawn and catalogue."""

    def __init__(self, store: Store, job: LocalJob, now: datetime) -> None:
        self._store = store
        self._job = job
        self._at = stamp(now)
        self._snapshot = store.snapshot()
        self._cursor = self._snapshot.cursor()
        self._pending: list[tuple[str, str, str]] = []
        self._flush_at = _BATCH

    # Snapshot.

    def is_completed(self, uid: str) -> bool:
        """Whether `uid` was finished when this job was dispatched."""
        return self._cursor.execute("SELECT 1 FROM wall WHERE uid=?", (uid,)).fetchone() is not None

    def is_failed(self, uid: str) -> bool:
        """Whether `uid` had failed for good when this job was dispatched."""
        return self._cursor.execute("SELECT 1 FROM failed WHERE uid=?", (uid,)).fetchone() is not None

    def seen_uids(self, uids: Collection[str]) -> set[str]:
        """Those of `uids` that were finished or had failed when this job was dispatched."""
        seen: set[str] = set()
        asked = list(uids)
        for start in range(0, len(asked), _BATCH):
            chunk = asked[start : start + _BATCH]
            found = self._find("wall", chunk)
            if len(found) < len(chunk):
                found.update(self._find("failed", [uid for uid in chunk if uid not in found]))
            seen.update(found)
        return seen

    def _find(self, table: str, uids: list[str]) -> set[str]:
        places = ",".join("?" * len(uids))
        return {
            uid for (uid,) in self._cursor.execute(f"SELECT uid FROM {table} WHERE uid IN ({places})", uids)
        }

    def attempted_uids(self) -> Iterator[str]:
        """Finished and failed uids, read lazily from the snapshot."""
        for (uid,) in self._snapshot.execute("SELECT uid FROM wall UNION ALL SELECT uid FROM failed"):
            yield uid

    def is_marked_seen(self, uid: str) -> bool:
        """Whether `uid` was declined before this job was dispatched."""
        return self._cursor.execute("SELECT 1 FROM marks WHERE uid=?", (uid,)).fetchone() is not None

    def scan_debt(self, key: str) -> bool:
        """Whether an earlier scan of `key` ended before a complete end."""
        return self._cursor.execute("SELECT 1 FROM debts WHERE key=?", (key,)).fetchone() is not None

    def scan_frontier(self, key: str) -> Frontier | None:
        """How far the last incomplete scan of `key` got, or None."""
        value = self._recall(f"frontier::{key}")
        return None if value is None else Frontier(int(value["page"]), tuple(value["ids"]))

    def missing_before(self, key: str) -> list[str]:
        """Content ids the last complete full scan of `key` missed."""
        value = self._recall(f"missing::{key}")
        return [] if value is None else [str(content_id) for content_id in value]

    def _recall(self, name: str) -> Any:
        row = self._cursor.execute("SELECT value FROM memory WHERE key=?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    # Spool.

    def spawn(
        self, task_type: str, job_id: str, payload: Mapping[str, Any] | None = None, *, rerun: str = ""
    ) -> str:
        """Queues a job with this job's success and returns its uid; nothing happens when it exists
        already.
        """
        uid = uid_of(task_type, job_id)
        self._spool("spawn", {"uid": uid, "payload": dict(payload or {}), "rerun": rerun})
        return uid

    def record(self, task_type: str, content_id: str, entry: Mapping[str, Any], *, sort_key: str = "") -> str:
        """Writes a catalogue row and finishes `task_type::content_id`, with this job's success.

        `entry` is stored as JSON. `sort_key` orders `LocalHost.entries` (an ISO date, for example). A row
        that exists is updated; its first_seen_at stays and a vanished mark is taken off.
        """
        uid = uid_of(task_type, content_id)
        self._spool("record", {"uid": uid, "entry": dict(entry), "sort_key": sort_key})
        return uid

    def vanish(self, task_type: str, content_ids: Iterable[str]) -> None:
        """Marks catalogue rows as vanished from the listing, with this job's success."""
        for content_id in content_ids:
            self._spool("vanish", {"uid": uid_of(task_type, content_id)})

    def mark_seen(self, uid: str) -> None:
        """Declines `uid` without a reason."""
        self.mark_declined(uid, "", "")

    def mark_declined(self, uid: str, reason: str, rule_version: str) -> None:
        """Declines `uid`, with this job's success; see `LocalHost.marks` and `remove_marks`."""
        self._spool("mark", {"uid": uid, "reason": reason, "rule_version": rule_version})

    def set_scan_debt(self, key: str, debt: bool) -> None:
        """True: durable at once, and earlier clearing by this job is void. False: with this job's success."""
        if debt:
            with self._store.transaction() as connection:
                connection.execute("INSERT OR IGNORE INTO debts VALUES (?,?)", (key, self._at))
        self._spool("debt", {"key": key, "debt": bool(debt)})

    def set_scan_frontier(self, key: str, frontier: Frontier | None) -> None:
        """Replaces the frontier of `key`, with this job's success."""
        value = None if frontier is None else {"page": frontier.page, "ids": list(frontier.ids)}
        self._spool("memory", {"key": f"frontier::{key}", "value": value})

    def set_missing_before(self, key: str, content_ids: Collection[str]) -> None:
        """Replaces the missing ids of `key`, with this job's success."""
        self._spool("memory", {"key": f"missing::{key}", "value": sorted(content_ids)})

    def store_scan_report(self, key: str, report: Mapping[str, Any]) -> None:
        """Keeps a scan report, with this job's success; see `LocalHost.scan_reports`."""
        self._spool("report", {"key": key, "report": dict(report)})

    def _spool(self, kind: str, body: dict[str, Any]) -> None:
        self._pending.append((self._job.uid, kind, to_json(body)))
        if len(self._pending) >= self._flush_at:
            try:
                self.flush()
            except HostLockedError:
                # Nothing is lost yet: the batch stays in memory, and the flush at the job's end decides.
                # Raised here it would pass for a fault of the entry that happened to fill the batch.
                self._flush_at = len(self._pending) + _BATCH

    def flush(self) -> None:
        """Moves what is still in memory into the spool table."""
        if self._pending:
            with self._store.transaction() as connection:
                connection.executemany("INSERT INTO spool (job_uid,kind,body) VALUES (?,?,?)", self._pending)
            self._pending.clear()
            self._flush_at = _BATCH

    def close(self) -> None:
        """Ends the snapshot."""
        self._snapshot.close()


def apply_spool(
    connection: sqlite3.Connection, job_uid: str, at: str, default_rerun: Mapping[str, str]
) -> int:
    """Makes the spool of `job_uid` real inside the caller's transaction; returns how many jobs were
    queued.
    """
    queued = 0
    for kind, text in connection.execute(
        "SELECT kind,body FROM spool WHERE job_uid=? ORDER BY seq", (job_uid,)
    ):
        body = json.loads(text)
        if kind == "spawn":
            task_type = body["uid"].split("::", 1)[0]
            rerun = body["rerun"] or default_rerun.get(task_type, "never")
            queued += enqueue_row(connection, body["uid"], to_json(body["payload"]), rerun)
        else:
            _apply_one(connection, kind, body, at)
    connection.execute("DELETE FROM spool WHERE job_uid=?", (job_uid,))
    return queued


def _apply_one(connection: sqlite3.Connection, kind: str, body: dict[str, Any], at: str) -> None:
    if kind == "record":
        task_type, content_id = body["uid"].split("::", 1)
        connection.execute(
            "INSERT INTO catalogue VALUES (?,?,?,?,?,?,?,NULL) ON CONFLICT (uid) DO UPDATE SET "
            "entry=excluded.entry, sort_key=excluded.sort_key, last_seen_at=excluded.last_seen_at, "
            "vanished_at=NULL",
            (body["uid"], task_type, content_id, body["sort_key"], to_json(body["entry"]), at, at),
        )
        connection.execute("INSERT OR IGNORE INTO wall VALUES (?,?,NULL)", (body["uid"], milliseconds(at)))
    elif kind == "vanish":
        connection.execute(
            "UPDATE catalogue SET vanished_at=coalesce(vanished_at,?) WHERE uid=?", (at, body["uid"])
        )
    elif kind == "mark":
        connection.execute(
            "INSERT OR REPLACE INTO marks VALUES (?,?,?,?)",
            (body["uid"], body["reason"], body["rule_version"], at),
        )
    elif kind == "debt":
        if body["debt"]:
            connection.execute("INSERT OR IGNORE INTO debts VALUES (?,?)", (body["key"], at))
        else:
            connection.execute("DELETE FROM debts WHERE key=?", (body["key"],))
    elif kind == "memory":
        if body["value"] is None:
            connection.execute("DELETE FROM memory WHERE key=?", (body["key"],))
        else:
            connection.execute(
                "INSERT OR REPLACE INTO memory VALUES (?,?)", (body["key"], to_json(body["value"]))
            )
    elif kind == "report":
        connection.execute(
            "INSERT INTO reports (key,at,report) VALUES (?,?,?)", (body["key"], at, to_json(body["report"]))
        )
        connection.execute(
            "DELETE FROM reports WHERE key=? AND seq NOT IN "
            "(SELECT seq FROM reports WHERE key=? ORDER BY seq DESC LIMIT ?)",
            (body["key"], body["key"], REPORTS_KEPT),
        )
    else:
        raise HostError(f"the spool holds an entry of unknown kind {kind!r}")


def enqueue_row(connection: sqlite3.Connection, uid: str, payload: str, rerun: str) -> int:
    """Puts one job into the queue; 0 when it is there already or its rerun policy says no."""
    if not _may_run(connection, uid, payload, rerun):
        return 0
    return connection.execute(
        "INSERT OR IGNORE INTO queue (uid,task_type,payload,rerun) VALUES (?,?,?,?)",
        (uid, uid.split("::", 1)[0], payload, rerun),
    ).rowcount


def _may_run(connection: sqlite3.Connection, uid: str, payload: str, rerun: str) -> bool:
    if rerun == "every_run":
        return True
    row = connection.execute("SELECT input_hash FROM wall WHERE uid=?", (uid,)).fetchone()
    failed = connection.execute("SELECT input_hash FROM failed WHERE uid=?", (uid,)).fetchone()
    if row is None and failed is None:
        return True
    if rerun == "on_failure":
        return row is None
    if rerun == "on_input_change":
        known = row if row is not None else failed
        # A seeded uid has no recorded input; it was declared handled as it is.
        return known[0] is not None and bool(known[0] != input_hash(payload))
    return False


def input_hash(payload: str) -> str:
    """sha256 (hex) of a job's payload in its JSON form."""
    return hashlib.sha256(payload.encode("utf-8")).hexdigest()
