"""`hibor runs`: the runs of a library, newest first, one line each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from hibor.clock import SystemClock
from hibor.locks import Locks
from hibor.messages import reason_text
from hibor.package.layout import RunFolder
from hibor.people.commandline import DONE, Answers, SpokenCommand, Words, run_command, shared
from hibor.people.libraries import library_at, sync_program
from hibor.people.numbers import MOST_REPORTS, Number
from hibor.people.run_view import DELIVERED, closed_items, count_open, reader
from hibor.reading import read_object


def summary(folder: RunFolder, *, held: bool = False) -> dict[str, Any]:
    """A run in a few values. A run without a document works now or was cut off: what it closed is told by its
    items, and `open_items` are those that recovery has to settle. `held`: it may work right now.
    """
    document = read_object(folder.run_json)
    items = [item for item in document.get("items", ()) if isinstance(item, dict)]
    items = items if document else closed_items(folder)
    recovered = [item for item in document.get("recovered", ()) if isinstance(item, dict)]
    delivered = sum(item.get("status") in DELIVERED for item in items)
    selected = int((document.get("counts") or {}).get("selected") or 0)
    quota = document.get("quota") or {}
    return {
        "run_id": folder.run_id,
        "started_at": (document.get("timing") or {}).get("started_at"),
        "status": document.get("status"),
        "dry_run": "plan" in (document.get("counts") or {}),
        "open_items": 0 if document else count_open(folder),
        "may_work": held and not document,
        "exit_code": document.get("exit_code"),
        "selected": max(selected, delivered),
        "delivered": delivered,
        "recovered": sum(item.get("status") in DELIVERED for item in recovered),
        "quota_before": quota.get("safe_before"),
        "quota_after": quota.get("safe_after"),
        "stop_reason": document.get("stop_reason"),
        "simulated": bool((document.get("device") or {}).get("simulated")),
        "report": folder.report.is_file(),
    }


def _line(run: dict[str, Any], words: Words) -> str:
    if run["status"] is None:
        key = "not_ended" if run["open_items"] else "working" if run["may_work"] else "settled"
        told = words(f"runs.{key}", delivered=run["delivered"], open=run["open_items"])
        return f"{run['run_id']}  {told}"
    began = str(run["started_at"] or "")[:16].replace("T", " ")
    came = words("runs.dry_run" if run["dry_run"] else "runs.delivered", **run)
    parts = [run["run_id"], began, f"{run['status']:<18}", came]
    if run["recovered"]:
        parts.append(words("runs.recovered", count=run["recovered"]))
    if run["quota_after"] is not None:
        parts.append(words("runs.quota", before=run["quota_before"], after=run["quota_after"]))
    reason = run["stop_reason"]
    if isinstance(reason, dict):
        parts.append(
            f"{reason.get('code')}: {reason_text(words.lang, str(reason.get('code')), reason.get('detail'))}"
        )
    return "  ".join(filter(None, parts))


def build(words: Words) -> click.Command:
    """The command in a language."""

    @click.command(cls=SpokenCommand, words=words, section="runs")
    @click.option("--last", type=Number(1, MOST_REPORTS), default=20, help=words("runs.last"))
    @shared(words)
    def runs(
        last: int, library: Path | None, task: Path | None, json_wanted: bool, quiet: bool, lang: str | None
    ) -> int:
        del lang
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        place = library_at(library, task)
        program = sync_program(place.root)
        if program is not None:
            answers.warn("common.sync_folder", program=program)
        folders = place.run_folders()[-last:][::-1]
        held = Locks(reader(), SystemClock()).library(place.root).owner_path.is_file()
        found = [summary(one, held=held and one == folders[0]) for one in folders]
        if not found:
            answers.tell(words("runs.empty"))
        for run in found:
            answers.tell(_line(run, words))
        answers.document({"library": str(place.root), "runs": found})
        return DONE

    return runs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "runs", arguments)


if __name__ == "__main__":
    sys.exit(main())
