"""Consoles that are closed, full or left, foreign names on them, and arguments no disk could hold."""

from __future__ import annotations

import errno
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hibor.cli import COMMANDS
from hibor.cli import main as hibor
from hibor.library import main as library
from hibor.messages import text
from hibor.messages.lines import Lines, one_line
from hibor.people import console
from hibor.quarantine import main as quarantine
from tests.main_job import ROOT, environment
from tests.people.conftest import Ask, Told

posix = pytest.mark.skipif(os.name == "nt", reason="a shell's redirections")
FORGED = "b\nFORGED \x1b[31mline\u202e.pdf"
NO_UTF8 = os.fsdecode(b"a\xff\xfe.pdf")
SHOWN = "b\\nFORGED \\u001b[31mline\\u202e.pdf"


def shell(arguments: str, redirections: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """The command under a shell that does with its streams what is asked."""
    line = f"exec {shlex.quote(sys.executable)} -m hibor {arguments} {redirections}"
    known = {name: value for name, value in environment().items() if not name.startswith(("LC_", "LANG"))}
    through = ["bash", "-o", "pipefail", "-c", line]
    return subprocess.run(through, cwd=ROOT, env={**known, **more}, capture_output=True, timeout=120)


class Broken(io.RawIOBase):
    """A stream the system refuses to write."""

    def __init__(self, number: int) -> None:
        self.number = number

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        raise OSError(self.number, os.strerror(self.number))


@contextmanager
def stdout_on(number: int) -> Iterator[None]:
    """stdout on a stream that the system refuses to write."""
    before, stream = sys.stdout, io.TextIOWrapper(io.BufferedWriter(Broken(number)), "utf-8")
    sys.stdout = stream
    try:
        yield
    finally:
        sys.stdout = before


# -- streams that take nothing ---------------------------------------------------------------------------


@posix
@pytest.mark.parametrize(
    ("redirections", "code", "said"),
    [
        (">&-", 1, "standard output is closed"),
        (">/dev/full", 1, "no space is left where standard output goes"),
        ("| true", 0, ""),
        ("2>&-", 0, ""),
        ("2>/dev/full", 0, ""),
        (">&- 2>&- <&-", 1, ""),
    ],
)
def test_a_console_that_takes_nothing_is_told_in_one_line(redirections: str, code: int, said: str) -> None:
    if "/dev/full" in redirections and not Path("/dev/full").exists():
        pytest.skip("no device that is always full")
    ended = shell("explain --lang en", redirections)
    told = ended.stderr.decode().splitlines()
    assert (ended.returncode, len(told)) == (code, bool(said)), told
    assert said in "".join(told)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_bears_a_full_disk_behind_stdout(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Help goes through the same entry and the same streams as every answer."""
    with stdout_on(errno.ENOSPC):
        code = hibor([command, "--help", "--lang", "en"])
    (line,) = capsys.readouterr().err.splitlines()
    assert code == 1 and line.startswith("The answer could not be written: no space is left")


def test_a_reader_that_left_costs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with stdout_on(errno.EPIPE):
        assert hibor(["explain"]) == 0
    assert capsys.readouterr().err == ""


def test_streams_are_given_back_and_hold_nothing_that_fails_later() -> None:
    with stdout_on(errno.ENOSPC):
        before = sys.stdin, sys.stdout, sys.stderr
        with console.opened():
            print("lost")
            inner = sys.stdout
            with console.opened():
                assert sys.stdout is inner
            assert console.answer_lost() and console.why_lost() == "full"
            assert not console.answer_lost()  # told once
        assert (sys.stdin, sys.stdout, sys.stderr) == before
        sys.stdout.flush()


@posix
def test_a_run_whose_document_nobody_can_take_ends_its_items_and_keeps_it(tmp_path: Path) -> None:
    library = shlex.quote(str(tmp_path / "library"))
    ended = shell(f"run --library {library} --count 1 --time-scale 40 --deadline 6000 --lang en", ">&- <&-")
    (kept,) = tmp_path.glob("library/runs/*/run.json")
    document = json.loads(kept.read_bytes())
    assert ended.returncode == document["exit_code"] == 0
    assert [item["status"] for item in document["items"]] == ["SUCCESS"]
    assert f"{document['paths']['run']}/run.json" in ended.stderr.decode()


@posix
def test_a_closed_descriptor_is_never_given_to_a_file(tmp_path: Path) -> None:
    """A file that got number 1 would take what is written to stdout."""
    code = (
        "from hibor.people.console import opened\n"
        "with opened():\n"
        "    print(open(__import__('sys').argv[1], 'w').fileno(), file=__import__('sys').stderr)\n"
    )
    line = f"exec {shlex.join([sys.executable, '-c', code, str(tmp_path / 'file')])} >&- <&-"
    ended = subprocess.run(["bash", "-c", line], cwd=ROOT, env=environment(), capture_output=True, timeout=60)
    assert int(ended.stderr) > 2


# -- foreign names ---------------------------------------------------------------------------------------


def test_foreign_text_stays_within_its_line_and_json_reads_it_back() -> None:
    for name in (FORGED, NO_UTF8, "a\rb\tc\x9b"):
        shown = one_line(name)
        assert shown.isprintable() and len(shown.splitlines()) == 1
        assert json.loads(f'"{shown}"') == name
    assert one_line(FORGED) == SHOWN
    assert text("en", "common.no_library", path=Path(FORGED)).count("\n") == 0
    assert text("en", "common.mistake", what=Lines("a\nb"), name="x").startswith("a\nb")


def test_a_stream_lets_colours_pass_to_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for forced, shown in (("", "\\u001b[1mx\\r\r\n"), ("1", "\x1b[1mx\r\r\n")):
        monkeypatch.setenv("FORCE_COLOR", forced)
        under = io.BytesIO()
        wrapped = io.TextIOWrapper(under)
        stream = console.Stream(wrapped, encoding="utf-8", newline="")
        stream.write("\x1b[1mx\r\r\n\x9b")
        stream.flush()
        assert under.getvalue().decode() == f"{shown}\\u009b"


@posix
@pytest.mark.parametrize("main", [quarantine, library], ids=["quarantine", "library"])
def test_names_of_foreign_files_forge_no_line(ask: Ask, own: Told, main: Any) -> None:
    for folder in (own.library.quarantine, own.library.reports):
        folder.mkdir(exist_ok=True)
        for name in (FORGED, NO_UTF8):
            (folder / name).write_bytes(b"%PDF-1.4 x")
    what = "list" if main is quarantine else "verify"
    _code, out, err = ask(main, what, "--library", own.path, "--lang", "en")
    assert SHOWN in out and "a\\udcff\\udcfe.pdf" in out
    assert not any(line.lstrip().startswith("FORGED") for line in (out + err).splitlines())
    assert "\x1b" not in out + err
    _code, out, _err = ask(main, what, "--library", own.path, "--json")
    told = json.dumps(json.loads(out))
    assert json.dumps(FORGED)[1:-1] in told and json.dumps(NO_UTF8)[1:-1] in told


# -- arguments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strange", [NO_UTF8, "a\nFORGED", "x" * 256, "y/" * 3000])
@pytest.mark.parametrize(
    "line",
    [
        "recover --library {}", "report -o {}", "package --zip {}", "ledger verify --library {}",
        "quota --library {}", "find x --library {}", "want add --library {}", "task init {}", "task check {}",
        "schedule print --task {}", "library verify --library {}", "quarantine copy x -o {}",
        "runs --task {}", "discover --profile {}", "doctor --scenario {}", "sim --state {}",
        "farm plan --phone a --library {}",
    ],
)  # fmt: skip
def test_a_name_no_disk_takes_is_refused_before_anything_is_done(
    ask: Ask, line: str, strange: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ask(hibor, *(strange if word == "{}" else word for word in line.split()), "--lang", "en")
    assert (code, out) == (64, ""), err
    assert len(err.splitlines()) == 1 and "Nothing was done" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "recover --device {}", "report --library {}", "find x --library {}", "want list --library={}",
        "want add {}", "explain {}", "ledger --account {} verify", "ledger verify --zone {}",
        "discover --task {}", "doctor --scenario {}", "task check {}", "schedule print --task {}",
    ],
)  # fmt: skip
def test_an_empty_value_is_never_taken_for_none(
    ask: Ask, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = ask(hibor, *(word.replace("{}", "") for word in line.split()), "--lang", "en")
    assert (code, out) == (64, "") and "is empty" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("lang", "said"), [("en", "not UTF-8"), ("zh", "不是 UTF-8")])
def test_a_strange_argument_of_a_run_ends_with_its_document(ask: Ask, lang: str, said: str) -> None:
    code, out, err = ask(hibor, "run", "--device", NO_UTF8, "--lang", lang)
    assert code == json.loads(out)["exit_code"] == 64
    assert said in err and "a\\udcff" in json.loads(out)["stop_reason"]["detail"]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="file names are UTF-8 there, whatever is set")
def test_a_python_that_cannot_write_chinese_names_is_told_what_to_set(tmp_path: Path) -> None:
    narrow = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    library = tmp_path / "library"
    ended = shell(f"run --lang en --library {shlex.quote(str(library))}", "", **narrow)
    assert ended.returncode == json.loads(ended.stdout)["exit_code"] == 64
    assert b"PYTHONUTF8=1" in ended.stderr and not library.exists()
    assert shell("find --help --lang zh", "", **narrow).returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        "find x --limit", "runs --last", "discover --max-pages", "run --count", "run --quota-limit",
        "run --deadline", "run --time-scale", "recover --time-scale", "doctor --time-scale", "sim --port",
        "sim --time-scale", "sim --parent-pid", "farm plan --phone a --count",
        "farm plan --phone a --since-days", "farm work --phone a --quota-limit",
        "farm work --phone a --time-scale",
    ],
)  # fmt: skip
def test_a_number_out_of_its_range_is_refused_with_the_range(ask: Ask, line: str) -> None:
    for value in ("1" + "0" * 20, "1" * 5000, "nan", "inf", "-1", "x"):
        for lang, said in (("en", " number from "), ("zh", " 到 ")):
            code, _out, err = ask(hibor, *line.split(), value, "--lang", lang)
            assert code == 64 and said in err, (value, err)
