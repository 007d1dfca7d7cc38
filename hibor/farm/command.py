"""The farm's three commands: `plan`, `work`, `status`."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

from hibor.messages import reason_text
from hibor.people.commandline import (
    DONE,
    FOUND,
    INTERRUPTED,
    Answers,
    Refusal,
    SpokenCommand,
    SpokenGroup,
    Words,
    shared,
)
from hibor.people.numbers import FASTEST, MOST_DAYS, MOST_REPORTS, Number

if TYPE_CHECKING:
    from hibor.farm.planning import Planned
    from hibor.farm.worker import Worker
    from hibor.hosts.dbos_host import DbosHost, JobView

DEFAULT_DATABASE: Final = "sqlite:///hibor-farm.sqlite3"
POLL_S: Final = 0.5
Function = TypeVar("Function", bound=Callable[..., Any])


def build(words: Words) -> click.Command:
    """The command in a language."""
    group = SpokenGroup(words=words, section="farm")
    group.add_command(_build_plan(words))
    group.add_command(_build_work(words))
    group.add_command(_build_status(words))
    return group


def _database(words: Words) -> Callable[[Function], Function]:
    return click.option(
        "--database", metavar="URL", default=DEFAULT_DATABASE, show_default=True, help=words("farm.database")
    )


@contextmanager
def _host(database: str, **options: Any) -> Iterator[DbosHost]:
    """The farm's host. Raises Refusal where its package or its database is not there."""
    from hibor.hosts.dbos_host import DbosHost
    from hibor.hosts.local_store import HostError

    logging.getLogger("dbos").addFilter(_not_of_a_report)
    try:
        host = DbosHost(database, **options)
    except HostError as error:
        raise Refusal("farm.not_installed") from error
    with host:
        yield host


def _not_of_a_report(record: logging.LogRecord) -> bool:
    """A report that cannot be had is no fault of the engine; the command says it in its own words."""
    from hibor.hosts.dbos_host import FatalJobError

    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, FatalJobError) and FatalJobError.__name__ not in record.getMessage()


def _launch(host: DbosHost, database: str) -> None:
    from sqlalchemy.exc import SQLAlchemyError  # type: ignore[import-not-found,unused-ignore]

    try:
        host.launch()
    except SQLAlchemyError as error:
        where = database.rsplit("@", 1)[-1]  # no password in what people read
        raise Refusal("farm.no_database", where=where) from error


# -- plan


def _build_plan(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="farm.plan")
    @_database(words)
    @click.option(
        "--phone", "phones", multiple=True, required=True, metavar="SERIAL", help=words("farm.plan.phone")
    )
    @click.option("--report", "reports", multiple=True, metavar="REPORT_ID", help=words("farm.plan.report"))
    @click.option("--count", type=Number(1, MOST_REPORTS), metavar="N", help=words("farm.plan.count"))
    @click.option("--since-days", type=Number(0, MOST_DAYS), metavar="N", help=words("farm.plan.since_days"))
    @click.option("--again", is_flag=True, help=words("farm.plan.again"))
    @shared(words)
    def plan(
        database: str,
        phones: tuple[str, ...],
        reports: tuple[str, ...],
        count: int | None,
        since_days: int | None,
        again: bool,
        library: Path | None,
        task: Path | None,
        json_wanted: bool,
        quiet: bool,
        lang: str | None,
    ) -> int:
        del lang
        from hibor.farm.planning import REPORT_TASK, hand_out

        wanted = _wanted(library, task, reports, since_days)
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        with _host(database) as host:
            _launch(host, database)
            for phone in phones:
                host.add_phone(phone)
            load = {phone: host.active(phone) for phone in phones}
            planned = hand_out(host, wanted, load, host.jobs(REPORT_TASK), again=again, count=count)
        _tell_plan(answers, planned)
        return DONE

    return plan


def _wanted(
    library: Path | None, task: Path | None, reports: tuple[str, ...], since_days: int | None
) -> list[Any]:
    """The wanted reports of a library's catalogue. Raises Refusal."""
    from datetime import date

    from hibor.clock import SystemClock
    from hibor.farm.planning import wanted_reports
    from hibor.hosts.local_store import HostError
    from hibor.package.manifest import ManifestInvalid
    from hibor.people.libraries import library_at
    from hibor.quota.day import QuotaCalendar
    from hibor.task import Select, load_task

    place = library_at(library, task)
    if not place.catalogue.is_file():
        raise Refusal("farm.no_catalogue", path=place.root)
    select = load_task(task).select if task is not None else Select()
    if reports:
        select = attrs.evolve(select, report_ids=tuple(reports))
    if since_days is not None:
        select = attrs.evolve(select, since_days=since_days)
    today = date.fromisoformat(QuotaCalendar().day(SystemClock().now()))
    try:
        return wanted_reports(place, select, today)
    except (HostError, ManifestInvalid) as error:
        raise Refusal("farm.unreadable", exit_code=FOUND, why=error) from error


def _tell_plan(answers: Answers, planned: list[Planned]) -> None:
    words = answers.words
    handed = [one for one in planned if one.phone is not None]
    for one in handed:
        answers.tell(words("farm.plan.row", phone=one.phone, report=one.report_id, title=one.title))
    kept = Counter(one.why for one in planned if one.phone is None)
    for why, number in sorted(kept.items()):
        answers.say(f"farm.plan.why.{why}", count=number)
    answers.say("farm.plan.done", count=len(handed))
    answers.document({"planned": [attrs.asdict(one) for one in planned]})


# -- work


def _build_work(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="farm.work")
    @_database(words)
    @click.option("--phone", required=True, metavar="SERIAL", help=words("farm.work.phone"))
    @click.option("--account", metavar="NAME", help=words("farm.work.account"))
    @click.option("--adb-server", metavar="HOST:PORT", help=words("farm.work.adb_server"))
    @click.option("--profile", help=words("farm.work.profile"))
    @click.option(
        "--quota-limit", type=Number(0, MOST_REPORTS), metavar="N", help=words("farm.work.quota_limit")
    )
    @click.option("--scenario", help=words("farm.work.scenario"))
    @click.option("--time-scale", type=Number(0.01, FASTEST), metavar="X", help=words("farm.work.time_scale"))
    @click.option("--watch", is_flag=True, help=words("farm.work.watch"))
    @click.option("--yes", is_flag=True, help=words("farm.work.yes"))
    @shared(words)
    def work(**options: Any) -> int:
        return _work(words, options)

    return work


def _work(words: Words, options: Mapping[str, Any]) -> int:
    from hibor.collect.interrupts import Interrupts
    from hibor.collect.session import log_to_stderr
    from hibor.collect.stops import RunStop
    from hibor.farm.planning import REPORT_TASK
    from hibor.farm.worker import Worker, phone_lock
    from hibor.people.progress import Progress

    answers = Answers(words, quiet=options["quiet"], json_wanted=options["json_wanted"])
    task, simulated = _task(options, words)
    progress = Progress(words.lang, quiet=options["quiet"])
    log_to_stderr(False, progress)
    interrupts = Interrupts()
    phone = options["phone"]
    try:
        with ExitStack() as stack:
            stack.enter_context(interrupts.installed())
            farm = f"{options['database']}\n{Path.cwd()}" if simulated else ""
            stack.enter_context(phone_lock(phone, farm))
            station = stack.enter_context(_station(options, task, simulated, progress))
            worker = Worker(task=task, station=station, progress=progress, interrupts=interrupts)
            host = stack.enter_context(
                _host(options["database"], phone=phone, max_attempts=1, polling_s=POLL_S)
            )
            host.register_handler(REPORT_TASK, worker.collect)
            _launch(host, options["database"])
            try:
                worker.wait(host, watch=options["watch"], poll_s=POLL_S)
            except KeyboardInterrupt:
                # The second signal ends what is under way, as a crash would; the next worker goes on.
                if worker.interrupted:
                    os._exit(INTERRUPTED)
                raise
    except RunStop as stop:
        raise Refusal(
            "farm.work.stopped", exit_code=_exit_of(stop), code=stop.code, detail=_told(words, stop)
        ) from stop
    return _tell_work(answers, phone, worker)


def _task(options: Mapping[str, Any], words: Words) -> tuple[Any, bool]:
    """The task of every job, and whether the phone is a simulated one. Raises Refusal."""
    from hibor.collect.session import resolve_task
    from hibor.collect.stops import RunStop
    from hibor.task import TaskError

    simulated = options["scenario"] is not None
    values = dict.fromkeys(("deadline", "count", "wait"))
    values |= {
        key: options[key] for key in ("adb_server", "profile", "quota_limit", "scenario", "time_scale")
    }
    values |= {key: None if options[key] is None else str(options[key]) for key in ("task", "library")}
    values |= {"device": None if simulated else options["phone"], "lang": options["lang"]}
    try:
        task, simulated = resolve_task(values)
    except (TaskError, ValueError) as error:
        why = reason_text(words.lang, RunStop("task_invalid", "").code, str(error))
        raise Refusal("farm.work.unusable", why=why) from error
    return (attrs.evolve(task, account=options["account"]) if options["account"] else task), simulated


@contextmanager
def _station(options: Mapping[str, Any], task: Any, simulated: bool, progress: Any) -> Iterator[Any]:
    from hibor.collect.consent import require_consent
    from hibor.collect.session import open_station

    values = {**options, "device": None if simulated else options["phone"]}
    with open_station(values, task, simulated) as station:
        if simulated:
            progress.say("simulated")
        yield require_consent(station, task, progress, assume_yes=options["yes"])


def _exit_of(stop: Any) -> int:
    from hibor.collect.governance import RunFacts, decide

    facts = RunFacts(
        cause=stop.code, busy=stop.busy, uncertain=stop.uncertain, task_invalid=stop.task_invalid
    )
    return decide(facts)[1]


def _told(words: Words, stop: Any) -> str:
    """Why a worker ended, in the reader's language."""
    return reason_text(words.lang, stop.code, stop.detail).rstrip("。")


def _reason(words: Words, reason: str) -> str:
    """Why a report was not had (`CODE: detail`, perhaps with the mark of a paid one in front)."""
    from hibor.farm.planning import PAID

    head, _, detail = reason.partition(": ")
    return f"{head}: {reason_text(words.lang, head.removeprefix(PAID), detail or head)}"


def _tell_work(answers: Answers, phone: str, worker: Worker) -> int:
    words, ended = answers.words, worker.ended
    for report_id, reason in worker.refused.items():
        answers.tell(words("farm.work.refused", report=report_id, reason=_reason(words, reason)))
    answers.tell(words("farm.work.done", count=len(worker.delivered)))
    if ended is not None:
        answers.warn("farm.work.stopped", code=ended.code, detail=_told(words, ended))
    values = {"phone": phone, "delivered": worker.delivered, "refused": worker.refused}
    answers.document({**values, "ended": None if ended is None else attrs.asdict(ended)})
    if ended is not None:
        return ended.exit_code
    if worker.interrupted:
        return INTERRUPTED
    return FOUND if worker.refused else DONE


# -- status


def _build_status(words: Words) -> click.Command:
    @click.command(cls=SpokenCommand, words=words, section="farm.status")
    @_database(words)
    @shared(words, library=False)
    def status(database: str, json_wanted: bool, quiet: bool, lang: str | None) -> int:
        del lang
        from hibor.farm.planning import REPORT_TASK

        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        if database.startswith("sqlite:///") and not Path(database.removeprefix("sqlite:///")).is_file():
            raise Refusal("farm.no_database", where=database)
        with _host(database) as host:
            _launch(host, database)
            jobs = host.jobs(REPORT_TASK)
        _tell_status(answers, jobs)
        return DONE

    return status


def _state(job: JobView) -> str:
    if job.finished or job.failed:
        return "done" if job.finished else "failed"
    return "running" if job.status == "PENDING" else "queued"


def _tell_status(answers: Answers, jobs: list[JobView]) -> None:
    words = answers.words
    phones = {job.phone: Counter[str](queued=0, running=0, done=0, failed=0) for job in jobs}
    for job in jobs:
        phones[job.phone][_state(job)] += 1
    if not jobs:
        answers.tell(words("farm.status.empty"))
    for phone, counts in sorted(phones.items()):
        answers.tell(words("farm.status.row", phone=phone, **counts))
    failed = [job for job in jobs if job.failed]
    for job in failed:
        answers.tell(
            words(
                "farm.status.failed",
                report=job.job_id,
                phone=job.phone,
                reason=_reason(words, job.reason or "?"),
            )
        )
    rows = [
        {"report_id": job.job_id, "phone": job.phone, "state": _state(job), "reason": job.reason}
        for job in jobs
    ]
    answers.document(json.loads(json.dumps({"phones": phones, "reports": rows})))
