"""The parts durable writes are made of: errors, facts, and the single moves with their translation of errors.

Rules of this file:
- Nothing here is called from outside `hibor/durable.py`, except the error and fact types and the reading
  calls.
- Every `OSError` leaves as a `DurableError` that says what is known: `N` nothing of it is there, `U` unknown.
- A failed fsync is `U` and never tried again; only a Windows sharing violation is waited for.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

import attrs

from hibor.clock import Clock
from hibor.durable_fs import APPEND_FLAGS, CHANGE_FLAGS, CREATE_FLAGS, READ_FLAGS, FileSystem

Known = Literal["N", "U"]
Method = Literal["link", "rename"]
Result = TypeVar("Result")

SHARING_WAIT_S = 2.0
"""How long a Windows sharing violation (an antivirus scanner) may last before it counts (design 4)."""
_SHARING_PAUSE_S = 0.05
_SHARING_WINERRORS = frozenset({5, 32, 33})
_READ_BLOCK_BYTES = 1 << 20
_TAIL_BLOCK_BYTES = 1 << 16
_FOLDER_SYNC_TOLERATED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
_LINK_REFUSED = frozenset(
    {
        errno.EPERM,
        errno.EACCES,
        errno.ENOSYS,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.EIO,
        errno.EINVAL,
        errno.EMLINK,
    }
)


class UnknownStep(ValueError):
    """A durable step whose name is not registered: a mistake in the program."""


class DurableError(Exception):
    """A durable operation failed.

    `failure` is a failure word of the stage table, `known` is `N` (nothing of this operation is there) or `U`
    (that cannot be said), `detail` names files without their folders, for people.
    """

    def __init__(self, failure: str, known: Known, *, step: str, path: Path, detail: str) -> None:
        super().__init__(f"{path.name}: {detail}")
        self.failure = failure
        self.known: Known = known
        self.step = step
        self.path = path
        self.detail = detail


class FileAlreadyThere(DurableError):
    """The name is taken by another file, which was not touched."""


@attrs.frozen
class FileFacts:
    """Size in bytes and lower-case hex sha256 of a file that was read back."""

    size_bytes: int
    sha256: str


@attrs.frozen
class Appended:
    """Where a line landed: its offset, its length with newline, and how the file looks now."""

    offset_bytes: int
    size_bytes: int
    file: os.stat_result = attrs.field(eq=False, repr=False)


@attrs.frozen
class Published:
    """How the final name was given; `already` when an earlier, interrupted call had given it."""

    method: Method
    already: bool


@attrs.frozen
class MovedTail:
    """An unfinished last line that was moved into a side file."""

    side: Path
    offset_bytes: int
    size_bytes: int
    sha256: str


class Parts:
    """Single moves on one file system; see `hibor.durable.Durable`."""

    def __init__(self, fs: FileSystem, clock: Clock, steps: frozenset[str]) -> None:
        self._fs = fs
        self._clock = clock
        self._steps = steps
        self._tolerated: dict[str, str] = {}
        self._tolerated_guard = threading.Lock()

    @property
    def tolerated(self) -> dict[str, str]:
        """Folders whose names cannot be fsynced here, with the reason (faults F71)."""
        with self._tolerated_guard:
            return dict(self._tolerated)

    def has_unfinished_tail(self, path: Path) -> bool:
        """Whether the file's last line is unfinished; False when there is no file. Raises `OSError`."""
        try:
            descriptor = self._fs.open(path, READ_FLAGS)
        except FileNotFoundError:
            return False
        try:
            return self._tail_start(descriptor, self._fs.fstat(descriptor).st_size) is not None
        finally:
            self._fs.close(descriptor)

    def facts(self, path: Path) -> FileFacts:
        """Size and sha256 of a regular file, links not followed.

        `DurableError`: `N` when there is no such file, `U` when it cannot be read, `not_regular` else.
        """
        return self._facts(path, "read", missing="N")

    def read_bytes(self, path: Path, *, offset_bytes: int = 0, size_bytes: int | None = None) -> bytes:
        """Bytes of a regular file from an offset, all that follow or at most `size_bytes`. Errors as
        `facts`.
        """
        descriptor = self._open_read(path, "read", missing="N")
        try:
            end = self._regular(descriptor, path, "read").st_size
            wanted = max(0, end - offset_bytes) if size_bytes is None else size_bytes
            return self._read_at(descriptor, offset_bytes, wanted)
        except OSError as error:
            raise self._error("U", path, "read", f"cannot be read: {reason(error)}") from error
        finally:
            self._drop(descriptor)

    def stat(self, path: Path) -> os.stat_result | None:
        """Facts of a name, links not followed; None when it is absent. `DurableError` U when unknown."""
        try:
            return self._fs.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._error("U", path, "read", f"cannot be looked at: {reason(error)}") from error

    @contextmanager
    def _named(self, step: str) -> Iterator[None]:
        if step not in self._steps:
            raise UnknownStep(f"durable step {step!r} is not registered")
        self._fs.mark(step, "begin")
        yield
        self._fs.mark(step, "end")

    def _error(
        self, known: Known, path: Path, step: str, detail: str, failure: str | None = None
    ) -> DurableError:
        word = failure or ("disk_failed" if known == "N" else "disk_uncertain")
        return DurableError(word, known, step=step, path=path, detail=detail)

    def _patient(self, call: Callable[[], Result]) -> Result:
        """Repeat a call that another program's open handle refuses on Windows, for two seconds."""
        until: float | None = None
        while True:
            try:
                return call()
            except OSError as error:
                if getattr(error, "winerror", None) not in _SHARING_WINERRORS:
                    raise
                now = self._clock.monotonic_s()
                until = now + SHARING_WAIT_S if until is None else until
                if now >= until:
                    raise
                self._clock.sleep(_SHARING_PAUSE_S)

    def _drop(self, descriptor: int) -> None:
        with suppress(OSError):
            self._fs.close(descriptor)

    def _close(self, descriptor: int, path: Path, step: str) -> None:
        try:
            self._fs.close(descriptor)
        except OSError as error:
            raise self._error("U", path, step, f"closing failed: {reason(error)}") from error

    def _sync(self, descriptor: int, path: Path, step: str) -> None:
        try:
            self._fs.fsync(descriptor)
        except OSError as error:
            raise self._error("U", path, step, f"fsync failed: {reason(error)}") from error

    def _sync_folder(self, folder: Path, step: str) -> None:
        try:
            self._fs.fsync_dir(folder)
        except OSError as error:
            if error.errno not in _FOLDER_SYNC_TOLERATED:
                raise self._error("U", folder, step, f"folder fsync failed: {reason(error)}") from error
            with self._tolerated_guard:
                self._tolerated[str(folder)] = reason(error)

    def _sync_file(self, path: Path, step: str) -> os.stat_result:
        try:
            descriptor = self._patient(lambda: self._fs.open(path, CHANGE_FLAGS))
        except OSError as error:
            raise self._error("N", path, step, f"cannot be opened: {reason(error)}") from error
        try:
            facts = self._regular(descriptor, path, step)
            self._sync(descriptor, path, step)
        finally:
            self._drop(descriptor)
        return facts

    def _regular(self, descriptor: int, path: Path, step: str) -> os.stat_result:
        facts = self._fs.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise self._error("N", path, step, "is not a regular file", "not_regular")
        return facts

    def _lstat(self, path: Path, step: str) -> os.stat_result:
        try:
            return self._fs.lstat(path)
        except OSError as error:
            raise self._error("U", path, step, f"cannot be looked at: {reason(error)}") from error

    def _is_folder(self, path: Path, step: str) -> bool:
        try:
            mode = os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self._error("N", path, step, f"cannot be looked at: {reason(error)}") from error
        if not stat.S_ISDIR(mode):
            raise self._error("N", path, step, "is in the way: not a folder")
        return True

    def _discard(self, path: Path, step: str) -> None:
        """Remove a leftover that was never acknowledged."""
        try:
            self._patient(lambda: self._fs.unlink(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._error("N", path, step, f"a leftover cannot be removed: {reason(error)}") from error

    def _open_lines(self, path: Path, step: str) -> int:
        try:
            try:
                return self._patient(lambda: self._fs.open(path, APPEND_FLAGS))
            except FileNotFoundError:
                return self._patient(lambda: self._fs.open(path, APPEND_FLAGS | os.O_CREAT | os.O_EXCL))
        except OSError as error:
            raise self._error("N", path, step, f"cannot be opened: {reason(error)}") from error

    def _checked_size(self, descriptor: int, path: Path, step: str) -> int:
        """The file's length, after making sure that its last line is whole."""
        try:
            size = self._regular(descriptor, path, step).st_size
            last = self._read_at(descriptor, size - 1, 1) if size else b"\n"
        except OSError as error:
            raise self._error("N", path, step, f"cannot be read: {reason(error)}") from error
        if last != b"\n":
            raise self._error("N", path, step, "its last line is unfinished; recovery has to move it first")
        return size

    def _write_or_cut_back(self, descriptor: int, data: bytes, before: int, path: Path, step: str) -> None:
        try:
            taken = self._fs.write(descriptor, data)
            if taken == len(data):
                return
            cause = OSError(errno.ENOSPC, f"only {taken} of {len(data)} bytes were taken")
        except OSError as error:
            cause = error
        self._cut_back(descriptor, before, path, step, cause)

    def _cut_back(self, descriptor: int, before: int, path: Path, step: str, cause: OSError) -> NoReturn:
        try:
            self._fs.truncate(descriptor, before)
            self._fs.fsync(descriptor)
            held = self._fs.lstat(path).st_size == before
        except OSError:
            held = False
        detail = f"append failed: {reason(cause)}"
        if held:
            raise self._error("N", path, step, f"{detail}; the file has its old length") from cause
        raise self._error("U", path, step, f"{detail}; and it could not be cut back") from cause

    def _compare_tail(self, path: Path, before: int, data: bytes, step: str) -> os.stat_result:
        try:
            descriptor = self._patient(lambda: self._fs.open(path, READ_FLAGS))
            try:
                facts = self._regular(descriptor, path, step)
                same = (
                    facts.st_size == before + len(data)
                    and self._read_at(descriptor, before, len(data)) == data
                )
            finally:
                self._drop(descriptor)
        except OSError as error:
            raise self._error("U", path, step, f"cannot be read back: {reason(error)}") from error
        if not same:
            raise self._error("U", path, step, "the line reads back differently from what was written")
        return facts

    def _read_at(self, descriptor: int, offset_bytes: int, size_bytes: int) -> bytes:
        self._fs.seek(descriptor, offset_bytes)
        parts: list[bytes] = []
        while size_bytes > 0:
            part = self._fs.read(descriptor, size_bytes)
            if not part:
                break
            parts.append(part)
            size_bytes -= len(part)
        return b"".join(parts)

    def _tail_start(self, descriptor: int, size: int) -> int | None:
        block = _TAIL_BLOCK_BYTES
        while size:
            offset = max(0, size - block)
            data = self._read_at(descriptor, offset, size - offset)
            whole = data.endswith(b"\n")
            before = data.rfind(b"\n", 0, len(data) - 1 if whole else len(data))
            if before >= 0 or offset == 0:
                unfinished = not whole or b"\0" in data[before + 1 :]
                return offset + before + 1 if unfinished else None
            block *= 4
        return None

    def _save_tail(self, path: Path, start: int, tail: bytes, step: str) -> MovedTail:
        digest = hashlib.sha256(tail).hexdigest()
        side = path.with_name(f"{path.name}.unfinished-{start}-{digest[:8]}")
        moved = MovedTail(side=side, offset_bytes=start, size_bytes=len(tail), sha256=digest)
        if self.stat(side) is not None and self._facts(side, step, missing="U").sha256 == digest:
            return moved
        self._discard(side, step)
        self._write_new(side, tail, step)
        self._sync_folder(side.parent, step)
        return moved

    def _write_new(self, path: Path, data: bytes | Iterable[bytes], step: str) -> FileFacts:
        """Create a file that nobody relies on yet, with its bytes on stable storage; says what it wrote."""
        pieces = (data,) if isinstance(data, bytes) else data
        try:
            descriptor = self._patient(lambda: self._fs.open(path, CREATE_FLAGS))
        except OSError as error:
            raise self._error("N", path, step, f"cannot be created: {reason(error)}") from error
        digest, size_bytes = hashlib.sha256(), 0
        try:
            for piece in pieces:
                self._write_all(descriptor, piece)
                digest.update(piece)
                size_bytes += len(piece)
        except OSError as error:
            self._drop(descriptor)
            with suppress(OSError):
                self._fs.unlink(path)
            raise self._error("N", path, step, f"cannot be written: {reason(error)}") from error
        except Exception:  # whoever makes the pieces could not go on
            self._drop(descriptor)
            with suppress(OSError):
                self._fs.unlink(path)
            raise
        except BaseException:
            self._drop(descriptor)
            raise
        try:
            self._sync(descriptor, path, step)
        except BaseException:
            self._drop(descriptor)
            raise
        self._close(descriptor, path, step)
        return FileFacts(size_bytes, digest.hexdigest())

    def _write_all(self, descriptor: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            taken = self._fs.write(descriptor, view)
            if taken <= 0:
                raise OSError(errno.ENOSPC, "the disk takes no more bytes")
            view = view[taken:]

    def _give_name(self, source: Path, target: Path, step: str) -> Published:
        """Link, or rename without replacing. A lost reply is recognised by the shared inode."""
        identity = self._lstat(source, step)
        try:
            self._patient(lambda: self._fs.link(source, target))
            return Published("link", already=False)
        except OSError as error:
            refusal = error
        if self._is_same(target, identity, step):
            return Published("link", already=True)
        if isinstance(refusal, FileExistsError):
            raise self._taken(target, step) from refusal
        if refusal.errno not in _LINK_REFUSED:
            raise self._error("N", target, step, _why_not_linked(refusal), _word_of(refusal)) from refusal
        try:
            self._patient(lambda: self._fs.rename_no_replace(source, target))
            return Published("rename", already=False)
        except OSError as error:
            if self._is_same(target, identity, step):
                return Published("rename", already=True)
            if isinstance(error, FileExistsError):
                raise self._taken(target, step) from error
            detail = (
                f"no way here to give a name without replacing a file: link says {reason(refusal)}, "
                f"rename says {reason(error)}"
            )
            raise self._error("N", target, step, detail, "publish_refused") from error

    def _taken(self, target: Path, step: str) -> FileAlreadyThere:
        return FileAlreadyThere(
            "final_conflict", "N", step=step, path=target, detail="another file has this name"
        )

    def _is_same(self, path: Path, identity: os.stat_result, step: str) -> bool:
        """Whether `path` is the very file; `DurableError` U when that cannot be said."""
        found = self.stat(path)
        return found is not None and os.path.samestat(found, identity)

    def _open_read(self, path: Path, step: str, missing: Known) -> int:
        try:
            return self._patient(lambda: self._fs.open(path, READ_FLAGS))
        except FileNotFoundError as error:
            raise self._error(missing, path, step, "is not there") from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._error("N", path, step, "is a link", "not_regular") from error
            raise self._error("U", path, step, f"cannot be opened: {reason(error)}") from error

    def _facts(self, path: Path, step: str, *, missing: Known) -> FileFacts:
        descriptor = self._open_read(path, step, missing)
        try:
            self._regular(descriptor, path, step)
            digest, size = hashlib.sha256(), 0
            while block := self._fs.read(descriptor, _READ_BLOCK_BYTES):
                digest.update(block)
                size += len(block)
        except OSError as error:
            raise self._error("U", path, step, f"cannot be read: {reason(error)}") from error
        finally:
            self._drop(descriptor)
        return FileFacts(size, digest.hexdigest())


def reason(error: OSError) -> str:
    name = errno.errorcode.get(error.errno or 0, "")
    return f"{error.strerror or error} ({name})" if name else str(error.strerror or error)


def _word_of(error: OSError) -> str | None:
    """`publish_refused` for what will be refused every time, None for what another try may bring."""
    return "publish_refused" if error.errno in (errno.EXDEV, errno.ENAMETOOLONG, errno.EILSEQ) else None


def _why_not_linked(error: OSError) -> str:
    if error.errno == errno.EXDEV:
        return "the staging folder lies on another file system; put library and runs on one"
    return f"cannot be named: {reason(error)}"
