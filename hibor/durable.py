"""Durable writes: the one place that changes files (design 4, faults F69–F76, F87).

Rules of this file:
- Five operations and nothing else change a library: append a line, write once, publish without replacing,
  remove, make folders; with them the streaming sink for staging, the move of an unfinished last line to a
  side file, and the notes people may read about a lock (those promise nothing).
- Every operation carries the registered name of its step, `<effect>.<step>`; a name nobody registered raises
  at once, because the crash tests enumerate the registry and would miss it.
- A call that returns has put its bytes *and* the name on stable storage and has read them back.
- A call that raises `DurableError` says what is known: `N` when nothing of it is there, `U` when that
  cannot be said. A failed fsync is never retried: the kernel may have dropped the pages and report success
  the second time.
- An existing file is never replaced. Names are given by link, or by a rename that refuses an existing target.

Not promised: protection from another program that writes into the library, and stable storage on a disk that
lies about its cache.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from hibor.digest import StreamDigest
from hibor.durable_fs import CHANGE_FLAGS, CREATE_FLAGS, LOCK_FLAGS, NOTE_FLAGS
from hibor.durable_parts import (
    SHARING_WAIT_S,
    Appended,
    DurableError,
    FileAlreadyThere,
    FileFacts,
    Method,
    MovedTail,
    Parts,
    Published,
    UnknownStep,
    reason,
)

__all__ = [
    "SHARING_WAIT_S",
    "Appended",
    "Durable",
    "DurableError",
    "FileAlreadyThere",
    "FileFacts",
    "MovedTail",
    "Published",
    "Sink",
    "UnknownStep",
]


EXPORT_FLAGS: Final = (CREATE_FLAGS & ~os.O_WRONLY) | os.O_RDWR
"""A new file to write and to seek in: a zip goes back to its headers."""


class Durable(Parts):
    """Durable operations on one file system.

    `clock` times the patience with sharing violations; `steps` are the registered step names. `tolerated`
    maps folders whose fsync the platform refused to the reason, for the run's record.
    """

    def append_line(self, path: Path, line: bytes, *, step: str) -> Appended:
        """Add `line` (no newline in it) to a file of lines, creating the file if needed.

        Open, append, fsync, (folder fsync for a new file), reopen, read again, compare. The caller holds the
        lock. A short or refused write is cut back to the old length, fsynced and verified: `N`; when even
        that fails, `U`. A file whose last line is unfinished is refused with `N`.
        """
        if not line or b"\n" in line:
            raise ValueError("a line to append is neither empty nor has a newline in it")
        data = line + b"\n"
        with self._named(step):
            descriptor = self._open_lines(path, step)
            try:
                before = self._checked_size(descriptor, path, step)
                self._write_or_cut_back(descriptor, data, before, path, step)
                self._sync(descriptor, path, step)
            except BaseException:
                self._drop(descriptor)
                raise
            self._close(descriptor, path, step)
            if before == 0:
                self._sync_folder(path.parent, step)
            facts = self._compare_tail(path, before, data, step)
        return Appended(offset_bytes=before, size_bytes=len(data), file=facts)

    def write_once(self, path: Path, data: bytes | Iterable[bytes], *, step: str) -> FileFacts:
        """Create `path` with exactly `data` (whole, or in pieces as they are made), or leave it absent.

        Temporary file beside it, fsync, no-replace publish, folder fsync, reopen, hash. A temporary file
        left by a crash was never acknowledged and is replaced. `FileAlreadyThere` when the name is taken.
        """
        temporary = path.with_name(path.name + ".tmp")
        with self._named(step):
            self._discard(temporary, step)
            written = self._write_new(temporary, data, step)
            try:
                given = self._give_name(temporary, path, step)
            except DurableError:
                with suppress(OSError):
                    self._fs.unlink(temporary)
                raise
            if given.method == "link":
                with suppress(OSError):
                    self._patient(lambda: self._fs.unlink(temporary))
            self._sync_folder(path.parent, step)
            facts = self._facts(path, step, missing="U")
            if facts != written:
                raise self._error("U", path, step, "the file reads back differently from what was written")
        return facts

    def publish(self, staging: Path, final: Path, *, step: str) -> Published:
        """Give the staged file its final name without ever replacing a file (faults F69, F73, F74).

        fsync(staging), link (or a rename that refuses an existing target), fsync(folder). With a link the
        staged name stays, and the shared inode proves later that we published. Failures: `final_conflict`
        when another file has the name, `publish_refused` where it can never work, else `disk_failed`.
        """
        with self._named(step):
            staged = self._sync_file(staging, step)
            given = self._give_name(staging, final, step)
            self._sync_folder(final.parent, step)
            if given.method == "rename" and staging.parent != final.parent:
                self._sync_folder(staging.parent, step)
            published = self._lstat(final, step)
            if not stat.S_ISREG(published.st_mode) or published.st_size != staged.st_size:
                raise self._error("U", final, step, "the published file is not the staged one")
        return given

    def keep_copy(self, source: Path, target: Path, *, step: str) -> FileFacts:
        """Give the source's bytes a second name that survives it: by link, where links are refused by copy.

        `FileAlreadyThere` when the name is taken. The source stays.
        """
        with self._named(step):
            self._sync_file(source, step)
            try:
                self._patient(lambda: self._fs.link(source, target))
            except FileExistsError as error:
                raise self._taken(target, step) from error
            except OSError:
                temporary = target.with_name(target.name + ".tmp")
                self._discard(temporary, step)
                self._write_new(temporary, self.read_bytes(source), step)
                given = self._give_name(temporary, target, step)
                if given.method == "link":
                    with suppress(OSError):
                        self._fs.unlink(temporary)
            self._sync_folder(target.parent, step)
            return self._facts(target, step, missing="U")

    def probe_publish(self, staging_dir: Path, final_dir: Path, *, step: str) -> Method:
        """Try, with throw-away files in the real folders, whether publishing works there and never replaces.

        Returns the way that works. `DurableError("publish_refused")` says why none does, before anything is
        spent.
        """
        mark = f".probe-{os.getpid()}"
        first, second = staging_dir / f"{mark}-1", staging_dir / f"{mark}-2"
        target = final_dir / mark
        with self._named(step):
            try:
                for path in (first, second, target):
                    self._discard(path, step)
                self._write_new(first, b"first", step)
                self._write_new(second, b"second", step)
                given = self._give_name(first, target, step)
                self._sync_folder(final_dir, step)
                try:
                    self._give_name(second, target, step)
                except FileAlreadyThere:
                    return given.method
                raise self._error("N", target, step, "this folder lets a file be replaced", "publish_refused")
            finally:
                for path in (first, second, target):
                    with suppress(OSError):
                        self._patient(lambda name=path: self._fs.unlink(name))  # type: ignore[misc]

    def remove(self, path: Path, *, step: str) -> bool:
        """Remove a file's name and make that durable; False when it was not there.

        `N` here means: nothing was changed.
        """
        with self._named(step):
            try:
                self._patient(lambda: self._fs.unlink(path))
            except FileNotFoundError:
                return False
            except OSError as error:
                raise self._error("N", path, step, f"cannot be removed: {reason(error)}") from error
            self._sync_folder(path.parent, step)
        return True

    def confirm(self, path: Path, root: Path, *, step: str) -> bool:
        """Put on stable storage what a process that is gone may have left unsynced: a file or folder, and its
        name in every folder up to `root`. False when the name is absent.

        What recovery reads may still be in the page cache only; nothing is done on its strength before this.
        """
        with self._named(step):
            found = self.stat(path)
            if found is not None and stat.S_ISREG(found.st_mode):
                self._sync_file(path, step)
            folder = path if found is not None and stat.S_ISDIR(found.st_mode) else path.parent
            while self._is_folder(folder, step):
                self._sync_folder(folder, step)
                if folder == root or folder == folder.parent:
                    break
                folder = folder.parent
        return found is not None

    def make_folders(self, path: Path, *, step: str) -> None:
        """Make a folder and its missing parents, each one's name fsynced in its parent."""
        with self._named(step):
            missing: list[Path] = []
            folder = path
            while not self._is_folder(folder, step):
                missing.append(folder)
                folder = folder.parent
            for folder in reversed(missing):
                try:
                    self._fs.mkdir(folder)
                except FileExistsError:
                    if not self._is_folder(folder, step):
                        raise
                except OSError as error:
                    raise self._error("N", folder, step, f"cannot be made: {reason(error)}") from error
                self._sync_folder(folder.parent, step)

    def open_sink(self, path: Path, *, step: str) -> Sink:
        """Create an empty staging file to stream into; a leftover of the same name is removed, never
        trusted.
        """
        with self._named(step):
            self._discard(path, step)
            try:
                descriptor = self._patient(lambda: self._fs.open(path, CREATE_FLAGS))
            except OSError as error:
                raise self._error("N", path, step, f"cannot be created: {reason(error)}") from error
            try:
                self._sync_folder(path.parent, step)
            except BaseException:
                self._drop(descriptor)
                raise
        return Sink(self, descriptor, path, step)

    def export(
        self, path: Path, fill: Callable[[BinaryIO], None], *, step: str, replace: bool = False
    ) -> FileFacts:
        """Write a file a person named, outside what the library promises: a zip, a page, a task file.

        `fill` writes into a seekable temporary file beside it, which gets its name only when it is whole and
        fsynced.
        `FileAlreadyThere` when the name is taken and `replace` is False; with it the old file goes first.
        """
        temporary = path.with_name(path.name + ".tmp")
        with self._named(step):
            if not replace and self.stat(path) is not None:
                raise self._taken(path, step)
            self._discard(temporary, step)
            try:
                descriptor = self._patient(lambda: self._fs.open(temporary, EXPORT_FLAGS))
                try:
                    with os.fdopen(descriptor, "w+b", closefd=False) as stream:
                        fill(stream)
                    self._fs.fsync(descriptor)
                finally:
                    self._fs.close(descriptor)
                if replace:
                    self._discard(path, step)
                given = self._give_name(temporary, path, step)
            except OSError as error:
                with suppress(OSError):
                    self._fs.unlink(temporary)
                raise self._error("N", path, step, f"cannot be written: {reason(error)}") from error
            except BaseException:
                with suppress(OSError):
                    self._fs.unlink(temporary)
                raise
            if given.method == "link":
                with suppress(OSError):
                    self._patient(lambda: self._fs.unlink(temporary))
            self._sync_folder(path.parent, step)
            return self._facts(path, step, missing="U")

    def move_unfinished_tail(self, path: Path, *, step: str) -> MovedTail | None:
        """Move an unfinished last line into a side file and cut it off; None when the last line is whole.

        Unfinished: no newline at its end, or NUL bytes in it (a power cut lost its pages). It was never
        acknowledged. The side file is `<name>.unfinished-<offset>-<first 8 of its sha256>`, so a second call
        after a crash in between ends in the same bytes.
        """
        with self._named(step):
            try:
                descriptor = self._patient(lambda: self._fs.open(path, CHANGE_FLAGS))
            except FileNotFoundError:
                return None
            except OSError as error:
                raise self._error("U", path, step, f"cannot be opened: {reason(error)}") from error
            try:
                size = self._regular(descriptor, path, step).st_size
                start = self._tail_start(descriptor, size)
                if start is None:
                    self._drop(descriptor)
                    return None
                tail = self._read_at(descriptor, start, size - start)
                moved = self._save_tail(path, start, tail, step)
                self._fs.truncate(descriptor, start)
                self._sync(descriptor, path, step)
            except OSError as error:
                self._drop(descriptor)
                raise self._error("U", path, step, f"cannot be cut: {reason(error)}") from error
            except BaseException:
                self._drop(descriptor)
                raise
            self._close(descriptor, path, step)
            if self._lstat(path, step).st_size != start:
                raise self._error("U", path, step, "the cut did not hold")
        return moved

    def leave_note(self, path: Path, text: str, *, step: str) -> None:
        """Write text for people (who holds a lock). Replaced at will, not fsynced, nothing depends on it."""
        with self._named(step), suppress(OSError):
            descriptor = self._fs.open(path, NOTE_FLAGS)
            try:
                self._fs.write(descriptor, text.encode())
            finally:
                self._fs.close(descriptor)

    def open_lock_file(self, path: Path) -> int:
        """Open a lock file, creating an empty one; nothing is ever written into it. Raises `OSError`."""
        return self._patient(lambda: self._fs.open(path, LOCK_FLAGS))

    def drop_note(self, path: Path, *, step: str) -> None:
        """Remove such a note; not fsynced."""
        with self._named(step), suppress(OSError):
            self._fs.unlink(path)


class Sink:
    """A staging file being streamed into: write and count in one pass, prove at the end.

    A failed write leaves a file that is known to be partial; the evidence letter is I, not U.
    """

    def __init__(self, durable: Durable, descriptor: int, path: Path, step: str) -> None:
        self._durable = durable
        self._descriptor: int | None = descriptor
        self._digest = StreamDigest()
        self._step = step
        self.path = path
        self.size_bytes = 0

    @property
    def sha256(self) -> str:
        """Lower-case hex sha256 of the bytes taken so far."""
        return self._digest.hexdigest()

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes. `DurableError` N: the file stays, known to be partial."""
        if self._descriptor is None:
            raise ValueError("this sink is closed")
        try:
            self._durable._write_all(self._descriptor, data)
        except OSError as error:
            self.abandon()
            detail = f"cannot be written: {reason(error)}"
            raise self._durable._error("N", self.path, self._step, detail) from error
        self._digest.update(data)
        self.size_bytes += len(data)

    def finish(self, *, step: str) -> FileFacts:
        """fsync, reopen, hash, compare with what was streamed (ruling R13). `DurableError` U on any doubt."""
        if self._descriptor is None:
            raise ValueError("this sink is closed")
        durable, descriptor = self._durable, self._descriptor
        with durable._named(step):
            try:
                durable._sync(descriptor, self.path, step)
            except BaseException:
                self.abandon()
                raise
            self._descriptor = None
            self._digest.close()
            durable._close(descriptor, self.path, step)
            facts = durable._facts(self.path, step, missing="U")
            if facts != FileFacts(self.size_bytes, self._digest.hexdigest()):
                raise durable._error(
                    "U", self.path, step, "staging reads back differently from what was streamed"
                )
        return facts

    def abandon(self) -> None:
        """Close without promising anything; the file stays and is known to be partial."""
        self._digest.close()
        if self._descriptor is not None:
            self._durable._drop(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *exception: object) -> None:
        self.abandon()
