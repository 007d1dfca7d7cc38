"""What a failure is called where it is met, copied by hand from V006 §4 and the rulings, stage by stage.

`spec/failures.yaml` is written failure by failure; this is written the other way round, from each stage's
code list, so that a slip in one of them shows. A failure not named at a stage has no code there. Nothing here
is read from `spec/`, `generated/` or `fsm/`.
"""

from __future__ import annotations

from typing import Final

RUN: Final = "run"
"""Preflight and discovery, where no item is open."""

# Groups that a stage treats alike, in the words of the device and the disk.
LINK: Final = "server_unreachable command_start_failed command_timeout output_limit link_lost"
GONE: Final = "device_offline device_unauthorized device_replaced"
SCREEN: Final = "dump_unreadable dump_stale opaque_webview foreign_window anchor_drift anchor_ambiguous"
DENIED: Final = "device_locked input_blocked access_control"
DISK: Final = "disk_failed disk_uncertain"

_AT: Final[dict[str, dict[str, str]]] = {
    # V006 §4 P00: nothing is spent, so every cause has its own name. R15, R20: what is wrong with a candidate
    # or with a cached file that had to be read again.
    "P00": {
        "TASK_SPEC_INVALID": "task_invalid",
        "CLOCK_INVALID": "clock_invalid",
        "PROCESS_START_FAILED": "server_unreachable command_start_failed",
        "PROCESS_TIMEOUT": "command_timeout",
        "PROCESS_OUTPUT_LIMIT": "output_limit",
        "PROCESS_LIVENESS_UNKNOWN": "link_lost",
        "DEVICE_NOT_UNIQUE": "device_ambiguous",
        "DEVICE_NOT_ONLINE": GONE,
        "PACKAGE_MISSING": "package_missing package_cloned",
        "CACHE_UNREADABLE": "cache_unreadable not_collectable remote_changed remote_vanished remote_refused "
        "short_pull pull_hash_mismatch",
        "ACCESS_CONTROL_PRESENT": DENIED,
        "CANDIDATE_REJECTED": "version_untested dump_slow battery_low file_rejected copy_rejected "
        "already_paid likely_duplicate foreign_final final_conflict",
        "LOCK_TIMEOUT": "lock_timeout",
        "QUOTA_LEDGER_INVALID": "ledger_invalid",
        "QUOTA_REPLAY_CONFLICT": "replay_conflict",
        "QUOTA_EXHAUSTED": "quota_exhausted",
        "QUOTA_DATE_UNCERTAIN": "day_boundary",
        "RECOVERY_UNKNOWN": f"abandoned {DISK}",
        "DEADLINE_EXPIRED": "deadline",
        "UNEXPECTED_EXCEPTION": "unexpected",
    },
    # V006 §4 P01: the app's screen. What has no name here (clock, day, books, disk) is RECOVERY_UNKNOWN; an
    # app that is gone cannot be started.
    "P01": {
        "PROCESS_START_FAILED": "server_unreachable command_start_failed ui_slot_taken package_missing",
        "PROCESS_TIMEOUT": "command_timeout",
        "PROCESS_OUTPUT_LIMIT": "output_limit",
        "PROCESS_LIVENESS_UNKNOWN": f"link_lost {GONE}",
        "UI_ANCHOR_DRIFT": SCREEN,
        "ACCESS_CONTROL_PRESENT": DENIED,
        "UI_CURSOR_RESTORE_FAILED": "cursor_lost",
        "DETAIL_RESULT_MISMATCH": "detail_mismatch",
        "TRIGGER_NOT_OCCURRED": "already_downloaded",
        "RECOVERY_UNKNOWN": f"abandoned clock_invalid day_boundary ledger_invalid {DISK}",
        "DEADLINE_EXPIRED": "deadline",
        "UNEXPECTED_EXCEPTION": "unexpected",
    },
    # V006 §2.3 P02-N: two codes. The phone, the app or a lock keep us from looking: liveness. What was looked
    # at does not tell: recovery. R28: a ledger in doubt leaves the tap in flight.
    "P02-N": {
        "PROCESS_LIVENESS_UNKNOWN": f"{LINK} {GONE} {DENIED} {SCREEN} ui_slot_taken cursor_lost "
        "detail_mismatch lock_timeout ledger_invalid deadline",
        "RECOVERY_UNKNOWN": f"cache_unreadable no_new_file cache_ambiguous replay_conflict {DISK} unexpected",
    },
    # V006 §2.3 P02-U.
    "P02-U": {"QUOTA_LEDGER_INVALID": "ledger_invalid disk_uncertain", "RECOVERY_UNKNOWN": "unexpected"},
    # R12 P02-V: COMMON, the two liveness codes, and the trigger's own word by its quota state.
    "P02-V": {
        "PROCESS_LIVENESS_UNKNOWN": f"{LINK} {GONE} {SCREEN} ui_slot_taken lock_timeout",
        "RECOVERY_UNKNOWN": f"cache_unreadable cache_ambiguous ledger_invalid {DISK}",
        "TRIGGER_UNCERTAIN": "no_new_file trigger_unresolved",
        "TRIGGER_NOT_OCCURRED": "trigger_refused",
        "DEADLINE_EXPIRED": "deadline",
        "UNEXPECTED_EXCEPTION": "unexpected",
    },
    # V006 §4 P03: which file it is. R11: PULL_FAILED needs the phone's definite answer; bytes that did not
    # arrive whole are no verdict yet. R14: a change is seen here.
    "P03-N": {
        "PROCESS_START_FAILED": "server_unreachable command_start_failed ui_slot_taken",
        "PROCESS_TIMEOUT": "command_timeout",
        "PROCESS_OUTPUT_LIMIT": "output_limit",
        "PROCESS_LIVENESS_UNKNOWN": f"link_lost {GONE} short_pull pull_hash_mismatch",
        "CACHE_TIMEOUT": "no_new_file remote_vanished",
        "CACHE_AMBIGUOUS": "cache_ambiguous",
        "REMOTE_FILE_CHANGED": "remote_changed",
        "PULL_FAILED": "remote_refused",
        "RECOVERY_UNKNOWN": f"cache_unreadable {SCREEN} lock_timeout ledger_invalid replay_conflict {DISK}",
        "DEADLINE_EXPIRED": "deadline",
        "UNEXPECTED_EXCEPTION": "unexpected",
    },
    # V006 §4 P04: the bytes.
    "P04-N": {
        "PROCESS_START_FAILED": "server_unreachable command_start_failed",
        "PROCESS_TIMEOUT": "command_timeout",
        "PROCESS_OUTPUT_LIMIT": "output_limit",
        "PROCESS_LIVENESS_UNKNOWN": f"link_lost {GONE}",
        "PULL_FAILED": "remote_refused remote_vanished",
        "BYTE_COUNT_MISMATCH": "short_pull",
        "HASH_MISMATCH": "pull_hash_mismatch",
        "RECOVERY_UNKNOWN": "cache_unreadable remote_changed lock_timeout ledger_invalid replay_conflict "
        f"{DISK}",
        "DEADLINE_EXPIRED": "deadline",
        "UNEXPECTED_EXCEPTION": "unexpected",
    },
    # V006 §4 P05: the document itself has pdf.yaml's codes. R29: inside the publish window nothing is of FAIL
    # class.
    "P05-N": {
        "FINAL_PATH_CONFLICT": "final_conflict",
        "PUBLISH_FAILED": "publish_refused",
        "RECOVERY_UNKNOWN": f"lock_timeout ledger_invalid replay_conflict {DISK}",
        "DEADLINE_EXPIRED": "deadline",
        "UNEXPECTED_EXCEPTION": "unexpected",
    },
    # V006 §2.3 A=U with R12: of the same failures those that keep one of the two liveness codes.
    "P03-U": {
        "PROCESS_LIVENESS_UNKNOWN": f"link_lost {GONE} short_pull pull_hash_mismatch",
        "RECOVERY_UNKNOWN": f"cache_unreadable {SCREEN} lock_timeout ledger_invalid replay_conflict "
        f"{DISK} unexpected",
    },
    "P04-U": {
        "PROCESS_LIVENESS_UNKNOWN": f"link_lost {GONE}",
        "RECOVERY_UNKNOWN": "cache_unreadable remote_changed lock_timeout ledger_invalid replay_conflict "
        f"{DISK} unexpected",
    },
    "P05-U": {"RECOVERY_UNKNOWN": f"lock_timeout ledger_invalid replay_conflict {DISK} unexpected"},
    # R12 A=V: the verdict is durable, so the FAIL codes alone.
    "P03-V": {"PULL_FAILED": "remote_refused", "UNEXPECTED_EXCEPTION": f"{DISK} unexpected"},
    "P04-V": {
        "PULL_FAILED": "remote_refused remote_vanished",
        "BYTE_COUNT_MISMATCH": "short_pull",
        "HASH_MISMATCH": "pull_hash_mismatch",
        "UNEXPECTED_EXCEPTION": f"{DISK} unexpected",
    },
    "P05-V": {"PUBLISH_FAILED": "publish_refused", "UNEXPECTED_EXCEPTION": f"{DISK} unexpected"},
    # V006 §4 P06: the manifest. R4, R24: what cannot be written later says UNEXPECTED_EXCEPTION.
    "P06": {
        "LOCK_TIMEOUT": "lock_timeout",
        "MANIFEST_INVALID": "manifest_invalid",
        "PERSIST_LATE": "persist_late",
        "DEADLINE_EXPIRED": "deadline",
        "UNEXPECTED_EXCEPTION": f"{DISK} unexpected",
    },
    **{
        stage: {
            "PERSIST_LATE": "persist_late",
            "DEADLINE_EXPIRED": "deadline",
            "UNEXPECTED_EXCEPTION": f"{DISK} unexpected",
        }
        for stage in ("P07", "P08", "P09")
    },
    # Design 3, stop reason of a run: the code the cause would have at P00 or, on the app's list, at P01.
    RUN: {
        "TASK_SPEC_INVALID": "task_invalid disk_failed",
        "CLOCK_INVALID": "clock_invalid",
        "PROCESS_START_FAILED": "server_unreachable command_start_failed ui_slot_taken",
        "PROCESS_TIMEOUT": "command_timeout",
        "PROCESS_OUTPUT_LIMIT": "output_limit",
        "PROCESS_LIVENESS_UNKNOWN": "link_lost",
        "DEVICE_NOT_UNIQUE": "device_ambiguous",
        "DEVICE_NOT_ONLINE": GONE,
        "PACKAGE_MISSING": "package_missing package_cloned",
        "CACHE_UNREADABLE": "cache_unreadable not_collectable",
        "ACCESS_CONTROL_PRESENT": DENIED,
        "CANDIDATE_REJECTED": "battery_low",
        "UI_ANCHOR_DRIFT": SCREEN,
        "UI_CURSOR_RESTORE_FAILED": "cursor_lost",
        "DETAIL_RESULT_MISMATCH": "detail_mismatch",
        "LOCK_TIMEOUT": "lock_timeout",
        "QUOTA_LEDGER_INVALID": "ledger_invalid",
        "QUOTA_DATE_UNCERTAIN": "day_boundary",
        "RECOVERY_UNKNOWN": "disk_uncertain",
        "DEADLINE_EXPIRED": "deadline",
        "UNEXPECTED_EXCEPTION": "unexpected",
    },
}

FAILURE_CODES: Final[dict[tuple[str, str], str]] = {
    (failure, stage): code
    for stage, codes in _AT.items()
    for code, failures in codes.items()
    for failure in failures.split()
}
"""(failure word, node or `run`) → code; 300 of them."""
