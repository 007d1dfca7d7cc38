"""Deliberately broken variants of what commands and whole runs do, and the check that has to notice each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import patch

import hibor.collect.collector
from hibor.collect.awake import MODE, OFF, awake_path, give_back
from hibor.collect.services import Services
from hibor.durable import EXPORT_FLAGS, Durable, FileFacts
from hibor.durable_fs import CHANGE_FLAGS
from hibor.durable_parts import Parts
from tests.faults.command_kills import kill_run
from tests.faults.commands import scene_named
from tests.faults.mutants import Mutant
from tests.faults.runs import run_named
from tests.faults.scenes import played, record_scene, sweep_recording
from tests.faults.theatre import Theatre


def crashed_now(name: str) -> Callable[[Theatre], list[str]]:
    """Record a command under the program as it is now, and crash it."""

    def check(theatre: Theatre) -> list[str]:
        try:
            recording = record_scene(theatre, scene_named(name))
        except AssertionError as error:
            return [str(error)]
        return sweep_recording(theatre, recording).violations

    return check


def crashed_before(name: str) -> Callable[[Theatre], list[str]]:
    """What the program as it is now makes of a command that crashed before."""

    def check(theatre: Theatre) -> list[str]:
        return sweep_recording(theatre, played(theatre, scene_named(name))).violations

    return check


def killed_before_the_note(theatre: Theatre) -> list[str]:
    """A run killed before it notes the phone's setting leaves the phone as it was."""
    _killed, wrong = kill_run(theatre, run_named("run"), "awake.write", "before")
    return wrong


@contextmanager
def _named_at_once() -> Iterator[None]:
    def export(
        self: Durable, path: Path, fill: Callable[[BinaryIO], None], *, step: str, replace: bool = False
    ) -> FileFacts:
        with self._named(step):
            if replace:
                self._discard(path, step)
            descriptor = self._fs.open(path, EXPORT_FLAGS)
            with os.fdopen(descriptor, "w+b", closefd=False) as stream:
                fill(stream)
            self._fs.fsync(descriptor)
            self._fs.close(descriptor)
            self._sync_folder(path.parent, step)
            return self._facts(path, step, missing="U")

    with patch.object(Durable, "export", export):
        yield


@contextmanager
def _cut_first() -> Iterator[None]:
    save = Parts._save_tail

    def cut(self: Any, path: Path, start: int, tail: bytes, step: str) -> Any:
        descriptor = self._fs.open(path, CHANGE_FLAGS)
        self._fs.truncate(descriptor, start)
        self._fs.fsync(descriptor)
        self._fs.close(descriptor)
        return save(self, path, start, tail, step)

    with patch.object(Parts, "_save_tail", cut):
        yield


@contextmanager
def _torn_line_stays() -> Iterator[None]:
    with patch.object(Durable, "move_unfinished_tail", lambda self, path, *, step: None):
        yield


@contextmanager
def _set_first() -> Iterator[None]:
    def keep_awake(services: Services, serial_hash: str, stack: ExitStack, *, wanted: bool) -> None:
        if wanted:
            services.require_device().keep_awake(MODE)
            path = awake_path(services.library.root, serial_hash)
            services.durable.write_once(path, b'{"before": "%s"}\n' % OFF.encode(), step="awake.write")
            stack.callback(give_back, services, serial_hash)

    with patch.object(hibor.collect.collector, "keep_awake", keep_awake):
        yield


COMMAND_MUTANTS: tuple[Mutant, ...] = (
    Mutant("an export has its name before it is whole", _named_at_once, crashed_now("package")),
    Mutant("a repair cuts before it keeps", _cut_first, crashed_now("ledger repair")),
    Mutant("an unfinished wish stays in the list", _torn_line_stays, crashed_before("want add")),
    Mutant("the screen is kept on before it is noted", _set_first, killed_before_the_note),
)
