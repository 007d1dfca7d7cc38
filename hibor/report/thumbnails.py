"""First pages as pictures inside a page.

A thumbnail that cannot be made is left out: it is decoration, the facts stand beside it. The file is hashed
before it is shown only by the package; here the picture is of whatever the library holds.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

from hibor.pdf import page1_png

WIDTH_PX: Final = 240
"""Twice the width it is shown with, for sharp screens."""
TIMEOUT_S: Final = 10.0


def thumbnail(path: Path) -> str | None:
    """`data:` address of the first page of a PDF, None when there is none."""
    picture = page1_png(path, WIDTH_PX, timeout_s=TIMEOUT_S) if path.is_file() else None
    return None if picture is None else "data:image/png;base64," + base64.b64encode(picture).decode()
