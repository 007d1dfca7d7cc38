"""P03: which file on the phone is this report (ruling R14; design 5 "Trigger and cache match").

Candidates are pulled through `candidate-<n>.tmp`, which is not evidence; after the identity is journalled
nothing about *which* file is decided any more. A file that stands still but is no whole PDF gets a little
patience; after that its own name may identify it, so that the checks of P05 can say what is wrong with it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final

import attrs

from hibor.device.errors import DeviceError
from hibor.device.profile_types import Profile
from hibor.device.protocol import RemoteFile
from hibor.items.draft import CacheIdentity
from hibor.items.effects import export
from hibor.items.failures import EffectFailure
from hibor.package.match import (
    Ambiguous,
    Candidate,
    Match,
    NoMatch,
    Wanted,
    judge,
    judge_by_name,
    named_like,
    same_state,
    settled,
)
from hibor.pdf import PdfReport, check_pdf

if TYPE_CHECKING:
    from hibor.items.item import ItemRun

UNWHOLE_PATIENCE_S: Final = 20.0
"""How long a file may stand still and be no whole PDF before it is taken for the app's answer, in seconds: an
app may pause in the middle of a download under the final name (fault F27)."""
PASSING: Final = frozenset({"link_lost", "command_timeout", "device_offline", "server_unreachable"})
"""Failures of the link that may pass by themselves."""
RECOGNISE_S: Final = 6.0
"""Real seconds a candidate may take to be looked into; the phone waits meanwhile. The check proper has
more."""
LATER_LOOK_S: Final = 30.0
"""How long an uncertain trigger's one later look lasts, in seconds."""
RECOVERY_LOOK_S: Final = 45.0
"""How long a recovery looks at least for a paid file: `UNWHOLE_PATIENCE_S` and time to pull what stands
there, in seconds."""
SHARE_SPARE_S: Final = 2.0
"""What of recovery's share of the window is left when a file is given up, in seconds."""
LATE_LOOKS: Final = 2
"""Looks after a search's limit that a file which is there may still have to prove that it stands still."""
WAIT_SHARE: Final = 0.03
LEAST_PAUSE_S: Final = 0.02
QUICK_BYTES: Final = 16 * 1024 * 1024
"""Up to this size a file is pulled within a second or so, and a dump taken while it settles is still fresh
then."""


@attrs.define
class Search:
    """What one search has seen: looks at each path, and what was pulled in which state."""

    looks: dict[str, list[tuple[float, RemoteFile | None]]] = attrs.field(factory=dict)
    pulled: dict[str, tuple[RemoteFile, Candidate, PdfReport]] = attrs.field(factory=dict)

    def note(self, at_s: float, new: Mapping[str, RemoteFile]) -> None:
        """One look: the new files by path."""
        for path in {*new, *self.looks}:
            self.looks.setdefault(path, []).append((at_s, new.get(path)))

    def present(self) -> list[RemoteFile]:
        """The files of the last look."""
        return [file for looks in self.looks.values() if (file := looks[-1][1]) is not None]

    def unproved(self, settle_s: float) -> bool:
        """True when some file of the last look was not seen for long enough to stand still."""
        return any(at_s - since_s < settle_s for since_s, at_s in self.still_since())

    def still_since(self) -> list[tuple[float, float]]:
        """For each of them, when it was first and last seen as it is now, in the clock's seconds."""
        found = []
        for looks in self.looks.values():
            last_s, last = looks[-1]
            since_s = last_s
            for at_s, file in reversed(looks):
                if last is None or file is None or not same_state(file, last):
                    break
                since_s = at_s
            if last is not None:
                found.append((since_s, last_s))
        return found


def wanted_of(item: ItemRun) -> Wanted:
    """What the file is looked for by."""
    entry = item.job.entry
    return Wanted(
        title=entry.title,
        institution=entry.institution,
        date=entry.date,
        stock_code=entry.stock_code,
        stock_name=entry.stock_name,
        page_count=entry.page_count_hint,
    )


def match(item: ItemRun) -> str:
    """Poll the cache until this report's file stands still and is recognised; then `matched`."""
    services, draft = item.services, item.draft
    if draft.changes_seen > 1:
        raise EffectFailure("remote_changed", "the file changed twice while it was pulled")
    known = draft.identity
    if known is not None and known.same_file(services.require_device().stat(known.path)):
        return "matched"
    limit_s = _patience_s(item)
    if export.needed(item):
        draft.identity = (
            find_now(item) if item.recovering else None
        )  # an earlier run may have exported it already
        if draft.identity is not None:
            return "matched"
        export.export(item)
    draft.identity = search(item, limit_s if not export.needed(item) else 0.0)
    if draft.identity is None:
        words = f"no file for this report appeared within {limit_s:.0f} s"
        raise EffectFailure("no_new_file", words + _found_instead(item))
    return "matched"


def _patience_s(item: ItemRun) -> float:
    """How long the file is waited for.

    A recovery has a share of the window that may be shorter than an app's own time: what is left of that time
    since the tap is waited, `RECOVERY_LOOK_S` at least, and no longer than the share lasts, so that a file
    that does not come is what the report fails for, and not the share's end (design 4 "Recovery").
    """
    services = item.services
    limit_s = services.require_profile().cache.timeout_s
    if not item.recovering:
        return limit_s
    services.deadline.require_phone_time(SHARE_SPARE_S)
    tapped = [record.at for record in item.journal.records if record.event == "TRIGGER_INTENT"]
    since = [(services.clock.now() - datetime.fromisoformat(at)).total_seconds() for at in tapped]
    left_s = max(RECOVERY_LOOK_S, limit_s - max(0.0, since[-1] if since else limit_s))
    return min(left_s, services.deadline.remaining_s() - SHARE_SPARE_S)


def _found_instead(item: ItemRun) -> str:
    """What to say of a new file that has the report's name and still is not the report."""
    new = item.services.require_cache().new_since(item.draft.baseline)
    named = [file for file in new if named_like(file.path, item.job.entry)]
    if not named:
        return ""
    empty = all(file.size_bytes == 0 for file in named)
    return "; the one with its name " + ("stays empty" if empty else "holds something else")


def find_now(item: ItemRun) -> CacheIdentity | None:
    """One look at the cache, long enough for a file to prove that it stands still."""
    return search(item, item.services.require_profile().cache.settle_s * 3)


def find_later(item: ItemRun, *, under_way: bool) -> CacheIdentity | None:
    """An uncertain trigger's one later look: a little longer, and as long as for a confirmed download where
    one is plainly `under_way`."""
    return search(item, _patience_s(item) if under_way else LATER_LOOK_S)


def search(item: ItemRun, limit_s: float) -> CacheIdentity | None:
    """The report's file among those new since the baseline, None when `limit_s` passed without one.

    Looking costs nothing, so a link that drops is waited for as long as the file itself would be. A file that
    was seen and had no time yet to prove that it stands still, or that it is all the app will give, is looked
    at again after the limit: where one look takes long, the limit would else pass with a file that is there.
    """
    services, profile = item.services, item.services.require_profile()
    clock, seen = services.clock, Search()
    end_s, late_looks = clock.monotonic_s() + limit_s, 0
    while True:
        try:
            found = look_once(item, seen)
        except DeviceError as error:
            if error.failure not in PASSING or clock.monotonic_s() >= end_s:
                raise
            services.log.info("item %s: the cache could not be looked at: %s", item.job.item_id, error.detail)
            found = None
        if found is not None:
            return found
        if clock.monotonic_s() >= end_s:
            if late_looks == LATE_LOOKS or not seen.unproved(UNWHOLE_PATIENCE_S):
                return None
            late_looks += 1
        services.deadline.require_phone_time()
        # An export begins on this report's page, which is therefore not left.
        if item.while_waiting is not None and not export.needed(item):
            with _watching(item, seen):
                item.use_the_wait()
            continue
        present = seen.present()
        quick = max((file.size_bytes for file in present), default=0) <= QUICK_BYTES
        look = item.look_ahead(settling=bool(present)) if quick else None
        if look is not None:
            with _watching(item, seen):
                look()
            continue
        clock.sleep(_pause_s(seen, profile, clock.monotonic_s(), end_s - limit_s))


@contextmanager
def _watching(item: ItemRun, seen: Search) -> Iterator[None]:
    """Within: the cache is looked at beside whatever is done, so that a file's standing still begins to
    count when it comes and not when the lane is free again. Only listings: nothing is pulled or tapped."""
    clock, cache, poll_s = item.services.clock, item.services.require_cache(), _poll_s(item)
    done = threading.Event()
    real_s = poll_s / float(getattr(clock, "scale", 1.0))

    def watch() -> None:
        try:
            while not done.wait(real_s):
                now_s = clock.monotonic_s()
                seen.note(now_s, {file.path: file for file in cache.new_since(item.draft.baseline)})
        except DeviceError as error:
            item.services.log.info("the cache could not be watched: %s", error.detail)

    thread = threading.Thread(target=watch, name="cache-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _poll_s(item: ItemRun) -> float:
    """How often the cache is looked at, in seconds; a file settles over two such looks at the least."""
    profile = item.services.require_profile()
    return min(profile.pace.poll_s, profile.cache.settle_s / 2)


def _pause_s(seen: Search, profile: Profile, now_s: float, begun_s: float) -> float:
    """How long until the next look, in seconds: to the moment a file has stood still for long enough, else
    a small share of what was waited already, so that noticing late costs little in proportion."""
    poll_s, settle_s = profile.pace.poll_s, profile.cache.settle_s
    due_s = [since_s + settle_s - now_s for since_s, at_s in seen.still_since() if at_s - since_s < settle_s]
    pause_s = min(poll_s, max(poll_s / 3, (now_s - begun_s) * WAIT_SHARE))
    return max(LEAST_PAUSE_S, min([pause_s, settle_s / 2, *due_s]))


def look_once(item: ItemRun, seen: Search) -> CacheIdentity | None:
    """One look at the cache; `seen` holds what earlier looks saw."""
    services, settle_s = item.services, item.services.require_profile().cache.settle_s
    now_s = services.clock.monotonic_s()
    new = {file.path: file for file in services.require_cache().new_since(item.draft.baseline)}
    seen.note(now_s, new)
    still = [file for path, file in sorted(new.items()) if settled(seen.looks[path], settle_s)]
    for file in still:
        _look_into(item, seen, file)
    whole = [seen.pulled[file.path] for file in still if file.path in seen.pulled]
    verdict = judge(wanted_of(item), [candidate for _file, candidate, report in whole if report.ok])
    if not isinstance(verdict, (Match, Ambiguous)):
        verdict = _judge_unwhole(item, seen, new)
    if isinstance(verdict, Ambiguous):
        raise EffectFailure("cache_ambiguous", f"{len(verdict.paths)} different files fit this report")
    if not isinstance(verdict, Match):
        return None
    file, candidate, _report = seen.pulled[verdict.path]
    return identity_of(file, candidate.sha256, verdict.basis)


def _judge_unwhole(item: ItemRun, seen: Search, new: Mapping[str, RemoteFile]) -> Match | NoMatch | Ambiguous:
    """Files that stood still for long and are no whole PDFs: by what can be read, else by their names."""
    stuck = [file for path, file in sorted(new.items()) if settled(seen.looks[path], UNWHOLE_PATIENCE_S)]
    for file in stuck:
        _look_into(item, seen, file)
    candidates = [seen.pulled[file.path][1] for file in stuck if file.path in seen.pulled]
    verdict = judge(wanted_of(item), [one for one in candidates if one.page_count])
    if isinstance(verdict, (Match, Ambiguous)):
        return verdict
    return judge_by_name(wanted_of(item), candidates)


def _look_into(item: ItemRun, seen: Search, file: RemoteFile) -> None:
    """Pull a file aside and look into it, once for each of its states."""
    known = seen.pulled.get(file.path)
    if known is not None and same_state(known[0], file):
        return
    taken = _take(item, file, len(seen.pulled) + 1)
    if taken is not None:
        seen.pulled[file.path] = (file, *taken)


def identity_of(file: RemoteFile, sha256: str, basis: str) -> CacheIdentity:
    """The identity of a file on the phone whose bytes have been seen."""
    return CacheIdentity(file.path, file.size_bytes, file.mtime_s, file.inode, sha256, basis)


def _take(item: ItemRun, file: RemoteFile, number: int) -> tuple[Candidate, PdfReport] | None:
    """Pull a candidate aside, look into it, remove it. None when it changed or could not be read
    meanwhile."""
    services = item.services
    path = item.folder.candidate(number)
    sink = services.durable.open_sink(path, step="candidate.fill")
    try:
        services.require_device().pull(
            file.path, sink, limit_bytes=services.pull_limit_bytes, expected_bytes=file.size_bytes
        )
    except DeviceError as error:
        if error.failure in ("short_pull", "remote_changed", "remote_vanished"):
            return None
        raise
    finally:
        sink.abandon()
        report = check_pdf(path, timeout_s=RECOGNISE_S)
        services.durable.remove(path, step="candidate.remove")
    if sink.size_bytes != file.size_bytes:
        return None
    said = services.require_device().sha256(file.path)
    if said is not None and said != sink.sha256:
        return None  # a flipped bit on the way must not become the file's identity
    return Candidate(file.path, sink.sha256, report.page_count, report.text_page1), report


def identity_journal(item: ItemRun) -> None:
    """Step `identity.journal`: which file it is, for good; said once."""
    identity = item.draft.identity
    if identity is None:
        raise EffectFailure("unexpected", "a match without an identity")
    data = {"identity": attrs.asdict(identity)}
    last = item.journal.last("CACHE_IDENTITY")
    if item.draft.mark == "CACHE_IDENTITY" and last is not None and last.data == data:
        return  # a run that ended right after this record
    item.note("CACHE_IDENTITY", data, step="identity.journal")
