"""P04: the bytes, streamed once: written, counted, hashed in one pass (rulings R11, R13, R14; design 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hibor.device.errors import DeviceError
from hibor.items.draft import CacheIdentity
from hibor.items.failures import EffectFailure

if TYPE_CHECKING:
    from hibor.items.item import ItemRun

MOST_PULLS: Final = 3
"""A broken link is no verdict on the file: the pull is repeated this often in all (ruling R11)."""
_AGAIN: Final = frozenset({"link_lost", "short_pull", "command_timeout", "pull_hash_mismatch"})


def staging_create(item: ItemRun) -> None:
    """Step `staging.create`: an empty staging file; a leftover is never trusted."""
    services = item.services
    item.draft.sink = services.durable.open_sink(item.folder.staging, step="staging.create")


def pull(item: ItemRun) -> str:
    """Fill the staging file from the identified file; `changed` when that file is not what it was."""
    identity = item.draft.identity
    if identity is None:
        raise EffectFailure("unexpected", "a pull without an identity")
    item.services.deadline.require_phone_time()
    for attempt in range(1, MOST_PULLS + 1):
        try:
            return _pull_once(item, identity)
        except (DeviceError, EffectFailure) as error:
            if error.failure == "remote_changed":
                return "changed"
            if error.failure not in _AGAIN or attempt == MOST_PULLS:
                raise
            item.services.log.warning("pull %d of %s: %s", attempt, item.job.item_id, error.detail)
            if item.draft.sink is not None:
                item.draft.sink.abandon()
                item.draft.sink = None
    raise EffectFailure("unexpected", "the pulls ran out")


def _pull_once(item: ItemRun, identity: CacheIdentity) -> str:
    device, services = item.services.require_device(), item.services
    if not identity.same_file(device.stat(identity.path)):
        return "changed"
    if item.draft.sink is None:
        staging_create(item)
    sink = item.draft.sink
    assert sink is not None
    device.pull(
        identity.path, sink, limit_bytes=services.pull_limit_bytes, expected_bytes=identity.size_bytes
    )
    if not identity.same_file(device.stat(identity.path)):
        return "changed"
    if sink.size_bytes != identity.size_bytes:
        raise EffectFailure("short_pull", f"{sink.size_bytes} bytes came of {identity.size_bytes}")
    if sink.sha256 != identity.sha256:
        raise EffectFailure("pull_hash_mismatch", "the bytes differ from those the file was recognised by")
    return "pulled"


def staging_fill(item: ItemRun) -> None:
    """Step `staging.fill`: fsync, reopen, hash (ruling R13)."""
    sink = item.draft.sink
    if sink is None:
        raise EffectFailure("unexpected", "a staging file is finished that was never begun")
    sink.finish(step="staging.fill")
    item.draft.sink = None


def staging_remove(item: ItemRun) -> None:
    """Step `staging.remove`: the name goes; a published final keeps the bytes."""
    draft, services = item.draft, item.services
    if draft.sink is not None:
        draft.sink.abandon()
        draft.sink = None
    services.durable.remove(item.folder.staging, step="staging.remove")


def changed_journal(item: ItemRun) -> None:
    """Step `changed.journal`: back to P03, with what is known forgotten and counted (ruling R14)."""
    data = {
        "state": item.services.tables.states[3],
        "changes_seen": item.draft.changes_seen + 1,
        "forget_identity": True,
    }
    item.note("STATE", data, step="changed.journal")
