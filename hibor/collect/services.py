"""What every effect may use: one run's clock, window, disk, ledger, manifest and phone, and nothing
global."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs

from fsm import Tables
from hibor.clock import Clock
from hibor.collect.deadline import Deadline
from hibor.device.navigate import App
from hibor.device.profile import Profile
from hibor.device.protocol import Device
from hibor.durable import Durable
from hibor.items.evidence import Evidence
from hibor.items.failures import EffectFailure
from hibor.items.files import FileReader
from hibor.items.phone_cache import PhoneCache
from hibor.messages import OTHER_PHONE
from hibor.package.layout import ItemFolder, Library
from hibor.package.manifest import Manifest
from hibor.quota.day import QuotaCalendar
from hibor.quota.events import EMPTY_HEAD, Head
from hibor.quota.ledger import Label, Ledger
from hibor.task import Task

Part = TypeVar("Part")


@attrs.define
class Pace:
    """Estimates a new item is admitted by, in seconds of the clock: what was asked for at first, then what
    nine of ten items of this run have taken (design 1, "6 + 4"; ruling R26)."""

    first_new_item_s: float = 20.0
    first_trigger_s: float = 12.0
    _new_items_s: list[float] = attrs.field(factory=list)
    _triggers_s: list[float] = attrs.field(factory=list)

    @property
    def new_item_s(self) -> float:
        """The whole phone part of a NEW item, from its reservation to the last byte."""
        return _ninth_tenth(self._new_items_s, self.first_new_item_s)

    @property
    def trigger_s(self) -> float:
        """From the look for the report's row to the outcome of the taps."""
        return _ninth_tenth(self._triggers_s, self.first_trigger_s)

    def note(self, new_item_s: float, trigger_s: float) -> None:
        """One NEW item's phone part has ended with its file."""
        self._new_items_s.append(new_item_s)
        self._triggers_s.append(trigger_s)


def _ninth_tenth(seen_s: Sequence[float], first_s: float) -> float:
    """The 90th percentile by rank, `first_s` before anything was seen."""
    return sorted(seen_s)[math.ceil(len(seen_s) * 0.9) - 1] if seen_s else first_s


class Pacer:
    """At least `spacing_s` between two triggers (design 1, guard rails); no jitter, no way around it.

    A trigger is the tap that pays. What leads up to that tap may begin earlier by `lead_s`, the shortest
    time it has taken in this run, because the tap itself waits for its turn once more.
    """

    MOST_LEAD_S = 2.0  # the last wait must not let the dump grow old that the tap rests on

    def __init__(self, clock: Clock, spacing_s: float) -> None:
        self._clock = clock
        self._spacing_s = spacing_s
        self._last_s: float | None = None
        self.waited_s = 0.0
        self.lead_s = 0.0

    @property
    def last_s(self) -> float | None:
        """When the last trigger was tapped, in the clock's monotonic time; None before the first."""
        return self._last_s

    def left_s(self, lead_s: float = 0.0) -> float:
        """Seconds until what leads up to the next trigger by `lead_s` may begin; 0 when it may now."""
        if self._last_s is None:
            return 0.0
        return max(0.0, self._last_s + self._spacing_s - lead_s - self._clock.monotonic_s())

    def wait_for_turn(self, lead_s: float = 0.0) -> None:
        """Wait until the next trigger, or what leads up to it by `lead_s`, is allowed."""
        wait_s = self.left_s(lead_s)
        if wait_s > 0:
            self.waited_s += wait_s
            self._clock.sleep(wait_s)

    def triggered(self, at_s: float, *, begun_s: float | None = None) -> None:
        """A trigger's last control was tapped at `at_s` of the clock's monotonic time; its taps began at
        `begun_s`."""
        self._last_s = at_s
        if begun_s is not None and at_s > begun_s:
            taken_s = min(at_s - begun_s, self.MOST_LEAD_S)
            self.lead_s = min(self.lead_s, taken_s) if self.lead_s else taken_s


@attrs.define(kw_only=True)
class Services:
    """One run's means. What a run without a phone or a ledger does not have is None and asked for by
    `require_*`."""

    run_id: str
    tables: Tables
    clock: Clock
    deadline: Deadline
    durable: Durable
    library: Library
    manifest: Manifest
    task: Task
    files: FileReader = attrs.field(factory=FileReader)
    log: logging.Logger = attrs.field(factory=lambda: logging.getLogger("hibor"))
    ledger: Ledger | None = None
    ledger_blocked: str | None = None
    calendar: QuotaCalendar = attrs.field(factory=QuotaCalendar)
    day: str = ""
    quota_limit: int = 0
    quota_limit_source: str = "task"
    quota_label: Label | None = None
    attempted_reports: frozenset[str] = frozenset()
    device: Device | None = None
    profile: Profile | None = None
    app: App | None = None
    cache: PhoneCache | None = None
    pacer: Pacer = attrs.field(default=attrs.Factory(lambda self: Pacer(self.clock, 8.0), takes_self=True))
    pace: Pace = attrs.field(factory=Pace)
    pages_are_exact: bool = False
    pull_limit_bytes: int = 512 * 1024 * 1024
    other_phone: bool = False
    started_at: str = ""
    on_stage: Callable[[Any], None] = lambda item: None  # an `ItemRun` begins a work, or has ended
    on_outcome: Callable[[str, str], None] = lambda reason, detail: None  # the sign an outcome rests on

    @property
    def lang(self) -> str:
        """Language of what people read: `zh` or `en`."""
        return self.task.lang

    def stamp(self) -> str:
        """Now, as files write it."""
        return self.calendar.stamp(self.clock.now())

    def require_ledger(self) -> Ledger:
        """The ledger. Raises the failure `ledger_invalid` while it is in doubt (ruling R28)."""
        if self.ledger is None or self.ledger_blocked is not None:
            raise EffectFailure("ledger_invalid", self.ledger_blocked or "this run has no ledger")
        return self.ledger

    def block_ledger(self, why: str) -> None:
        """The ledger is in doubt: nothing is appended any more in this run (ruling R28)."""
        self.ledger_blocked = self.ledger_blocked or why

    def follow_label(self, remaining: int | None) -> None:
        """The app's remaining quota as a page shows it: less than the books expect is believed at once
        (design 4)."""
        if remaining is None or self.ledger is None or self.ledger_blocked is not None:
            return
        seen = self.ledger.read_label(self.day, remaining)
        known = self.quota_label
        if known is None or seen.remaining < known.remaining - max(0, seen.spent - known.spent):
            self.quota_label = seen

    def ledger_head(self) -> Head:
        """The ledger's head as far as this run has read it."""
        return EMPTY_HEAD if self.ledger is None else self.ledger.head

    @contextmanager
    def working_for(self, mark: str | None) -> Iterator[None]:
        """Within, an item is gone on with whose tap was made on the phone that `mark` stands for (None: on
        none yet). Another phone that is connected now counts as none: what it holds says nothing of that tap.
        """
        here = None if self.device is None else self.device.identity.mark
        self.other_phone = None not in (mark, here) and mark != here
        try:
            yield
        finally:
            self.other_phone = False

    def require_device(self) -> Device:
        """The phone. Raises the failure `device_offline` in a run without one, `device_replaced` where the
        item at hand needs another one; so do the phone's other parts.
        """
        return self._of_phone(self.device)

    def require_profile(self) -> Profile:
        """The app profile."""
        return self._of_phone(self.profile)

    def require_app(self) -> App:
        """The app's driver."""
        return self._of_phone(self.app)

    def require_cache(self) -> PhoneCache:
        """The app's cache folders."""
        return self._of_phone(self.cache)

    def _of_phone(self, part: Part | None) -> Part:
        if self.other_phone:
            raise EffectFailure("device_replaced", f"{OTHER_PHONE}; connect that one")
        if part is None:
            raise EffectFailure("device_offline", "no phone is connected")
        return part

    def may_write(self, evidence: Evidence) -> bool:
        """False once something of the item is U: 26 and 27 write no successor (ruling R1)."""
        return not evidence.uncertain

    def item_folder(self, run_id: str, index: int, item_id: str) -> ItemFolder:
        """The folder of an item, in the run that opened it."""
        return self.library.run(run_id).item(index, item_id)
