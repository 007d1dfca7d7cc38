"""How long a page of 50 entries takes to be judged against a large seen set, three ways side by side.

`python -m tools.bench.discovery [--rows N] [--small N] [--pages N] [--folder DIR] [--json]`

Each way reads the same ids in a process of its own, so that memory can be compared:

* local: this project's local host, its snapshot by read transaction;
* archive: the way gallery-dl keeps its archive, one `SELECT` per id on a table of entries;
* snapshot: the way tasklite dispatches a job, all uids read into a set in memory, then set membership.

Pages are drawn at random over all ids, half of them known pages, half with half of their ids unknown; the
page cache is empty at the start. 'decision' is one page's judgement; 'dispatch' is what comes before the
first one.
"""

from __future__ import annotations

import json
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

PAGE = 50
WAYS = ("local", "archive", "snapshot")


def uid_at(number: int) -> str:
    """The uid of row `number`: report-like ids in no order (a multiplicative walk over 2^40)."""
    return f"catalogue::HB{(number * 0x9E3779B97F4A7C15) % (1 << 40):013d}"


def build(folder: Path, rows: int) -> float:
    """Writes both files with `rows` ids; returns seconds of the local host's seed call."""
    from hibor.hosts.local import LocalHost

    with LocalHost(folder / f"local-{rows}.sqlite3", lock_wait_s=60) as host:
        started = time.perf_counter()
        added = host.seed(uid_at(number) for number in range(rows))
        seed_s = time.perf_counter() - started
    if added != rows:
        raise RuntimeError(f"seeded {added} of {rows}")
    connection = sqlite3.connect(folder / f"archive-{rows}.sqlite3")
    connection.execute("CREATE TABLE archive (entry TEXT PRIMARY KEY) WITHOUT ROWID")
    connection.executemany("INSERT INTO archive VALUES (?)", ((uid_at(number),) for number in range(rows)))
    connection.commit()
    connection.close()
    return seed_s


def pages_of(rows: int, count: int) -> list[tuple[list[str], int]]:
    """`count` pages of uids with the number of known ones among them; every other page is half unknown."""
    random_source = random.Random(rows)
    pages = []
    for index in range(count):
        known = PAGE if index % 2 else PAGE // 2
        numbers = [random_source.randrange(rows) for _ in range(known)]
        numbers += [rows + random_source.randrange(rows) for _ in range(PAGE - known)]
        pages.append(([uid_at(number) for number in numbers], len(set(numbers[:known]))))
    return pages


def resident_bytes() -> int | None:
    """Resident memory of this process now, where the system says so."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text("ascii").splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024


def measure(folder: Path, way: str, rows: int, count: int) -> dict[str, Any]:
    """One way's figures, in this process: dispatch_s, decision_s (median), resident_bytes."""
    from hibor.hosts.local_context import LocalContext, LocalJob
    from hibor.hosts.local_store import Store

    pages = pages_of(rows, count)
    before = resident_bytes()
    started = time.perf_counter()
    if way == "local":
        from datetime import UTC, datetime

        store = Store(folder / f"local-{rows}.sqlite3", 60)
        context = LocalContext(store, LocalJob("bench", "x", {}, 1), datetime.now(UTC))
        decide = context.seen_uids
    elif way == "archive":
        cursor = sqlite3.connect(folder / f"archive-{rows}.sqlite3").cursor()

        def decide(uids: Any) -> set[str]:
            query = "SELECT 1 FROM archive WHERE entry=? LIMIT 1"
            return {uid for uid in uids if cursor.execute(query, (uid,)).fetchone()}
    else:
        connection = sqlite3.connect(folder / f"archive-{rows}.sqlite3")
        seen = frozenset(uid for (uid,) in connection.execute("SELECT entry FROM archive"))

        def decide(uids: Any) -> set[str]:
            return {uid for uid in uids if uid in seen}

    dispatch_s = time.perf_counter() - started
    times = []
    for page, known in pages:
        started = time.perf_counter()
        found = decide(page)
        times.append(time.perf_counter() - started)
        if len(found) != known:
            raise RuntimeError(f"{way} judged a page wrongly: {len(found)} known instead of {known}")
    after = resident_bytes()
    return {
        "way": way,
        "rows": rows,
        "dispatch_s": dispatch_s,
        "decision_s": statistics.median(times),
        "first_page_s": dispatch_s + times[0],
        "resident_bytes": after,
        "grown_bytes": None if before is None or after is None else after - before,
    }


def in_own_process(folder: Path, way: str, rows: int, count: int) -> dict[str, Any]:
    """`measure` in a fresh interpreter."""
    command = [sys.executable, "-m", "tools.bench.discovery", "--measure", way, "--folder", str(folder)]
    command += ["--rows", str(rows), "--pages", str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def compare(folder: Path, rows: int, small: int, count: int) -> dict[str, Any]:
    """All figures and ratios; builds what is missing in `folder`."""
    seed_s = build(folder, rows)
    build(folder, small)
    # Interleaved, and the middle round of three: right after the build, the system's own file cache holds the
    # file that was written last, which is not what is to be compared.
    rounds = [[in_own_process(folder, way, rows, count) for way in WAYS] for _ in range(3)]
    ways = {}
    for index, way in enumerate(WAYS):
        ways[way] = sorted((one[index] for one in rounds), key=lambda figures: float(figures["decision_s"]))[
            1
        ]
    local_small = in_own_process(folder, "local", small, count)
    local = ways["local"]
    memory = (
        None
        if local["resident_bytes"] is None
        else (local["resident_bytes"] - local_small["resident_bytes"]) / 1e6
    )
    return {
        "rows": rows,
        "seed_s": seed_s,
        "seed_per_million_s": seed_s / rows * 1e6,
        "ways": list(ways.values()),
        "local_decision_ms": local["decision_s"] * 1e3,
        "ratio_decision_to_archive": local["decision_s"] / ways["archive"]["decision_s"],
        "ratio_first_page_to_snapshot": local["first_page_s"] / ways["snapshot"]["first_page_s"],
        "ratio_grown_memory_to_snapshot": (
            None if memory is None else local["grown_bytes"] / max(1, ways["snapshot"]["grown_bytes"])
        ),
        f"local_memory_growth_from_{small}_mb": memory,
    }


@click.command()
@click.option(
    "--rows", default=200_000, show_default=True, help="Seen ids (10000000 for the design's figure)."
)
@click.option("--small", default=10_000, show_default=True, help="Seen ids to compare memory with.")
@click.option("--pages", default=400, show_default=True, help="Pages to judge.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where to build; kept. Default: temporary.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.option("--measure", "way", hidden=True, type=click.Choice(WAYS))
def main(rows: int, small: int, pages: int, folder: Path | None, as_json: bool, way: str | None) -> None:
    """Page decision cost on a large seen set, beside an archive query per id and a snapshot in memory."""
    if way is not None:
        assert folder is not None
        click.echo(json.dumps(measure(folder, way, rows, pages)))
        return
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            figures = compare(Path(temporary), rows, small, pages)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        figures = compare(folder, rows, small, pages)
    if as_json:
        click.echo(json.dumps(figures, indent=2))
        return
    for one in figures.pop("ways"):
        memory = "" if one["grown_bytes"] is None else f", memory +{one['grown_bytes'] / 1e6:.0f} MB"
        click.echo(
            f"{one['way']:>9}: dispatch {one['dispatch_s'] * 1e3:9.2f} ms, page of {PAGE} "
            f"{one['decision_s'] * 1e3:7.3f} ms (median){memory}"
        )
    for name, value in figures.items():
        click.echo(f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}")


if __name__ == "__main__":
    main()
