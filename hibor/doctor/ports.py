"""Who listens on a TCP port of this machine: the first question when adb does not answer (fault F05).

Rules of this file: only this machine is looked at, without rights beyond the user's; what cannot be told is
None.
"""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_LISTENING: Final = "0A"
_ASK_LIMIT_S: Final = 10.0


def port_holder(port: int) -> str | None:
    """`name (pid N)` of the program that listens on `port`, None when there is none or it cannot be told."""
    try:
        if sys.platform == "linux":
            return _holder_on_linux(port)
        if sys.platform == "win32":
            return _holder_on_windows(port)
        return _holder_by_lsof(port)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _holder_on_linux(port: int) -> str | None:
    sockets = set()
    for table in ("net/tcp", "net/tcp6"):
        for line in (_PROC / table).read_text().splitlines()[1:] if (_PROC / table).exists() else ():
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rsplit(":", 1)[1], 16) == port:
                sockets.add(f"socket:[{fields[9]}]")
    for process in _PROC.iterdir() if sockets else ():
        if process.name.isdigit() and _has_socket(process, sockets):
            return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
    return None


def _has_socket(process: Path, sockets: set[str]) -> bool:
    try:
        return any(os.readlink(entry) in sockets for entry in (process / "fd").iterdir())
    except OSError:
        return False  # another user's process, or one that has just ended


def _said(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, timeout=_ASK_LIMIT_S, check=False)
    return done.stdout.decode(errors="replace")


def _holder_on_windows(port: int) -> str | None:
    pattern = rf"^\s*TCP\s+\S+:{port}\s+\S+\s+LISTENING\s+(\d+)"
    found = re.search(pattern, _said("netstat", "-ano", "-p", "TCP"), re.MULTILINE)
    if found is None:
        return None
    rows = list(csv.reader(io.StringIO(_said("tasklist", "/FI", f"PID eq {found[1]}", "/FO", "CSV", "/NH"))))
    name = rows[0][0] if rows and rows[0] else "?"
    return f"{name} (pid {found[1]})"


def _holder_by_lsof(port: int) -> str | None:
    said = _said("lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc")
    facts = {line[0]: line[1:] for line in said.splitlines() if line}
    return f"{facts.get('c', '?')} (pid {facts['p']})" if "p" in facts else None
