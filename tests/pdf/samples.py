"""PDF files to test with, made here: good ones by the library, bad ones by changing their bytes."""

from __future__ import annotations

import io
import re
import zipfile

import pymupdf


def good(pages: int = 3, text: str = "半导体行业周报", **save: object) -> bytes:
    """A valid PDF with Chinese text on each page."""
    with pymupdf.open() as document:
        for number in range(pages):
            page = document.new_page()
            page.insert_text((72, 72), f"{text} {number + 1}", fontname="china-s")
        return bytes(document.tobytes(**save))


def needs_password() -> bytes:
    """R6, user password: page_count stays readable (F53)."""
    return good(20, encryption=pymupdf.PDF_ENCRYPT_AES_256, owner_pw="owner", user_pw="user")


def owner_only() -> bytes:
    """R6, opens with the empty password; only the metadata tell (ruling R30)."""
    return good(encryption=pymupdf.PDF_ENCRYPT_AES_256, owner_pw="owner", permissions=pymupdf.PDF_PERM_PRINT)


def with_count(declared: int, pages: int = 3) -> bytes:
    """The root's /Count says `declared`, the tree holds `pages` (F55)."""
    data = good(pages)
    assert data.count(b"/Count %d" % pages) == 1 and len(str(declared)) == len(str(pages))
    return data.replace(b"/Count %d" % pages, b"/Count %d" % declared)


def kids(data: bytes) -> list[bytes]:
    """The object numbers in the root's /Kids."""
    found = re.search(rb"/Kids\[([^\]]*)\]", data)
    assert found is not None
    return re.findall(rb"(\d+) 0 R", found.group(1))


def with_kid(index: int, number: bytes) -> bytes:
    """One kid of the root replaced by a reference to `number` (padded to the same length)."""
    data = good(3)
    old = kids(data)[index]
    assert len(number) <= len(old)
    start = data.index(b"/Kids[") + len(b"/Kids[")
    end = data.index(b"]", start)
    new = re.sub(rb"\b%s 0 R" % old, number.rjust(len(old)) + b" 0 R", data[start:end], count=1)
    assert len(new) == end - start
    return data[:start] + new + data[end:]


def no_pages() -> bytes:
    """A correct file whose page tree is empty; the xref is computed here."""
    parts = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 0/Kids[]>>"]
    return assembled(parts)


def nested_lie() -> bytes:
    """The root's /Count is right, an inner node's is not."""
    page = b"<</Type/Page/Parent 3 0 R/MediaBox[0 0 200 200]>>"
    return assembled(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 3/Kids[3 0 R 6 0 R]>>",
            b"<</Type/Pages/Parent 2 0 R/Count 1/Kids[4 0 R 5 0 R]>>",
            page,
            page,
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>",
        ]
    )


def looping_tree() -> bytes:
    """An inner node that is its own grandchild."""
    return assembled(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 2/Kids[3 0 R]>>",
            b"<</Type/Pages/Parent 2 0 R/Count 2/Kids[4 0 R 2 0 R]>>",
            b"<</Type/Page/Parent 3 0 R/MediaBox[0 0 200 200]>>",
        ]
    )


def assembled(objects: list[bytes]) -> bytes:
    """A PDF from object bodies 1, 2, …, object 1 being the catalogue."""
    out = io.BytesIO(b"%PDF-1.7\n")
    out.seek(0, io.SEEK_END)
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % offset for offset in offsets))
    out.write(b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))
    return out.getvalue()


def damaged_xref(data: bytes) -> bytes:
    """startxref points beyond the end."""
    return data[: data.rindex(b"startxref")] + b"startxref\n9999999\n%%EOF\n"


def first_part_of_linearized() -> bytes:
    """The head of a linearized file: its own xref and %%EOF early, then pages, and no end (F54)."""
    whole = good(8)
    return whole.replace(b"\n", b"\nstartxref\n0\n%%EOF\n", 1)[: len(whole) * 6 // 10]


def zipped() -> bytes:
    """A ZIP, to be named .pdf (F51)."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("word/document.xml", "<w:document/>")
    return out.getvalue()


def image() -> bytes:
    """A PNG, which the library would open as a one-page document (F51)."""
    pixmap = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 8, 8))
    pixmap.clear_with(255)
    return bytes(pixmap.tobytes("png"))


def unknown_encryption() -> bytes:
    """Encrypted for certificates or a reader plug-in, which the library cannot even ask a password for."""
    handler = b"<</Filter/Adobe.PubSec/SubFilter/adbe.pkcs7.s5/V 4/Length 128>>"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>"
    pages = b"<</Type/Pages/Count 1/Kids[3 0 R]>>"
    data = assembled([b"<</Type/Catalog/Pages 2 0 R>>", pages, page, handler])
    return data.replace(b"/Root 1 0 R>>", b"/Root 1 0 R/Encrypt 4 0 R/ID[<00><00>]>>")
