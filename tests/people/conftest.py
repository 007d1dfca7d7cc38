"""A real library to read: the main job in Chinese with one refused file, then once more in English."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

from hibor.package.layout import Library
from hibor.people.run_view import RunView, load_run
from tests.main_job import Run, finish, start
from tests.people.chromium import Browser, find_chromium

FEED = """\
description = "Six reports on one screen; the newest one's file needs a password, two are in the cache."

[feed]
reports = 6
pinned = []
notices = []
adverts_every = 0

[cache]
prefilled = [2, 3]

[[fault]]
kind = "pdf"
variant = "encrypted"
report = 1
"""


@attrs.frozen
class Told:
    """The library of two runs: `zh` with a refused file, `en` after it."""

    path: Path
    zh: Run
    en: Run

    @property
    def library(self) -> Library:
        return Library(self.path)

    @property
    def first(self) -> RunView:
        """The Chinese run."""
        return load_run(self.library, self.library.run_folders()[0])


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Made once; tests only read it."""
    folder = tmp_path_factory.mktemp("people")
    scenario, library = folder / "feed.toml", folder / "library"
    scenario.write_text(FEED, "utf-8")
    options = ("--library", library, "--scenario", scenario, "--time-scale", "30")
    zh = finish(start((*options, "--count", "3", "--lang", "zh")), library)
    en = finish(start((*options, "--count", "3", "--lang", "en")), library)
    assert zh.exit_code == 10, zh.stderr
    assert en.exit_code in (0, 10), en.stderr
    return Told(library, zh, en)


@pytest.fixture
def own(told: Told, tmp_path: Path) -> Told:
    """A copy that a test may change."""
    path = tmp_path / "library"
    shutil.copytree(told.path, path, ignore=shutil.ignore_patterns("sim-phone"))
    return attrs.evolve(told, path=path)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of pages."""
    find_chromium()
    found = Browser(tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


Answer = tuple[int, str, str]
Ask = Callable[..., Answer]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Run a command of this process: (exit code, stdout, stderr)."""

    def run(main: Callable[[list[str]], int], *arguments: str | Path) -> Answer:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run
