"""Names and totality of the other spec files: terminal, steps, edges, failures, keep, recovery, ledger,
governance, pdf, rulings and unreachable, each by itself.
"""

from __future__ import annotations

import re
from typing import Any

from .check_names import QUOTA_PATTERNS
from .context import Context

STEP_KINDS = ("append", "write_once", "publish", "sink", "remove", "folder", "note")
STEP_OWNERS = ("item", "ledger", "library", "run")
ACTIONS = ("keep", "close")
RUN = "run"
WORD = re.compile(r"[a-z][a-z0-9_]*")
CAPITALS = re.compile(r"[A-Z][A-Z0-9_]*")
NO_MARK = "NONE"
UNREACHABLE_KINDS = {"closure_source": "sources", "closure_prefix": "prefixes", "closure_node": "nodes"}
VERDICTS = ("LEGAL", "HALT", "UNCERTAIN", "CONTRACT_ERROR")
# Kind of a ruling's witness → how many values it has.
WITNESS_SIZES = {"verdict": 4, "closure": 6, "codes": 5, "keep": 5, "ids": 3, "move": 3}


def _spelt(c: Context, file: str, path: tuple[str | int, ...], form: re.Pattern[str], *words: str) -> None:
    """Words that code compares with must look like such words, so that a slip of the pen is seen."""
    for word in words:
        if not form.fullmatch(word):
            kind = "lower case with underscores" if form is WORD else "capitals with underscores"
            c.fault(file, path, f"{word!r} is not written in {kind}")


def terminal(c: Context) -> None:
    """Keys and words are unique; every quota state has id patterns and a trigger pair."""
    table, d = c.spec.terminal, c.derived
    for key in ("keys", "statuses", "artifact_kinds"):
        c.unique("terminal", (key,), getattr(table, key), key)
        _spelt(c, "terminal", (key,), WORD if key == "keys" else CAPITALS, *getattr(table, key))
    for quota, patterns in table.quota_ids.items():
        c.known("terminal", ("quota_ids", quota), patterns, d.letters, "letter")
        c.known("terminal", ("quota_ids", quota), patterns.values(), QUOTA_PATTERNS, "quota id pattern")
    by_state = {quota for quota in table.quota_ids if quota not in table.trigger_pairs}
    c.known("terminal", ("trigger_pairs",), table.trigger_pairs, table.quota_ids, "quota state")
    c.known("terminal", ("trigger_pairs_reserved",), table.trigger_pairs_reserved, d.open_shorts, "state")
    needed = {row.state for row in c.spec.presence.substates if by_state & set(row.quota)} | {
        short for short, quota in c.spec.presence.quota_of_state.items() if by_state & set(quota)
    }
    c.same("terminal", ("trigger_pairs_reserved",), table.trigger_pairs_reserved, sorted(needed), "state")
    if len(by_state) > 1:
        c.fault("terminal", ("trigger_pairs",), f"quota states without a pair: {', '.join(sorted(by_state))}")
    c.same("terminal", ("notes", "SUCCESS"), table.notes.SUCCESS, d.lanes, "lane")
    for word in ("STOPPED", "FAILED"):
        if "{code}" not in getattr(table.notes, word):
            c.fault("terminal", ("notes", word), "the note must hold {code}")


def steps(c: Context) -> None:
    """Step names are unique; moves and marks use known words."""
    table, d = c.spec.steps, c.derived
    c.unique_rows("steps", ("steps",), [row.step for row in table.steps], "step")
    c.unique("steps", ("journal_events",), table.journal_events, "journal event")
    for index, row in enumerate(table.steps):
        path = ("steps", index)
        if row.step.count(".") != 1:
            c.fault("steps", path, f"a step is named <effect>.<step>: {row.step}")
        c.known("steps", path, [row.kind], STEP_KINDS, "kind")
        c.known("steps", path, [row.of], STEP_OWNERS, "owner")
        c.known("steps", path, row.moves, d.objects, "object")
        c.known("steps", path, row.moves.values(), set(d.letters) - {"X"}, "letter")
        if row.marks is not None:
            c.known("steps", path, [row.marks], table.journal_events, "journal event")
            if (row.kind, row.of) != ("append", "item"):
                c.fault("steps", path, "only an append to the item's journal leaves a mark")
    left = {row.marks for row in table.steps if row.marks is not None}
    c.known("steps", ("journal_events",), table.journal_events, left, "mark of a step")


def edges(c: Context) -> None:
    """Work for every node, edges between known nodes, one edge for an event, registered steps."""
    table, d = c.spec.edges, c.derived
    step_names = {row.step for row in c.spec.steps.steps}
    c.same("edges", ("work",), table.work, d.lanes, "lane")
    for lane, nodes in table.work.items():
        c.same("edges", ("work", lane), nodes, d.nodes.get(lane, ()), "node")
        for node, work in nodes.items():
            c.unique("edges", ("work", lane, node), work.events, "event")
            _spelt(c, "edges", ("work", lane, node), WORD, work.live, work.recovery, *work.events)
    c.unique_rows("edges", ("edges",), [(row.lane, row.source, row.event) for row in table.edges], "edge")
    for index, row in enumerate(table.edges):
        path = ("edges", index)
        if not c.known("edges", path, [row.lane], d.lanes, "lane"):
            continue
        c.known("edges", path, [row.source], d.nodes[row.lane], "source node")
        c.known("edges", path, [row.target], d.nodes[row.lane], "target node")
        c.known("edges", path, row.steps, step_names, "step")
        c.unique("edges", path, row.steps, "step")
        c.known("edges", path, [row.guard] if row.guard else [], table.guards, "guard")
        if not row.steps:
            c.fault("edges", path, "an edge without a durable step cannot be recovered")
    for guard in table.guards:
        if guard not in {row.guard for row in table.edges}:
            c.fault("edges", ("guards", guard), "no edge has this guard")
    c.known("edges", ("closing", "steps"), table.closing.steps, step_names, "step")
    for variant, exception in table.closing.exceptions.items():
        path_ = ("closing", "exceptions", variant)
        c.known("edges", path_, [variant], d.closure, "closure variant")
        c.known("edges", path_, exception.steps, step_names, "step")


def failures(c: Context) -> None:
    """Failure words are unique; places are nodes, states, groups or `run`; codes are codes."""
    table, d = c.spec.failures, c.derived
    places = {*d.open_shorts, *d.all_nodes, RUN}
    for group, members in table.groups.items():
        c.known("failures", ("groups", group), members, {*d.open_shorts, RUN}, "state")
        if group in places:
            c.fault("failures", ("groups", group), f"a place has this name already: {group}")
    c.unique_rows("failures", ("failures",), [row.failure for row in table.failures], "failure")
    for index, row in enumerate(table.failures):
        path = ("failures", index)
        _spelt(c, "failures", path, WORD, row.failure)
        c.known("failures", path, row.at, {*places, *table.groups}, "node, state or group")
        c.known("failures", path, row.at.values(), d.code_class, "code")
        for place in row.at:
            if place in d.open_shorts and all(
                f"{place}-{letter}" in row.at for letter in d.split_letters.get(place, "-")
            ):
                c.fault("failures", path, f"every node of {place} is named, so {place} says nothing")


def keep(c: Context) -> None:
    """Rows speak of known nodes, quota states the nodes can have, and codes."""
    d = c.derived
    for index, row in enumerate(c.spec.keep.keep_or_close):
        path = ("keep_or_close", index)
        if not c.known("keep", path, [row.lane], d.lanes, "lane"):
            continue
        good = c.known("keep", path, row.nodes, d.nodes[row.lane], "node")
        c.known("keep", path, [row.action], ACTIONS, "action")
        if isinstance(row.codes, str):
            if row.codes != "all":
                c.fault("keep", path, f"expected a list of codes or the word all, found {row.codes}")
        else:
            c.known("keep", path, row.codes, d.code_class, "code")
        if good:
            quotas = {quota for node in row.nodes for quota in d.node_quota(row.lane, node)}
            c.known("keep", path, row.quota, quotas, "quota state of its nodes")


def recovery(c: Context) -> None:
    """Marks are journal events; rows speak of known nodes, marks and actions."""
    table, d = c.spec.recovery, c.derived
    c.known("recovery", ("marks",), table.marks, {NO_MARK, *c.spec.steps.journal_events}, "journal event")
    c.unique("recovery", ("marks",), table.marks, "mark")
    c.unique("recovery", ("actions",), table.actions, "action")
    for index, row in enumerate(table.recovery):
        path = ("recovery", index)
        if c.known("recovery", path, [row.lane], d.lanes, "lane"):
            c.known("recovery", path, row.nodes, d.nodes[row.lane], "node")
        c.known("recovery", path, row.marks, table.marks, "mark")
        c.known("recovery", path, [row.action], table.actions, "action")
    for action in table.actions:
        if action not in {row.action for row in table.recovery}:
            c.fault("recovery", ("actions",), f"no row has the action {action}")


def ledger(c: Context) -> None:
    """The family automaton is closed, reachable, and agrees with the event types."""
    table, d = c.spec.ledger, c.derived
    c.known("ledger", ("automaton",), [""], table.automaton, "start of the automaton")
    events: set[str] = set()
    for state, outgoing in table.automaton.items():
        c.known("ledger", ("automaton", state), outgoing.values(), table.automaton, "automaton state")
        c.known("ledger", ("automaton", state), outgoing, table.event_types, "event type")
        events |= set(outgoing)
    c.known("ledger", ("event_types",), table.event_types, events, "event of the automaton")
    reached, todo = {""}, [""]
    while todo:
        for target in table.automaton.get(todo.pop(), {}).values():
            if target not in reached:
                reached.add(target)
                todo.append(target)
    for state in table.automaton:
        if state not in reached:
            c.fault("ledger", ("automaton", state), "no event leads to this state")
    for word, row in table.event_types.items():
        path = ("event_types", word)
        c.known(
            "ledger",
            path,
            [row.quota_state] if row.quota_state else [],
            c.spec.terminal.quota_ids,
            "quota state",
        )
        c.known("ledger", path, [row.object] if row.object else [], d.objects, "object")
        c.known("ledger", path, row.artifact, c.spec.terminal.artifact_kinds, "artifact kind")
    _ledger_evidence(c)
    c.known("ledger", ("counted_as_spent",), table.counted_as_spent, c.spec.terminal.quota_ids, "quota state")
    for word in table.outside_families:
        if word in table.event_types:
            c.fault("ledger", ("outside_families",), f"{word} is an event of a family")


def _ledger_evidence(c: Context) -> None:
    """The automaton, the event types and the id patterns of the public item tell one story."""
    table, patterns = c.spec.ledger, c.spec.terminal.quota_ids
    for outgoing in table.automaton.values():
        for word, target in outgoing.items():
            event = table.event_types.get(word)
            if event is None or target not in patterns:
                continue
            path = ("event_types", word)
            if event.quota_state != target:
                c.fault("ledger", path, f"leads to {target} and shows {event.quota_state}")
            is_terminal = any(pattern[1:2] == "R" for pattern in patterns[target].values())
            if (event.object == "Q") != is_terminal:
                c.fault("ledger", path, f"{target} is {'' if is_terminal else 'no '}quota terminal: object Q")
    for word, row in table.event_types.items():
        if (row.object == "A") != bool(row.artifact):
            c.fault(
                "ledger",
                ("event_types", word),
                "an event for A names the kinds it may have, and no other does",
            )
    for quota, letters in patterns.items():
        followed = {
            table.event_types[word].object
            for word in table.automaton.get(quota, ())
            if word in table.event_types
        }
        if ("V" in letters) != ("A" in followed):
            c.fault(
                "ledger", ("automaton", quota), "A can be verified exactly where an event for A may follow"
            )


def governance(c: Context) -> None:
    """Statuses, conditions and exit codes are unique; the breaker knows its codes."""
    table, d = c.spec.governance, c.derived
    for key in ("status", "exit", "when"):
        c.unique_rows("governance", ("run_statuses",), [getattr(row, key) for row in table.run_statuses], key)
    for index, row in enumerate(table.run_statuses):
        _spelt(c, "governance", ("run_statuses", index), CAPITALS, row.status)
        _spelt(c, "governance", ("run_statuses", index), WORD, row.when)
        if not 0 <= row.exit <= 255:
            c.fault("governance", ("run_statuses", index), f"an exit code is 0 to 255: {row.exit}")
    c.unique("governance", ("stop_words",), table.stop_words, "word")
    for word in table.stop_words:
        if word in d.code_class:
            c.fault("governance", ("stop_words",), f"{word} is one of the codes")
    exits = {row.exit for row in table.run_statuses}
    for error, exit_code in table.error_exits.items():
        if exit_code not in exits:
            c.fault("governance", ("error_exits", error), f"no run status has exit code {exit_code}")
    c.unique("governance", ("command_exits",), table.command_exits.values(), "exit code")
    c.unique("governance", ("error_exits",), table.error_exits.values(), "exit code")
    c.unique_rows("governance", ("breaker",), [breaker.code for breaker in table.breaker], "code")
    for index, breaker in enumerate(table.breaker):
        c.known("governance", ("breaker", index), [breaker.code], d.code_class, "code")
        if breaker.at < 1:
            c.fault("governance", ("breaker", index), "a breaker opens after at least one")
    for name, number in table.guard_rails.items():
        if number < 1:
            c.fault("governance", ("guard_rails", name), f"a guard rail is a positive number: {number}")


def pdf(c: Context) -> None:
    """Findings are unique, and one stage has all their FAIL codes."""
    rows, d = c.spec.pdf.findings, c.derived
    c.unique_rows("pdf", ("findings",), [row.finding for row in rows], "finding")
    fails: set[str] = set()
    for index, row in enumerate(rows):
        _spelt(c, "pdf", ("findings", index), WORD, row.finding)
        if c.known("pdf", ("findings", index), [row.code], d.code_class, "code"):
            if d.code_class[row.code] == "FAIL":
                fails.add(row.code)
            elif d.code_class[row.code] != "NONE":
                c.fault("pdf", ("findings", index), f"{row.code} is no verdict on a file")
    if not any(fails <= set(codes) for codes in c.spec.codes.stages.values()):
        c.fault("pdf", ("findings",), "no stage has all the codes of these findings")


def rulings(c: Context) -> None:
    """Ids are unique; every ruling has a witness of a known form that uses known words."""
    c.unique_rows("rulings", ("rulings",), [row.id for row in c.spec.rulings.rulings], "ruling")
    for index, row in enumerate(c.spec.rulings.rulings):
        path = ("rulings", index)
        if not row.witness:
            c.fault("rulings", path, "a ruling without a witness cannot be shown")
        for at, witness in enumerate(row.witness):
            for kind, value in witness.items():
                _witness(c, (*path, "witness", at), kind, value)


def _witness(c: Context, path: tuple[str | int, ...], kind: str, value: Any) -> None:
    d = c.derived
    if kind == "test":
        if not isinstance(value, str) or not value:
            c.fault("rulings", path, "a test is named in words")
        return
    if kind not in WITNESS_SIZES:
        c.fault("rulings", path, f"unknown kind of witness: {kind}")
        return
    if not isinstance(value, list) or len(value) != WITNESS_SIZES[kind]:
        c.fault("rulings", path, f"{kind} takes {WITNESS_SIZES[kind]} values")
        return
    if kind in ("verdict", "closure"):
        c.known("rulings", path, [value[0]], d.lanes, "lane")
        c.known("rulings", path, [value[1]], d.open_shorts, "state")
    if kind == "verdict":
        c.known("rulings", path, [value[3]], VERDICTS, "verdict")
    if kind == "closure" and value[5] is not None:
        c.known("rulings", path, [value[5]], d.closure, "closure variant")
    if kind == "codes":
        c.known("rulings", path, [value[0]], d.open_shorts, "state")
        c.known("rulings", path, [*value[3], *value[4]], d.code_class, "code")
    if kind == "keep":
        c.known("rulings", path, [value[0]], d.lanes, "lane")
        c.known("rulings", path, [value[1]], d.nodes.get(value[0], ()), "node")
        c.known("rulings", path, [value[3]], d.code_class, "code")
        c.known("rulings", path, [value[4]], ACTIONS, "action")


def unreachable(c: Context) -> None:
    """Entries speak of a variant and of sources or prefixes it has."""
    d = c.derived
    for index, row in enumerate(c.spec.unreachable.known_unreachable):
        path = ("known_unreachable", index)
        c.known("unreachable", path, [row.kind], UNREACHABLE_KINDS, "kind")
        if not row.reason:
            c.fault("unreachable", path, "the reason is missing")
        if c.known("unreachable", path, [row.variant], d.closure, "closure variant"):
            variant = d.closure[row.variant]
            c.known("unreachable", path, row.sources, variant.sources, "source of the variant")
            c.known("unreachable", path, row.prefixes, variant.prefix3, "prefix of the variant")
            if row.nodes and c.clean(("closures", "presence", "evidence")):
                nodes = [f"{state}-{x}" for state in variant.sources for x in d.split_letters.get(state, ())]
                c.known("unreachable", path, row.nodes, nodes, "node of a source of the variant")
        listed = [field for field in UNREACHABLE_KINDS.values() if getattr(row, field)]
        if listed != [UNREACHABLE_KINDS.get(row.kind)]:
            c.fault(
                "unreachable",
                path,
                "a closure_source lists sources, a closure_prefix prefixes, a closure_node nodes",
            )
