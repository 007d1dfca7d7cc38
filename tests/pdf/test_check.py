"""Every PDF fault of the list as a real file, judged in the order of design 5."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from generated.pdf import PDF_FINDINGS
from hibor.pdf import PdfReport, Pool, check_pdf, check_pdf_with, page1_png
from hibor.pdf.report import WORDS, checked_table
from tests.pdf import samples

CODES = dict(PDF_FINDINGS)


def put(folder: Path, data: bytes, name: str = "report.pdf") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def refused(report: PdfReport, finding: str, code: str) -> PdfReport:
    assert (report.finding, report.code, report.ok) == (finding, code, False)
    return report


def test_the_table_covers_every_word_and_only_them() -> None:
    assert set(CODES) == WORDS
    assert checked_table(PDF_FINDINGS) is PDF_FINDINGS
    for broken in (PDF_FINDINGS[1:], (*PDF_FINDINGS, PDF_FINDINGS[0]), (("ok", "NONE"), *PDF_FINDINGS[:-1])):
        with pytest.raises(ValueError, match="PDF findings"):
            checked_table(broken)


def test_the_report_has_the_fields_of_the_design() -> None:
    assert [field.name for field in attrs.fields(PdfReport)] == [
        "ok", "code", "page_count", "size_bytes", "sha256", "restricted", "finding", "text_page1",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["report.pdf", "candidate-1.tmp", "研报 ’半导体’.PDF.temp", "no-suffix"])
def test_good_file_passes_whatever_its_name(tmp_path: Path, name: str) -> None:
    data = samples.good(5)
    report = check_pdf(
        put(tmp_path, data, name),
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest().upper(),
        page_count=5,
    )
    assert (report.ok, report.code, report.finding) == (True, "NONE", "ok")
    assert (report.page_count, report.size_bytes, report.restricted) == (5, len(data), False)
    assert report.sha256 == hashlib.sha256(data).hexdigest()
    assert report.text_page1 is not None and "半导体行业周报 1" in report.text_page1


def test_good_file_with_object_streams_and_one_without_text(tmp_path: Path) -> None:
    assert check_pdf(put(tmp_path, samples.good(40, garbage=3, use_objstms=1))).page_count == 40
    blank = check_pdf(put(tmp_path, samples.good(1, text="", garbage=3)))
    assert blank.ok and blank.text_page1 is not None and blank.text_page1.strip() == "1"


def test_relative_path_after_the_working_folder_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, samples.good())
    monkeypatch.chdir(tmp_path)
    assert check_pdf("report.pdf").ok
    assert check_pdf(Path("report.pdf")).ok


@pytest.mark.parametrize("junk_bytes", [1, 60, 2000])
@pytest.mark.parametrize("junk", [b"\xef\xbb\xbf", b"\r\n", b"HTTP/1.1 200 OK\r\n", b"<html></html>\n"])
def test_f50_junk_in_front_is_refused(tmp_path: Path, junk: bytes, junk_bytes: int) -> None:
    data = (junk * junk_bytes)[: max(junk_bytes, len(junk))] + samples.good()
    report = refused(check_pdf(put(tmp_path, data)), "magic", "PDF_MAGIC_INVALID")
    assert report.sha256 == hashlib.sha256(data).hexdigest(), "kept bytes need their hash"
    assert report.size_bytes == len(data)


@pytest.mark.parametrize("make", [samples.zipped, samples.image, lambda: b"<html>404</html>", lambda: b"%PD"])
def test_f51_other_containers_are_refused(tmp_path: Path, make: object) -> None:
    assert callable(make)
    refused(check_pdf(put(tmp_path, make())), "magic", "PDF_MAGIC_INVALID")


def test_f51_pdf_header_before_another_container(tmp_path: Path) -> None:
    report = check_pdf(put(tmp_path, b"%PDF-1.7\n" + samples.zipped()))
    refused(report, report.finding, "PDF_NOT_OPENABLE")


def test_f53_user_password(tmp_path: Path) -> None:
    report = refused(check_pdf(put(tmp_path, samples.needs_password())), "encrypted", "PDF_ENCRYPTED")
    assert report.page_count is None and report.text_page1 is None


def test_f53_encryption_the_library_does_not_know(tmp_path: Path) -> None:
    refused(check_pdf(put(tmp_path, samples.unknown_encryption())), "encrypted", "PDF_ENCRYPTED")


def test_r30_owner_only_encryption(tmp_path: Path) -> None:
    path = put(tmp_path, samples.owner_only())
    accepted = check_pdf(path)
    assert accepted.ok and accepted.restricted and accepted.page_count == 3
    report = refused(check_pdf(path, accept_restricted=False), "restricted", "PDF_ENCRYPTED")
    assert report.restricted


def test_f54_no_pages(tmp_path: Path) -> None:
    refused(check_pdf(put(tmp_path, samples.no_pages())), "no_pages", "PAGE_COUNT_MISMATCH")
    refused(check_pdf(put(tmp_path, samples.with_count(0))), "no_pages", "PAGE_COUNT_MISMATCH")


def test_f54_linearized_file_cut_at_60_percent(tmp_path: Path) -> None:
    report = check_pdf(put(tmp_path, samples.first_part_of_linearized()))
    refused(report, report.finding, "PDF_NOT_OPENABLE")


@pytest.mark.parametrize("declared", [1, 2, 4, 9])
def test_f55_count_lies(tmp_path: Path, declared: int) -> None:
    path = put(tmp_path, samples.with_count(declared))
    refused(check_pdf(path), "count_lies", "PAGE_COUNT_MISMATCH")
    refused(check_pdf(path, page_count=declared), "count_lies", "PAGE_COUNT_MISMATCH")


def test_f55_an_inner_count_lies(tmp_path: Path) -> None:
    refused(check_pdf(put(tmp_path, samples.nested_lie())), "count_lies", "PAGE_COUNT_MISMATCH")


def test_a_page_tree_that_bites_its_tail(tmp_path: Path) -> None:
    report = check_pdf(put(tmp_path, samples.looping_tree()))
    refused(report, report.finding, "PDF_NOT_OPENABLE")


def test_a_page_that_does_not_load(tmp_path: Path) -> None:
    for index in (0, 1, 2):
        path = put(tmp_path, samples.with_kid(index, b"0"))
        report = check_pdf(path)
        refused(report, report.finding, "PDF_NOT_OPENABLE")
    beyond = check_pdf(put(tmp_path, samples.with_kid(1, b"99")))
    refused(beyond, beyond.finding, "PDF_NOT_OPENABLE")


def test_a_page_object_damaged_in_place_is_noticed_after_a_late_repair(tmp_path: Path) -> None:
    data = samples.good(3)
    number = samples.kids(data)[1]
    assert data.count(b"%s 0 obj" % number) == 1
    report = check_pdf(put(tmp_path, data.replace(b"%s 0 obj" % number, b"%s 0 xbj" % number)))
    refused(report, report.finding, "PDF_NOT_OPENABLE")


@pytest.mark.parametrize("keep", [0.05, 0.3, 0.6, 0.9, 0.99])
def test_truncated_file(tmp_path: Path, keep: float) -> None:
    data = samples.good(20)
    report = check_pdf(put(tmp_path, data[: int(len(data) * keep)]))
    refused(report, report.finding, "PDF_NOT_OPENABLE")


def test_only_the_last_bytes_are_missing(tmp_path: Path) -> None:
    data = samples.good(3).rstrip()
    assert data.endswith(b"%%EOF")
    report = check_pdf(put(tmp_path, data[:-1]))
    refused(report, report.finding, "PDF_NOT_OPENABLE")


def test_junk_behind_the_end(tmp_path: Path) -> None:
    report = check_pdf(put(tmp_path, samples.good() + b"\0" * 5000))
    refused(report, report.finding, "PDF_NOT_OPENABLE")


def test_damaged_xref_is_repaired_by_the_library_and_refused_by_us(tmp_path: Path) -> None:
    path = put(tmp_path, samples.damaged_xref(samples.good()))
    report = refused(check_pdf(path), "repaired", "PDF_NOT_OPENABLE")
    assert report.page_count == 3


def test_f64_empty(tmp_path: Path) -> None:
    report = refused(check_pdf(put(tmp_path, b"")), "empty", CODES["empty"])
    assert report.size_bytes == 0
    refused(check_pdf(put(tmp_path, b"%PDF-")), "not_openable", "PDF_NOT_OPENABLE")


def test_missing_and_folder_and_impossible_names(tmp_path: Path) -> None:
    refused(check_pdf(tmp_path / "nothing.pdf"), "missing", CODES["missing"])
    refused(check_pdf(tmp_path), "not_regular", CODES["not_regular"])
    refused(check_pdf("a\0b.pdf"), "unreadable", CODES["unreadable"])
    refused(check_pdf(tmp_path / ("x" * 5000)), "unreadable", CODES["unreadable"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the platform has no FIFO")
def test_f65_fifo_socket_device_and_links(tmp_path: Path) -> None:
    fifo = tmp_path / "staging.pdf"
    os.mkfifo(fifo)
    refused(check_pdf(fifo), "not_regular", CODES["not_regular"])
    zero = tmp_path / "zero.pdf"
    zero.symlink_to("/dev/zero")
    refused(check_pdf(zero), "not_regular", CODES["not_regular"])
    refused(check_pdf("/dev/zero"), "not_regular", CODES["not_regular"])
    good = put(tmp_path, samples.good(), "good.pdf")
    link = tmp_path / "link.pdf"
    link.symlink_to(good)
    refused(check_pdf(link), "not_regular", CODES["not_regular"])
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        refused(check_pdf(tmp_path / "s"), "not_regular", CODES["not_regular"])
    assert page1_png(fifo, 100) is None and page1_png(zero, 100) is None


def test_size_and_hash(tmp_path: Path) -> None:
    data = samples.good()
    path = put(tmp_path, data)
    refused(check_pdf(path, size_bytes=len(data) + 1), "size", "BYTE_COUNT_MISMATCH")
    refused(check_pdf(path, sha256="0" * 64), "sha256", "HASH_MISMATCH")
    refused(check_pdf(path, page_count=4), "page_count", "PAGE_COUNT_MISMATCH")


def test_order_of_judgement(tmp_path: Path) -> None:
    """One file with everything wrong loses its faults one after another; each time the next one is told."""
    wrong = {"size_bytes": 1, "sha256": "0" * 64, "page_count": 7}
    refused(check_pdf(put(tmp_path, b""), **wrong), "empty", CODES["empty"])
    refused(check_pdf(put(tmp_path, samples.zipped()), **wrong), "magic", "PDF_MAGIC_INVALID")
    path = put(tmp_path, samples.damaged_xref(samples.with_count(2)))
    refused(check_pdf(path, **wrong), "size", "BYTE_COUNT_MISMATCH")
    del wrong["size_bytes"]
    refused(check_pdf(path, **wrong), "sha256", "HASH_MISMATCH")
    encrypted = put(tmp_path, samples.needs_password(), "encrypted.pdf")
    refused(check_pdf(encrypted, **wrong), "sha256", "HASH_MISMATCH")
    del wrong["sha256"]
    refused(check_pdf(encrypted, **wrong), "encrypted", "PDF_ENCRYPTED")
    refused(check_pdf(path, **wrong), "repaired", "PDF_NOT_OPENABLE")
    refused(check_pdf(put(tmp_path, samples.with_count(2)), **wrong), "count_lies", "PAGE_COUNT_MISMATCH")
    refused(check_pdf(put(tmp_path, samples.good()), **wrong), "page_count", "PAGE_COUNT_MISMATCH")


def test_the_table_is_a_value(tmp_path: Path) -> None:
    """A changed contract (count before repair) judges the same file differently."""
    path = put(tmp_path, samples.damaged_xref(samples.with_count(2)))
    rows = dict(PDF_FINDINGS)
    order = ["page_count", *(word for word in rows if word != "page_count")]
    changed = tuple((word, rows[word]) for word in order)
    pool = Pool()
    try:
        report = check_pdf_with(pool, path, page_count=9, findings=changed)
        refused(report, "page_count", "PAGE_COUNT_MISMATCH")
    finally:
        pool.close()


def test_f68_every_sample_becomes_one_typed_verdict(tmp_path: Path) -> None:
    base = samples.good(2)
    for number in range(0, len(base), 37):
        damaged = base[:number] + bytes([base[number] ^ 0x5A]) + base[number + 1 :]
        report = check_pdf(put(tmp_path, damaged))
        assert report.finding in WORDS and report.code == CODES[report.finding]
        assert report.ok == (report.code == "NONE") and report.sha256 is not None


def test_thumbnail(tmp_path: Path) -> None:
    png = page1_png(put(tmp_path, samples.good()), 120)
    assert png is not None and png.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(png[16:20], "big") == 120
    assert page1_png(put(tmp_path, samples.needs_password()), 120) is None
    assert page1_png(put(tmp_path, b"%PDF-nonsense"), 120) is None


def test_the_collector_process_never_loads_the_library_nor_hears_it(tmp_path: Path) -> None:
    path = put(tmp_path, samples.damaged_xref(samples.good()))
    script = (
        "import sys; from hibor.pdf import check_pdf; r = check_pdf(sys.argv[1]);"
        "assert r.finding == 'repaired'; assert not [m for m in sys.modules if 'mupdf' in m or m == 'fitz']"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, timeout=120, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
