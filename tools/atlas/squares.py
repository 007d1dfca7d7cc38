"""Squares of the atlas from the visits of the sweeps: one row a play and step, five columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

import attrs

from tests.faults.cuts import CUT
from tests.faults.plays import NEVER
from tests.faults.sweep import Swept, Visit

COLUMNS = ("before", "torn", "after", CUT, "unknown tap")
ZEROS = (
    ("second_taps", "recovery tapped"),
    ("lost_or_altered_finals", "lost or altered"),
    ("ledgers_that_do_not_verify", "ledger does not verify"),
    ("paid_reports_written_off", "written off"),
    ("not_idempotent", "a second recovery"),
    ("promises_broken", "was promised"),
    ("commands_that_end_otherwise", "the same command"),
)


@attrs.define
class Square:
    """What came of one step at one moment: every different outcome with how often, and the images behind it.
    """

    visits: int = 0
    images: set[str] = attrs.field(factory=set)
    outcomes: Counter[tuple[tuple[str, ...], ...]] = attrs.field(factory=Counter)

    def add(self, visit: Visit) -> None:
        """Take a visit."""
        self.visits += 1
        self.images.add(visit.image)
        self.outcomes[visit.outcome.told] += 1

    def told(self) -> str:
        """One line."""
        parts = []
        for (actions, states, quota, files), _count in self.outcomes.most_common():
            effect = "+".join(quota) or "no quota"
            parts.append(
                f"{'+'.join(actions) or 'nothing'} → {' | '.join(states) or 'no item'} [{effect}; "
                f"{'final' if files else 'no final'}]"
            )
        return "; ".join(dict.fromkeys(parts))


@attrs.define
class Row:
    """One step of one play."""

    play: str
    step: str
    squares: dict[str, Square] = attrs.field(factory=lambda: {column: Square() for column in COLUMNS})
    unknown_tap: bool = False


@attrs.define
class Atlas:
    """All rows, what was counted, and what is broken."""

    rows: list[Row]
    counts: dict[str, int]
    violations: list[str]
    nowhere: list[str] = attrs.field(factory=list)

    @property
    def empty(self) -> list[str]:
        """Squares nobody filled, and registered steps that are `nowhere`: there are none in a whole atlas.
        `unknown tap` is asked only where one can be, and a cut after a kill only where something is left to
        lose: `cuts` visits each such step.
        """
        return [f"{step} in no play" for step in self.nowhere] + [
            f"{row.play} {row.step} {column}"
            for row in self.rows
            for column, square in row.squares.items()
            if not square.visits and (row.unknown_tap if column == "unknown tap" else column != CUT)
        ]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "counts": self.counts,
            "empty": self.empty,
            "violations": self.violations,
            "rows": [
                {
                    "play": row.play,
                    "step": row.step,
                    "squares": {
                        column: {
                            "images": len(square.images),
                            "visits": square.visits,
                            "outcome": square.told(),
                        }
                        for column, square in row.squares.items()
                        if square.visits
                    },
                }
                for row in self.rows
            ],
        }


def atlas_of(swept: Iterable[Swept], steps: Collection[str] = ()) -> Atlas:
    """Sort the visits into squares. `steps` are those that have to be in it."""
    rows: dict[tuple[str, str], Row] = {}
    images: set[str] = set()
    violations: list[str] = []
    recoveries = points = after_cuts = 0
    for one in swept:
        images |= one.images
        recoveries += one.recoveries
        after_cuts += sum(visit.point.moment == CUT for visit in one.visits)
        violations += one.violations
        points += len({(visit.point.done, visit.point.moment) for visit in one.visits})
        unsure = _unknown_taps(one)
        for visit in one.visits:
            if not visit.point.step:
                continue
            row = rows.setdefault((one.play, visit.point.step), Row(one.play, visit.point.step))
            row.squares[visit.point.moment].add(visit)
            if visit.point.done in unsure:
                row.unknown_tap = True
                row.squares["unknown tap"].add(visit)
    found_steps = {step for _play, step in rows}
    counts = {
        "steps": len(found_steps),
        "plays": len({row.play for row in rows.values()}),
        "squares": sum(square.visits > 0 for row in rows.values() for square in row.squares.values()),
        "crash_points": points,
        "disk_images": len(images),
        "recoveries": recoveries,
        "of_them_after_a_kill_and_a_power_cut": after_cuts,
        **{name: sum(text in found for found in violations) for name, text in ZEROS},
        "violations": len(violations),
    }
    return Atlas(list(rows.values()), counts, violations, [step for step in steps if step not in found_steps])


def _unknown_taps(one: Swept) -> set[int]:
    """Points where the tap may or may not have happened: both phones fit them."""
    phones: dict[int, set[str]] = {}
    for visit in one.visits:
        phones.setdefault(visit.point.done, set()).add(visit.phone)
    return {done for done, found in phones.items() if NEVER in found and "served" in found}
