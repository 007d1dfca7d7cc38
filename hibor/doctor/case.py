"""One examination: what is known so far, and where its findings go.

Rules of this file: rows are only added; a picture that cannot be taken or written costs the examination
nothing; files are written through `hibor.durable` under names that say when.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Final

import attrs

from hibor.clock import Clock, SystemClock
from hibor.collect.preflight import library_disk
from hibor.collect.station import Station
from hibor.device.errors import DeviceError
from hibor.device.profile import Profile
from hibor.device.protocol import Device, PackageInfo
from hibor.device.uitree import UiTree
from hibor.doctor.person import Person
from hibor.doctor.rows import Row, Status, Stop
from hibor.durable import Durable, DurableError
from hibor.messages import failure_text, told
from hibor.package.layout import Library
from hibor.pdf.annotate import Mark, annotate_png
from hibor.people.commandline import Words

FOLDER_STEP: Final = "library.folder"
WRITE_STEP: Final = "doctor.write"
OWN_FIXES: Final = {
    "server_unreachable": "server_unreachable", "link_lost": "device_offline",
    "device_offline": "device_offline", "device_unauthorized": "device_unauthorized",
    "device_ambiguous": "device_ambiguous", "device_locked": "device_locked",
    "foreign_window": "foreign_window", "ui_slot_taken": "ui_slot_taken", "dump_unreadable": "dump",
    "access_control": "wall",
}  # fmt: skip
"""What a person does about a failure, whichever check met it."""
GONE: Final = frozenset({"server_unreachable", "link_lost", "device_offline", "device_unauthorized"})
NAMELESS_FOLDER: Final = "hibor-doctor"
"""Where pictures go when no library is named."""


@attrs.frozen
class Shot:
    """One screen as it was seen: dump, picture (None: not to be had) and the anchors found on it."""

    page: str
    tree: UiTree
    png: bytes | None
    marks: tuple[Mark, ...] = ()


@attrs.define
class Case:
    """What the examination has found out."""

    words: Words
    person: Person
    station: Station
    library: Library | None = None
    account: str = ""
    profile_named: str | None = None
    device: Device | None = None
    model: str = ""
    profile: Profile | None = None
    package: PackageInfo | None = None
    rows: list[Row] = attrs.field(factory=list)
    shots: list[Shot] = attrs.field(factory=list)
    dump_times_s: list[float] = attrs.field(factory=list)
    files: dict[str, str] = attrs.field(factory=dict)
    walled: bool = False
    looked: bool = False  # the app's own screen was read
    disk: Durable = attrs.field(factory=library_disk)

    @property
    def clock(self) -> Clock:
        """The time line of the station."""
        return self.station.clock

    def require_device(self) -> Device:
        """The phone; only asked for once it has been opened."""
        assert self.device is not None
        return self.device

    def require_profile(self) -> Profile:
        """The profile; only asked for once it has been chosen."""
        assert self.profile is not None
        return self.profile

    def add(
        self, check: str, status: Status, said: str, /, *, fix: str = "", about: str = "", **facts: object
    ) -> Row:
        """A row whose detail is the text `doctor.said.<said>`, and whose fix is `doctor.fixes.<fix>`."""
        advice = self.words(f"doctor.fixes.{fix}") if fix else ""
        row = Row(check, status, self.words(f"doctor.said.{said}", **facts), advice, about)
        self.rows.append(row)
        return row

    def failed(
        self,
        check: str,
        error: DeviceError,
        *,
        fix: str = "",
        about: str = "",
        status: Status = "fail",
        ends: bool = True,
    ) -> Row:
        """A row for what the phone or its link said; `fix` where the failure has none of its own.

        Raises `Stop` for a link that is gone, because every later check would only say the same (fault F01);
        with `ends` False the caller does that.
        """
        if error.failure == "access_control":
            self.walled = True
        gone = error.failure in GONE
        status = "fail" if gone else status
        fix = OWN_FIXES.get(error.failure, fix)
        advice = self.words(f"doctor.fixes.{fix}") if fix else ""
        row = Row(check, status, self.why(error), advice, about)
        self.rows.append(row)
        if gone and ends:
            raise Stop(row)
        return row

    def why(self, error: DeviceError) -> str:
        """The failure in the reader's language, with the redacted detail."""
        try:
            meaning = failure_text(self.words.lang, error.failure)
        except KeyError:
            return told(self.words.lang, error.detail, self.words("sentences.see_run"))
        detail = told(self.words.lang, error.detail, "")
        if not detail:
            return meaning
        return self.words("doctor.said.because", what=meaning.rstrip("。."), detail=detail)

    # -- files -----------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where pictures and drafts go."""
        return Path(NAMELESS_FOLDER).absolute() if self.library is None else self.library.root / "doctor"

    def write(self, name: str, data: bytes) -> Path | None:
        """A new file in `folder`; None, and a line for the person, when it cannot be written."""
        stamp = SystemClock().now().astimezone(UTC).strftime("%Y%m%dT%H%M%S%f")[:-3]
        return self.write_to(self.folder / f"{stamp}-{name}", data)

    def write_to(self, path: Path, data: bytes) -> Path | None:
        """A new file at `path`; None, and a line for the person, when it cannot be written."""
        try:
            if path.parent == self.folder:  # where a person wants a file no folder is made
                self.disk.make_folders(path.parent, step=FOLDER_STEP)
            self.disk.write_once(path, data, step=WRITE_STEP)
        except (DurableError, OSError) as error:
            self.person.say("doctor.not_written", path=path, reason=error)
            return None
        self.files[path.name.split("-", 1)[-1] if path.parent == self.folder else path.name] = str(path)
        return path

    def shoot(self, page: str, tree: UiTree, marks: Sequence[Mark] = ()) -> Shot:
        """Keep a screen, and write its annotated picture."""
        try:
            png: bytes | None = self.require_device().screenshot()
        except DeviceError as error:
            self.person.say("doctor.no_picture", reason=self.why(error))
            png = None
        shot = Shot(page, tree, png, tuple(marks))
        self.shots.append(shot)
        if png is not None:
            drawn = annotate_png(png, shot.marks) if shot.marks else None
            path = self.write(f"{page}.png", drawn or png)
            if path is not None:
                self.person.say("doctor.picture", page=page, path=path)
        return shot
