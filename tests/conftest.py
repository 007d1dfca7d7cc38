"""Fixtures every test folder may use: the main job as a process, and one warm library for assertions that
only read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from hypothesis import settings

from hibor.sim.state import SHARED_PDFS
from tests.main_job import MainJob, Run

DEEP_LIMIT_S = 3600

settings.register_profile("deep", max_examples=1000, deadline=None)


@attrs.frozen
class WarmLibrary:
    """The library of the embedded default, run twice."""

    path: Path
    first: Run
    second: Run
    ledger_after_first: bytes
    served_after_first: list[str]


@pytest.fixture(scope="session", autouse=True)
def shared_pdfs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """All phones of all test processes share what they made: the same reports are made for nearly all."""
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    os.environ[SHARED_PDFS] = str(folder / "phone-pdfs")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rewrite-traces`: write what the machine does now into tests/traces; the diff is then read by a
    person.
    """
    parser.addoption(
        "--rewrite-traces", action="store_true", help="write tests/traces anew instead of comparing"
    )


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than there are processors: tests wait for the phone a good part of their time."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that takes all of what it samples otherwise may take an hour."""
    if os.environ.get("HIBOR_DEEP") == "1":
        for item in items:
            item.add_marker(pytest.mark.timeout(DEEP_LIMIT_S))


@pytest.fixture
def rewrite_traces(request: pytest.FixtureRequest) -> bool:
    """Whether traces are to be written."""
    return bool(request.config.getoption("--rewrite-traces"))


@pytest.fixture
def main_job(tmp_path: Path) -> Iterator[MainJob]:
    """Runs the main job; afterwards every run's streams and every library's books are checked."""
    job = MainJob(tmp_path)
    yield job
    job.audit()


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> WarmLibrary:
    """The default run with its default options, and the same command once more. Tests only read it."""
    from tests.main_job import ledgers, served

    folder = tmp_path_factory.mktemp("warm")
    library, job = folder / "library", MainJob(folder)
    first = job("--library", library)
    (ledger,) = ledgers(library)
    before, served_before = ledger.read_bytes(), served(library)
    second = job("--library", library)
    job.audit()
    return WarmLibrary(library, first, second, before, served_before)
