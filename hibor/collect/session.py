"""From command-line options to exit code: the task, the phone's station, the collector, the one document."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from generated.governance import GUARD_RAILS
from generated.presence import STATES
from generated.stamp import SPEC_SHA256
from hibor import __version__
from hibor.clock import SystemClock
from hibor.collect.belonging import last_event_at, require_owner
from hibor.collect.collector import Collector, Orders
from hibor.collect.consent import confirm_retrigger, require_consent
from hibor.collect.deadline import Deadline
from hibor.collect.governance import RunFacts
from hibor.collect.interrupts import Interrupts
from hibor.collect.plan import read_plan
from hibor.collect.preflight import library_of
from hibor.collect.station import (
    DEFAULT_SCENARIO,
    DEFAULT_TIME_SCALE,
    Station,
    real_station,
    require_named,
    simulated_station,
)
from hibor.collect.stops import RunStop, unusable
from hibor.collect.telling import document_of, extras_of
from hibor.collect.waiting import wait_for_phone
from hibor.device.errors import DeviceError
from hibor.durable import DurableError
from hibor.messages import default_lang, text
from hibor.messages.lines import is_plain, one_line
from hibor.package.delivery import run_delivery
from hibor.package.layout import new_run_id
from hibor.package.manifest import ManifestInvalid
from hibor.package.run_terminal import RunDocument, StopReason
from hibor.people.console import answer_lost
from hibor.people.numbers import duration_s
from hibor.people.progress import Progress, ProgressLog
from hibor.task import NOT_IN_FILE, Task, TaskError, foreign_path, load_task, with_options

LAST_STAGE: Final = len(STATES) - 1


def run_session(options: Mapping[str, Any]) -> int:
    """Run the main job with the command's options; prints the document and returns the exit code."""
    interrupts = Interrupts()
    with interrupts.installed():
        try:
            task, simulated = resolve_task(options)
            check_plan(options)
        except (TaskError, ValueError) as error:
            interrupts.tell()
            return refuse(str(error), options.get("lang") or default_lang())
        progress = Progress(task.lang, quiet=bool(options["quiet"]))
        log_to_stderr(bool(options["verbose"]), progress)
        try:
            return _with_station(options, task, simulated, progress, interrupts)
        except KeyboardInterrupt:
            interrupts.tell()
            return _emit(_stopped_document(_interrupted(), task), progress, task)


def _with_station(
    options: Mapping[str, Any], task: Task, simulated: bool, progress: Progress, interrupts: Interrupts
) -> int:
    with ExitStack() as stack:
        try:
            station = stack.enter_context(open_station(options, task, simulated))
        except RunStop as stop:
            return _emit(_stopped_document(stop, task), progress, task)
        except Exception as error:
            stopped = _of_library(error)
            if stopped is None:
                logging.getLogger("hibor").error("the phone's station could not be set up", exc_info=error)
                stopped = RunStop("server_unreachable", str(error))
            return _emit(_stopped_document(stopped, task), progress, task)
        if simulated:
            progress.say("simulated")
        return _collect(options, task, station, progress, interrupts)


def _of_library(error: Exception) -> RunStop | None:
    """How a run stops that met an unusable file or folder before it opened its library; None for all else."""
    if not isinstance(error, OSError) or not error.filename:
        return None
    return unusable("the library", Path(os.fsdecode(error.filename)), error)


def _interrupted() -> RunStop:
    return RunStop("INTERRUPTED", "ended by a signal before the run was through")


def _collect(
    options: Mapping[str, Any], task: Task, station: Station, progress: Progress, interrupts: Interrupts
) -> int:
    if options["wait"]:
        wait_for_phone(station, duration_s(options["wait"]), progress)
    deadline = Deadline(station.clock, task.deadline_s, GUARD_RAILS["closing_reserve_s"])
    progress.deadline = deadline
    orders = Orders(
        retrigger=frozenset(options["retrigger"]),
        quota_limit_given=options["quota_limit"] is not None,
        dry_run=bool(options["dry_run"]),
        plan=Path(options["plan"]) if options["plan"] else None,
    )
    collector = Collector(task, station, progress, deadline, orders)
    interrupts.guard(deadline, progress)
    with ExitStack() as held:
        try:
            collector.station = require_consent(station, task, progress, assume_yes=bool(options["yes"]))
            confirm_retrigger(
                task,
                orders.retrigger,
                progress,
                simulated=station.simulated,
                assume_yes=bool(options["yes"] or options["dry_run"]),
            )
            wanted = not (options["dry_run"] or options["verbose"])
            with progress.shown(wanted=wanted, last_stage=LAST_STAGE, simulated=station.simulated):
                collector.run(held)
        except RunStop as stop:
            collector.stop = stop
            progress.warn("stopped", code=stop.code, detail=stop.detail)
        except KeyboardInterrupt:
            collector.stop = _interrupted()
        except Exception as error:
            stopped = _of_library(error) if collector.services is None else None
            if stopped is None:
                logging.getLogger("hibor").error("the run failed", exc_info=error)
                stopped = RunStop("unexpected", f"{type(error).__name__}: {error}")
            collector.stop = stopped
        interrupts.tell()
        return _emit(_document(collector, station), progress, task, collector)


def resolve_task(options: Mapping[str, Any]) -> tuple[Task, bool]:
    """The task with the options put over it, and whether the phone is simulated. Raises TaskError,
    ValueError.
    """
    named = options["task"] or options["device"] or options["adb_server"]
    simulated = bool(options["scenario"]) or not named
    if options["time_scale"] is not None and not (simulated and 0 < options["time_scale"] <= 1000):
        raise ValueError("--time-scale: more than 0, at most 1000, and only with the simulated phone")
    if simulated and (options["device"] or options["adb_server"]):
        raise ValueError("--scenario starts a simulated phone; --device and --adb-server name a real one")
    if options.get("wait"):
        duration_s(options["wait"])
    if options["task"]:
        task = load_task(options["task"])
    else:
        if named and not simulated and not options["library"]:
            raise ValueError("a real phone without a task needs --library")
        task = Task.embedded()
        if not simulated:
            task = attrs.evolve(task, account="default")
    task = with_options(
        task,
        library=options["library"],
        device=options["device"],
        profile=options["profile"],
        deadline_s=options["deadline"],
        quota_limit=options["quota_limit"],
        count=options["count"],
        lang=task.spoken(options["lang"]),
    )
    foreign = foreign_path(options["library"], task.library, task.policy.ledger_dir)
    if foreign is not None:
        raise ValueError(f"{foreign} is a Windows path; on this computer write a folder such as ~/reports")
    for folder in (str(task.library_path.absolute()), str(task.ledger_path.absolute())):
        if not is_plain(folder):  # no document could hold the name
            shown = one_line(folder)
            raise ValueError(f"{shown} holds bytes that are not UTF-8, or a control character; rename it")
    return task, simulated


def check_plan(options: Mapping[str, Any]) -> None:
    """A plan that cannot be read, or would replace a file, is said before a phone is asked for anything.

    Raises ValueError.
    """
    if not options["plan"]:
        return
    if options["retrigger"] and not options["dry_run"]:
        raise ValueError("--retrigger: not with --plan, which says what is downloaded; give one of them")
    path = Path(options["plan"])
    if options["dry_run"]:
        if path.exists():
            raise ValueError(f"--plan: {path} exists already and is not replaced")
        return
    try:
        read_plan(path)
    except RunStop as stop:
        raise ValueError(stop.detail) from stop


@contextmanager
def open_station(options: Mapping[str, Any], task: Task, simulated: bool) -> Iterator[Station]:
    """The phone a command works with: the simulated one, started and ended with this block, or a real one.

    A phone of the kind the library does not belong to is refused before anything is written. Raises RunStop.
    """
    library = library_of(task)
    require_owner(library, simulated=simulated)
    if simulated:
        state = library.phone_state
        try:
            state.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unusable("the library", state, error) from error
        scenario, scale = options["scenario"] or DEFAULT_SCENARIO, options["time_scale"] or DEFAULT_TIME_SCALE
        newest = last_event_at(library.ledger(task.account))
        with simulated_station(state, scenario, scale, not_before=newest) as station:
            yield station
        return
    try:
        with real_station(options["adb_server"], task.device) as station:
            if not options["task"] and not options["device"]:
                require_named(station)
            yield station
    except DeviceError as error:
        raise RunStop(error.failure, error.detail) from error
    except ValueError as error:
        raise RunStop("task_invalid", f"--adb-server: {error}") from error


def refuse(message: str, lang: str) -> int:
    """End with TASK_INVALID before there is a task; prints the document and returns its exit code."""
    return _emit(_stopped_document(RunStop("task_invalid", message), None), Progress(lang), None)


def end_interrupted(lang: str) -> int:
    """End with INTERRUPTED before there is a task; prints the document and returns its exit code."""
    return _emit(_stopped_document(_interrupted(), None), Progress(lang), None)


def _stopped_document(stop: RunStop, task: Task | None) -> dict[str, Any]:
    facts = RunFacts(
        cause=stop.code,
        task_invalid=stop.task_invalid,
        busy=stop.busy,
        uncertain=stop.uncertain,
        interrupted=stop.interrupted,
    )
    document = RunDocument(
        run_id=new_run_id(SystemClock().now()),
        facts=facts,
        stop_reason=StopReason(stop.code, stop.detail),
        task=None if task is None else _task_values(task),
        provenance=_provenance(None),
    )
    return document.build()


def _document(collector: Collector, station: Station) -> dict[str, Any]:
    document = document_of(collector)
    phone, services = collector.phone, collector.services
    document.task = _task_values(collector.task)
    document.device = {
        "simulated": station.simulated,
        "model": None if phone is None else phone.model,
        "app_version": None if phone is None else phone.app_version,
        "profile": None if phone is None else phone.profile.name,
    }
    document.timing = {
        "started_at": None if services is None else services.started_at,
        "ended_at": None if services is None else services.stamp(),
        "deadline_s": collector.deadline.deadline_s,
        "phone_time_s": round(collector.deadline.elapsed_s(), 3),
        "time_scale": station.time_scale,
        "waited_s": 0.0 if services is None else round(services.pacer.waited_s, 3),
    }
    document.provenance = _provenance(collector)
    if collector.library is not None:
        run = collector.library.run(collector.run_id)
        document.paths = {
            "library": str(collector.library.root),
            "run": collector.library.relative(run.path),
            "delivery": collector.library.relative(run.delivery),
            "evidence": [collector.library.relative(path) for path in run.evidence_files()],
        }
    values = document.build()
    values["counts"].update(extras_of(collector))
    return values


def _task_values(task: Task) -> dict[str, Any]:
    values = attrs.asdict(task, filter=lambda attribute, _value: attribute.name not in NOT_IN_FILE)
    return dict(values)


def _provenance(collector: Collector | None) -> dict[str, Any]:
    phone = None if collector is None else collector.phone
    services = None if collector is None else collector.services
    return {
        "tool_version": __version__,
        "spec_sha256": SPEC_SHA256,
        "profile_sha256": None if phone is None else phone.profile.sha256,
        "app_version": None if phone is None else phone.app_version,
        "phone_model": None if phone is None else phone.model,
        "serial_hash": None if phone is None else phone.serial_hash,
        "ledger_head": None if services is None else services.ledger_head().to_dict(),
    }


def _emit(
    document: dict[str, Any], progress: Progress, task: Task | None, collector: Collector | None = None
) -> int:
    """Write the run's files, print the document, say the outcome to people."""
    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    may_write = collector is not None and (collector.stop is None or collector.stop.writes)
    if collector is not None and collector.services is not None and may_write:
        _write_run_files(collector, document, text)
    sys.stdout.write(text)
    sys.stdout.flush()
    if answer_lost():
        kept = (document["paths"] or {}).get("run")
        progress.warn("document_lost" if kept is None else "document_kept", run=kept)
    try:
        _tell_outcome(document, progress, collector)
        if collector is not None and may_write:
            _write_page(collector)
    except Exception as error:  # the document is out: what is said after it must not bring a second one
        logging.getLogger("hibor").error("the outcome could not be told", exc_info=error)
    return int(document["exit_code"])


def _tell_outcome(document: Mapping[str, Any], progress: Progress, collector: Collector | None) -> None:
    """Say to people what the document says."""
    progress.last_frame()
    reason = document["stop_reason"]
    if collector is None and reason is not None:
        progress.warn("stopped", **reason)
    items = document["items"]
    delivered = sum(item["status"] in ("SUCCESS", "DUPLICATE") for item in items)
    timing = document["timing"]
    if collector is not None and timing is not None:
        progress.deadline = None
        missing, left = _missing(document, progress.lang), (document["quota"] or {}).get("safe_after")
        if missing:
            interrupted = collector.deadline.interrupted
            progress.warn("missing_interrupted" if interrupted else "missing", missing=missing)
        failed = reason is not None and document["exit_code"] != 0
        if "plan" in document["counts"]:
            _tell_plan(document["counts"]["plan"], progress, collector)
            return
        progress.warn(
            "finished",
            status=document["status"],
            delivered=delivered,
            selected=max(document["counts"].get("selected", 0), delivered),
            phone_s=timing["phone_time_s"],
            deadline_s=timing["deadline_s"],
            folder=document["paths"].get("library", "-"),
            missing=missing or (reason["code"] if failed else "0"),
            quota="-" if left is None else left,
        )


def _tell_plan(rows: Sequence[Mapping[str, Any]], progress: Progress, collector: Collector) -> None:
    """The last line of a dry run: what a run would do, and where the plan was saved."""
    planned = [row for row in rows if row["rank"] is not None]
    new = sum(row["cost"] for row in planned)
    saved = collector.orders.plan
    progress.warn(
        "planned" if saved is None else "planned_saved",
        total=len(planned),
        reuse=len(planned) - new,
        new=new,
        file="" if saved is None else saved,
    )


def _missing(document: Mapping[str, Any], lang: str) -> str:
    """What was selected and not delivered, by code: `2 × CACHE_TIMEOUT, 1 not begun`."""
    codes = Counter(item["stop_code"] for item in document["items"] if item["stop_code"] is not None)
    begun = [f"{count} × {code}" for code, count in sorted(codes.items())]
    waiting = len(document["counts"].get("not_begun", ()))
    return ", ".join([*begun, *([text(lang, "progress.not_begun", count=waiting)] if waiting else [])])


def close_run(collector: Collector, station: Station) -> dict[str, Any]:
    """Write a run's own files and return its document, for a caller that runs many (the farm)."""
    document = _document(collector, station)
    if collector.stop is None or collector.stop.writes:
        text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
        _write_run_files(collector, document, text)
        _write_page(collector)
    return document


def _write_run_files(collector: Collector, document: dict[str, Any], text: str) -> None:
    services, library = collector.services, collector.library
    if services is None or library is None:
        return
    run = library.run(collector.run_id)
    head = document["provenance"]["ledger_head"]
    durable = services.durable
    try:
        durable.make_folders(run.path, step="run.folder")
        if collector.task.as_read is not None:
            durable.write_once(run.task, collector.task.as_read, step="run.task")
        delivery = run_delivery(document, ledger_head=head, lang=collector.task.lang)
        durable.write_once(run.delivery, delivery.encode(), step="run.delivery")
        durable.write_once(run.run_json, text.encode(), step="run.terminal")
    except (DurableError, OSError) as error:
        logging.getLogger("hibor").error("the run's own files could not be written: %s", error)


def _write_page(collector: Collector) -> None:
    """Write `report.html`, after the run has been told: a page that cannot be made changes no outcome."""
    services, library = collector.services, collector.library
    if services is None or library is None or not library.run(collector.run_id).run_json.is_file():
        return
    from hibor.report import write_run_report

    try:
        write_run_report(services.durable, library, collector.run_id, collector.task.lang)
    except (DurableError, ManifestInvalid, OSError) as error:
        logging.getLogger("hibor").error("report.html could not be written: %s", error)
    except Exception as error:  # whatever is wrong with the page, the run is over and its files are written
        logging.getLogger("hibor").error("report.html could not be written", exc_info=error)


def log_to_stderr(verbose: bool, progress: Progress) -> None:
    """The run's log on stderr: everything for `--verbose`, else defects alone."""
    logging.basicConfig(
        handlers=[ProgressLog(progress)],
        level=logging.INFO if verbose else logging.ERROR,
        format="%(levelname)s %(name)s: %(message)s",
        force=True,
    )
    logging.getLogger("transitions").setLevel(logging.WARNING)
