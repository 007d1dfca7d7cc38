"""The spacing between triggers, and what a run learns of its own pace."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hibor.collect.services import Pace, Pacer


class HandClock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.at_s = 1000.0
        self.slept_s: list[float] = []

    def now(self) -> datetime:
        """Not asked for here."""
        return datetime.fromtimestamp(self.at_s, UTC)

    def monotonic_s(self) -> float:
        """Where it stands."""
        return self.at_s

    def sleep(self, wait_s: float) -> None:
        """Move on."""
        self.slept_s.append(wait_s)
        self.at_s += wait_s


def test_the_first_trigger_waits_for_nothing() -> None:
    clock = HandClock()
    pacer = Pacer(clock, 8.0)
    pacer.wait_for_turn()
    assert clock.slept_s == [] and pacer.left_s() == 0.0 and pacer.last_s is None


def test_what_leads_up_begins_earlier_and_the_paying_tap_still_waits_for_the_whole_spacing() -> None:
    clock = HandClock()
    pacer = Pacer(clock, 8.0)
    pacer.triggered(clock.at_s, begun_s=clock.at_s - 1.4)
    first_s = clock.at_s
    pacer.wait_for_turn(pacer.lead_s)
    assert clock.at_s == pytest.approx(first_s + 8.0 - 1.4)
    clock.at_s += 0.9  # this time the dialog came faster than ever before
    pacer.wait_for_turn()
    assert clock.at_s == pytest.approx(first_s + 8.0)
    assert pacer.waited_s == pytest.approx(6.6 + 0.5)


def test_the_lead_is_the_shortest_seen_and_never_lets_a_dump_grow_old() -> None:
    clock = HandClock()
    pacer = Pacer(clock, 8.0)
    pacer.triggered(100.0, begun_s=93.0)
    assert pacer.lead_s == Pacer.MOST_LEAD_S
    pacer.triggered(110.0, begun_s=108.7)
    pacer.triggered(120.0, begun_s=118.5)
    assert pacer.lead_s == pytest.approx(1.3)
    pacer.triggered(130.0)  # nothing was paid: it says nothing about the lead
    assert pacer.lead_s == pytest.approx(1.3) and pacer.last_s == 130.0


def test_the_pace_is_a_guess_until_something_was_seen_then_the_ninth_tenth() -> None:
    pace = Pace()
    assert (pace.new_item_s, pace.trigger_s) == (20.0, 12.0)
    pace.note(61.0, 7.0)
    assert (pace.new_item_s, pace.trigger_s) == (61.0, 7.0)
    for taken_s in range(1, 10):
        pace.note(float(taken_s), 1.0)
    assert (pace.new_item_s, pace.trigger_s) == (9.0, 1.0), "one slow item in ten is not what is planned for"
    pace.note(61.0, 7.0)
    assert pace.new_item_s == 61.0


def test_two_runs_do_not_share_what_they_learned() -> None:
    Pace().note(500.0, 500.0)
    assert Pace().new_item_s == 20.0
