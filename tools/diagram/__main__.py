"""`python -m tools.diagram [--format svg|mermaid|markdown] [--out FILE]`.

Without --out the picture goes to stdout, as UTF-8. Exit 0: done. 64: usage.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tools.commandline import Parser

from .svg import render_svg
from .text import render_markdown, render_mermaid

FORMATS: dict[str, Callable[[], str]] = {
    "svg": render_svg,
    "mermaid": render_mermaid,
    "markdown": render_markdown,
}


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(
        prog="python -m tools.diagram", description="Draw the item machine or print the matrices."
    )
    parser.add_argument("--format", choices=tuple(FORMATS), default="svg")
    parser.add_argument("--out", type=Path, metavar="FILE", help="file to write; default: stdout")
    options = parser.parse_args(arguments)
    content = FORMATS[options.format]().encode("utf-8")
    if options.out is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return 0
    try:
        options.out.write_bytes(content)
    except OSError as error:
        parser.error(f"cannot write {options.out}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
