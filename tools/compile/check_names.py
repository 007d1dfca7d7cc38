"""Names and totality of evidence, presence, closures and codes: every word used is a word of the contract,
every cell, stage and class is there exactly once.
"""

from __future__ import annotations

from .context import Context
from .derive import split_cell

QUOTA_PATTERNS = ("NNN", "RNN", "RRN", "RRR")
NO_CODE_CLASSES = ("FAIL", "STOP")


def evidence(c: Context) -> None:
    """Letters, objects, persistence order, prefixes and moves."""
    table, d = c.spec.evidence, c.derived
    c.unique_rows("evidence", ("letters",), d.letters, "letter")
    c.unique_rows("evidence", ("objects",), d.objects, "object")
    lanes = [row.lane for row in c.spec.presence.lanes]
    c.same("evidence", ("persistence_order",), table.persistence_order, lanes, "lane")
    for lane, ranks in table.persistence_order.items():
        path = ("persistence_order", lane)
        names = [name for rank in ranks for name in rank]
        c.known("evidence", path, names, d.objects, "object")
        c.unique("evidence", path, names, "object")
        if not ranks or ranks[-1] != (d.objects[-1],):
            c.fault("evidence", path, f"{d.objects[-1]} must be the last to become durable")
    c.unique("evidence", ("prefix3",), table.prefix3, "prefix")
    for prefix in table.prefix3:
        if len(prefix) != 3 or prefix.lstrip("V").strip("N"):
            c.fault("evidence", ("prefix3",), f"{prefix} has a later object without the earlier ones")
    for name, moves in table.moves.items():
        if name != "every":
            c.known("evidence", ("moves", name), [name], d.objects, "object")
        for move in moves:
            if len(move) != 2 or move[0] == move[1] or not set(move) <= set(d.letters) - {"X"}:
                c.fault("evidence", ("moves", name), f"{move} is not a move between two letters")


def lanes_and_states(c: Context) -> None:
    """Lanes, sources and states are unique; a state's full name begins with its short one."""
    table = c.spec.presence
    c.unique_rows("presence", ("lanes",), [row.lane for row in table.lanes], "lane")
    c.unique_rows("presence", ("lanes",), [row.short for row in table.lanes], "short name")
    c.unique("presence", ("lanes",), [source for row in table.lanes for source in row.sources], "source")
    c.unique_rows("presence", ("states",), [row.short for row in table.states], "short name")
    c.unique_rows("presence", ("states",), [row.state for row in table.states], "state")
    for index, row in enumerate(table.states):
        if not row.state.startswith(row.short + "_"):
            c.fault("presence", ("states", index), f"{row.state} does not begin with {row.short}_")


def matrix(c: Context) -> None:
    """Two lanes by ten states by eight cells, and a verdict in every cell."""
    d = c.derived
    c.same("presence", ("matrix",), c.spec.presence.matrix, d.lanes, "lane")
    for lane, rows in c.spec.presence.matrix.items():
        c.same("presence", ("matrix", lane), rows, d.open_shorts, "state")
        for short, cells in rows.items():
            path = ("matrix", lane, short)
            if len(cells) != len(d.objects):
                c.fault(
                    "presence",
                    path,
                    f"{len(cells)} cells, one is needed for each of {len(d.objects)} objects",
                )
            for at, cell in enumerate(cells):
                _cell(c, "presence", path, cell, d.objects[at] if at < len(d.objects) else str(at + 1))


def _cell(c: Context, file: str, path: tuple[str | int, ...], cell: str, name: str) -> None:
    letters = cell.split("|")
    if not set(letters) <= set(c.derived.letters):
        c.fault(file, path, f"cell {name} holds no letters of the contract: {cell!r}")
    if len(set(letters)) != len(letters):
        c.fault(file, path, f"cell {name} lists a letter twice: {cell}")
    if "X" in letters and len(letters) > 1:
        c.fault(file, path, f"cell {name} is unreachable and something else at once: {cell}")


def substates(c: Context) -> None:
    """The letters of a split cell are exactly its sub-states; every node has quota states and A's kind."""
    table, d = c.spec.presence, c.derived
    quotas, kinds = c.spec.terminal.quota_ids, c.spec.terminal.artifact_kinds
    c.unique_rows(
        "presence", ("substates",), [(row.state, row.letter) for row in table.substates], "sub-state"
    )
    for index, row in enumerate(table.substates):
        path = ("substates", index)
        c.known("presence", path, [row.state], d.open_shorts, "state")
        c.known("presence", path, [row.object], d.objects, "object")
        c.known("presence", path, [row.letter], d.letters, "letter")
        c.known("presence", path, row.quota, quotas, "quota state")
        c.known("presence", path, [row.artifact] if row.artifact else [], kinds, "artifact kind")
        if row.object != d.split_object[row.state]:
            c.fault("presence", path, f"{row.state} is split by two objects")
    for short, cell_object in d.split_object.items():
        if short not in d.open_shorts or cell_object not in d.objects:
            continue
        at = d.objects.index(cell_object)
        rows = [row for (_, name), row in d.rows.items() if name == short and len(row) > at]
        listed = frozenset(letter for row in rows for letter in row[at]) - {"X"}
        index = next(i for i, row in enumerate(table.substates) if row.state == short)
        for letter in sorted(listed ^ set(d.split_letters[short])):
            text = "is no sub-state" if letter in listed else "is a sub-state that no cell lists"
            c.fault("presence", ("substates", index), f"{short} {cell_object}={letter} {text}")
    _node_facts(c)


def _node_facts(c: Context) -> None:
    table, d = c.spec.presence, c.derived
    quotas, kinds = c.spec.terminal.quota_ids, c.spec.terminal.artifact_kinds
    for file_key, keys in (
        ("quota_of_state", table.quota_of_state),
        ("artifact_of_state", table.artifact_of_state),
    ):
        for short in keys:
            c.known("presence", (file_key, short), [short], d.open_shorts, "state")
            if short in d.split_object:
                c.fault("presence", (file_key, short), f"{short} is split; its sub-states say this")
    for short, states in table.quota_of_state.items():
        c.known("presence", ("quota_of_state", short), states, quotas, "quota state")
    for short, kind in table.artifact_of_state.items():
        c.known("presence", ("artifact_of_state", short), [kind], kinds, "artifact kind")
    if any(len(row) != len(d.objects) for row in d.rows.values()):
        return
    at = d.objects.index("A")
    for lane in d.lanes:
        for node in d.nodes[lane]:
            if not d.node_quota(lane, node):
                c.fault("presence", ("quota_of_state",), f"{node} has no quota states")
            if "V" in d.node_row(lane, node)[at] and d.node_artifact(node) is None:
                c.fault(
                    "presence",
                    ("artifact_of_state",),
                    f"A can be verified at {node} and its kind is not said",
                )


def closing_windows(c: Context) -> None:
    """A closing window speaks of a closure, of a row, and of the closure's own artifact kind."""
    d = c.derived
    for index, row in enumerate(c.spec.presence.closing_windows):
        path = ("closing_windows", index)
        c.known("presence", path, [row.closing], d.closure, "closure variant")
        c.known("presence", path, [row.lane], d.lanes, "lane")
        c.known("presence", path, [row.state], d.open_shorts, "state")
        c.known("presence", path, row.prefix3, c.spec.evidence.prefix3, "prefix")
        if len(row.cells) != 4:
            c.fault("presence", path, "cells are those of S, F, Q and A")
        for at, cell in enumerate(row.cells[:4]):
            _cell(c, "presence", path, cell, d.objects[at])
        variant = d.closure.get(row.closing)
        if variant is not None and row.artifact != variant.artifact:
            c.fault(
                "presence", path, f"{row.closing} closes with artifact {variant.artifact}, not {row.artifact}"
            )


def closures(c: Context) -> None:
    """Every closure variant by itself."""
    d, terminal = c.derived, c.spec.terminal
    c.unique_rows("closures", ("closures",), [row.variant for row in c.spec.closures.closures], "variant")
    source_words = {row.lane: row.sources for row in c.spec.presence.lanes}
    for index, row in enumerate(c.spec.closures.closures):
        path = ("closures", index)
        c.known("closures", (*path, "lanes"), row.lanes, d.lanes, "lane")
        c.known("closures", (*path, "sources"), row.sources, d.open_shorts, "state")
        c.known("closures", (*path, "producer"), row.producer, row.sources, "source of this variant")
        c.known("closures", (*path, "prefix3"), row.prefix3, c.spec.evidence.prefix3, "prefix")
        c.known("closures", (*path, "quota_ids"), [row.quota_ids], QUOTA_PATTERNS, "quota id pattern")
        c.known("closures", (*path, "statuses"), row.statuses, terminal.statuses, "status")
        c.known("closures", (*path, "exempt"), row.exempt, d.objects[:4], "object")
        for key in ("lanes", "sources", "producer", "prefix3", "statuses"):
            c.unique("closures", (*path, key), getattr(row, key), key)
            if not getattr(row, key):
                c.fault("closures", (*path, key), "names nothing, so the variant accepts nothing")
        if c.same("closures", (*path, "cells"), row.cells, d.objects[:4], "object"):
            for name, cell in row.cells.items():
                _cell(c, "closures", (*path, "cells"), cell, name)
            if ("V" in split_cell(row.cells["A"])) != (row.artifact is not None):
                c.fault(
                    "closures", (*path, "cells"), "the artifact kind is said exactly where A can be verified"
                )
        if row.artifact is not None:
            c.known("closures", (*path, "artifact"), [row.artifact], terminal.artifact_kinds, "artifact kind")
        allowed = [source for lane in row.lanes for source in source_words.get(lane, ())]
        c.known("closures", (*path, "only_sources"), row.only_sources, allowed, "source of its lanes")
        _closure_codes(c, index)


def _closure_codes(c: Context, index: int) -> None:
    row, d = c.spec.closures.closures[index], c.derived
    path = ("closures", index, "codes")
    c.same("closures", path, row.codes, row.statuses, "status")
    for status, codes in row.codes.items():
        classes = [name for name, word in c.spec.codes.status_of_class.items() if word == status]
        if codes == "stage":
            if not set(classes) & set(NO_CODE_CLASSES):
                c.fault("closures", (*path, status), f"no stage has codes of status {status}")
        elif not codes:
            c.fault("closures", (*path, status), "names no code, so the status cannot be used")
        elif isinstance(codes, str):
            c.fault("closures", (*path, status), f"expected a list of codes or the word stage, found {codes}")
        elif c.known("closures", (*path, status), codes, d.code_class, "code"):
            for code in codes:
                if d.code_class[code] not in classes:
                    text = f"{code} is of class {d.code_class[code]}, which is never {status}"
                    c.fault("closures", (*path, status), text)


def code_classes(c: Context) -> None:
    """A code belongs to exactly one class; a class has exactly one public status."""
    table = c.spec.codes
    first: dict[str, str] = {}
    for name, codes in table.classes.items():
        c.unique("codes", ("classes", name), codes, "code")
        for at, code in enumerate(codes):
            if first.get(code, name) != name:
                c.fault("codes", ("classes", name, at), f"{code} is in class {first[code]} already")
            first.setdefault(code, name)
    c.same("codes", ("status_of_class",), table.status_of_class, table.classes, "class")
    c.known("codes", ("status_of_class",), table.status_of_class.values(), c.spec.terminal.statuses, "status")
    c.unique("codes", ("status_of_class",), table.status_of_class.values(), "status")


def code_domains(c: Context) -> None:
    """Stage sets, sub-states, doubt codes and ties use codes of a class; no code is without a stage."""
    table, d = c.spec.codes, c.derived
    stops = {code for code, name in d.code_class.items() if name in NO_CODE_CLASSES}
    c.known("codes", ("common",), table.common, stops, "FAIL or STOP code")
    c.same("codes", ("stages",), table.stages, d.open_shorts, "state")
    for short, codes in table.stages.items():
        c.unique("codes", ("stages", short), codes, "code")
        for at, code in enumerate(codes):
            c.known("codes", ("stages", short, at), [code], stops, "FAIL or STOP code")
    used = {code for codes in table.stages.values() for code in codes} | set(table.common)
    for name in NO_CODE_CLASSES:
        for at, code in enumerate(table.classes.get(name, ())):
            if code not in used:
                c.fault("codes", ("classes", name, at), f"no stage has {code}")
    c.same("codes", ("doubt_codes",), table.doubt_codes, d.open_shorts, "state")
    for short, code in table.doubt_codes.items():
        c.known(
            "codes",
            ("doubt_codes", short),
            [code],
            {*table.common, *table.stages.get(short, ())},
            "code of the stage",
        )
    c.known("codes", ("ties",), table.ties, stops, "FAIL or STOP code")
    c.unique("codes", ("ties",), table.ties, "code")
    c.unique_rows("codes", ("substates",), [row.node for row in table.substates], "sub-state")
    for index in range(len(table.substates)):
        _narrowing(c, index)


def _narrowing(c: Context, index: int) -> None:
    row, table, path = c.spec.codes.substates[index], c.spec.codes, ("substates", index)
    splits = {f"{sub.state}-{sub.letter}": sub.quota for sub in c.spec.presence.substates}
    if not c.known("codes", path, [row.node], splits, "sub-state"):
        return
    stage = {*table.common, *table.stages.get(row.node.partition("-")[0], ())}
    if (row.only is None) == (row.of_class is None):
        c.fault("codes", path, "exactly one of `only` and `of_class` says what is left")
    if row.of_class is not None:
        c.known("codes", path, [row.of_class], NO_CODE_CLASSES, "class of stops")
    listed = row.only or ()
    c.known("codes", path, listed, c.derived.code_class if row.within_stage else stage, "code of the stage")
    c.known("codes", path, row.by_quota, splits[row.node], "quota state of the sub-state")
    for codes in row.by_quota.values():
        c.known("codes", path, codes, stage, "code of the stage")
    if not c.derived.node_codes(row.node):
        c.fault("codes", path, "no code is left to stop with")
