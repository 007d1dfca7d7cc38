"""Pictures of what people see, of a real run: live view, report, package contents, audit page.

Rules of this file: everything shown comes from one run of the embedded default and from the tools themselves.
With HIBOR_PICTURES=FOLDER the pictures are left there: `HIBOR_PICTURES=.readme python -m pytest
tests/people/test_pictures.py -n 0` makes those of the README anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hibor.cli import main as hibor
from tests.main_job import ROOT, environment
from tests.people.chromium import Browser
from tests.people.conftest import Ask

README_LIMIT_BYTES = 150_000
FILES = ("live.svg", "live.zh.svg", "report.png", "report.zh.png")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pictures go."""
    named = os.environ.get("HIBOR_PICTURES")
    folder = ROOT / named if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Path:
    """The library of one run in each language, whose live views were recorded."""
    library = tmp_path_factory.mktemp("shown") / "library"
    for lang, name, scenario in (("en", "live.svg", "default"), ("zh", "live.zh.svg", "default")):
        place = library if lang == "en" else library.with_name("zh")
        recorder = [sys.executable, "-m", "tests.people.record_view", str(pictures / name)]
        options = ["--library", str(place), "--scenario", scenario, "--time-scale", "20", "--lang", lang]
        done = subprocess.run(
            [*recorder, *options], cwd=ROOT, env=environment(), capture_output=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    return library


def looked_at(browser: Browser, page: Path, picture: Path, **about: object) -> None:
    """Open a page and take its picture; a page that complains or scrolls sideways is no picture."""
    browser.complaints.clear()
    whole = bool(about.pop("whole", True))
    browser.open(page, **about)  # type: ignore[arg-type]
    assert len(browser.picture(picture, whole=whole)) > 10_000
    assert browser.complaints == []
    assert browser.value("document.documentElement.scrollWidth <= innerWidth"), picture.name


@pytest.mark.parametrize(("name", "words"), [("live.svg", "Quota left"), ("live.zh.svg", "额度剩余")])
def test_live_view(shown: Path, pictures: Path, browser: Browser, name: str, words: str) -> None:
    drawn = (pictures / name).read_text("utf-8")
    assert words in drawn.replace("&#160;", " ") and len(drawn.encode()) < README_LIMIT_BYTES
    assert set(re.findall(r"https?://[^\"' )]+", drawn)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",  # a comment of the exporter
    }
    looked_at(browser, pictures / name, shown.parent / f"{name}.png", width=1240, height=480)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_report(shown: Path, pictures: Path, browser: Browser, ask: Ask, tmp_path: Path, lang: str) -> None:
    library = shown if lang == "en" else shown.with_name("zh")
    assert ask(hibor, "report", "--library", library, "-o", tmp_path / "r.html", "--lang", lang)[0] == 0
    picture = pictures / ("report.png" if lang == "en" else "report.zh.png")
    looked_at(browser, tmp_path / "r.html", picture, width=860, height=760, whole=False)
    assert picture.stat().st_size < README_LIMIT_BYTES


def test_package_contents(shown: Path, pictures: Path, browser: Browser, ask: Ask, tmp_path: Path) -> None:
    target = tmp_path / "reports.zip"
    assert ask(hibor, "package", "--library", shown, "--zip", target, "--lang", "zh")[0] == 0
    zipfile.ZipFile(target).extractall(tmp_path / "out")
    folder = pictures if "HIBOR_PICTURES" not in os.environ else tmp_path
    looked_at(browser, tmp_path / "out" / "目录.html", folder / "package.png", width=1280)
    looked_at(browser, tmp_path / "out" / "目录.html", folder / "package-narrow.png", width=390, dark=True)


def test_readme_shows_what_is_there() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    named = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert {f".readme/{name}" for name in FILES} == set(named)
    for name in named:
        assert 5_000 < (ROOT / name).stat().st_size < README_LIMIT_BYTES, name
