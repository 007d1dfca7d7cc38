"""Every kind of damage to a ledger is found when it is opened, without the index (faults LED; design 4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from hibor.quota.errors import LedgerInvalid
from hibor.quota.events import Head
from hibor.quota.family import Automaton
from hibor.quota.fold import Fold
from hibor.quota.scan import Marks, Place, check_heads, scan
from tests.quota.support import ACCOUNT, AUTOMATON, Bench, fill

EVENTS = 50


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Head]:
    bench = Bench(tmp_path_factory.mktemp("ledger"))
    ledger = bench.open()
    fill(ledger, EVENTS)
    return bench.path.read_bytes(), ledger.head


def opened(path: Path, data: bytes, head: Head) -> None:
    """What opening does without an index."""
    path.write_bytes(data)
    marks = Marks()
    place = scan(path, ACCOUNT, Fold(AUTOMATON), marks)
    check_heads(path, place, marks, [head])


def test_the_undamaged_ledger_opens(written: tuple[bytes, Head], tmp_path: Path) -> None:
    opened(tmp_path / "ledger.jsonl", *written)


def test_one_changed_byte_at_every_offset(written: tuple[bytes, Head], tmp_path: Path) -> None:
    """A change at each of some 30,000 offsets; the lines before the damage were verified once."""
    data, head = written
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(data)
    lines = data.splitlines(keepends=True)
    start, proven, marks = 0, Place(), Marks()
    # Changed in place: a file rewritten 30,000 times would measure the disk.
    with path.open("r+b", buffering=0) as stream:
        for number, line in enumerate(lines):
            # Only this line and the next can tell; what comes before is verified once.
            end = start + len(line) + len(b"".join(lines[number + 1 : number + 2]))
            for offset in range(len(line)):
                stream.seek(start + offset)
                stream.write(bytes([line[offset] ^ (1 << (offset % 7))]))
                with pytest.raises(LedgerInvalid):
                    scan(path, ACCOUNT, _Silent(AUTOMATON), Marks(), start=proven, end_bytes=end)
                stream.seek(start + offset)
                stream.write(line[offset : offset + 1])
            start += len(line)
            proven = scan(path, ACCOUNT, _Silent(AUTOMATON), marks, start=proven, end_bytes=start)
    assert start == len(data)
    opened(path, data, head)


class _Silent(Fold):
    """A fold that takes everything: the chain alone must find the change."""

    def __init__(self, automaton: Automaton) -> None:
        super().__init__(automaton)

    def apply(self, event: object, span: object) -> None:
        return


def test_every_line_deleted_doubled_swapped(written: tuple[bytes, Head], tmp_path: Path) -> None:
    data, head = written
    path = tmp_path / "ledger.jsonl"
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines):
        before, after = lines[:number], lines[number + 1 :]
        damaged = [before + after, [*before, line, line, *after], [*before, b"\n", line, *after]]
        if after:
            damaged.append([*before, after[0], line, *after[1:]])
        for variant in damaged:
            with pytest.raises(LedgerInvalid):
                opened(path, b"".join(variant), head)


def test_tail_cut_emptied_removed(written: tuple[bytes, Head], tmp_path: Path) -> None:
    """A chain does not notice lines missing at its end; a noted head does."""
    data, head = written
    path = tmp_path / "ledger.jsonl"
    lines = data.splitlines(keepends=True)
    for kept in range(EVENTS):
        with pytest.raises(LedgerInvalid) as raised:
            opened(path, b"".join(lines[:kept]), head)
        assert "missing at the end" in raised.value.what
    path.unlink()
    marks = Marks()
    with pytest.raises(LedgerInvalid):
        check_heads(path, scan(path, ACCOUNT, Fold(AUTOMATON), marks), marks, [head])


def test_the_torn_last_line_at_every_length(written: tuple[bytes, Head], tmp_path: Path) -> None:
    data, _ = written
    path = tmp_path / "ledger.jsonl"
    last = data.splitlines(keepends=True)[-1]
    whole = data[: -len(last)]
    path.write_bytes(whole)
    for length in range(1, len(last)):
        with path.open("ab") as stream:
            stream.write(last[length - 1 : length])
        with pytest.raises(LedgerInvalid) as raised:
            scan(path, ACCOUNT, Fold(AUTOMATON), Marks())
        assert raised.value.torn
        assert raised.value.line == EVENTS
        assert "repair" in raised.value.what_now


@pytest.mark.parametrize("nuls", [1, 17, 4096])
def test_trailing_nuls_count_as_unfinished(written: tuple[bytes, Head], tmp_path: Path, nuls: int) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(written[0] + b"\0" * nuls)
    with pytest.raises(LedgerInvalid) as raised:
        scan(path, ACCOUNT, Fold(AUTOMATON), Marks())
    assert raised.value.torn


def test_a_rewritten_ledger_is_found_by_a_noted_head(written: tuple[bytes, Head], tmp_path: Path) -> None:
    """Somebody who recomputes the whole chain still cannot reproduce a head noted elsewhere."""
    other = Bench(tmp_path)
    other.clock.moment = other.clock.moment.replace(minute=1)
    with other.open() as ledger:
        fill(ledger, EVENTS + 5)
    with pytest.raises(LedgerInvalid, match="replaced"):
        other.open_without_index([written[1]])
    with pytest.raises(LedgerInvalid, match="replaced"):
        other.open([written[1]])


def test_another_accounts_ledger_is_refused(written: tuple[bytes, Head], tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.path.write_bytes(written[0])
    with pytest.raises(LedgerInvalid, match="another account"):
        bench.open(account="team-b")


def test_errors_say_what_where_and_what_now(written: tuple[bytes, Head], tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    lines = written[0].splitlines(keepends=True)
    bench.path.write_bytes(b"".join(lines[:20] + lines[21:]))
    with pytest.raises(LedgerInvalid) as raised:
        bench.open()
    assert (raised.value.where, raised.value.line) == ("ledger.jsonl line 21", 21)
    assert "lost or reordered" in raised.value.what
    assert "backup" in raised.value.what_now
