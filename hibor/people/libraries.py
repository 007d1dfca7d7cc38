"""Which library a command means, and where that library is a bad place (design 4, issue "sync folders").

Rules of this file: nothing is written; a library is named by `--library`, else by the task file, else it is
`./hibor-library`, as for the main job.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hibor.package.layout import Library
from hibor.people.commandline import DEFAULT_LIBRARY, Refusal
from hibor.task import TaskError, expanded, load_task

SYNC_MARKS: Final = (
    ("OneDrive", ("onedrive",)),
    ("坚果云", ("nutstore", "坚果云")),
    ("Dropbox", ("dropbox",)),
    ("iCloud", ("com~apple~clouddocs", "icloud")),
    ("百度网盘", ("baidunetdisk", "baidusyncdisk", "百度网盘")),
    ("Google Drive", ("google drive", "googledrive", "my drive")),
    ("腾讯微云", ("weiyun", "微云")),
    ("阿里云盘", ("aliyundrive", "阿里云盘")),
)
"""Names of sync programs, and what their folders are called (compared case-folded, as part of a path's
component).
"""


def library_at(library: Path | None, task: Path | None) -> Library:
    """The library that options name. Raises `Refusal` for one that is not there or a task that cannot be
    read.
    """
    ledger_dir: Path | None = None
    root = library
    if task is not None:
        try:
            read = load_task(task)
        except TaskError as error:
            raise Refusal("common.task_unreadable", path=task, count=len(error.problems)) from error
        ledger_dir = read.ledger_path if read.policy.ledger_dir else None
        root = library or read.library_path
    try:
        root = expanded(root or Path(DEFAULT_LIBRARY)).absolute()
    except ValueError as error:
        raise Refusal("common.no_library", path=root) from error
    if not root.is_dir():
        raise Refusal("common.no_library", path=root)
    return Library(root, ledger_dir)


def sync_program(path: Path) -> str | None:
    """The sync program a folder seems to belong to, None when it seems to belong to none.

    A sync program may lock, move or replace files while they are written, and may bring a second copy of
    the ledger back; a person should know.
    """
    for component in path.absolute().parts:
        name = component.casefold()
        for program, marks in SYNC_MARKS:
            if any(mark in name for mark in marks):
                return program
    return None
