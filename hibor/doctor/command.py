"""The command: options, the phone's station, the examination, the table, and what comes after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs
import click
from rich.console import Console
from rich.table import Table

from hibor.collect.belonging import require_owner
from hibor.collect.hold import clear_hold, read_hold
from hibor.collect.preflight import library_of
from hibor.collect.station import DEFAULT_TIME_SCALE, Station, real_station, simulated_station
from hibor.collect.stops import RunStop, unusable
from hibor.device.errors import DeviceError
from hibor.doctor.bundle import write_bundle
from hibor.doctor.case import Case
from hibor.doctor.checks import NEEDS_PROFILE, PHONE_CHECKS
from hibor.doctor.find_file import find_file
from hibor.doctor.learn import learn
from hibor.doctor.person import Person, TerminalPerson
from hibor.doctor.rows import Row, Stop, verdict
from hibor.doctor.screens import check_app_screen
from hibor.doctor.walk import walk
from hibor.durable import DurableError
from hibor.messages import LANGS, reason_text, told
from hibor.package.layout import Library
from hibor.people.commandline import (
    DEFAULT_LIBRARY,
    FOUND,
    USAGE,
    Answers,
    Refusal,
    SpokenCommand,
    Words,
    run_command,
)
from hibor.people.numbers import FASTEST, Number
from hibor.task import EMBEDDED_ACCOUNT, Task, TaskError, expanded, load_task

NAMED_ACCOUNT = "default"
"""The account of a library that is named without a task, as in a run."""
MARKS = {"ok": "✓", "warn": "!", "fail": "✗", "skip": "–"}
PLAIN_MARKS = {"ok": "OK", "warn": "!", "fail": "X", "skip": "-"}
COLORS = {"ok": "green", "warn": "yellow", "fail": "red", "skip": "bright_black"}


@attrs.frozen(kw_only=True)
class Wishes:
    """The command's options."""

    task: Path | None = None
    library: Path | None = None
    device: str | None = None
    adb_server: str | None = None
    profile: str | None = None
    scenario: str | None = None
    time_scale: float | None = None
    walk: bool = False
    find_file: bool = False
    learn: Path | None = None
    bundle: Path | None = None
    yes: bool = False


def examine(case: Case, wishes: Wishes) -> tuple[str, int]:
    """Make every check that can be made; returns the verdict. Raises nothing the phone could cause."""
    case.rows.clear()
    try:
        for check in PHONE_CHECKS:
            if wishes.learn is None or check not in NEEDS_PROFILE:
                check(case)
        if wishes.learn is not None or wishes.find_file:
            _draft(case, wishes)
        else:
            check_app_screen(case, anchors=not wishes.walk)
            if wishes.walk and not case.walled:
                walk(case)
    except Stop:
        case.add("rest", "skip", "rest")
    except DeviceError as error:
        case.failed("phone", error, fix="device_offline", ends=False)
    _hold(case)
    return verdict(case.rows)


def _draft(case: Case, wishes: Wishes) -> None:
    """`--learn` and `--find-file`, alone or together."""
    if wishes.learn is not None:
        learn(case, wishes.learn, with_file=wishes.find_file)
    else:
        find_file(case)


def _hold(case: Case) -> None:
    """A finished look at the app without a wall ends the stop that a wall put on new downloads."""
    if case.library is None:
        return
    folder = case.library.ledger_folder(case.account)
    held = read_hold(folder)
    if held is None:
        case.add("hold", "ok", "no_hold")
    elif case.walled or not case.looked or any(row.status == "fail" for row in case.rows):
        case.add("hold", "fail", "held", fix="held", why=held)
    else:
        try:
            clear_hold(folder, case.disk)
        except (DurableError, OSError) as error:
            case.add("hold", "fail", "held", fix="held", why=error)
            return
        case.add("hold", "ok", "hold_cleared", why=held)


def run_doctor(case: Case, wishes: Wishes, answers: Answers) -> int:
    """Examine, show, let a person mend and look again; returns the exit code."""
    while True:
        status, code = examine(case, wishes)
        show(case.rows, answers)
        answers.tell(case.words(f"doctor.verdicts.{status}"))
        if code != FOUND or answers.json_wanted or not case.person.is_done("doctor.ask.again"):
            break
    if wishes.bundle is not None:
        write_bundle(case, wishes.bundle)
    answers.document(document(case, status, code))
    return code


def show(rows: Sequence[Row], answers: Answers) -> None:
    """The table on stdout."""
    if answers.json_wanted:
        return
    words = answers.words
    console = Console(file=sys.stdout, highlight=False, soft_wrap=False)
    marks = MARKS if "utf" in (sys.stdout.encoding or "").lower() else PLAIN_MARKS
    table = Table(box=None, show_header=False, pad_edge=False)
    for _ in range(3):
        table.add_column(overflow="fold")
    for row in rows:
        name = words(f"doctor.checks.{row.check}") + (f" {row.about}" if row.about else "")
        detail = row.detail + (f"\n→ {row.fix}" if row.fix and row.status != "ok" else "")
        cells = [_plain(marks[row.status]), _plain(name), _plain(detail)]
        table.add_row(*cells, style=COLORS[row.status] if row.status != "ok" else None)
    console.print(table)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text)


def document(case: Case, status: str, code: int) -> dict[str, Any]:
    """What `--json` prints."""
    times = sorted(case.dump_times_s)
    return {
        "status": status,
        "exit_code": code,
        "checks": [row.to_dict() for row in case.rows],
        "device": {
            "simulated": case.station.simulated,
            "model": case.model or None,
            "app_version": None if case.package is None else case.package.version_name,
            "profile": None if case.profile is None else case.profile.name,
        },
        "dump": {
            "count": len(times),
            "median_s": round(times[len(times) // 2], 3) if times else None,
            "worst_s": round(times[-1], 3) if times else None,
        },
        "files": dict(case.files),
    }


# -- options to a case --------------------------------------------------------------------------------------


def build(words: Words) -> click.Command:
    """The command in one language."""

    def option(*names: str, key: str, **settings: Any) -> click.Option:
        return click.Option(names, help=words(f"doctor.options.{key}"), **settings)

    paths = click.Path(path_type=Path)
    parameters = [
        option("--device", key="device", metavar="SERIAL"),
        option("--adb-server", key="adb_server", metavar="HOST:PORT"),
        option("--profile", key="profile", metavar="PROFILE"),
        option("--library", key="library", type=paths),
        option("--task", key="task", type=paths),
        option("--scenario", key="scenario", metavar="NAME"),
        option("--time-scale", key="time_scale", type=Number(0.01, FASTEST), metavar="X"),
        option("--walk", key="walk", is_flag=True),
        option("--find-file", key="find_file", is_flag=True),
        option("--learn", key="learn", type=paths, metavar="OUT.toml"),
        option("--bundle", key="bundle", type=paths, metavar="OUT.zip"),
        option("--yes", key="yes", is_flag=True),
        option("--json", "json_wanted", key="json", is_flag=True),
        option("--lang", key="lang", type=click.Choice(LANGS)),
        option("--quiet", key="quiet", is_flag=True),
    ]

    def callback(**options: Any) -> int:
        options.pop("lang")
        answers = Answers(words, quiet=options.pop("quiet"), json_wanted=options.pop("json_wanted"))
        wishes = Wishes(**options)
        person = TerminalPerson(words, yes=wishes.yes, quiet=answers.quiet)
        return doctor(wishes, answers, person)

    return SpokenCommand(words=words, section="doctor", params=list(parameters), callback=callback)


def doctor(wishes: Wishes, answers: Answers, person: Person) -> int:
    """Everything between options and exit code. Raises `Refusal`."""
    for path in (wishes.learn, wishes.bundle):
        if path is not None and path.exists():
            raise Refusal("doctor.there_already", path=path)
        if path is not None and not path.absolute().parent.is_dir():
            raise Refusal("doctor.no_folder", path=path, folder=path.absolute().parent)
    try:
        task = _task(wishes)
    except TaskError as error:
        raise Refusal("common.task_unreadable", path=wishes.task, count=len(error.problems)) from error
    words = answers.words
    with ExitStack() as stack:
        try:
            station = stack.enter_context(_station(wishes, task))
        except (RunStop, DeviceError) as error:
            why = reason_text(words.lang, RunStop(error.failure, "").code, error.detail).rstrip("。.")
            ours = USAGE if error.failure == "task_invalid" else FOUND
            raise Refusal("doctor.no_station", exit_code=ours, why=why) from error
        except ValueError as error:
            why = told(words.lang, str(error), words("common.not_understood")).rstrip("。.")
            raise Refusal("doctor.no_station", exit_code=USAGE, why=why) from error
        if station.simulated:
            answers.say("progress.simulated")
        case = case_for(station, task, answers.words, person, profile=wishes.profile)
        return run_doctor(case, wishes, answers)


def case_for(
    station: Station, task: Task | None, words: Words, person: Person, *, profile: str | None = None
) -> Case:
    """A new examination. `profile` is a file or a shipped name; a task's own profile is used without one."""
    library: Library | None = None
    named = profile
    if task is not None:
        library = library_of(task)
        if named is None and task.profile is not None:
            beside = task.base / task.profile
            named = str(beside) if beside.is_file() else task.profile
    account = "" if task is None else task.account
    return Case(words, person, station, library=library, account=account, profile_named=named)


def _task(wishes: Wishes) -> Task | None:
    """The task the examination is for; None when neither task nor library is named for a real phone."""
    if wishes.task is not None:
        task = load_task(wishes.task)
        if wishes.library is not None:
            task = attrs.evolve(task, library=str(_folder(wishes.library)))
        return task
    if wishes.library is None and wishes.scenario is None:
        return None
    account = EMBEDDED_ACCOUNT if wishes.scenario is not None else NAMED_ACCOUNT
    library = _folder(wishes.library or Path(DEFAULT_LIBRARY))
    return Task(library=str(library), account=account)


def _folder(path: Path) -> Path:
    try:
        return expanded(path).absolute()
    except ValueError as error:
        raise Refusal("common.no_library", path=path) from error


@contextmanager
def _station(wishes: Wishes, task: Task | None) -> Iterator[Station]:
    if task is not None:
        require_owner(library_of(task), simulated=wishes.scenario is not None)
    if wishes.scenario is not None:
        if wishes.device or wishes.adb_server:
            raise ValueError("--scenario / --device")
        assert task is not None
        state = task.library_path / "sim-phone"
        try:
            state.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unusable("the library", state, error) from error
        with simulated_station(state, wishes.scenario, wishes.time_scale or DEFAULT_TIME_SCALE) as station:
            yield station
        return
    serial = wishes.device or (None if task is None else task.device)
    with real_station(wishes.adb_server, serial) as station:
        yield station


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    return run_command(build, "doctor", arguments)
