"""SIGKILL of a real process in the middle of a command or a whole run, at a named step.

The child is a fork, like those of `tests.faults.kills`. What it leaves, locks and notes and index with it, is
gone on with by the real next command: the same one for a scene, `recover` at the phone for a run.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import hibor.collect.recover_session
import hibor.recover
from generated.governance import COMMAND_EXITS
from hibor.collect.awake import KEY, NAMESPACE, OFF
from tests.faults.checks import Facts, half_written, look
from tests.faults.disk import Image
from tests.faults.kills import KillerDisk, in_child
from tests.faults.runs import Run, give_run, phone_of, reports_of
from tests.faults.scenes import Scene, commands_on, played, said, settle_room, station_at
from tests.faults.theatre import Theatre
from tests.faults.world import Phone, UnsyncedDisk

TAKEN_OVER = "taken over"
"""What is told of a library whose last run died."""


def kill_scene(theatre: Theatre, scene: Scene, step: str, moment: str) -> tuple[bool, list[str]]:
    """A command killed at a step, then given again: (whether it was killed, what is wrong afterwards)."""
    recording, room = played(theatre, scene), theatre.room()
    recording.start.write_to(room)

    def act() -> None:
        with commands_on(KillerDisk(step, moment), recording.at):
            code, told = scene.run(theatre, room)
        assert code == scene.ends[0], told

    killed = in_child(act)
    return killed, list(settle_room(theatre, recording, room).violations)


def kill_run(theatre: Theatre, run: Run, step: str, moment: str) -> tuple[bool, list[str]]:
    """A whole run killed at a step, then recovered at its phone: (whether it was killed, what is wrong)."""
    room, entries = theatre.room(), reports_of(theatre, run)
    with phone_of(theatre, run) as phone:
        before = phone.served

        def act() -> None:
            with commands_on(KillerDisk(step, moment), theatre.at):
                code, told = give_run(theatre, run, phone, room)
            assert code == run.code, told

        killed = in_child(act)
        charged = {
            entry.report_id: phone.served.get(entry.report_id, 0) - before.get(entry.report_id, 0)
            for entry in entries
        }
        theatre.spare[:] = [entry for entry in theatre.spare if not charged.get(entry.report_id)]
        paid = {report: count for report, count in charged.items() if count}
        facts = Facts(paid, frozenset(paid), {}, frozenset(theatre.known_files()))
        try:
            return killed, _recovered(theatre, room, phone, facts) if room.is_dir() else []
        finally:
            shutil.rmtree(room, ignore_errors=True)


def _recovered(theatre: Theatre, room: Path, phone: Phone, facts: Facts) -> list[str]:
    """What is wrong after `recover` at the phone."""
    start, taps = Image.of(room), phone.trigger_taps
    died_holding = any(room.rglob("library.lock.owner"))
    code, _out, errors = recover_at(theatre, room, phone)
    wrong = [] if code == COMMAND_EXITS["done"] else [f"recover ends with {code}: {errors.strip()[:300]}"]
    if phone.trigger_taps != taps:
        wrong.append("recovery tapped a control that leads to a download")
    if died_holding and TAKEN_OVER not in errors:
        wrong.append(f"nobody said that a dead run's library was taken over: {errors.strip()[:300]}")
    if phone.device.setting(NAMESPACE, KEY) not in (OFF, None):
        wrong.append("the phone did not get its setting back")
        phone.device.put_setting(NAMESPACE, KEY, OFF)
    wrong += [f"{path.name} is cut short" for path in room.glob("runs/*/run.json") if not _whole(path)]
    return wrong + half_written(Image.of(room)) + look(room, start, facts, True)[3]


def recover_at(theatre: Theatre, room: Path, phone: Phone) -> tuple[int, str, str]:
    """The real `recover` at a phone: exit code and both streams."""
    with commands_on(UnsyncedDisk(), theatre.at), pytest.MonkeyPatch.context() as patch:
        patch.setattr(hibor.collect.recover_session, "open_station", lambda *_given: station_at(phone))
        return said(
            hibor.recover.main, "--library", room, "--device", phone.process.serial, "--lang", "en"
        )


def _whole(path: Path) -> bool:
    try:
        return bool(json.loads(path.read_bytes())["run_id"])
    except ValueError:
        return False
