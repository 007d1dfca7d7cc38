"""Recovery itself crashed at every operation, then run again: it has to end in the same bytes (design 4).

Temporary files and the side files of unfinished lines may differ: nothing reads them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.faults.checks import Facts, differences, look, recover_once
from tests.faults.disk import Image, Model, Operation, Recorder
from tests.faults.theatre import Theatre
from tests.faults.world import Phone


def read_only(image: Image) -> Image:
    """The image without what nobody reads."""
    files = tuple((n, d) for n, d in image.files if not n.endswith(".tmp") and ".unfinished-" not in n)
    return Image(image.folders, files)


def recorded_recovery(
    image: Image, room: Path, phone: Phone | None, theatre: Theatre
) -> tuple[Image, list[Operation]]:
    """Recover an image over a recorded disk: what it ends in, and everything that was done to the disk."""
    image.write_to(room)
    disk = Recorder(room)
    wrong: list[str] = []
    try:
        recover_once(room, phone, theatre.at, wrong, disk)
        return read_only(Image.of(room)), disk.log
    finally:
        shutil.rmtree(room, ignore_errors=True)


def crashed_images(image: Image, log: list[Operation], *, power: bool) -> Iterator[Image]:
    """What a crash in the middle of that recovery can leave, each once."""
    model, seen = Model(image), {image.digest}
    for operation in log:
        model.apply(operation)
        for found in model.images() if power else (model.whole(),):
            if found.digest not in seen:
                seen.add(found.digest)
                yield found


def crash_recovery(
    theatre: Theatre, image: Image, phone: Phone | None, facts: Facts, *, power: bool
) -> tuple[int, list[str]]:
    """Crash the recovery of `image` everywhere and recover again: (crashes, what went wrong)."""
    end, log = recorded_recovery(image, theatre.room(), phone, theatre)
    count, wrong = 0, []
    for crashed in crashed_images(image, log, power=power):
        count += 1
        room = theatre.room()
        crashed.write_to(room)
        try:
            found: list[str] = []
            actions = recover_once(room, phone, theatre.at, found)
            wrong += found
            if "repair" not in actions:  # a repair by a person is recorded, which is another history
                wrong += differences(end, read_only(Image.of(room)), "a crashed recovery")
            wrong += look(room, crashed, facts, phone is not None)[3]
        finally:
            shutil.rmtree(room, ignore_errors=True)
    return count, wrong
