"""How much memory another process holds, for platforms that cannot limit it themselves.

Rules of this file: resident bytes or None; never an exception, because a watch that fails must not fail the
check it guards. Linux reads `/proc`, Windows asks the process handle, other POSIX systems (macOS, where
`RLIMIT_AS` is not enforced) ask `ps`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

WATCH_EVERY_S = 0.25
"""How often the parent looks; `ps` costs a few milliseconds."""


def resident_bytes(process: subprocess.Popen[bytes]) -> int | None:
    """Resident memory of `process` in bytes; None when the platform does not tell or it has ended."""
    try:
        if sys.platform == "win32":
            return _windows_resident_bytes(int(getattr(process, "_handle")))  # noqa: B009
        if sys.platform.startswith("linux"):
            with open(f"/proc/{process.pid}/statm", "rb") as stream:
                return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        listing = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(process.pid)], capture_output=True, timeout=5, check=False
        )
        return int(listing.stdout.split()[0]) * 1024
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def _windows_resident_bytes(handle: int) -> int | None:
    """WorkingSetSize of PROCESS_MEMORY_COUNTERS (psapi), by `K32GetProcessMemoryInfo`."""
    import ctypes

    fields = ("PageFaultCount", "PeakWorkingSetSize", "WorkingSetSize", "QuotaPeakPagedPoolUsage")
    more = ("QuotaPagedPoolUsage", "QuotaPeakNonPagedPoolUsage", "QuotaNonPagedPoolUsage")
    last = ("PagefileUsage", "PeakPagefileUsage")

    class Counters(ctypes.Structure):
        _fields_ = [
            ("cb", ctypes.c_uint32),
            (fields[0], ctypes.c_uint32),
            *((name, ctypes.c_size_t) for name in (*fields[1:], *more, *last)),
        ]

    counters = Counters()
    counters.cb = ctypes.sizeof(Counters)
    kernel32: Any = getattr(ctypes, "WinDLL")("kernel32", use_last_error=True)  # noqa: B009
    kernel32.K32GetProcessMemoryInfo.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32]
    kernel32.K32GetProcessMemoryInfo.restype = ctypes.c_int
    told = kernel32.K32GetProcessMemoryInfo(handle, ctypes.byref(counters), counters.cb)
    return int(counters.WorkingSetSize) if told else None
