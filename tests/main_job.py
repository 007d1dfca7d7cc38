"""The main job as its users run it: a process of its own, its one document, its books, and the phone's
truth.

Rules of this file: nothing here imports the collector. Documents, ledger and journals are read by a
second reader, written from the formats (design 9) alone, so that a shared mistake cannot hide. Waiting
for another process is bounded.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from hibor.sim.scenario import load_scenario

ROOT = Path(__file__).parents[1]
TIME_SCALE = 25.0
RUN_LIMIT_S = 150.0
WATCH_LIMIT_S = 60.0

RUN_KEYS = [
    "schema_version",
    "run_id",
    "status",
    "exit_code",
    "stop_reason",
    "task",
    "device",
    "quota",
    "counts",
    "timing",
    "items",
    "recovered",
    "provenance",
    "paths",
]
ITEM_KEYS = [
    "schema_version",
    "run_id",
    "item_index",
    "item_id",
    "report_id",
    "source",
    "state",
    "status",
    "stop_code",
    "error_or_note",
    "reused_without_new_trigger",
    "trigger_attempted",
    "triggered",
    "quota_state",
    "quota_reservation_event_id",
    "quota_terminal_event_id",
    "artifact_terminal_event_id",
    "title",
    "institution",
    "date",
    "analysts",
    "final_path",
    "bytes",
    "sha256",
    "page_count",
    "manifest_row_id",
]

SMALL_FEED = """\
description = "Six reports on one page, nothing in the cache of the phone."

[feed]
reports = 6
pinned = []
notices = []
adverts_every = 0
"""


class OneDocumentError(AssertionError):
    """stdout did not hold exactly one JSON document."""


@attrs.frozen
class Run:
    """One ended run: exit code, raw streams, and where its library is."""

    exit_code: int
    stdout: bytes
    stderr: str
    library: Path | None

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout; anything else there is an error."""
        text = self.stdout.decode("utf-8")
        try:
            value, end = json.JSONDecoder().raw_decode(text)
        except ValueError as error:
            raise OneDocumentError(f"no document: {text[:200]!r}; stderr: {self.stderr[-2000:]}") from error
        if text[end:] != "\n" or not isinstance(value, dict):
            raise OneDocumentError(f"more than one document: {text[end:][:200]!r}")
        return value

    @property
    def items(self) -> list[dict[str, Any]]:
        """The run's 26-key items."""
        found: list[dict[str, Any]] = self.document["items"]
        return found

    def summary(self) -> tuple[int, str, str | None]:
        """(exit code, status, stop reason's code): what a script looks at."""
        document = self.document
        reason = document["stop_reason"]
        return self.exit_code, document["status"], None if reason is None else reason["code"]


def command(options: Sequence[str | Path]) -> list[str]:
    """The main job's command line."""
    return [sys.executable, "-m", "hibor.run", *map(str, options)]


def environment() -> dict[str, str]:
    """The tests' environment without what would change the messages or the console."""
    found = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(found), "PYTHONDONTWRITEBYTECODE": "1"}


def start(options: Sequence[str | Path], cwd: Path = ROOT) -> subprocess.Popen[bytes]:
    """Start the main job; `finish` waits for it."""
    return subprocess.Popen(
        command(options), cwd=cwd, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=os.name == "posix",
    )  # fmt: skip


def finish(process: subprocess.Popen[bytes], library: Path | None) -> Run:
    """Wait for a started run."""
    try:
        stdout, stderr = process.communicate(timeout=RUN_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return Run(process.returncode, stdout, stderr.decode("utf-8", "replace"), library)


def option_of(options: Sequence[str | Path], name: str) -> str | None:
    """The value an option was given."""
    words = [str(word) for word in options]
    return words[words.index(name) + 1] if name in words else None


@attrs.define
class MainJob:
    """Starts runs and remembers their libraries, so that every one is audited when the test is over."""

    folder: Path
    runs: list[Run] = attrs.field(factory=list)
    fault_free: dict[Path, bool] = attrs.field(factory=dict)

    def __call__(self, *options: str | Path, scale: float | None = TIME_SCALE, cwd: Path = ROOT) -> Run:
        """Run to the end; English and the scaled phone unless the options say otherwise (`scale` None: as
        given).
        """
        with self.started(*options, scale=scale, cwd=cwd) as process:
            pass
        return self.ended(process, options)

    @contextmanager
    def started(
        self, *options: str | Path, scale: float | None = TIME_SCALE, cwd: Path = ROOT
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A run under way; `ended` collects it."""
        scaled = [] if scale is None else ["--time-scale", str(scale)]
        language = [] if "--lang" in options else ["--lang", "en"]
        process = start([*options, *scaled, *language], cwd)
        try:
            yield process
        except BaseException:
            process.kill()
            process.communicate()
            raise

    def ended(self, process: subprocess.Popen[bytes], options: Sequence[str | Path]) -> Run:
        """Collect a started run and note its library."""
        named = option_of(options, "--library")
        library = None if named is None else Path(named)
        run = finish(process, library)
        self.runs.append(run)
        if library is not None:
            scenario = load_scenario(option_of(options, "--scenario") or "default")
            self.fault_free[library] = self.fault_free.get(library, True) and not scenario.faults
        return run

    def scenario(self, text: str, name: str = "own.toml") -> Path:
        """A scenario file of the test's own."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def audit(self) -> None:
        """What holds after every run whatever it was about; called when the test is over."""
        for run in self.runs:
            check_streams(run)
        for library, fault_free in self.fault_free.items():
            for path in ledgers(library):
                read_ledger(path)
            if fault_free:
                check_served(library)


def run_each(folder: Path, wanted: Mapping[str, Sequence[str | Path]], at_once: int = 2) -> dict[str, Run]:
    """Independent runs, a few at once, audited when all have ended."""

    def one(name: str) -> tuple[Run, MainJob]:
        job = MainJob(folder)
        return job(*wanted[name]), job

    with ThreadPoolExecutor(at_once) as pool:
        ended = dict(zip(wanted, pool.map(one, wanted), strict=True))
    for _run, job in ended.values():
        job.audit()
    return {name: run for name, (run, _job) in ended.items()}


def check_streams(run: Run) -> None:
    """One document with the keys of design 3 on stdout, no traceback on stderr."""
    document = run.document
    assert list(document) == RUN_KEYS
    assert document["exit_code"] == run.exit_code
    assert "Traceback" not in run.stderr, run.stderr
    for item in (*document["items"], *document["recovered"]):
        assert list(item) == ITEM_KEYS


def check_served(library: Path) -> None:
    """Without a fault, the phone served exactly the families that are CONFIRMED, one for one."""
    confirmed = Counter(event["report_id"] for event in events(library) if event["type"] == "CONFIRMED")
    served = Counter(line["report_id"] for line in truth(library) if line["event"] == "served")
    assert served == confirmed, (served, confirmed)


def nothing_reserved(library: Path) -> bool:
    """No ledger below the library, and none anywhere in it, knows of a reservation."""
    return not any(event["type"] == "RESERVED" for event in events(library))


# -- a second reader of the formats of design 9 ----------------------------------------------------------


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The whole JSON lines of a file, none where there is no file."""
    if not path.is_file():
        return []
    raw = path.read_bytes()
    return [json.loads(line) for line in raw[: raw.rfind(b"\n") + 1].splitlines()]


def truth(library: Path) -> list[dict[str, Any]]:
    """What the simulated phone of a library really did."""
    return lines_of(library / "sim-phone" / "truth.jsonl")


def served(library: Path) -> list[str]:
    """Report ids the phone served, in order."""
    return [line["report_id"] for line in truth(library) if line["event"] == "served"]


def ledgers(library: Path) -> list[Path]:
    """Every ledger in a library."""
    return sorted(library.rglob("ledger.jsonl")) if library.is_dir() else []


def events(library: Path) -> list[dict[str, Any]]:
    """All ledger events of a library."""
    return [event for path in ledgers(library) for event in lines_of(path)]


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """A ledger's events, with the chain checked by hand."""
    raw = path.read_bytes()
    assert raw == b"" or raw.endswith(b"\n"), "the last line is unfinished"
    previous, found = "0" * 64, []
    for number, line in enumerate(raw.splitlines(), 1):
        event = json.loads(line)
        bare = {key: value for key, value in event.items() if key != "hash"}
        assert line == canonical(event)
        assert event["seq"] == number and event["prev"] == previous
        assert event["hash"] == hashlib.sha256(canonical(bare)).hexdigest()
        previous = hashlib.sha256(line).hexdigest()
        found.append(event)
    return found


def canonical(value: dict[str, Any]) -> bytes:
    """Keys sorted, no spaces, UTF-8."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def item_folder(library: Path, item: dict[str, Any]) -> Path:
    """The folder of a 26-key item."""
    name = f"{item['item_index']:02}-{item['item_id']}"
    return library / "runs" / item["run_id"] / "items" / name


def journal(library: Path, item: dict[str, Any]) -> list[dict[str, Any]]:
    """An item's journal records."""
    return lines_of(item_folder(library, item) / "journal.jsonl")


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Look every few milliseconds until `holds`, as long as the process runs and at most WATCH_LIMIT_S."""
    end_s = time.monotonic() + WATCH_LIMIT_S
    while time.monotonic() < end_s:
        if holds():
            return
        if process.poll() is not None:
            raise AssertionError(
                f"the run ended first: {process.communicate()[1].decode('utf-8', 'replace')}"
            )
        time.sleep(0.003)
    raise AssertionError("what the test waits for did not come")
