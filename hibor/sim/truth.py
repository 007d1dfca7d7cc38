"""`truth.jsonl`: what the simulated phone really did, for whoever wants to check a collector's books.

Rules: one JSON line per event (format: design 9), written with one `write` on a descriptor opened for
appending, so a kill leaves whole lines or one torn last line, which the next start cuts off. `t` is
seconds of the phone's clock since the state folder's first start; it never goes back. `served` is written
before the server's answer leaves the phone: what the account paid for is in the file even when the phone
dies at that instant.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import attrs

from hibor.reading import read_kept

EVENTS = ("tap", "served", "refused", "opened", "exported", "shell")


@attrs.frozen
class TruthEvent:
    """One line: phone seconds since the first start, the event, its report, and words for people."""

    t: float
    event: str
    report_id: str | None
    detail: str


class TruthLog:
    """Appends events to one file. Safe from several threads."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        whole = _whole_lines(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._descriptor = os.open(path, flags, 0o644)
        if whole != os.fstat(self._descriptor).st_size:
            os.ftruncate(self._descriptor, whole)

    def append(self, event: TruthEvent) -> None:
        """Write one line."""
        line = json.dumps({"schema_version": 1, **attrs.asdict(event)}, ensure_ascii=False) + "\n"
        # A title may hold a lone surrogate only by mistake; the log must not fail over a name.
        data = line.encode("utf-8", errors="replace")
        with self._lock:
            os.write(self._descriptor, data)

    def close(self) -> None:
        """Close the file; nothing can be appended afterwards."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


def _whole_lines(path: Path) -> int:
    """Bytes up to and with the last newline."""
    try:
        return read_kept(path).rfind(b"\n") + 1
    except FileNotFoundError:
        return 0


def read_truth(path: Path) -> list[TruthEvent]:
    """All whole lines of a truth file, in order; an unfinished last line is left out."""
    try:
        text = path.read_bytes()[: _whole_lines(path)].decode("utf-8")
    except FileNotFoundError:
        return []
    events: list[TruthEvent] = []
    for line in text.splitlines():
        fields = json.loads(line)
        events.append(TruthEvent(fields["t"], fields["event"], fields["report_id"], fields["detail"]))
    return events


def served_counts(events: list[TruthEvent]) -> dict[str, int]:
    """How often each report was really served (charged)."""
    counts: dict[str, int] = {}
    for event in events:
        if event.event == "served" and event.report_id is not None:
            counts[event.report_id] = counts.get(event.report_id, 0) + 1
    return counts
