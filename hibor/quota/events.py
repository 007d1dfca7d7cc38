"""Ledger events: one JSON line each, hash-chained (design 9).

Rules of this file:
- A line is canonical: UTF-8, keys sorted, no spaces. Any other spelling of the same content is an altered
  line.
- `prev` is the sha256 of the previous line's bytes without its newline, 64 zeros for the first.
- `hash` is the sha256 of the line with the key `hash` left out.
- `family` is the first 32 hex digits of sha256(account, day, report_id, ordinal joined by newlines),
  `event_id` those of sha256(family, type). Events outside families have null in family, item_id, ordinal
  and report_id, and take `prev` in the place of the family.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import attrs

SCHEMA_VERSION = 1
ZERO_HASH = "0" * 64

RESERVED = "RESERVED"
RELEASED = "RELEASED"
CONFIRMED = "CONFIRMED"
UNCERTAIN = "UNCERTAIN"
REPAIRED = "REPAIRED"
CLOCK_ACCEPTED = "CLOCK_ACCEPTED"
OUTSIDE_TYPES = frozenset({REPAIRED, CLOCK_ACCEPTED})
"""Types that belong to no family."""

_ENCODE = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False
).encode
_HEX64 = re.compile(r"[0-9a-f]{64}")


class EventInvalid(ValueError):
    """A line that is not an event; the message says what is wrong with it."""


@attrs.frozen
class Head:
    """The ledger's state in two values: number of events and `hash` of the last one (64 zeros when empty)."""

    count: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> Head:
        """`N:HASH` as people write it. Raises `ValueError`."""
        count, _, digest = text.partition(":")
        if not count.isascii() or not count.isdigit() or not _HEX64.fullmatch(digest):
            raise ValueError("a head is written N:HASH, HASH being 64 lower-case hex digits")
        return cls(int(count), digest)

    def __str__(self) -> str:
        return f"{self.count}:{self.hash}"

    def to_dict(self) -> dict[str, int | str]:
        """`{count, hash}` as in terminal.json and run.json."""
        return {"count": self.count, "hash": self.hash}


EMPTY_HEAD = Head(0, ZERO_HASH)


@attrs.frozen
class Event:
    """One ledger line. Times are ISO 8601 with offset; ids are lower-case hex."""

    account: str
    at: str
    data: Mapping[str, Any] = attrs.field(hash=False)
    day: str
    event_id: str
    family: str | None
    hash: str
    item_id: str | None
    ordinal: int | None
    prev: str
    report_id: str | None
    run_id: str | None
    schema_version: int
    seq: int
    type: str


_KEYS = tuple(field.name for field in attrs.fields(Event))
_KEY_SET = frozenset(_KEYS)
_TEXT_KEYS = ("account", "at", "day", "event_id", "hash", "prev", "type")
_FAMILY_KEYS = ("family", "item_id", "report_id", "run_id")


def sha256_hex(data: bytes) -> str:
    """Lower-case hex sha256."""
    return hashlib.sha256(data).hexdigest()


def family_id(account: str, day: str, report_id: str, ordinal: int) -> str:
    """Id of a family (design 9)."""
    return sha256_hex(f"{account}\n{day}\n{report_id}\n{ordinal}".encode())[:32]


def event_id(family: str, event_type: str) -> str:
    """Id of an event of a family; for an event outside families `prev` stands for the family."""
    return sha256_hex(f"{family}\n{event_type}".encode())[:32]


def canonical(value: Mapping[str, Any]) -> bytes:
    """The one spelling of a JSON object: sorted keys, no spaces, UTF-8. Raises `ValueError` for what has
    none.
    """
    return _ENCODE(value).encode()


def make_event(
    event_type: str,
    *,
    account: str,
    at: str,
    day: str,
    data: Mapping[str, Any],
    prev: str,
    seq: int,
    report_id: str | None = None,
    ordinal: int | None = None,
    item_id: str | None = None,
    run_id: str | None = None,
) -> tuple[Event, bytes]:
    """Build an event and its line (without newline). Raises `ValueError` for text that is not UTF-8."""
    family = None if report_id is None or ordinal is None else family_id(account, day, report_id, ordinal)
    values: dict[str, Any] = {
        "account": account,
        "at": at,
        "data": dict(data),
        "day": day,
        "event_id": event_id(prev if family is None else family, event_type),
        "family": family,
        "item_id": item_id,
        "ordinal": ordinal,
        "prev": prev,
        "report_id": report_id,
        "run_id": run_id,
        "schema_version": SCHEMA_VERSION,
        "seq": seq,
        "type": event_type,
    }
    bare = canonical(values)
    values["hash"] = sha256_hex(bare)
    # The last `,"item_id":` is the top level's: whatever `data` holds is spelled before it.
    cut = bare.rfind(b',"item_id":')
    return Event(**values), b'%b,"hash":"%b"%b' % (bare[:cut], values["hash"].encode(), bare[cut:])


def parse_event(line: bytes) -> Event:
    """Read one line (without newline) strictly: keys, types, spelling, hash and ids. Raises
    `EventInvalid`.
    """
    try:
        value = json.loads(line.decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise EventInvalid("not a JSON line") from error
    if not isinstance(value, dict):
        raise EventInvalid("not a JSON object")
    if value.keys() != _KEY_SET:
        odd = sorted(value.keys() ^ _KEY_SET)
        raise EventInvalid(f"unknown or missing keys: {', '.join(odd)[:120]}")
    try:
        spelled = canonical(value)
    except (ValueError, RecursionError) as error:
        raise EventInvalid("has no canonical spelling") from error
    if spelled != line:
        raise EventInvalid("not in canonical spelling")
    _check_types(value)
    cut = line.rfind(b',"hash":"')
    length = len(b',"hash":""') + len(value["hash"])
    if sha256_hex(line[:cut] + line[cut + length :]) != value["hash"]:
        raise EventInvalid("its hash does not fit its content")
    event = Event(**value)
    _check_ids(event)
    return event


def _check_types(value: dict[str, Any]) -> None:
    for key in _TEXT_KEYS:
        if not isinstance(value[key], str):
            raise EventInvalid(f"{key} is not text")
    if value["schema_version"] != SCHEMA_VERSION or isinstance(value["schema_version"], bool):
        raise EventInvalid("unknown schema_version")
    if not isinstance(value["seq"], int) or isinstance(value["seq"], bool) or value["seq"] < 1:
        raise EventInvalid("seq is not a positive number")
    if not isinstance(value["data"], dict):
        raise EventInvalid("data is not an object")
    if not _HEX64.fullmatch(value["hash"]) or not _HEX64.fullmatch(value["prev"]):
        raise EventInvalid("hash or prev is not a sha256")
    outside = value["type"] in OUTSIDE_TYPES
    for key in _FAMILY_KEYS:
        if outside and key == "run_id" and isinstance(value[key], (str, type(None))):
            continue
        if (value[key] is None) != outside or not isinstance(value[key], (str, type(None))):
            raise EventInvalid(f"{key} does not fit the type")
    ordinal = value["ordinal"]
    if (
        outside != (ordinal is None)
        or isinstance(ordinal, bool)
        or not isinstance(ordinal, (int, type(None)))
    ):
        raise EventInvalid("ordinal does not fit the type")
    try:
        if datetime.fromisoformat(value["at"]).tzinfo is None:
            raise EventInvalid("at has no offset")
        date.fromisoformat(value["day"])
    except ValueError as error:
        raise EventInvalid("at or day is not a date") from error


def _check_ids(event: Event) -> None:
    if event.family is not None and event.report_id is not None and event.ordinal is not None:
        if event.ordinal < 1:
            raise EventInvalid("ordinal is not positive")
        if event.family != family_id(event.account, event.day, event.report_id, event.ordinal):
            raise EventInvalid("family does not fit account, day, report and ordinal")
    if event.event_id != event_id(event.family or event.prev, event.type):
        raise EventInvalid("event_id does not fit family and type")
