"""adb server killed, link dropped, phone rebooted, phone replaced, in every state P00 to P05."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.phone_faults import FAULTS, STATES, Bench, open_bench, strike_at

DEEP = os.environ.get("HIBOR_DEEP") == "1"
TELLING = {
    "P00": ("link_dropped", "replaced"),
    "P01": ("server_killed", "rebooted"),
    "P02": ("link_dropped", "replaced"),
    "P03": ("server_killed", "rebooted", "replaced"),
    "P04": ("link_dropped", "rebooted", "replaced"),
    "P05": ("server_killed",),
}
"""What the default run plays; HIBOR_DEEP=1 plays every fault in every state."""
CASES = [(state, fault) for state in STATES for fault in FAULTS if DEEP or fault in TELLING[state]]


@pytest.fixture(scope="module")
def bench(fast_folder: Path) -> Iterator[Bench]:
    with open_bench(fast_folder / "bench") as bench:
        yield bench


@pytest.mark.parametrize(("state", "fault"), CASES, ids=lambda value: value)
def test_a_phone_that_goes_away_costs_nothing(bench: Bench, state: str, fault: str) -> None:
    ended, after, wrong = strike_at(bench, state, fault)
    assert wrong == [], (ended, after)
    if state in ("P03", "P04", "P05"):
        assert after == "SUCCESS C01", ended
