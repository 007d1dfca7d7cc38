"""Every crash point of every play is settled by one recovery (design 4, 7; issue "Crash-safe").

The default run takes every step before and after, and a spread of the torn images; HIBOR_DEEP=1 takes all of
them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from generated.edges import EDGES
from generated.steps import STEPS
from hibor.device.errors import DeviceError
from hibor.device.protocol import RemoteFile
from hibor.items.phone_cache import PhoneCache
from hibor.package.layout import Library
from tests.faults.again import crash_recovery
from tests.faults.checks import look, phone_named, recover_once
from tests.faults.commands import SCENES
from tests.faults.cuts import cuts
from tests.faults.errors import Fault, covering, faults, recovery_start, strike_live, strike_recovery
from tests.faults.kills import MOMENTS, Stroke, kill_live, kill_play, kill_recovery, killable, strokes
from tests.faults.plays import ALWAYS, NO_PHONE, PLAYS, play_named
from tests.faults.runs import RUNS, recording_of
from tests.faults.scenes import played
from tests.faults.sweep import facts_of, sweep, visits
from tests.faults.theatre import Theatre, open_theatre
from tests.faults.world import ACCOUNT, PROFILE, StillClock

DEEP = os.environ.get("HIBOR_DEEP") == "1"
PATIENT = {
    "new_released",
    "new_uncertain_lost",
    "new_uncertain_found",
    "new_no_file",
    "new_encrypted",
    "two_stages",
}
"""Plays whose recovery waits for the phone; the default run takes fewer of their images."""
HOST_STEPS = (
    "recovered.journal",
    "publish.journal",
    "publish.folder",
    "publish.link",
    "artifact.append",
    "staging.remove",
    "manifest.append",
    "delivery.write",
    "timing.write",
    "terminal.write",
)
PHONE_STEPS = (
    "confirm.append",
    "seek.journal",
    "candidate.fill",
    "candidate.remove",
    "identity.journal",
    "staging.create",
    "staging.fill",
)
SEAM = frozenset(
    {"open", "write", "read", "fsync", "truncate", "lstat", "link", "rename", "unlink", "mkdir", "fsync_dir"}
)
"""Every call of the file-system seam that can fail."""
LIVE_STEPS = (
    "open.folder",
    "open.journal",
    "reserve.append",
    "intent.journal",
    "confirm.append",
    "staging.fill",
)


@pytest.mark.parametrize("name", [play.name for play in PLAYS])
def test_every_crash_point_is_settled_by_one_recovery(theatre: Theatre, name: str) -> None:
    assert theatre.recording(name).codes == play_named(name).ends
    every = 1 if DEEP else 40 if name in PATIENT else 20
    swept = sweep(theatre, name, every=every, whole_every=1 if DEEP else 8 if name in PATIENT else 3)
    assert swept.recoveries >= 2
    assert swept.violations == []


@pytest.mark.parametrize(
    "name", ["new_success", "new_wrong_page", "cache_reuse", "new_identical", "new_encrypted"]
)
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_a_recovery_that_crashes_is_recovered_to_the_same_bytes(
    theatre: Theatre, name: str, power: bool
) -> None:
    recording = theatre.recording(name)
    seen: set[str] = set()
    crashes = 0
    for point, phone, image in visits(recording):
        if point.moment != "after" or phone != NO_PHONE or image.digest in seen:
            continue
        seen.add(image.digest)
        if not DEEP and len(seen) % (12 if power else 6):
            continue
        facts = facts_of(recording, point, phone, image)
        count, wrong = crash_recovery(theatre, image, None, facts, power=power)
        crashes += count
        assert wrong == [], f"{name} after {point.step}"
    assert crashes > 3


def test_a_recovery_at_the_phone_that_crashes_is_recovered_to_the_same_bytes(theatre: Theatre) -> None:
    image, facts = recovery_start(theatre, "new_success", "intent.journal")
    count, wrong = crash_recovery(theatre, image, theatre.phones[ALWAYS], facts, power=DEEP)
    assert wrong == []
    assert count > 30


def test_a_slow_phone_is_looked_at_long_enough(theatre: Theatre, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each look takes longer than the search, the file that is there still gets its time to stand
    still; without that a paid report was settled as uncertain, or kept, on a busy machine."""
    image, facts = recovery_start(theatre, "new_success", "intent.journal")
    phone, room, listing = theatre.phones[ALWAYS], theatre.room(), PhoneCache.listing

    def slowly(cache: PhoneCache) -> tuple[RemoteFile, ...]:
        StillClock(theatre.at).sleep(PROFILE.cache.settle_s * 4)
        return listing(cache)

    def unreadable() -> None:
        raise DeviceError("dump_unreadable", "the history cannot be read")

    monkeypatch.setattr(PhoneCache, "listing", slowly)
    monkeypatch.setattr(phone.app, "open_history", unreadable)
    image.write_to(room)
    wrong: list[str] = []
    recover_once(room, phone, theatre.at, wrong)
    states, _quota, _files, found = look(room, image, facts, True)
    assert (states, wrong + found) == (("SUCCESS C01",), [])
    assert b'"CONFIRMED"' in Library(room).ledger(ACCOUNT).read_bytes()


def test_a_file_that_takes_long_to_pull_is_told_by_its_name_all_the_same(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pulling an encrypted file takes longer than the search, nobody looked again whether it had stood
    still for long enough to be the app's answer, and it was kept as if it had never come."""
    image, facts = recovery_start(theatre, "new_encrypted", "confirm.append", NO_PHONE)
    phone, room = theatre.phones[ALWAYS], theatre.room()
    pull = phone.device.pull

    def slowly(*args: Any, **more: Any) -> int:
        StillClock(theatre.at).sleep(PROFILE.cache.timeout_s * 1.2)
        return pull(*args, **more)

    monkeypatch.setattr(phone.device, "pull", slowly)
    image.write_to(room)
    wrong: list[str] = []
    recover_once(room, phone, theatre.at, wrong)
    assert (look(room, image, facts, True)[0], wrong) == (("FAILED C08",), [])


def states_of(steps: Iterable[str]) -> set[str]:
    """The states a NEW item leaves and enters by these steps."""
    found, steps = set[str](), frozenset(steps)
    for lane, source, _event, target, _guard, names in EDGES:
        if lane == "NEW_TRIGGER" and steps.intersection(names):
            found |= {source[:3], target[:3]}
    return found


@pytest.mark.parametrize("start", ["staging.fill", "intent.journal"])
def test_every_call_of_a_recovery_may_fail(theatre: Theatre, start: str) -> None:
    """Every kind of call with every error where no phone is needed, every step where one is.

    Not met here are the rename of file systems without links and the cutting back of a failed append, which
    the tests of `hibor.durable` fail.
    """
    phone = NO_PHONE if start == "staging.fill" else ALWAYS
    image, facts = recovery_start(theatre, "new_success", start, phone)
    striker, wrong = strike_recovery(theatre, image, facts, phone, None)
    assert wrong == []
    assert {*striker.calls} == SEAM - {"truncate", "rename"}
    assert states_of(striker.steps) >= {f"P{n:02}" for n in range(5 if phone == NO_PHONE else 2, 11)}
    for fault in faults(len(striker.calls), 1) if DEEP else covering(striker, phone == ALWAYS):
        struck, wrong = strike_recovery(theatre, image, facts, phone, fault)
        assert DEEP or struck.struck is not None
        assert wrong == [], (fault, struck.struck)


def test_every_call_of_a_new_item_may_fail(theatre: Theatre) -> None:
    striker, wrong = strike_live(theatre, None)
    assert wrong == []
    assert states_of(striker.steps) >= {"P00", "P01", "P02", "P03"}
    reserved = len(striker.steps) - striker.steps[::-1].index("reserve.append")
    looks = [Fault(number, errno.EIO, lasting) for number in (1, reserved + 1) for lasting in (False, True)]
    for fault in faults(len(striker.calls), 9) if DEEP else (*looks, *covering(striker, True)):
        struck, wrong = strike_live(theatre, fault)
        assert wrong == [], (fault, struck.struck)
    once, _wrong = strike_live(theatre, Fault(reserved + 1, errno.EIO))
    assert "intent.journal" in once.steps, "a disk that did not answer once ended the item"


@pytest.mark.parametrize("name", [play.name for play in PLAYS] if DEEP else ["new_success", "cache_reuse"])
def test_a_kill_and_then_a_power_cut_lose_nothing(theatre: Theatre, name: str) -> None:
    """What a recovery read from a dead process's page cache is durable before anything is done with it."""
    every, images = (3, 12) if DEEP else (1_000, 2)
    phones = (NO_PHONE, ALWAYS) if DEEP else (NO_PHONE,)
    swept = cuts(theatre, name, every=every, images=images, phones=phones)
    assert swept.violations == []
    assert len({visit.point.step for visit in swept.visits}) > 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL and fork are POSIX")
@pytest.mark.parametrize("step", LIVE_STEPS)
def test_a_killed_new_item_is_settled(theatre: Theatre, step: str) -> None:
    moments = MOMENTS if DEEP else (MOMENTS[LIVE_STEPS.index(step) % 3],)
    for moment in moments:
        killed, wrong = kill_live(theatre, step, moment)
        assert killed or moment == "torn"
        assert wrong == [], moment


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL and fork are POSIX")
@pytest.mark.parametrize("step", [*HOST_STEPS, *PHONE_STEPS])
def test_a_killed_recovery_is_settled(theatre: Theatre, step: str) -> None:
    assert step in STEPS
    host = step in HOST_STEPS
    start, phone = ("staging.fill", NO_PHONE) if host else ("intent.journal", ALWAYS)
    image, facts = recovery_start(theatre, "new_success", start, phone)
    chosen = MOMENTS[HOST_STEPS.index(step) % 3] if host else MOMENTS[-1]
    for moment in MOMENTS if DEEP else (chosen,):
        killed, wrong = kill_recovery(theatre, image, facts, phone, step, moment)
        assert killed or moment == "torn"
        assert wrong == [], moment


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL and fork are POSIX")
def test_a_play_killed_with_two_items_in_different_stages_is_settled(theatre: Theatre) -> None:
    """The second item is at the phone while the first one is published."""
    killed, wrong = kill_play(theatre, "two_stages", Stroke("publish.link", 1, "torn"))
    assert killed
    assert wrong == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SIGKILL and fork are POSIX")
@pytest.mark.parametrize("name", killable() if DEEP else ["cache_conflict"])
def test_a_play_killed_at_any_step_is_settled(fast_folder: Path, name: str) -> None:
    left: list[Stroke] = []
    kills, folders = 0, 0
    while left or not folders:  # a play that pays uses up the reports of several theatres
        folders += 1
        with open_theatre(fast_folder / f"{name}-{folders}") as own:
            left = left or strokes(own.recording(name))[:: 1 if DEEP else 5]
            while left and len(own.spare) > play_named(name).reports:
                stroke = left.pop(0)
                killed, wrong = kill_play(own, name, stroke)
                kills += killed
                assert killed or stroke.moment == "torn"
                assert wrong == [], stroke
    assert kills > 4


def test_every_registered_step_is_crashed_somewhere(theatre: Theatre) -> None:
    """A step that is written tomorrow is crashed on the same day: by a play, a command or a run."""
    crashed = {op.step for play in PLAYS for op in theatre.recording(play.name).log}
    crashed |= {step for scene in SCENES for step in played(theatre, scene).steps}
    crashed |= {op.step for run in RUNS for op in recording_of(theatre, run).log}
    assert set(STEPS) - crashed == set()
    assert play_named("new_success").ends == ("NONE",)
    assert phone_named(theatre.phones, NO_PHONE) is None
