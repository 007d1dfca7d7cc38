"""A ledger that lost its last lines is told by every command that opens it: the chain alone cannot notice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hibor.durable_fs import OsFileSystem
from hibor.ledger import main as ledger
from hibor.quota_cli import main as quota
from tests.people.conftest import Ask, Told

Main = Callable[[list[str]], int]
LOOKING: tuple[tuple[Main, tuple[str, ...]], ...] = (
    (ledger, ("verify",)),
    (ledger, ("show",)),
    (ledger, ("show", "--json")),
    (ledger, ("audit",)),
    (ledger, ("repair", "--yes")),
    (ledger, ("accept-clock", "--reason", "the clock was set")),
    (quota, ()),
    (quota, ("--csv",)),
)


def _ledger_of(own: Told) -> Path:
    (path,) = own.path.glob("quota/*/ledger.jsonl")
    for index in path.parent.glob("*.sqlite3*"):
        index.unlink()
    return path


def _refused_by_all(own: Told, ask: Ask, path: Path) -> None:
    for main, arguments in LOOKING:
        before = path.read_bytes() if path.exists() else None
        code, out, err = ask(main, *arguments, "--library", own.path, "--lang", "en")
        assert (code, out) == (27, ""), (arguments, err)
        assert err.strip() and "Traceback" not in err
        assert (path.read_bytes() if path.exists() else None) == before


def test_the_last_lines_cut_at_every_length(own: Told, ask: Ask) -> None:
    path = _ledger_of(own)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) > 4
    for kept in range(len(lines)):
        path.write_bytes(b"".join(lines[:kept]))
        code, _out, err = ask(ledger, "verify", "--library", own.path, "--lang", "en")
        assert code == 27 and "noted" in err, kept
        assert ask(quota, "--library", own.path)[0] == 27, kept
    path.write_bytes(b"".join(lines[:-1]))
    _refused_by_all(own, ask, path)


def test_a_ledger_or_its_folder_that_is_gone(own: Told, ask: Ask) -> None:
    path = _ledger_of(own)
    path.unlink()
    _refused_by_all(own, ask, path)
    shutil.rmtree(path.parent)
    _refused_by_all(own, ask, path)


def test_a_killed_run_has_noted_what_its_taps_came_to(own: Told, ask: Ask) -> None:
    """Without a terminal and a run document the journals bear witness, up to the last settled tap."""
    path = _ledger_of(own)
    for document in (*own.path.glob("runs/*/run.json"), *own.path.glob("runs/*/items/*/terminal.json")):
        document.unlink()
    lines = path.read_bytes().splitlines(keepends=True)
    settled = max(number for number, line in enumerate(lines, 1) if b'"type":"CONFIRMED"' in line)
    path.write_bytes(b"".join(lines[: settled - 1]))
    code, _out, err = ask(ledger, "verify", "--library", own.path, "--lang", "en")
    assert code == 27 and "were noted" in err


@pytest.mark.parametrize("indexed", [True, False], ids=["index", "no index"])
@pytest.mark.parametrize("cut", [1, 40])
def test_repair_does_not_cut_a_line_that_was_acknowledged(
    own: Told, ask: Ask, cut: int, indexed: bool
) -> None:
    """A head in the library's documents counts the torn line, so it is damaged and not unfinished."""
    (path,) = own.path.glob("quota/*/ledger.jsonl")
    if not indexed:
        _ledger_of(own)
    torn = path.read_bytes()[:-cut]
    path.write_bytes(torn)
    files = sorted(path.parent.iterdir())
    assert ask(ledger, "repair", "--yes", "--library", own.path)[0] == 27
    assert path.read_bytes() == torn and sorted(path.parent.iterdir()) == files


def test_lost_lines_before_a_torn_one_are_what_is_told(own: Told, ask: Ask) -> None:
    """Moving the torn line aside would not help, so nobody is sent to do that."""
    path = _ledger_of(own)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]) + lines[-2][:30])
    for command in ("verify", "show", "repair"):
        _code, _out, err = ask(ledger, command, "--library", own.path, "--lang", "en")
        assert "missing at the end" in err and "ledger repair" not in err, command


@pytest.mark.parametrize("gone", ["ledger", "run document too"])
def test_a_killed_runs_account_is_known_without_its_ledger(own: Told, ask: Ask, gone: str) -> None:
    path = _ledger_of(own)
    path.unlink()
    if gone != "ledger":
        for document in own.path.glob("runs/*/run.json"):
            document.unlink()
    assert ask(quota, "--library", own.path)[0] == 27
    assert ask(ledger, "verify", "--library", own.path)[0] == 27


@pytest.mark.parametrize("shape", ["folder", "dangling link"])
def test_something_else_in_its_place(own: Told, ask: Ask, shape: str) -> None:
    path = _ledger_of(own)
    path.unlink()
    if shape == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    for main, arguments in LOOKING:
        code, out, err = ask(main, *arguments, "--library", own.path, "--lang", "en")
        assert (code, out) == (27, ""), (arguments, err)
        assert "Traceback" not in err


def test_another_accounts_ledger_is_not_held_against_this_one(own: Told, ask: Ask, tmp_path: Path) -> None:
    """Only a library that was named, or whose ledger it is, bears witness."""
    (path,) = own.path.glob("quota/*/ledger.jsonl")
    elsewhere = tmp_path / "shared" / path.parent.name
    elsewhere.mkdir(parents=True)
    lines = path.read_bytes().splitlines(keepends=True)
    (elsewhere / path.name).write_bytes(b"".join(lines[:-1]))
    where = ("--ledger-dir", elsewhere.parent)
    assert ask(ledger, "verify", *where, "--lang", "en")[0] == 0
    assert ask(ledger, "verify", *where, "--library", own.path, "--lang", "en")[0] == 27


def test_a_library_that_cannot_be_written_is_verified(
    own: Told, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every open for writing is refused as a read-only disk refuses it; nothing is left behind."""
    path = _ledger_of(own)
    for lock in path.parent.glob("*.lock"):
        lock.unlink()
    files = sorted((own.path / "quota").rglob("*"))
    opens = OsFileSystem.open

    def read_only(self: OsFileSystem, name: Path, flags: int, mode: int = 0o644) -> int:
        if flags & 3:
            raise OSError(30, "Read-only file system", str(name))
        return opens(self, name, flags, mode)

    monkeypatch.setattr(OsFileSystem, "open", read_only)
    for main, arguments in ((ledger, ("verify",)), (ledger, ("show",)), (ledger, ("audit",)), (quota, ())):
        code, _out, err = ask(main, *arguments, "--library", own.path, "--lang", "en")
        assert code == 0, (arguments, err)
    for arguments in (("repair", "--yes"), ("accept-clock", "--reason", "x")):
        code, _out, err = ask(ledger, *arguments, "--library", own.path, "--lang", "en")
        assert code == 1 and "lock file cannot be opened" in err, arguments
    assert sorted((own.path / "quota").rglob("*")) == files


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_index_of_another_ledger_is_named(own: Told, ask: Ask, tmp_path: Path, lang: str) -> None:
    """It is a witness, so the ledger is in doubt; who reads the answer knows which file to take away."""
    (path,) = own.path.glob("quota/*/ledger.jsonl")
    (index,) = path.parent.glob("*.sqlite3")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))  # what the copied index of a longer ledger looks like
    for document in (*own.path.glob("runs/*/run.json"), *own.path.glob("runs/*/items/*/terminal.json")):
        document.unlink()
    for journal in own.path.glob("runs/*/items/*/journal.jsonl"):
        journal.unlink()
    where = ("--library", own.path, "--lang", lang)
    reads = ((ledger, ("verify",)), (ledger, ("show",)), (ledger, ("accept-clock", "--reason", "x")))
    for main, arguments in reads:
        code, _out, err = ask(main, *arguments, *where)
        assert code == 27 and index.name in err
    index.unlink()
    assert ask(ledger, "verify", *where)[0] == 0


def test_quota_of_a_day_or_an_account_that_is_not_there(own: Told, ask: Ask) -> None:
    for arguments, word in ((("--day", "2026-99-99"), "2026-99-99"), (("--account", "nobody"), "nobody")):
        code, out, err = ask(quota, "--library", own.path, *arguments, "--lang", "en")
        assert (code, out) == (64, "") and word in err
