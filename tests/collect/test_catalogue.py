"""A catalogue that cannot be used: the run stops before anything is reserved, and names the file."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hibor.clock import SystemClock
from hibor.collect.feed import opened_catalogue
from hibor.collect.stops import RunStop, unusable
from hibor.hosts.local_store import HostError


@pytest.mark.parametrize("shape", ["junk", "folder", "dangling link", "fifo"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_a_catalogue_that_cannot_be_used_stops_the_run_and_is_named(
    tmp_path: Path, shape: str, dry_run: bool
) -> None:
    path = tmp_path / "catalogue.sqlite3"
    if shape == "junk":
        path.write_bytes(b"this is no database, and longer than a header would be" * 40)
    elif shape == "folder":
        path.mkdir()
    elif shape == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / "none" / "at all")
    with pytest.raises(RunStop) as caught, opened_catalogue(path, SystemClock(), dry_run):
        raise AssertionError("it was opened")
    assert caught.value.task_invalid and str(path) in caught.value.detail
    assert "delete it" in caught.value.detail


def test_a_full_disk_under_the_catalogue_is_called_full(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "small.sqlite3")) as small:
        small.execute("PRAGMA max_page_count=2")
        with pytest.raises(sqlite3.Error) as full:
            small.execute("CREATE TABLE a (b)")
            small.execute("INSERT INTO a VALUES (zeroblob(100000))")
    error = HostError("catalogue.sqlite3 cannot be used")
    error.__cause__ = full.value
    assert "disk is full" in unusable("the catalogue", tmp_path, error, now="delete it").detail
