"""`python -m hibor.discover`: bring the catalogue up to date without collecting anything (design 6).

It opens the app's list and nothing else: no page, no reservation, no tap on a control of a report. `--full`
reads the
whole list and names the reports the app does not list any more.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from generated.governance import COMMAND_EXITS
from hibor.messages import default_lang, reason_text
from hibor.people.commandline import SpokenCommand, Words, run_command
from hibor.people.options import with_options

OPTIONS = (
    "task", "library", "device", "adb_server", "profile", "scenario", "time_scale", "full", "dry_scan",
    "max_pages", "yes", "json", "lang", "quiet",
)  # fmt: skip
EXIT_DONE, EXIT_VANISHED = COMMAND_EXITS["done"], COMMAND_EXITS["found"]
EXIT_INCOMPLETE, EXIT_USAGE = COMMAND_EXITS["warnings"], COMMAND_EXITS["usage"]


def build(words: Words) -> click.Command:
    """The command in a language."""

    @click.command("discover", cls=SpokenCommand, words=words, section="discover", exits="discover.exits")
    @with_options(words, *OPTIONS)
    def command(**options: Any) -> int:
        return discover(options)

    return command


def discover(options: dict[str, Any]) -> int:
    """Do the scan; prints its report and returns the exit code."""
    from hibor.collect.session import log_to_stderr, open_station, resolve_task
    from hibor.collect.stops import RunStop
    from hibor.people.progress import Progress
    from hibor.task import TaskError

    values = {"deadline": None, "quota_limit": None, "count": None, **options}
    try:
        task, simulated = resolve_task(values)
    except (TaskError, ValueError) as error:
        code = RunStop("task_invalid", "").code
        print(reason_text(options["lang"] or default_lang(), code, str(error)), file=sys.stderr)
        return EXIT_USAGE
    progress = Progress(task.lang, quiet=options["quiet"])
    log_to_stderr(False, progress)
    try:
        with ExitStack() as stack:
            station = stack.enter_context(open_station(values, task, simulated))
            return _scan(options, task, station, progress, stack)
    except RunStop as stop:
        progress.warn("stopped", code=stop.code, detail=stop.detail)
        return EXIT_USAGE if stop.task_invalid else _exit_of(stop)


def _exit_of(stop: Any) -> int:
    from hibor.collect.governance import RunFacts, decide

    return decide(RunFacts(cause=stop.code, busy=stop.busy, uncertain=stop.uncertain))[1]


def _scan(options: dict[str, Any], task: Any, station: Any, progress: Any, stack: ExitStack) -> int:
    from hibor.collect import preflight
    from hibor.collect.consent import note_first_use, require_consent
    from hibor.collect.feed import read_feed
    from hibor.collect.stops import RunStop
    from hibor.device.errors import DeviceError

    station = require_consent(station, task, progress, assume_yes=options["yes"])
    durable = preflight.library_disk()
    library, _takeover = preflight.open_library(task, durable, stack)
    note_first_use(station, library)
    try:
        app = preflight.open_list(station, task)
        reading = read_feed(
            app,
            station.clock,
            Path(library.catalogue),
            since_days=None if options["full"] else task.select.since_days,
            today=app.looker.phone_now().date(),
            budget_s=float("inf"),
            dry_run=options["dry_run"],
            max_pages=options["max_pages"],
        )
    except DeviceError as error:
        raise RunStop(error.failure, error.detail) from error
    _tell(options, reading, progress)
    if reading.vanished:
        return EXIT_VANISHED
    return EXIT_DONE if reading.incomplete is None else EXIT_INCOMPLETE


def _tell(options: dict[str, Any], reading: Any, progress: Any) -> None:
    progress.say("discovered", entries=len(reading.entries), screens=reading.screens)
    new = set(reading.report.new_ids)
    for entry in reading.entries:
        if entry.report_id in new:
            progress.say(
                "catalogue_new",
                date=entry.date or "-",
                institution=entry.institution or "-",
                title=entry.title,
            )
    for report_id in reading.vanished:
        progress.warn("catalogue_vanished", report_id=report_id)
    if reading.incomplete is not None:
        progress.warn("incomplete", detail=reading.incomplete, failure=reading.failure)
    if options["as_json"]:
        values = {
            **reading.report.to_dict(),
            "vanished": list(reading.vanished),
            "incomplete": reading.incomplete,
        }
        print(json.dumps(values, ensure_ascii=False, indent=2))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run_command(build, "discover", arguments)


if __name__ == "__main__":
    sys.exit(main())
