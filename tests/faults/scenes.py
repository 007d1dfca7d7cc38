"""Commands as plays: what `ledger repair`, `recover`, `want`, `package` and the others do to a disk, crashed
everywhere.

A scene begins with a library that is safe on the disk, does one command over a recorded disk, and is crashed
at every place like a play. What the next command makes of each image is looked at:
- the same command ends well, after `ledger repair` where a power cut tore the ledger's last line;
- it ends with what the uncrashed one promised, byte for byte;
- every file that was there before, and that the uncrashed one left alone, is there with its bytes;
- a file whose step had ended is in every image from then on;
- once more, where that is nothing new, it changes nothing.
"""

from __future__ import annotations

import io
import logging
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime
from pathlib import Path
from zipfile import BadZipFile

import attrs
import pytest

import hibor.collect.consent
import hibor.collect.preflight
import hibor.collect.recover_session
import hibor.doctor.command
import hibor.ledger
import hibor.package_zip
import hibor.recover
import hibor.report.__main__
import hibor.want
from generated.governance import COMMAND_EXITS, ERROR_EXITS
from hibor.collect.station import Station
from hibor.device.adb import AdbServer
from hibor.durable_fs import FileSystem, OsFileSystem
from tests.faults.checks import Outcome, differences
from tests.faults.disk import SOMEBODY_ELSE, Image, Model, Operation, Recorder, promised
from tests.faults.plays import NO_PHONE, Point
from tests.faults.sweep import Swept, Visit
from tests.faults.theatre import Theatre
from tests.faults.world import NEXT_RUN, SCALE, Phone, StillClock, UnsyncedDisk

DONE, INVALID = COMMAND_EXITS["done"], ERROR_EXITS["StateUncertain"]
_CLOCKED = (hibor.ledger, hibor.want, hibor.collect.recover_session, hibor.collect.consent)
"""Commands that read the machine's own clock."""
Main = Callable[[Sequence[str]], int]


@contextmanager
def commands_on(disk: FileSystem, at: datetime) -> Iterator[None]:
    """Every command of this process works on `disk`, and its clock stands still, as does its run id.

    The locks' self-test with a second process is left out: it writes nothing, and takes longer than the rest.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, module in tuple(sys.modules.items()):
            ours = name.startswith("hibor.") and name != "hibor.durable_fs"
            if ours and getattr(module, "OsFileSystem", None) is OsFileSystem:
                patch.setattr(module, "OsFileSystem", lambda: disk)
        for module in _CLOCKED:
            patch.setattr(module, "SystemClock", lambda: StillClock(at))
        patch.setattr(hibor.collect.recover_session, "new_run_id", lambda at: NEXT_RUN)
        patch.setattr(hibor.collect.preflight, "lock_self_test", lambda folder, durable: None)
        yield


def said(main: Main, *arguments: object) -> tuple[int, str, str]:
    """A command's exit code, and what it wrote on both streams."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with _own_log(), redirect_stdout(out), redirect_stderr(errors):
        code = main([str(one) for one in arguments])
    texts = [stream.buffer.getvalue().decode() for stream in (out, errors)]
    return code, texts[0], texts[1]


@contextmanager
def _own_log() -> Iterator[None]:
    """A command sets the log up for its process; afterwards it is as it was."""
    logs = (logging.getLogger(), logging.getLogger("hibor"))
    before = [(log, log.level, log.propagate, log.handlers[:]) for log in logs]
    try:
        yield
    finally:
        for log, level, propagate, handlers in before:
            log.setLevel(level)
            log.propagate, log.handlers[:] = propagate, handlers


@contextmanager
def station_at(phone: Phone) -> Iterator[Station]:
    """Where a real command finds this phone."""
    server = AdbServer("127.0.0.1", phone.server.port)
    yield Station(phone.process.clock(), server, phone.process.serial, simulated=False, time_scale=SCALE)


@attrs.frozen
class Scene:
    """One command. `start` makes the library before it; `main` and `given` are the command, its folder put
    in; `alone` stands for both where a phone is needed.

    `promise` is what has to come out whatever happens on the way; `ends` are exit codes that are a good end
    of the next try; `repeats` says that once more changes nothing.
    """

    name: str
    start: Callable[[Theatre, Path], None]
    main: Main
    given: tuple[str, ...]
    promise: Callable[[Image], object]
    ends: tuple[int, ...] = (DONE,)
    repeats: bool = True
    days_later: int = 0
    alone: Callable[[Theatre, Path], tuple[int, str]] | None = None

    def run(self, theatre: Theatre, room: Path) -> tuple[int, str]:
        """The command once, on the disk that is set: exit code and what it told people."""
        if self.alone is not None:
            return self.alone(theatre, room)
        code, _out, errors = said(self.main, *(part.format(room=room) for part in self.given))
        return code, errors


@attrs.define
class Played:
    """A scene as it was recorded."""

    scene: Scene
    at: datetime
    start: Image
    end: Image
    log: list[Operation]

    @property
    def steps(self) -> set[str]:
        """Every durable step of it."""
        return {op.path.partition(" ")[2] for op in self.log if op.kind == "mark"}


def played(theatre: Theatre, scene: Scene) -> Played:
    """The recording of a scene, made on first use."""
    if scene.name not in theatre.scenes:
        theatre.scenes[scene.name] = record_scene(theatre, scene)
    return theatre.scenes[scene.name]


def record_scene(theatre: Theatre, scene: Scene) -> Played:
    """Record a scene under the program as it is now."""
    room, at = theatre.room(), theatre.later(scene.days_later)
    room.mkdir(parents=True)
    try:
        scene.start(theatre, room)
        start = Image.of(room)
        disk = Recorder(room)
        with commands_on(disk, at):
            code, errors = scene.run(theatre, room)
        assert code == scene.ends[0], f"{scene.name} ended with {code}: {errors}"
        return Played(scene, at, start, Image.of(room), disk.log)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def crashed(start: Image, log: Sequence[Operation]) -> Iterator[tuple[Point, Image, tuple[str, ...]]]:
    """Every crash point with each image it can leave, and what the image lost that had been promised."""
    model, step, kept = Model(start), "", Promises()
    for done, operation in enumerate(log):
        model.apply(operation)
        kept.note(operation, model)
        if operation.step == SOMEBODY_ELSE or not (operation.step or operation.kind == "mark"):
            continue  # a lock file, made before the first step
        if operation.kind != "mark":
            step = operation.step or step
            for image in (model.whole(), *model.images()):
                yield Point(done + 1, step, "torn"), image, kept.lost(image)
            continue
        moment, _, step = operation.path.partition(" ")
        whole = model.whole()
        yield Point(done + 1, step, "before" if moment == "begin" else "after"), whole, kept.lost(whole)
        for image in model.images():
            yield Point(done + 1, step, "torn"), image, kept.lost(image)


class Promises:
    """What a step that has ended put on the disk: in every image from then on, until it is removed or cut."""

    def __init__(self) -> None:
        self._touched: dict[str, set[int]] = {}
        self._files: dict[str, bytes] = {}

    def note(self, operation: Operation, model: Model) -> None:
        """Take an operation that the model has taken."""
        kind, name = operation.kind, operation.path
        if kind in ("create", "write", "fsync"):
            self._touched.setdefault(operation.step, set()).add(operation.file)
        elif kind in ("link", "rename"):
            self._touched.setdefault(operation.step, set()).add(model.names[operation.other])
        if kind in ("unlink", "rename"):
            self._files.pop(name, None)
        elif kind == "truncate" and name in self._files:
            self._files[name] = self._files[name][: operation.size_bytes]
        elif kind == "mark" and name.startswith("end "):
            files = self._touched.pop(name.partition(" ")[2], set())
            named = [(one, file) for one, file in model.names.items() if file in files and promised(one)]
            self._files.update((one, model.files[file].now) for one, file in named)

    def lost(self, image: Image) -> tuple[str, ...]:
        """What is not there, or does not begin with what was there."""
        files = dict(image.files)
        return tuple(
            f"{name} was promised and is lost or altered"
            for name, data in self._files.items()
            if not (name in files and files[name].startswith(data))
        )


def settle(theatre: Theatre, recording: Played, image: Image) -> Outcome:
    """The next command over a crashed disk, and everything that is wrong afterwards."""
    room = theatre.room()
    image.write_to(room)
    return settle_room(theatre, recording, room)


def settle_room(theatre: Theatre, recording: Played, room: Path) -> Outcome:
    """The same over a folder as it is, which is removed afterwards."""
    scene, wrong = recording.scene, list[str]()
    try:
        with commands_on(UnsyncedDisk(), recording.at):
            actions = _again(theatre, scene, room, wrong)
            end = Image.of(room)
            wrong += _unlike(recording, end, repaired="ledger repair" in actions)
            if scene.repeats:
                _again(theatre, scene, room, wrong)
                wrong += differences(end, Image.of(room), "the same command once more")
        return Outcome(tuple(actions), (_told_end(scene, wrong),), (), _kinds(end), tuple(wrong), end)
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _again(theatre: Theatre, scene: Scene, room: Path, wrong: list[str]) -> list[str]:
    """The same command, as a person gives it: after `ledger repair` where the ledger says so."""
    actions: list[str] = []
    code, errors = scene.run(theatre, room)
    if code == INVALID:
        repaired, _out, errors = said(hibor.ledger.main, "repair", "--library", room, "--yes", "--lang", "en")
        actions.append("ledger repair")
        if repaired != DONE:
            wrong.append(f"the ledger cannot be repaired: {errors.strip()}")
        code, errors = scene.run(theatre, room)
    actions.append("the same command" if code == scene.ends[0] else f"the same command says {code}")
    if code not in scene.ends:
        wrong.append(f"the same command ends with {code}: {errors.strip()[:300]}")
    return actions


def _unlike(recording: Played, end: Image, *, repaired: bool) -> list[str]:
    """Where the end is not the uncrashed one's, and what of the start is lost."""
    scene, wrong = recording.scene, list[str]()
    try:
        if not repaired and scene.promise(end) != scene.promise(recording.end):
            wrong.append("what was promised came out differently")
    except (ValueError, KeyError, BadZipFile) as error:
        wrong.append(f"what was promised cannot be read: {error}")
    start, uncrashed, now = dict(recording.start.files), dict(recording.end.files), dict(end.files)
    for name, data in start.items():
        if uncrashed.get(name) == data and now.get(name) != data:
            wrong.append(f"{name} is lost or altered")
    return wrong


def _told_end(scene: Scene, wrong: Sequence[str]) -> str:
    return f"{scene.name} is not what it was to be" if wrong else "as if uncrashed"


def _kinds(image: Image) -> tuple[str, ...]:
    return tuple(sorted({Path(name).suffix for name, _data in image.files if name.startswith("reports/")}))


def sweep_scene(
    theatre: Theatre, scene: Scene, *, every: int = 1, whole_every: int = 1, each_square: bool = True
) -> Swept:
    """Settle the crash points of a scene, chosen as `tests.faults.sweep` chooses them."""
    chosen = {"every": every, "whole_every": whole_every}
    return sweep_recording(theatre, played(theatre, scene), **chosen, each_square=each_square)


def sweep_recording(
    theatre: Theatre, recording: Played, *, every: int = 1, whole_every: int = 1, each_square: bool = True
) -> Swept:
    """The same of a recording; equal images are settled once."""
    swept, done = Swept(recording.scene.name), dict[str, Outcome]()
    seen, begun = {True: 0, False: 0}, set[tuple[str, str]]()
    for point, image, lost in crashed(recording.start, recording.log):
        swept.images.add(image.digest)
        square, torn = (point.step, point.moment), point.moment == "torn"
        due = each_square and square not in begun
        begun.add(square)
        if image.digest not in done:
            seen[torn] += 1
            if not due and seen[torn] % (every if torn else whole_every):
                continue
            done[image.digest] = settle(theatre, recording, image)
            swept.recoveries += 1
        outcome = done[image.digest]
        found = attrs.evolve(outcome, violations=(*outcome.violations, *lost))
        swept.visits.append(Visit(point, NO_PHONE, image.digest, found))
    return swept


def files_of(image: Image, *named: str) -> dict[str, bytes]:
    """The files whose name ends so."""
    return {name: data for name, data in image.files if name.endswith(named)}


__all__ = ["Played", "Scene", "played", "record_scene", "settle", "settle_room", "sweep_scene"]
