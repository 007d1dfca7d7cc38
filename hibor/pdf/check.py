"""One check from end to end: look at the file, ask the worker, judge by the contract's table.

Rules of this file:

* The parent looks at the file itself (kind, first bytes, length, sha256) and the worker at its inside, at
  the same time; both report the file's identity, so a file swapped in between is `changed`.
* A file that is not regular, is empty or does not begin with `%PDF-` never reaches the worker.
* Size and sha256 are reported also for a refused file: quarantine and the audit need them.
"""

from __future__ import annotations

import atexit
import os
import time
from typing import Final

import attrs

from generated.pdf import PDF_FINDINGS
from hibor.pdf import files
from hibor.pdf.pool import Answer, PdfWorkerUnavailable, Pool
from hibor.pdf.report import FindingTable, PdfReport, checked_table, judge

PathLike = str | os.PathLike[str]

_POOL: Final = Pool()
atexit.register(_POOL.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.abandon)


@attrs.define
class _Seen:
    """What the parent saw of the file."""

    observed: set[str] = attrs.field(factory=set)
    digest: files.Digest | None = None


def check_pdf(
    path: PathLike,
    *,
    size_bytes: int | None = None,
    sha256: str | None = None,
    page_count: int | None = None,
    accept_restricted: bool = True,
    timeout_s: float = 20.0,
) -> PdfReport:
    """Check one file against the contract's findings (design 5 "PDF check").

    `size_bytes`, `sha256` (hex) and `page_count` are what the file must have, None where nothing is known;
    `accept_restricted=False` refuses owner-only encryption (ruling R30); `timeout_s` bounds the whole check
    in real seconds. Never raises for a bad file, also not for one that crashes or hangs the library.
    Raises `PdfWorkerUnavailable` when this machine cannot start the worker, which says nothing of the file.
    """
    return check_pdf_with(
        _POOL,
        path,
        size_bytes=size_bytes,
        sha256=sha256,
        page_count=page_count,
        accept_restricted=accept_restricted,
        timeout_s=timeout_s,
    )


def check_pdf_with(
    pool: Pool,
    path: PathLike,
    *,
    size_bytes: int | None = None,
    sha256: str | None = None,
    page_count: int | None = None,
    accept_restricted: bool = True,
    timeout_s: float = 20.0,
    findings: FindingTable = PDF_FINDINGS,
) -> PdfReport:
    """`check_pdf` with the worker pool and the table of findings (finding, code, in order) as values."""
    table = checked_table(findings)
    name = _absolute(path)
    seen = _Seen()
    answer = Answer(observed=())
    try:
        descriptor, identity = files.open_regular(name)
    except files.FileRefused as refused:
        finding, code = judge({refused.finding}, table)
        return PdfReport(False, code, None, None, None, False, finding, None)
    try:
        answer = _look(pool, name, descriptor, identity, seen, timeout_s)
    except OSError:
        seen.observed.add("unreadable")
    finally:
        os.close(descriptor)
    observed = seen.observed | set(answer.observed)
    found_pages = answer.reply.get("page_count")
    restricted = bool(answer.reply.get("restricted"))
    if seen.digest is not None and seen.digest.finished:
        if size_bytes is not None and seen.digest.size_bytes != size_bytes:
            observed.add("size")
        if sha256 is not None and seen.digest.sha256 != sha256.lower():
            observed.add("sha256")
    if restricted and not accept_restricted:
        observed.add("restricted")
    if page_count is not None and found_pages is not None and found_pages != page_count:
        observed.add("page_count")
    finding, code = judge(observed, table)
    finished = seen.digest if seen.digest is not None and seen.digest.finished else None
    return PdfReport(
        ok=not observed,
        code=code,
        page_count=found_pages,
        size_bytes=finished.size_bytes if finished else identity.size_bytes,
        sha256=finished.sha256 if finished else None,
        restricted=restricted,
        finding=finding,
        text_page1=answer.reply.get("text_page1"),
    )


def _absolute(path: PathLike) -> str:
    """The path from the root, for a worker whose working folder is another; `..` is left to the system."""
    name = os.fsdecode(path)
    return name if os.path.isabs(name) else os.path.join(os.getcwd(), name)


def _look(
    pool: Pool, name: str, descriptor: int, identity: files.Identity, seen: _Seen, timeout_s: float
) -> Answer:
    """Look from both sides; `seen` gets the parent's part. Raises `OSError` when the file cannot be read."""
    head = files.read_head(descriptor)
    failure: list[OSError] = []

    def from_outside(deadline_s: float) -> None:
        try:
            seen.digest = files.digest(descriptor, deadline_s=deadline_s, head=head)
        except OSError as error:
            failure.append(error)

    answer = Answer(observed=())
    if head == files.MAGIC:
        request = {"do": "check", "path": name, "identity": list(attrs.astuple(identity))}
        answer = pool.ask(request, timeout_s=timeout_s, meanwhile=from_outside)
    else:
        seen.observed.add("magic" if head else "empty")
        from_outside(time.monotonic() + timeout_s)
    if failure:
        raise failure[0]
    if seen.digest is not None:
        if not seen.digest.finished:
            seen.observed.add("timed_out")
        elif head == files.MAGIC and not files.has_trailer(seen.digest.tail):
            seen.observed.add("no_trailer")
        if files.Identity.of(os.fstat(descriptor)) != identity:
            seen.observed.add("changed")
    return answer


def page1_png(path: PathLike, width_px: int, *, timeout_s: float = 20.0) -> bytes | None:
    """Page 1 as a PNG `width_px` pixels wide, rendered by the worker; None when it cannot be shown.

    For reports only: a thumbnail that is missing is not a fault. Never raises for a bad file.
    """
    name = _absolute(path)
    try:
        answer = _POOL.ask({"do": "thumbnail", "path": name, "width_px": width_px}, timeout_s=timeout_s)
    except PdfWorkerUnavailable:
        return None
    return answer.payload or None


def warm_up() -> None:
    """Start the worker now (preflight does). Raises `PdfWorkerUnavailable`."""
    _POOL.warm_up()


def shut_down() -> None:
    """End the worker; the next check starts a new one."""
    _POOL.close()
