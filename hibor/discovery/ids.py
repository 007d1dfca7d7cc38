"""Content ids: one string for one entry, the same in every run, on every host.

Rules of this file (design 6 'Contract'):

* An id made only of `A-Z a-z 0-9 - _ .` and at most 120 characters long stays as it is.
* Every other character becomes `%XX`, one per UTF-8 byte, upper-case hex. `%` itself is escaped too, so below
  the length limit two different ids never share an escaped form.
* An escaped form longer than 120 characters keeps its first 102 (a `%XX` that the cut would split is dropped
  whole), then `%_`, then the first 16 hex digits of the sha256 of the original UTF-8. `%_` cannot occur in an
  escaped form, so cut and uncut ids never meet.
* `key` namespaces are written `len(key):key` in front of the id, *before* escaping. The number tells where
  the key ends, so `("ab", "c_d")` and `("ab_c", "d")` stay apart.

The form is the one `tasklite-engine` has used since 1.4, so stored ids can be exchanged with it.
"""

from __future__ import annotations

import hashlib
import re

CONTENT_ID_MAX_LENGTH = 120
"""Longest content id, in characters (all ASCII, so also in bytes)."""

EMPTY_CONTENT_ID = "%untitled"
"""What an empty id becomes. No other id can: a `%` of an escaped form is always followed by two hex
digits.
"""

_DIGEST_LENGTH = 16
_CUT_MARK = "%_"
_HEAD_LENGTH = CONTENT_ID_MAX_LENGTH - len(_CUT_MARK) - _DIGEST_LENGTH
_PLAIN = re.compile(r"[A-Za-z0-9\-_.]*\Z")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9\-_.]")
_BROKEN_ESCAPE = re.compile(r"%.?\Z")
_CUT_ID = re.compile(r"(?P<head>.{100,102})%_[0-9a-f]{16}\Z")
_ESCAPED = re.compile(r"(?:[A-Za-z0-9\-_.]|%[0-9A-F]{2})*\Z")
_LENGTH_AND_REST = re.compile(r"([1-9][0-9]*):(.*)\Z", re.DOTALL)


def escape(text: str) -> str:
    """`text` with every character outside `A-Za-z0-9-_.` written as `%XX` per UTF-8 byte, of any length.

    Raises `UnicodeEncodeError` for text that has no UTF-8 form (a lone surrogate).
    """
    return _NOT_PLAIN.sub(_escape_character, text)


def _escape_character(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8"))


def unescape(escaped: str) -> str | None:
    """The text that `escape` turned into `escaped`, or None when it cannot have come from `escape`."""
    if not _ESCAPED.match(escaped):
        return None
    raw = re.sub(
        rb"%([0-9A-F]{2})", lambda match: bytes.fromhex(match.group(1).decode("ascii")), escaped.encode()
    )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if escape(text) == escaped else None


def sanitize_content_id(content_id: str | None) -> str:
    """The content id of `content_id` (design 6): deterministic, free of `::`, at most 120 ASCII characters.

    None and the empty string become `%untitled`, which no other id can become; the scanner refuses them
    before they get here. Raises `TypeError` for anything but a str or None (an int would otherwise meet the
    str that looks like it) and `UnicodeEncodeError` for text without a UTF-8 form.
    """
    if content_id is None or content_id == "":
        return EMPTY_CONTENT_ID
    if not isinstance(content_id, str):
        raise TypeError(f"a content id must be a str, got {type(content_id).__name__} ({content_id!r})")
    if len(content_id) <= CONTENT_ID_MAX_LENGTH and _PLAIN.match(content_id):
        return content_id
    escaped = escape(content_id)
    if len(escaped) <= CONTENT_ID_MAX_LENGTH:
        return escaped
    head = _BROKEN_ESCAPE.sub("", escaped[:_HEAD_LENGTH])
    digest = hashlib.sha256(content_id.encode("utf-8")).hexdigest()[:_DIGEST_LENGTH]
    return f"{head}{_CUT_MARK}{digest}"


def namespace_prefix(key: str) -> str:
    """What stands before every id of the namespace `key`, unescaped: `len(key):key`."""
    return f"{len(key)}:{key}"


def cut_head(content_id: str) -> str | None:
    """The escaped head that a cut (too long) content id kept, or None when the id is not a cut one."""
    match = _CUT_ID.match(content_id)
    return match.group("head") if match else None


class Namespace:
    """Tells which stored content ids certainly belong to one scan's namespace (design 6, `on_missing`).

    `prefix` is the unescaped namespace prefix, empty for a handler without `cursor_key_func`. Where a stored
    id cannot be told apart from another namespace's, the answer is no: what follows from a yes may delete
    things.
    """

    def __init__(self, prefix: str) -> None:
        self._escaped_prefix = escape(prefix)

    def certainly_holds(self, content_id: str) -> bool:
        """Whether `content_id` (as stored, escaped) can only have been made in this namespace."""
        head = cut_head(content_id)
        if self._escaped_prefix:
            # A cut id keeps about a hundred characters. When the prefix is longer than what was kept, ids of
            # another key with the same beginning look the same, so the (shorter) head does not start with it.
            return (content_id if head is None else head).startswith(self._escaped_prefix) and (
                head is not None or unescape(content_id) is not None
            )
        if head is not None:
            return not _reads_namespaced(_decodable_part(head), is_cut=True)
        text = unescape(content_id)
        return bool(text) and not _reads_namespaced(text or "", is_cut=False)


def _decodable_part(head: str) -> str:
    """The text of a cut id's head; a character whose bytes the cut divided is dropped."""
    for shorter in range(4):
        text = unescape(head[: len(head) - 3 * shorter])
        if text is not None:
            return text
    return head


def _reads_namespaced(text: str, *, is_cut: bool) -> bool:
    """Whether `text` could be `len(key):key` followed by an id (of a cut text only the beginning is
    known).
    """
    match = _LENGTH_AND_REST.match(text)
    if match is None:
        return False
    # Longer than any text that fits into memory cannot be a key's length; and int() of it would be slow.
    if len(match.group(1)) > 18:
        return False
    return is_cut or len(match.group(2)) > int(match.group(1))
