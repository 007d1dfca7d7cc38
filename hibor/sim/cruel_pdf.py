"""Whole, well-formed PDF files that hurt whoever reads them: by time, by stack, by memory.

Rules of this file: every file is one valid PDF of one page, made of plain objects without the PDF library,
the same bytes each time; the harm is in what a reader must do, not in damage. Sources: faults F61 (a reader
that dies in native code) and F62 (one that spins, or eats memory).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

_MEBIBYTE = 1 << 20


def endless_page(depth: int = 12, fan: int = 10) -> bytes:
    """A small PDF whose one page draws `fan` to the power of `depth` boxes: nobody reads it to the end."""
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 595 842]"
    objects = [*_page(b"/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>"), _stream(b"", b"/X Do")]
    for level in range(depth - 1):
        inner = b"/Resources<</XObject<</X %d 0 R>>>>" % (6 + level)
        objects.append(_stream(form + inner, b"/X Do " * fan))
    return _assembled([*objects, _stream(form, b"0 0 1 1 re f")])


def bottomless_outline(depth: int = 250_000) -> bytes:
    """A PDF whose table of contents is one entry within the other, `depth` deep.

    A reader that goes down by calling itself runs out of stack and is ended by the system; at eight mebibytes
    of stack MuPDF 1.28 is gone before 200,000.
    """
    entries = [b"<</First 5 0 R/Last 5 0 R/Count 1>>"]
    for number in range(5, 4 + depth):
        places = (number - 1, number + 1, number + 1)
        entries.append(b"<</Title(a)/Parent %d 0 R/First %d 0 R/Last %d 0 R>>" % places)
    entries.append(b"<</Title(a)/Parent %d 0 R>>" % (3 + depth))
    return _assembled([*_page(b"", catalog=b"/Outlines 4 0 R"), *entries])


def swelling_string(mebibytes: int = 1100) -> bytes:
    """A PDF of two kilobytes whose page shows one text of `mebibytes`, packed twice: a reader that holds a
    whole word in memory, doubling its buffer as it grows, asks for more than two gibibytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    begun = packer.compress(b"(") + packer.flush(zlib.Z_FULL_FLUSH)
    block = b"a" * _MEBIBYTE
    # After a full flush nothing points back: the same packed block may stand there any number of times.
    again = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    check = zlib.adler32(b"(")
    for _ in range(mebibytes):
        check = zlib.adler32(block, check)
    ended = packer.compress(b") Tj") + packer.flush()
    check = zlib.adler32(b") Tj", check)
    text = b"\x78\xda" + begun + again * mebibytes + ended + check.to_bytes(4, "big")
    packed = zlib.compress(text, 9)
    filters = b"/Filter[/FlateDecode/FlateDecode]"
    return _assembled([*_page(b"/Contents 4 0 R/Resources<<>>"), _stream(filters, packed)])


def _page(more: bytes, catalog: bytes = b"") -> list[bytes]:
    """Objects 1 to 3: catalog, page tree, one page; `more` are the page's other entries."""
    return [
        b"<</Type/Catalog/Pages 2 0 R%s>>" % catalog,
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]%s>>" % more,
    ]


def _stream(entries: bytes, content: bytes) -> bytes:
    return b"<<%s/Length %d>>\nstream\n%s\nendstream" % (entries, len(content), content)


def _assembled(objects: Sequence[bytes]) -> bytes:
    """A PDF file of these objects, numbered from 1, the first being its root."""
    out, places = bytearray(b"%PDF-1.5\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start, count = len(out), len(objects) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % count
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (count, start)
    return bytes(out)
