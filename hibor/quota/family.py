"""The family automaton's interpreter; its table is authored in the contract and handed in as a value.

A family is (account, quota day, report, ordinal). The table maps state → event type → next state; the state
before the first event is the empty text. Nothing here knows a state's name.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

Transitions = Mapping[str, Mapping[str, str]]
START = ""


@attrs.frozen
class Automaton:
    """Which event a family takes in which state.

    Derived once from the table: `opening` types start a family, `quota` types are those accepted next (one of
    them settles the reservation), `artifact` types follow a settled reservation.
    """

    transitions: Transitions = attrs.field(hash=False)
    opening: frozenset[str] = attrs.field(init=False)
    quota: frozenset[str] = attrs.field(init=False)
    artifact: frozenset[str] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        opened = self.transitions.get(START, {})
        settled = {
            kind: to for state in opened.values() for kind, to in self.transitions.get(state, {}).items()
        }
        finished = {kind for state in settled.values() for kind in self.transitions.get(state, {})}
        object.__setattr__(self, "opening", frozenset(opened))
        object.__setattr__(self, "quota", frozenset(settled))
        object.__setattr__(self, "artifact", frozenset(finished))

    @property
    def types(self) -> frozenset[str]:
        """Every event type that belongs to families."""
        return self.opening | self.quota | self.artifact

    def next_state(self, state: str, event_type: str) -> str | None:
        """The state after an event, or None when the family does not take it."""
        return self.transitions.get(state, {}).get(event_type)
