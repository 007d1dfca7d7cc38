"""`python -m hibor.ledger` as people use it: exit codes and messages (design 4)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from hibor.durable import Durable
from hibor.durable_fs import OsFileSystem
from hibor.ledger import main
from hibor.locks import NOTE_STEPS, Locks
from hibor.package.layout import Library
from hibor.quota.events import Head
from tests.quota.support import ACCOUNT, DAY, Bench, SetClock, fill, reserve


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    folder = Library(tmp_path).ledger_folder(ACCOUNT)
    folder.mkdir(parents=True)
    made = Bench(folder)
    with made.open() as ledger:
        fill(ledger, 12)
    return made


@pytest.fixture
def where(tmp_path: Path) -> list[str]:
    return ["--library", str(tmp_path), "--account", ACCOUNT]


def test_verify_a_good_ledger(bench: Bench, where: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with bench.open() as ledger:
        head = ledger.head
    assert main(["verify", *where]) == 0
    assert main([*where, "verify", "--head", str(head)]) == 0
    assert f"12 events, head {head}" in capsys.readouterr().out


def test_verify_against_a_head_it_lacks(
    bench: Bench, where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", *where, "--head", f"13:{'a' * 64}"]) == 27
    error = capsys.readouterr().err
    assert "Where: ledger.jsonl" in error
    assert "missing at the end" in error
    assert "What now:" in error


def test_verify_a_damaged_ledger(bench: Bench, where: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    bench.path.write_bytes(bench.path.read_bytes().replace(b"HB00002", b"HB00003", 1))
    assert main(["verify", *where]) == 27
    assert main(["show", *where]) == 27
    assert main(["repair", "--yes", *where]) == 27
    assert "line 4" in capsys.readouterr().err


def test_show_takes_no_lock_and_changes_nothing(
    bench: Bench, where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with bench.open() as ledger:
        reserve(ledger, "WAITING")
    files = {path.name: path.read_bytes() for path in bench.path.parent.iterdir()}
    with bench.locks.ledger(bench.path):
        with bench.path.open("ab") as stream:
            stream.write(b'{"half of a line that is being written')
        assert main(["show", *where]) == 0
    out = capsys.readouterr().out
    assert DAY in out
    assert "report WAITING" in out
    bench.path.write_bytes(files["ledger.jsonl"])
    assert {path.name: path.read_bytes() for path in bench.path.parent.iterdir()} == files


def test_repair_asks_moves_and_records(
    bench: Bench, where: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = bench.path.read_bytes()
    bench.path.write_bytes(whole + b'{"account"')
    monkeypatch.setattr("click.confirm", lambda *_arguments, **_options: False)
    assert main(["repair", *where]) == 1
    assert bench.path.read_bytes() == whole + b'{"account"'
    assert main(["repair", "--yes", *where]) == 0
    assert bench.path.read_bytes().startswith(whole)
    assert b'"type":"REPAIRED"' in bench.path.read_bytes()
    side = next(bench.path.parent.glob("*.unfinished-*"))
    assert side.read_bytes() == b'{"account"'
    assert main(["repair", "--yes", *where]) == 0
    assert "nothing to repair" in capsys.readouterr().out
    assert main(["verify", *where]) == 0


def test_repair_does_not_cut_what_a_head_proves(bench: Bench, where: list[str]) -> None:
    """A last line with NULs looks unfinished; a noted head proves that it was acknowledged."""
    data = bench.path.read_bytes()
    head = bench.open().head
    damaged = data[:-40] + b"\0" * 39 + b"\n"
    bench.path.write_bytes(damaged)
    assert main(["repair", "--yes", *where, "--head", str(head)]) == 27
    assert bench.path.read_bytes() == damaged


def test_repair_after_a_crash_between_cut_and_record(bench: Bench, where: list[str]) -> None:
    bench.path.write_bytes(bench.path.read_bytes() + b"tail")
    bench.durable.move_unfinished_tail(bench.path, step="ledger.repair")
    assert b"REPAIRED" not in bench.path.read_bytes()
    assert main(["repair", *where]) == 0
    assert bench.path.read_bytes().count(b'"type":"REPAIRED"') == 1
    assert main(["repair", *where]) == 0
    assert bench.path.read_bytes().count(b'"type":"REPAIRED"') == 1


def test_accept_clock(bench: Bench, where: list[str]) -> None:
    assert main(["accept-clock", *where, "--reason", "the clock was set back by hand"]) == 0
    with bench.open() as ledger:
        assert ledger.head.count == 13
    assert main(["accept-clock", *where, "--reason", "  "]) == 64
    assert main(["accept-clock", *where]) == 64


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify"],
        ["verify", "--account", "nobody", "--library", "no-such-folder"],
        ["verify", "--head", "12"],
        ["cut"],
        ["verify", "--zone", "Mars/Olympus"],
    ],
)
def test_usage_mistakes_end_with_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 64
    assert capsys.readouterr().err


def test_a_held_lock_is_said(
    bench: Bench, where: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SetClock()
    locks = Locks(Durable(OsFileSystem(), clock, NOTE_STEPS), clock, ledger_limit_s=0.0)
    monkeypatch.setattr("hibor.ledger.Locks", lambda _durable, _clock: locks)
    held = bench.locks.ledger(bench.path)
    with held:
        # Another thread, because one thread may not take the same lock twice.
        codes: list[int] = []
        thread = threading.Thread(target=lambda: codes.append(main(["verify", *where])))
        thread.start()
        thread.join()
    assert codes == [1]
    assert "lock is held" in capsys.readouterr().err


def test_head_text() -> None:
    assert str(Head.parse(f"3:{'0' * 64}")) == f"3:{'0' * 64}"
    for wrong in ("", "3", f"-1:{'0' * 64}", f"3:{'0' * 63}", f"3:{'G' * 64}", f"٣:{'0' * 64}"):
        with pytest.raises(ValueError, match="N:HASH"):
            Head.parse(wrong)
