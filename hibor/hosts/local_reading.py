"""Reading the local host's file from outside a job: what is finished, failed, declined, owed, catalogued.

Rules of this file: every method reads the state of now, changes nothing, and takes no lock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs

from .local_store import Store


@attrs.frozen
class Failure:
    """A job that failed for good: why, after how many attempts, when (ISO 8601)."""

    uid: str
    reason: str
    attempts: int
    at: str


@attrs.frozen
class Mark:
    """An entry declined for good: why, by which version of the rule, when (ISO 8601)."""

    uid: str
    reason: str
    rule_version: str
    at: str


@attrs.frozen
class CatalogueEntry:
    """One catalogue row; `entry` is what `LocalContext.record` was given."""

    uid: str
    content_id: str
    sort_key: str
    entry: dict[str, Any]
    first_seen_at: str
    last_seen_at: str
    vanished_at: str | None


class LocalReader:
    """The reading half of `LocalHost`."""

    _store: Store

    def is_completed(self, uid: str) -> bool:
        """Whether `uid` is finished now."""
        return bool(self._count("SELECT count(*) FROM wall WHERE uid=?", uid))

    def is_failed(self, uid: str) -> bool:
        """Whether `uid` has failed for good now."""
        return bool(self._count("SELECT count(*) FROM failed WHERE uid=?", uid))

    def queued_uids(self) -> list[str]:
        """Uids in the queue, oldest first, running ones included."""
        return [str(uid) for (uid,) in self._store.rows("SELECT uid FROM queue ORDER BY seq")]

    def failures(self) -> list[Failure]:
        """Jobs that failed for good, by uid."""
        return [
            Failure(*row)
            for row in self._store.rows("SELECT uid,reason,attempts,at FROM failed ORDER BY uid")
        ]

    def marks(self, rule_version: str | None = None) -> list[Mark]:
        """Entries declined for good, by uid; only one rule's when `rule_version` is given."""
        where = "" if rule_version is None else " WHERE rule_version=?"
        rows = self._store.rows(
            f"SELECT uid,reason,rule_version,at FROM marks{where} ORDER BY uid",
            () if rule_version is None else (rule_version,),
        )
        return [Mark(*row) for row in rows]

    def debts(self) -> list[str]:
        """Keys of listings that have not been read to a complete end."""
        return [str(key) for (key,) in self._store.rows("SELECT key FROM debts ORDER BY key")]

    def scan_reports(self, key: str | None = None, *, limit: int = 20) -> list[dict[str, Any]]:
        """The last scan reports, newest first, each with its `key` and `at`."""
        where = "" if key is None else "WHERE key=?"
        rows = self._store.rows(
            f"SELECT key,at,report FROM reports {where} ORDER BY seq DESC LIMIT ?",
            (limit,) if key is None else (key, limit),
        )
        return [{"key": name, "at": at, **json.loads(report)} for name, at, report in rows]

    def entries(
        self,
        task_type: str,
        *,
        since_sort_key: str | None = None,
        newest_first: bool = True,
        include_vanished: bool = True,
    ) -> Iterator[CatalogueEntry]:
        """Catalogue rows of `task_type` in the order of their sort keys, as one snapshot, read lazily."""
        snapshot = self._store.snapshot()
        try:
            clauses = ["task_type=?"]
            values = [task_type]
            if since_sort_key is not None:
                clauses.append("sort_key>=?")
                values.append(since_sort_key)
            if not include_vanished:
                clauses.append("vanished_at IS NULL")
            direction = "DESC" if newest_first else "ASC"
            rows = snapshot.execute(
                "SELECT uid,content_id,sort_key,entry,first_seen_at,last_seen_at,vanished_at FROM catalogue "
                f"WHERE {' AND '.join(clauses)} ORDER BY sort_key {direction}, uid",
                values,
            )
            for uid, content_id, sort_key, entry, first_seen_at, last_seen_at, vanished_at in rows:
                yield CatalogueEntry(
                    uid, content_id, sort_key, json.loads(entry), first_seen_at, last_seen_at, vanished_at
                )
        finally:
            snapshot.close()

    def entry(self, uid: str) -> CatalogueEntry | None:
        """One catalogue row, or None."""
        rows = self._store.rows(
            "SELECT uid,content_id,sort_key,entry,first_seen_at,last_seen_at,vanished_at FROM catalogue "
            "WHERE uid=?",
            (uid,),
        )
        if not rows:
            return None
        values: list[Any] = list(rows[0])
        values[3] = json.loads(values[3])
        return CatalogueEntry(*values)

    def _count(self, sql: str, *parameters: object) -> int:
        return int(self._store.rows(sql, parameters)[0][0])
