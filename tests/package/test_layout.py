"""Where files lie and what they are called (design 4, 9; faults F80, F81)."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hibor.package.layout import ItemFolder, Library, account_folder, is_run_id, item_id, new_run_id

RUN = "20261130T040506Z-0a1b2c"


def test_the_library_folder_is_the_designs(tmp_path: Path) -> None:
    library = Library(tmp_path)
    item = library.run(RUN).item(3, "0123456789abcdef")
    found = [
        library.report_folder("2026-11-30"),
        library.report_folder(None),
        library.manifest,
        library.catalogue,
        library.ledger("team-a"),
        library.quarantine,
        library.run(RUN).run_json,
        library.run(RUN).delivery,
        library.run(RUN).report,
        library.run(RUN).task,
        item.journal,
        item.staging,
        item.delivery,
        item.timing,
        item.terminal,
        item.evidence,
        item.candidate(2),
    ]
    assert [library.relative(path) for path in found] == [
        "reports/2026/11",
        "reports/undated",
        "manifest.jsonl",
        "catalogue.sqlite3",
        "quota/team-a/ledger.jsonl",
        "quarantine",
        f"runs/{RUN}/run.json",
        f"runs/{RUN}/delivery.md",
        f"runs/{RUN}/report.html",
        f"runs/{RUN}/task.toml",
        *[
            f"runs/{RUN}/items/03-0123456789abcdef/{name}"
            for name in (
                "journal.jsonl",
                "staging.pdf",
                "delivery.md",
                "timing.json",
                "terminal.json",
                "evidence",
                "candidate-2.tmp",
            )
        ],
    ]
    assert Library(tmp_path, tmp_path / "shared").ledger("a") == tmp_path / "shared" / "a" / "ledger.jsonl"


def test_ids() -> None:
    run_id = new_run_id(datetime(2026, 11, 30, 4, 5, 6, tzinfo=UTC))
    assert run_id.startswith("20261130T040506Z-")
    assert is_run_id(run_id) and is_run_id(RUN)
    assert item_id("r", "HB1", "NEW_TRIGGER") == hashlib.sha256(b"r\nHB1\nNEW_TRIGGER").hexdigest()[:16]
    folder = ItemFolder(Path("12-0123456789abcdef"))
    assert (folder.index, folder.item_id) == (12, "0123456789abcdef")
    with pytest.raises(ValueError, match="not an item folder"):
        _ = ItemFolder(Path("evidence")).index


@pytest.mark.parametrize("text", ["..", "../x", "20261130T040506Z-0a1b2C", "", f"{RUN}/..", f" {RUN}"])
def test_only_run_ids_name_runs(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="not a run id"):
        Library(tmp_path).run(text)


HOSTILE = [
    "..",
    ".",
    "a/b",
    "a\\b",
    "CON",
    "nul.txt",
    "a.",
    ".hidden",
    "a b",
    "a:b",
    "x\0y",
    "é/../..",
    "COM1.x",
    "...",
]


@pytest.mark.parametrize("account", [*HOSTILE, "团队一", "team-a"])
def test_an_account_cannot_leave_its_folder(tmp_path: Path, account: str) -> None:
    name = account_folder(account)
    library = Library(tmp_path)
    assert library.ledger(account).parent.parent == tmp_path / "quota"
    assert not set(name) & set('/\\:*?"<>|\0 ')
    assert not name.startswith(".") and not name.endswith(".")
    assert name.split(".")[0].lower() not in {"con", "nul", "com1"}


def test_accounts_do_not_collide() -> None:
    names = [account_folder(account) for account in [*HOSTILE, "%2E", "a%2Fb", "团队一"]]
    assert len(set(names)) == len(names)
    with pytest.raises(ValueError, match="name"):
        account_folder("")


@pytest.mark.parametrize("relative", ["", "/etc/passwd", "../x", "a/../../x", "C:/x", "a\\..\\x"])
def test_paths_read_from_files_stay_inside(tmp_path: Path, relative: str) -> None:
    library = Library(tmp_path)
    assert library.absolute("reports/a.pdf") == tmp_path / "reports" / "a.pdf"
    with pytest.raises(ValueError, match="inside the library"):
        library.absolute(relative)


def test_existing_runs_and_items_in_order(tmp_path: Path) -> None:
    library = Library(tmp_path)
    assert library.run_folders() == [] and library.run(RUN).item_folders() == []
    for name in ("10-" + "a" * 16, "02-" + "b" * 16, "100-" + "c" * 16, "stray"):
        (library.run(RUN).items / name).mkdir(parents=True)
    (library.runs / "not a run").mkdir()
    assert [run.run_id for run in library.run_folders()] == [RUN]
    assert [item.index for item in library.run(RUN).item_folders()] == [2, 10, 100]


def test_what_is_no_folder_is_not_empty(tmp_path: Path) -> None:
    """A file where the runs should be hides every open item: that is told, not taken for an empty library."""
    library = Library(tmp_path)
    assert library.run_folders() == []
    library.runs.write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        library.run_folders()
