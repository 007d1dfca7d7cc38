"""The quota day and the clocks that decide it (design 4, faults F98).

Rules of this file:
- The day is the date in the account's zone, shifted by the profile's reset time. The host's zone and `TZ`
  never take part.
- Within 60 s of the boundary nobody knows which day the broker's server counts: `QuotaDateUncertain`.
- Host and phone more than 120 s apart, or the host more than 5 s behind the ledger's last event:
  `ClockInvalid`.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

import attrs

from hibor.quota.errors import ClockInvalid, QuotaDateUncertain

BOUNDARY_S = 60.0
"""Seconds on either side of the day's boundary in which nothing is reserved or triggered."""
PHONE_SKEW_S = 120.0
"""Largest tolerated difference between host and phone clock, in seconds."""
BACKWARD_S = 5.0
"""How far the host's clock may be behind the ledger's last event, in seconds."""
DEFAULT_ZONE = "Asia/Shanghai"


def stamp(moment: datetime, zone: tzinfo = UTC) -> str:
    """ISO 8601 with offset and milliseconds (design 9)."""
    return moment.astimezone(zone).isoformat(timespec="milliseconds")


@attrs.frozen
class QuotaCalendar:
    """An account's quota days: zone name and the local time at which a new day begins."""

    zone: str = DEFAULT_ZONE
    reset: time = time(0, 0)
    tzinfo: ZoneInfo = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "tzinfo", ZoneInfo(self.zone))

    def day(self, moment: datetime) -> str:
        """The quota day of an aware moment, `YYYY-MM-DD`."""
        if moment.tzinfo is None:
            raise ValueError("a moment without zone has no quota day")
        return self._shifted(moment).date().isoformat()

    def boundary_distance_s(self, moment: datetime) -> float:
        """Seconds to the nearer boundary of the quota day, before or behind."""
        shifted = self._shifted(moment)
        since = (shifted - shifted.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds()
        return min(since, 86400.0 - since)

    def check(self, moment: datetime, day: str) -> None:
        """Refuse a moment near the boundary or on another day than `day`. Raises `QuotaDateUncertain`."""
        found = self.day(moment)
        if found != day:
            raise QuotaDateUncertain(f"the quota day is {found} by now, it was {day} when this was decided")
        distance_s = self.boundary_distance_s(moment)
        if distance_s < BOUNDARY_S:
            raise QuotaDateUncertain(f"the quota day's boundary is only {distance_s:.0f} s away")

    def stamp(self, moment: datetime) -> str:
        """The moment as it is written into the ledger."""
        return stamp(moment, self.tzinfo)

    def _shifted(self, moment: datetime) -> datetime:
        local = moment.astimezone(self.tzinfo).replace(tzinfo=None)
        return local - timedelta(hours=self.reset.hour, minutes=self.reset.minute, seconds=self.reset.second)


def check_phone_clock(host: datetime, phone: datetime) -> None:
    """Refuse clocks more than 120 s apart. Raises `ClockInvalid`."""
    apart_s = abs((host - phone).total_seconds())
    if apart_s > PHONE_SKEW_S:
        raise ClockInvalid(f"host and phone clock are {apart_s:.0f} s apart")


def check_host_clock(host: datetime, last_event_at: str | None) -> None:
    """Refuse a host clock more than 5 s behind the ledger's last event. Raises `ClockInvalid`."""
    if last_event_at is None:
        return
    behind_s = (datetime.fromisoformat(last_event_at) - host).total_seconds()
    if behind_s > BACKWARD_S:
        raise ClockInvalid(
            f"this clock is {behind_s:.0f} s behind the last ledger event ({last_event_at}); "
            "set the clock, or record why it is right: `python -m hibor.ledger accept-clock --reason TEXT`"
        )
