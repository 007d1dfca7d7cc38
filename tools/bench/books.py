"""The ledger: one append against the barest loop that keeps the same promise, and opening by index against
reading all.

Rules of this file: the bare loop opens, appends, fsyncs and closes one line, opens again and compares what
it reads, with no lock, no chain, no decision; both are taken in turns, line by line, because the disk's
own time changes from second to second. The ledger that is opened is a real one, written in its own format
with every hash right.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from generated.ledger import AUTOMATON
from generated.steps import STEPS
from hibor.clock import SystemClock
from hibor.durable import Durable
from hibor.durable_fs import OsFileSystem
from hibor.locks import Locks
from hibor.quota import events
from hibor.quota.events import ZERO_HASH
from hibor.quota.family import Automaton
from hibor.quota.ledger import STEPS as LEDGER_STEPS
from hibor.quota.ledger import Ledger

from .rows import Row

ACCOUNT: Final = "bench"
PAIRS: Final = 150


def append_row(rounds: int) -> Row:
    """Median time of a ledger append over the bare loop's."""
    values, shown = [], ""
    with tempfile.TemporaryDirectory(prefix="hibor-bench-") as folder:
        for number in range(rounds):
            base = Path(folder) / str(number)
            base.mkdir()
            ours, bare = _appends(base)
            ours_s, bare_s = statistics.median(ours), statistics.median(bare)
            values.append(ours_s / bare_s)
            shown = f"{ours_s * 1e3:.2f} ms against {bare_s * 1e3:.2f} ms"
    return Row(
        name="ledger append",
        against="bare append + fsync + re-read",
        limit=1.15,
        values=tuple(values),
        note=shown,
    )


def _appends(base: Path) -> tuple[list[float], list[float]]:
    ours: list[float] = []
    bare: list[float] = []
    with _open(base / "quota.jsonl") as ledger:
        day = ledger.calendar.day(SystemClock().now())
        line = b""
        for number in range(PAIRS):
            begun_s = time.perf_counter()
            reservation = ledger.reserve(
                f"HB{number:013}", f"item-{number}", "run", day, 1_000_000, "task", None
            )
            ours.append(time.perf_counter() - begun_s)
            line = line or (base / "quota.jsonl").read_bytes().splitlines()[0]
            bare.append(_bare(base / "bare.jsonl", line))
            begun_s = time.perf_counter()
            ledger.append("CONFIRMED", reservation, {"reason": "button_busy"})
            ours.append(time.perf_counter() - begun_s)
            bare.append(_bare(base / "bare.jsonl", line))
    return ours, bare


def _bare(path: Path, line: bytes) -> float:
    begun_s = time.perf_counter()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    offset = os.fstat(descriptor).st_size
    os.write(descriptor, line + b"\n")
    os.fsync(descriptor)
    os.close(descriptor)
    with path.open("rb") as file:
        file.seek(offset)
        if file.read() != line + b"\n":
            raise RuntimeError("the bare loop reads back something else")
    return time.perf_counter() - begun_s


def _open(path: Path) -> Ledger:
    clock = SystemClock()
    durable = Durable(OsFileSystem(), clock, frozenset(STEPS) | LEDGER_STEPS)
    return Ledger.open(
        path,
        ACCOUNT,
        durable=durable,
        locks=Locks(durable, clock),
        clock=clock,
        automaton=Automaton(AUTOMATON),
    )


def open_row(rounds: int, count: int) -> Row:
    """Opening a ledger of `count` events by its index over verifying all of it."""
    values, whole_s, index_s = [], 0.0, 0.0
    with tempfile.TemporaryDirectory(prefix="hibor-bench-") as folder:
        path = Path(folder) / "quota.jsonl"
        _write_ledger(path, count)
        _open(path).close()
        for _ in range(rounds):
            begun_s = time.perf_counter()
            ledger = _open(path)
            index_s = time.perf_counter() - begun_s
            if ledger.verified_whole or ledger.head.count != count:
                raise RuntimeError("the index was not used")
            begun_s = time.perf_counter()
            ledger.verify()
            whole_s = time.perf_counter() - begun_s
            ledger.close()
            values.append(index_s / whole_s)
    return Row(
        name=f"ledger open by index, {count:,} events",
        against="full verification",
        limit=0.02,
        values=tuple(values),
        note=f"{index_s * 1e3:.1f} ms against {whole_s:.2f} s",
    )


def _write_ledger(path: Path, count: int) -> None:
    """`count` events of families that were reserved, confirmed and delivered, a hundred a day, up to
    yesterday."""
    zone = timedelta(hours=8)
    began = datetime.now(UTC) - timedelta(days=1 + count // 300)
    prev, seq = ZERO_HASH, 0
    with path.open("wb") as file:
        for family in range(-(-count // 3)):
            at = began + timedelta(days=family // 100, seconds=family % 100)
            stamp = (at + zone).strftime("%Y-%m-%dT%H:%M:%S.000+08:00")
            for kind in ("RESERVED", "CONFIRMED", "ARTIFACT_SUCCESS")[: count - seq]:
                seq += 1
                _event, line = events.make_event(
                    kind, account=ACCOUNT, at=stamp, day=stamp[:10], data={"limit": 100}, prev=prev, seq=seq,
                    report_id=f"HB{family:013}", ordinal=1, item_id=f"item-{family}", run_id="run",
                )  # fmt: skip
                prev = events.sha256_hex(line)
                file.write(line + b"\n")
