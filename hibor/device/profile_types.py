"""The parts an app profile is made of: value types with their own rules (design 5, "App profile").

Rules of this file: data only, no reading of files or screens; no default invents an anchor. Lengths of time
are seconds, lengths on the screen pixels; regular expressions are Python's, searched (not matched) unless
anchored. A profile can only describe buttons a person would press: it cannot dismiss privacy, permission or
update dialogs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

import attrs

FIELD_NAMES: Final = (
    "title",
    "institution",
    "date",
    "code",
    "pages",
    "stock_code",
    "stock_name",
    "industry",
    "rating",
    "report_type",
    "analysts",
    "summary",
    "time",
)
_FORBIDDEN_DIALOGS: Final = re.compile(
    r"隐私|权限|更新|升级|用户协议|privacy|permission|update", re.IGNORECASE
)

Source = Literal["text", "desc", "label"]
AccessKind = Literal["login", "kicked", "captcha", "member", "quota", "risk"]


def _regex(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Validator: a regular expression, or several, that compile."""
    patterns = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, tuple) else ()
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{attribute.name}: not a regular expression: {error}") from error


def _seconds(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    if not 0 <= value <= 3600:
        raise ValueError(f"{attribute.name}: seconds between 0 and 3600")


@attrs.frozen
class Anchor:
    """How one node is recognised; every condition that is given must hold.

    `id`: resource id, with or without `package:id/`. `text`, `desc`: the whole text or content description.
    `text_matches`, `desc_matches`: regular expressions. `class_name`: the whole class. `clickable`: as
    dumped. `within`: the resource id of some ancestor.
    """

    id: str | None = None
    text: str | None = None
    text_matches: str | None = attrs.field(default=None, validator=attrs.validators.optional(_regex))
    desc: str | None = None
    desc_matches: str | None = attrs.field(default=None, validator=attrs.validators.optional(_regex))
    class_name: str | None = None
    clickable: bool | None = None
    within: str | None = None

    def __attrs_post_init__(self) -> None:
        if all(getattr(self, name) is None for name in _CONDITIONS):
            raise ValueError("an anchor needs at least one of " + ", ".join(_CONDITIONS))

    def describe(self) -> str:
        """The given conditions, for messages."""
        given = attrs.asdict(self, filter=lambda _, value: value is not None)
        return ", ".join(f"{key}={value!r}" for key, value in given.items())


_CONDITIONS: Final = ("id", "text", "text_matches", "desc", "desc_matches", "class_name")


@attrs.frozen
class FieldRule:
    """Where a field stands inside a row or page.

    `id` or `class_name` choose the nodes, `nth` one of them (from 0; without both: of all nodes with a text).
    Without all three `pattern` chooses: the first node whose text it is found in.
    `source`: text, desc, or label (text, else desc). `pattern`: regular expression; its group `value`, else
    the whole match, is the field; other named groups fill the fields of their names. `optional`: may be
    absent.
    """

    id: str | None = None
    class_name: str | None = None
    nth: int | None = None
    source: Source = "label"
    pattern: str | None = attrs.field(default=None, validator=attrs.validators.optional(_regex))
    optional: bool = False

    def __attrs_post_init__(self) -> None:
        if self.id is None and self.class_name is None and self.nth is None and self.pattern is None:
            raise ValueError("a field needs id, class_name, nth or pattern")


@attrs.frozen
class FieldRules:
    """The fields an app shows. `code` is the report id the app itself prints; without it one is derived."""

    title: FieldRule | None = None
    institution: FieldRule | None = None
    date: FieldRule | None = None
    code: FieldRule | None = None
    pages: FieldRule | None = None
    stock_code: FieldRule | None = None
    stock_name: FieldRule | None = None
    industry: FieldRule | None = None
    rating: FieldRule | None = None
    report_type: FieldRule | None = None
    analysts: FieldRule | None = None
    summary: FieldRule | None = None
    time: FieldRule | None = None

    def items(self) -> Iterator[tuple[str, FieldRule]]:
        """The rules that are given, by field name."""
        for attribute in attrs.fields(FieldRules):
            rule = getattr(self, attribute.name)
            if rule is not None:
                yield attribute.name, rule


@attrs.frozen
class MergedRule:
    """Several fields in one node: the named groups of `pattern` are field names (券商-个股-代码-标题-YYMMDD).

    `id`: the node inside the row; None: the row itself (on a page: the first node that fits). `source` as in
    a field.
    """

    pattern: str = attrs.field(validator=_regex)
    id: str | None = None
    source: Source = "label"

    def __attrs_post_init__(self) -> None:
        unknown = set(re.compile(self.pattern).groupindex) - set(FIELD_NAMES)
        if unknown or not re.compile(self.pattern).groupindex:
            raise ValueError(f"pattern: named groups must be field names, not {sorted(unknown)}")


@attrs.frozen
class RowRule:
    """What a row is: nodes with resource id `id`, or nodes `anchor` fits, or, without both, every direct
    child of the container that is at least `min_height_px` high and holds at least `min_texts` texts
    (repeated shape)."""

    id: str | None = None
    anchor: Anchor | None = None
    min_texts: int = 2
    min_height_px: int = 24


@attrs.frozen
class RowKinds:
    """Rows that are no entries: a row that is, or holds, such a node. Pinned rows are read, but never new."""

    advert: tuple[Anchor, ...] = ()
    pinned: tuple[Anchor, ...] = ()
    announcement: tuple[Anchor, ...] = ()


@attrs.frozen
class Route:
    """How a list is reached from the app's start: taps in order, then, optionally, ASCII text typed into the
    node `text_into` and Enter. Each route is a namespace of its own for discovery."""

    name: str
    taps: tuple[Anchor, ...] = ()
    text: str | None = None
    text_into: Anchor | None = None

    def __attrs_post_init__(self) -> None:
        if (self.text is None) != (self.text_into is None):
            raise ValueError("text and text_into belong together")
        if self.text is not None and not all(" " <= letter <= "~" for letter in self.text):
            raise ValueError("text: only printable ASCII can be typed")


@attrs.frozen
class AppSection:
    """`package`, the label people see, the `versions` this profile was tested with (versionName), and the
    activities of list and detail page (a second sign of where we are; empty: not used)."""

    package: str
    label: str
    versions: tuple[str, ...]
    list_activity: str = ""
    detail_activity: str = ""


@attrs.frozen
class PaceSection:
    """Waits, in seconds: `max_dump_age_s` a tap's target may be old; `page_settle_s` after a tap before the
    first dump (0 where the dump itself waits for rest); `page_change_s` until a page that does not come is
    given up; `poll_s` between dumps while waiting; `swipe_settle_s` after a swipe. `swipe_px_per_s`: the
    finger's speed, slow enough not to fling the list; `swipe_share`: the longest swipe as a share of the
    list's height."""

    max_dump_age_s: float = attrs.field(default=3.0, validator=_seconds)
    page_settle_s: float = attrs.field(default=0.6, validator=_seconds)
    page_change_s: float = attrs.field(default=12.0, validator=_seconds)
    poll_s: float = attrs.field(default=0.5, validator=_seconds)
    swipe_settle_s: float = attrs.field(default=0.5, validator=_seconds)
    swipe_px_per_s: float = attrs.field(default=1200.0, validator=attrs.validators.ge(100.0))
    swipe_share: float = attrs.field(
        default=0.7, validator=[attrs.validators.ge(0.2), attrs.validators.le(0.9)]
    )


@attrs.frozen
class ListSection:
    """The list page: `anchors` that must all be there, the scrolling `container`, rows, kinds, fields (or one
    `merged` node), `end_texts` (proof of the end), `not_end_texts` (loading, retry: never an end)."""

    anchors: tuple[Anchor, ...]
    container: Anchor
    row: RowRule
    fields: FieldRules = FieldRules()
    merged: MergedRule | None = None
    kinds: RowKinds = RowKinds()
    routes: tuple[Route, ...] = (Route("default"),)
    end_texts: tuple[str, ...] = attrs.field(default=(), validator=_regex)
    not_end_texts: tuple[str, ...] = attrs.field(default=(), validator=_regex)

    def __attrs_post_init__(self) -> None:
        if self.merged is None and (self.fields.title is None or self.fields.institution is None):
            raise ValueError("fields.title and fields.institution, or merged, are needed")
        if len({route.name for route in self.routes}) != len(self.routes) or not self.routes:
            raise ValueError("routes: at least one, each with its own name")


@attrs.frozen
class DetailSection:
    """The detail page: `anchors` that must all be there, fields (or one `merged` node), `opening_is_free`
    (doctor may open one unasked), `survives_leaving` (a download goes on after the page is left)."""

    anchors: tuple[Anchor, ...]
    fields: FieldRules = FieldRules()
    merged: MergedRule | None = None
    opening_is_free: bool = False
    survives_leaving: bool = False

    def __attrs_post_init__(self) -> None:
        if self.fields.title is None and self.merged is None:
            raise ValueError("fields.title, or merged, is needed")


@attrs.frozen
class Step:
    """One control of the trigger, tapped once. `tap`: the control. `requires`: what must be on the screen
    before it. `paying`: the tap that spends quota; exactly one step has it."""

    name: str
    tap: Anchor
    requires: tuple[Anchor, ...] = ()
    paying: bool = False


@attrs.frozen
class TriggerSection:
    """The download button (`button`), its texts in each state (`idle`, `busy`, `done`: regular expressions;
    `done` is never tapped), the `steps`, the confirm dialog's root, texts that prove success anywhere
    (`success_texts`), and `settle_s`: how long nothing must happen before "not occurred" may be said."""

    button: Anchor
    idle: tuple[str, ...] = attrs.field(validator=_regex)
    busy: tuple[str, ...] = attrs.field(validator=_regex)
    done: tuple[str, ...] = attrs.field(validator=_regex)
    steps: tuple[Step, ...]
    confirm_dialog: Anchor | None = None
    cancel: Anchor | None = None
    success_texts: tuple[str, ...] = attrs.field(default=(), validator=_regex)
    settle_s: float = attrs.field(default=8.0, validator=_seconds)

    def __attrs_post_init__(self) -> None:
        if sum(step.paying for step in self.steps) != 1:
            raise ValueError("steps: exactly one is the paying one")
        if len({step.name for step in self.steps}) != len(self.steps):
            raise ValueError("steps: each has its own name")


@attrs.frozen
class Dialog:
    """A dialog the collector may close: recognised by `root` and `text` (regular expression), closed by
    tapping `dismiss`. At most `MAX_DISMISSALS` a run; never one about privacy, permissions or updates."""

    name: str
    root: Anchor
    text: str = attrs.field(validator=_regex)
    dismiss: Anchor

    def __attrs_post_init__(self) -> None:
        if _FORBIDDEN_DIALOGS.search(self.name) or _FORBIDDEN_DIALOGS.search(self.text):
            raise ValueError("privacy, permission and update dialogs are never dismissed by the collector")


MAX_DISMISSALS: Final = 3


@attrs.frozen
class AccessMarker:
    """A wall: any of `ids` on the screen, or any of `texts` (regular expressions) outside list rows and
    report fields. `kind` says which (login, kicked, captcha, member, quota, risk)."""

    kind: AccessKind
    ids: tuple[str, ...] = ()
    texts: tuple[str, ...] = attrs.field(default=(), validator=_regex)

    def __attrs_post_init__(self) -> None:
        if not self.ids and not self.texts:
            raise ValueError("an access marker needs ids or texts")


@attrs.frozen
class HistorySection:
    """The app's own download history: taps that lead there from the list, rows, fields (or one `merged`
    node), and how many times the back key returns to the list (then `home` is tapped, if given)."""

    taps: tuple[Anchor, ...]
    row: RowRule
    fields: FieldRules = FieldRules()
    merged: MergedRule | None = None
    backs: int = 1
    home: Anchor | None = None


@attrs.frozen
class QuotaSection:
    """`charged_on`: what spends quota; `zone` and `reset_time` (HH:MM): when the quota day begins; `label`
    and `account`: where the remaining number and the account are shown; `history`: the download history."""

    charged_on: Literal["download", "confirm", "open"]
    zone: str = "Asia/Shanghai"
    reset_time: str = attrs.field(default="00:00", validator=attrs.validators.matches_re(r"[0-2]\d:[0-5]\d"))
    label: FieldRule | None = None
    account: FieldRule | None = None
    history: HistorySection | None = None

    def __attrs_post_init__(self) -> None:
        try:
            ZoneInfo(self.zone)
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"zone: unknown time zone {self.zone!r}") from error


@attrs.frozen
class CacheSection:
    """How the file is got: `acquire` from the app's cache, or by an `export` route (its taps cost nothing).
    `folders`: each probed under /sdcard and /storage/emulated/0 (write them without that prefix). `patterns`:
    file names worth looking at; `ignore`: names of unfinished files (regular expressions). `settle_s`: size
    and time must stand still so long. `timeout_s`: a confirmed file that has not come by then is given
    up."""

    folders: tuple[str, ...]
    acquire: Literal["cache", "export"] = "cache"
    patterns: tuple[str, ...] = attrs.field(default=(r"\.pdf$",), validator=_regex)
    ignore: tuple[str, ...] = attrs.field(default=(r"\.(?:temp|tmp|part|download)$",), validator=_regex)
    settle_s: float = attrs.field(default=1.5, validator=_seconds)
    timeout_s: float = attrs.field(default=120.0, validator=_seconds)
    export: tuple[Step, ...] = ()

    def __attrs_post_init__(self) -> None:
        if self.acquire == "export" and not self.export:
            raise ValueError("export: steps are needed when acquire is export")
        if any(step.paying for step in self.export):
            raise ValueError("export: its taps cost nothing, so none is the paying one")
        if not self.folders or any(f.startswith("/") or ".." in f.split("/") for f in self.folders):
            raise ValueError("folders: at least one, relative to the shared storage")

    def paths(self) -> tuple[tuple[str, str], ...]:
        """Each folder under both names of the shared storage."""
        return tuple((f"/sdcard/{f}", f"/storage/emulated/0/{f}") for f in self.folders)


@attrs.frozen
class Profile:
    """One whole profile. `source` and `sha256` say which file it came from; they are no keys of it."""

    schema_version: int
    name: str
    app: AppSection
    list: ListSection
    detail: DetailSection
    trigger: TriggerSection
    quota: QuotaSection
    cache: CacheSection
    pace: PaceSection = PaceSection()
    dialogs: tuple[Dialog, ...] = ()
    access: tuple[AccessMarker, ...] = ()
    source: str = ""
    sha256: str = ""

    def supports(self, version_name: str) -> bool:
        """Whether this app version was tested with the profile (otherwise: reuse and discovery only)."""
        return version_name in self.app.versions
