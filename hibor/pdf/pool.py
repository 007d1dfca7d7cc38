"""The warm PDF worker, seen from the collector.

Rules of this file:

* One worker process, started at first use (or by `warm_up`) and kept. Requests are served one at a time;
  callers on other threads wait for their turn.
* A request has one deadline. When it passes, the worker is killed and the answer is `timed_out`. The parent
  also watches the worker's memory, because address-space limits are missing on Windows and macOS.
* A death convicts a file only when a second, fresh worker dies on it as well: a paid report is not written
  off because somebody killed a process or an earlier file left the worker damaged. A time-out convicts at
  once, it has used the time up.
* A worker that cannot be started says nothing about a file: `PdfWorkerUnavailable` is raised.
* The command line is a value, so that tests can put a hostile worker in place without a hook in here.
* Works by plain `subprocess` with pipes and a reader thread: no fork of a threaded process, the same on
  Windows. After a `fork` of ours the child drops the line; it belongs to the parent.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from hibor.pdf import memory, wire

log = logging.getLogger(__name__)

MEMORY_LIMIT_BYTES: Final = 2 << 30
"""What a worker may ask for; MuPDF needs a few times the file's size."""

START_TIMEOUT_S: Final = 30.0
"""How long a worker may take to load the library (antivirus software makes the first start slow)."""

REQUESTS_PER_WORKER: Final = 200
"""A worker is replaced after so many requests, so that a leak or fragmentation never accuses a good file."""


class PdfWorkerUnavailable(RuntimeError):
    """The worker process cannot be started. Says nothing about any file; the detail is for people."""


Meanwhile = Callable[[float], None]


@attrs.frozen
class Answer:
    """What came of one request: the worker's reply, or the finding its end amounts to."""

    observed: tuple[str, ...]
    reply: wire.Message = attrs.field(factory=dict)
    payload: bytes = b""


def default_command(memory_limit_bytes: int = MEMORY_LIMIT_BYTES) -> tuple[str, ...]:
    """The worker's command line: `-P` keeps the working folder's files from being imported."""
    return (sys.executable, "-P", "-B", "-m", "hibor.pdf.worker", str(memory_limit_bytes))


class _Worker:
    """One child process and the thread that reads its answers."""

    def __init__(self, command: Sequence[str]) -> None:
        root = str(Path(__file__).resolve().parents[2])
        search_path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        options: dict[str, Any] = {"start_new_session": True}
        if sys.platform == "win32":
            options = {"creationflags": subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP}
        try:
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env={**os.environ, "PYTHONPATH": search_path},
                **options,
            )
        except OSError as error:
            raise PdfWorkerUnavailable(f"the PDF worker does not start: {error.strerror or error}") from error
        self.served = 0
        self._answers: queue.SimpleQueue[tuple[wire.Message, bytes] | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="pdf-worker-reader", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        try:
            while (received := wire.receive(self.process.stdout.fileno())) is not None:
                self._answers.put(received)
        except (OSError, ValueError, wire.WireError) as error:
            log.info("PDF worker %d: %s", self.process.pid, error)
        self._answers.put(None)

    def send(self, message: wire.Message) -> bool:
        """Hand over a request; False when the worker is gone."""
        assert self.process.stdin is not None
        try:
            wire.send(self.process.stdin.fileno(), message)
        except (OSError, ValueError):
            return False
        return True

    def next_answer(
        self, deadline_s: float, memory_limit_bytes: int | None = None
    ) -> tuple[wire.Message, bytes] | str:
        """Wait for one answer; else `worker_died`, `timed_out` or `over_memory`."""
        while True:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return "timed_out"
            try:
                answer = self._answers.get(timeout=min(left_s, memory.WATCH_EVERY_S))
            except queue.Empty:
                resident = memory.resident_bytes(self.process) if memory_limit_bytes else None
                if resident is not None and memory_limit_bytes and resident > memory_limit_bytes:
                    return "over_memory"
                continue
            return "worker_died" if answer is None else answer

    def end(self, *, grace_s: float = 0.0) -> int:
        """Close the line, kill what is left, reap it; return the exit status (negative: the signal)."""
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        try:
            status = self.process.wait(timeout=grace_s) if grace_s > 0 else self.process.poll()
        except subprocess.TimeoutExpired:
            status = None
        if status is None:
            with suppress(OSError):
                self.process.kill()
            status = self.process.wait()
        self._reader.join(timeout=5.0)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status

    def abandon(self) -> None:
        """In a forked child: close our copies of the pipe and leave the process to the parent."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self.process.returncode = 0  # not ours to reap


class Pool:
    """A warm worker with its rules (see the module); safe to share between threads.

    `command` is the worker's command line, `memory_limit_bytes` what the parent's watch allows.
    """

    def __init__(
        self,
        *,
        command: Sequence[str] | None = None,
        memory_limit_bytes: int = MEMORY_LIMIT_BYTES,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._command = tuple(command or default_command(memory_limit_bytes))
        self._memory_limit_bytes = memory_limit_bytes
        self._start_timeout_s = start_timeout_s
        self._lock = threading.Lock()
        self._worker: _Worker | None = None
        self._ids = 0

    @property
    def worker_pid(self) -> int | None:
        """The living worker's process id, None when there is none."""
        worker = self._worker
        return worker.process.pid if worker is not None and worker.process.poll() is None else None

    def warm_up(self) -> None:
        """Start the worker now, so the first check need not. Raises `PdfWorkerUnavailable`."""
        with self._lock:
            self._ready_worker()

    def ask(self, message: wire.Message, *, timeout_s: float, meanwhile: Meanwhile | None = None) -> Answer:
        """Send one request and wait at most `timeout_s` seconds; `meanwhile` runs while the worker works.

        The time begins when the worker is free and ready: waiting for another caller's file, or for the
        worker's start, is not this file's fault. `meanwhile` is told when it ends (monotonic seconds).

        Raises `PdfWorkerUnavailable` when no worker can be started.
        """
        with self._lock:
            self._ready_worker()
            deadline_s = time.monotonic() + timeout_s
            finding = "worker_died"
            for attempt in (1, 2):
                outcome = self._once(message, deadline_s, meanwhile if attempt == 1 else None)
                if isinstance(outcome, Answer):
                    if "over_memory" not in outcome.observed or attempt == 2:
                        return outcome
                    self._drop("over memory")
                    continue
                finding = outcome
                if finding == "timed_out":
                    break
            return Answer(observed=(finding,))

    def close(self) -> None:
        """End the worker; the pool starts a new one when it is asked again."""
        with self._lock:
            worker, self._worker = self._worker, None
            if worker is not None:
                worker.end(grace_s=1.0)

    def abandon(self) -> None:
        """Forget the worker without ending it: for a forked child, whose parent goes on using it."""
        worker, self._worker, self._lock = self._worker, None, threading.Lock()
        if worker is not None:
            worker.abandon()

    def _once(self, message: wire.Message, deadline_s: float, meanwhile: Meanwhile | None) -> Answer | str:
        worker = self._ready_worker()
        self._ids += 1
        timeout_s = max(0.001, deadline_s - time.monotonic())
        request = {**message, "id": self._ids, "timeout_s": timeout_s}
        if not worker.send(request):  # it died while idle: not this file's doing
            self._drop("found dead")
            worker = self._ready_worker()
            if not worker.send(request):
                self._drop("died at once")
                return "worker_died"
        worker.served += 1
        try:
            if meanwhile is not None:
                meanwhile(deadline_s)
            answer = worker.next_answer(deadline_s, self._memory_limit_bytes)
        except BaseException:  # interrupted: its answer would be taken for the next request's
            self._drop("interrupted")
            raise
        if isinstance(answer, str):
            return self._ended(answer)
        reply, payload = answer
        if reply.get("id") != self._ids:
            return self._ended("worker_died")
        return Answer(observed=tuple(map(str, reply.get("observed", ()))), reply=reply, payload=payload)

    def _ended(self, finding: str) -> str:
        """Clear away a worker that gave no answer; a processor-time kill is a time-out."""
        status = self._drop(finding)
        if finding == "worker_died" and status == -int(getattr(signal, "SIGXCPU", 0)) != 0:
            return "timed_out"
        return finding

    def _drop(self, reason: str) -> int:
        worker, self._worker = self._worker, None
        if worker is None:
            return 0
        status = worker.end()
        log.warning("PDF worker %d ended (%s), status %d", worker.process.pid, reason, status)
        return status

    def _ready_worker(self) -> _Worker:
        """The warm worker, or a new one that has said hello."""
        worker = self._worker
        if worker is not None and (worker.process.poll() is not None or worker.served >= REQUESTS_PER_WORKER):
            self._worker = None
            worker.end(grace_s=1.0)
            worker = None
        if worker is None:
            worker = _Worker(self._command)
            hello = worker.next_answer(time.monotonic() + self._start_timeout_s)
            if isinstance(hello, str) or not hello[0].get("ready"):
                status = worker.end()
                raise PdfWorkerUnavailable(
                    f"the PDF worker does not start (status {status}); is pymupdf installed here?"
                )
            self._worker = worker
        return worker
