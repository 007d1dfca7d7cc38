"""The guards edges name (spec/edges.yaml `guards`), as functions of an item's facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import attrs


@attrs.frozen
class Facts:
    """What guards may know of an item, beside its node."""

    quota_state: str = "NONE"
    cache_identity_known: bool = False


def may_seek(facts: Facts) -> bool:
    """CONFIRMED enters at once, UNCERTAIN only with the cache identity known (ruling R14)."""
    return facts.quota_state == "CONFIRMED" or (
        facts.quota_state == "UNCERTAIN" and facts.cache_identity_known
    )


GUARDS: Final[Mapping[str, Callable[[Facts], bool]]] = MappingProxyType({"may_seek": may_seek})
