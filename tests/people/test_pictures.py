"""Pictures of what people see, of a real run: live view, report, package contents, audit page.

Rules of this file: everything shown comes from one run of the embedded default and from the tools themselves.
With HIBOR_PICTURES=FOLDER the pictures are left there, in both languages: `HIBOR_PICTURES=.readme python -m
pytest -n 0 tests/people/test_pictures.py` makes those of the README anew.
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
from hibor.messages import text
from tests.main_job import ROOT, environment
from tests.people.chromium import Browser
from tests.people.conftest import Ask

README_LIMIT_BYTES = 150_000
VIEWS = {"zh": "live.zh.svg", "en": "live.svg"}
REPORTS = {"zh": "report.zh.png", "en": "report.png"}
WANTED = "HIBOR_PICTURES" in os.environ
SHOWN_LANGS = ("zh", "en") if WANTED else ("zh",)
PACE = ("--time-scale", "8") if WANTED else ("--time-scale", "30", "--count", "6")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the pictures go."""
    named = os.environ.get("HIBOR_PICTURES")
    folder = ROOT / named if named else tmp_path_factory.mktemp("pictures")
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Path:
    """The library of a run whose live view was recorded; where English is wanted, its lies beside it."""
    library = tmp_path_factory.mktemp("shown") / "library"
    for lang in SHOWN_LANGS:
        place = library if lang == "zh" else library.with_name("en")
        recorder = [sys.executable, "-m", "tests.people.record_view", str(pictures / VIEWS[lang])]
        options = ["--library", str(place), *PACE, "--lang", lang]
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


@pytest.mark.parametrize("lang", SHOWN_LANGS)
def test_live_view(shown: Path, pictures: Path, browser: Browser, lang: str) -> None:
    name = VIEWS[lang]
    drawn = (pictures / name).read_text("utf-8")
    assert text(lang, "live.quota", left="") in drawn.replace("&#160;", " ")
    assert len(drawn.encode()) < README_LIMIT_BYTES
    assert set(re.findall(r"https?://[^\"' )]+", drawn)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",  # a comment of the exporter
    }
    looked_at(browser, pictures / name, shown.parent / f"{name}.png", width=1240, height=480)


@pytest.mark.parametrize("lang", SHOWN_LANGS)
def test_report(shown: Path, pictures: Path, browser: Browser, ask: Ask, tmp_path: Path, lang: str) -> None:
    library = shown if lang == "zh" else shown.with_name("en")
    assert ask(hibor, "report", "--library", library, "-o", tmp_path / "r.html", "--lang", lang)[0] == 0
    picture = pictures / REPORTS[lang]
    looked_at(browser, tmp_path / "r.html", picture, width=860, height=760, whole=False)
    assert picture.stat().st_size < README_LIMIT_BYTES


def test_package_contents(shown: Path, pictures: Path, browser: Browser, ask: Ask, tmp_path: Path) -> None:
    target = tmp_path / "reports.zip"
    assert ask(hibor, "package", "--library", shown, "--zip", target, "--lang", "zh")[0] == 0
    zipfile.ZipFile(target).extractall(tmp_path / "out")
    folder = tmp_path if WANTED else pictures
    looked_at(browser, tmp_path / "out" / "目录.html", folder / "package.png", width=1280)
    looked_at(browser, tmp_path / "out" / "目录.html", folder / "package-narrow.png", width=390, dark=True)


def test_readme_shows_what_is_there() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    named = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", readme)
    assert {f".readme/{name}" for name in (*VIEWS.values(), *REPORTS.values())} == set(named)
    for name in named:
        assert 5_000 < (ROOT / name).stat().st_size < README_LIMIT_BYTES, name
