"""Python literals as source text: one line where it fits, otherwise one element a line, within WIDTH.

Only tuples, dicts, strings, whole numbers, booleans and None are rendered. Dict order is the caller's
order; the caller sorts where order means nothing. Equal values give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

WIDTH = 110
INDENT = "    "


def quote(text: str) -> str:
    """A double-quoted Python string; characters outside ASCII stay readable."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def flat(value: object) -> str:
    """The value on one line."""
    if isinstance(value, str):
        return quote(value)
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        inner = ", ".join(flat(part) for part in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flat(key)}: {flat(part)}" for key, part in value.items()) + "}"
    raise TypeError(f"no literal for {value!r}")


def render(value: object, depth: int = 0, before: int = 0, after: int = 1) -> str:
    """Source of the value at indentation `depth`, with so many characters before and after it on its line."""
    one_line = flat(value)
    pad, deeper = INDENT * depth, INDENT * (depth + 1)
    if len(pad) + before + len(one_line) + after <= WIDTH:
        return one_line
    if isinstance(value, str):
        lines = "".join(f"{deeper}{quote(part)}\n" for part in _wrapped(value, WIDTH - len(deeper) - 2))
        return f"(\n{lines}{pad})"
    if isinstance(value, (tuple, list)):
        rows = "".join(f"{deeper}{render(part, depth + 1)},\n" for part in value)
        return f"(\n{rows}{pad})"
    if isinstance(value, Mapping):
        rows = "".join(
            f"{deeper}{flat(key)}: {render(part, depth + 1, len(flat(key)) + 2)},\n"
            for key, part in value.items()
        )
        return f"{{\n{rows}{pad}}}"
    return one_line


def _wrapped(text: str, width: int) -> list[str]:
    """Pieces of the text whose quoted form fits the width, cut after spaces where there are any."""
    pieces: list[str] = []
    line = ""
    for word in text.replace(" ", " \0").split("\0"):
        while len(quote(word)) - 2 > width:
            pieces.extend([line] if line else [])
            line, word = "", word
            pieces.append(word[: width // 2])
            word = word[width // 2 :]
        if line and len(quote(line + word)) - 2 > width:
            pieces.append(line)
            line = word
        else:
            line += word
    return [*pieces, line] if line else pieces


def assignment(name: str, kind: str, value: object) -> str:
    """`NAME: Final[kind] = value` as source."""
    head = f"{name}: Final[{kind}] = "
    return head + render(value, 0, len(head), 0) + "\n"
