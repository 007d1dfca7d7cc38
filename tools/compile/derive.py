"""What follows from the authored tables: full names, nodes, code domains, closing edges, keep-or-close,
failures.

Rules: one fact is authored once, the rest is worked out here; nothing here judges (that is `check`), and
unknown words are passed over, because `check` has named them already. Properties are computed when first
asked for, so that a check may use one table although another file is broken.
A node is a state, or a state with the letter of the object that splits it (`P02_TRIGGER_UNKNOWN-N`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import product

import attrs

from .model import ClosureVariant, KeepRow, Spec

DERIVED_WHY = "no closure accepts this stop (ruling R10)"


def split_cell(cell: str) -> frozenset[str]:
    """Letters of an authored cell such as `N|U|V`."""
    return frozenset(cell.split("|"))


@attrs.frozen
class FullEdge:
    """An edge of the machine: authored, or derived from a closure (then `variant` names it)."""

    lane: str
    source: str
    event: str
    target: str
    guard: str | None
    steps: tuple[str, ...]
    variant: str | None = None
    authored_index: int | None = None


Row = tuple[frozenset[str], ...]


class Derived:
    """Everything that the emitter writes and that is not authored word by word."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    # -- names -----------------------------------------------------------------------------------------------

    @cached_property
    def letters(self) -> tuple[str, ...]:
        return tuple(row.letter for row in self.spec.evidence.letters)

    @cached_property
    def objects(self) -> tuple[str, ...]:
        return tuple(row.object for row in self.spec.evidence.objects)

    @cached_property
    def full(self) -> dict[str, str]:
        return {row.short: row.state for row in self.spec.presence.states}

    @cached_property
    def closed(self) -> str:
        """The short name of the last state: the one a closure leads to. It has no row."""
        return self.spec.presence.states[-1].short

    @cached_property
    def open_shorts(self) -> tuple[str, ...]:
        return tuple(row.short for row in self.spec.presence.states[:-1])

    @cached_property
    def lanes(self) -> tuple[str, ...]:
        return tuple(row.lane for row in self.spec.presence.lanes)

    def state(self, short: str) -> str:
        """`P02` → `P02_TRIGGER_UNKNOWN`; an unknown word stays as it is."""
        return self.full.get(short, short)

    def node(self, short: str) -> str:
        """`P02-N` → `P02_TRIGGER_UNKNOWN-N`."""
        state, dash, letter = short.partition("-")
        return self.state(state) + dash + letter

    def short_of(self, node: str) -> tuple[str, str]:
        """Full node → (short state, letter or '')."""
        state, _, letter = node.partition("-")
        return self._short.get(state, state), letter

    @cached_property
    def _short(self) -> dict[str, str]:
        return {full: short for short, full in self.full.items()}

    def ordered(self, letters: frozenset[str]) -> str:
        """Letters of a cell in the contract's order."""
        return "".join(letter for letter in self.letters if letter in letters)

    # -- presence --------------------------------------------------------------------------------------------

    @cached_property
    def rows(self) -> dict[tuple[str, str], Row]:
        """(lane, short state) → eight cells."""
        return {
            (lane, short): tuple(split_cell(cell) for cell in cells)
            for lane, table in self.spec.presence.matrix.items()
            for short, cells in table.items()
        }

    @cached_property
    def split_object(self) -> dict[str, str]:
        """Short state → the object whose letter splits it."""
        return {row.state: row.object for row in self.spec.presence.substates}

    @cached_property
    def split_letters(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for row in self.spec.presence.substates:
            found.setdefault(row.state, []).append(row.letter)
        return {state: tuple(x for x in self.letters if x in letters) for state, letters in found.items()}

    @cached_property
    def nodes(self) -> dict[str, tuple[str, ...]]:
        """Lane → its nodes, short; a row with an unreachable cell has none."""
        found: dict[str, tuple[str, ...]] = {}
        for lane in self.lanes:
            names: list[str] = []
            for short in self.open_shorts:
                row = self.rows.get((lane, short))
                if row is None or any("X" in cell for cell in row):
                    continue
                letters = self.split_letters.get(short)
                names.extend([short] if letters is None else [f"{short}-{letter}" for letter in letters])
            found[lane] = tuple(names)
        return found

    @cached_property
    def all_nodes(self) -> tuple[str, ...]:
        """Every node of any lane once, short, in state order."""
        seen = {node for names in self.nodes.values() for node in names}
        order = {short: index for index, short in enumerate(self.open_shorts)}
        rank = {letter: index for index, letter in enumerate(("", *self.letters))}
        return tuple(
            sorted(seen, key=lambda node: (order[node.partition("-")[0]], rank[node.partition("-")[2]]))
        )

    def nodes_of(self, lane: str, short: str) -> tuple[str, ...]:
        """The lane's nodes of a state."""
        return tuple(node for node in self.nodes.get(lane, ()) if node.partition("-")[0] == short)

    def node_row(self, lane: str, node: str) -> Row:
        """The row of a node: its state's row with the splitting letter fixed."""
        short, _, letter = node.partition("-")
        row = list(self.rows[lane, short])
        if letter:
            row[self.objects.index(self.split_object[short])] = frozenset({letter})
        return tuple(row)

    def node_presences(self, lane: str, node: str) -> frozenset[str]:
        """Every presence that the node's row lists."""
        return frozenset("".join(letters) for letters in product(*self.node_row(lane, node)))

    def node_quota(self, lane: str, node: str) -> tuple[str, ...]:
        """Quota states that a snapshot at the node may carry."""
        if self.lane_spends_nothing(lane):
            return ("NONE",)
        short, _, letter = node.partition("-")
        for row in self.spec.presence.substates:
            if row.state == short and row.letter == letter:
                return row.quota
        return self.spec.presence.quota_of_state.get(short, ())

    def lane_spends_nothing(self, lane: str) -> bool:
        """True for a lane whose rows never show a quota terminal."""
        at = self.objects.index("Q")
        return all(row[at] <= {"N", "X"} for (name, _), row in self.rows.items() if name == lane)

    def node_artifact(self, node: str) -> str | None:
        """Kind of A where it is verified at the node."""
        short, _, letter = node.partition("-")
        for row in self.spec.presence.substates:
            if row.state == short and row.letter == letter:
                return row.artifact
        return self.spec.presence.artifact_of_state.get(short)

    # -- codes -----------------------------------------------------------------------------------------------

    @cached_property
    def code_class(self) -> dict[str, str]:
        return {code: name for name, codes in self.spec.codes.classes.items() for code in codes}

    def _in_order(self, codes: set[str]) -> tuple[str, ...]:
        return tuple(code for code in self.code_class if code in codes)

    def node_codes(self, node: str, quota: str | None = None) -> tuple[str, ...]:
        """FAIL and STOP codes an item may stop with at the node; without `quota` the union."""
        stage = {*self.spec.codes.common, *self.spec.codes.stages.get(node.partition("-")[0], ())}
        rule = next((row for row in self.spec.codes.substates if row.node == node), None)
        if rule is None:
            return self._in_order(stage)
        if rule.of_class is not None:
            return self._in_order({code for code in stage if self.code_class.get(code) == rule.of_class})
        chosen = set(rule.only or ())
        if rule.within_stage:
            chosen &= stage
        for state, codes in rule.by_quota.items():
            if quota is None or quota == state:
                chosen |= set(codes)
        return self._in_order(chosen)

    @cached_property
    def quota_split_nodes(self) -> tuple[str, ...]:
        return tuple(row.node for row in self.spec.codes.substates if row.by_quota)

    @cached_property
    def failure_codes(self) -> dict[str, dict[str, str]]:
        """Failure → node (short) or `run` → code.

        What is named more closely wins: node over state over group. A state or a group stands for those of
        its nodes whose own code list has the code; a node whose list has not cannot meet the failure so.
        """
        groups = self.spec.failures.groups
        table: dict[str, dict[str, str]] = {}
        for row in self.spec.failures.failures:
            by_state: dict[str, str] = {}
            for key, code in row.at.items():
                for member in groups.get(key, ()):
                    by_state.setdefault(member, code)
            by_state.update(
                {key: code for key, code in row.at.items() if key not in groups and "-" not in key}
            )
            found = {
                node: by_state[node.partition("-")[0]]
                for node in self.all_nodes
                if by_state.get(node.partition("-")[0], "") in self.node_codes(node)
            }
            found.update({key: code for key, code in row.at.items() if "-" in key})
            table[row.failure] = {node: found[node] for node in self.all_nodes if node in found}
            if "run" in by_state:
                table[row.failure]["run"] = by_state["run"]
        return table

    # -- closures --------------------------------------------------------------------------------------------

    @cached_property
    def closure(self) -> dict[str, ClosureVariant]:
        return {row.variant: row for row in self.spec.closures.closures}

    def closure_cells(self, variant: ClosureVariant) -> tuple[frozenset[str], ...]:
        """S, F, Q, A of the closed presence."""
        return tuple(split_cell(variant.cells[name]) for name in self.objects[:4])

    def closure_fits(
        self, variant: ClosureVariant, lane: str, node: str
    ) -> tuple[frozenset[str], ...] | None:
        """S F Q A that both the variant and the node's row allow (ruling R6), or None."""
        if lane not in variant.lanes or node.partition("-")[0] not in variant.sources:
            return None
        row = self.node_row(lane, node)
        both: list[frozenset[str]] = []
        for index, cell in enumerate(self.closure_cells(variant)):
            allowed = cell if self.objects[index] in variant.exempt else cell & row[index]
            if not allowed:
                return None
            both.append(allowed)
        if both[self.objects.index("A")] == {"V"} and self.node_artifact(node) != variant.artifact:
            return None
        return tuple(both)

    def closure_codes(self, variant: ClosureVariant, status: str, node: str, quota: str) -> tuple[str, ...]:
        """FAIL and STOP codes the variant takes at the node with this public status (ruling R9)."""
        allowed = self.node_codes(node, quota)
        chosen = variant.codes.get(status, ())
        of_status = self.spec.codes.status_of_class
        return tuple(
            code
            for code in allowed
            if of_status.get(self.code_class[code]) == status and (chosen == "stage" or code in chosen)
        )

    def closures_of_stop(self, lane: str, node: str, quota: str, code: str) -> tuple[str, ...]:
        """Variants that accept an item stopped at the node with the code."""
        status = self.spec.codes.status_of_class[self.code_class[code]]
        found: list[str] = []
        for variant in self.spec.closures.closures:
            cells = self.closure_fits(variant, lane, node)
            if cells is None or status not in variant.statuses:
                continue
            patterns = self.spec.terminal.quota_ids.get(quota, {})
            ids_fit = any(
                patterns.get(letter) == variant.quota_ids for letter in cells[self.objects.index("A")]
            )
            if ids_fit and code in self.closure_codes(variant, status, node, quota):
                found.append(variant.variant)
        return tuple(found)

    # -- keep or close ---------------------------------------------------------------------------------------

    def keep_row_covers(self, row: KeepRow, lane: str, node: str, quota: str, code: str) -> bool:
        """Whether an authored row speaks about this stop."""
        in_quota = not row.quota or quota in row.quota
        return (
            lane == row.lane and node in row.nodes and in_quota and (row.codes == "all" or code in row.codes)
        )

    @cached_property
    def stops(self) -> tuple[tuple[str, str, str, str], ...]:
        """Every (lane, node, quota, code) that an item may stop with."""
        return tuple(
            (lane, node, quota, code)
            for lane in self.lanes
            for node in self.nodes[lane]
            for quota in self.node_quota(lane, node)
            for code in self.node_codes(node, quota)
        )

    @cached_property
    def keep(self) -> dict[tuple[str, str, str, str], tuple[str, str]]:
        """Stop → (keep | close, why)."""
        table: dict[tuple[str, str, str, str], tuple[str, str]] = {}
        for stop in self.stops:
            if not self.closures_of_stop(*stop):
                table[stop] = ("keep", DERIVED_WHY)
                continue
            for row in self.spec.keep.keep_or_close:
                if self.keep_row_covers(row, *stop):
                    table[stop] = (row.action, row.why)
                    break
        return table

    # -- edges -----------------------------------------------------------------------------------------------

    @cached_property
    def step_moves(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Step → (object, letter) moves in persistence order."""
        return {
            row.step: tuple(sorted(row.moves.items(), key=lambda move: self.objects.index(move[0])))
            for row in self.spec.steps.steps
        }

    @cached_property
    def step_marks(self) -> dict[str, str | None]:
        return {row.step: row.marks for row in self.spec.steps.steps}

    @cached_property
    def edges(self) -> tuple[FullEdge, ...]:
        """Authored edges, then the closing edges in closure, lane and node order; names short."""
        authored = [
            FullEdge(row.lane, row.source, row.event, row.target, row.guard, row.steps, None, index)
            for index, row in enumerate(self.spec.edges.edges)
        ]
        return (*authored, *self.closing_edges)

    def after(self, lane: str, node: str, steps: tuple[str, ...]) -> frozenset[str]:
        """Presences after the steps, from every presence of the node; moves that R3 forbids are dropped."""
        found = self.node_presences(lane, node)
        for step in steps:
            found = frozenset(
                moved for presence in found if (moved := self.moved(presence, step)) is not None
            )
        return found

    def moved(self, presence: str, step: str) -> str | None:
        """The presence after one step, or None where R3 does not let a letter move so."""
        letters = list(presence)
        for name, letter in self.step_moves.get(step, ()):
            at = self.objects.index(name)
            if letters[at] != letter and letters[at] + letter not in self.moves[name]:
                return None
            letters[at] = letter
        return "".join(letters)

    @cached_property
    def moves(self) -> dict[str, tuple[str, ...]]:
        """Object → every letter pair it may go through (ruling R3), sorted."""
        authored = self.spec.evidence.moves
        return {
            name: tuple(sorted({*authored.get("every", ()), *authored.get(name, ())}))
            for name in self.objects
        }

    def closed_presences(self, variant: ClosureVariant, lane: str, node: str) -> frozenset[str]:
        """Presences with which the producer closes the node by the variant; empty where it cannot."""
        closing = self.spec.edges.closing
        exception = closing.exceptions.get(variant.variant)
        steps = exception.steps if exception else closing.steps
        writes_a = any(name == "A" for step in steps for name, _ in self.step_moves.get(step, ()))
        cells = self.closure_cells(variant)
        row = self.node_row(lane, node)
        a_at = self.objects.index("A")
        if not writes_a and row[a_at] == {"V"} and self.node_artifact(node) != variant.artifact:
            return frozenset()
        if writes_a and row[a_at] != {"N"}:
            return frozenset()
        return frozenset(
            presence
            for presence in self.after(lane, node, steps)
            if all(presence[index] in cell for index, cell in enumerate(cells))
            and presence[4:7] in variant.prefix3
            and presence[7] == "V"
        )

    @cached_property
    def closing_edges(self) -> tuple[FullEdge, ...]:
        closing = self.spec.edges.closing
        found: list[FullEdge] = []
        for variant in self.spec.closures.closures:
            exception = closing.exceptions.get(variant.variant)
            for lane in self.lanes:
                if lane not in variant.lanes:
                    continue
                for node in (node for short in variant.producer for node in self.nodes_of(lane, short)):
                    if not self.closed_presences(variant, lane, node):
                        continue
                    event = exception.event if exception else f"close:{variant.variant}"
                    steps = exception.steps if exception else closing.steps
                    found.append(FullEdge(lane, node, event, self.closed, None, steps, variant.variant))
        return self._apart(found)

    def _apart(self, edges: list[FullEdge]) -> tuple[FullEdge, ...]:
        """Where two closures end one work with one event word, all edges of that word name their variant."""
        claimed: dict[tuple[str, str, str], int] = {}
        for edge in edges:
            key = (edge.lane, edge.source, edge.event)
            claimed[key] = claimed.get(key, 0) + 1
        shared = {event for (_, _, event), count in claimed.items() if count > 1}
        return tuple(
            attrs.evolve(edge, event=f"{edge.event}:{edge.variant}") if edge.event in shared else edge
            for edge in edges
        )
