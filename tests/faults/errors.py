"""ENOSPC, EIO, EACCES, EROFS and ENOTSUP at every call of the seam (design 7).

Two drivers. A live item on a spare report meets them up to its trigger; everything after the trigger is met
by a
recovery that starts right behind TRIGGER_INTENT on the phone that was served, which does all later steps.
After the
fault a recovery without faults follows, and every invariant is looked at.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from hibor.durable import DurableError
from hibor.locks import LockTimeout, LockUnusable
from hibor.package.manifest import ManifestInvalid
from hibor.quota.errors import LedgerInvalid
from tests.faults.checks import Facts, look, phone_named, recover_once
from tests.faults.disk import Image, Recorder
from tests.faults.plays import ALWAYS
from tests.faults.sweep import facts_of, visits
from tests.faults.theatre import Theatre
from tests.faults.world import FIRST_RUN, open_world

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.ENOTSUP)
REFUSED = (DurableError, LedgerInvalid, LockTimeout, LockUnusable, ManifestInvalid, OSError)
"""How a preflight may refuse to begin; the run then stops before anything is opened."""


@attrs.frozen
class Fault:
    """One call that fails: its number, the error, and whether every later call of its kind fails too.

    With `step` the calls of that durable step are counted, which come in the same order in every run.
    """

    number: int
    error: int
    lasting: bool = False
    step: str = ""


@attrs.define
class Striker:
    """Counts the calls of a recorded disk and lets one of them fail."""

    fault: Fault | None
    calls: list[str] = attrs.field(factory=list)
    steps: list[str] = attrs.field(factory=list)
    struck: str | None = None
    _step: str = ""

    def __call__(self, call: str, path: str) -> None:
        if call.startswith("mark"):
            self._step = path if call == "mark begin" else ""
            return
        self.calls.append(call)
        self.steps.append(self._step)
        if self.fault is None:
            return
        later = self.fault.lasting and self.struck == call
        of_step = self.fault.step in ("", self._step)
        counted = self.steps.count(self.fault.step) if self.fault.step else len(self.calls)
        if (of_step and counted == self.fault.number) or later:
            self.struck = call
            raise OSError(self.fault.error, os.strerror(self.fault.error))


def recovery_start(theatre: Theatre, name: str, step: str, phone: str = ALWAYS) -> tuple[Image, Facts]:
    """The image right after a step of a play, with a phone that fits it."""
    recording = theatre.recording(name) if phone != ALWAYS else theatre.fresh_recording(name)
    for point, found, image in visits(recording):
        if (point.step, point.moment, found) == (step, "after", phone):
            return image, facts_of(recording, point, found, image)
    raise LookupError(f"{name} has no {step}")


def strike_recovery(
    theatre: Theatre, image: Image, facts: Facts, phone: str, fault: Fault | None
) -> tuple[Striker, list[str]]:
    """A recovery that meets `fault`, then one that meets none."""
    room, striker, device = theatre.room(), Striker(fault), phone_named(theatre.phones, phone)
    image.write_to(room)
    try:
        wrong: list[str] = []
        refused(lambda: recover_once(room, device, theatre.at, [], Recorder(room, striker)))
        middle = Image.of(room)
        recover_once(room, device, theatre.at, wrong)
        wrong += look(room, middle, facts, device is not None)[3]
        return striker, wrong
    finally:
        shutil.rmtree(room, ignore_errors=True)


def refused(act: Callable[[], object]) -> None:
    """Do it; a refusal to begin is an answer, everything else a defect."""
    try:
        act()
    except REFUSED:
        return


def strike_live(theatre: Theatre, fault: Fault | None) -> tuple[Striker, list[str]]:
    """A live NEW item up to its trigger's outcome that meets `fault`, then a recovery that meets none."""
    phone, room, striker = theatre.phones[ALWAYS], theatre.room(), Striker(None)
    entry = theatre.spare[0]
    served_before = phone.served.get(entry.report_id, 0)
    room.mkdir()
    phone.app.open_app()
    world = open_world(room, phone, theatre.at, fs=Recorder(room, striker), run_id=FIRST_RUN)
    striker.fault, striker.calls, striker.steps = fault, [], []
    wrong: list[str] = []
    try:
        item = world.item(entry, "NEW_TRIGGER")
        while item.result is None and not item.machine.state.startswith("P03"):
            item.advance()
        if item.result is not None:
            item.settle()
            if item.result.contract_error:
                wrong.append(f"contract error: {item.result.detail}")
    finally:
        world.close()
    try:
        charged = phone.served.get(entry.report_id, 0) - served_before
        if charged:
            theatre.spare.pop(0)
        start = Image.of(room)
        recover_once(room, phone, theatre.at, wrong)
        known = frozenset(theatre.known_files())
        facts = Facts({entry.report_id: charged}, frozenset({entry.report_id} if charged else ()), {}, known)
        wrong += look(room, start, facts, True)[3]
        return striker, wrong
    finally:
        shutil.rmtree(room, ignore_errors=True)


def faults(count: int, every: int) -> Iterator[Fault]:
    """One fault for each call and error, once and lasting; with `every` > 1 a spread selection of them."""
    place = 0
    for number in range(1, count + 1):
        for error in ERRORS:
            for lasting in (False, True):
                place += 1
                if place % every == 0:
                    yield Fault(number, error, lasting)


def covering(striker: Striker, steps_only: bool = False) -> list[Fault]:
    """The fewest faults that, over a clean run's calls, meet every durable step and, unless `steps_only`,
    every kind of call with every error; lasting and passing faults take turns."""
    counts: Counter[str] = Counter()
    calls: list[tuple[str, str, int]] = []
    for call, step in zip(striker.calls, striker.steps, strict=True):
        counts[step] += 1
        if step:
            calls.append((call, step, counts[step]))
    kinds = () if steps_only else tuple(dict.fromkeys(striker.calls))
    wanted = [(kind, error) for kind in kinds for error in ERRORS]
    met: set[str] = set()
    chosen: list[Fault] = []
    for kind, error in wanted:
        of_kind = [(step, number) for call, step, number in calls if call == kind]
        turn = of_kind[len(chosen) % len(of_kind)]
        step, number = next((one for one in of_kind if one[0] not in met), turn)
        met.add(step)
        chosen.append(Fault(number, error, len(chosen) % 2 == 1, step))
    for _call, step, number in calls:
        if step not in met:
            met.add(step)
            chosen.append(Fault(number, ERRORS[len(chosen) % len(ERRORS)], len(chosen) % 2 == 1, step))
    return chosen


__all__ = ["Path", "covering", "faults", "recovery_start", "strike_live", "strike_recovery"]
