"""Every crash point of a play, recovered under every phone that fits it; equal cases are recovered once."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tests.faults.checks import Facts, Outcome, phone_named, recover_image
from tests.faults.disk import Image
from tests.faults.plays import ALWAYS, Point, Recording
from tests.faults.theatre import Theatre


@attrs.frozen
class Visit:
    """One crash point, one image, one phone, and what came of it."""

    point: Point
    phone: str
    image: str
    outcome: Outcome


@attrs.define
class Swept:
    """A play's crash points with their outcomes; `recoveries` were really done, the others were equal cases.
    """

    play: str
    visits: list[Visit] = attrs.field(factory=list)
    images: set[str] = attrs.field(factory=set)
    recoveries: int = 0

    @property
    def violations(self) -> list[str]:
        """All broken invariants, with where they broke."""
        return [
            f"{self.play} {visit.point.moment} {visit.point.step}, phone {visit.phone}: {text}"
            for visit in self.visits
            for text in visit.outcome.violations
        ]


def facts_of(recording: Recording, point: Point, phone: str, image: Image) -> Facts:
    """What is true outside the disk at a crash point."""
    served = recording.served_at(point.done, phone, image)
    foreign: dict[str, str] = {}
    for done, path, digest in recording.foreign:
        if point.done >= done:
            foreign[path] = digest
    obtainable = recording.obtainable if phone == ALWAYS else frozenset()
    available = frozenset(report for report in obtainable if served.get(report))
    return Facts(served, available, foreign, recording.known)


def visits(recording: Recording) -> Iterator[tuple[Point, str, Image]]:
    """Every crash point, each phone that fits, each image."""
    for point, image in recording.points():
        for phone in recording.phones_at(point.done):
            yield point, phone, image


def sweep(
    theatre: Theatre, name: str, *, every: int = 1, whole_every: int = 1, each_square: bool = False
) -> Swept:
    """Recover the crash points of a play: of the torn cases every `every`-th, of the others every
    `whole_every`-th.

    With `each_square` at least one case of every step, moment and phone.
    """
    recording = theatre.recording(name)
    done: dict[tuple[object, ...], Outcome] = {}
    swept = Swept(name)
    seen = {True: 0, False: 0}
    begun: set[tuple[str, str, str]] = set()
    skipped: set[tuple[object, ...]] = set()
    for point, phone, image in visits(recording):
        facts = facts_of(recording, point, phone, image)
        key = (image.digest, phone, tuple(sorted(facts.served.items())), tuple(sorted(facts.foreign.items())))
        swept.images.add(image.digest)
        square = (point.step, point.moment, phone)
        due = each_square and square not in begun
        begun.add(square)
        if key not in done:
            torn = point.moment == "torn"
            if key in skipped and not due:
                continue
            seen[torn] += 1
            spread = every if torn else whole_every
            if seen[torn] % spread != spread // 2 and not due:
                skipped.add(key)
                continue
            room = theatre.room()
            device = phone_named(theatre.phones, phone)
            done[key] = recover_image(image, room, device, recording.at, facts)
            swept.recoveries += 1
        swept.visits.append(Visit(point, phone, image.digest, done[key]))
    return swept
