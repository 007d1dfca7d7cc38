"""The audit as one self-contained page: no script, no font, no link to anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from generated.closures import CLOSURES
from generated.codes import CODE_CLASS, NODE_CODES
from generated.evidence import OBJECT_NAMES, OBJECTS
from generated.failures import FAILURE_CODES
from generated.keep import KEEP_OR_CLOSE
from generated.presence import LANES, MATRIX, NODES, STATE_SHORT
from generated.recovery import MARKS, RECOVERY
from generated.stamp import SPEC_SHA256
from generated.unreachable import KNOWN_UNREACHABLE
from tools.diagram.graph import short_node
from tools.diagram.svg import render_svg

from .gate import Enumeration
from .records import Record, faults_of

TEMPLATE: Final = Path(__file__).with_name("page.html.j2")
_HEAT: Final = {"N": "n", "V": "v", "I": "i", "U": "u", "X": "x"}


def render(enumeration: Enumeration, records: Mapping[str, Record]) -> str:
    """The page's HTML."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE.parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    reached = _reached(records["coverage"])
    return environment.get_template(TEMPLATE.name).render(
        spec=SPEC_SHA256,
        enumeration=enumeration,
        records=list(records.values()),
        faults={name: faults_of(record) for name, record in records.items()},
        matrices=[_matrix(lane, reached.get("cells", {})) for lane in LANES],
        objects=[(name, OBJECT_NAMES[name]) for name in OBJECTS],
        svg=Markup(render_svg()),
        closures=[_closure(variant, reached.get("closures", {})) for variant in CLOSURES],
        codes=_codes(reached.get("codes", {})),
        domains=_domains(),
        without=enumeration.named("stops without a closure").notes,
        failures=_failures(),
        keep=_keep(),
        recovery=_recovery(),
        marks=MARKS,
        rulings=enumeration.named("rulings").details["rulings"],
        unreachable=KNOWN_UNREACHABLE,
        coverage=_coverage(records["coverage"]),
        mutants=_mutants(records["mutants"]),
        atlas=_atlas(records["atlas"]),
    )


def _reached(record: Record) -> Mapping[str, Mapping[str, Any]]:
    tables: Mapping[str, Any] = record.data.get("tables", {})
    return {name: table["reached"] for name, table in tables.items()}


def _matrix(lane: str, reached: Mapping[str, Any]) -> dict[str, Any]:
    rows = []
    for state, cells in MATRIX[lane].items():
        nodes = [node for node in NODES[lane] if node.split("-")[0] == state]
        hits = sum(key.startswith((f"{lane} {node} ",)) for key in reached for node in nodes)
        shown = [
            {"letters": " ".join(cell), "heat": "".join(_HEAT[letter] for letter in cell)} for cell in cells
        ]
        rows.append({"short": STATE_SHORT[state], "state": state, "cells": shown, "reached": hits})
    return {"lane": lane, "rows": rows}


def _closure(variant: str, reached: Mapping[str, Any]) -> dict[str, Any]:
    row = CLOSURES[variant]
    codes = [
        f"{status}: {'codes of the source' if found == 'stage' else ', '.join(found)}"
        for status, found in row["codes"].items()
    ]
    return {
        "variant": variant,
        "lanes": ", ".join(row["lanes"]),
        "sources": _range(row["sources"]),
        "producer": _range(row["producer"]),
        "cells": " ".join("/".join(cell) for cell in row["cells"]),
        "prefix3": " ".join(row["prefix3"]),
        "artifact": row["artifact"] or "none",
        "ids": row["quota_ids"],
        "codes": codes,
        "reached": sorted(key for key in reached if key.startswith(variant)),
    }


def _range(states: tuple[str, ...]) -> str:
    """`P06–P09`: sources always follow one another."""
    first, last = STATE_SHORT[states[0]], STATE_SHORT[states[-1]]
    return first if first == last else f"{first}–{last}"


def _failures() -> list[dict[str, Any]]:
    """One row a node and code: the failures that are called so there."""
    rows: dict[tuple[str, str], list[str]] = {}
    for failure, places in FAILURE_CODES.items():
        for place, code in places.items():
            rows.setdefault((place, code), []).append(failure)
    order = [*NODE_CODES, "run"]
    return [
        {"node": place if place == "run" else short_node(place), "code": code, "words": words}
        for (place, code), words in sorted(rows.items(), key=lambda row: (order.index(row[0][0]), row[0][1]))
    ]


def _codes(reached: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"code": code, "kind": kind, "by": reached.get(code, [])} for code, kind in CODE_CLASS.items()]


def _domains() -> dict[str, Any]:
    codes = [code for code, kind in CODE_CLASS.items() if kind in ("FAIL", "STOP")]
    nodes = list(NODE_CODES)
    rows = [
        {"code": code, "kind": CODE_CLASS[code], "at": [code in NODE_CODES[node] for node in nodes]}
        for code in codes
    ]
    return {"nodes": [short_node(node) for node in nodes], "rows": rows}


def _keep() -> list[dict[str, Any]]:
    rows = []
    for lane, nodes in KEEP_OR_CLOSE.items():
        for node, quotas in nodes.items():
            for quota, codes in quotas.items():
                split: dict[str, list[str]] = {"close": [], "keep": []}
                for code, action in codes.items():
                    split[action].append(code)
                rows.append({"lane": lane, "node": short_node(node), "quota": quota, **split})
    return rows


def _recovery() -> list[dict[str, Any]]:
    return [
        {"lane": lane, "node": short_node(node), "actions": [marks.get(mark, "") for mark in MARKS]}
        for lane, nodes in RECOVERY.items()
        for node, marks in nodes.items()
    ]


def _coverage(record: Record) -> list[dict[str, Any]]:
    tables: Mapping[str, Any] = record.data.get("tables", {})
    return [
        {
            "name": name,
            "reached": len(table["reached"]),
            "of": len(table["reached"]) + len(table["missing"]),
            "excused": table["excused"],
            "missing": table["missing"],
            "rows": sorted(table["reached"].items()),
        }
        for name, table in tables.items()
    ]


def _mutants(record: Record) -> dict[str, Any] | None:
    return dict(record.data) if record.current else None


def _atlas(record: Record) -> dict[str, Any] | None:
    """Counts and squares of the crash atlas: one row a play and step, one column a moment."""
    if not record.current:
        return None
    columns = list(dict.fromkeys(name for row in record.data["rows"] for name in row["squares"]))
    rows = [
        {
            "play": row["play"],
            "step": row["step"],
            **{name: _square(row["squares"].get(name)) for name in columns},
        }
        for row in record.data["rows"]
    ]
    return {"counts": record.data["counts"], "columns": ["play", "step", *columns], "rows": rows}


def _square(square: Mapping[str, Any] | None) -> str:
    return "" if square is None else f"{square['images']} images: {square['outcome']}"
