"""The ledger between processes and over their deaths (faults F87, F89, F91)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hibor.quota.errors import AlreadyPaid, LedgerInvalid, QuotaExhausted
from hibor.quota.repair import repair_ledger
from tests.quota.support import ACCOUNT, AUTOMATON, Bench, reserve

LIMIT_S = 120.0


def start(*arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.quota.worker", *arguments]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2])


def test_two_processes_append_two_hundred_events_each(tmp_path: Path) -> None:
    """F91: two appenders read the same head and the chain forks."""
    workers = [start("append", str(tmp_path), name, "200") for name in ("A", "B")]
    try:
        assert [worker.wait(LIMIT_S) for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    bench = Bench(tmp_path)
    assert len(bench.path.read_bytes().splitlines()) == 400
    ledger = bench.open_without_index()
    assert ledger.verify().count == 400
    assert ledger.sums("2026-11-30").confirmed == 200


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
@pytest.mark.parametrize("where", ["before", "inside", "written", "synced", "after"])
@pytest.mark.parametrize("step", ["reserve.append", "confirm.append"])
def test_killed_around_an_append_charges_once(tmp_path: Path, step: str, where: str) -> None:
    """F89: kill -9 at the append, run again: one charge, whatever had become durable."""
    worker = start("die", str(tmp_path), step, where)
    assert worker.wait(LIMIT_S) == -signal.SIGKILL
    bench = Bench(tmp_path)
    before = {"reserve.append": 0, "confirm.append": 1}[step]
    if where == "inside":
        with pytest.raises(LedgerInvalid) as raised:
            bench.open()
        assert raised.value.torn
        done = repair_ledger(
            bench.path,
            ACCOUNT,
            durable=bench.durable,
            locks=bench.locks,
            clock=bench.clock,
            automaton=AUTOMATON,
            confirm=lambda _question: True,
        )
        assert done is not None
        assert [event.type for event in done.recorded] == ["REPAIRED"]
    else:
        assert bench.open().head.count == before + (where != "before")
    ledger = bench.open()
    if ledger.sums("2026-11-30").confirmed:
        # The next run finds what was paid for and reserves nothing.
        with pytest.raises(AlreadyPaid):
            ledger.reserve("HB1", "i1", "r1", "2026-11-30", 1, "task", None)
        event = ledger.history("HB1")[0].reservation
    else:
        event = ledger.reserve("HB1", "i1", "r1", "2026-11-30", 1, "task", None)
    ledger.append("CONFIRMED", event, {"seen": "open"})
    assert ledger.sums("2026-11-30").confirmed == 1
    assert [view.reservation for view in ledger.history("HB1")] == [event]
    with pytest.raises(QuotaExhausted):
        reserve(ledger, "HB2", limit=1)
    assert bench.open_without_index().head == ledger.head
