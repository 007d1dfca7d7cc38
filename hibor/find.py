"""`hibor find WORDS`: full-text search over the library: titles, brokers, analysts, stocks and first pages.

Rules of this file:

* The index is `<library>/find.sqlite3`, made from manifest and PDFs alone. It may be deleted at any time;
  it is built on when the manifest grew and built anew when the manifest is another one.
* SQLite FTS5 with the trigram tokenizer, because Chinese has no blanks between words. A trigram index
  cannot be asked for one or two characters (存储, 茅台), so shorter words are looked for in the text itself.
* Text is compared the way people compare it (`normalise_text`): width, case and line breaks do not matter.
  All words must be found.
* A library that cannot be written (another machine, a read-only share) is indexed in memory.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import attrs
import click

from hibor.package.layout import Library
from hibor.package.manifest import ManifestRow
from hibor.package.names import normalise_text
from hibor.pdf import check_pdf
from hibor.people.commandline import DONE, FOUND, Answers, Refusal, SpokenCommand, Words, run_command, shared
from hibor.people.libraries import library_at
from hibor.people.numbers import MOST_REPORTS, Number
from hibor.people.run_view import manifest_rows

INDEX_NAME: Final = "find.sqlite3"
INDEX_VERSION: Final = 1
TRIGRAM: Final = 3
AROUND: Final = 24
BUSY_S: Final = 5.0
PAGE_LIMIT: Final = 20_000
_CHECK_S: Final = 20.0
_COLUMNS: Final = (
    "report_id", "final_path", "title", "institution", "date", "stock_code", "stock_name",
    "page_count", "sha256",
)  # fmt: skip
_FACTS: Final = (
    "title", "institution", "date", "stock_code", "stock_name", "industry", "report_type",
    "rating", "report_id",
)  # fmt: skip
_SCHEMA: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE report (
    id INTEGER PRIMARY KEY, report_id TEXT NOT NULL, final_path TEXT NOT NULL UNIQUE, title TEXT,
    institution TEXT, date TEXT, stock_code TEXT, stock_name TEXT, page_count INTEGER, sha256 TEXT
);
CREATE VIRTUAL TABLE words USING fts5(facts, page, tokenize = 'trigram');
"""


@attrs.frozen(kw_only=True)
class Hit:
    """One report that was found. `snippet` is the text around the first word on page 1, None when only
    facts fit.
    """

    report_id: str
    title: str | None
    institution: str | None
    date: str | None
    stock: str | None
    final_path: str
    snippet: str | None
    in_title: bool


class Index:
    """The search index of a library."""

    def __init__(self, library: Library) -> None:
        """Open or make the index; in memory where the library cannot be written."""
        self._library = library
        self._database = self._opened()

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def _opened(self) -> sqlite3.Connection:
        path = self._library.root / INDEX_NAME
        try:
            database = _writable(sqlite3.connect(path, timeout=BUSY_S, isolation_level=None))
            version = self._version(database)
            if version != INDEX_VERSION:
                self._empty(database)
            return database
        except sqlite3.Error:
            database = sqlite3.connect(":memory:", isolation_level=None)
            self._empty(database)
            return database

    @staticmethod
    def _version(database: sqlite3.Connection) -> int | None:
        known = database.execute("SELECT name FROM sqlite_master WHERE name = 'about'").fetchone()
        if known is None:
            return None
        row = database.execute("SELECT value FROM about WHERE name = 'version'").fetchone()
        return None if row is None else int(row[0])

    @staticmethod
    def _empty(database: sqlite3.Connection) -> None:
        """Make the tables anew, all in one transaction."""
        with _transaction(database):
            for name in ("words", "report", "about"):
                database.execute(f"DROP TABLE IF EXISTS {name}")
            for statement in filter(str.strip, _SCHEMA.split(";")):
                database.execute(statement)
            database.execute("INSERT INTO about VALUES ('version', ?)", (str(INDEX_VERSION),))

    def bring_up_to_date(self, answers: Answers) -> int:
        """Index the manifest's rows that are new; returns how many PDFs were read. Raises `Refusal`."""
        rows = manifest_rows(self._library)
        start, mark = self._about("rows", "0"), self._about("mark", "")
        known = int(start)
        if known > len(rows) or (known and _mark(rows[:known]) != mark):
            self._empty(self._database)
            known = 0
        fresh = [row for row in rows[known:] if row.final_path is not None]
        for number, row in enumerate(fresh, start=1):
            if number == 1 or number % 20 == 0:
                answers.say("find.indexing", number=number, count=len(fresh))
            with _transaction(self._database):
                self._add(row)
        with _transaction(self._database):
            for name, value in (("rows", str(len(rows))), ("mark", _mark(rows))):
                self._database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))
        return len(fresh)

    def _about(self, name: str, default: str) -> str:
        row = self._database.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return default if row is None else str(row[0])

    def _add(self, row: ManifestRow) -> None:
        """Add a report, or what a later row of the same file tells about it."""
        assert row.final_path is not None
        database = self._database
        before = database.execute(
            "SELECT id, sha256 FROM report WHERE final_path = ?", (row.final_path,)
        ).fetchone()
        if before is not None and before[1] == row.sha256:
            page = database.execute("SELECT page FROM words WHERE rowid = ?", (before[0],)).fetchone()[0]
        else:
            page = self._page(row.final_path)
        if before is not None:
            database.execute("DELETE FROM words WHERE rowid = ?", (before[0],))
            database.execute("DELETE FROM report WHERE id = ?", (before[0],))
        facts = (*(getattr(row, name) for name in _FACTS), *(row.analysts or ()))
        values = tuple(getattr(row, name) for name in _COLUMNS)
        columns, marks = ", ".join(_COLUMNS), ", ".join("?" * len(values))
        number = database.execute(f"INSERT INTO report ({columns}) VALUES ({marks})", values).lastrowid
        told = " ¦ ".join(normalise_text(fact) for fact in facts if fact)
        database.execute("INSERT INTO words (rowid, facts, page) VALUES (?, ?, ?)", (number, told, page))

    def _page(self, final_path: str) -> str:
        try:
            found = check_pdf(self._library.absolute(final_path), timeout_s=_CHECK_S)
        except (ValueError, RuntimeError):
            return ""
        return normalise_text(found.text_page1 or "")[:PAGE_LIMIT]

    def search(self, terms: Sequence[str], limit: int) -> list[Hit]:
        """Reports in which every term is found, those with all of them in the facts first, newest first."""
        wanted = [text for term in terms if (text := normalise_text(term))]
        if not wanted:
            return []
        conditions, values = [], []
        long = [text for text in wanted if len(text) >= TRIGRAM]
        if long:
            conditions.append("words MATCH ?")
            values.append(" AND ".join('"' + text.replace('"', '""') + '"' for text in long))
        for text in wanted:
            if len(text) < TRIGRAM:
                conditions.append("(instr(words.facts, ?) > 0 OR instr(words.page, ?) > 0)")
                values += [text, text]
        in_facts = " AND ".join("instr(words.facts, ?) > 0" for _ in wanted)
        query = (
            f"SELECT report.*, words.page, ({in_facts}) AS near "
            "FROM words JOIN report ON report.id = words.rowid "
            f"WHERE {' AND '.join(conditions)} ORDER BY near DESC, report.date DESC, report.id DESC LIMIT ?"
        )
        cursor = self._database.execute(query, (*wanted, *values, limit))
        names = [column[0] for column in cursor.description]
        return [_hit(dict(zip(names, row, strict=True)), wanted) for row in cursor]


def _writable(database: sqlite3.Connection) -> sqlite3.Connection:
    """The database, or a copy of it in memory where its file cannot be written. Raises `sqlite3.Error`."""
    try:
        database.execute("BEGIN IMMEDIATE")
        try:
            database.execute(f"PRAGMA user_version = {INDEX_VERSION}")  # taken back: could it be written?
        finally:
            database.execute("ROLLBACK")
        return database
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
            raise
    with closing(database):
        copy = sqlite3.connect(":memory:", isolation_level=None)
        database.backup(copy)
        return copy


class _transaction:
    """BEGIN … COMMIT, or ROLLBACK when anything goes wrong."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self._database.execute("COMMIT" if kind is None else "ROLLBACK")


def _mark(rows: Sequence[ManifestRow]) -> str:
    """Stands for these rows; each row carries the hash of its own line."""
    return hashlib.sha256("\n".join(row.line_sha256 or "" for row in rows).encode()).hexdigest()


def _hit(values: dict[str, Any], wanted: Sequence[str]) -> Hit:
    stock = " ".join(filter(None, (values["stock_code"], values["stock_name"])))
    return Hit(
        report_id=values["report_id"],
        title=values["title"],
        institution=values["institution"],
        date=values["date"],
        stock=stock or None,
        final_path=values["final_path"],
        snippet=_snippet(values["page"], wanted),
        in_title=bool(values["near"]),
    )


def _snippet(page: str, wanted: Sequence[str]) -> str | None:
    """The page's text around the first of the words that is on it."""
    places = [(at, text) for text in wanted if (at := page.find(text)) >= 0]
    if not places:
        return None
    at, text = min(places)
    start, end = max(0, at - AROUND), at + len(text) + AROUND
    return f"{'…' if start else ''}{page[start:end]}{'…' if end < len(page) else ''}"


def build(words: Words) -> click.Command:
    """The command in a language."""

    @click.command(cls=SpokenCommand, words=words, section="find")
    @click.argument("terms", nargs=-1)
    @click.option("--limit", type=Number(1, MOST_REPORTS), default=20, help=words("find.limit"))
    @shared(words)
    def find(
        terms: tuple[str, ...],
        limit: int,
        library: Path | None,
        task: Path | None,
        json_wanted: bool,
        quiet: bool,
        lang: str | None,
    ) -> int:
        del lang
        if not any(normalise_text(term) for term in terms):
            raise Refusal("find.nothing")
        answers = Answers(words, quiet=quiet, json_wanted=json_wanted)
        place = library_at(library, task)
        with closing(Index(place)) as index:
            try:
                index.bring_up_to_date(answers)
                hits = index.search(terms, limit)
            except sqlite3.Error as error:
                raise Refusal("find.index_failed", exit_code=FOUND, path=place.root / INDEX_NAME) from error
        for line in _lines(hits, place, words):
            answers.tell(line)
        answers.document({"terms": list(terms), "hits": [attrs.asdict(hit) for hit in hits]})
        return DONE if hits else FOUND

    return find


def _lines(hits: Sequence[Hit], library: Library, words: Words) -> Iterator[str]:
    if not hits:
        yield words("find.none")
    for hit in hits:
        yield "  ".join(filter(None, (hit.date, hit.institution, hit.title)))
        if hit.snippet:
            yield f"    {hit.snippet}"
        yield f"    {library.absolute(hit.final_path)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    return run_command(build, "find", arguments)


if __name__ == "__main__":
    sys.exit(main())
