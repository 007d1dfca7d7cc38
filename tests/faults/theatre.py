"""Two warm phones that show the same reports, the plays' reports on them, and every play recorded once."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from hibor.items.catalogue import CatalogueEntry
from hibor.sim.server import PrivateAdbServer
from tests.faults.plays import ALWAYS, NEVER, PLAYS, Recording, play_named, record
from tests.faults.world import QUICK, Phone, feed_of, moment, warm_phone

if TYPE_CHECKING:
    from tests.faults.scenes import Played

MEMORY, ROOM_BYTES = Path("/dev/shm"), 400_000_000
PLAYED_AGAIN = 4
"""How often a play may be played in all."""


def memory_folder() -> Path | None:
    """A folder in memory, where there is one with room for thousands of small libraries."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES else None


@attrs.define
class Theatre:
    """Phones by name, reports by play, recordings by play."""

    folder: Path
    server: PrivateAdbServer
    phones: dict[str, Phone]
    entries: dict[str, CatalogueEntry]
    spare: list[CatalogueEntry]
    at: datetime
    recordings: dict[str, Recording] = attrs.field(factory=dict)
    _fresh: dict[str, Recording] = attrs.field(factory=dict)
    runs: dict[str, Recording] = attrs.field(factory=dict)
    scenes: dict[str, Played] = attrs.field(factory=dict)
    _rooms: int = 0

    def room(self) -> Path:
        """A folder that does not exist yet."""
        self._rooms += 1
        return self.folder / f"room-{self._rooms}"

    def later(self, days: int) -> datetime:
        """The theatre's moment, some days later."""
        return self.at + timedelta(days=days)

    def known_files(self) -> set[str]:
        """sha256 of every whole report the served phone has made so far."""
        folder = self.phones[ALWAYS].process.state_dir / "pdf"
        return {hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}

    def recording(self, name: str) -> Recording:
        """The recording of a play, made on first use.

        The phone is sixty times as fast as a real one, and a busy machine is not: a play that ended otherwise
        because an answer came too late is played again, as long as its report was not downloaded.
        """
        phone, play = self.phones[ALWAYS], play_named(name)
        for _ in range(PLAYED_AGAIN if name not in self.recordings else 0):
            found = self.recordings[name] = record(play, self.room(), phone, self.entries, self.at)
            if found.codes == play.ends or any(entry.report_id in phone.served for entry in found.entries):
                break
        return self.recordings[name]

    def fresh_recording(self, name: str) -> Recording:
        """The play once more with a report nobody asked for yet.

        A recovery looks into every file that came after its own tap, and there are few of them now.
        """
        phone, play = self.phones[ALWAYS], play_named(name)
        for _ in range(PLAYED_AGAIN if name not in self._fresh else 0):
            entries = {**self.entries, name: self.spare.pop(0)}
            found = self._fresh[name] = record(play, self.room(), phone, entries, self.at)
            if found.codes == play.ends:
                break
        return self._fresh[name]


def _names() -> list[str]:
    names: list[str] = []
    for play in PLAYS:
        names += [play.name] if play.reports == 1 else [f"{play.name}-{n + 1}" for n in range(play.reports)]
    return names


@contextmanager
def open_theatre(folder: Path) -> Iterator[Theatre]:
    """Start both phones and read their list."""
    names = _names()
    with ExitStack() as stack:
        server = stack.enter_context(PrivateAdbServer())
        untouched = stack.enter_context(warm_phone(server, folder / NEVER, QUICK))
        feed = feed_of(untouched, 75)
        entries = dict(zip(names, feed, strict=False))
        scenario = _scenario(names, entries)
        served = stack.enter_context(warm_phone(server, folder / ALWAYS, scenario))
        feed_of(served, 1)
        yield Theatre(
            folder, server, {ALWAYS: served, NEVER: untouched}, entries, feed[len(names) :], moment()
        )


def _scenario(names: list[str], entries: dict[str, CatalogueEntry]) -> str:
    """QUICK with the faults of every play, each limited to its own report."""
    faults, cached = "", []
    for play in PLAYS:
        if play.faults == "{cached}":
            cached.append(names.index(play.name) + 1)
        elif play.faults:
            name = play.name
            faults += play.faults.format(rank=names.index(name) + 1, file=entries[name].title)
    return f"{QUICK}[cache]\nprefilled = {cached}\n{faults}"
