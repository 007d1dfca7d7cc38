"""Reads one spec file into plain Python values and remembers the line of every value.

The YAML is composed by ruamel's round-trip loader and walked node by node, so that all duplicate keys of a
file are found and not only the first one. Scalars are strings, integers, booleans or null; anything
cleverer (floats, dates, anchors, tags) is a fault: the contract has no use for it and a reader would have
to guess. Line endings are normalised before hashing, so a checkout with CRLF compiles to the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs

try:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError
    from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
except ModuleNotFoundError as missing:
    raise SystemExit(f"the spec is read with {missing.name}: pip install -e '.[spec]'") from missing

KeyPath = tuple[str | int, ...]


@attrs.frozen(order=True)
class Fault:
    """One thing wrong with the spec, at a place a person can open."""

    file: str
    line: int
    where: str
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}"
        return f"{place} {self.where}: {self.text}" if self.where else f"{place}: {self.text}"


@attrs.frozen
class Document:
    """One spec file: its plain data and where each value stands."""

    file: str
    sha256: str
    data: Any
    lines: dict[KeyPath, int]

    def line(self, *path: str | int) -> int:
        """Line (from 1) of the value at `path`, or of its nearest parent that has one."""
        for size in range(len(path), -1, -1):
            found = self.lines.get(path[:size])
            if found is not None:
                return found
        return 1


class _Walker:
    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self.faults: list[Fault] = []

    def fault(self, node: Node, path: KeyPath, text: str) -> None:
        where = ".".join(str(part) for part in path)
        self.faults.append(Fault(self.file, node.start_mark.line + 1, where, text))

    def value(self, node: Node, path: KeyPath) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if getattr(node, "anchor", None):
            self.fault(node, path, "anchors and aliases are not used in the contract")
        if isinstance(node, MappingNode):
            return self.mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(child, (*path, index)) for index, child in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return self.scalar(node, path)

    def mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        first_line: dict[str, int] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, ScalarNode):
                self.fault(key_node, path, "a key must be a plain word")
                continue
            key = str(key_node.value)
            if key in plain:
                self.fault(key_node, (*path, key), f"duplicate key, first on line {first_line[key]}")
                continue
            first_line[key] = key_node.start_mark.line + 1
            self.lines[(*path, key)] = first_line[key]
            plain[key] = self.value(child, (*path, key))
        return plain

    def scalar(self, node: ScalarNode, path: KeyPath) -> Any:
        kind = str(node.tag).rsplit(":", 1)[-1]
        text = str(node.value)
        if kind == "str":
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind == "int":
            try:
                return int(text, 10)
            except ValueError:
                pass
        self.fault(node, path, f"{text!r} is neither a word, a whole number, true, false nor null; quote it")
        return text


def parse(text: str, file: str) -> tuple[Document, list[Fault]]:
    """Parses the text of one spec file; the document is empty when the YAML itself is broken."""
    document, faults = _parsed(text, file)
    return document, list(faults)


@lru_cache(maxsize=64)
def _parsed(text: str, file: str) -> tuple[Document, Sequence[Fault]]:
    """Composing YAML is nearly all of a compilation's time; a text that was read before stays what it was."""
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    walker = _Walker(file)
    try:
        node = YAML(typ="rt").compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        return Document(file, digest, None, {}), [Fault(file, line, "", f"not YAML: {error.problem}")]
    except YAMLError as error:
        return Document(file, digest, None, {}), [Fault(file, 1, "", f"not YAML: {error}")]
    if node is None:
        return Document(file, digest, None, {}), [Fault(file, 1, "", "the file is empty")]
    data = walker.value(node, ())
    return Document(file, digest, data, walker.lines), walker.faults


def read_text(path: Path) -> str:
    """Text of one spec file, UTF-8, with CRLF turned into LF."""
    return path.read_bytes().decode("utf-8").replace("\r\n", "\n")


def read_folder(folder: Path, names: tuple[str, ...]) -> tuple[dict[str, Document], list[Fault]]:
    """Reads `<name>.yaml` for every name; a missing file and a file nobody asked for are faults."""
    documents: dict[str, Document] = {}
    faults: list[Fault] = []
    for name in sorted(names):
        label = f"{folder.resolve().name}/{name}.yaml"
        try:
            text = read_text(folder / f"{name}.yaml")
        except FileNotFoundError:
            faults.append(Fault(label, 1, "", "this spec file is missing"))
            continue
        except UnicodeDecodeError as error:
            faults.append(Fault(label, 1, "", f"not UTF-8 at byte {error.start}"))
            continue
        documents[name], found = parse(text, label)
        faults.extend(found)
    for extra in sorted(folder.glob("*.y*ml")):
        if extra.suffix != ".yaml" or extra.stem not in names:
            faults.append(
                Fault(
                    f"{folder.resolve().name}/{extra.name}", 1, "", "no table of the contract has this name"
                )
            )
    return documents, faults
