"""`python -m tools.diagram [--format svg|mermaid|markdown] [--out FILE] [--readme FILE [--check]]`.

Without --out the picture goes to stdout, as UTF-8. `--readme` puts table and picture between the markers of
a README; with `--check` it only says whether they are current. Exit 0: done, current. 1: not current. 64:
usage.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from tools.commandline import Parser

from .readme import is_current, with_block
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
    parser.add_argument("--readme", type=Path, metavar="FILE", help="renew the block of a README")
    parser.add_argument("--check", action="store_true", help="with --readme: say whether it is current")
    options = parser.parse_args(arguments)
    if options.check and options.readme is None:
        parser.error("--check needs --readme")
    if options.readme is not None:
        return _readme(parser, options.readme, check=options.check)
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


def _readme(parser: Parser, path: Path, *, check: bool) -> int:
    try:
        if not check:
            path.write_bytes(with_block(path.read_text(encoding="utf-8")).encode())
            return 0
        current = is_current(path)
    except (OSError, ValueError) as error:
        parser.error(f"{path.name}: {error}")
    print(f"{path.name} is {'current' if current else 'not current: python -m tools.diagram --readme'}")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())
