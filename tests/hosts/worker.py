"""Handlers and a command line for tests that need another process (also one that dies).

`python -m tests.hosts.worker PATH MODE` with MODE one of: `scan` (one discovery scan, then its children),
`die_in_scan` (SIGKILL itself after page 2), `die_in_child` (SIGKILL itself in the third child), `hold
SECONDS` (keeps the write lock until stdin closes), `children` (runs what is queued).
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from hibor.discovery import register_discovery
from hibor.hosts.local import LocalHost

PAGES = 4
PER_PAGE = 10


def die() -> None:
    """What a power cut or the OOM killer does."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def fetch(job: Any, ctx: Any, page: int) -> list[str]:
    """Forty entries on four pages; may die on the way."""
    if job.payload.get("die_on_page") == page:
        die()
    return [f"r{(page - 1) * PER_PAGE + n}" for n in range(PER_PAGE)] if page <= PAGES else []


def same(item: str) -> str:
    return item


def spawn(job: Any, ctx: Any, item: str, content_id: str) -> None:
    ctx.spawn("proc", content_id, {"item": item, "die": job.payload.get("die_in_child") == item})


def child(job: Any, ctx: Any) -> None:
    """Appends its name to a file beside the database, so that executions can be counted."""
    with Path(os.environ["WORKER_LOG"]).open("a", encoding="utf-8") as log:
        log.write(f"{job.payload['item']}\n")
    if job.payload["die"] and job.attempt == 1:
        die()


def host(path: str, **options: Any) -> LocalHost:
    """A local host with the scan and its children registered."""
    made = LocalHost(path, **options)
    register_discovery(made, "scan", fetch, same, spawn, "proc")
    made.register_handler("proc", child)
    return made


def main() -> None:
    path, mode = sys.argv[1:3]
    if mode == "hold":
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        print("held", flush=True)
        sys.stdin.read()
        return
    with host(path) as made:
        if mode != "children":
            payload = {"die_in_scan": {"die_on_page": 3}, "die_in_child": {"die_in_child": "r2"}}.get(
                mode, {}
            )
            made.enqueue("scan", "all", payload)
        print(made.run(), flush=True)


if __name__ == "__main__":
    main()
