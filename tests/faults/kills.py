"""SIGKILL of a real process at a named step: before it, in the middle of it, and after it.

The child is a fork of this process with the phones it is connected to. What it leaves is recovered here.
A play is killed as a whole, with all its items; one that pays takes a report nobody asked for yet, so the
plays whose phone fails in a way of its own cannot pay twice and are killed in their recovery.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs

from hibor.durable_fs import Moment, OsFileSystem
from tests.faults.checks import Facts, look, phone_named, recover_once
from tests.faults.disk import SOMEBODY_ELSE, Image, Recorder
from tests.faults.plays import ALWAYS, PLAYS, SOMEBODYS, Recording, Stage, play_named
from tests.faults.theatre import Theatre
from tests.faults.world import FIRST_RUN, open_world

MOMENTS = ("before", "torn", "after")
_FREE = (
    "new_released",
    "new_wrong_page",
    "cache_reuse",
    "cache_identical",
    "cache_conflict",
    "cache_late_p07",
)
"""Plays with faults of their own that pay nothing."""


class KillerDisk(OsFileSystem):
    """The real disk of a process that dies at a step."""

    def __init__(self, step: str, moment: str) -> None:
        self._step = step
        self._moment = moment
        self._inside = False

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def mark(self, step: str, moment: Moment) -> None:
        self._inside = step == self._step and moment == "begin"
        if step == self._step and (self._moment, moment) in (("before", "begin"), ("after", "end")):
            self._die()

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        if self._inside and self._moment == "torn":
            super().write(descriptor, bytes(data[: len(data) // 2]))
            self._die()
        return super().write(descriptor, data)

    def link(self, source: Path, target: Path) -> None:
        super().link(source, target)
        if self._inside and self._moment == "torn":
            self._die()

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        if self._inside and self._moment == "torn":
            self._die()

    def fsync(self, descriptor: int) -> None:
        if self._inside and self._moment == "torn":
            self._die()

    def fsync_dir(self, path: Path) -> None:
        if self._inside and self._moment == "torn":
            self._die()


def in_child(act: Callable[[], None]) -> bool:
    """Run `act` in a forked child; True when SIGKILL ended it, False when it came to its end."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    _pid, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    assert os.WEXITSTATUS(status) == 0, "the child failed before its step"
    return False


def kill_live(theatre: Theatre, step: str, moment: str) -> tuple[bool, list[str]]:
    """A live NEW item killed at a step; (whether it was killed, what recovery left wrong)."""
    phone, room, entry = theatre.phones[ALWAYS], theatre.room(), theatre.spare[0]
    before = phone.served.get(entry.report_id, 0)
    room.mkdir()
    phone.app.open_app()

    def act() -> None:
        world = open_world(room, phone, theatre.at, fs=KillerDisk(step, moment), run_id=FIRST_RUN)
        item = world.item(entry, "NEW_TRIGGER")
        while item.result is None:
            item.advance()
        item.settle()
        print("the child ended by itself:", item.ended.code, item.ended.detail, file=sys.stderr, flush=True)

    killed = in_child(act)
    charged = phone.served.get(entry.report_id, 0) - before
    if charged:
        theatre.spare.pop(0)
    assert charged <= 1
    facts = Facts(
        {entry.report_id: charged},
        frozenset({entry.report_id} if charged else ()),
        {},
        frozenset(theatre.known_files()),
    )
    return killed, _recovered(theatre, room, facts, ALWAYS)


def kill_recovery(
    theatre: Theatre, image: Image, facts: Facts, phone: str, step: str, moment: str
) -> tuple[bool, list[str]]:
    """A recovery of `image` killed at a step, then recovered again."""
    room, device = theatre.room(), phone_named(theatre.phones, phone)
    image.write_to(room)
    killed = in_child(lambda: _quietly(room, theatre, phone, KillerDisk(step, moment)))
    del device
    return killed, _recovered(theatre, room, facts, phone)


@attrs.frozen
class Stroke:
    """Where a play is killed: at the `turn`-th time a step comes, and the moment of it."""

    step: str
    turn: int
    moment: str


@attrs.define
class Killer:
    """Asked before each call of a recorded disk; ends its process at a stroke."""

    stroke: Stroke
    _turn: int = 0
    _calls: int = 0

    def __call__(self, call: str, path: str) -> None:
        mark, stroke = call.startswith("mark"), self.stroke
        if mark and path == stroke.step and call == "mark begin":
            self._turn, self._calls = self._turn + 1, 0
        if self._turn != stroke.turn:
            return
        self._calls += not mark
        at = {"before": call == "mark begin", "torn": self._calls == 2, "after": call == "mark end"}
        if at[stroke.moment] and (path == stroke.step or not mark):
            os.kill(os.getpid(), signal.SIGKILL)


def killable() -> list[str]:
    """The plays that may be played again: they pay nothing, or for any report."""
    return [play.name for play in PLAYS if not play.faults or play.name in _FREE]


def strokes(recording: Recording) -> list[Stroke]:
    """Every step of a play, each time it comes; a play that pays nothing at each moment, another at one."""
    found, turns = list[Stroke](), Counter[str]()
    for operation in recording.log:
        begun, _, step = operation.path.partition(" ")
        if operation.kind == "mark" and begun == "begin" and operation.step != SOMEBODY_ELSE:
            turns[step] += 1
            moments = MOMENTS if not recording.tap_from else (MOMENTS[len(found) % 3],)
            found += [Stroke(step, turns[step], moment) for moment in moments]
    return found


def kill_play(theatre: Theatre, name: str, stroke: Stroke) -> tuple[bool, list[str]]:
    """A play killed at a stroke, then recovered: (whether it was killed, what recovery left wrong)."""
    play, phone, room = play_named(name), theatre.phones[ALWAYS], theatre.room()
    names = [name] if play.reports == 1 else [f"{name}-{number + 1}" for number in range(play.reports)]
    spares = dict(zip(names, theatre.spare, strict=False)) if theatre.recording(name).tap_from else {}
    entries = {**theatre.entries, **(spares if name not in _FREE else {})}
    before = phone.served
    room.mkdir()
    phone.app.open_app()

    def act() -> None:
        disk = Recorder(room, Killer(stroke))
        world = open_world(room, phone, theatre.at, fs=disk, run_id=FIRST_RUN, limit=play.limit)
        play.act(Stage(world, phone, disk, entries), name)

    killed = in_child(act)
    charged = {entry.report_id: phone.served.get(entry.report_id, 0) for entry in entries.values()}
    charged = {report: count - before.get(report, 0) for report, count in charged.items()}
    theatre.spare[:] = [entry for entry in theatre.spare if not charged.get(entry.report_id)]
    theirs = [path for path in room.glob("reports/**/*.pdf") if path.read_bytes() == SOMEBODYS]
    foreign = {path.relative_to(room).as_posix(): hashlib.sha256(SOMEBODYS).hexdigest() for path in theirs}
    available = frozenset(report for report, count in charged.items() if count and not foreign)
    facts = Facts(charged, available, foreign, frozenset(theatre.known_files()))
    return killed, _recovered(theatre, room, facts, ALWAYS)


def _quietly(room: Path, theatre: Theatre, phone: str, disk: OsFileSystem) -> None:
    recover_once(room, phone_named(theatre.phones, phone), theatre.at, [], disk)


def _recovered(theatre: Theatre, room: Path, facts: Facts, phone: str) -> list[str]:
    device, wrong = phone_named(theatre.phones, phone), list[str]()
    try:
        taps = 0 if device is None else device.trigger_taps
        start = Image.of(room)
        recover_once(room, device, theatre.at, wrong)
        if device is not None and device.trigger_taps != taps:
            wrong.append("recovery tapped a control that leads to a download")
        return wrong + look(room, start, facts, device is not None)[3]
    finally:
        shutil.rmtree(room, ignore_errors=True)
