"""`python -m tools.faults [NAME…] [--json] [--html FILE] [--jobs N] [--keep DIR]`: the fault table.

`python -m tools.faults pdfs …` judges the PDFs of public packages (`pdfs.py`).

Exit 0: every scenario is as expected. 1: one is not. 64: usage.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from hibor.sim.scenario import scenario_names
from tools.commandline import Parser
from tools.faults import pdfs
from tools.faults.expect import TIME_SCALE, ExpectationError, Expected, load_expected
from tools.faults.judge import judge
from tools.faults.play import play
from tools.faults.show import Row, as_html, as_text, as_values


def main(arguments: list[str] | None = None) -> int:
    """Play scenarios and print the table; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["pdfs"]:
        return pdfs.main(given[1:])
    parser = Parser(prog="python -m tools.faults", description="Play fault scenarios and print one table.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; default: all")
    parser.add_argument("--json", action="store_true", help="the table as JSON on stdout")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the table as one HTML page too")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="scenarios at a time; default 1")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the libraries below DIR, a new folder")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in scenario_names()]
    if unknown:
        parser.error(f"no such scenario: {', '.join(unknown)}")
    if options.jobs < 1:
        parser.error("--jobs must be positive")
    if options.keep is not None and options.keep.exists() and any(options.keep.iterdir()):
        parser.error(f"{options.keep} is not empty")
    try:
        expected = load_expected()
    except (ExpectationError, ValueError) as error:
        parser.error(f"expected.toml: {error}")
    names = options.names or scenario_names()
    with _folder(options.keep) as folder:
        rows = table(names, folder, expected, jobs=options.jobs)
    if options.html is not None:
        options.html.write_text(as_html(rows), encoding="utf-8")
    text = json.dumps(as_values(rows), ensure_ascii=False, indent=2) + "\n" if options.json else as_text(rows)
    sys.stdout.buffer.write(text.encode("utf-8"))
    sys.stdout.flush()
    return 0 if all(row.passed for row in rows) else 1


def table(names: Sequence[str], folder: Path, expected: dict[str, Expected], *, jobs: int) -> list[Row]:
    """Play `names`, `jobs` at a time, and judge each; rows in the order of `names`."""

    def one(name: str) -> Row:
        said = expected.get(name)
        played = play(name, folder, TIME_SCALE if said is None else said.scale)
        row = Row(played, said, tuple(judge(played, said)))
        sys.stderr.write(f"{name}: {'ok' if row.passed else 'not as expected'}\n")
        return row

    with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="scenario") as pool:
        return list(pool.map(one, names))


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="hibor-faults-") as folder:
        yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
