"""Console streams on every platform: UTF-8 on stdout, and on stderr nothing a narrow code page could break.
"""

from __future__ import annotations

import io
import sys


def use_utf8() -> None:
    """Make stdout UTF-8 with plain newlines; let stderr replace what its console cannot show."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors="replace")
