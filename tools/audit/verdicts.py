"""Every presence of every state of both lanes: 2 × 10 × 5⁸ verdicts (V006 §2.1, §2.2; ruling R1).

The whole tables are compared with ones that are made the other way round: what the contract lists is
generated and everything else is refused. The one-by-one function is compared with its table on every defined
presence, every doubtful one and every one-letter neighbour of a defined one.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

from fsm import ContractError, Tables, Verdict, move_allowed, verdict, verdict_table
from fsm.presence import VERDICT_BYTES
from tests.fsm import v006

from . import expected
from .findings import Check, Violation

SPEC = "presence.yaml"


@cache
def whole_table(lane: str, short: str) -> bytes:
    """The contract's own table."""
    return v006.whole_table(lane, short)


def presence_at(index: int) -> str:
    """The presence a table index stands for."""
    letters = []
    for _ in range(len(expected.OBJECTS)):
        index, rank = divmod(index, len(v006.LETTERS))
        letters.append(v006.LETTERS[rank])
    return "".join(reversed(letters))


def smallest_difference(found: bytes, due: bytes) -> str:
    """Where two tables differ: a defined presence before a doubtful one, then the fewest examined objects."""
    places = (place for place, (one, other) in enumerate(zip(found, due, strict=True)) if one != other)

    def rank(place: int) -> tuple[bool, int, str]:
        shown = presence_at(place)
        return min(found[place], due[place]) > 1, 8 - shown.count("N"), shown

    return presence_at(min(places, key=rank))


def check_verdicts(tables: Tables) -> Check:
    """Every presence of every state, 2 × 10 × 5⁸: the verdict is the one of V006 §2.1, §2.2 and R1."""
    counts: Counter[str] = Counter()
    violations: list[Violation] = []
    for lane in v006.LANES:
        for short in v006.SHORT:
            state, due = v006.FULL[short], whole_table(lane, short)
            found = verdict_table(lane, state, tables)
            for byte, word in enumerate(VERDICT_BYTES):
                counts[word.value] += found.count(byte)
            if found != due:
                violations.append(_difference(lane, state, found, due))
    counts["verdicts"] = sum(counts.values())
    counts["defined cells"] = counts["LEGAL"] + counts["HALT"]
    return Check("verdicts", counts, tuple(violations), _equal_presences())


def _difference(lane: str, state: str, found: bytes, due: bytes) -> Violation:
    shown = smallest_difference(found, due)
    place = v006.index(shown)
    was, should = VERDICT_BYTES[found[place]], VERDICT_BYTES[due[place]]
    word = "gap" if should in (Verdict.LEGAL, Verdict.HALT) else "conflicting"
    return Violation(word, SPEC, f"{lane} {state} is {was} and the contract says {should}", shown)


def _equal_presences() -> tuple[str, ...]:
    """Ruling R18: presences that several nodes of a lane show; the journal tells them apart."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for (lane, node), shown in v006.NODE_PRESENCES.items():
        for presence in shown:
            nodes.setdefault((lane, presence), []).append(node)
    return tuple(
        f"{lane} {presence} is {', '.join(names)}: told apart by the journal (ruling R18)"
        for (lane, presence), names in nodes.items()
        if len(names) > 1
    )


def _watched() -> set[str]:
    """Defined presences and all their one-letter neighbours."""
    watched: set[str] = set()
    for shown in v006.NODE_PRESENCES.values():
        for presence in shown:
            for place in range(len(presence)):
                watched |= {presence[:place] + letter + presence[place + 1 :] for letter in v006.LETTERS}
    return watched


def check_one_by_one(tables: Tables) -> Check:
    """`verdict` says what the table says; names and shapes that are not the contract's are refused."""
    violations: list[Violation] = []
    judged = 0
    watched = sorted(_watched())
    for lane in v006.LANES:
        for short in v006.SHORT:
            state, due = v006.FULL[short], whole_table(lane, short)
            for presence in watched:
                judged += 1
                found = verdict(lane, state, presence, tables)
                if found != VERDICT_BYTES[due[v006.index(presence)]]:
                    text = f"verdict says {found} for {lane} {state}"
                    violations.append(Violation("conflicting", SPEC, text, presence))
    for lane, state, presence in _malformed():
        judged += 1
        try:
            answer = verdict(lane, state, presence, tables)
        except ContractError:
            continue
        text = f"{lane!r} {state!r} is answered {answer} instead of refused"
        violations.append(Violation("conflicting", SPEC, text, presence))
    return Check("verdict, one by one", {"judged": judged}, tuple(violations[:20]))


def _malformed() -> list[tuple[str, str, str]]:
    good = (v006.NEW, v006.FULL["P00"], "N" * 8)
    return [
        ("NEW", good[1], good[2]),
        (good[0], "P00", good[2]),
        (good[0], v006.CLOSED, good[2]),
        (good[0], good[1], "N" * 7),
        (good[0], good[1], "N" * 9),
        (good[0], good[1], "NNNNNNNn"),
        (good[0], good[1], ""),
    ]


def check_moves(tables: Tables) -> Check:
    """All 8 × 25 moves of one object's letter (ruling R3)."""
    violations: list[Violation] = []
    for place, name in enumerate(expected.OBJECTS):
        for old in v006.LETTERS:
            for new in v006.LETTERS:
                before, after = ("N" * place + letter + "N" * (7 - place) for letter in (old, new))
                due = old == new or old + new in expected.MOVES[name]
                if move_allowed(before, after, tables) is not due:
                    word = "gap" if due else "conflicting"
                    violations.append(Violation(word, "evidence.yaml", f"move of {name}", f"{old} to {new}"))
    return Check("evidence moves of one object", {"moves": 8 * 25}, tuple(violations))
