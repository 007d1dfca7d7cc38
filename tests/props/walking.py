"""What the two walks share: items made to fail with a code, the sealed files, and how deep a walk goes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from unittest.mock import patch

from hypothesis import settings

from hibor.items.effects import WORK
from hibor.items.failures import EffectFailure
from hibor.items.item import ItemRun
from tests.fsm import v006
from tests.props.invariants import tree

STEPS = (
    "publish.link",
    "artifact.append",
    "reject.append",
    "manifest.append",
    "delivery.write",
    "timing.write",
    "terminal.write",
    "closing.journal",
    "kept.journal",
    "code.journal",
    "reserve.append",
    "staging.remove",
)
ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS)
CALLS = ("write", "fsync", "link")


def deep() -> bool:
    """Whether the long walks are wanted: `--hypothesis-profile=deep` or HIBOR_DEEP=1."""
    return settings.get_current_profile_name() == "deep" or os.environ.get("HIBOR_DEEP") == "1"


def short_node(item: ItemRun) -> str:
    """`P02-N`: the node an item stands at."""
    state, _, letter = item.machine.node.partition("-")
    return v006.SHORT_OF[state] + (f"-{letter}" if letter else "")


def admissible(item: ItemRun) -> list[str]:
    """Every code the item may stop with where it stands (V006 §4); none outside the defined cells."""
    node, quota = short_node(item), item.draft.quota_state
    if quota not in v006.NODE_QUOTA.get((item.job.lane, node), ()):
        return []
    if node.endswith("-V") and node != "P02-V":
        return [str(item.draft.verdict_code)]  # the verdict is durable: it is closed with its own code
    return sorted(v006.domain(node, quota))


@contextmanager
def made_to_fail(code: str) -> Iterator[None]:
    """Within: every work ends with `code`; a durable verdict is closed as ever."""

    def fail(_item: ItemRun) -> str:
        raise EffectFailure("unexpected", "made to fail", code=code)

    works = {**dict.fromkeys(WORK, fail), "finish_rejected": WORK["finish_rejected"]}
    with patch("hibor.items.item.WORK", MappingProxyType(works)):
        yield


def sealed(root: Path) -> dict[str, bytes]:
    """Finals and terminals: what never changes once it is there."""
    return {
        name: data
        for name, data in tree(root).items()
        if name.startswith("reports/") or name.endswith("terminal.json")
    }
