"""What the DBOS host keeps beside the engine's own tables, in the same database, and how it reads both.

Rules of this file (design 6 'Hosts', 'dbos'):

* The wall is the engine's table of workflows: status SUCCESS is finished; ERROR, CANCELLED and
  MAX_RECOVERY_ATTEMPTS_EXCEEDED have failed. Nothing is copied, and nothing below it may be collected.
* A snapshot is one read transaction: REPEATABLE READ on PostgreSQL, WAL on SQLite.
* Scan debt is kept per scanning job. A scan that began with debt in sight and reached a complete end settles
  what it saw; never what another scan has begun since.
* Writes are one transaction per job, together with the jobs it enqueues (`DbosStore.transaction`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

FINISHED = ("SUCCESS",)
FAILED = ("ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
ACTIVE = ("ENQUEUED", "PENDING", "DELAYED")

# Any number will do, as long as nothing else on the server uses it ("hibor" in ASCII).
_TURN_LOCK = 0x6869626F72

_TABLES = (
    "CREATE TABLE IF NOT EXISTS hibor_debts (key TEXT, owner TEXT, since TEXT, PRIMARY KEY (key, owner))",
    "CREATE TABLE IF NOT EXISTS hibor_memory (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS hibor_marks (uid TEXT PRIMARY KEY, reason TEXT, rule_version TEXT, at TEXT)",
    "CREATE TABLE IF NOT EXISTS hibor_attempts (workflow_id TEXT PRIMARY KEY, attempts INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS hibor_runs (uid TEXT, run INTEGER, payload TEXT, PRIMARY KEY (uid, run))",
    "CREATE TABLE IF NOT EXISTS hibor_reports (at TEXT, key TEXT, owner TEXT, report TEXT NOT NULL)",
)


def sqlalchemy_url(database_url: str) -> str:
    """The URL with the driver that the engine brings along (psycopg 3)."""
    for prefix in ("postgresql://", "postgres://"):
        if database_url.startswith(prefix):
            return "postgresql+psycopg://" + database_url[len(prefix) :]
    return database_url


class DbosStore:
    """Connections to the engine's database for reading snapshots and for writing with a job's success."""

    def __init__(self, database_url: str, *, lock_wait_s: float) -> None:
        import sqlalchemy  # type: ignore[import-not-found,unused-ignore]

        self._sa: Any = sqlalchemy
        self.is_sqlite = database_url.startswith("sqlite")
        url = sqlalchemy_url(database_url)
        if self.is_sqlite:
            self._reader = self._sqlite_engine(url, "BEGIN", lock_wait_s)
            self._writer = self._sqlite_engine(url, "BEGIN IMMEDIATE", lock_wait_s)
        else:
            self._reader = sqlalchemy.create_engine(url, isolation_level="REPEATABLE READ")
            self._writer = sqlalchemy.create_engine(url, pool_pre_ping=True)
        self.status_table = "workflow_status" if self.is_sqlite else "dbos.workflow_status"

    def _sqlite_engine(self, url: str, begin: str, lock_wait_s: float) -> Any:
        engine = self._sa.create_engine(url, connect_args={"timeout": lock_wait_s})

        @self._sa.event.listens_for(engine, "connect")  # type: ignore[untyped-decorator,unused-ignore]
        def prepare(connection: Any, record: Any) -> None:
            # sqlite3 must not open transactions on its own: the snapshot begins when we say so.
            connection.isolation_level = None
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")

        @self._sa.event.listens_for(engine, "begin")  # type: ignore[untyped-decorator,unused-ignore]
        def start(connection: Any) -> None:
            connection.exec_driver_sql(begin)

        return engine

    def create_tables(self) -> None:
        """Makes this host's own tables, when they are missing; safe when several processes start at once."""
        with self.transaction() as connection:
            self.take_turns(connection)
            for statement in _TABLES:
                self.execute(connection, statement)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """One write transaction (a SQLAlchemy connection); committed when the block is left without error."""
        with self._writer.begin() as connection:
            yield connection

    def take_turns(self, connection: Any) -> None:
        """Lets one transaction at a time go on from here, until it ends.

        Two jobs that enqueue the same entries in different orders would deadlock; two sessions that create
        the same table collide in spite of IF NOT EXISTS. SQLite has one writer anyway.
        """
        if not self.is_sqlite:
            self.execute(connection, f"SELECT pg_advisory_xact_lock({_TURN_LOCK})")

    def execute(self, connection: Any, sql: str, **values: Any) -> Any:
        """Runs one statement; a value that is a list or tuple fills an `IN :name`."""
        statement = self._sa.text(sql)
        for name, value in values.items():
            if isinstance(value, (list, tuple)):
                statement = statement.bindparams(self._sa.bindparam(name, expanding=True))
        return connection.execute(statement, values)

    def rows(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of one small query against the current state."""
        with self._reader.begin() as connection:
            return [tuple(row) for row in self.execute(connection, sql, **values)]

    def snapshot(self) -> DbosSnapshot:
        """A read transaction that sees this moment until it is closed."""
        return DbosSnapshot(self, self._reader.connect())

    def close(self) -> None:
        """Closes all connections."""
        self._reader.dispose()
        self._writer.dispose()


class DbosSnapshot:
    """One moment of the database, held by an open read transaction."""

    def __init__(self, store: DbosStore, connection: Any) -> None:
        self._store = store
        self._connection = connection
        # The first read fixes the snapshot on both databases.
        self._query(f"SELECT 1 FROM {store.status_table} LIMIT 1")

    def _query(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._store.execute(self._connection, sql, **values)]

    def with_status(self, uids: Collection[str], statuses: tuple[str, ...]) -> set[str]:
        """Those of `uids` whose workflow has one of `statuses`."""
        if not uids:
            return set()
        sql = (
            f"SELECT workflow_uuid FROM {self._store.status_table} "
            "WHERE workflow_uuid IN :uids AND status IN :statuses"
        )
        return {str(uid) for (uid,) in self._query(sql, uids=list(uids), statuses=statuses)}

    def attempted_uids(self) -> Iterator[str]:
        """Finished and failed uids, streamed. Runs of repeated jobs (`type::id::run`) are not entries."""
        sql = f"SELECT workflow_uuid FROM {self._store.status_table} WHERE status IN :statuses"
        streaming = self._connection.execution_options(stream_results=True, yield_per=1000)
        for (uid,) in self._store.execute(streaming, sql, statuses=FINISHED + FAILED):
            if str(uid).count("::") == 1:
                yield str(uid)

    def is_marked(self, uid: str) -> bool:
        """Whether `uid` was declined."""
        return bool(self._query("SELECT 1 FROM hibor_marks WHERE uid=:uid", uid=uid))

    def debt_owners(self, key: str) -> list[str]:
        """The jobs that began a scan of `key` without ending it completely."""
        return [
            str(owner) for (owner,) in self._query("SELECT owner FROM hibor_debts WHERE key=:key", key=key)
        ]

    def recall(self, name: str) -> Any:
        """A remembered JSON value, or None."""
        rows = self._query("SELECT value FROM hibor_memory WHERE key=:key", key=name)
        return json.loads(rows[0][0]) if rows else None

    def close(self) -> None:
        """Ends the read transaction."""
        self._connection.close()


@attrs.frozen
class LastRun:
    """The newest run of a job: its number from 1, the engine's status, its payload where it was recorded."""

    run: int
    status: str
    payload: str | None

    def may_be_followed(self, rerun: str, payload: str) -> bool:
        """Whether the policy lets the job run again with `payload`; never while it is queued or running."""
        if self.status in ACTIVE:
            return False
        if rerun == "on_failure":
            return self.status in FAILED
        if rerun == "on_input_change":
            return self.payload is not None and self.payload != payload
        return rerun == "every_run"


def last_run(store: DbosStore, connection: Any, uid: str) -> LastRun | None:
    """The newest run of `uid` (workflow ids `uid`, `uid::2`, …), or None when it never ran."""
    sql = "SELECT run, payload FROM hibor_runs WHERE uid=:uid ORDER BY run DESC LIMIT 1"
    recorded = store.execute(connection, sql, uid=uid).first()
    run, payload = (int(recorded[0]), str(recorded[1])) if recorded is not None else (1, None)
    workflow_id = uid if run == 1 else f"{uid}::{run}"
    sql = f"SELECT status FROM {store.status_table} WHERE workflow_uuid=:workflow_id"
    row = store.execute(connection, sql, workflow_id=workflow_id).first()
    return None if row is None else LastRun(run, str(row[0]), payload)


def write_effect(store: DbosStore, connection: Any, kind: str, body: Mapping[str, Any], at: str) -> None:
    """Writes one spooled effect (all kinds but `spawn`) inside the job's transaction."""
    if kind == "mark":
        store.execute(
            connection,
            "INSERT INTO hibor_marks VALUES (:uid,:reason,:rule_version,:at) ON CONFLICT (uid) DO UPDATE SET "
            "reason=excluded.reason, rule_version=excluded.rule_version, at=excluded.at",
            **body,
            at=at,
        )
    elif kind == "settle":
        for owner in body["owners"]:
            sql = "DELETE FROM hibor_debts WHERE key=:key AND owner=:owner"
            store.execute(connection, sql, key=body["key"], owner=owner)
    elif kind == "memory" and body["value"] is None:
        store.execute(connection, "DELETE FROM hibor_memory WHERE key=:key", key=body["key"])
    elif kind == "memory":
        store.execute(
            connection,
            "INSERT INTO hibor_memory VALUES (:key,:value) "
            "ON CONFLICT (key) DO UPDATE SET value=excluded.value",
            key=body["key"],
            value=json.dumps(body["value"], ensure_ascii=False),
        )
    elif kind == "report":
        sql = "INSERT INTO hibor_reports VALUES (:at,:key,:owner,:report)"
        report = json.dumps(body["report"], ensure_ascii=False)
        store.execute(connection, sql, at=at, key=body["key"], owner=body["owner"], report=report)
    else:
        raise ValueError(f"unknown effect {kind!r}")
