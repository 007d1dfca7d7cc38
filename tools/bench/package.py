"""The 6 + 4 package: the main job, the serial script and the planner's floor, side by side.

Rules of this file: job and script run at the same time, each on a phone of its own with the same seed, so
that both see the same machine; a run whose package is not whole is a failure, not a figure. The clock is
scaled by `time_scale`: what the machine itself costs counts that many times over, so a row is held against
its target at 1 only.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import attrs

from hibor.sim.process import start_phone
from hibor.sim.server import PrivateAdbServer

from .planner import Plan, plan
from .rows import Row

TARGETS = {"default": (1.05, 0.75), "slow": (1.05, 0.6)}
LIMIT_S = 3600


@attrs.frozen
class Round:
    """One side-by-side run: seconds of the phone's clock."""

    job_s: float
    script_s: float
    lean_s: float  # the script without its fixed waits
    floor: Plan


def rows(pace: str, rounds: int, time_scale: float, at_once: int) -> list[Row]:
    """Both rows of one pace; `at_once` rounds share the machine."""
    with ThreadPoolExecutor(at_once) as pool:
        done = list(pool.map(lambda _number: one_round(pace, time_scale), range(rounds)))
    to_floor, to_script = TARGETS[pace]
    floor_s = done[0].floor.total_s
    parts = attrs.asdict(done[0].floor)
    shown = ", ".join(f"{name.removesuffix('_s')} {value:.1f}" for name, value in parts.items())
    jobs = ", ".join(f"{one.job_s:.1f}" for one in done)
    scripts = ", ".join(f"{one.script_s:.1f}" for one in done)
    script_s = statistics.median(one.script_s for one in done)
    lean = [one.job_s / one.lean_s for one in done]
    judged = time_scale <= 1
    return [
        Row(
            name=f"6 + 4, {pace} pace",
            against="the planner's floor",
            limit=to_floor if judged else None,
            values=tuple(one.job_s / one.floor.total_s for one in done),
            note=f"job {jobs} s; floor {floor_s:.1f} s ({shown}); time scale {time_scale:g}",
        ),
        Row(
            name=f"6 + 4, {pace} pace",
            against="a serial adbutils script",
            limit=to_script if judged else None,
            values=tuple(one.job_s / one.script_s for one in done),
            note=f"script {scripts} s; floor / script {floor_s / script_s:.3f}; "
            f"job / script without its fixed waits {statistics.median(lean):.3f}",
        ),
    ]


def one_round(pace: str, time_scale: float) -> Round:
    """Job and script at the same time. Raises RuntimeError when one does not deliver everything."""
    with tempfile.TemporaryDirectory(prefix="hibor-bench-") as folder, ThreadPoolExecutor(2) as pool:
        base = Path(folder)
        job = pool.submit(run_job, base / "library", pace, time_scale)
        script = pool.submit(run_script, base, pace, time_scale)
        job_s, (script_s, waited_s) = job.result(), script.result()
        return Round(job_s, script_s, script_s - waited_s, plan(base / "library" / "sim-phone", pace))


def run_job(library: Path, pace: str, time_scale: float) -> float:
    """The main job with its embedded phone; its own figure of phone time."""
    command = [sys.executable, "-m", "hibor.run", "--library", str(library), "--scenario", pace, "--quiet"]
    done = _run([*command, "--time-scale", repr(time_scale)])
    document = json.loads(done.stdout)
    if document["status"] != "COMPLETE" or len(document["items"]) != 10:
        raise RuntimeError(f"the job ended with {document['status']}: {document['stop_reason']}")
    return float(document["timing"]["phone_time_s"])


def run_script(base: Path, pace: str, time_scale: float) -> tuple[float, float]:
    """The serial script on a phone of its own: seconds in all, and of its fixed waits."""
    state = base / "phone"
    with start_phone(state, pace, time_scale, embedded=True) as phone, PrivateAdbServer() as server:
        server.connect(phone.serial)
        command = [sys.executable, "-m", "tools.bench.serial", "--server", f"127.0.0.1:{server.port}"]
        command += ["--serial", phone.serial, "--state", str(state), "--out", str(base / "out")]
        document = json.loads(_run(command).stdout)
    if len(document["files"]) != 10:
        raise RuntimeError(f"the script took {len(document['files'])} of 10 reports")
    return float(document["phone_s"]), float(document["waited_s"])


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", timeout=LIMIT_S, check=False
    )
    if not done.stdout.strip():
        raise RuntimeError(f"{' '.join(command[1:3])} said nothing: {done.stderr[-2000:]}")
    return done
