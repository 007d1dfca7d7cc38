"""How a run stops before, or beside, its items."""

from __future__ import annotations

from fsm import failure_code


class RunStop(Exception):
    """The run cannot go on as a whole.

    `failure` is a failure word and gives the code (`spec/failures.yaml`, stage `run`), or a stop word of the
    contract, which is its own code; `detail` is redacted. `writes` is False when nothing may be written any
    more,
    not even the run's own files (ruling R28; a busy library).
    """

    def __init__(self, failure: str, detail: str) -> None:
        self.code = failure if failure.isupper() else failure_code(failure, "run")
        super().__init__(f"{self.code}: {detail}")
        self.failure = failure
        self.detail = detail

    @property
    def task_invalid(self) -> bool:
        """Task, options or library unusable."""
        return self.failure == "task_invalid"

    @property
    def busy(self) -> bool:
        """Another run holds the library."""
        return self.failure == "BUSY"

    @property
    def interrupted(self) -> bool:
        """A signal ended the run (ruling R26)."""
        return self.failure == "INTERRUPTED"

    @property
    def uncertain(self) -> bool:
        """The ledger is in doubt."""
        return self.failure == "ledger_invalid"

    @property
    def writes(self) -> bool:
        """Whether the run's own files may still be written."""
        return not (self.busy or self.uncertain)
