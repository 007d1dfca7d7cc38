"""The contract's rules: pure functions and a machine over the compiled tables.

No file, no socket, no clock, no chance.
"""

from fsm.closures import match_closure
from fsm.codes import allowed_codes, code_class, failure_code, quota_ids
from fsm.errors import ContractError, FsmError, StateUncertain
from fsm.guards import Facts
from fsm.machine import ItemMachine, Step, WorkOrder
from fsm.presence import Verdict, move_allowed, verdict, verdict_table
from fsm.snapshot import Closure, FinalFile, ItemOutcome, ItemPackageSnapshot, TerminalItem
from fsm.tables import Tables
from fsm.terminal import build_terminal_item, validate_snapshot

__all__ = [
    "Closure",
    "ContractError",
    "Facts",
    "FinalFile",
    "FsmError",
    "ItemMachine",
    "ItemOutcome",
    "ItemPackageSnapshot",
    "StateUncertain",
    "Step",
    "Tables",
    "TerminalItem",
    "Verdict",
    "WorkOrder",
    "allowed_codes",
    "build_terminal_item",
    "code_class",
    "failure_code",
    "match_closure",
    "move_allowed",
    "quota_ids",
    "validate_snapshot",
    "verdict",
    "verdict_table",
]
