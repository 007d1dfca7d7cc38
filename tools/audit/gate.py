"""All checks of the audit, in order, with what they cost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from fsm import Tables

from . import closing, domains, items, machine, small, verdicts
from .findings import Check, Violation

CHECKS: Final[tuple[Callable[[Tables], Check], ...]] = (
    verdicts.check_verdicts,
    verdicts.check_one_by_one,
    verdicts.check_moves,
    closing.check_closings,
    closing.check_closures,
    closing.check_variants,
    domains.check_classes,
    domains.check_domains,
    domains.check_ids,
    domains.check_node_quota,
    domains.check_without_closure,
    domains.check_keep,
    domains.check_failures,
    items.check_items,
    machine.check_edges,
    machine.check_moves_of_edges,
    machine.check_recovery,
    machine.check_ledger,
    machine.check_run_statuses,
    machine.check_rulings,
    small.check_small,
    small.check_beside_default,
)
MOST_SECONDS: Final = 5.0
MOST_MEGABYTES: Final = 300.0


@attrs.frozen
class Enumeration:
    """What all checks said. `seconds` is real time, `cpu_seconds` this process's processor time, `peak_mb`
    its largest resident size.
    """

    checks: tuple[Check, ...]
    seconds: float
    cpu_seconds: float
    peak_mb: float | None

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All faults, in the order of the checks."""
        return tuple(violation for check in self.checks for violation in check.violations)

    def named(self, name: str) -> Check:
        """One check. Raises KeyError."""
        found = {check.name: check for check in self.checks}
        return found[name]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "seconds": round(self.seconds, 2),
            "cpu_seconds": round(self.cpu_seconds, 2),
            "peak_mb": self.peak_mb,
            "checks": [check.to_dict() for check in self.checks],
        }


def enumerate_all(tables: Tables | None = None) -> Enumeration:
    """Run every check over `tables` (default: the generated ones)."""
    begun, begun_cpu = time.perf_counter(), time.process_time()
    tables = tables or Tables.default()
    checks = tuple(_checked(check, tables) for check in CHECKS)
    return Enumeration(checks, time.perf_counter() - begun, time.process_time() - begun_cpu, peak_mb())


def _checked(check: Callable[[Tables], Check], tables: Tables) -> Check:
    """A check's answer; one that breaks down over a contract at odds with itself has found a fault too."""
    says = " ".join((check.__doc__ or "").split("\n\n")[0].split())
    try:
        return attrs.evolve(check(tables), says=says)
    except Exception as error:
        text = f"the tables are at odds with themselves: {check.__name__} meets {type(error).__name__}"
        found = Violation("conflicting", "spec", text, str(error)[:120])
        return Check(check.__name__, {}, (found,), says=says)


def peak_mb() -> float | None:
    """Largest resident size of this process in MB; None where the system does not tell.

    Linux hands a started program the peak of its starter in `getrusage`; its own is in `/proc`.
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024 * 1024 if sys.platform == "darwin" else 1024), 1)
