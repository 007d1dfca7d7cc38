"""A disk with a memory: every call of the seam is recorded, and every image a crash could leave is built from
that.

Rules of this file:
- The recorder works on a real folder and lets fsync cost nothing: what is stable is decided by the model.
- Power cut, as far as POSIX promises: bytes written since a file's last fsync may be there, be lost, be
  torn, or
  be zeros of the right length; names made or removed since a folder's last fsync may be there or not, each
  for
  itself, in any order. fsync of a file says nothing about its name.
- SIGKILL: everything written is there, because the kernel lives on.
- Lock files and the notes beside them promise nothing and are left out of every image.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import attrs

from hibor.durable_fs import Moment, OsFileSystem

UNPROMISED = (".lock", ".owner", ".sqlite3", "-journal", ".index")
MOST_IMAGES_A_POINT = 512
SOMEBODY_ELSE = "(somebody else)"

Call = TypeVar("Call", bound=Callable[..., Any])
Names = dict[str, int]  # path relative to the root -> file id; folders are -1


class PowerCut(BaseException):
    """The process ends here; nothing it does afterwards reaches the disk."""


@attrs.frozen
class Operation:
    """One thing done to the disk, as the model replays it; `step` is the durable step that asked for it."""

    kind: str
    path: str = ""
    other: str = ""
    file: int = 0
    offset_bytes: int = 0
    data: bytes = b""
    size_bytes: int = 0
    step: str = ""


@functools.lru_cache(maxsize=8192)
def _sha256(data: bytes) -> bytes:
    """The same bytes come again and again: an image differs from the last one in a file or two."""
    return hashlib.sha256(data).digest()


@attrs.frozen
class Image:
    """One state of the disk: folders, names and bytes. `shared` groups names of one file."""

    folders: tuple[str, ...]
    files: tuple[tuple[str, bytes], ...]
    shared: tuple[tuple[str, ...], ...] = ()

    @property
    def digest(self) -> str:
        """Tells two images apart."""
        sha = hashlib.sha256()
        for folder in self.folders:
            sha.update(f"d {folder}\0".encode())
        for path, data in self.files:
            sha.update(f"f {path} {len(data)}\0".encode() + _sha256(data))
        return sha.hexdigest()

    def write_to(self, root: Path) -> None:
        """Make this image in an empty folder; names of one file share it, as they did."""
        root.mkdir(parents=True, exist_ok=True)
        for folder in self.folders:
            (root / folder).mkdir(parents=True, exist_ok=True)
        first = {name: group[0] for group in self.shared for name in group}
        for path, data in self.files:
            target = root / path
            source = root / first.get(path, path)
            if source != target and source.exists():
                os.link(source, target)
            else:
                target.write_bytes(data)

    @classmethod
    def of(cls, root: Path) -> Image:
        """What a folder holds now, promises only."""
        folders, files = [], []
        groups: dict[int, list[str]] = {}
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_dir():
                folders.append(name)
            elif promised(name):
                files.append((name, path.read_bytes()))
                groups.setdefault(path.stat().st_ino, []).append(name)
        shared = tuple(tuple(names) for names in groups.values() if len(names) > 1)
        return cls(tuple(folders), tuple(files), shared)


def promised(name: str) -> bool:
    """Whether anything depends on this file."""
    return not name.endswith(UNPROMISED)


@attrs.define
class _File:
    """Bytes that are stable, and what was done to them since."""

    stable: bytes = b""
    now: bytes = b""
    pending: list[Operation] = attrs.field(factory=list)


class Model:
    """The disk as the recorded operations make it."""

    def __init__(self, start: Image) -> None:
        self.files: dict[int, _File] = {}
        self.names: Names = {folder: -1 for folder in start.folders}
        self.pending_names: dict[str, list[tuple[str, str, int]]] = {}
        ids = itertools.count(1)
        group = {name: names[0] for names in start.shared for name in names}
        known: dict[str, int] = {}
        for path, data in start.files:
            file = known.setdefault(group.get(path, path), next(ids))
            self.files[file] = _File(data, data)
            self.names[path] = file
        self._next = itertools.count(1_000_000)
        self.stable = dict(self.names)
        self.renames: list[Operation] = []

    @property
    def unsynced(self) -> bool:
        """Whether a power cut could still take something that matters."""
        lost = any(promised(change[1]) for pending in self.pending_names.values() for change in pending)
        return lost or any(
            self.files[file].pending for name, file in self.names.items() if file >= 0 and promised(name)
        )

    def new_file(self) -> int:
        """A file that has no name yet."""
        file = next(number for number in self._next if number not in self.files)
        self.files[file] = _File()
        return file

    def apply(self, operation: Operation) -> None:
        """Take one operation."""
        getattr(self, f"_{operation.kind}")(operation)

    def _name_changes(self, path: str, change: tuple[str, str, int]) -> None:
        self.pending_names.setdefault(_parent(path), []).append(change)

    def _create(self, op: Operation) -> None:
        self.files.setdefault(op.file, _File())
        self.names[op.path] = op.file
        self._name_changes(op.path, ("add", op.path, op.file))

    def _mkdir(self, op: Operation) -> None:
        self.names[op.path] = -1
        self._name_changes(op.path, ("add", op.path, -1))

    def _link(self, op: Operation) -> None:
        self.names[op.other] = self.names[op.path]
        self._name_changes(op.other, ("add", op.other, self.names[op.path]))

    def _rename(self, op: Operation) -> None:
        file = self.names.pop(op.path)
        self.names[op.other] = file
        self._name_changes(op.path, ("del", op.path, file))
        self._name_changes(op.other, ("add", op.other, file))

    def _unlink(self, op: Operation) -> None:
        file = self.names.pop(op.path)
        self._name_changes(op.path, ("del", op.path, file))

    def _write(self, op: Operation) -> None:
        file = self.files[op.file]
        file.now = _written(file.now, op.offset_bytes, op.data)
        file.pending.append(op)

    def _truncate(self, op: Operation) -> None:
        file = self.files[op.file]
        file.now = file.now[: op.size_bytes].ljust(op.size_bytes, b"\0")
        file.pending.append(op)

    def _fsync(self, op: Operation) -> None:
        file = self.files[op.file]
        file.stable, file.pending = file.now, []

    def _fsync_dir(self, op: Operation) -> None:
        for what, path, file in self.pending_names.pop(op.path, []):
            if what == "add":
                self.stable[path] = file
            elif self.stable.get(path) == file:
                del self.stable[path]

    def _mark(self, op: Operation) -> None:
        return

    # -- images ----------------------------------------------------------------------------------------------

    def whole(self) -> Image:
        """What a process that is killed leaves: everything."""
        return self._image(self.names, {file: entry.now for file, entry in self.files.items()})

    def images(self) -> Iterator[Image]:
        """Every image a power cut could leave at this instant, each once; the most complete one first."""
        changes = [
            change for pending in self.pending_names.values() for change in pending if promised(change[1])
        ]
        names_of = self._name_choices(changes)
        seen: set[str] = set()
        for names in names_of:
            reachable = {file for file in names.values() if file >= 0}
            choices = [[(file, data) for data in self._contents(file)] for file in sorted(reachable)]
            product = itertools.islice(itertools.product(*choices), MOST_IMAGES_A_POINT)
            for contents in product:
                image = self._image(names, dict(contents))
                if image.digest not in seen:
                    seen.add(image.digest)
                    yield image

    def _name_choices(self, changes: list[tuple[str, str, int]]) -> list[Names]:
        """Stable names with every subset of the changes since, in their order."""
        found: dict[tuple[tuple[str, int], ...], Names] = {}
        for kept in itertools.islice(_subsets(len(changes)), MOST_IMAGES_A_POINT):
            names = dict(self.stable)
            for place in kept:
                what, path, file = changes[place]
                if what == "add":
                    names[path] = file
                elif names.get(path) == file:
                    del names[path]
            found.setdefault(tuple(sorted(names.items())), names)
        return list(found.values())

    def _contents(self, file: int) -> list[bytes]:
        """What the bytes of a file may be: whole, as last synced, and torn in the ways a disk tears."""
        entry = self.files[file]
        if not entry.pending:
            return [entry.now]
        old, new = entry.stable, entry.now
        found = [new, old]
        if len(new) > len(old) and new.startswith(old):
            added = new[len(old) :]
            half = len(added) // 2
            found += [
                old + added[:1],
                old + added[:half],
                old + added[:-1],
                old + bytes(len(added)),
                old + added[:half] + bytes(len(added) - half),
            ]
        return list(dict.fromkeys(found))

    def _image(self, names: Names, contents: dict[int, bytes]) -> Image:
        """Only what can be reached: a name in a folder that was lost is lost with it."""
        known: dict[str, bool] = {".": True}
        kept = {p: file for p, file in names.items() if promised(p) and _reachable(_parent(p), names, known)}
        folders = tuple(sorted(path for path, file in kept.items() if file == -1))
        files = tuple(sorted((path, contents[file]) for path, file in kept.items() if file >= 0))
        groups: dict[int, list[str]] = {}
        for path in sorted(kept):
            if kept[path] >= 0:
                groups.setdefault(kept[path], []).append(path)
        shared = tuple(tuple(group) for group in groups.values() if len(group) > 1)
        return Image(folders, files, shared)


def _written(old: bytes, offset: int, data: bytes) -> bytes:
    return old[:offset].ljust(offset, b"\0") + data + old[offset + len(data) :]


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _reachable(folder: str, names: Names, known: dict[str, bool]) -> bool:
    """Whether every folder down to this one is there; `known` keeps what was found out."""
    if folder not in known:
        known[folder] = names.get(folder) == -1 and _reachable(_parent(folder), names, known)
    return known[folder]


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    """All subsets of 0..count-1, the largest first."""
    for size in range(count, -1, -1):
        yield from itertools.combinations(range(count), size)


def _alone(call: Call) -> Call:
    """A call of the recorder that no other thread comes between."""

    @functools.wraps(call)
    def alone(recorder: Recorder, *given: Any, **named: Any) -> Any:
        with recorder._one_at_a_time:
            return call(recorder, *given, **named)

    return cast(Call, alone)


class Recorder(OsFileSystem):
    """The real disk below `root`, with a log. `before` is asked before each call and may raise.

    Threads may share it: each is in its own step, and a call and its note in the log are one.
    """

    def __init__(
        self,
        root: Path,
        before: Callable[[str, str], None] | None = None,
        model: Model | None = None,
    ) -> None:
        """`model` is what an earlier process left in `root`, with what it had not synced yet."""
        self.root = root
        self.log: list[Operation] = []
        self._own = threading.local()
        self._one_at_a_time = threading.RLock()
        self.calls = 0
        self.cut = False
        self.written_by_others: list[tuple[int, str, str]] = []
        self._model = model or Model(Image.of(root) if root.is_dir() else Image((), ()))
        self._open: dict[int, tuple[int, str, bool]] = {}
        self._before = before

    @property
    def step(self) -> str:
        """The step this thread began last."""
        return getattr(self._own, "step", "")

    @step.setter
    def step(self, name: str) -> None:
        self._own.step = name

    def _name(self, path: Path) -> str:
        relative = os.path.relpath(path, self.root)
        return "." if relative == "." else Path(relative).as_posix()

    def _note(self, kind: str, **facts: Any) -> None:
        operation = Operation(kind, step=self.step, **facts)
        self._model.apply(operation)
        self.log.append(operation)

    def _ask(self, call: str, name: str) -> None:
        """One call of the seam begins: it may fail here, and after a power cut nothing happens any more."""
        if self.cut:
            raise PowerCut
        self.calls += 1
        if self._before is not None and promised(name):
            self._before(call, name)

    @_alone
    def mark(self, step: str, moment: Moment) -> None:
        if moment == "begin":
            self.step = step
        self._ask(f"mark {moment}", step)
        self._note("mark", path=f"{moment} {step}")

    @_alone
    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        name = self._name(path)
        self._ask("open", name)
        fresh = not path.exists() or (name not in self._model.names and not promised(name))
        descriptor = super().open(path, flags, mode)
        if fresh:
            file = self._model.new_file()
            self._note("create", path=name, file=file)
        self._open[descriptor] = (self._model.names[name], name, bool(flags & os.O_APPEND))
        return descriptor

    @_alone
    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)
        super().close(descriptor)

    @_alone
    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        file, name, appends = self._open[descriptor]
        self._ask("write", name)
        offset = os.fstat(descriptor).st_size if appends else os.lseek(descriptor, 0, os.SEEK_CUR)
        taken = super().write(descriptor, data)
        self._note("write", file=file, path=name, offset_bytes=offset, data=bytes(data[:taken]))
        return taken

    def read(self, descriptor: int, size_bytes: int) -> bytes:
        self._ask("read", self._open[descriptor][1])
        return super().read(descriptor, size_bytes)

    @_alone
    def fsync(self, descriptor: int) -> None:
        file, name, _appends = self._open[descriptor]
        self._ask("fsync", name)
        self._note_unseen(descriptor, file, name)
        self._note("fsync", file=file, path=name)

    def _note_unseen(self, descriptor: int, file: int, name: str) -> None:
        """What was written through a stream on the descriptor, which passes the seam by."""
        if promised(name) and os.fstat(descriptor).st_size != len(self._model.files[file].now):
            self._note("truncate", file=file, path=name, size_bytes=0)
            self._note("write", file=file, path=name, data=(self.root / name).read_bytes())

    @_alone
    def truncate(self, descriptor: int, size_bytes: int) -> None:
        file, name, _appends = self._open[descriptor]
        self._ask("truncate", name)
        super().truncate(descriptor, size_bytes)
        self._note("truncate", file=file, path=name, size_bytes=size_bytes)

    def lstat(self, path: Path) -> os.stat_result:
        self._ask("lstat", self._name(path))
        return super().lstat(path)

    @_alone
    def link(self, source: Path, target: Path) -> None:
        self._ask("link", self._name(target))
        super().link(source, target)
        self._note("link", path=self._name(source), other=self._name(target))

    @_alone
    def rename_no_replace(self, source: Path, target: Path) -> None:
        self._ask("rename", self._name(target))
        super().rename_no_replace(source, target)
        self._note("rename", path=self._name(source), other=self._name(target))

    @_alone
    def unlink(self, path: Path) -> None:
        name = self._name(path)
        self._ask("unlink", name)
        super().unlink(path)
        if name in self._model.names:  # an index is made and written by its own library
            self._note("unlink", path=name)

    @_alone
    def mkdir(self, path: Path) -> None:
        self._ask("mkdir", self._name(path))
        super().mkdir(path)
        self._note("mkdir", path=self._name(path))

    @_alone
    def fsync_dir(self, path: Path) -> None:
        name = self._name(path)
        self._ask("fsync_dir", name)
        self._note("fsync_dir", path=name)

    def foreign(self, path: Path, data: bytes) -> None:
        """Somebody else writes a file, durably."""
        own_step, self.step = self.step, SOMEBODY_ELSE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        parts = path.relative_to(self.root).parts
        for count in range(1, len(parts)):
            folder = "/".join(parts[:count])
            if folder not in self._model.names:
                self._note("mkdir", path=folder)
                self._note("fsync_dir", path=_parent(folder))
        file = self._model.new_file()
        name = "/".join(parts)
        self._note("create", path=name, file=file)
        self._note("write", file=file, path=name, data=data)
        self._note("fsync", file=file, path=name)
        self._note("fsync_dir", path=_parent(name))
        self.step = own_step
        self.written_by_others.append((len(self.log), name, hashlib.sha256(data).hexdigest()))
