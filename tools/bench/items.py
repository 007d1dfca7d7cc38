"""Memory of a run in the number of its items: ten reuses against many, on the simulated phone.

Rules of this file: every item goes the whole way from the phone's cache to a final file, so what a run
keeps of an item is kept; discovery reads the same list in both runs. The figure is what the larger run's
largest resident size is above the smaller's. Linux and macOS only: elsewhere the system does not tell a
child's largest size.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

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
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(json.dumps({"peak": peak, "document": json.loads(done.stdout)}))
"""


def memory_row(many: int) -> Row:
    """Megabytes more for `many` items than for ten; the simulated list holds at most 150 reports."""
    name = f"memory of a run, {many:,} items"
    try:
        import resource  # noqa: F401
    except ImportError:
        note = "not measured: this system does not tell a process's largest size"
        return Row(name=name, against=f"{FEW} items", limit=LIMIT_MB, values=(), unit="MB", note=note)
    few_mb, more_mb = _peak_mb(FEW, many), _peak_mb(many, many)
    return Row(
        name=name, against=f"{FEW} items", limit=LIMIT_MB, values=(more_mb - few_mb,), unit="MB",
        note=f"{more_mb:.0f} MB against {few_mb:.0f} MB, one list of {many:,} reports; "
        f"{(more_mb - few_mb) * 1024 / (many - FEW):.0f} kB an item",
    )  # fmt: skip


def _peak_mb(count: int, reports: int) -> float:
    with tempfile.TemporaryDirectory(prefix="hibor-bench-") as folder:
        base = Path(folder)
        scenario, task = base / "scenario.toml", base / "task.toml"
        ranks = list(range(1, reports + 1))
        scenario.write_text(_SCENARIO.format(reports=reports, ranks=ranks), encoding="utf-8")
        task.write_text(_TASK.format(count=count), encoding="utf-8")
        command = [
            sys.executable,
            "-c",
            _WATCHED,
            sys.executable,
            "-m",
            "hibor.run",
            "--quiet",
            "--task",
            str(task),
        ]
        command += ["--scenario", str(scenario), "--time-scale", repr(TIME_SCALE)]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    figures = json.loads(done.stdout)
    document = figures["document"]
    delivered = sum(item["status"] in ("SUCCESS", "DUPLICATE") for item in document["items"])
    if delivered < count:
        raise RuntimeError(f"{delivered} of {count} items were delivered: {document['stop_reason']}")
    unit = 1024 if sys.platform == "darwin" else 1
    return float(figures["peak"]) / unit / 1024
