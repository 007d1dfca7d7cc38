"""Runs inside an environment with a real `tasklite-engine`; prints what happened as one JSON document.

`python -m tests.hosts.tasklite_driver FOLDER SCENARIO`, or `... - ids` with one JSON string per input line.
The listing is a JSON file in FOLDER, so that the engine's spawned processes see the same one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hibor.discovery import register_discovery
from hibor.hosts.tasklite import TaskliteHost

PAGE = 5


def fetch(job: Any, ctx: Any, page: int) -> list[str]:
    folder = Path(job.payload["folder"])
    with (folder / "fetched.txt").open("a", encoding="utf-8") as log:
        log.write(f"{page}\n")
    if job.payload.get("die_on_page") == page:
        raise RuntimeError("link lost")
    names: list[str] = json.loads((folder / "listing.json").read_text("utf-8"))
    return names[(page - 1) * PAGE : page * PAGE]


def same(item: str) -> str:
    return item


def spawn(job: Any, ctx: Any, item: str, content_id: str) -> None:
    ctx.spawn("proc", content_id, {"item": item, "folder": job.payload["folder"]})


def child(job: Any, ctx: Any) -> bool:
    with (Path(job.payload["folder"]) / "executed.txt").open("a", encoding="utf-8") as log:
        log.write(f"{job.payload['item']}\n")
    return not job.payload["item"].startswith("bad")


def gone(job: Any, ctx: Any, content_ids: list[str]) -> None:
    with (Path(job.payload["folder"]) / "missing.txt").open("a", encoding="utf-8") as log:
        log.write(json.dumps(content_ids) + "\n")


class Session:
    """A folder with an engine's state, its listing and its logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.result: list[dict[str, Any]] = []

    def run(
        self,
        listing: list[str],
        *,
        job_id: str = "all",
        payload: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """One engine run with one scan job; appends what it did to `result`."""
        from tasklite import Job, TaskLite

        (self.folder / "listing.json").write_text(json.dumps(listing), "utf-8")
        for name in ("fetched.txt", "executed.txt", "missing.txt"):
            (self.folder / name).unlink(missing_ok=True)
        engine = TaskLite("discovery", self.folder / "state")
        host = TaskliteHost(engine)
        register_discovery(
            host, "scan", fetch, same, spawn, "proc", on_missing=gone, continuity=True, **options
        )
        host.register_handler("proc", child)
        engine.enqueue(Job("scan", job_id, {"folder": str(self.folder), **(payload or {})}, max_retries=0))
        engine.run()
        self.result.append({name: self._lines(f"{name}.txt") for name in ("fetched", "executed", "missing")})

    def _lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text("utf-8").split("\n")[:-1] if path.exists() else []


def scenario(folder: Path, name: str) -> list[dict[str, Any]]:
    """The runs of one scenario, in order."""
    session = Session(folder)
    names = [f"r{n * 7919 % 1009}" for n in range(12)]
    if name == "rediscovery":
        session.run(names)
        session.run(["new/1", *names])
        session.run(["new/1", *names])
    elif name == "debt":
        session.run(names, max_pages=1)
        session.run(names)
        session.run(names)
    elif name == "frontier":
        for _ in range(4):
            session.run(names, max_pages=2, resume=True)
    elif name == "crash":
        session.run(names, payload={"die_on_page": 2})
        session.run(names, job_id="again")
    elif name == "missing":
        options = {"confirm_missing": True, "scan_mode": "full"}
        session.run([*names, "bad-one"], **options)
        session.run(names[1:], **options)
        session.run(names[1:], **options)
    return session.result


def print_ids() -> None:
    """The engine's own content id of each input line, or null where it raises `UnicodeEncodeError`."""
    try:
        from tasklite.utils.encoding import encode_content_id as content_id
    except ImportError:
        from tasklite import sanitize_content_id as content_id
    for line in sys.stdin:
        try:
            print(json.dumps(content_id(json.loads(line))))
        except UnicodeEncodeError:
            print("null")


def main() -> None:
    if sys.argv[2] == "ids":
        print_ids()
    else:
        print("RESULT " + json.dumps(scenario(Path(sys.argv[1]), sys.argv[2])))


if __name__ == "__main__":
    main()
