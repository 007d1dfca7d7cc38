"""`hibor library verify`, and folders that a sync program keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hibor.library import STATE_NAME, check_final, finals, main
from hibor.people.commandline import INTERRUPTED
from hibor.people.libraries import sync_program
from tests.people.conftest import Ask, Told


def verify(own: Told, ask: Ask, *more: str) -> tuple[int, dict[str, object]]:
    code, out, _err = ask(main, "verify", "--library", own.path, "--json", "--quiet", *more)
    return code, json.loads(out)


def test_a_whole_library_is_found_whole(own: Told, ask: Ask) -> None:
    code, answer = verify(own, ask)
    assert (code, answer["faults"], answer["strangers"]) == (0, [], [])
    assert answer["checked"] == len(finals(own.library)) > 0


def test_every_kind_of_fault_is_named(own: Told, ask: Ask) -> None:
    paths = [own.library.absolute(path) for path in finals(own.library)]
    paths[0].unlink()
    paths[1].write_bytes(paths[1].read_bytes()[:-100])
    (own.path / "reports" / "foreign.pdf").write_bytes(b"%PDF-")
    code, answer = verify(own, ask)
    found = {Path(str(fault["final_path"])).name: fault["finding"] for fault in answer["faults"]}  # type: ignore[index, attr-defined]
    assert code == 1 and answer["strangers"] == ["reports/foreign.pdf"]
    assert found == {paths[0].name: "missing", paths[1].name: "BYTE_COUNT_MISMATCH"}


def test_only_a_stranger_is_a_warning(own: Told, ask: Ask) -> None:
    (own.path / "reports" / "foreign.pdf").write_bytes(b"%PDF-")
    assert verify(own, ask)[0] == 2


def test_an_interrupted_pass_goes_on(own: Told, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    whole = check_final

    def look(library: object, row: object) -> str:
        if len(looked) == 1:
            raise KeyboardInterrupt
        looked.append(str(row.final_path))  # type: ignore[attr-defined]
        return whole(library, row)  # type: ignore[arg-type]

    monkeypatch.setattr("hibor.library.check_final", look)
    code, _out, err = ask(main, "verify", "--library", own.path, "--lang", "zh", "--quiet")
    assert code == INTERRUPTED == 130 and "中断" in err
    again: list[str] = []
    monkeypatch.setattr(
        "hibor.library.check_final", lambda lib, row: again.append(row.final_path) or whole(lib, row)
    )
    assert verify(own, ask)[0] == 0
    assert sorted([*looked, *again]) == sorted(finals(own.library))
    assert (
        verify(own, ask)[0] == 0 and len(again) > len(finals(own.library)) - 1
    )  # a finished pass begins anew


def test_a_spoilt_state_file_does_no_harm(own: Told, ask: Ask) -> None:
    (own.path / STATE_NAME).write_bytes(b"junk" * 500)
    assert verify(own, ask)[0] == 0


@pytest.mark.parametrize(
    ("path", "program"),
    [
        ("C:/Users/li/OneDrive - 华夏/研报", "OneDrive"),
        ("/home/li/Nutstore Files/研报", "坚果云"),
        ("/home/li/我的坚果云/研报", "坚果云"),
        ("/Users/li/Library/Mobile Documents/com~apple~CloudDocs/a", "iCloud"),
        ("/home/li/Dropbox/a", "Dropbox"),
        ("/home/li/reports", None),
    ],
)
def test_sync_folders_are_known(path: str, program: str | None) -> None:
    assert sync_program(Path(path)) == program


def test_a_library_in_a_sync_folder_is_warned_about(own: Told, ask: Ask, tmp_path: Path) -> None:
    inside = tmp_path / "OneDrive" / "library"
    inside.parent.mkdir()
    own.path.rename(inside)
    code, _out, err = ask(main, "verify", "--library", inside, "--lang", "zh", "--quiet")
    assert code == 2 and "OneDrive" in err and "不同步" in err
