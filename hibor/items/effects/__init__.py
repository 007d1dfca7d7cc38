"""Effects: what work and steps do to the phone, the disk and the ledger. None of them decides the next state.

`WORK` has a function for every work the edges name: it returns an event or raises a failure. `STEPS` has one
for
every durable step of an item: it returns when the step is durable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hibor.items.effects import match, persist, publish, pull, reserve, reuse, trigger, verify

if TYPE_CHECKING:
    from hibor.items.item import ItemRun

Work = Callable[["ItemRun"], str]
StepAction = Callable[["ItemRun"], None]

WORK: Final[Mapping[str, Work]] = MappingProxyType(
    {
        "abandon": reserve.abandon,
        "admit": reserve.admit,
        "advance": persist.advance,
        "check": verify.check,
        "decide": trigger.decide,
        "finish_rejected": verify.finish_rejected,
        "halt": reserve.halt,
        "look": trigger.look,
        "match": match.match,
        "open_detail": trigger.open_detail,
        "pull": pull.pull,
        "trigger": trigger.trigger,
        "validate": reuse.validate,
    }
)

STEPS: Final[Mapping[str, StepAction]] = MappingProxyType(
    {
        "artifact.append": publish.artifact_append,
        "changed.journal": pull.changed_journal,
        "closing.journal": persist.closing_journal,
        "code.journal": publish.code_journal,
        "confirm.append": partial(trigger.append_quota, event_type="CONFIRMED", step="confirm.append"),
        "delivery.write": persist.delivery_write,
        "doubt.append": partial(trigger.append_quota, event_type="UNCERTAIN", step="doubt.append"),
        "duplicate.append": publish.duplicate_append,
        "identity.journal": match.identity_journal,
        "intent.journal": trigger.intent_journal,
        "kept.journal": persist.kept_journal,
        "manifest.append": persist.manifest_append,
        "open.journal": reserve.open_journal,
        "publish.folder": publish.publish_folder,
        "publish.journal": publish.publish_journal,
        "publish.link": publish.publish_link,
        "quarantine.publish": publish.quarantine_publish,
        "reject.append": publish.reject_append,
        "release.append": partial(trigger.append_quota, event_type="RELEASED", step="release.append"),
        "reserve.append": reserve.reserve_append,
        "reuse.journal": reuse.reuse_journal,
        "seek.journal": trigger.seek_journal,
        "staging.create": pull.staging_create,
        "staging.fill": pull.staging_fill,
        "staging.remove": pull.staging_remove,
        "terminal.write": persist.terminal_write,
        "timing.write": persist.timing_write,
    }
)
