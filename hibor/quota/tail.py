"""The unfinished last line of a ledger: told apart from an acknowledged one that was damaged.

Rules of this file: it reads and changes nothing. A line that somebody noted was acknowledged; torn, it is
damaged and not unfinished, and nothing is to be moved aside.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hibor.quota.errors import LedgerInvalid
from hibor.quota.events import Head
from hibor.quota.family import Automaton
from hibor.quota.fold import Fold
from hibor.quota.index import index_path, noted_by_index
from hibor.quota.scan import Marks, check_heads, scan
from hibor.reading import read_kept


def unfinished_tail(
    path: Path, account: str, automaton: Automaton, heads: Iterable[Head]
) -> tuple[int, int] | None:
    """Offset and size of an unfinished last line; `LedgerInvalid` when something else is wrong.

    A head somebody noted proves that its line was acknowledged: then the line is damaged, not unfinished.
    """
    try:
        scan(path, account, Fold(automaton), Marks())
    except LedgerInvalid as error:
        if not error.torn:
            raise
    else:
        return None
    data = read_kept(path)
    start = data.rfind(b"\n", 0, len(data) - 1 if data.endswith(b"\n") else len(data)) + 1
    marks = Marks()
    place = scan(path, account, Fold(automaton), marks, end_bytes=start)
    check_heads(path, place, marks, heads)
    check_heads(path, place, marks, noted_by_index(path, account), index=index_path(path).name)
    return start, len(data) - start
