"""tools.compile: what it refuses, where the fault is, and that its output depends on nothing else."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tests.tools.spec_copy import ROOT, SpecCopy, copy_spec
from tools.compile import check, model
from tools.compile.__main__ import main
from tools.compile.check import compile_folder
from tools.compile.emit import emit
from tools.compile.read import read_folder
from tools.compile.tables import MODULES


@pytest.fixture
def spec(tmp_path: Path) -> SpecCopy:
    return copy_spec(tmp_path)


def generated(folder: Path) -> dict[str, bytes]:
    result = compile_folder(folder)
    assert result.faults == ()
    return emit(result.derived, result.documents)


def test_all_faults_at_once_in_order(spec: SpecCopy) -> None:
    spec.change("closures", "sources: [P02, P03]", "sources: [P02, P33]")
    spec.change("closures", "    quota_ids: RRN", "    quota_ids: RRM")
    spec.change("governance", "status: PARTIAL, exit: 10", "status: PARTIAL, exit: 11")
    spec.change("steps", "marks: CACHE_IDENTITY", "marks: CACHE_IDENTTY")
    faults = compile_folder(spec.folder).faults
    assert list(faults) == sorted(faults)
    assert {fault.file for fault in faults} == {
        "spec/closures.yaml",
        "spec/governance.yaml",
        "spec/steps.yaml",
    }
    assert len([fault for fault in faults if fault.file == "spec/closures.yaml"]) >= 2


def test_every_duplicate_key_of_a_file_is_named(spec: SpecCopy) -> None:
    spec.add("governance", "breaker: []\nguard_rails: {}\n")
    faults = [str(fault) for fault in compile_folder(spec.folder).faults if "duplicate" in fault.text]
    assert len(faults) == 2


def test_missing_and_foreign_files_are_faults(spec: SpecCopy) -> None:
    (spec.folder / "keep.yaml").unlink()
    (spec.folder / "extra.yaml").write_text("a: 1\n", encoding="utf-8")
    faults = [str(fault) for fault in compile_folder(spec.folder).faults]
    assert faults == [
        "spec/extra.yaml:1: no table of the contract has this name",
        "spec/keep.yaml:1: this spec file is missing",
    ]


def test_allowed_keys_are_the_schema() -> None:
    """Every field of the model is a key that some file uses; that files use no other is `unknown key` above.

    A field nobody authors would be a second, silent source of a fact.
    """
    used: set[tuple[str, str]] = set()

    def collect(value: object) -> None:
        if attrs.has(type(value)):
            for field in attrs.fields(type(value)):
                part = getattr(value, field.name)
                if field.default is attrs.NOTHING or part not in (None, (), {}, False):
                    used.add((type(value).__name__, field.name))
                collect(part)
        elif isinstance(value, dict):
            for part in value.values():
                collect(part)
        elif isinstance(value, tuple):
            for part in value:
                collect(part)

    collect(compile_folder(ROOT / "spec").derived.spec)
    classes = [kind for kind in vars(model).values() if isinstance(kind, type) and attrs.has(kind)]
    fields = {(kind.__name__, field.name) for kind in classes for field in attrs.fields(kind)}
    assert (
        fields
        - used
        - {("Document", n) for n in ("file", "sha256", "data", "lines")}
        - {("Fault", n) for n in ("file", "line", "where", "text")}
        == set()
    )


def test_repository_is_up_to_date() -> None:
    assert main(["--check"]) == 0


def test_output_is_reproducible_and_free_of_the_place(tmp_path: Path) -> None:
    first = generated(copy_spec(tmp_path / "one").folder)
    second = generated(copy_spec(tmp_path / "another place").folder)
    assert first == second == generated(ROOT / "spec")
    command = [sys.executable, "-m", "tools.compile", "--out", str(tmp_path / "out")]
    for seed in ("0", "12345"):
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        written = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.py")}
        assert written == first


def test_crlf_checkout_compiles_to_the_same_bytes(spec: SpecCopy) -> None:
    for path in spec.folder.glob("*.yaml"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert generated(spec.folder) == generated(ROOT / "spec")


CHANGES = [
    ("presence", "    P07: [N|V, V, V, ", "    P07: [N,   V, V, ", "presence.py"),
    ("closures", "only_sources: [CACHE_REUSE]", "only_sources: [PROJECT_REUSE]", "closures.py"),
    ("governance", "closing_reserve_s: 20", "closing_reserve_s: 25", "governance.py"),
    (
        "keep",
        "nodes: [P06], codes: [MANIFEST_INVALID], action: close",
        "nodes: [P06], codes: [MANIFEST_INVALID], action: keep",
        "keep.py",
    ),
    (
        "recovery",
        "nodes: [P01], marks: [ITEM_OPENED], action: close",
        "nodes: [P01], marks: [ITEM_OPENED], action: halt",
        "recovery.py",
    ),
]


@pytest.mark.parametrize(("name", "old", "new", "module"), CHANGES, ids=[row[0] for row in CHANGES])
def test_one_change_changes_exactly_the_matching_files(
    spec: SpecCopy, name: str, old: str, new: str, module: str
) -> None:
    before = generated(spec.folder)
    spec.change(name, old, new)
    after = generated(spec.folder)
    changed = {file for file in before if before[file] != after[file]}
    assert changed == {f"{row.name}.py" for row in MODULES if name in row.sources} | {"stamp.py"}

    def tables(files: dict[str, bytes]) -> bytes:
        return b"\n".join(line for line in files[module].splitlines() if not line.startswith(b"#"))

    assert tables(before) != tables(after)


def test_header_names_the_source_and_its_hash() -> None:
    result = compile_folder(ROOT / "spec")
    files = emit(result.derived, result.documents)
    for row in MODULES:
        text = files[f"{row.name}.py"].decode()
        assert text.startswith("# Generated by tools.compile from ")
        for source in row.sources:
            assert f"spec/{source}.yaml sha256 {result.documents[source].sha256}" in text
        assert max(map(len, text.splitlines())) <= 110


def test_check_names_the_difference_and_the_cure(
    spec: SpecCopy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "generated"
    arguments = ["--spec", str(spec.folder), "--out", str(out)]
    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0
    target = out / "closures.py"
    target.write_bytes(target.read_bytes().replace(b'"RRR"', b'"RRN"', 1))
    (out / "keep.py").unlink()
    (out / "stray.py").write_text("x = 1\n", encoding="utf-8")
    capsys.readouterr()
    assert main([*arguments, "--check"]) == 1
    said = capsys.readouterr().err
    assert "generated/closures.py: differs from line" in said
    assert "generated/keep.py: missing" in said
    assert "generated/stray.py: not written by the compiler" in said
    assert "python -m tools.compile --spec" in said
    assert b'"RRN"' in target.read_bytes(), "--check must not write"


def test_faulty_spec_writes_nothing(
    spec: SpecCopy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "generated"
    spec.change("codes", "  P07: [PERSIST_LATE]\n", "")
    assert main(["--spec", str(spec.folder), "--out", str(out)]) == 1
    assert "spec/codes.yaml:" in capsys.readouterr().err
    assert not out.exists()


def test_removed_module_is_removed(spec: SpecCopy, tmp_path: Path) -> None:
    out = tmp_path / "generated"
    out.mkdir()
    (out / "old.py").write_text(
        "# Generated by tools.compile from spec/old.yaml. Do not edit.\n", encoding="utf-8"
    )
    (out / "mine.py").write_text("x = 1\n", encoding="utf-8")
    assert main(["--spec", str(spec.folder), "--out", str(out)]) == 0
    assert not (out / "old.py").exists()
    assert (out / "mine.py").exists()


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--spec", "/no/such/folder"], ["extra"]])
def test_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 64


def test_compiler_works_without_fsm_and_generated() -> None:
    script = (
        "import sys\n"
        "sys.modules.update({'fsm': None, 'generated': None, 'hibor': None})\n"
        "from tools.compile.__main__ import main\n"
        "sys.exit(main(['--check']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_generated_files_type_check(tmp_path: Path) -> None:
    (tmp_path / "generated").mkdir()
    for name, content in generated(ROOT / "spec").items():
        (tmp_path / "generated" / name).write_bytes(content)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(tmp_path / "c"),
        "generated",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    lint = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--no-cache",
        "--config",
        str(ROOT / "pyproject.toml"),
        "generated",
    ]
    done = subprocess.run(lint, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def places(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every key, item and value of a spec file."""
    found: list[tuple[str | int, ...]] = [path] if path else []
    if isinstance(data, dict):
        for key, part in data.items():
            found += places(part, (*path, key))
    elif isinstance(data, list):
        for index, part in enumerate(data):
            found += places(part, (*path, index))
    return found


def test_no_slip_makes_the_compiler_stumble(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seeded sample of slips (a value misspelt, a key or item lost) gives faults or a contract."""
    documents, _ = read_folder(ROOT / "spec", model.FILES)
    everything = [(name, path) for name in model.FILES for path in places(documents[name].data)]
    refused = 0
    for seed, (name, path) in enumerate(random.Random(20261130).sample(everything, 250)):
        data = copy.deepcopy(documents[name].data)
        parent = data
        for step in path[:-1]:
            parent = parent[step]
        if seed % 2:
            parent[path[-1]] = "misspelt"
        else:
            del parent[path[-1]]
        slipped = {**documents, name: attrs.evolve(documents[name], data=data)}
        monkeypatch.setattr(check, "read_folder", lambda folder, names, slipped=slipped: (slipped, []))
        result = compile_folder(ROOT / "spec")
        refused += bool(result.faults)
        if not result.faults:
            emit(result.derived, result.documents)
    assert refused > 100
