"""One recovery from options to exit code: library and ledger, the phone if there is one, the answer.

1. `--list` and `--dry-run` read only: no lock is taken, no index written, no unfinished line moved.
2. A recovery without a reachable phone does what needs none and says so.
3. Nothing is reserved and nothing is opened in the app.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any, cast

import attrs

from fsm import Tables
from generated.governance import COMMAND_EXITS, RUN_STATUSES
from hibor.clock import Clock, SystemClock
from hibor.collect import preflight
from hibor.collect.awake import give_back
from hibor.collect.belonging import owner_of
from hibor.collect.consent import note_first_use
from hibor.collect.deadline import Deadline
from hibor.collect.services import Services
from hibor.collect.session import open_station
from hibor.collect.station import Station
from hibor.collect.stops import RunStop
from hibor.durable import DurableError
from hibor.items import leftovers
from hibor.items.leftovers import Broken, Leftover
from hibor.items.recovery import Recovered, recover_all
from hibor.locks import Locks
from hibor.messages import default_lang, text
from hibor.package.layout import Library, new_run_id
from hibor.package.manifest import Manifest
from hibor.people.recover_telling import Telling
from hibor.quota.day import check_host_clock
from hibor.quota.errors import LedgerInvalid, QuotaError
from hibor.quota.ledger import Ledger
from hibor.quota.noted import known_heads, ledgers_of
from hibor.quota.reading import LedgerReading
from hibor.task import EMBEDDED_ACCOUNT, Task, TaskError, load_task, with_options

WINDOW_S = 3600.0
"""A recovery by itself has no window; this bounds what it waits for a phone in all, in seconds."""
_EXITS = {status: code for status, code, _when, _meaning in RUN_STATUSES}


def recover_session(options: Mapping[str, Any]) -> int:
    """Do what the options say; prints the answer and returns the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    telling = Telling(options["lang"] or default_lang(), as_json=options["as_json"], quiet=options["quiet"])
    try:
        task, simulated = resolve(options)
        telling.lang = task.lang
        if options["only_list"] or options["dry_run"]:
            return _show(options, task, telling)
        return _recover(options, task, simulated, telling)
    except (TaskError, ValueError) as error:
        return telling.refuse(
            "refused", COMMAND_EXITS["usage"], code=RunStop("task_invalid", "").code, detail=str(error)
        )
    except RunStop as stop:
        if stop.busy:
            return telling.refuse("busy", _EXITS["BUSY"], holder=stop.detail)
        if stop.uncertain:
            return telling.refuse("ledger", _EXITS["STATE_UNCERTAIN"], code=stop.code, detail=stop.detail)
        return telling.refuse("refused", COMMAND_EXITS["usage"], code=stop.code, detail=stop.detail)
    except LedgerInvalid as error:
        doubt = RunStop(error.failure, str(error))
        return telling.refuse("ledger", _EXITS["STATE_UNCERTAIN"], code=doubt.code, detail=doubt.detail)
    except DurableError as error:
        return telling.refuse("refused", COMMAND_EXITS["found"], detail=str(error))


def resolve(options: Mapping[str, Any]) -> tuple[Task, bool]:
    """The task a recovery works for, and whether the library's own practice phone is to be started.

    Open items are finished with the phone and the clock they were begun with, so the library decides; a task
    only names it. Raises TaskError, ValueError.
    """
    task = load_task(options["task"]) if options["task"] else Task.embedded()
    task = with_options(
        task,
        library=options["library"],
        device=options["device"],
        profile=options["profile"],
        lang=task.spoken(options["lang"]),
    )
    if not task.library_path.is_dir():
        raise ValueError(f"there is no library {task.library}")
    library = Library(task.library_path)
    owner, named = owner_of(library), bool(options["device"] or options["adb_server"])
    if owner == "practice" and named:
        raise ValueError(text(options["lang"] or default_lang(), "recover.practice_only", path=library.root))
    unnamed = not named and not options["task"]
    simulated = owner == "practice" or (owner is None and unnamed and library.phone_state.is_dir())
    account = options["account"] or (task.account if options["task"] else _only_account(task, options))
    return attrs.evolve(task, account=account), simulated


def _only_account(task: Task, options: Mapping[str, Any]) -> str:
    """The account of the library's one ledger; the embedded default's where there is none yet."""
    found = ledgers_of(preflight.library_of(task))
    if len(found) > 1:
        raise ValueError(text(options["lang"] or default_lang(), "recover.account"))
    return found[0][0] if found else EMBEDDED_ACCOUNT


# -- looking -------------------------------------------------------------------------------------------------


def _show(options: Mapping[str, Any], task: Task, telling: Telling) -> int:
    services = _services(task, SystemClock())
    library = services.library
    heads = known_heads(library, services.durable)
    ledger = LedgerReading(library.ledger(task.account), task.account, heads)
    services.ledger = cast(Ledger, ledger)
    found, broken = leftovers.find(services, writes=False)
    waiting = sum(leftovers.is_settled_by_preflight(event, services) for event in ledger.open_reservations())
    telling.leftovers(found, broken, waiting, _now_of(library, found), task.library)
    if options["dry_run"]:
        telling.say("dry_run")
    return _exit_of_broken(broken) or (COMMAND_EXITS["found"] if found or waiting else COMMAND_EXITS["done"])


def _now_of(library: Library, found: Sequence[Leftover]) -> datetime:
    """The time that ages are counted to: ours, or the last that a practice library has noted of its own."""
    noted = [datetime.fromisoformat(leftover.since) for leftover in found]
    return max(noted) if noted and owner_of(library) == "practice" else SystemClock().now()


def _exit_of_broken(broken: list[Broken]) -> int:
    if any(item.uncertain for item in broken):
        return _EXITS["STATE_UNCERTAIN"]
    return _EXITS["CONTRACT_ERROR"] if broken else 0


# -- recovering ----------------------------------------------------------------------------------------------


def _recover(options: Mapping[str, Any], task: Task, simulated: bool, telling: Telling) -> int:
    with ExitStack() as stack:
        durable = preflight.library_disk()
        with preflight.checked_ledger(task, preflight.library_of(task), durable, SystemClock()):
            library, takeover = preflight.open_library(task, durable, stack)
        if takeover is not None:
            telling.warn("takeover", owner=takeover.owner)
        if simulated and options["task"]:
            telling.warn("practice_phone")
        station = stack.enter_context(_station(options, task, simulated, telling))
        if station is not None:
            note_first_use(station, library)
        clock = SystemClock() if station is None else station.clock
        services = _services(task, clock)
        durable.make_folders(library.ledger_folder(task.account), step="ledger.folder")
        preflight.check_manifest(services)
        ledger = preflight.open_ledger(task, library, durable, clock, services.calendar)
        services.ledger = ledger
        stack.callback(ledger.close)
        _check_clock(clock, ledger)
        phone = station is not None and _phone(station, task, services, telling)
        close = [_item_named(word, services, telling.lang) for word in options["close"]]
        done = recover_all(services, close=close)
    telling.recovered(
        done, task.library, [item for item in close if item in {one.draft.job.item_id for one in done.kept}]
    )
    return _exit(done, services, missed_phone=telling.no_phone and not phone)


def _exit(done: Recovered, services: Services, *, missed_phone: bool) -> int:
    if done.uncertain or services.ledger_blocked is not None:
        return _EXITS["STATE_UNCERTAIN"]
    if done.contract_error:
        return _EXITS["CONTRACT_ERROR"]
    if any(not result.closed for result in done.results):
        return COMMAND_EXITS["warnings"] if missed_phone else COMMAND_EXITS["found"]
    return COMMAND_EXITS["done"]


def _services(task: Task, clock: Clock) -> Services:
    durable = preflight.library_disk()
    library = preflight.library_of(task)
    services = Services(
        run_id=new_run_id(clock.now()),
        tables=Tables.default(),
        clock=clock,
        deadline=Deadline(clock, WINDOW_S, 0.0),
        durable=durable,
        library=library,
        manifest=Manifest(library.manifest, durable, Locks(durable, SystemClock())),
        task=task,
        quota_limit=task.quota.limit,
    )
    services.started_at = services.stamp()
    services.day = services.calendar.day(clock.now())
    return services


@contextmanager
def _station(
    options: Mapping[str, Any], task: Task, simulated: bool, telling: Telling
) -> Iterator[Station | None]:
    """Where the phone is, None where none was named or none is reached."""
    if not simulated and not (options["task"] or options["device"] or options["adb_server"]):
        yield None
        return
    with ExitStack() as stack:
        try:
            station = stack.enter_context(open_station({**options, "scenario": None}, task, simulated))
        except RunStop as stop:
            if simulated:
                raise  # its clock is the only one that fits these books
            telling.without_phone(stop.code, stop.detail)
            station = None
        yield station


def _check_clock(clock: Clock, ledger: Ledger) -> None:
    """Refuse to add to a ledger with a clock that is behind it. Raises RunStop (CLOCK_INVALID)."""
    try:
        check_host_clock(clock.now(), ledger.last_at)
    except QuotaError as error:
        raise RunStop(error.failure, str(error)) from error


def _phone(station: Station, task: Task, services: Services, telling: Telling) -> bool:
    """Reach phone and app; a phone that cannot be reached is said and done without."""
    try:
        phone = preflight.open_phone(station, task, services)
        give_back(services, phone.serial_hash)
    except RunStop as stop:
        services.device = services.app = services.cache = services.profile = None
        telling.without_phone(stop.code, stop.detail)
        return False
    return True


def _item_named(word: str, services: Services, lang: str) -> str:
    """The id of the open item that begins with `word`. Raises ValueError where there is none, or several."""
    ids = {folder.item_id for folder in leftovers.open_folders(services)}
    fitting = [item for item in ids if word and item.startswith(word.lower())]
    if len(fitting) != 1:
        raise ValueError(text(lang, "recover.no_such_item", item=word))
    return fitting[0]
