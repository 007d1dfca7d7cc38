"""A second process for the ledger tests: `python -m tests.quota.worker MODE FOLDER …`.

append NAME COUNT       reserve and confirm COUNT/2 reports
die STEP WHERE          append, and be killed (SIGKILL) before, inside or after the write of that step
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from hibor.clock import SystemClock
from hibor.durable import Durable
from hibor.durable_fs import Moment, OsFileSystem
from hibor.locks import NOTE_STEPS, Locks
from hibor.quota.ledger import STEPS, Ledger
from tests.quota.support import ACCOUNT, AUTOMATON, DAY, SetClock


class KillingFileSystem(OsFileSystem):
    """Kills its own process at one moment of one named step."""

    def __init__(self, step: str, where: str) -> None:
        self._step = step
        self._where = where
        self._inside = False

    def mark(self, step: str, moment: Moment) -> None:
        self._inside = step == self._step and moment == "begin"
        if step == self._step and {"before": "begin", "after": "end"}.get(self._where) == moment:
            _die()

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if self._inside and self._where == "inside":
            os.write(descriptor, bytes(data)[: len(data) // 2])
            _die()
        taken = os.write(descriptor, data)
        if self._inside and self._where == "written":
            _die()
        return taken

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        if self._inside and self._where == "synced":
            _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(mode: str, folder: str, *rest: str) -> None:
    """Run one mode."""
    path = Path(folder) / "ledger.jsonl"
    fs = KillingFileSystem(*rest) if mode == "die" else OsFileSystem()
    real = SystemClock()
    durable = Durable(fs, real, STEPS | NOTE_STEPS)
    clock = SetClock()
    locks = Locks(durable, real, ledger_limit_s=60.0)
    with Ledger.open(path, ACCOUNT, durable=durable, locks=locks, clock=clock, automaton=AUTOMATON) as ledger:
        if mode == "append":
            name, count = rest
            for number in range(int(count) // 2):
                event = ledger.reserve(f"{name}{number}", f"i{number}", name, DAY, 1000, "task", None)
                ledger.append("CONFIRMED", event, {"by": name})
        elif mode == "die":
            event = ledger.reserve("HB1", "i1", "r1", DAY, 1, "task", None)
            ledger.append("CONFIRMED", event, {"seen": "open"})


if __name__ == "__main__":
    main(*sys.argv[1:])
