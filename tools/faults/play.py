"""One scenario played: a run with the fault, then a second run of the same library with the fault gone.

Rules of this file: every run is a process of its own with a real-time limit, as a person starts it; a run
that does not end by itself is ended by its own process group and reported as a hang. Nothing else is started
or ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import attrs

from tools.faults.books import Books, read_books

SPARE_S = 120.0
"""Real seconds a run may take beside its window: start, PDFs, a busy machine."""
WINDOW_S = 600.0
ROOT = Path(__file__).parents[2]


@attrs.frozen
class RunSeen:
    """One ended run. `document` is None when stdout did not hold exactly one JSON document; `hung` when it
    was ended by us, because it took longer than its window and `SPARE_S`."""

    exit_code: int
    document: dict[str, Any] | None
    stderr: str
    hung: bool
    real_s: float
    books: Books


@attrs.frozen
class Played:
    """A scenario's two runs; `after` is the run without the fault."""

    name: str
    first: RunSeen
    after: RunSeen


def play(name: str, folder: Path, scale: float) -> Played:
    """Play the scenario `name` in a new library below `folder`."""
    library = folder / name
    first = _run(library, name, scale)
    return Played(name, first, _run(library, "default", scale))


def _run(library: Path, scenario: str, scale: float) -> RunSeen:
    command = [
        sys.executable, "-m", "hibor.run", "--library", str(library), "--scenario", scenario,
        "--time-scale", str(scale), "--lang", "en",
    ]  # fmt: skip
    begun_s = time.monotonic()
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=os.name == "posix",
    )  # fmt: skip
    hung = False
    try:
        stdout, stderr = process.communicate(timeout=WINDOW_S / scale + SPARE_S)
    except subprocess.TimeoutExpired:
        hung = True
        _end(process)
        stdout, stderr = process.communicate()
    document = one_document(stdout)
    took_s = time.monotonic() - begun_s
    books = read_books(library, document)
    return RunSeen(process.returncode, document, stderr.decode("utf-8", "replace"), hung, took_s, books)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a run that hangs, and what it started."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def one_document(stdout: bytes) -> dict[str, Any] | None:
    """The one JSON document on stdout, None when there is none, or more."""
    try:
        text = stdout.decode("utf-8")
        value, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None
    return value if text[end:] == "\n" and isinstance(value, dict) else None
