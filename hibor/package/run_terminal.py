"""The run terminal: the one JSON document on stdout, and `run.json` (design 3 "Run level").

Built from plain facts, so that a run that never got as far as a task file still ends with the same document.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from hibor.collect.governance import RunFacts, decide

SCHEMA_VERSION: Final = 1
RUN_KEYS: Final = (
    "schema_version",
    "run_id",
    "status",
    "exit_code",
    "stop_reason",
    "task",
    "device",
    "quota",
    "counts",
    "timing",
    "items",
    "recovered",
    "provenance",
    "paths",
)


@attrs.frozen
class StopReason:
    """Why the run ended as it did: one of the 41 codes or a word of the contract, and a redacted sentence."""

    code: str
    detail: str

    def to_dict(self) -> dict[str, str]:
        """`{"code", "detail"}`."""
        return {"code": self.code, "detail": self.detail}


@attrs.define(kw_only=True)
class QuotaSummary:
    """The account's quota over the run, in downloads; what is not known is None."""

    account: str | None = None
    day: str | None = None
    limit: int | None = None
    limit_source: str | None = None
    safe_before: int | None = None
    safe_after: int | None = None
    reserved: int = 0
    confirmed: int = 0
    uncertain: int = 0
    label_before: int | None = None
    label_after: int | None = None
    unexplained: int | None = None


@attrs.define(kw_only=True)
class RunDocument:
    """Everything the run terminal is built from."""

    run_id: str
    facts: RunFacts
    stop_reason: StopReason | None = None
    task: Mapping[str, Any] | None = None
    device: Mapping[str, Any] | None = None
    quota: QuotaSummary = attrs.field(factory=QuotaSummary)
    timing: Mapping[str, Any] | None = None
    recovered: Sequence[Mapping[str, Any]] = ()
    provenance: Mapping[str, Any] = attrs.field(factory=dict)
    paths: Mapping[str, Any] = attrs.field(factory=dict)

    def build(self) -> dict[str, Any]:
        """The document, keys in order."""
        status, exit_code = decide(self.facts)
        items = [dict(item) for item in self.facts.items]
        values: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.run_id,
            "status": status,
            "exit_code": exit_code,
            "stop_reason": None if self.stop_reason is None else self.stop_reason.to_dict(),
            "task": self.task,
            "device": self.device,
            "quota": attrs.asdict(self.quota),
            "counts": _counts(items),
            "timing": self.timing,
            "items": items,
            "recovered": [dict(item) for item in self.recovered],
            "provenance": dict(self.provenance),
            "paths": dict(self.paths),
        }
        return {key: values[key] for key in RUN_KEYS}


def _counts(items: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    by_status = Counter(item["status"] for item in items)
    by_source = Counter(item["source"] for item in items)
    return {"by_status": dict(sorted(by_status.items())), "by_source": dict(sorted(by_source.items()))}
