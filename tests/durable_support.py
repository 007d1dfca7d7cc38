"""A real disk with a log of calls and with faults: what the tests of durable writes put under the seam."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hibor.durable_fs import Moment, OsFileSystem


class FaultyFileSystem(OsFileSystem):
    """The real disk with a log of calls, and faults by call name: an error to raise, or a function to run
    instead.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.faults: dict[str, list[OSError | Callable[..., Any] | None]] = {}
        self.names: dict[int, str] = {}

    def fail(self, call: str, *faults: OSError | Callable[..., Any] | None) -> None:
        """The next calls meet these faults, None being an ordinary call."""
        self.faults.setdefault(call, []).extend(faults)

    def _meet(self, call: str, subject: object, *arguments: Any) -> Any:
        self.log.append(f"{call} {subject}")
        waiting = self.faults.get(call)
        fault = waiting.pop(0) if waiting else None
        if isinstance(fault, OSError):
            raise fault
        real = getattr(OsFileSystem, call)
        return fault(self, *arguments) if fault is not None else real(self, *arguments)

    def mark(self, step: str, moment: Moment) -> None:
        self.log.append(f"{moment} {step}")

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        descriptor = int(self._meet("open", path.name, path, flags, mode))
        self.names[descriptor] = path.name
        return descriptor

    def close(self, descriptor: int) -> None:
        self._meet("close", self.names.get(descriptor), descriptor)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        return int(self._meet("write", self.names[descriptor], descriptor, data))

    def read(self, descriptor: int, size_bytes: int) -> bytes:
        return bytes(self._meet("read", self.names[descriptor], descriptor, size_bytes))

    def fsync(self, descriptor: int) -> None:
        self._meet("fsync", self.names.get(descriptor, "?"), descriptor)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        self._meet("truncate", self.names[descriptor], descriptor, size_bytes)

    def link(self, source: Path, target: Path) -> None:
        self._meet("link", target.name, source, target)

    def rename_no_replace(self, source: Path, target: Path) -> None:
        self._meet("rename_no_replace", target.name, source, target)

    def unlink(self, path: Path) -> None:
        self._meet("unlink", path.name, path)

    def mkdir(self, path: Path) -> None:
        self._meet("mkdir", path.name, path)

    def fsync_dir(self, path: Path) -> None:
        self.log.append(f"fsync_dir {path.name}")
        waiting = self.faults.get("fsync_dir")
        fault = waiting.pop(0) if waiting else None
        if isinstance(fault, OSError):
            raise fault
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def order(self, *calls: str) -> list[str]:
        """The logged calls of these kinds, in order."""
        return [line for line in self.log if line.split()[0] in calls]


def error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def short(size_bytes: int) -> Callable[..., int]:
    """A write that takes only the first bytes."""
    return lambda _fs, descriptor, data: os.write(descriptor, bytes(data)[:size_bytes])
