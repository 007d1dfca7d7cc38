"""What every check is given: the spec, where its words stand, and the list of faults it adds to."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs

from .derive import Derived
from .model import Spec, label
from .read import Document, Fault


@attrs.frozen
class Context:
    """Documents and spec of one run; `faults` grows."""

    documents: dict[str, Document]
    spec: Spec
    derived: Derived
    faults: list[Fault]

    def fault(self, file: str, path: tuple[str | int, ...], text: str) -> None:
        """Records a fault at a place of a spec file (`file` without folder and ending)."""
        document = self.documents[file]
        self.faults.append(Fault(document.file, document.line(*path), label(document, path), text))

    def clean(self, files: Iterable[str]) -> bool:
        """True when none of the files has a fault so far."""
        names = {self.documents[name].file for name in files}
        return not any(fault.file in names for fault in self.faults)

    def known(
        self,
        file: str,
        path: tuple[str | int, ...],
        words: Iterable[str],
        allowed: Collection[str],
        what: str,
    ) -> bool:
        """Every word must be one of `allowed`; names what the word should have been."""
        good = True
        for word in words:
            if word not in allowed:
                self.fault(file, path, f"unknown {what}: {word}")
                good = False
        return good

    def unique(self, file: str, path: tuple[str | int, ...], words: Iterable[object], what: str) -> None:
        """No word twice in one list."""
        seen: set[object] = set()
        for word in words:
            if word in seen:
                self.fault(file, path, f"{what} listed twice: {word}")
            seen.add(word)

    def unique_rows(self, file: str, path: tuple[str | int, ...], words: Iterable[object], what: str) -> None:
        """No two rows of a list with the same word; the later row is named."""
        seen: dict[object, int] = {}
        for index, word in enumerate(words):
            if word in seen:
                first = self.documents[file].line(*path, seen[word])
                self.fault(file, (*path, index), f"{what} is already on line {first}: {word}")
            seen.setdefault(word, index)

    def same(
        self, file: str, path: tuple[str | int, ...], found: Iterable[str], wanted: Iterable[str], what: str
    ) -> bool:
        """Exactly the wanted words: what is missing and what is too much is named, each on its own line."""
        there, must = list(found), list(wanted)
        for word in there:
            if word not in must:
                self.fault(file, (*path, word), f"unknown {what}: {word}")
        for word in must:
            if word not in there:
                self.fault(file, path, f"{what} has no row: {word}")
        return set(there) == set(must)
