"""How a dump is obtained: F29, F31, F34, F44 at the shell call."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from hibor.device.dumping import NULL_ROOT_TRIES, Dumper
from hibor.device.errors import DeviceError, NeverIdle
from hibor.device.shellout import ShellResult
from tests.device.dumps import hierarchy, node

GOOD = b"UI hierchary dumped to: /sdcard/hibor-window.xml\n"
NULL_ROOT = b"ERROR: null root node returned by UiTestAutomationBridge.\n"
NOT_IDLE = b"ERROR: could not get idle state.\n"
SLOT = (
    b"java.lang.IllegalStateException: UiAutomationService android.accessibilityservice already registered!\n"
)
XML = hierarchy(node("a", "x"))


class VirtualClock:
    """A clock that moves when somebody waits."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time_s, UTC)

    def monotonic_s(self) -> float:
        return self.time_s

    def sleep(self, wait_s: float) -> None:
        self.time_s += wait_s


class Shell:
    """A phone's shell that writes the dump file only when the script says so, and keeps an old one
    otherwise.
    """

    def __init__(
        self, clock: VirtualClock, script: Sequence[tuple[bytes, bytes | None]], *, rm_works: bool = True
    ) -> None:
        self.clock, self.script, self.rm_works = clock, list(script), rm_works
        self.file: bytes | None = hierarchy(node("old", "previous page"))
        self.calls: list[list[str]] = []

    def __call__(
        self, *commands: Sequence[str], limit_bytes: int, timeout_s: float
    ) -> tuple[ShellResult, ...]:
        remove, dump, cat = commands
        assert remove[:2] == ["rm", "-f"] and cat == ["cat", dump[-1]] and remove[2] == dump[-1]
        self.calls.append(list(dump))
        self.clock.sleep(1.2)
        said, xml = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if self.rm_works:
            self.file = None
        if xml is not None:
            self.file = xml
        content = ShellResult(0, self.file) if self.file is not None else ShellResult(1, b"", b"No such file")
        return ShellResult(0 if self.rm_works else 1, b""), ShellResult(0, said), content


def dumper(script: Sequence[tuple[bytes, bytes | None]], **options: bool) -> tuple[Dumper, Shell]:
    clock = VirtualClock()
    shell = Shell(clock, script, **options)
    return Dumper(shell, clock, timeout_s=60.0), shell


def test_one_shell_call_serves() -> None:
    reader, shell = dumper([(GOOD, XML)])
    parsed = reader.dump("list")
    assert parsed.nodes[0].text == "x" and parsed.taken_s == pytest.approx(1.2) and len(shell.calls) == 1


def test_f29_null_root_once_is_retried() -> None:
    reader, shell = dumper([(NULL_ROOT, None), (GOOD, XML)])
    assert reader.dump().nodes[0].text == "x" and len(shell.calls) == 2
    assert reader.last is not None and reader.last.tries == 2


def test_f29_null_root_always_is_unreadable_after_bounded_tries() -> None:
    reader, shell = dumper([(NULL_ROOT, None)])
    with pytest.raises(DeviceError) as caught:
        reader.dump()
    assert caught.value.failure == "dump_unreadable" and "null root node" in caught.value.detail
    assert len(shell.calls) == NULL_ROOT_TRIES


def test_f31_not_idle_goes_to_compressed_and_is_remembered_per_screen() -> None:
    reader, shell = dumper([(NOT_IDLE, None), (GOOD, XML), (GOOD, XML), (GOOD, XML)])
    reader.dump("list")
    reader.dump("list")
    reader.dump("detail")
    assert ["--compressed" in call for call in shell.calls] == [False, True, True, False]


def test_f31_a_screen_that_never_idles_says_so_and_is_asked_for_compressed_dumps_from_then_on() -> None:
    reader, shell = dumper([(NOT_IDLE, None), (NOT_IDLE, None), (GOOD, XML)])
    with pytest.raises(NeverIdle) as caught:
        reader.dump("list")
    assert caught.value.failure == "dump_unreadable" and "idle" in caught.value.detail
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), NeverIdle)
    reader.dump("list")
    assert ["--compressed" in call for call in shell.calls] == [False, True, True]


def test_f34_an_old_file_is_never_taken_for_a_new_dump() -> None:
    reader, _ = dumper([(GOOD, None)])
    with pytest.raises(DeviceError):
        reader.dump()
    stuck, _ = dumper([(GOOD, None)], rm_works=False)
    with pytest.raises(DeviceError) as caught:
        stuck.dump()
    assert "old dump file" in caught.value.detail


def test_f44_taken_slot_is_an_answer_of_its_own_without_a_loop() -> None:
    reader, shell = dumper([(SLOT, None)])
    with pytest.raises(DeviceError) as caught:
        reader.dump()
    assert caught.value.failure == "ui_slot_taken" and len(shell.calls) == 1


def test_deadline_bounds_the_whole() -> None:
    clock = VirtualClock()
    shell = Shell(clock, [(b"Killed\n", None)])
    with pytest.raises(DeviceError) as caught:
        Dumper(shell, clock, timeout_s=2.0).dump()
    assert caught.value.failure == "dump_unreadable" and clock.time_s <= 4.0


def test_killed_after_a_written_dump_is_a_dump() -> None:
    reader, _ = dumper([(GOOD + b"Killed\n", XML)])
    assert reader.dump().nodes[0].text == "x"
