"""`python -m hibor.sim`: a simulated phone as a process of its own.

Rules: the only line on stdout is the JSON that says where the phone is, written when it answers; everything
else goes to stderr. The process ends on SIGTERM or Ctrl-C, when its parent is gone (`--parent-pid`), and, if
asked (`--until-eof`), when its stdin closes; each way saves the state. One process per state folder.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType

import attrs
import click
from filelock import FileLock, Timeout

from hibor.messages import LANGS, told
from hibor.people.commandline import DONE, Refusal, SpokenCommand, Words, run_command
from hibor.people.numbers import Number
from hibor.sim.adbd import Adbd
from hibor.sim.phone import OTHER_SERIAL_NUMBER, SimPhone
from hibor.sim.process import EXIT_BUSY
from hibor.sim.scenario import Scenario, ScenarioError, load_scenario, scenario_names
from hibor.sim.state import Heartbeat, PhoneDamaged, start_clock

PARENT_CHECK_S = 0.5
AHEAD = 15
LOCK_WAIT_S = 2.0
_MOMENT = click.DateTime(["%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S%z"])
_ODD_FILE = (errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.EINVAL, errno.ELOOP, errno.ENXIO)
"""Something that is not the phone's lies where one of its files or folders should be."""
LATEST_END_S = 8.0
"""Shorter than its starter waits before it ends the phone (`STOP_LIMIT_S`)."""


class _Parent:
    """The process this phone belongs to."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._direct = os.name == "posix" and os.getppid() == pid

    def alive(self) -> bool:
        """Whether it still runs; a changed direct parent says more than a number that may be reused."""
        if sys.platform == "win32":
            return self._alive_on_windows()
        if self._direct:
            return os.getppid() == self._pid
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _alive_on_windows(self) -> bool:
        """Signal 0 would be Ctrl-C there, so the system is asked for the process."""
        import ctypes

        synchronize, still_running = 0x00100000, 0x102
        kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined,unused-ignore]
        handle = kernel.OpenProcess(synchronize, False, self._pid)
        if not handle:
            return False
        try:
            return bool(kernel.WaitForSingleObject(handle, 0) == still_running)
        finally:
            kernel.CloseHandle(handle)


class _End:
    """Waits for one of the reasons to end."""

    def __init__(self, parent: _Parent | None) -> None:
        self._parent = parent
        self._over = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGBREAK", signal.SIGTERM)):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._over.set()

    def watch_stdin(self) -> None:
        """End when stdin closes; also a phone that hangs in its start, where nobody waits for that word."""

        def run() -> None:
            while os.read(0, 4096):
                pass
            self._over.set()
            time.sleep(LATEST_END_S)
            os._exit(1)

        threading.Thread(target=run, name="sim-stdin", daemon=True).start()

    def wait(self) -> None:
        """Return when it is time to end."""
        while not self._over.wait(PARENT_CHECK_S):
            if self._parent is not None and not self._parent.alive():
                return


def _print_scenarios(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        for name in scenario_names():
            click.echo(f"{name}: {load_scenario(name).description}")
        context.exit()


@attrs.frozen
class _Life:
    """How a phone lives: its scenario, its port (0: any free one) and its time line."""

    scenario: Scenario
    port: int
    scale: float
    embedded: bool
    not_before: datetime | None


def _run(folder: Path, life: _Life, end: _End) -> None:
    """Live until `end` says so."""
    scenario, port, scale = life.scenario, life.port, life.scale
    clock = start_clock(folder, scale, life.embedded, life.not_before)
    phones = [SimPhone(folder, scenario, clock)]
    if scenario.phone.second_device:
        alone = attrs.evolve(scenario, faults=())
        phones.append(SimPhone(folder / "second", alone, clock, OTHER_SERIAL_NUMBER))
    daemons = [Adbd(phone, port=port if place == 0 else 0) for place, phone in enumerate(phones)]

    def housekeeping() -> None:
        for phone in phones:
            phone.housekeeping()

    heartbeat = Heartbeat(folder, clock, scale, housekeeping)
    heartbeat.start()
    phones[0].on_record = heartbeat.beat
    for daemon in daemons:
        daemon.serve_in_thread()
    ready = {
        "port": daemons[0].port, "serial": daemons[0].serial, "pid": os.getpid(), "state": str(folder),
        "more_ports": [daemon.port for daemon in daemons[1:]],
    }
    # Real work would look like phone time on a fast clock, so it is done before it is asked for.
    ahead = threading.Thread(target=phones[0].make_pdfs_ahead, args=(AHEAD,), name="sim-pdfs", daemon=True)
    ahead.start()
    # A reader of this line may have gone already; the phone lives on for adb clients.
    with contextlib.suppress(OSError):
        os.write(1, (json.dumps(ready) + "\n").encode())
    end.wait()
    for daemon in daemons:
        daemon.close()
    heartbeat.stop()
    for phone in phones:
        phone.close()


def build(words: Words) -> click.Command:
    """The command in a language."""

    def said(key: str) -> str:
        return words(f"sim.{key}")

    @click.command(cls=SpokenCommand, words=words, section="sim")
    @click.option("--port", type=Number(0, 65535), default=0, help=said("port"))
    @click.option(
        "--state", "state_dir", type=click.Path(file_okay=False, path_type=Path), help=said("state")
    )
    @click.option("--scenario", "scenario_name", metavar="NAME", default="default", help=said("scenario"))
    @click.option(
        "--time-scale", type=Number(0.01, 10_000.0), metavar="X", default=1.0, help=said("time_scale")
    )
    @click.option("--embedded", is_flag=True, help=said("embedded"))
    @click.option("--not-before", type=_MOMENT, default=None, metavar="TIME", help=said("not_before"))
    @click.option("--parent-pid", type=Number(1, (1 << 31) - 1), default=None, help=said("parent_pid"))
    @click.option("--until-eof", is_flag=True, help=said("until_eof"))
    @click.option("--lang", type=click.Choice(LANGS), expose_value=False, help=words("common.lang"))
    @click.option(
        "--list", is_flag=True, is_eager=True, expose_value=False, callback=_print_scenarios,
        help=said("list"),
    )
    def sim(
        port: int, state_dir: Path | None, scenario_name: str, time_scale: float, embedded: bool,
        not_before: datetime | None, parent_pid: int | None, until_eof: bool,
    ) -> int:
        if state_dir is None:
            raise Refusal("sim.no_state")
        end = _End(None if parent_pid is None else _Parent(parent_pid))
        try:
            scenario = load_scenario(scenario_name)
        except ScenarioError as error:
            why = told(words.lang, str(error), words("sentences.bad_file"))
            raise Refusal("sim.no_scenario", name=scenario_name, why=why) from error
        life = _Life(scenario, port, time_scale, embedded, not_before)
        return _live(state_dir.absolute(), life, until_eof, end)

    return sim


def _live(state_dir: Path, life: _Life, until_eof: bool, end: _End) -> int:
    """Run the phone on its folder, alone; the process ends in here when all went well."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        if until_eof:
            end.watch_stdin()
        with FileLock(state_dir / "phone.lock", timeout=LOCK_WAIT_S):
            _run(state_dir, life, end)
        _leave()
    except PhoneDamaged as error:
        raise Refusal("sim.damaged", path=error.path, why=error.why, folder=state_dir) from error
    except Timeout as error:
        raise Refusal("sim.busy", exit_code=EXIT_BUSY, path=state_dir) from error
    except OSError as error:
        if error.errno in _ODD_FILE:
            damaged = {"path": error.filename, "why": error.strerror or type(error).__name__}
            raise Refusal("sim.damaged", folder=state_dir, **damaged) from error
        raise Refusal("sim.no_start", why=error.strerror or type(error).__name__) from error
    return DONE


def _leave() -> None:
    """End at once: the state is saved, and a thread inside a C library must not meet a dying interpreter."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "sim", arguments)


if __name__ == "__main__":
    sys.exit(main())
