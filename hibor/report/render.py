"""Templates to text: strict about missing values, everything escaped, styles and script pinned by their
hashes.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import attrs
import jinja2
from markupsafe import Markup, escape

_TYPED: Final = re.compile(r"`([^`]+)`")
_PIECE_BYTES: Final = 65_536
"""A page comes in pieces of about this size; a template's own parts are words."""


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hibor", "report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["coded"] = coded
    return environment


@attrs.frozen
class Rows:
    """Rows of a table, each made when the template comes to it."""

    _of: Sequence[Any]
    _row: Callable[[int, Any], Mapping[str, Any]]

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return itertools.starmap(self._row, enumerate(self._of))


def coded(text: str) -> Markup:
    """A sentence as the catalogue writes it: what stands between backticks is something to type."""
    return Markup(_TYPED.sub(r"<code>\1</code>", str(escape(text))))


def render(name: str, context: Mapping[str, Any]) -> Iterator[bytes]:
    """The page `name` with `context` in UTF-8, piece by piece as it is made: nobody has to hold it whole.

    `style` and `script` come from their files, with the policy that allows them.
    """
    environment = _environment()
    style, script = _source(environment, "style.html"), _source(environment, "script.html")
    policy = f"default-src 'none'; img-src data:; style-src '{_pin(style)}'; script-src '{_pin(script)}'"
    parts = environment.get_template(name).generate(
        {**context, "style": Markup(style), "script": Markup(script), "policy": policy}
    )
    piece = bytearray()
    for part in parts:
        piece += part.encode()
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def _source(environment: jinja2.Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _pin(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
