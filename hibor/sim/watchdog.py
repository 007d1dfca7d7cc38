"""Runs one program and ends it when the starter ends, however that happens.

Started as a script (`python -I -S watchdog.py PROGRAM ARGUMENT…`), it imports nothing of this project, so it
is up in a few milliseconds. The starter holds the other end of its stdin and never writes: end of file means
that the starter is gone (returned, crashed, killed with SIGKILL) or asks for the end. As the program's parent
the watchdog knows exactly whom it ends; a number that meanwhile belongs to another process cannot be hit.

On Linux the program also gets a parent-death signal, for the case that the watchdog itself is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading

GRACE_S = 3.0
_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Ask Linux to end this process with its parent; between fork and exec, in a one-thread parent."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the program to end, then make it."""
    with contextlib.suppress(OSError):  # it may have ended by itself
        process.terminate()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()


def main(arguments: list[str]) -> int:
    """Start the program, report its process number on stdout, wait for its end or the starter's.

    With `--keep-stdout` in front the program's stdout follows that first line, else it is dropped. With
    `--remove=FOLDER` in front the folder is removed at the end: the starter may be past doing it.
    """
    keep_stdout = False
    remove = ""
    while arguments and arguments[0].startswith("--"):
        option, *arguments = arguments
        keep_stdout = keep_stdout or option == "--keep-stdout"
        if option.startswith("--remove="):
            remove = option.partition("=")[2]
    for number in (signal.SIGINT, getattr(signal, "SIGHUP", None)):
        if number is not None:
            # Ctrl-C reaches the whole console; the collector decides when the phone may go.
            signal.signal(number, signal.SIG_IGN)
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=None if keep_stdout else subprocess.DEVNULL,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,
    )
    os.write(1, f"{process.pid}\n".encode())

    def wait_for_starter() -> None:
        while os.read(0, 1):
            pass
        _end(process)

    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    threading.Thread(target=wait_for_starter, daemon=True).start()
    try:
        code = process.wait()
    finally:
        _end(process)
        if remove:
            shutil.rmtree(remove, ignore_errors=True)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
