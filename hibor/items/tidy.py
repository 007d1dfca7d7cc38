"""Temporary files that a killed run left in its library (design 4 "Durable writes").

Rules of this file:

1. A file is written under its name with `.tmp` and gets its name when it is whole: what still has the other
   name was never acknowledged, or is a second name of what was. It is evidence of nothing (ruling R14).
2. Only names that this program writes are removed, and only by who holds the library's lock. What a person
   or another program put into the library stays.
3. One that cannot be removed is logged and changes no outcome; the next recovery tries again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hibor.collect.services import Services
from hibor.durable import DurableError
from hibor.package.layout import Library

_OF_LIBRARY: Final = (
    "keep-awake-*.json.tmp",
    "consent/*.json.tmp",
    "doctor/walked-*.json.tmp",
    "doctor/[0-9]*T[0-9]*-*.tmp",
    "quota/*/hold.json.tmp",
    "quarantine/*.pdf.tmp",
    "runs/.probe-*",
    "reports/.probe-*",
)
_OF_RUN: Final = ("run.json.tmp", "delivery.md.tmp", "task.toml.tmp", "report*.html.tmp", "evidence/*.tmp")
_OF_ITEM: Final = ("*.tmp", "evidence/*.tmp")


def tidy(services: Services) -> None:
    """Remove what ended runs left half-written. The caller holds the library's lock, and no item runs."""
    for path in half_written(services.library):
        try:
            services.durable.remove(path, step="candidate.remove")
        except DurableError as error:
            services.log.warning("a temporary file stays: %s", error)


def half_written(library: Library) -> Iterator[Path]:
    """The temporary files of a library's runs, in a fixed order."""
    yield from _found(library.root, _OF_LIBRARY)
    for run in library.run_folders():
        yield from _found(run.path, _OF_RUN)
        for item in run.item_folders():
            yield from _found(item.path, _OF_ITEM)


def _found(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
