"""Warm phones and recorded plays, made once for all tests of this folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.theatre import Theatre, memory_folder, open_theatre


@pytest.fixture(scope="session")
def fast_folder() -> Iterator[Path]:
    """A folder in memory where there is one: these tests make thousands of small libraries."""
    folder = Path(tempfile.mkdtemp(prefix="hibor-faults-", dir=memory_folder()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def theatre(fast_folder: Path) -> Iterator[Theatre]:
    """The two warm phones."""
    with open_theatre(fast_folder) as theatre:
        yield theatre
