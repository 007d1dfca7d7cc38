"""Run level: which status a run ends with (design 3 "Run level").

The rows and their order are `generated.governance.RUN_STATUSES`; this file holds one predicate for each
condition
the rows name. A row whose condition is not here, or the other way round, fails at import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from fsm import ContractError, Tables, code_class
from generated.governance import RUN_STATUSES

Item = Mapping[str, Any]


@attrs.define(kw_only=True)
class RunFacts:
    """What happened, as the conditions see it. `items` are the 26-key items of this run that were selected.
    """

    items: Sequence[Item] = ()
    replaced: frozenset[str] = frozenset()  # item ids made good by another item of this run
    uncertain: bool = False
    contract_error: bool = False
    interrupted: bool = False
    task_invalid: bool = False
    busy: bool = False
    deadline_ended: bool = False
    cause: str | None = None  # the run's own stop reason (preflight, discovery), a code or a word
    min_count: int = 0

    @property
    def counted(self) -> list[Item]:
        """Items that stand for something selected: those another item made good are left out."""
        return [item for item in self.items if item["item_id"] not in self.replaced]

    @property
    def delivered(self) -> list[Item]:
        """Items whose PDF is in the package."""
        return [item for item in self.counted if item["status"] in ("SUCCESS", "DUPLICATE")]

    @property
    def undelivered(self) -> list[Item]:
        """Selected items that are not."""
        return [item for item in self.counted if item["status"] not in ("SUCCESS", "DUPLICATE")]

    @property
    def cause_code(self) -> str | None:
        """The code the run stands for when nothing was delivered: its own, else its first stopped item's."""
        if self.cause is not None:
            return self.cause
        stopped = self.undelivered
        return stopped[0]["stop_code"] if stopped else None

    def cause_class(self) -> str | None:
        """Class of the cause, None when there is none or it is a word and not a code."""
        try:
            return code_class(self.cause_code or "")
        except ContractError:
            return None


_TABLES: Final = Tables.default()
QUOTA_CODE: Final = _TABLES.failure_codes["quota_exhausted"][_TABLES.states[0]]
LATE_CODES: Final = (
    _TABLES.failure_codes["deadline"][_TABLES.states[0]],
    _TABLES.failure_codes["persist_late"][_TABLES.states[6]],
)


def _quota_met(facts: RunFacts) -> bool:
    return any(item["stop_code"] == QUOTA_CODE and item["source"] == "NEW_TRIGGER" for item in facts.counted)


def _deadline_met(facts: RunFacts) -> bool:
    return facts.deadline_ended or any(item["stop_code"] in LATE_CODES for item in facts.counted)


def _partial(facts: RunFacts) -> bool:
    """A run that stopped for a reason of its own did not get to all it was asked for, whatever it delivered.
    """
    stopped = facts.cause is not None
    return stopped or bool(facts.undelivered) or len(facts.delivered) < facts.min_count


_CONDITIONS: Final[Mapping[str, Callable[[RunFacts], bool]]] = {
    "uncertain": lambda facts: facts.uncertain,
    "contract_error": lambda facts: facts.contract_error,
    "interrupted": lambda facts: facts.interrupted,
    "task_invalid": lambda facts: facts.task_invalid,
    "library_busy": lambda facts: facts.busy,
    "deadline_ended_selected_work": _deadline_met,
    "new_item_met_quota_exhausted": _quota_met,
    "nothing_delivered_stop_cause": lambda facts: not facts.delivered and facts.cause_class() == "STOP",
    "nothing_delivered_fail_cause": lambda facts: not facts.delivered and facts.cause_class() == "FAIL",
    "some_selected_item_not_delivered": _partial,
    "everything_selected_delivered": lambda facts: True,
}

if {when for _status, _exit, when, _meaning in RUN_STATUSES} != set(_CONDITIONS):
    raise ContractError("spec/governance.yaml and hibor/collect/governance.py name different conditions")


def decide(facts: RunFacts) -> tuple[str, int]:
    """The run's status and exit code: the first row whose condition holds."""
    for status, exit_code, when, _meaning in RUN_STATUSES:
        if _CONDITIONS[when](facts):
            return status, exit_code
    raise ContractError("no run status applies")
