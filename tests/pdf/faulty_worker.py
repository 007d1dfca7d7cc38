"""A PDF worker that misbehaves on request, put in place through the pool's `command` (never by a hook).

Arguments: mode, and a scratch file for modes that misbehave once. A file whose name contains `evil` meets the
fault; every other file is checked by the real worker's code, so that "the next file goes on" is real.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from hibor.pdf import wire, worker

MODE = sys.argv[1]
SCRATCH = sys.argv[2] if len(sys.argv) > 2 else ""


def _misbehave() -> None:
    if MODE in ("segv", "abrt", "kill"):
        os.kill(os.getpid(), {"segv": signal.SIGSEGV, "abrt": signal.SIGABRT, "kill": signal.SIGKILL}[MODE])
    elif MODE == "die-once" and not os.path.exists(SCRATCH):
        with open(SCRATCH, "xb"):
            pass
        os._exit(1)
    elif MODE == "spin":
        while True:
            pass
    elif MODE == "hang":
        time.sleep(600)
    elif MODE == "raise-memory":
        raise MemoryError
    elif MODE == "bomb":
        hoard = []
        while len(hoard) < 64:
            hoard.append(bytearray(b"\1") * (64 << 20))
        time.sleep(600)
    elif MODE == "limited-bomb":
        bytearray(8 << 30)
    elif MODE == "print":
        print("MuPDF error: noise on sys.stdout", flush=True)
        os.write(1, b"noise on descriptor 1\n")
        os.write(2, b"noise on descriptor 2\n")


def check(request: wire.Message) -> tuple[wire.Message, bytes]:
    """Misbehave for an evil name, then answer as the real worker does."""
    if "evil" in os.path.basename(request["path"]):
        _misbehave()
    return worker.check(request)


def main() -> int:
    """Serve as the real worker, but for the mode."""
    if MODE == "no-start":
        return 3
    line = worker.take_line()
    if MODE == "garbage":
        os.write(line[1], b"\xff" * 64)
        return 0
    worker.limit_process(1 << 40 if MODE == "bomb" else 2 << 30)
    return worker.serve(line, {"check": check, "thumbnail": worker.thumbnail})


if __name__ == "__main__":
    raise SystemExit(main())
