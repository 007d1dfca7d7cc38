"""Whole runs as plays: the main job from its first durable call to its last, crashed everywhere.

Rules of this file:
- The run is the real command on a task file: consent, locks, ledger, phone, recovery, list, lanes, the run's
  own files. Its phone is the theatre's; one that shows a wall gets its own, because a wall stays.
- Without a phone the next command is the real `recover`, asked first with `--list`, which changes nothing.
  With one it is the recovery of `tests.faults.checks`.
- A file whose step had ended is in every image from then on: the note that gives the phone its setting back,
  the hold on the account, the consent, the documents.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

import hibor.collect.session
import hibor.ledger
import hibor.recover
from generated.governance import COMMAND_EXITS
from hibor.items.catalogue import CatalogueEntry
from hibor.people.commandline import Words
from hibor.run import build
from tests.faults.checks import (
    NAMED_PLAN,
    Facts,
    Outcome,
    differences,
    half_written,
    phone_named,
    recover_image,
)
from tests.faults.disk import Image, Operation, Recorder
from tests.faults.plays import ALWAYS, NO_PHONE, Play, Point, Recording
from tests.faults.scenes import INVALID, commands_on, crashed, said, station_at
from tests.faults.sweep import Swept, Visit, facts_of
from tests.faults.theatre import PLAYED_AGAIN, Theatre
from tests.faults.world import ACCOUNT, QUICK, Phone, UnsyncedDisk, warm_phone

TASK = """
library = "{library}"
account = "{account}"
count = {count}
deadline_s = 6000
lang = "en"
[select]
report_ids = {reports}
since_days = 60
[quota]
limit = {limit}
spacing_s = 8
[policy]
keep_awake = {awake}
"""
WALL = QUICK + '[[fault]]\nkind = "captcha_wall"\nsite = "swipe"\ntimes = 0\n'
_OWN = (
    "library.",
    "run.",
    "lock.",
    "ledger.folder",
    "awake.",
    "hold.",
    "plan.",
    "evidence.",
    "want.",
    "tail.",
    "recover.",
)


@attrs.frozen
class Run:
    """A whole run: the reports it asks for (a cached one, a new one), its options, how it ends.

    `walled` gives it a phone with a wall; `code` is its exit code.
    """

    name: str
    cached: bool = False
    new: bool = False
    more: tuple[str, ...] = ()
    code: int = 0
    walled: bool = False
    awake: bool = False
    limit: int = 500


RUNS: tuple[Run, ...] = (
    Run("run", cached=True, new=True, awake=True),
    Run("run --dry-run", cached=True, more=("--dry-run", "--plan", f"{{room}}/{NAMED_PLAN}")),
    Run("run at a wall", new=True, code=20, walled=True),
    Run("run without quota", new=True, code=11, limit=0),
)


def of_the_run(step: str) -> bool:
    """Whether a step is a run's and not its items'."""
    return step.startswith(_OWN)


def run_named(name: str) -> Run:
    """The run of a name."""
    return next(run for run in RUNS if run.name == name)


def reports_of(theatre: Theatre, run: Run) -> list[CatalogueEntry]:
    cached = [theatre.entries["cache_reuse"]] if run.cached else []
    return [*cached, *theatre.spare[:1]] if run.new else cached


@contextmanager
def phone_of(theatre: Theatre, run: Run) -> Iterator[Phone]:
    with ExitStack() as stack:
        yield stack.enter_context(
            warm_phone(theatre.server, theatre.room(), WALL)
        ) if run.walled else theatre.phones[ALWAYS]


def give_run(theatre: Theatre, run: Run, phone: Phone, room: Path) -> tuple[int, str]:
    """Give the command, its library in `room`, on the disk that is set: exit code and what it told."""
    reports = json.dumps([entry.report_id for entry in reports_of(theatre, run)])
    text = TASK.format(
        library=room.as_posix(), account=ACCOUNT, reports=reports, count=max(1, run.cached + run.new),
        awake=str(run.awake).lower(), limit=run.limit,
    )  # fmt: skip
    task = theatre.folder / "task.toml"
    task.write_text(text, encoding="utf-8")

    given = ["--task", str(task), "--yes", *(part.format(room=room) for part in run.more)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hibor.collect.session, "open_station", lambda *_given: station_at(phone))
        code, out, errors = said(_main, *given)
    return code, out + errors


def _main(given: Any) -> int:
    """The command without the handlers of its signals, which are the whole process's."""
    try:
        build(Words("en")).main(args=list(given), prog_name="hibor run", standalone_mode=False)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def recording_of(theatre: Theatre, run: Run) -> Recording:
    """The recording of a run, made on first use; played again where a busy machine made it end otherwise."""
    for _ in range(PLAYED_AGAIN if run.name not in theatre.runs else 0):
        theatre.runs[run.name], code, told = _record(theatre, run)
        if code == run.code:
            break
        del theatre.runs[run.name]
    assert run.name in theatre.runs, f"{run.name} ended with {code}: {told}"
    return theatre.runs[run.name]


def _record(theatre: Theatre, run: Run) -> tuple[Recording, int, str]:
    room, entries = theatre.room(), reports_of(theatre, run)
    disk = Recorder(room)
    try:
        with phone_of(theatre, run) as phone:
            before = phone.served
            with commands_on(disk, theatre.at):
                code, told = give_run(theatre, run, phone, room)
            at = phone.process.clock().now()
            served = {
                one.report_id: phone.served.get(one.report_id, 0) - before.get(one.report_id, 0)
                for one in entries
            }
        paid = {report: count for report, count in served.items() if count}
        theatre.spare[:] = [entry for entry in theatre.spare if entry.report_id not in paid]
        first, last = _places(disk.log, "end intent.journal"), _places(disk.log, "begin confirm.append")
        recording = Recording(
            Play(run.name, lambda stage, name: None, ()),
            at,
            disk.log,
            entries,
            dict.fromkeys(paid, first),
            dict.fromkeys(paid, last),
            paid,
            (),
            (),
            frozenset(theatre.known_files()),
        )
        return recording, code, told
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _places(log: list[Operation], mark: str) -> int:
    """How many operations were done when a step was marked, 0 where it never was."""
    return next((place + 1 for place, op in enumerate(log) if (op.kind, op.path) == ("mark", mark)), 0)


def recover_by_command(room: Path, phone: Phone | None, at: datetime, wrong: list[str]) -> list[str]:
    """What a person does next, without a phone: `recover --list`, then `recover`; its actions."""
    assert phone is None
    given = ("--library", room, "--json", "--lang", "en")
    with commands_on(UnsyncedDisk(), at):
        actions: list[str] = []
        before = Image.of(room)
        code, out, errors = said(hibor.recover.main, *given, "--list")
        if code == INVALID:
            said(hibor.ledger.main, "repair", "--library", room, "--yes", "--lang", "en")
            actions.append("repair")
            before = Image.of(room)
            code, out, errors = said(hibor.recover.main, *given, "--list")
        wrong += differences(before, Image.of(room), "recover --list")
        if code in (COMMAND_EXITS["done"], COMMAND_EXITS["found"]):
            actions += [one["action"] for one in json.loads(out)["leftovers"]]
        code, out, told = said(hibor.recover.main, *given)
        if code not in (COMMAND_EXITS["done"], COMMAND_EXITS["found"]):
            wrong.append(f"recover ends with {code}: {(errors + told).strip()[:300]}")
    return actions


def sweep_run(
    theatre: Theatre,
    name: str,
    *,
    every: int = 1,
    phones: tuple[str, ...] = (),
    only: Callable[[str], bool] = lambda step: True,
    again: bool = True,
) -> Swept:
    """Recover the crash points of a run: one at least of every step, moment and phone, and every `every`-th.

    `phones` limits it to these; `only` says which steps are looked at, `again` whether a second recovery has
    to change nothing.
    """
    run = run_named(name)
    recording = recording_of(theatre, run)
    swept, done, begun = Swept(name), dict[object, Outcome](), set[tuple[str, str, str]]()
    number = 0
    for point, image, lost in crashed(Image((), ()), recording.log):
        if not only(point.step):
            continue
        swept.images.add(image.digest)
        for phone in _phones_at(recording, run, point):
            if phones and phone not in phones:
                continue
            facts = facts_of(recording, point, phone, image)
            key = (image.digest, phone, tuple(sorted(facts.served.items())))
            square, number = (point.step, point.moment, phone), number + 1
            if key not in done:
                if square in begun and number % every:
                    continue
                done[key] = _recovered(theatre, recording, image, phone, facts, again)
                swept.recoveries += 1
            begun.add(square)
            outcome = attrs.evolve(done[key], violations=(*done[key].violations, *lost))
            swept.visits.append(Visit(point, phone, image.digest, outcome))
    return swept


def _phones_at(recording: Recording, run: Run, point: Point) -> tuple[str, ...]:
    """Phones that fit; where nothing is paid in the whole run, none is needed."""
    return recording.phones_at(point.done) if recording.tap_from and not run.walled else (NO_PHONE,)


def _recovered(
    theatre: Theatre, recording: Recording, image: Image, phone: str, facts: Facts, again: bool
) -> Outcome:
    device = phone_named(theatre.phones, phone)
    how = recover_by_command if device is None else None
    room = theatre.room()
    outcome = recover_image(image, room, device, recording.at, facts, again=again, how=how)
    return attrs.evolve(outcome, violations=(*outcome.violations, *half_written(outcome.image)))


__all__ = ["RUNS", "Run", "recording_of", "sweep_run"]
