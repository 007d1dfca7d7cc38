"""Scenarios of the simulated phone: a strict TOML file of paces, feed, quota, cache and faults.

Rules: an unknown key, a wrong type or a value out of range is an error; all errors of a file are told at
once, each as `file:line key: what is wrong`. A fault has a *site* (the kind of call at which it can strike),
fires from its `call`-th matching call on, `times` times (0 = always), and may be limited to one report by
its rank in the feed (1 = newest). Counters belong to the state folder, so a fault that struck once stays
spent after a kill. Source: design 5, "Simulated phone".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from hibor.sim.reports import VARIANTS
from hibor.sim.versions import VERSION_NAMES

SCENARIO_FOLDER = Path(__file__).parent / "scenarios"


class ScenarioError(ValueError):
    """A scenario cannot be used; `problems` lists every reason as `file:line key: text`."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@attrs.frozen
class PhoneSettings:
    """The device: identity, screen, power and the installed app."""

    clock_skew_s: float = 0.0
    battery_level: int = 86
    battery_temperature_c: float = 29.5
    locked: bool = False
    asleep: bool = False
    rotation: int = 0
    override_width: int = 0
    override_height: int = 0
    app_installed: bool = True
    app_version: str = ""  # empty: the versionName of the scenario's `app`
    app_users: tuple[int, ...] = (0,)
    secure_screen: bool = False
    second_device: bool = False
    account_label: str = "138****0001"


@attrs.frozen
class PaceSettings:
    """Durations in phone seconds and rates in bytes per phone second."""

    dump_s: float = 1.2
    tap_s: float = 0.6
    inject_s: float = 0.1
    start_s: float = 1.0
    load_s: float = 0.8
    prepare_min_s: float = 2.0
    prepare_max_s: float = 8.0
    cache_bytes_per_s: float = 2_000_000.0
    pull_bytes_per_s: float = 20_000_000.0


@attrs.frozen
class FeedSettings:
    """The list: how many reports, what stands between them, how it pages.

    `seed`, `reports` and `hostile` count at the first start of a state folder; later starts keep its reports.
    """

    seed: int = 20261130
    reports: int = 40
    page_rows: int = 20
    adverts_every: int = 6
    pinned: tuple[int, ...] = (25,)
    notices: tuple[str, ...] = ("关于系统升级维护的公告",)
    hostile: bool = False
    relative_dates: bool = True


@attrs.frozen
class QuotaSettings:
    """The account's daily downloads: the limit, and what was used before the phone was first started."""

    limit: int = 20
    used: int = 0
    label: bool = True


@attrs.frozen
class CacheSettings:
    """Files already in the phone's cache at the first start, by rank, and whether adb may read the folder.

    `outdated` are reports under whose file names the app keeps other bytes, which a download replaces
    (fault F28).
    """

    prefilled: tuple[int, ...] = ()
    outdated: tuple[int, ...] = ()
    access: str = "open"


@attrs.frozen
class Fault:
    """One fault. Which of the parameters a kind uses is in `FAULT_KINDS`."""

    kind: str
    site: str
    call: int = 1
    times: int = 1
    report: int = 0
    control: str = ""
    match: str = ""
    wait_s: float = 0.0
    at_bytes: int = 0
    amount: int = 1
    factor: float = 1.0
    variant: str = "good"
    compressed_works: bool = False
    rename: tuple[tuple[str, str], ...] = ()


@attrs.frozen
class FaultKind:
    """Sites a kind may strike at (the first is the default) and the parameters it takes."""

    sites: tuple[str, ...]
    params: frozenset[str] = frozenset()


def _kind(sites: str, params: str = "") -> FaultKind:
    return FaultKind(tuple(sites.split()), frozenset(params.split()))


_WALL = _kind("open_detail start download confirm history swipe", "report")
_POPUP = _kind("dump tap open_detail swipe", "report control")
_LINK = "match wait_s at_bytes"
FAULT_KINDS: Mapping[str, FaultKind] = {
    "dump_null_root": _kind("dump"),
    "dump_never_idle": _kind("dump", "compressed_works"),
    "dump_slot_taken": _kind("dump"),
    "dump_stale": _kind("dump open_detail confirm", "amount report"),
    "dump_junk": _kind("dump"),
    "anchor_drift": _kind("dump", "rename"),
    "text_drift": _kind("dump", "rename"),
    "webview": _kind("dump"),
    "login_wall": _WALL,
    "captcha_wall": _WALL,
    "member_wall": _WALL,
    "kicked_out": _WALL,
    "risk_wall": _WALL,
    "permission_dialog": _POPUP,
    "anr_dialog": _POPUP,
    "foreign_focus": _POPUP,
    "screen_locks": _POPUP,
    "input_blocked": _kind("input"),
    "tap_ignored": _kind("tap", "control report"),
    "tap_ack_late": _kind("tap", "control report wait_s"),
    "tap_ack_lost": _kind("tap", "control report wait_s"),
    "wrong_detail": _kind("open_detail", "report"),
    "file_never": _kind("confirm", "report"),
    "two_files": _kind("confirm", "report"),
    "wrong_file": _kind("confirm", "report"),
    "file_renamed_early": _kind("confirm", "report wait_s"),
    "download_stalls": _kind("confirm", "report wait_s"),
    "prepare_slow": _kind("confirm", "report wait_s"),
    "pdf": _kind("confirm", "report variant"),
    "storage_full": _kind("confirm", "report"),
    "server_refuses": _kind("confirm", "report"),
    "file_grows_in_pull": _kind("data", "match at_bytes amount"),
    "quota_elsewhere": _kind("dump tap confirm open_detail", "amount"),
    "link_drop": _kind("open data shell connect", _LINK),
    "link_hang": _kind("open data shell connect", _LINK),
    "link_offline": _kind("open data shell connect", _LINK),
    "pull_truncate": _kind("data shell", _LINK),
    "pull_flip": _kind("data shell", _LINK),
    "pull_grow": _kind("data", _LINK),
    "stat32": _kind("open data shell", _LINK),
    "crlf": _kind("shell", _LINK),
    "shell_flood": _kind("shell", _LINK),
    "deny": _kind("open data shell connect", _LINK),
    "phone_replaced": _kind("shell open", "match"),
    "feed_insert": _kind("swipe dump open_detail", "amount"),
    "feed_delete": _kind("swipe dump open_detail", "amount report"),
    "feed_refresh": _kind("swipe"),
    "swipe_factor": _kind("swipe", "factor"),
    "load_fails": _kind("load"),
    "load_stuck": _kind("load"),
}


@attrs.frozen
class Scenario:
    """Everything a scenario file says."""

    description: str
    app: str = "1"  # which of the simulated app's versions is installed (`versions.VERSION_NAMES`)
    phone: PhoneSettings = PhoneSettings()
    pace: PaceSettings = PaceSettings()
    feed: FeedSettings = FeedSettings()
    quota: QuotaSettings = QuotaSettings()
    cache: CacheSettings = CacheSettings()
    faults: tuple[Fault, ...] = ()


_SECTIONS: Mapping[str, type[Any]] = {
    "phone": PhoneSettings, "pace": PaceSettings, "feed": FeedSettings, "quota": QuotaSettings,
    "cache": CacheSettings,
}
_RANGES: Mapping[str, tuple[float, float]] = {
    "battery_level": (0, 100), "battery_temperature_c": (-20, 90), "rotation": (0, 3), "reports": (0, 2000),
    "page_rows": (1, 2000), "adverts_every": (0, 2000), "limit": (0, 100_000), "used": (0, 100_000),
    "cache_bytes_per_s": (1, 1e12), "pull_bytes_per_s": (0, 1e12), "call": (1, 1_000_000),
    "times": (0, 1_000_000), "report": (1, 2000), "amount": (1, 100_000_000), "factor": (0, 10),
    "at_bytes": (-1, 2**40), "clock_skew_s": (-1e9, 1e9), "seed": (0, 2**63),
    "override_width": (0, 10_000), "override_height": (0, 10_000),
}
_SECONDS_RANGE = (0.0, 1_000_000.0)


def scenario_names() -> tuple[str, ...]:
    """Names of the scenarios that come with the simulator, sorted."""
    return tuple(sorted(path.stem for path in SCENARIO_FOLDER.glob("*.toml")))


def load_scenario(name_or_path: str | Path) -> Scenario:
    """The scenario of a file, or one of `scenario_names()`.

    Raises `ScenarioError` for a file that cannot be read and for every rule it breaks.
    """
    path = Path(name_or_path)
    if str(name_or_path) in scenario_names():
        path = SCENARIO_FOLDER / f"{name_or_path}.toml"
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(scenario_names())
        raise ScenarioError([f"{path.name}:0 cannot be read ({error}); known names: {known}"]) from error
    return parse_scenario(text, path.name)


def parse_scenario(text: str, name: str = "scenario.toml") -> Scenario:
    """The scenario of a TOML text; `name` is what messages call it. Raises `ScenarioError`."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line = found.group(1) if found else str(text.count("\n") + 1)
        raise ScenarioError([f"{name}:{line} not TOML: {error}"]) from error
    reader = _Reader(name, _line_numbers(text))
    scenario = reader.scenario(data)
    if reader.problems:
        raise ScenarioError(reader.problems)
    return scenario


def _line_numbers(text: str) -> dict[tuple[str, str], int]:
    """(table, key) → line. An array table is numbered: `fault[0]`; the key "" is the header itself."""
    lines: dict[tuple[str, str], int] = {}
    table, seen = "", dict[str, int]()
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*(\[\[?)\s*([\w.\-]+)\s*\]", line)
        key = re.match(r"\s*([\w\-]+)\s*=", line)
        if header:
            table = header.group(2)
            if header.group(1) == "[[":
                index = seen.get(table, -1) + 1
                seen[table] = index
                table = f"{table}[{index}]"
            lines.setdefault((table, ""), number)
        elif key:
            lines.setdefault((table, key.group(1)), number)
    return lines


class _Reader:
    """Turns parsed TOML into a `Scenario`, collecting every problem with its line."""

    def __init__(self, name: str, lines: Mapping[tuple[str, str], int]) -> None:
        self._name = name
        self._lines = lines
        self.problems: list[str] = []

    def _complain(self, table: str, key: str, text: str) -> None:
        line = self._lines.get((table, key), self._lines.get((table, ""), 1))
        where = f"{table}.{key}" if table and key else table or key
        self.problems.append(f"{self._name}:{line} {where}: {text}")

    def scenario(self, data: Mapping[str, Any]) -> Scenario:
        """The whole file."""
        values: dict[str, Any] = {"description": ""}
        for key, value in data.items():
            if key == "description":
                values[key] = self._value("", key, value, str)
            elif key == "app":
                values[key] = self._choice("", key, value, tuple(VERSION_NAMES))
            elif key in _SECTIONS:
                values[key] = self._section(key, value, _SECTIONS[key])
            elif key == "fault":
                values["faults"] = self._faults(value)
            else:
                self._complain(key if isinstance(value, dict) else "", key, "unknown key")
        if not str(values["description"]).strip():
            self._complain("", "description", "required: one sentence for people")
        scenario = Scenario(**values)
        self._check_whole(scenario)
        return scenario

    def _section(self, table: str, data: Any, kind: type[Any]) -> Any:
        if not isinstance(data, dict):
            self._complain("", table, "must be a table")
            return kind()
        known = {field.name: field.default for field in attrs.fields(kind)}
        values: dict[str, Any] = {}
        for key, value in data.items():
            if key not in known:
                self._complain(table, key, "unknown key")
            elif isinstance(known[key], tuple):
                part = str if key == "notices" else int
                values[key] = self._list(table, key, value, part)
            else:
                values[key] = self._value(table, key, value, type(known[key]), known[key])
        return kind(**values)

    def _list(self, table: str, key: str, value: Any, part: type[Any]) -> tuple[Any, ...]:
        if not isinstance(value, list) or not all(type(one) is part for one in value):
            self._complain(table, key, f"must be a list of {part.__name__}")
            return ()
        return tuple(value)

    def _value(self, table: str, key: str, value: Any, kind: type[Any], default: Any = "") -> Any:
        """`value` as `kind`, or the default after a complaint; an int is a fine float, a bool never a
        number.
        """
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if type(value) is not kind:
            self._complain(table, key, f"must be {kind.__name__}, not {type(value).__name__}")
            return default
        if kind in (int, float):
            low, high = _RANGES.get(key, _SECONDS_RANGE)
            if not low <= value <= high:
                self._complain(table, key, f"must be {low:g} to {high:g}, not {value:g}")
                return default
        return value

    def _faults(self, data: Any) -> tuple[Fault, ...]:
        if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
            self._complain("", "fault", "must be an array of tables ([[fault]])")
            return ()
        made = (self._fault(f"fault[{index}]", one) for index, one in enumerate(data))
        return tuple(fault for fault in made if fault is not None)

    def _fault(self, table: str, data: Mapping[str, Any]) -> Fault | None:
        kind = data.get("kind")
        if not isinstance(kind, str) or kind not in FAULT_KINDS:
            self._complain(table, "kind", f"unknown fault kind {kind!r}")
            return None
        facts = FAULT_KINDS[kind]
        known = {field.name: field.default for field in attrs.fields(Fault)}
        values: dict[str, Any] = {"kind": kind, "site": facts.sites[0]}
        for key, value in data.items():
            if key == "kind":
                continue
            if key == "rename" and key in facts.params:
                values[key] = self._rename(table, value)
            elif key == "site":
                values[key] = self._choice(table, key, value, facts.sites)
            elif key in ("call", "times") or key in facts.params:
                values[key] = self._value(table, key, value, type(known[key]), known[key])
            else:
                self._complain(table, key, f"fault kind {kind} takes no such key")
        if kind == "pdf":
            values["variant"] = self._choice(table, "variant", data.get("variant"), VARIANTS)
        return Fault(**values)

    def _rename(self, table: str, value: Any) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            self._complain(table, "rename", 'must be a table of old = "new" id names or words')
            return ()
        return tuple(sorted(value.items()))

    def _choice(self, table: str, key: str, value: Any, choices: tuple[str, ...]) -> str:
        if value not in choices:
            self._complain(table, key, f"must be one of {', '.join(choices)}, not {value!r}")
            return choices[0]
        return str(value)

    def _check_whole(self, scenario: Scenario) -> None:
        """What only the whole file can tell."""
        for table, key, ranks in (
            ("cache", "prefilled", scenario.cache.prefilled), ("cache", "outdated", scenario.cache.outdated),
            ("feed", "pinned", scenario.feed.pinned),
        ):
            bad = [rank for rank in ranks if not 1 <= rank <= scenario.feed.reports]
            if bad and (key != "pinned" or (table, key) in self._lines):
                self._complain(table, key, f"no report of rank {bad} (the feed has {scenario.feed.reports})")
        for index, fault in enumerate(scenario.faults):
            if fault.report > scenario.feed.reports:
                self._complain(f"fault[{index}]", "report", f"the feed has {scenario.feed.reports} reports")
        if scenario.pace.prepare_min_s > scenario.pace.prepare_max_s:
            self._complain("pace", "prepare_min_s", "must not exceed prepare_max_s")
        self._choice("cache", "access", scenario.cache.access, ("open", "deny", "hidden"))
