"""The quota day and the clocks (faults F98; design 4)."""

from __future__ import annotations

import os
import time as real_time
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta

import pytest

from hibor.quota.day import QuotaCalendar, check_host_clock, check_phone_clock, stamp
from hibor.quota.errors import ClockInvalid, QuotaDateUncertain


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Tokyo"])
def host_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    if hasattr(real_time, "tzset"):
        real_time.tzset()
    yield request.param
    monkeypatch.undo()
    if hasattr(real_time, "tzset"):
        real_time.tzset()


def test_the_hosts_zone_never_takes_part(host_zone: str) -> None:
    """F98: TZ=UTC on the host, the account's zone is +08, 07:47 local is already the next day."""
    assert os.environ["TZ"] == host_zone
    moment = datetime(2026, 11, 29, 23, 47, tzinfo=UTC)
    calendar = QuotaCalendar("Asia/Shanghai")
    assert calendar.day(moment) == "2026-11-30"
    assert QuotaCalendar("UTC").day(moment) == "2026-11-29"
    assert calendar.stamp(moment) == "2026-11-30T07:47:00.000+08:00"
    assert stamp(moment) == "2026-11-29T23:47:00.000+00:00"


def test_reset_time_shifts_the_day() -> None:
    calendar = QuotaCalendar("Asia/Shanghai", time(5, 0))
    five = datetime(2026, 11, 29, 21, 0, tzinfo=UTC)
    assert calendar.day(five) == "2026-11-30"
    assert calendar.day(five - timedelta(milliseconds=1)) == "2026-11-29"
    assert calendar.boundary_distance_s(five - timedelta(seconds=10)) == pytest.approx(10)


@pytest.mark.parametrize("offset_s", [-59.9, -1, 0, 1, 59.9])
def test_within_a_minute_of_the_boundary(offset_s: float) -> None:
    midnight = datetime(2026, 11, 30, 16, 0, tzinfo=UTC)
    moment = midnight + timedelta(seconds=offset_s)
    calendar = QuotaCalendar()
    with pytest.raises(QuotaDateUncertain):
        calendar.check(moment, calendar.day(moment))


@pytest.mark.parametrize("offset_s", [-60, 60, 3600])
def test_outside_the_minute(offset_s: float) -> None:
    moment = datetime(2026, 11, 30, 16, 0, tzinfo=UTC) + timedelta(seconds=offset_s)
    calendar = QuotaCalendar()
    calendar.check(moment, calendar.day(moment))


def test_the_day_changed_between_decision_and_trigger() -> None:
    with pytest.raises(QuotaDateUncertain, match="2026-12-01 by now"):
        QuotaCalendar().check(datetime(2026, 11, 30, 20, 0, tzinfo=UTC), "2026-11-30")


def test_a_moment_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="without zone"):
        QuotaCalendar().day(datetime(2026, 11, 30))


@pytest.mark.parametrize(
    ("apart_s", "fine"), [(0, True), (120, True), (-120, True), (121, False), (-121, False)]
)
def test_host_and_phone(apart_s: float, fine: bool) -> None:
    host = datetime(2026, 11, 30, tzinfo=UTC)
    phone = host + timedelta(seconds=apart_s)
    if fine:
        check_phone_clock(host, phone)
    else:
        with pytest.raises(ClockInvalid):
            check_phone_clock(host, phone)


@pytest.mark.parametrize(("behind_s", "fine"), [(-100, True), (5, True), (5.1, False)])
def test_host_behind_the_last_event(behind_s: float, fine: bool) -> None:
    host = datetime(2026, 11, 30, tzinfo=UTC)
    last = stamp(host + timedelta(seconds=behind_s))
    if fine:
        check_host_clock(host, last)
        check_host_clock(host, None)
    else:
        with pytest.raises(ClockInvalid, match="accept-clock"):
            check_host_clock(host, last)
