"""Search: short Chinese words, all words, page 1, growth, another manifest, a read-only library."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hibor.find import INDEX_NAME, Index, main
from hibor.people.commandline import Answers, Words
from hibor.people.run_view import manifest_rows
from tests.people.conftest import Ask, Told


def hits(ask: Ask, own: Told, *terms: str) -> list[str]:
    code, out, _err = ask(main, *terms, "--library", own.path, "--json", "--quiet", "--lang", "zh")
    found = [hit["report_id"] for hit in json.loads(out)["hits"]]
    assert code == (0 if found else 1)
    return found


def a_row(own: Told) -> tuple[str, str, str]:
    row = next(row for row in manifest_rows(own.library) if row.title and row.institution)
    return row.report_id, str(row.title), str(row.institution)


def test_words_of_any_length_are_found(own: Told, ask: Ask) -> None:
    report_id, title, institution = a_row(own)
    for word in (title, title[:2], title[1:4], title[:1], institution, report_id, report_id.lower()):
        assert report_id in hits(ask, own, word), word
    assert hits(ask, own, title[:4], "没有任何报告会写这几个字") == []
    assert hits(ask, own, title[:2], institution[:2])[0] == report_id


def test_page_one_is_searched_and_shown(own: Told, ask: Ask) -> None:
    report_id, title, _institution = a_row(own)
    assert hits(ask, own, title) == [report_id]
    with closing(sqlite3.connect(own.path / INDEX_NAME)) as database:
        query = "SELECT facts, page FROM words JOIN report ON report.id = words.rowid WHERE report_id = ?"
        facts, page = database.execute(query, (report_id,)).fetchone()
    ideographs = re.findall("[\u4e00-\u9fff]{4}", page)
    word = next(word for word in ideographs if not any(pair in facts for pair in (word[:2], word[2:])))
    code, out, _err = ask(main, word, word[:2], "--library", own.path, "--lang", "zh", "--json", "--quiet")
    found = {hit["report_id"]: hit for hit in json.loads(out)["hits"]}
    assert code == 0 and word[:2] in found[report_id]["snippet"] and not found[report_id]["in_title"]


@pytest.mark.parametrize(
    "term", ['"', 'a" OR "b', "%", "_", "*", "AND", "'; DROP TABLE words; --", "NEAR(a b)"]
)
def test_no_term_is_a_query_language(own: Told, ask: Ask, term: str) -> None:
    code, _out, err = ask(main, term, "--library", own.path, "--quiet")
    assert code in (0, 1, 64) and "Traceback" not in err


def test_index_grows_with_the_manifest(own: Told, ask: Ask) -> None:
    lines = own.library.manifest.read_bytes().splitlines(keepends=True)
    own.library.manifest.write_bytes(lines[0])
    before = json.loads(lines[0])["report_id"], json.loads(lines[-1])
    assert hits(ask, own, before[0]) == [before[0]]
    assert hits(ask, own, before[1]["report_id"]) == []
    own.library.manifest.write_bytes(b"".join(lines))
    assert hits(ask, own, before[1]["report_id"]) == [before[1]["report_id"]]


def test_another_manifest_makes_another_index(own: Told, ask: Ask) -> None:
    report_id, title, _institution = a_row(own)
    assert hits(ask, own, title) == [report_id]
    own.library.manifest.write_bytes(b"")
    assert hits(ask, own, title) == []


def test_second_search_reads_no_pdf(own: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = Answers(Words("en"), quiet=True, json_wanted=True)
    first = Index(own.library)
    assert first.bring_up_to_date(answers) > 0
    first.close()
    monkeypatch.setattr("hibor.find.check_pdf", None)
    second = Index(own.library)
    assert second.bring_up_to_date(answers) == 0
    assert second.search([a_row(own)[1]], 5)
    second.close()


@pytest.mark.parametrize("spoilt", [b"not a database at all, but long enough to be read as one" * 40, b""])
def test_a_spoilt_index_does_not_stop_a_search(own: Told, ask: Ask, spoilt: bytes) -> None:
    (own.path / INDEX_NAME).write_bytes(spoilt)
    assert hits(ask, own, a_row(own)[1]) == [a_row(own)[0]]


def test_a_library_that_cannot_be_written_is_searched_all_the_same(
    own: Told, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = sqlite3.connect

    def read_only(path: str | Path, **options: object) -> sqlite3.Connection:
        if str(path) != ":memory:":
            raise sqlite3.OperationalError("unable to open database file")
        return connect(path, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr("hibor.find.sqlite3.connect", read_only)
    assert hits(ask, own, a_row(own)[1]) == [a_row(own)[0]]
    assert not (own.path / INDEX_NAME).exists()


def test_an_index_that_cannot_be_written_is_still_searched(
    own: Told, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a read-only disk: SQLite opens the file and refuses the first write."""
    report, word = a_row(own)[:2]
    assert hits(ask, own, word) == [report]
    with closing(sqlite3.connect(own.path / INDEX_NAME)) as index:
        index.execute("UPDATE about SET value = '0' WHERE name = 'rows'")  # there is something to add
        index.commit()
    before = (own.path / INDEX_NAME).read_bytes()
    connect = sqlite3.connect

    def read_only(path: str | Path, **options: object) -> sqlite3.Connection:
        where = path if str(path) == ":memory:" else f"{Path(path).as_uri()}?mode=ro"
        return connect(where, uri=True, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr("hibor.find.sqlite3.connect", read_only)
    assert hits(ask, own, word) == [report]
    assert (own.path / INDEX_NAME).read_bytes() == before
