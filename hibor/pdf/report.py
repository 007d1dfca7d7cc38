"""What a PDF check says about a file.

Rules of this file:

* A check *observes*; it does not judge. Everything observed about one file is a set of findings (short,
  stable words). The judgement is the first finding of the contract's table that was observed, and its code
  (design 5 "PDF check"; the table is `generated.pdf.PDF_FINDINGS`, authored in `spec/pdf.yaml`).
* The table comes in as a value, so that a changed contract can be tried. A table that misses a word, names
  an unknown one or names one twice is refused before any file is looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import attrs

PASSED: Final = "ok"
"""The finding of a file nothing is wrong with."""

WORDS: Final = frozenset(
    {
        PASSED,
        "not_regular",
        "missing",
        "unreadable",
        "empty",
        "magic",
        "not_pdf",
        "size",
        "sha256",
        "changed",
        "encrypted",
        "restricted",
        "timed_out",
        "over_memory",
        "worker_died",
        "not_openable",
        "repaired",
        "no_trailer",
        "page_unloadable",
        "no_pages",
        "count_lies",
        "page_count",
    }
)
"""Every finding the code can observe; the contract's table holds exactly these."""

FindingTable = Sequence[tuple[str, str]]
"""(finding, code) in the order of judgement."""


@attrs.frozen
class PdfReport:
    """The result of one check (design 5).

    `code` is the contract's NONE or the code the finding stops with; `size_bytes` and `sha256` (lower-case
    hex) are what the file really has, also when it is refused, as far as it could be read; `page_count` is
    the library's; `restricted` says owner-only encryption (ruling R30); `finding` is one of `WORDS`;
    `text_page1` is the first page's text layer, "" when it has none, None when it was not reached.
    """

    ok: bool
    code: str
    page_count: int | None
    size_bytes: int | None
    sha256: str | None
    restricted: bool
    finding: str
    text_page1: str | None


def checked_table(table: FindingTable) -> FindingTable:
    """Return `table` when it holds every finding exactly once and `ok` last; raise `ValueError` otherwise."""
    words = [word for word, _ in table]
    missing, unknown = sorted(WORDS - set(words)), sorted(set(words) - WORDS)
    twice = sorted({word for word in words if words.count(word) > 1})
    if missing or unknown or twice:
        raise ValueError(f"PDF findings: missing {missing}, unknown {unknown}, listed twice {twice}")
    if words[-1] != PASSED:
        raise ValueError(f"PDF findings: {PASSED!r} must come last, or it would hide what stands behind it")
    return table


def judge(observed: Collection[str], table: FindingTable) -> tuple[str, str]:
    """The (finding, code) a file with these observations is reported with: the first in the table's order."""
    for word, code in table:
        if word in observed or word == PASSED:
            return word, code
    raise ValueError(f"PDF findings: the table does not know {sorted(observed)}")
