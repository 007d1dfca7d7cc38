"""A screenshot with boxes and names drawn on it, made in a process of its own.

Rules of this file: the PDF library, which can also draw, is loaded in the child only (`python -m
hibor.pdf.annotate`); the picture comes from a phone and is not trusted: a child that dies or takes too long
means no picture, nothing else.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

import attrs

LIMIT_S: Final = 30.0
_TAG_PX: Final = 26
_GOOD, _BAD = (0.0, 0.55, 0.15), (0.85, 0.1, 0.1)


@attrs.frozen
class Mark:
    """A named box in pixels (left, top, right, bottom). `good`: green, else red; `hide`: painted over."""

    box: tuple[int, int, int, int]
    name: str
    good: bool = True
    hide: bool = False


def annotate_png(png: bytes, marks: Sequence[Mark]) -> bytes | None:
    """The picture with the marks drawn on it; None when it cannot be drawn."""
    head = json.dumps([attrs.asdict(mark) for mark in marks]).encode()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "hibor.pdf.annotate"], input=struct.pack(">I", len(head)) + head + png,
            capture_output=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 and done.stdout.startswith(b"\x89PNG") else None


def _draw(png: bytes, marks: Sequence[dict[str, Any]]) -> bytes:
    import pymupdf

    library: Any = pymupdf  # half typed: as `Any` its calls pass a strict check without a comment at each
    picture = library.Pixmap(png)
    document = library.open()
    page = document.new_page(width=picture.width, height=picture.height)
    page.insert_image(page.rect, stream=png)
    joined = _joined(marks)
    for mark in joined:
        page.draw_rect(_box(library, mark), color=_GOOD if mark["good"] else _BAD, width=4)
    tags: list[Any] = []
    for mark in joined:
        _write_name(library, page, mark, tags)
    for mark in joined:
        if mark["hide"]:
            page.draw_rect(library.Rect(*mark["box"]), color=None, fill=(0, 0, 0))
    return bytes(page.get_pixmap(alpha=False).tobytes("png"))


def _box(library: Any, mark: dict[str, Any]) -> Any:
    left, top, right, bottom = mark["box"]
    return library.Rect(left + 2, top + 2, max(left + 3, right - 2), max(top + 3, bottom - 2))


def _write_name(library: Any, page: Any, mark: dict[str, Any], tags: list[Any]) -> None:
    """The mark's name at its upper right corner: beside a name that is there already, under it where the
    picture's edge leaves no room. `tags` are the names' places so far."""
    name, (_left, top, right, _bottom) = str(mark["name"]), mark["box"]
    if not name or mark["hide"]:
        return
    width, height = library.get_text_length(name, "helv", _TAG_PX) + 14, _TAG_PX + 8
    x, y = max(0, min(right, page.rect.width) - width), max(0, top - _TAG_PX // 3)
    tag = library.Rect(x, y, x + width, y + height)
    while blocking := [one for one in tags if one.intersects(tag)]:
        beside = min(one.x0 for one in blocking) - width - 2
        x, y = (beside, tag.y0) if beside >= 0 else (tag.x0, max(one.y1 for one in blocking) + 2)
        tag = library.Rect(x, y, x + width, y + height)
    tags.append(tag)
    page.draw_rect(tag, color=None, fill=_GOOD if mark["good"] else _BAD)
    page.insert_text((tag.x0 + 7, tag.y0 + _TAG_PX), name, fontname="helv", fontsize=_TAG_PX, color=(1, 1, 1))


def _joined(marks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Marks of one box as one: the names side by side, red where one of them is."""
    found: dict[tuple[int, ...], dict[str, Any]] = {}
    for mark in marks:
        known = found.setdefault((*mark["box"], mark["hide"]), {**mark, "name": ""})
        known["name"] = " / ".join(filter(None, (known["name"], str(mark["name"]))))
        known["good"] = known["good"] and mark["good"]
    return list(found.values())


def main() -> int:
    """Read marks and picture from stdin, write the annotated picture to stdout."""
    data = sys.stdin.buffer.read()
    (length,) = struct.unpack(">I", data[:4])
    sys.stdout.buffer.write(_draw(data[4 + length :], json.loads(data[4 : 4 + length])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
