"""`python -m tools.diff OLD NEW [--runs LIBRARY] [--json]`.

OLD and NEW are folders (with the spec files or with a `spec` folder in them) or revisions of this
repository. Exit 0: same meaning (wording may differ). 1: something differs. 64: usage, or a spec that does
not compile; where its tables can be read all the same, the differences are told before that.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import attrs

from tools.commandline import EXIT_USAGE, Parser
from tools.compile.check import Result

from .compare import Difference, compare
from .recorded import Changed, read_library, replay
from .sources import SpecNotFound, load


def _load(parser: Parser, word: str, scratch: Path) -> Result:
    try:
        return load(word, scratch)
    except SpecNotFound:
        parser.error(f"neither a folder with a spec nor a revision that has one: {word}")


def _print_text(found: list[Difference], changed: list[Changed], unread: list[str]) -> None:
    area = ""
    for difference in [row for row in found if not row.wording]:
        if difference.area != area:
            area = difference.area
            print(f"{area}:")
        print(f"  {difference.text}")
    wording = [row for row in found if row.wording]
    if wording:
        print("wording only:")
        for text in _folded(wording):
            print(f"  {text}")
    if not found:
        print("The two contracts are the same.")
    for row in changed:
        trace = " → ".join(row.trace) or "no path leads there"
        print(f"{row.path}: item {row.item_id} closed as {row.was}, would now be: {row.now}.")
        print(f"  Shortest trace: {trace}")
    for text in unread:
        print(f"not read: {text}", file=sys.stderr)


def _folded(wording: list[Difference]) -> list[str]:
    """One line for all places whose words changed alike."""
    alike: dict[tuple[str, str], list[str]] = {}
    for row in wording:
        place, _, change = row.text.partition(" was ")
        alike.setdefault((row.area, change), []).append(place)
    return [
        f"{area}: {places[0]}{f' and {len(places) - 1} more' if places[1:] else ''}"
        + (f" was {change}" if change else "")
        for (area, change), places in alike.items()
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="python -m tools.diff", description="Compare two contracts by meaning.")
    parser.add_argument("old", metavar="OLD", help="folder or git revision")
    parser.add_argument("new", metavar="NEW", help="folder or git revision")
    parser.add_argument(
        "--runs", type=Path, metavar="LIBRARY", help="library whose recorded items are replayed"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args(arguments)
    if options.runs is not None and not options.runs.is_dir():
        parser.error(f"no such folder: {options.runs}")
    with tempfile.TemporaryDirectory() as scratch:
        old = _load(parser, options.old, Path(scratch) / "old")
        new = _load(parser, options.new, Path(scratch) / "new")
    for word, result in ((options.old, old), (options.new, new)):
        for fault in result.faults:
            print(f"{word}: {fault}", file=sys.stderr)
    if not (old.named and new.named):
        return EXIT_USAGE  # some file cannot even be read as tables: there is nothing to compare
    if old.faults or new.faults:
        print("This does not compile; what it would mean if it did:", file=sys.stderr)
    found = compare(old.derived, new.derived)
    items, unread = read_library(options.runs) if options.runs is not None else ([], [])
    changed = replay(old.derived, new.derived, items)
    if options.json:
        document = {
            "same": all(row.wording for row in found),
            "differences": [attrs.asdict(row) for row in found],
            "items_read": len(items),
            "items_changed": [attrs.asdict(row) for row in changed],
            "items_unread": unread,
        }
        print(json.dumps(document, ensure_ascii=False, indent=2))
    else:
        _print_text(found, changed, unread)
    if old.faults or new.faults:
        return EXIT_USAGE
    return 0 if all(row.wording for row in found) and not changed else 1


if __name__ == "__main__":
    sys.exit(main())
