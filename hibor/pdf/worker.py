"""The PDF worker: the only process that runs the PDF library (`python -m hibor.pdf.worker`).

Rules of this file:

* The library may crash, hang, eat memory or print; all four stay in this process (faults F61, F62). The
  request line is moved away from descriptors 0 and 1 before the library is imported, and 0, 1 and 2 become
  the null device, so nothing it prints can reach the collector's stdout.
* Nothing here decides. A request is answered with the findings observed; `hibor.pdf.report` judges.
* One request at a time; the document is closed before the answer leaves, because an open file cannot be
  renamed or removed on Windows.
* Limits where the platform has them: address space for the life of the process, processor seconds anew for
  each request (they add up over a process's life, and a warm worker must not be charged for its past), no
  core file, no file written. Elsewhere the parent watches the memory.
* End of the request line ends the process: it does not outlive its parent.
"""

from __future__ import annotations

import math
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from hibor.pdf import files, wire

Handler = Callable[[wire.Message], tuple[wire.Message, bytes]]

TEXT_LIMIT: Final = 200_000
"""Characters of page 1's text that are handed back; a page of a report has a few thousand."""

NODE_LIMIT: Final = 200_000
"""Entries of the page tree that are walked; a deeper or wider one is not a report."""

_PNG_LIMIT_PX: Final = 4096


def serve(
    line: tuple[int, int], handlers: Mapping[str, Handler], *, announce: wire.Message | None = None
) -> int:
    """Answer on `line` (from `take_line`) until it ends; return the exit code."""
    requests, answers = line
    with suppress(BrokenPipeError):
        wire.send(answers, {"ready": True, **(announce or {})})
        while (received := wire.receive(requests)) is not None:
            request, _ = received
            _allow_processor_seconds(float(request.get("timeout_s", 0.0)))
            reply, payload = _answer(handlers, request)
            wire.send(answers, {"id": request.get("id"), **reply}, payload)
    return 0


def _library() -> Any:
    """The PDF library, loaded at first use; it carries no types."""
    import pymupdf

    return pymupdf


def _answer(handlers: Mapping[str, Handler], request: wire.Message) -> tuple[wire.Message, bytes]:
    """Run the handler; whatever it raises becomes an observation (F68: exception types differ by path)."""
    try:
        return handlers[str(request["do"])](request)
    except MemoryError:
        return {"observed": ["over_memory"]}, b""
    except Exception as error:  # the library raises a dozen unrelated types for a bad file
        text = _whole_text(error)
        finding = next((word for word, pattern in _TROUBLES if pattern.search(text)), "not_openable")
        return {"observed": [finding], "detail": text[:300]}, b""


_TROUBLES: Final = (
    ("over_memory", re.compile(r"\b(malloc|calloc|realloc|out of memory|bad_alloc)\b", re.IGNORECASE)),
    # Certificates and reader plug-ins (FileOpen and the like): the library knows passwords only.
    ("encrypted", re.compile(r"encryption (handler|filter)|unknown crypt", re.IGNORECASE)),
)


def _whole_text(error: BaseException | None) -> str:
    """Types and texts of an exception and its causes; the library hides the real one behind its own."""
    parts: list[str] = []
    while error is not None and len(parts) < 8:
        parts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or error.__context__
    return " / ".join(parts)


def _is_memory_trouble(error: Exception) -> bool:
    return isinstance(error, MemoryError) or _TROUBLES[0][1].search(_whole_text(error)) is not None


def take_line() -> tuple[int, int]:
    """Move the request line off the standard descriptors and silence those; return (requests, answers)."""
    requests, answers = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(requests, os.O_BINARY)
        msvcrt.setmode(answers, os.O_BINARY)
    return requests, answers


def limit_process(memory_bytes: int) -> None:
    """Set this process's own limits where the platform has them; silently without them elsewhere."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the collector's to handle (ruling R26)
    if sys.platform == "win32":
        return
    import resource

    for name, value in (("RLIMIT_AS", memory_bytes), ("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", 0)):
        which = getattr(resource, name, None)
        if which is None:
            continue
        _, hard = resource.getrlimit(which)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(ValueError, OSError):  # macOS refuses RLIMIT_AS; the parent's watch stands in
            resource.setrlimit(which, (value, hard))


def _allow_processor_seconds(timeout_s: float) -> None:
    """Allow `timeout_s` processor seconds from now on, so that an orphan that spins ends by itself."""
    if sys.platform == "win32" or timeout_s <= 0:
        return
    import resource

    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    limit = math.ceil(usage.ru_utime + usage.ru_stime + timeout_s) + 1
    if hard == resource.RLIM_INFINITY or limit <= hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def _read_identified(request: wire.Message) -> tuple[bytes, list[str]]:
    """The file's bytes, read once; `changed` when it is not the file the parent looked at."""
    descriptor, identity = files.open_regular(request["path"])
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        data = stream.readall()
        after = files.Identity.of(os.fstat(stream.fileno()))
    expected = request.get("identity")
    same = expected is None or files.Identity(*expected) == identity
    return data, [] if same and identity == after and len(data) == identity.size_bytes else ["changed"]


def check(request: wire.Message) -> tuple[wire.Message, bytes]:
    """Observe one file: `path`, `identity`, in; `observed`, `page_count`, `restricted`, `text_page1` out."""
    pymupdf = _library()
    try:
        data, observed = _read_identified(request)
    except files.FileRefused as refused:
        return {"observed": [refused.finding]}, b""
    try:
        with pymupdf.open(stream=data) as document:
            return {**_look_inside(document, observed), "observed": observed}, b""
    finally:
        pymupdf.TOOLS.store_shrink(100)
        pymupdf.TOOLS.reset_mupdf_warnings()


def _look_inside(document: Any, observed: list[str]) -> wire.Message:
    """Add to `observed` what is wrong inside; return page count, restriction and page 1's text."""
    if not document.is_pdf:
        observed.append("not_pdf")
        return {}
    if document.needs_pass:
        observed.append("encrypted")
        return {}
    page_count = int(document.page_count)
    restricted = bool((document.metadata or {}).get("encryption"))
    leaves, broken, consistent = _walk_page_tree(document)
    text_page1: str | None = None
    try:
        for index in range(min(page_count, NODE_LIMIT)):
            page = document.load_page(index)
            if index == 0:
                text_page1 = page.get_text("text")[:TEXT_LIMIT]
    except Exception as error:
        if _is_memory_trouble(error):
            raise
        # A page number beyond the tree's own pages is a lying /Count, not a damaged page.
        observed.append("page_unloadable" if leaves is None or index < leaves else "count_lies")
    if broken:
        observed.append("page_unloadable")
    if document.is_repaired:  # only now: the library repairs at the first damaged object it needs
        observed.append("repaired")
    if page_count <= 0:
        observed.append("no_pages")
    if not consistent or (leaves is not None and leaves != page_count):
        observed.append("count_lies")
    return {"page_count": page_count, "restricted": restricted, "text_page1": text_page1}


def _walk_page_tree(document: Any) -> tuple[int | None, bool, bool]:
    """Count the pages that are really in the tree (F55: the library believes /Count).

    Returns (leaves, broken, consistent): `leaves` None when the tree cannot be followed by references,
    `broken` when an entry is not a page (the library shows an empty page for it), `consistent` when each
    inner node's /Count is the number of leaves below it.
    """
    kind, value = document.xref_get_key(document.pdf_catalog(), "Pages")
    if kind != "xref":
        return None, kind == "null", True
    root = int(value.split()[0])
    leaves_of: dict[int, int] = {}
    declared: dict[int, int | None] = {}
    broken, consistent, walked = False, True, 0
    stack: list[tuple[int, bool]] = [(root, False)]
    kids_of: dict[int, list[int]] = {}
    while stack:
        node, done = stack.pop()
        if done:
            leaves_of[node] = sum(leaves_of.get(kid, 0) for kid in kids_of[node])
            consistent = consistent and declared[node] == leaves_of[node]
            continue
        walked += 1
        if walked > NODE_LIMIT:
            return None, True, True
        if not 0 < node < document.xref_length():
            broken = True
            continue
        kids = _kids(document, node)
        if kids is None:
            if not document.xref_object(node).startswith("<<") or node == root:
                broken = True
            else:
                leaves_of[node] = 1
            continue
        if node in kids_of:  # an inner node met twice: a loop, or one subtree hung up in two places
            broken = True
            continue
        kids_of[node], declared[node] = kids, _count(document, node)
        stack.append((node, True))
        stack.extend((kid, False) for kid in reversed(kids))
    return leaves_of.get(root), broken, consistent


def _kids(document: Any, node: int) -> list[int] | None:
    """The references in a node's /Kids, None for a node that has none (a page)."""
    kind, value = document.xref_get_key(node, "Kids")
    while kind == "xref":
        text = document.xref_object(int(value.split()[0]))
        kind, value = ("array", text) if text.startswith("[") else ("other", text)
    if kind != "array":
        return None
    return [int(number) for number in re.findall(r"(\d+) \d+ R", value)]


def _count(document: Any, node: int) -> int | None:
    kind, value = document.xref_get_key(node, "Count")
    if kind == "xref":
        value = document.xref_object(int(value.split()[0]))
    return int(value) if re.fullmatch(r"-?\d+", value.strip()) else None


def thumbnail(request: wire.Message) -> tuple[wire.Message, bytes]:
    """Page 1 as a PNG `width_px` wide; no payload when there is nothing to show."""
    pymupdf = _library()
    try:
        data, _ = _read_identified(request)
    except files.FileRefused as refused:
        return {"observed": [refused.finding]}, b""
    try:
        with pymupdf.open(stream=data) as document:
            if not document.is_pdf or document.needs_pass or document.page_count < 1:
                return {"observed": ["no_pages"]}, b""
            page = document.load_page(0)
            zoom = max(1, min(int(request["width_px"]), _PNG_LIMIT_PX)) / max(page.rect.width, 1.0)
            zoom = min(zoom, _PNG_LIMIT_PX / max(page.rect.height, 1.0))
            pixmap = page.get_pixmap(matrix=pymupdf.Matrix(zoom, zoom), alpha=False)
            return {"observed": []}, pixmap.tobytes("png")
    finally:
        pymupdf.TOOLS.store_shrink(100)
        pymupdf.TOOLS.reset_mupdf_warnings()


def main() -> int:
    """Limit the process, load the library, serve. The memory limit (bytes) is the first argument."""
    line = take_line()
    limit_process(int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 31)
    pymupdf = _library()
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    return serve(line, {"check": check, "thumbnail": thumbnail}, announce={"library": pymupdf.mupdf_version})


if __name__ == "__main__":
    raise SystemExit(main())
