"""A kill, then a power cut: a process dies, the next one goes on with what the kernel still held, and then
the disk loses everything that was never synced.

Rules of this file:
- The second process sees all the first one wrote, synced or not; a disk image after the cut holds what either
  of them had synced, and any part of the rest. A recovery that acts on what it read without making it durable
  first is found out here and nowhere else.
- Kill points are those where something was still to be lost; the others are power cuts of a sound disk, which
  `again` makes.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Collection, Iterator

import attrs

from tests.faults.checks import Facts, phone_named, recover_image, recover_once
from tests.faults.disk import SOMEBODY_ELSE, Image, Model, Operation, Recorder
from tests.faults.plays import NO_PHONE, Point, Recording
from tests.faults.sweep import Swept, Visit, facts_of
from tests.faults.theatre import Theatre

CUT = "killed, then cut"
"""The moment of these visits."""
_TOLD_BY = (("terminal.write", "terminal.json"), ("delivery.write", "delivery.md"), ("publish.link", ".pdf"))


def kill_points(recording: Recording) -> Iterator[tuple[Point, Model]]:
    """Every place to kill the process at where something was not synced yet, with the disk as it is then."""
    model, step = Model(Image((), ())), ""
    for done, operation in enumerate(recording.log):
        if operation.kind == "mark" and operation.path.startswith("begin "):
            step = operation.path.partition(" ")[2]
        model.apply(operation)
        if step and operation.step != SOMEBODY_ELSE and model.unsynced:
            yield Point(done + 1, step, CUT), copy.deepcopy(model)


@attrs.define
class Killed:
    """A kill, the recovery that followed, and what it did to the disk."""

    model: Model
    log: list[Operation]
    facts: Facts
    wrong: list[str]

    def images(self) -> Iterator[Image]:
        """What a cut at any moment of that recovery, or right after it, can leave: the latest cut first."""
        models = []
        model = copy.deepcopy(self.model)
        for operation in self.log:
            model.apply(operation)
            if operation.kind in ("write", "truncate", "link", "rename", "unlink", "create"):
                models.append(copy.deepcopy(model))
        seen: set[str] = set()
        for cut in (model, *reversed(models)):
            for image in cut.images():
                if image.digest not in seen:
                    seen.add(image.digest)
                    yield image


def kill_and_recover(
    theatre: Theatre, recording: Recording, point: Point, model: Model, phone: str
) -> Killed:
    """Recover what a process killed at `point` leaves, on a disk that knows what is not synced."""
    room = theatre.room()
    facts = facts_of(recording, point, phone, Image((), ()))  # killed before its tap, nothing was charged
    model.whole().write_to(room)
    disk = Recorder(room, model=copy.deepcopy(model))
    wrong: list[str] = []
    try:
        recover_once(room, phone_named(theatre.phones, phone), recording.at, wrong, disk)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return Killed(model, disk.log, facts, wrong)


def cuts(
    theatre: Theatre,
    name: str,
    *,
    every: int = 1,
    images: int = 1_000_000,
    phones: Collection[str] = (NO_PHONE,),
    steps: Collection[str] = (),
) -> Swept:
    """Kill at every `every`-th point that has something to lose, and at one of every step; recover; cut the
    power; recover again.

    Of the images a cut can leave, at most `images` for each kill, spread evenly. `steps` limits it to kills
    at these.
    """
    recording = theatre.recording(name)
    swept, begun = Swept(name), set[tuple[str, str]]()
    number = 0
    for point, model in kill_points(recording):
        for phone in phones:
            if phone not in recording.phones_at(point.done) or (steps and point.step not in steps):
                continue
            if phone != NO_PHONE and not _true_of(recording, point, model, phone):
                continue
            number += 1
            if (point.step, phone) in begun and number % every:
                continue
            begun.add((point.step, phone))
            _cut(theatre, recording, point, model, phone, images, swept)
    return swept


def _true_of(recording: Recording, point: Point, model: Model, phone: str) -> bool:
    """Whether the phone fits: it holds no file of an item that was killed with its intent written and its tap
    not made yet."""
    served = (recording.served_at(point.done, phone, image) for image in (model.whole(), Image((), ())))
    return len({tuple(sorted(counts.items())) for counts in served}) == 1


def _cut(
    theatre: Theatre, recording: Recording, point: Point, model: Model, phone: str, most: int, swept: Swept
) -> None:
    killed = kill_and_recover(theatre, recording, point, model, phone)
    found = list(killed.images())
    chosen = [found[0], *found[1 :: max(1, len(found) // most)]] if found else []
    for place, image in enumerate(chosen[:most]):
        swept.images.add(image.digest)
        swept.recoveries += 1
        device = phone_named(theatre.phones, phone)
        outcome = recover_image(image, theatre.room(), device, recording.at, killed.facts, again=False)
        wrong = (*outcome.violations, *(killed.wrong if place == 0 else ()))
        if place == 0:
            wrong += tuple(acknowledged(killed.log, image))
        swept.visits.append(Visit(point, phone, image.digest, attrs.evolve(outcome, violations=wrong)))


def acknowledged(log: list[Operation], image: Image) -> list[str]:
    """A file whose step has ended is in every image from then on."""
    names = [name for name, _data in image.files]
    ended = {op.path.partition(" ")[2] for op in log if op.kind == "mark" and op.path.startswith("end")}
    return [
        f"{step} had ended and {suffix} is lost"
        for step, suffix in _TOLD_BY
        if step in ended and not any(name.endswith(suffix) and "staging" not in name for name in names)
    ]
