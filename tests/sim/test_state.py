"""The state folder: what phones share, and what they never do."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

from hibor.sim.reports import make_catalogue
from hibor.sim.state import SHARED_PDFS, PhoneDamaged, StateStore, phone_clock, start_clock
from hibor.sim.truth import TruthLog

MORNING = datetime(2026, 11, 30, 1, tzinfo=UTC)


def test_phones_share_the_pdfs_of_equal_reports_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one made another takes as it is; a report that differs in anything has a PDF of its own."""
    shared = tmp_path / "shared"
    monkeypatch.setenv(SHARED_PDFS, str(shared))
    (report,) = make_catalogue(7, MORNING, 1)
    made = StateStore(tmp_path / "a", MORNING).pdf(report, "good")
    (file,) = shared.iterdir()
    assert file.read_bytes() == made and made.startswith(b"%PDF-")
    file.write_bytes(b"%PDF-marked")
    other = StateStore(tmp_path / "b", MORNING)
    assert other.pdf(report, "good") == b"%PDF-marked"
    longer = attrs.evolve(report, pages=report.pages + 1)
    assert StateStore(tmp_path / "c", MORNING).pdf(longer, "good") not in (made, b"%PDF-marked")
    assert other.pdf(report, "truncated") != b"%PDF-marked"


def test_without_the_folder_nothing_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default: each phone keeps to its own folder, and equal reports still have equal PDFs."""
    monkeypatch.delenv(SHARED_PDFS, raising=False)
    (report,) = make_catalogue(7, MORNING, 1)
    first, second = (StateStore(tmp_path / name, MORNING).pdf(report, "good") for name in "ab")
    assert first == second
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}


NEVER_WRITTEN = (b"", b"{}", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"{" * 5000, b'{"first_start": 5}')


@pytest.mark.parametrize("junk", [*NEVER_WRITTEN, b'{"first_start": "2026-11-30T01:00:00", "files": []}'])
def test_a_state_that_no_phone_wrote_is_damage_and_not_a_new_phone(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "state.json").write_bytes(junk)
    with pytest.raises(PhoneDamaged) as damaged:
        StateStore(tmp_path, MORNING)
    assert damaged.value.path == tmp_path / "state.json"
    assert (tmp_path / "state.json").read_bytes() == junk


@pytest.mark.parametrize("junk", [*NEVER_WRITTEN, b'{"wall": "9999-12-31T23:59:59+00:00"}'])
def test_a_beat_that_no_phone_wrote_is_damage(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "heartbeat.json").write_bytes(junk)
    with pytest.raises(PhoneDamaged) as damaged:
        start_clock(tmp_path, 1.0, True)
    assert damaged.value.path == tmp_path / "heartbeat.json"


@pytest.mark.parametrize("junk", [*NEVER_WRITTEN, b'{"anchor_wall": "2026-11-30", "scale": 1}'])
def test_a_clock_that_no_phone_wrote_is_damage(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "clock.json").write_bytes(junk)
    with pytest.raises(PhoneDamaged):
        phone_clock(tmp_path)


@pytest.mark.parametrize("place", ["folder", "fifo", "link"])
@pytest.mark.parametrize("name", ["state.json", "heartbeat.json", "clock.json"])
def test_whatever_lies_in_a_files_place_is_told_and_never_waited_for(
    tmp_path: Path, name: str, place: str
) -> None:
    path = tmp_path / name
    if place == "folder":
        path.mkdir()
    elif os.name != "posix":
        pytest.skip("no FIFOs and links here")
    elif place == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(PhoneDamaged) as damaged:
        if name == "state.json":
            StateStore(tmp_path, MORNING)
        elif name == "clock.json":
            phone_clock(tmp_path)
        else:
            start_clock(tmp_path, 1.0, False)
    assert damaged.value.path == path


@pytest.mark.skipif(os.name != "posix", reason="no FIFOs here")
def test_a_truth_that_is_no_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "truth.jsonl")
    with pytest.raises(OSError, match="no file"):
        TruthLog(tmp_path / "truth.jsonl")
