"""The item's journal: order, strictness, the unfinished last line (design 4, 9)."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from generated.steps import JOURNAL_EVENTS
from hibor.durable import DurableError
from hibor.package.journal import EVENTS, Journal, JournalInvalid, read_journal
from tests.durable_support import error, short
from tests.package.support import STEP, Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def journal(desk: Desk) -> Journal:
    return Journal(desk.folder / "journal.jsonl", desk.durable, desk.clock)


def test_append_and_read_back(desk: Desk) -> None:
    written = journal(desk)
    written.append("ITEM_OPENED", {"title": "报告"}, step=STEP)
    written.append("TRIGGER_INTENT", {"dump": "x"}, step=STEP)
    read = journal(desk)
    assert read.records == written.records
    assert [record.seq for record in read] == [1, 2]
    last = read.last("ITEM_OPENED")
    assert last is not None and last.data == {"title": "报告"}
    assert read.last("KEPT") is None
    line = (desk.folder / "journal.jsonl").read_text("utf-8").splitlines()[0]
    assert list(json.loads(line)) == ["schema_version", "seq", "at", "event", "data"]


def test_its_events_are_the_contracts() -> None:
    assert set(JOURNAL_EVENTS) == EVENTS


def test_unknown_event_is_refused(desk: Desk) -> None:
    with pytest.raises(ValueError, match="unknown journal event"):
        journal(desk).append("SOMETHING", {}, step=STEP)


@pytest.mark.parametrize("tail", [b'{"schema_version":1', b"\0" * 30, b'{"schema_version":1}\0\0\n'])
def test_unfinished_last_line_is_never_acknowledged(desk: Desk, tail: bytes) -> None:
    journal(desk).append("ITEM_OPENED", {}, step=STEP)
    path = desk.folder / "journal.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    found = journal(desk)
    assert found.unfinished
    assert len(found.records) == 1
    with pytest.raises(DurableError) as raised:
        found.append("KEPT", {}, step=STEP)
    assert raised.value.known == "N"
    moved = found.move_unfinished(step=STEP)
    assert moved is not None and moved.side.read_bytes() == tail
    assert path.read_bytes() == whole
    found.append("KEPT", {}, step=STEP)
    assert len(journal(desk).records) == 2


def test_every_other_fault_names_its_line(desk: Desk) -> None:
    made = journal(desk)
    for _ in range(4):
        made.append("STATE", {"state": "x"}, step=STEP)
    path = desk.folder / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = [
        (lines[:1] + lines[2:], 2),
        ([lines[0], lines[0], *lines[1:]], 2),
        ([lines[1], lines[0], *lines[2:]], 1),
        ([*lines[:2], b"\n", *lines[2:]], 3),
        ([*lines[:2], lines[2].replace(b"STATE", b"STATS"), lines[3]], 3),
        ([*lines[:2], lines[2].replace(b'"data"', b'"date"'), lines[3]], 3),
        ([*lines[:2], lines[2].replace(b'_version":1', b'_version":2'), lines[3]], 3),
        ([*lines[:2], lines[2].replace(b"+00:00", b"______"), lines[3]], 3),
        ([*lines[:2], lines[2].replace(b'{"state":"x"}', b'["x"]'), lines[3]], 3),
    ]
    for content, number in damaged:
        path.write_bytes(b"".join(content))
        with pytest.raises(JournalInvalid) as raised:
            read_journal(path, desk.durable)
        assert raised.value.line == number


def test_failed_appends(desk: Desk) -> None:
    made = journal(desk)
    made.append("ITEM_OPENED", {}, step=STEP)
    desk.fs.fail("write", short(4))
    with pytest.raises(DurableError) as raised:
        made.append("STATE", {}, step=STEP)
    assert raised.value.known == "N"
    made.append("STATE", {}, step=STEP)
    assert [record.seq for record in journal(desk)] == [1, 2]
    desk.fs.fail("fsync", error(errno.EIO))
    with pytest.raises(DurableError) as doubtful:
        made.append("KEPT", {}, step=STEP)
    assert doubtful.value.known == "U"
    with pytest.raises(DurableError):
        made.append("KEPT", {}, step=STEP)


def test_an_unreadable_journal_is_unknown_not_empty(desk: Desk) -> None:
    journal(desk).append("ITEM_OPENED", {}, step=STEP)
    desk.fs.fail("open", error(errno.EIO))
    with pytest.raises(DurableError) as raised:
        journal(desk)
    assert raised.value.known == "U"
