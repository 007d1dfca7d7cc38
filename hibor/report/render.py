"""Templates to text: strict about missing values, everything escaped, styles and script pinned by their
hashes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import jinja2
from markupsafe import Markup, escape

_TYPED: Final = re.compile(r"`([^`]+)`")


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


def coded(text: str) -> Markup:
    """A sentence as the catalogue writes it: what stands between backticks is something to type."""
    return Markup(_TYPED.sub(r"<code>\1</code>", str(escape(text))))


def render(name: str, context: Mapping[str, Any]) -> str:
    """The page `name` with `context`; `style` and `script` come from their files, with the policy that
    allows them.
    """
    return "".join(_pieces(name, context))


def render_bytes(name: str, context: Mapping[str, Any]) -> bytes:
    """The same in UTF-8, never whole as text: a long page in Chinese is several times as large as text."""
    return b"".join(piece.encode() for piece in _pieces(name, context))


def _pieces(name: str, context: Mapping[str, Any]) -> Iterator[str]:
    environment = _environment()
    style, script = _source(environment, "style.html"), _source(environment, "script.html")
    policy = f"default-src 'none'; img-src data:; style-src '{_pin(style)}'; script-src '{_pin(script)}'"
    return environment.get_template(name).generate(
        {**context, "style": Markup(style), "script": Markup(script), "policy": policy}
    )


def _source(environment: jinja2.Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _pin(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
