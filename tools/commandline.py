"""The command line that all tools share: a wrong one ends with 64, as everywhere in this repository."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn

EXIT_USAGE = 64


class Parser(argparse.ArgumentParser):
    """argparse that ends a wrong command line with 64 instead of 2."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")
