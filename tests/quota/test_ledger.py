"""The ledger's decisions: quota arithmetic, replays, settling, clocks (design 4; rulings R19, R28)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hibor.durable import DurableError
from hibor.quota.errors import (
    AlreadyPaid,
    ClockInvalid,
    LedgerInvalid,
    QuotaDateUncertain,
    QuotaExhausted,
    ReplayConflict,
)
from hibor.quota.events import EMPTY_HEAD, Head, event_id, family_id
from hibor.quota.ledger import Label
from tests.durable_support import FaultyFileSystem, error, short
from tests.quota.support import ACCOUNT, DAY, Bench, reserve


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_ids_are_those_of_the_format(bench: Bench) -> None:
    ledger = bench.open()
    event = reserve(ledger, "HB1")
    assert event.family == family_id(ACCOUNT, DAY, "HB1", 1)
    assert event.event_id == event_id(family_id(ACCOUNT, DAY, "HB1", 1), "RESERVED")
    assert (event.seq, event.prev, event.ordinal) == (1, "0" * 64, 1)
    assert ledger.head == Head(1, event.hash)
    assert event.at == "2026-11-30T12:00:00.000+08:00"


def test_empty_ledger_writes_nothing(bench: Bench) -> None:
    with bench.open() as ledger:
        assert ledger.head == EMPTY_HEAD
        assert ledger.safe_available(DAY, 3) == 3
        assert ledger.verify() == EMPTY_HEAD
    assert not bench.path.exists()


def test_uncertain_counts_as_spent_and_released_does_not(bench: Bench) -> None:
    ledger = bench.open()
    first, second, third = (reserve(ledger, f"HB{n}", limit=3) for n in (1, 2, 3))
    assert ledger.safe_available(DAY, 3) == 0
    before = bench.path.read_bytes()
    with pytest.raises(QuotaExhausted) as raised:
        reserve(ledger, "HB4", limit=3)
    assert raised.value.safe_available == 0
    assert bench.path.read_bytes() == before, "a refusal leaves the ledger byte for byte as it was"
    ledger.append("UNCERTAIN", first, {})
    ledger.append("CONFIRMED", second, {})
    assert ledger.safe_available(DAY, 3) == 0
    ledger.append("RELEASED", third, {})
    assert ledger.safe_available(DAY, 3) == 1
    assert ledger.safe_available("2026-12-01", 3) == 3


def test_the_app_label_lowers_what_is_safe(bench: Bench) -> None:
    ledger = bench.open()
    assert ledger.safe_available(DAY, 20, 2) == 2
    with pytest.raises(QuotaExhausted):
        reserve(ledger, "HB1", limit=20, label=0)
    label = ledger.read_label(DAY, 2)
    arguments = (DAY, 20, "app", label, frozenset[str]())
    ledger.reserve("HB1", "i1", "r", *arguments)
    assert ledger.safe_available(DAY, 20, label) == 1, "later spending is taken off the reading"
    ledger.reserve("HB2", "i2", "r", *arguments)
    with pytest.raises(QuotaExhausted):
        ledger.reserve("HB3", "i3", "r", *arguments)
    assert ledger.safe_available(DAY, 20, Label(7, 5)) == 7


def test_reserving_again_returns_the_first_event(bench: Bench) -> None:
    """F89: the append is retried after an unknown outcome; it must not charge twice."""
    ledger = bench.open()
    first = reserve(ledger, "HB1", limit=1)
    assert reserve(ledger, "HB1", limit=1) == first
    assert bench.open().head.count == 1


def test_another_payload_under_the_same_id_is_a_conflict(bench: Bench) -> None:
    ledger = bench.open()
    first = reserve(ledger, "HB1", limit=5)
    with pytest.raises(ReplayConflict):
        reserve(ledger, "HB1", limit=6)
    with pytest.raises(ReplayConflict, match="another item"):
        ledger.reserve("HB1", "other-item", "run-2", DAY, 5, "task", None)
    confirmed = ledger.append("CONFIRMED", first, {"seen": "open"})
    assert ledger.append("CONFIRMED", first, {"seen": "open"}) == confirmed
    with pytest.raises(ReplayConflict):
        ledger.append("CONFIRMED", first, {"seen": "toast"})
    for wrong in ("UNCERTAIN", "RELEASED", "RESERVED", "NONSENSE"):
        with pytest.raises(ReplayConflict):
            ledger.append(wrong, first, {})
    ledger.append("ARTIFACT_SUCCESS", first, {})
    with pytest.raises(ReplayConflict):
        ledger.append("ARTIFACT_DUPLICATE_OR_FAILED", first, {})
    assert ledger.head.count == 3


def test_artifact_needs_a_paid_reservation(bench: Bench) -> None:
    ledger = bench.open()
    first = reserve(ledger, "HB1")
    with pytest.raises(ReplayConflict):
        ledger.append("ARTIFACT_SUCCESS", first, {})
    ledger.append("RELEASED", first, {})
    with pytest.raises(ReplayConflict):
        ledger.append("ARTIFACT_SUCCESS", first, {})


def test_after_released_the_next_ordinal_is_taken(bench: Bench) -> None:
    ledger = bench.open()
    first = reserve(ledger, "HB1")
    ledger.append("RELEASED", first, {})
    second = reserve(ledger, "HB1")
    assert (second.ordinal, second.family != first.family) == (2, True)


@pytest.mark.parametrize("kind", ["CONFIRMED", "UNCERTAIN"])
def test_a_paid_report_is_refused_on_every_day(bench: Bench, kind: str) -> None:
    ledger = bench.open()
    first = reserve(ledger, "HB1")
    ledger.append(kind, first, {})
    bench.clock.moment += timedelta(days=3)
    with pytest.raises(AlreadyPaid) as raised:
        reserve(ledger, "HB1", day="2026-12-03")
    assert raised.value.evidence == (first.event_id,)


def test_an_attempted_report_is_refused(bench: Bench) -> None:
    ledger = bench.open()
    with pytest.raises(AlreadyPaid):
        ledger.reserve("HB1", "i", "r", DAY, 5, "task", None, {"HB1"})
    ledger.reserve("HB2", "i", "r", DAY, 5, "task", None, {"HB1"})


def test_retrigger_only_after_fifteen_minutes(bench: Bench) -> None:
    ledger = bench.open()
    ledger.append("CONFIRMED", reserve(ledger, "HB1"), {})
    bench.clock.moment += timedelta(minutes=14, seconds=59)
    with pytest.raises(AlreadyPaid) as raised:
        ledger.reserve("HB1", "i2", "r2", DAY, 5, "task", None, retrigger=True)
    assert raised.value.retry_after_s == pytest.approx(1.0)
    bench.clock.moment += timedelta(seconds=1)
    again = ledger.reserve("HB1", "i2", "r2", DAY, 5, "task", None, retrigger=True)
    assert (again.ordinal, again.data["retrigger"]) == (2, True)
    assert ledger.safe_available(DAY, 5) == 3


@pytest.mark.parametrize(
    ("attempted", "kind"), [(False, "RELEASED"), (True, "UNCERTAIN"), (None, "UNCERTAIN")]
)
def test_settling_an_open_reservation(bench: Bench, attempted: bool | None, kind: str) -> None:
    """R19: never released once a tap may have happened, also when the item's folder is gone."""
    ledger = bench.open()
    first = reserve(ledger, "HB1")
    assert ledger.open_reservations() == (first,)
    settled = ledger.settle(first, attempted=attempted)
    assert settled.type == kind
    assert ledger.open_reservations() == ()
    assert ledger.settle(first, attempted=not attempted) == settled, "what is settled stays settled"
    assert ledger.head.count == 2


def test_a_family_as_of_an_earlier_head(bench: Bench) -> None:
    """R19: a closed item is rebuilt from the ledger up to the head stored in its terminal."""
    ledger = bench.open()
    first = reserve(ledger, "HB1")
    head = ledger.head
    ledger.settle(first, attempted=True)
    assert ledger.family_of(first).quota_state == "UNCERTAIN"
    assert ledger.family_of(first, head=head).quota_state == "RESERVED"
    with pytest.raises(LedgerInvalid):
        ledger.family_of(first, head=EMPTY_HEAD)


def test_host_clock_behind_the_last_event(bench: Bench) -> None:
    ledger = bench.open()
    first = reserve(ledger, "HB1")
    bench.clock.moment -= timedelta(seconds=6)
    with pytest.raises(ClockInvalid):
        reserve(ledger, "HB2")
    ledger.append("CONFIRMED", first, {})  # what was paid for is recorded whatever the clock says
    bench.clock.moment -= timedelta(seconds=6)
    with pytest.raises(ClockInvalid):
        reserve(ledger, "HB2")
    accepted = ledger.accept_clock("winter time was set by hand")
    assert accepted.data["reason"] == "winter time was set by hand"
    assert (accepted.family, accepted.report_id, accepted.ordinal) == (None, None, None)
    reserve(ledger, "HB2")
    assert bench.open_without_index().head == ledger.head


@pytest.mark.parametrize(
    ("moment", "day", "fine"),
    [
        (datetime(2026, 11, 30, 15, 58, 59, tzinfo=UTC), DAY, True),
        (datetime(2026, 11, 30, 15, 59, 1, tzinfo=UTC), DAY, False),
        (datetime(2026, 11, 30, 16, 0, 59, tzinfo=UTC), "2026-12-01", False),
        (datetime(2026, 11, 30, 16, 1, 0, tzinfo=UTC), "2026-12-01", True),
        (datetime(2026, 11, 30, 16, 1, 0, tzinfo=UTC), DAY, False),
    ],
)
def test_near_midnight_in_the_accounts_zone_nothing_is_reserved(
    bench: Bench, moment: datetime, day: str, fine: bool
) -> None:
    ledger = bench.open()
    bench.clock.moment = moment
    if fine:
        assert reserve(ledger, "HB1", day=day).day == day
    else:
        with pytest.raises(QuotaDateUncertain):
            reserve(ledger, "HB1", day=day)


def test_no_space_then_space(tmp_path: Path) -> None:
    """F87: ENOSPC inside an append leaves the old length, and the next append survives reopening."""
    fs = FaultyFileSystem()
    bench = Bench(tmp_path, fs)
    ledger = bench.open()
    reserve(ledger, "HB1")
    before = bench.path.read_bytes()
    for fault in (short(17), error(errno.ENOSPC)):
        fs.fail("write", fault)
        with pytest.raises(DurableError) as raised:
            reserve(ledger, "HB2")
        assert raised.value.known == "N"
        assert bench.path.read_bytes() == before
    second = reserve(ledger, "HB2")
    reopened = Bench(tmp_path).open_without_index()
    assert reopened.head == Head(2, second.hash)


@pytest.mark.parametrize(
    ("call", "faults"),
    [
        ("fsync", [error(errno.EIO)]),
        ("close", [error(errno.EIO)]),
        ("truncate", [error(errno.EIO)]),
    ],
)
def test_after_a_doubtful_append_nothing_is_appended(tmp_path: Path, call: str, faults: list[Any]) -> None:
    """R28: from then on no append at all, whatever is asked."""
    fs = FaultyFileSystem()
    ledger = Bench(tmp_path, fs).open()
    first = reserve(ledger, "HB1")
    if call == "truncate":
        fs.fail("write", short(5))
    fs.fail(call, *faults)
    with pytest.raises(LedgerInvalid):
        ledger.append("CONFIRMED", first, {})
    size = ledger.path.stat().st_size
    refused: list[Callable[[], object]] = [
        lambda: ledger.append("CONFIRMED", first, {}),
        lambda: reserve(ledger, "HB2"),
        lambda: ledger.accept_clock("x"),
    ]
    for again in refused:
        with pytest.raises(LedgerInvalid):
            again()
    assert ledger.path.stat().st_size == size


def test_two_objects_see_each_other(bench: Bench) -> None:
    one, two = bench.open(), bench.open()
    for number in range(6):
        reserve((one, two)[number % 2], f"HB{number}", limit=6)
    with pytest.raises(QuotaExhausted):
        reserve(one, "HB9", limit=6)
    assert one.safe_available(DAY, 6) == two.safe_available(DAY, 6) == 0
    one.close()
    two.append("CONFIRMED", two.history("HB0")[0].reservation, {})
    two.close()
    assert bench.open_without_index().verify().count == 7


def test_text_that_is_not_utf8_is_refused_before_the_file(bench: Bench) -> None:
    ledger = bench.open()
    first = reserve(ledger, "HB1")
    size = bench.path.stat().st_size
    with pytest.raises(ValueError, match="surrogates"):
        ledger.append("CONFIRMED", first, {"title": "\ud83d"})
    assert bench.path.stat().st_size == size
    ledger.append("CONFIRMED", first, {"title": '"},"hash":"x", "item_id":"y"\u2028\n'})
    assert bench.open_without_index().head == ledger.head


def test_an_attempt_that_the_ledger_does_not_know_is_not_retriggered(bench: Bench) -> None:
    """Nobody can say how long ago it was, so the fifteen minutes have not passed."""
    ledger = bench.open()
    with pytest.raises(AlreadyPaid):
        ledger.reserve("HB1", "i", "r", DAY, 5, "task", None, {"HB1"}, retrigger=True)
