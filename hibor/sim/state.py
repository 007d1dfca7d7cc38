"""The state folder of the simulated phone: everything that survives a kill.

Rules: `state.json` is replaced as a whole after every change (temporary file, then `os.replace`), so a
kill leaves the old or the new state; PDFs are made on demand into `pdf/` and may be deleted at any time.
`clock.json` holds the three values of the phone's time line, so that another process reads the same
clock; `heartbeat.json` holds a time the line has not passed yet. A time line never starts before the last
heartbeat: phone time never goes back. A power cut may lose the newest state: this is a simulated device,
not a ledger. A file that cannot be used, whatever lies in its place, is `PhoneDamaged`: never a wait, never
a guess.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import cattrs
import cattrs.errors

from hibor.clock import Clock, ScaledClock
from hibor.reading import read_kept
from hibor.sim.reports import Report, make_pdf

PHONE_ZONE = ZoneInfo("Asia/Shanghai")
EMBEDDED_START_HOUR = 9
HEARTBEAT_EVERY_S = 0.5
OUTLIVED = timedelta(minutes=15)
"""How far a phone's line goes on at most after a kill; longer than a run's window of ten minutes."""
PDF_FOLDER = "pdf"
"""Where in its state folder a phone keeps the PDFs it has made."""
SHARED_PDFS = "HIBOR_SIM_PDFS"
"""Names a folder in which phones share what they made; making a PDF is most of a phone's start."""


@attrs.define
class CachedFile:
    """One finished file in the app's cache. `made_of` and `variant` say which bytes it holds."""

    report_id: str
    path: str
    made_of: str
    variant: str
    size_bytes: int
    inode: int
    finished_s: float


@attrs.define
class Download:
    """One paid download in progress; times are phone seconds since the first start."""

    report_id: str
    accepted_s: float
    prepare_s: float
    path: str
    made_of: str
    variant: str = "good"
    stall_s: float = 0.0
    early_name: bool = False
    twin: bool = False
    never: bool = False
    storage_full: bool = False


@attrs.define
class Change:
    """One report that came into the feed after the first start."""

    number: int
    published: datetime


@attrs.define
class PhoneState:
    """All that is persistent of one phone."""

    first_start: datetime
    schema_version: int = 1
    feed_seed: int = 0
    feed_reports: int = 0
    feed_hostile: bool = False
    quota_day: str = ""
    quota_used: int = 0
    files: list[CachedFile] = attrs.Factory(list)
    downloads: list[Download] = attrs.Factory(list)
    history: list[tuple[str, float]] = attrs.Factory(list)
    inserted: list[Change] = attrs.Factory(list)
    deleted: list[str] = attrs.Factory(list)
    fault_counts: dict[str, int] = attrs.Factory(dict)
    settings: dict[str, str] = attrs.Factory(dict)
    replaced: bool = False
    next_inode: int = 200_001


class PhoneDamaged(Exception):
    """A file of the state folder cannot be used. `path` is the file, `why` one line in English."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path, self.why = path, why


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_unstructure_hook(datetime, lambda moment: moment.isoformat())
    converter.register_structure_hook(datetime, lambda text, _: _moment(text))
    return converter


def _moment(text: Any) -> datetime:
    """An aware time. Raises TypeError, ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset")
    return moment


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    """The block in which a file of the state folder is read; FileNotFoundError stays as it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise PhoneDamaged(path, error.strerror or type(error).__name__) from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise PhoneDamaged(path, "it does not hold what a phone wrote") from error
    except (cattrs.BaseValidationError, cattrs.errors.ForbiddenExtraKeysError) as error:
        raise PhoneDamaged(path, "it does not hold what a phone wrote") from error


class StateStore:
    """Loads and saves `state.json`, and makes PDFs in the `pdf` folder."""

    def __init__(self, folder: Path, now: datetime) -> None:
        """Open or create the folder; `now` (aware) becomes the first start of a new phone.

        Raises PhoneDamaged.
        """
        self.folder = folder
        self._pdf_folder = folder / PDF_FOLDER
        self._pdf_folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "state.json"
        self._converter = _converter()
        self._lock = threading.Lock()
        self._saved = b""
        self.is_new = not os.path.lexists(self._path)
        if self.is_new:
            self.state = PhoneState(first_start=now)
        else:
            with _usable(self._path):
                self._saved = read_kept(self._path)
                self.state = self._converter.structure(json.loads(self._saved), PhoneState)

    def save(self) -> None:
        """Write the state if it changed."""
        data = json.dumps(self._converter.unstructure(self.state), ensure_ascii=False).encode()
        with self._lock:
            if data != self._saved:
                replace_file(self._path, data)
                self._saved = data

    def pdf(self, report: Report, variant: str) -> bytes:
        """The bytes the app downloads, made once and kept."""
        path = self._pdf_folder / f"{report.report_id}-{variant}.pdf"
        try:
            return read_kept(path)
        except OSError:
            data = self._made_before(report, variant) or self._make(report, variant)
            replace_file(path, data)
            return data

    @staticmethod
    def _made_before(report: Report, variant: str) -> bytes | None:
        """What another phone left in the shared folder."""
        shared = _shared_path(report, variant)
        try:
            return None if shared is None else read_kept(shared)
        except OSError:
            return None

    @staticmethod
    def _make(report: Report, variant: str) -> bytes:
        data, shared = make_pdf(report, variant), _shared_path(report, variant)
        if shared is not None:
            shared.parent.mkdir(parents=True, exist_ok=True)
            replace_file(shared, data)
        return data


def _shared_path(report: Report, variant: str) -> Path | None:
    """Where many phones share this PDF: a report says all of what its PDF holds, so the same one is the same
    file.
    """
    folder = os.environ.get(SHARED_PDFS)
    if not folder:
        return None
    name = hashlib.sha256(f"{variant} {report!r}".encode()).hexdigest()
    return Path(folder) / f"{name}.pdf"


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old or the new file, never half of one."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    temporary.write_bytes(data)
    for attempt in range(20):
        try:
            os.replace(temporary, path)
            return
        except PermissionError:
            # Windows refuses while somebody reads the old file; readers are quick.
            if attempt == 19:
                raise
            time.sleep(0.01)


def _heartbeat(folder: Path) -> datetime | None:
    """The time that the last life of this phone has not passed, None for a new phone.

    Of a phone that was killed: whoever was connected lived on along its line until the loss was noticed, so
    the line goes on too, for as long as that may have taken. Raises PhoneDamaged.
    """
    path = folder / "heartbeat.json"
    try:
        with _usable(path):
            beat = json.loads(read_kept(path))
            wall, killed = _moment(beat["wall"]), bool(beat.get("killed", False))
            latest = wall + OUTLIVED
    except FileNotFoundError:
        return None
    try:
        line = phone_clock(folder).now() if killed else wall
    except FileNotFoundError:
        line = wall
    return max(wall, min(line, latest))


def start_clock(
    folder: Path, scale: float, embedded: bool, not_before: datetime | None = None
) -> ScaledClock:
    """Begin the phone's time line and write `clock.json`.

    An embedded phone starts at 09:00 of today in its own zone, so that a run's outcome does not depend on the
    time of day; a stand-alone one at the real time; both not before the last heartbeat, nor before
    `not_before` (aware), the newest entry of the books that were kept by an earlier phone of this folder.
    Raises PhoneDamaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    real = datetime.now(UTC)
    begin = real
    if embedded:
        local = real.astimezone(PHONE_ZONE)
        begin = local.replace(hour=EMBEDDED_START_HOUR, minute=0, second=0, microsecond=0)
    last = _heartbeat(folder)
    begin = max(one for one in (begin, last, not_before) if one is not None)
    clock = ScaledClock(scale, begin, time.time())
    values = {
        "anchor_wall": begin.isoformat(), "anchor_real_s": clock.anchor_real_s, "scale": scale,
    }
    replace_file(folder / "clock.json", json.dumps(values).encode())
    return clock


def phone_clock(state_dir: Path) -> ScaledClock:
    """The time line of the phone that runs on `state_dir`, for another process.

    Raises FileNotFoundError when no phone was ever started there, PhoneDamaged.
    """
    path = state_dir / "clock.json"
    with _usable(path):
        values = json.loads(read_kept(path))
        anchor_wall, anchor_real_s = _moment(values["anchor_wall"]), float(values["anchor_real_s"])
        clock = ScaledClock(float(values["scale"]), anchor_wall, anchor_real_s)
        clock.now()
    return clock


class Heartbeat:
    """Keeps `heartbeat.json` ahead of the phone's time.

    While the phone lives the file promises a time a little in the future, so that even a kill between two
    beats cannot let the next life start in the past of this one. A clean stop writes the exact time.
    """

    def __init__(self, folder: Path, clock: Clock, scale: float, on_beat: Callable[[], None]) -> None:
        self._path = folder / "heartbeat.json"
        self._clock = clock
        self._ahead = timedelta(seconds=2 * HEARTBEAT_EVERY_S * scale)
        self._on_beat = on_beat
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._promised = datetime.min.replace(tzinfo=UTC)
        self._thread = threading.Thread(target=self._run, name="sim-heartbeat", daemon=True)

    def start(self) -> None:
        """Write the first beat and go on in the background."""
        self.beat()
        self._thread.start()

    def beat(self) -> None:
        """Renew the promise unless it still holds for half of its time."""
        with self._lock:
            now = self._clock.now()
            if self._promised - now < self._ahead / 2:
                self._write(now + self._ahead)

    def stop(self) -> None:
        """End the background beat and write the exact time."""
        self._end.set()
        self._thread.join(timeout=5)
        with self._lock:
            self._write(self._clock.now(), killed=False)

    def _write(self, wall: datetime, *, killed: bool = True) -> None:
        """`killed` says what it means to find this beat when the phone is started the next time."""
        replace_file(self._path, json.dumps({"wall": wall.isoformat(), "killed": killed}).encode())
        self._promised = wall

    def _run(self) -> None:
        while not self._end.wait(HEARTBEAT_EVERY_S / 2):
            self.beat()
            self._on_beat()
