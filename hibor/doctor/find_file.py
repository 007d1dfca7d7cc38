"""`--find-file`: a person downloads one report by hand, the doctor says what appeared where (design 5).

Rules of this file: the doctor only looks; it lists the folders an app may use, again and again, until a new
file stands still; of a file only the first bytes are read. What it finds becomes the `[cache]` section of a
profile.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from hibor.device.errors import DeviceError
from hibor.device.profile_types import CacheSection, Step
from hibor.device.protocol import Device, RemoteFile
from hibor.doctor.case import Case
from hibor.doctor.profile_toml import section_toml
from hibor.messages.lines import Lines

STORAGE: Final = ("/sdcard", "/storage/emulated/0")
PATIENCE_S: Final = 600.0
"""How long a person may take, in seconds of the phone's clock."""
POLL_S: Final = 1.0
STILL_LOOKS: Final = 3
MOST_FOLDERS: Final = 200
DEEPEST: Final = 5
HEAD_BYTES: Final = 16
PULL_LIMIT_BYTES: Final = 1 << 30
_UNFINISHED: Final = re.compile(
    r"\.(?:temp|tmp|part|partial|download|downloading|crdownload)$", re.IGNORECASE
)


@attrs.frozen
class FoundFile:
    """The file that came: `folder` is relative to the shared storage; `unfinished` are the endings it had
    before."""

    folder: str
    name: str
    size_bytes: int
    head: bytes
    unfinished: tuple[str, ...] = ()

    @property
    def is_pdf(self) -> bool:
        """By its first bytes."""
        return self.head.startswith(b"%PDF-")


def places(package: str, label: str, known: Iterable[str] = ()) -> tuple[str, ...]:
    """Folders an app may put files into, relative to the shared storage; the profile's own first."""
    usual = (
        f"Android/data/{package}/files", f"Android/data/{package}/cache", f"Android/media/{package}",
        "Download", "Documents", package, label,
    )  # fmt: skip
    return tuple(dict.fromkeys(one for one in (*known, *usual) if one))


def listing(device: Device, folders: Iterable[str]) -> dict[str, RemoteFile]:
    """All files below the folders, by their path relative to the shared storage; what cannot be read is left
    out."""
    found: dict[str, RemoteFile] = {}
    todo = [(folder, 0) for folder in folders]
    seen: set[str] = set()
    while todo and len(seen) < MOST_FOLDERS:
        folder, depth = todo.pop(0)
        if folder in seen:
            continue
        seen.add(folder)
        for entry in _entries(device, folder):
            path = f"{folder}/{entry.name}"
            if entry.kind == "file":
                found[path] = entry
            elif entry.kind == "dir" and depth < DEEPEST:
                todo.append((path, depth + 1))
    return found


def _entries(device: Device, folder: str) -> tuple[RemoteFile, ...]:
    for root in STORAGE:
        try:
            return device.list(f"{root}/{folder}").entries
        except DeviceError as error:
            if error.failure not in ("remote_vanished", "cache_unreadable", "remote_refused"):
                raise
    return ()


class _Enough(Exception):
    """The first bytes are here."""


class _Head:
    """A sink that stops the transfer after the first bytes."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: memoryview, /) -> object:
        """Take what is missing. Raises `_Enough`."""
        self.data += bytes(data[: HEAD_BYTES - len(self.data)])
        if len(self.data) >= HEAD_BYTES:
            raise _Enough
        return None


def first_bytes(device: Device, path: str) -> bytes:
    """The first bytes of a file on the phone. Raises `DeviceError`."""
    head = _Head()
    with contextlib.suppress(_Enough):
        device.pull(path, head, limit_bytes=PULL_LIMIT_BYTES)
    return head.data


def watch(
    case: Case, folders: tuple[str, ...], meanwhile: Callable[[], None] | None = None
) -> FoundFile | None:
    """Wait for one new file that stands still; `meanwhile` is done between two looks. None when none came."""
    device, clock = case.require_device(), case.clock
    before = listing(device, folders)
    case.person.say("doctor.find.ready")
    end_s = clock.monotonic_s() + PATIENCE_S
    looks: dict[str, list[tuple[int, int]]] = {}
    endings: dict[str, set[str]] = {}
    while clock.monotonic_s() < end_s:
        if meanwhile is not None:
            meanwhile()
        for path, entry in listing(device, folders).items():
            old = before.get(path)
            state = (entry.size_bytes, entry.mtime_s)
            if old is not None and (old.size_bytes, old.mtime_s) == state:
                continue
            ending = _UNFINISHED.search(path)
            if path not in looks:
                case.person.say("doctor.find.seen", path=path, size=entry.size_bytes)
            looks.setdefault(path, []).append(state)
            if ending is not None:
                endings.setdefault(path[: ending.start()], set()).add(ending.group(0))
                continue
            last = looks[path][-STILL_LOOKS:]
            if len(last) == STILL_LOOKS and len(set(last)) == 1 and entry.size_bytes:
                folder, _, name = path.rpartition("/")
                head = first_bytes(device, entry.path)
                return FoundFile(folder, name, entry.size_bytes, head, tuple(sorted(endings.get(path, ()))))
        clock.sleep(POLL_S)
    return None


def cache_section(found: FoundFile, export: tuple[Step, ...] = ()) -> CacheSection:
    """The `[cache]` section for the place a file was found in."""
    pattern = r"\.pdf$" if found.name.lower().endswith(".pdf") else r"."
    endings = sorted(
        {"temp", "tmp", "part", "download", *(one.lstrip(".").lower() for one in found.unfinished)}
    )
    return CacheSection(
        folders=(found.folder,),
        acquire="export" if export else "cache",
        patterns=(pattern,),
        ignore=(rf"(?i)\.(?:{'|'.join(map(re.escape, endings))})$",),
        export=export,
    )


def say_found(case: Case, found: FoundFile | None) -> bool:
    """The row for what came; True when it is a PDF."""
    if found is None:
        case.add("file", "fail", "no_file", fix="no_file")
        return False
    facts: dict[str, Any] = {
        "folder": found.folder,
        "name": found.name,
        "size": found.size_bytes,
        "head": repr(found.head[:8]),
    }
    if not found.is_pdf:
        case.add("file", "fail", "not_pdf", fix="not_pdf", **facts)
        return False
    case.add("file", "ok", "file", **facts)
    return True


def find_file(case: Case) -> None:
    """The whole of `--find-file`, alone: look, tell, draft the section."""
    profile = case.require_profile()
    folders = places(profile.app.package, profile.app.label, profile.cache.folders)
    case.person.say("doctor.find.begin")
    found = watch(case, folders)
    if not say_found(case, found) or found is None:
        return
    text = section_toml("cache", cache_section(found))
    path = case.write("cache.toml", text.encode())
    known = found.folder in profile.cache.folders
    case.add(
        "cache_section",
        "ok" if known else "warn",
        "cache_known" if known else "cache_new",
        path=path,
        text=Lines(text),
    )
