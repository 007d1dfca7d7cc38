"""`report.html`: one run as a page a person reads, prints and sends on (design 1 "Three groups").

Rules of this package:

* The page is one file: styles, script, thumbnails and drawings are inside, nothing is loaded from anywhere.
  A content policy in the page allows exactly that, so a hostile title cannot load or run anything either.
* It is made from the run's files alone and holds no clock: the same run gives the same bytes.
* It is made piece by piece: a run of a thousand items holds one row and one picture of it at a time.
* Whatever the page says about a code comes from the catalogue, in the reader's language.
* Links to PDFs are relative: they work wherever the library is opened as a whole; the thumbnails work
  everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from hibor.durable import Durable, DurableError, FileAlreadyThere
from hibor.durable_parts import FileFacts
from hibor.messages import Lang
from hibor.package.layout import Library
from hibor.people.run_view import RunView, load_run
from hibor.report.context import run_context
from hibor.report.render import render

STEP: Final = "run.report"
_OTHERS_LIMIT: Final = 1000


def report_html(view: RunView, lang: Lang, *, beside: Path) -> Iterator[bytes]:
    """The page of a run in pieces, for a file in the folder `beside` (links start there)."""
    return render("page.html", run_context(view, lang, beside=beside))


def write_run_report(
    durable: Durable, library: Library, run_id: str, lang: Lang, view: RunView | None = None
) -> Path:
    """Write the run's page into its folder and return its path. Never replaces a file.

    The same page again is the file that is there. A page that differs (another language, items that were
    finished later) gets the next free name `report-2.html`, `report-3.html`, … `view` is the run where it was
    read already. Raises `DurableError`.
    """
    folder = library.run(run_id)
    view = view or load_run(library, folder)

    def page() -> Iterator[bytes]:
        return report_html(view, lang, beside=folder.path)

    for number in range(1, _OTHERS_LIMIT):
        path = folder.report if number == 1 else folder.path / f"report-{number}.html"
        if durable.stat(path) is None:
            try:
                _write(durable, path, page)
            except FileAlreadyThere:
                continue  # another process took the name just now
            return path
        if _holds(durable, path, page()):
            return path
    raise FileExistsError(f"{folder.run_id} has {_OTHERS_LIMIT} reports")


def _write(durable: Durable, path: Path, page: Callable[[], Iterator[bytes]]) -> None:
    """Write the page; once more where a recovery took its half-written file for one that was left."""
    try:
        durable.write_once(path, page(), step=STEP)
    except FileAlreadyThere:
        raise
    except DurableError:
        durable.write_once(path, page(), step=STEP)


def _holds(durable: Durable, path: Path, pieces: Iterator[bytes]) -> bool:
    """Whether a file has exactly these bytes."""
    digest, size_bytes = hashlib.sha256(), 0
    for piece in pieces:
        digest.update(piece)
        size_bytes += len(piece)
    return durable.facts(path) == FileFacts(size_bytes, digest.hexdigest())
