"""English details of the program, told in Chinese where a person has to act on them.

Rules of this file:

* Details are worded in English where they arise; `run.json` and the journals keep them. What a person
  corrects by hand
  (a task file, a command line) is told in the reader's language, with its place.
* A line this file does not know is None: the caller then says what the code means, never a line in the
  wrong language.
* The table is data: (text of the catalogue below `sentences`, pattern); the first pattern that fits counts.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_PATTERNS: Final[tuple[tuple[str, str], ...]] = (
    ("required", r'"(?P<key>[^"]+)" is required'),
    ("unknown_near", r'unknown key "(?P<key>[^"]+)"(?: in \[\w+\])? — did you mean "(?P<near>[^"]+)"\?'),
    ("unknown_home", r'unknown key "(?P<key>[^"]+)"(?: in \[\w+\])? — it belongs into \[(?P<home>\w+)\]'),
    ("unknown_above", r'unknown key "(?P<key>[^"]+)"(?: in \[\w+\])? — it belongs above the first \[table\]'),
    ("unknown", r'unknown key "(?P<key>[^"]+)"(?: in \[\w+\])?'),
    ("table", r'"(?P<key>[^"]+)" must be a table .*'),
    ("no_home", r'"(?P<key>[^"]+)" (?P<path>.*): there is no such user.*'),
    ("no_home_option", r"--library: (?P<path>.*): there is no such user.*"),
    ("no_folder_there", r'"(?P<key>[^"]+)" (?P<path>.*) is not a folder'),
    ("profile_unknown", r'"profile" (?P<name>.*) is no file, and shipped are: (?P<known>.*)'),
    ("string", r'"(?P<key>[^"]+)" must be a string, not (?P<value>.*)'),
    ("whole", r'"(?P<key>[^"]+)" must be a whole number, not (?P<value>.*)'),
    ("seconds", r'"(?P<key>[^"]+)" must be a number of seconds, not (?P<value>.*)'),
    ("flag", r'"(?P<key>[^"]+)" must be true or false, not (?P<value>.*)'),
    ("strings", r'"(?P<key>[^"]+)" must be a list of strings.*'),
    ("folder", r'"library" must name a folder'),
    ("foreign_path", r"(?P<path>[A-Za-z]:[/\\].*) is a Windows path; .*"),
    ("account", r'"account" .* cannot be used .*'),
    ("positive", r'"(?P<key>[^"]+)" must be greater than 0'),
    ("spacing", r'"spacing_s" must be at least (?P<least>[\d.]+); .*'),
    ("least", r'"(?P<key>[^"]+)" must be at least (?P<least>[\d.]+)'),
    ("between", r'"min_count" must be between 0 and "count" \((?P<most>-?\d+)\)'),
    ("lang", r'"lang" must be "zh" or "en".*'),
    ("reuse", r'"reuse" must be .*'),
    ("negative", r'"(?P<key>[^"]+)" must not be negative'),
    ("empty", r'"(?P<key>[^"]+)" holds an empty string.*'),
    ("toml", r"not valid TOML: .*"),
    ("unreadable", r"cannot be read: .*"),
    ("plan_unreadable", r"(?P<path>[^\n]+): cannot be read: .*"),
    ("plan_there", r"--plan: (?P<path>.+) exists already .*"),
    ("encoding", r"not UTF-8; .*"),
    ("lower_only", r"--quota-limit \d+: may only lower the task's limit (?P<limit>\d+)"),
    ("strange_argument", r"(?P<argument>.*) holds bytes that are not UTF-8, .*"),
    ("empty_value", r"What follows (?P<name>.*) is empty; .*"),
    ("long_name", r"(?P<name>\S+) names a file with more than (?P<most>\d+) .*"),
    ("narrow_names", r"Python writes file names as (?P<encoding>\S+) here, .*"),
    ("no_option", r"No such option:? '?(?P<name>--?[\w-]+)'?.*"),
    ("needs_value", r"Option '(?P<name>--?[\w-]+)' requires .*"),
    (
        "whole_range",
        r"Invalid value for '(?P<name>--?[\w-]+)': (?P<value>.*) is not a whole number from (?P<least>\S+)"
        r" to (?P<most>\S+?)\.?",
    ),
    (
        "range",
        r"Invalid value for '(?P<name>--?[\w-]+)': (?P<value>.*) is not a number from (?P<least>\S+)"
        r" to (?P<most>\S+?)\.?",
    ),
    ("choice", r"Invalid value for '(?P<name>--?[\w-]+)': (?P<value>.*) is not one of (?P<known>.*?)\.?"),
    ("bad_value", r"Invalid value for '(?P<name>--?[\w-]+)'.*"),
    ("budget", r"the (?:discovery )?budget .*"),
    ("rows", r"(?P<count>\d+) row\(s\) of the list could not be read"),
    ("ended_early", r"the scan ended early: .*"),
    ("needs_library", r"a real phone without a task needs --library"),
    ("simulated_only", r"--scenario starts a simulated phone; .*"),
    ("no_phone", r"no phone is connected"),
    ("time_scale", r"--time-scale: .*"),
    ("again_unlisted", r"--retrigger (?P<report>.*): it is not in the app's list .*"),
    ("again_left_out", r"--retrigger (?P<report>.*): the task leaves it out; .*"),
    ("again_or_plan", r"--retrigger: not with --plan, .*"),
    ("adb_server", r"(?:--adb-server: )?adb server must be HOST:PORT, not (?P<value>.*)"),
    ("most", r'(?:--[\w-]+: )?"(?P<key>[^"]+)" must be at most (?P<most>[\d.]+)'),
    ("bad_value", r"(?P<name>--[\w-]+): .*"),
    ("duration", r"'(?P<value>[^']*)' is not a duration .*"),
    ("no_library", r"there is no library (?P<path>.*)"),
    ("holder", r"process (?P<pid>\d+) since (?P<since>\S+)\n?"),
    ("held", r"another run holds this library: .* by process (?P<pid>\d+) since (?P<since>\S+); .*"),
    ("held_unnamed", r"another run (?:holds|uses) this library.*"),
    ("first_use", r"the first use of a phone is confirmed once: .*"),
    (
        "disk_full",
        r"the library's disk is full: (?P<free>\S+) MB are free and a new download needs (?P<needed>\S+) MB",
    ),
    ("retrigger_asks", r"downloading a paid report again is confirmed: .*"),
    ("practice_library", r"the library (?P<path>.*) belongs to the practice phone; name another folder .*"),
    ("real_library", r"the library (?P<path>.*) belongs to a real phone; practise in another folder"),
    ("no_room", r"the disk is full: (?P<free>\S+) MB are free for (?P<path>.*); make room there.*"),
    ("bad_library", r"the library cannot be used: (?P<path>.*) \([^()]*\)"),
    ("bad_library_unnamed", r"the library cannot be used: .*"),
    ("bad_ledger", r"the ledger(?:'s folder)? cannot be used: (?P<path>.*) \([^()]*\)"),
    ("bad_ledger_folder", r"the ledger(?:'s folder)? cannot be used: .*"),
    ("bad_catalogue", r"the catalogue cannot be used: (?P<path>.*?) \(.*\); .*"),
    ("bad_manifest_file", r"the manifest cannot be used: (?P<path>.*) \([^()]*\)"),
    ("bad_manifest", r"the manifest (?:is damaged|cannot be used): .*"),
    (
        "sim_disk_full",
        r"the simulated phone .*: the disk is full: (?P<free>\S+) MB are free for (?P<path>.*); .*",
    ),
    (
        "sim_damaged",
        r"the simulated phone .*: (?P<path>/.*|[A-Za-z]:.*) cannot be used \(.*\)\."
        r" Delete the folder (?P<folder>.*) and say the command again: .*",
    ),
    ("sim_unwritable", r"the simulated phone .*: (?P<path>.*) cannot be written \(.*\); a practice .*"),
    ("sim_silent", r"the simulated phone did not start: .*; (?P<path>.*phone\.log) says more"),
    ("no_scenario", r"the simulated phone did not start: .* cannot be read.*"),
    ("scenario_unknown", r"\S+:0 cannot be read \(.*"),
    ("no_profile", r".* cannot be read \([^)]*\); shipped: (?P<known>.*)"),
    ("not_a_plan", r"not a plan: .*"),
    ("plan_no_id", r"row (?P<row>\d+): report_id is missing"),
    ("plan_source", r"row (?P<row>\d+): source must be one of (?P<known>.*)"),
    ("plan_not_listed", r"plan: report (?P<report>\S+) is not in the app's list"),
    ("plan_gone", r"plan: report (?P<report>\S+) cannot be had as (?P<source>\S+) any more"),
    (
        "fewer_new_max",
        r"(?P<came>\d+) of at most (?P<count>\d+) reports: .* at most (?P<most>\d+) \(new_max\)",
    ),
    ("fewer_alike", r"(?P<came>\d+) of at most (?P<count>\d+) reports: (?P<alike>\d+) more .* duplicates"),
    ("fewer_match", r"(?P<came>\d+) of at most (?P<count>\d+) reports match the task"),
    ("interrupted_step", r"the run was interrupted before this step began"),
    ("interrupted_late", r"this step became durable after the run was interrupted"),
    ("window_step", r"the window closed before this step began"),
    ("window_late", r"this step became durable after the window closed"),
    ("signal", r"ended by a signal before the run was through"),
    (
        "cut_tail",
        r"(?P<name>.+): move the unfinished last line aside \((?P<size>\d+) bytes from byte (?P<at>\d+)\)",
    ),
    (
        "other_account",
        r"this library keeps the books of account (?P<owner>.+); account (?P<account>.+) needs .*",
    ),
    ("torn_line", r"the line is unfinished \(a write was interrupted\)"),
    ("lines_lost", r"lines are missing at the end: (?P<count>\d+) events, but (?P<noted>\d+) were noted"),
    ("ledger_replaced", r"its hash differs from the one noted earlier: the file was replaced"),
    ("line_order", r"event \d+ expected, \d+ found: lost or reordered lines"),
    ("chain_broken", r"the chain breaks here: .*"),
    ("do_repair", r"run `python -m (?P<command>hibor\.ledger repair[^`]*)`, which moves only .*"),
    ("do_compare", r"nothing was written .* then run `python -m (?P<command>hibor\.ledger verify[^`]*)`.*"),
    ("index_of_another", r".* noted by the index (?P<name>.+?)(?: earlier: .*)?"),
    ("gone_ledger", r"the ledger this library knows of is gone"),
    ("two_folders", r"two folders have this id"),
    ("unit_lost", r"report (?P<report>\S+), (?P<day>[\d-]+): its item's (?P<what>folder|journal) is missing"),
    ("unit", r"report (?P<report>\S+), (?P<day>[\d-]+): .*"),
    ("no_row", r"delivered without a manifest row"),
    ("row_twice", r"a second row of item (?P<item>\S+)"),
    ("row_unreadable", r"this line is no row: .*"),
    ("two_families", r"has more than one quota family"),
    ("paid_wait", r"report (?P<report>\S+): a retrigger is possible in (?P<wait>\d+) s"),
    ("delivered_already", r"report (?P<report>\S+) is delivered already: (?P<path>.*); .*"),
    ("foreign_final", r"a file this item did not publish stands at (?P<path>.*)"),
    ("paid_before", r"report (?P<report>\S+): it was paid for or attempted before"),
    ("reuse_paid", r"a reuse that has a quota family"),
    ("disagree", r"its terminal and the ledger disagree on a reservation"),
    ("no_item_folder", r"its item (?P<item>\S+) has no folder"),
    ("published_twice", r"(?P<count>\d+) rows of one run say they published it"),
    ("file_unknown", r"no row and no item knows it"),
    ("file_gone", r"its file (?P<path>.*) is gone"),
    ("file_other", r"its file (?P<path>.*) has other bytes"),
    ("bad_file", r"\S+:\d+ .*"),
)  # fmt: skip
_PLACE: Final = re.compile(r"(?P<place>[^\n]*?:\d+: |[^\n]*?\.(?:toml|json): )(?P<message>.*)", re.DOTALL)


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((name, re.compile(pattern, re.DOTALL)) for name, pattern in _PATTERNS)


def sentence_names() -> frozenset[str]:
    """The texts the patterns name."""
    return frozenset(name for name, _pattern in _PATTERNS)


def recognised(message: str) -> tuple[str, dict[str, str]] | None:
    """(text's name, facts) of an English line, without a place in front; None for an unknown one."""
    for name, pattern in _compiled():
        found = pattern.fullmatch(message)
        if found is not None:
            return name, found.groupdict()
    return None


def split_place(line: str) -> tuple[str, str]:
    """(`file:line: ` or "", the message) of one line."""
    found = _PLACE.fullmatch(line)
    return (found["place"], found["message"]) if found else ("", line)
