"""The two ways a snapshot can be wrong (V006 §1, ruling R1)."""

from __future__ import annotations

from typing import ClassVar


class FsmError(Exception):
    """A snapshot, code or name that the contract does not accept."""

    exit_code: ClassVar[int]
    retryable: ClassVar[bool] = False


class ContractError(FsmError):
    """A known mismatch, an unknown name or a malformed presence.

    Whatever is uncertain beside it, it stays wrong.
    """

    exit_code = 26


class StateUncertain(FsmError):
    """Something is U where no sub-state provides for it; nothing further may be written in this run."""

    exit_code = 27
    retryable = True  # a later recovery observes afresh (ruling R2)
