"""Which faults strike now: counts matching calls per fault and says when one is due.

Rules: a fault counts only the calls that match its site and its filters, fires from its `call`-th on,
`times` times (0 = always). The counts live in the phone's state, so they survive a kill with everything
else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hibor.sim.scenario import Fault


class FaultBook:
    """The faults of one scenario with their counts."""

    def __init__(
        self, faults: Sequence[Fault], counts: dict[str, int], rank_of: Callable[[str | None], int]
    ) -> None:
        self._faults = [(f"{place}:{fault.kind}:{fault.site}", fault) for place, fault in enumerate(faults)]
        self._counts = counts
        self._rank_of = rank_of

    def add(self, fault: Fault) -> None:
        """One more fault, as if it stood last in the scenario's file."""
        self._faults.append((f"{len(self._faults)}:{fault.kind}:{fault.site}", fault))

    def take(
        self, site: str, report_id: str | None = None, control: str = "", detail: str = "",
        kinds: Sequence[str] = (), excluded: Sequence[str] = (),
    ) -> list[Fault]:
        """Count one call at `site` and return the faults that strike it, in file order.

        `kinds` limits the count to these kinds, `excluded` leaves kinds out: some faults of one site are
        asked for at another moment than the rest.
        """
        struck: list[Fault] = []
        for key, fault in self._faults:
            if fault.site != site or (kinds and fault.kind not in kinds) or fault.kind in excluded:
                continue
            if not self._matches(fault, report_id, control, detail):
                continue
            count = self._counts.get(key, 0) + 1
            last = fault.call + fault.times - 1
            if fault.times == 0 or count <= last:
                # A spent fault is no longer counted: the state file stays quiet.
                self._counts[key] = count if fault.times or count <= fault.call else fault.call
            if count >= fault.call and (fault.times == 0 or count <= last):
                struck.append(fault)
        return struck

    def _matches(self, fault: Fault, report_id: str | None, control: str, detail: str) -> bool:
        # What is deleted from the list is deleted at a moment; only elsewhere the report is a filter as well.
        filtered = fault.report and not (fault.kind == "feed_delete" and report_id is None)
        if filtered and self._rank_of(report_id) != fault.report:
            return False
        if fault.control and fault.control != control:
            return False
        return not fault.match or fault.match in detail
