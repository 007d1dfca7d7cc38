"""Runs inside an environment with the real `dbos`: a planner, or the worker of one phone.

`python -m tests.hosts.dbos_driver URL LOG plan JSON`: JSON is a list of jobs [task_type, job_id, payload,
phone, rerun]; prints which were accepted. `… LOG work PHONE`: works until its queue is idle, then prints what
it knows. Handlers append one JSON line to LOG per start and per end, so that executions can be counted over
processes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from hibor.discovery import Declined, register_discovery
from hibor.hosts.dbos_host import DbosHost, FatalJobError

PAGE = 5
LOG = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()


def note(event: str, job: Any, **more: Any) -> None:
    line = json.dumps({"event": event, "uid": job.uid, "attempt": job.attempt, "phone": job.phone, **more})
    with LOG.open("a", encoding="utf-8") as log:
        log.write(line + "\n")
        log.flush()


def die() -> None:
    """What a power cut or the OOM killer does."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


def fetch(job: Any, ctx: Any, page: int) -> list[str]:
    note("fetch", job, page=page)
    if job.payload.get("die_on_page") == page and job.attempt == 1:
        die()
    names: list[str] = job.payload["listing"]
    return names[(page - 1) * PAGE : page * PAGE]


def same(item: str) -> str:
    return item


def spawn(job: Any, ctx: Any, item: str, content_id: str) -> Declined | None:
    if item.startswith("ad-"):
        return Declined("advert", "1")
    phones = job.payload.get("phones") or [job.phone]
    ctx.spawn("item", content_id, {"item": item}, phone=phones[sum(item.encode()) % len(phones)])
    return None


def gone(job: Any, ctx: Any, content_ids: list[str]) -> None:
    note("missing", job, ids=content_ids)


def item(job: Any, ctx: Any) -> bool:
    """Stands for an item that must be served once: a killed attempt had already spent."""
    name = job.payload["item"]
    note("start", job)
    if name.startswith("kill") and job.attempt == 1:
        die()
    if name.startswith("fatal"):
        raise FatalJobError("not collectable")
    if name.startswith("flaky") and job.attempt < 3:
        raise OSError("link")
    note("end", job)
    return not name.startswith("bad")


def host(url: str, phone: str | None) -> DbosHost:
    made = DbosHost(url, phone=phone, polling_s=0.05, retry_wait_s=0.01)
    register_discovery(
        made, "scan", fetch, same, spawn, "item", on_missing=gone, continuity=True, confirm_missing=True
    )
    made.register_handler("item", item)
    return made


def main() -> None:
    url, _, mode, argument = sys.argv[1:5]
    with host(url, argument if mode == "work" else None) as made:
        made.launch()
        if mode == "plan":
            accepted = [
                made.enqueue(task_type, job_id, payload, phone=phone, rerun=rerun)
                for task_type, job_id, payload, phone, rerun in json.loads(argument)
            ]
            print("RESULT " + json.dumps({"accepted": accepted}), flush=True)
            return
        idle = made.wait_idle(wait_s=100)
        failures = [[failure.uid, failure.reason, failure.attempts] for failure in made.failures()]
        print("RESULT " + json.dumps({"idle": idle, "failures": failures, "debts": made.debts()}), flush=True)


if __name__ == "__main__":
    main()
