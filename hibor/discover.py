"""`python -m hibor.discover`: bring the catalogue up to date without collecting anything (design 6).

It opens the app's list and nothing else: no page, no reservation, no tap on a control of a report. `--full`
reads the
whole list and names the reports the app does not list any more.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

EXIT_DONE, EXIT_VANISHED, EXIT_INCOMPLETE, EXIT_USAGE = 0, 1, 2, 64


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--task", type=click.Path(), help="Task file (TOML). Without one: the simulated phone.")
@click.option(
    "--library", type=click.Path(), help="Library folder [default: the task's; else ./hibor-library]."
)
@click.option("--device", metavar="SERIAL", help="The phone to use, as `adb devices` lists it.")
@click.option("--adb-server", metavar="HOST:PORT", help="adb server to use [default: 127.0.0.1:5037].")
@click.option("--profile", help="App profile: a file, or the name of a shipped one.")
@click.option("--scenario", help="Simulated phone only: a scenario file or the name of a shipped one.")
@click.option("--time-scale", type=float, metavar="X", help="Simulated phone only: X seconds pass in one.")
@click.option("--full", is_flag=True, help="Read the whole list, past known pages, and report what vanished.")
@click.option("--dry-run", is_flag=True, help="Say what is new; the catalogue stays as it is.")
@click.option("--max-pages", type=click.IntRange(min=1), metavar="N", help="Read at most N screens.")
@click.option("--json", "as_json", is_flag=True, help="The scan report as JSON on stdout.")
@click.option("--lang", type=click.Choice(["zh", "en"]), help="Language of what people read.")
@click.option("--quiet", is_flag=True, help="Only warnings on stderr.")
@click.option("--yes", is_flag=True, help="Answer the first-use question with yes.")
def command(**options: Any) -> None:
    """Read the app's report list into the library's catalogue.

    \b
    Exit codes: 0 done, 1 reports vanished from the app (--full), 2 incomplete (run again), 64 usage;
    20 the phone or the app cannot be used, 75 another run holds the library.
    """
    raise SystemExit(discover(options))


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
        print(str(error), file=sys.stderr)
        return EXIT_USAGE
    progress = Progress(task.lang, quiet=options["quiet"])
    log_to_stderr(False)
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
    from hibor.collect.consent import require_consent
    from hibor.collect.feed import read_feed
    from hibor.collect.stops import RunStop
    from hibor.device.errors import DeviceError

    if not station.simulated:
        require_consent(station, task, progress, assume_yes=options["yes"])
    durable = preflight.library_disk()
    library, _takeover = preflight.open_library(task, durable, stack)
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


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    from hibor.people.console import use_utf8

    use_utf8()
    try:
        command.main(args=sys.argv[1:] if arguments is None else arguments, standalone_mode=False)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    return EXIT_DONE


if __name__ == "__main__":
    sys.exit(main())
