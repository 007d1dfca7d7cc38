"""What a simulated command gets: the phone, and somewhere to print."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from hibor.sim.seam import PhoneCore


@attrs.frozen
class ToolIo:
    """The phone and the two outputs of one command."""

    core: PhoneCore
    stdout: Callable[[bytes], None]
    stderr: Callable[[bytes], None]

    def out(self, text: str) -> None:
        """Print text to stdout, byte-exact for names that are not UTF-8."""
        self.stdout(text.encode("utf-8", "surrogateescape"))

    def err(self, text: str) -> None:
        """Print text to stderr."""
        self.stderr(text.encode("utf-8", "surrogateescape"))


Tool = Callable[[ToolIo, list[str]], int]
