"""ENOSPC, EIO, EACCES, EROFS and ENOTSUP at every call of the seam, live, on the warm phone (design 7)."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator

import attrs

from fsm import FsmError
from hibor.locks import LockUnusable
from hibor.quota.errors import LedgerInvalid
from hibor.durable import DurableError
from tests.faults.checks import Facts, look, recover_once
from tests.faults.disk import Image, Recorder
from tests.faults.plays import ALWAYS, Stage, play_named
from tests.faults.theatre import Theatre
from tests.faults.world import FIRST_RUN, open_world

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.ENOTSUP)


@attrs.frozen
class Fault:
    """One call that fails: its number within the play, its name, and the error; `lasting` makes all later calls
    of that name fail too."""

    number: int
    error: int
    lasting: bool = False


@attrs.frozen
class Met:
    """What a play with a fault came to."""

    fault: Fault
    call: str
    step: str
    codes: tuple[str, ...]
    violations: tuple[str, ...]


def calls_of(theatre: Theatre, name: str) -> list[str]:
    """Names of the seam's calls in a play without a fault, in order, from the first item's first step on."""
    seen: list[str] = []
    run_with_fault(theatre, name, None, seen)
    return seen


def run_with_fault(theatre: Theatre, name: str, fault: Fault | None, seen: list[str] | None = None) -> Met:
    """Run a play with one failing call on its report's twin, recover without faults, and look."""
    root, phone = theatre.room(), theatre.phones[ALWAYS]
    root.mkdir()
    place, hit = [0], ["", ""]
    disk = Recorder(root)

    def before(call: str, path: str) -> None:
        if call.startswith("mark") or not disk.armed:
            return
        place[0] += 1
        if seen is not None:
            seen.append(call)
        if fault is None:
            return
        again = fault.lasting and hit[0] == call and place[0] > fault.number
        if place[0] == fault.number or again:
            hit[:] = [call, disk.step]
            raise OSError(fault.error, os.strerror(fault.error))

    disk._before = before
    play = play_named(name)
    entries = theatre.fresh(play)
    phone.app.open_app()
    world = open_world(root, phone, theatre.at, fs=disk, run_id=FIRST_RUN, limit=play.limit)
    stage = Stage(world, phone, disk, entries)
    wrong: list[str] = []
    disk.armed = True
    try:
        play.act(stage, name)
    finally:
        disk.armed = False
        world.close()
    codes = tuple(item.result.code if item.result else "RUNNING" for item in stage.items)
    for item in stage.items:
        if item.result is not None and item.result.contract_error:
            wrong.append(f"item {item.job.index}: {item.result.detail}")
    try:
        wrong += _recovered(theatre, root, stage)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return Met(fault or Fault(0, 0), hit[0], hit[1], codes, tuple(wrong))


def _recovered(theatre: Theatre, root, stage: Stage) -> list[str]:  # type: ignore[no-untyped-def]
    phone = theatre.phones[ALWAYS]
    reports = {item.job.entry.report_id for item in stage.items}
    served = {report: count for report, count in phone.served.items() if report in reports}
    start, taps, found = Image.of(root), phone.trigger_taps, list[str]()
    recover_once(root, phone, theatre.at, found)
    if phone.trigger_taps != taps:
        found.append("recovery tapped a control that leads to a download")
    foreign = {path: digest for _done, path, digest in stage.disk.written_by_others}
    known = theatre.known_files() | set(foreign.values())
    facts = Facts(served, frozenset(served), foreign, frozenset(known))
    return found + look(root, start, facts, True)[3]


def faults(calls: list[str], *, every: int = 1) -> Iterator[Fault]:
    """One fault for each call and error; with `every` > 1 each call meets one error in turn."""
    for number in range(1, len(calls) + 1):
        if every > 1:
            if number % every == 0:
                yield Fault(number, ERRORS[number // every % len(ERRORS)], lasting=number // every % 3 == 0)
            continue
        for error in ERRORS:
            yield Fault(number, error)
            yield Fault(number, error, lasting=True)


__all__ = ["DurableError", "FsmError", "LedgerInvalid", "LockUnusable", "calls_of", "faults", "run_with_fault"]
