"""The state folder: what phones share, and what they never do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest

from hibor.sim.reports import make_catalogue
from hibor.sim.state import SHARED_PDFS, StateStore

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
