"""Memory of a run in the number of its items, and of discovery in the pages it reads, on the simulated phone.

Rules of this file: every item goes the whole way from the phone's cache to a final file, so what a run
keeps of an item is kept. Discovery alone reads a short list and a long one; then a run takes ten reports of
the long one, and another all of it, whose discovery ends at the first known page. A figure is what the
larger process's largest resident size is above the smaller's: the command's own process, not the simulated
phone's. Linux and macOS only: elsewhere the system does not tell it. On Linux `ru_maxrss` begins with what
the process that started this one held, so the kernel's own mark is read there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from .rows import Row

FEW: Final = 10
TIME_SCALE: Final = 40.0
LIMIT_MB: Final = 32.0
_SCENARIO: Final = """description = "Bench: everything is in the cache already."
[feed]
reports = {reports}
pinned = []
[pace]
dump_s = 0.2
tap_s = 0.1
inject_s = 0.01
load_s = 0.05
pull_bytes_per_s = 1e9
[quota]
limit = 20
[cache]
prefilled = {ranks}
"""
_TASK: Final = """library = "library"
count = {count}
deadline_s = 86400
account = "simulated"
[select]
since_days = 365
"""
_WATCHED: Final = """
import contextlib, io, json, resource, runpy, sys
said, sys.argv = io.StringIO(), sys.argv[1:]
with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
try:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"peak": peak, "document": json.loads(said.getvalue())}))
"""


def memory_rows(many: int) -> list[Row]:
    """Megabytes more for `many` items than for ten, and for a list of `many` reports than for one of ten."""
    items = (f"memory of a run, {many:,} items", f"{FEW} items")
    pages = (f"memory of discovery, {many:,} reports", f"{FEW} reports")
    try:
        import resource  # noqa: F401
    except ImportError:
        note = "not measured: this system does not tell a process's largest size"
        return [
            Row(name=name, against=against, limit=LIMIT_MB, values=(), unit="MB", note=note)
            for name, against in (items, pages)
        ]
    with tempfile.TemporaryDirectory(prefix="hibor-bench-") as folder:
        short, long = _Phone(Path(folder) / "short", FEW), _Phone(Path(folder) / "long", many)
        read = (short.discover_mb(), long.discover_mb())
        collected = (long.collect_mb(FEW), long.collect_mb(many))
    return [_row(items, collected, many, "an item"), _row(pages, read, many, "a report")]


def _row(names: tuple[str, str], sizes_mb: tuple[float, float], many: int, each: str) -> Row:
    less_mb, more_mb = sizes_mb
    growth_kb = (more_mb - less_mb) * 1024 / (many - FEW)
    note = f"{more_mb:.0f} MB against {less_mb:.0f} MB; {growth_kb:.0f} kB {each}"
    values = (more_mb - less_mb,)
    return Row(name=names[0], against=names[1], limit=LIMIT_MB, values=values, unit="MB", note=note)


class _Phone:
    """A library with a phone of its own, on which every report is in the cache already."""

    def __init__(self, base: Path, reports: int) -> None:
        base.mkdir()
        self._base, self._reports = base, reports
        self._scenario = base / "scenario.toml"
        ranks = list(range(1, reports + 1))
        self._scenario.write_text(_SCENARIO.format(reports=reports, ranks=ranks), encoding="utf-8")

    def discover_mb(self) -> float:
        """Peak of a scan of the whole list."""
        peak_mb, document = self._peak("hibor.discover", "--json", "--task", self._task(FEW))
        if document["new"] != self._reports:
            raise RuntimeError(f"{document['new']} of {self._reports} reports were read")
        return peak_mb

    def collect_mb(self, count: int) -> float:
        """Peak of a run that delivers `count` reports."""
        peak_mb, document = self._peak("hibor.run", "--task", self._task(count))
        delivered = sum(item["status"] in ("SUCCESS", "DUPLICATE") for item in document["items"])
        if delivered < count:
            raise RuntimeError(f"{delivered} of {count} items were delivered: {document['stop_reason']}")
        return peak_mb

    def _task(self, count: int) -> str:
        path = self._base / f"{count}.toml"
        path.write_text(_TASK.format(count=count), encoding="utf-8")
        return str(path)

    def _peak(self, module: str, *options: str) -> tuple[float, Any]:
        command = [sys.executable, "-c", _WATCHED, module, "--quiet", *options]
        command += ["--scenario", str(self._scenario), "--time-scale", repr(TIME_SCALE)]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
        if done.returncode:
            raise RuntimeError(f"{module}: {done.stderr[-2000:]}")
        figures = json.loads(done.stdout)
        unit = 1024 if sys.platform == "darwin" else 1
        return float(figures["peak"]) / unit / 1024, figures["document"]
