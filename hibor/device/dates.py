"""Dates as the app writes them, made absolute by the phone's clock (design 5, "App profile").

Rules of this file: pure; what is not understood is None, never today; a month and day without a year that
would lie in the future belong to last year; `now` is the phone's clock at the moment of the dump, in the
phone's zone.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Final

_FULL: Final = re.compile(r"(?<!\d)(20\d{2})\s*[-/.年]\s*(\d{1,2})\s*[-/.月]\s*(\d{1,2})(?!\d)")
_COMPACT: Final = re.compile(r"(?<!\d)(20\d{2})(\d{2})(\d{2})(?!\d)")
_SHORT: Final = re.compile(r"^(\d{2})(\d{2})(\d{2})$")
_MONTH_DAY: Final = re.compile(r"(?<![\d:])(\d{1,2})\s*[-/月.]\s*(\d{1,2})(?![\d:])")
_AGO: Final = re.compile(
    r"(\d+|半|[一二两三四五六七八九十])\s*(?:个)?\s*(秒|分钟|分|小时|天|日|周)\s*(?:以)?前"
)
_DAY_WORDS: Final = (("大前天", 3), ("前天", 2), ("昨天", 1), ("昨日", 1), ("今天", 0), ("今日", 0))
_NOW_WORDS: Final = ("刚刚", "刚才")
_CLOCK: Final = re.compile(r"(?<!\d)([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?!\d)")
_NUMBERS: Final = {word: value for value, word in enumerate("一二三四五六七八九十", 1)} | {"两": 2}


def _made(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _ago(amount: str, unit: str, now: datetime) -> date:
    count = 0.5 if amount == "半" else float(_NUMBERS.get(amount, 0) or amount)
    seconds = {"秒": 1, "分": 60, "分钟": 60, "小时": 3600, "天": 86400, "日": 86400, "周": 604800}[unit]
    return (now - timedelta(seconds=count * seconds)).date()


def parse_date(text: str, now: datetime) -> date | None:
    """`2026-11-30`, `20261130`, `261130`, `11-30`, `今天 08:31`, `昨天`, `3小时前`, `08:31` → date."""
    text = text.strip()
    for pattern in (_FULL, _COMPACT):
        match = pattern.search(text)
        if match:
            return _made(int(match.group(1)), int(match.group(2)), int(match.group(3)))
    match = _SHORT.match(text)
    if match:
        return _made(2000 + int(match.group(1)), int(match.group(2)), int(match.group(3)))
    for word, days in _DAY_WORDS:
        if word in text:
            return (now - timedelta(days=days)).date()
    if any(word in text for word in _NOW_WORDS):
        return now.date()
    match = _AGO.search(text)
    if match:
        return _ago(match.group(1), match.group(2), now)
    match = _MONTH_DAY.search(text)
    if match:
        month, day = int(match.group(1)), int(match.group(2))
        found = _made(now.year, month, day)
        if found is None or found > now.date() + timedelta(days=1):
            return _made(now.year - 1, month, day)
        return found
    return now.date() if _CLOCK.search(text) else None
