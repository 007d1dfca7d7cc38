"""Reading what was written: facts, names a file system can never give."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hibor.items.files import FileReader


def test_facts_are_of_regular_files_and_follow_the_bytes(tmp_path: Path) -> None:
    reader, path = FileReader(), tmp_path / "a.pdf"
    assert reader.facts(path) is None and reader.facts(tmp_path) is None
    path.write_bytes(b"one")
    first = reader.facts(path)
    assert first is not None and first.size_bytes == 3
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert reader.facts(path) != first


def test_a_broken_link_occupies_its_name(tmp_path: Path) -> None:
    link = tmp_path / "a.pdf"
    link.symlink_to(tmp_path / "nowhere")
    assert FileReader.occupied(link) and FileReader().facts(link) is None


@pytest.mark.skipif(os.name != "posix", reason="the limit of one component")
def test_a_name_no_file_can_have_is_known_before_it_is_tried(tmp_path: Path) -> None:
    """PUBLISH_FAILED is said before PUBLISH_INTENT, never inside the window (ruling R29)."""
    assert FileReader.refused_name(tmp_path / "a.pdf") is None
    assert FileReader.refused_name(tmp_path / f"{'长' * 100}.pdf") is not None
