"""Starting and stopping a simulated phone as a process of its own.

Rules: the phone dies with whoever started it, however that one ends: its stdin is a pipe that closes with
us, and it also watches our process number. It is stopped by its own handle only. Its complaints go to
`phone.log` in the state folder.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from hibor.clock import ScaledClock
from hibor.sim.state import PDF_FOLDER, phone_clock

__all__ = ["PhoneStartError", "RunningPhone", "phone_clock", "start_phone"]

START_LIMIT_S = 30.0
STOP_LIMIT_S = 10.0
LEAST_FREE_BYTES = 4_000_000
"""With less than this its state and files have no room."""
EXIT_BUSY = 75
"""Exit code of a phone whose state folder another one holds."""


class PhoneStartError(RuntimeError):
    """The phone's process did not come up; the text holds the end of its log. `busy`: the folder is in use.
    """

    def __init__(self, said: str, *, busy: bool = False) -> None:
        super().__init__(said)
        self.busy = busy


class RunningPhone:
    """A phone that runs for us. Usable as a context manager."""

    def __init__(self, process: subprocess.Popen[bytes], state_dir: Path, ready: dict[str, Any]) -> None:
        self._process = process
        self.state_dir = state_dir
        self.port = int(ready["port"])
        self.serial = str(ready["serial"])
        self.pid = process.pid
        self.more_ports = tuple(int(port) for port in ready["more_ports"])

    @property
    def running(self) -> bool:
        """Whether the process is still there."""
        return self._process.poll() is None

    def clock(self) -> ScaledClock:
        """The phone's time line, for the collector (without the phone's own skew)."""
        return phone_clock(self.state_dir)

    def stop(self) -> None:
        """Let the phone save its state and end; harmless when repeated."""
        _end(self._process)

    def kill(self) -> None:
        """End the phone without a chance to save, as a flat battery does."""
        self._process.kill()
        self._process.wait(STOP_LIMIT_S)
        _close_pipes(self._process)

    def __enter__(self) -> RunningPhone:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_LIMIT_S)
    _close_pipes(process)


def _why_silent(state_dir: Path) -> str:
    """Why a phone ended without a word in its log: where the disk is full there is no log either."""
    free_bytes = shutil.disk_usage(state_dir).free
    if free_bytes < LEAST_FREE_BYTES:
        return f"the disk is full: {free_bytes / 1e6:.1f} MB are free for {state_dir}; make room there"
    return "the simulated phone did not answer"


def _open_log(path: Path) -> BinaryIO:
    """The phone's log, for appending. Raises PhoneStartError where none can be, and never waits for a FIFO's
    reader.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags, 0o644)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "something that is no file lies in its place")
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise PhoneStartError(_why_silent(path.parent)) from error
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            where = f"{path.parent} cannot be written ({error.strerror})"
            raise PhoneStartError(f"{where}; a practice library needs a folder that can") from error
        raise PhoneStartError(
            f"{path} cannot be used ({error.strerror}). Delete the folder {path.parent} and say the command "
            "again: a new practice phone is made; the library keeps its reports and books."
        ) from error
    return os.fdopen(descriptor, "ab")


def _said(log_path: Path, start: int) -> str:
    """What a phone that ended said in its log from `start` on; of a defect its last line and the place of
    the rest.
    """
    said = log_path.read_bytes()[start:].decode(errors="replace").strip()
    if "Traceback (most recent call last)" in said:
        return f"{said.splitlines()[-1]}; {log_path} says more"
    return said


def start_phone(
    state_dir: Path, scenario: str | Path = "default", time_scale: float = 1.0,
    parent_pid: int | None = None, *, port: int = 0, embedded: bool = False,
    not_before: datetime | None = None,
) -> RunningPhone:
    """Start a phone on `state_dir` and wait until it answers.

    `scenario` is a name or a file; `parent_pid` (default: this process) is whom the phone dies with;
    `embedded` starts its day at 09:00, and `not_before` (aware) is the earliest its clock begins. Raises
    `PhoneStartError`, e.g. for a broken scenario or a state folder in use.
    """
    state_dir = state_dir.absolute()
    state_dir.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "hibor.sim", "--port", str(port), "--state", str(state_dir),
        "--scenario", str(scenario), "--time-scale", repr(time_scale), "--until-eof",
        "--parent-pid", str(os.getpid() if parent_pid is None else parent_pid), "--lang", "en",
    ]
    if embedded:
        command.append("--embedded")
    if not_before is not None:
        command += ["--not-before", not_before.isoformat()]
    log_path = state_dir / "phone.log"
    with _open_log(log_path) as log:
        log_start = log.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            # Its own group: Ctrl-C in the console is the collector's to handle; the phone must outlive it.
            start_new_session=os.name == "posix",
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    ready = _first_line(process, state_dir / PDF_FOLDER)
    if ready is None:
        _end(process)
        busy = process.returncode == EXIT_BUSY
        raise PhoneStartError(_said(log_path, log_start) or _why_silent(state_dir), busy=busy)
    return RunningPhone(process, state_dir, ready)


def _first_line(process: subprocess.Popen[bytes], pdf_folder: Path) -> dict[str, Any] | None:
    """The phone's ready line; None when it ended or stayed silent.

    A phone whose cache is filled before its first start makes those PDFs first: as long as there are more
    of them, it is not silent.
    """
    output = process.stdout
    assert output is not None
    lines: list[bytes] = []
    reader = threading.Thread(target=lambda: lines.append(output.readline()), daemon=True)
    reader.start()
    made = _changed_ns(pdf_folder)
    reader.join(START_LIMIT_S)
    while reader.is_alive() and _changed_ns(pdf_folder) != made:
        made = _changed_ns(pdf_folder)
        reader.join(START_LIMIT_S)
    if not lines or not lines[0]:
        if reader.is_alive():
            process.kill()
        return None
    ready: dict[str, Any] = json.loads(lines[0])
    return ready


def _changed_ns(folder: Path) -> int:
    """When an entry was last made in the folder; 0 while there is none."""
    try:
        return folder.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
