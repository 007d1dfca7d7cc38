"""tools.diagram: every node, edge and cell of the generated tables is in the picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from defusedxml.ElementTree import fromstring

from generated.edges import CLOSE_EVENTS, EDGES
from generated.presence import LANES, MATRIX, NODES, STATE_SHORT
from tools.diagram.__main__ import main
from tools.diagram.graph import closed_state, machines
from tools.diagram.svg import render_svg
from tools.diagram.text import render_markdown, render_mermaid

SVG = "{http://www.w3.org/2000/svg}"


def test_svg_is_well_formed_and_has_every_node_and_edge() -> None:
    root = fromstring(render_svg())
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert sorted(titles) == sorted(node for lane in LANES for node in NODES[lane])
    arrows = {(lane, source, target) for lane, source, _, target, _, _ in EDGES if target != closed_state()}
    assert len([path for path in root.iter(f"{SVG}path") if path.get("class") == "arrow"]) == len(arrows)
    said = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    for _, _, event, target, _, _ in EDGES:
        if target != closed_state():
            assert event in said


def test_svg_boxes_do_not_overlap_and_stay_on_the_page() -> None:
    root = fromstring(render_svg())
    width, height = (float(part) for part in str(root.get("viewBox")).split()[2:])
    boxes = [
        tuple(float(str(rect.get(key))) for key in ("x", "y", "width", "height"))
        for rect in root.iter(f"{SVG}rect")
        if "box" in str(rect.get("class"))
    ]
    for index, (x, y, w, h) in enumerate(boxes):
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height
        for ox, oy, ow, oh in boxes[index + 1 :]:
            assert x + w <= ox or ox + ow <= x or y + h <= oy or oy + oh <= y


def test_svg_is_self_contained() -> None:
    text = render_svg().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|<script|@import|@font-face|<image|href=", text)


def test_closures_stand_at_their_nodes() -> None:
    for machine in machines():
        for node in machine.nodes:
            wanted = tuple(
                variant.split("_")[0] for variant in CLOSE_EVENTS.get((machine.lane, node.name), {})
            )
            assert node.closures == wanted


def test_mermaid_has_every_edge() -> None:
    text = render_mermaid()
    for lane, source, event, target, _, _ in EDGES:
        ends = [f"{lane}_{name}".replace("-", "_") for name in (source, target)]
        if target == closed_state():
            assert f"{ends[0]} --> [*]: " in text
        else:
            assert re.search(rf"{ends[0]} --> {ends[1]}: .*\b{re.escape(event)}\b", text)


def test_markdown_has_every_cell() -> None:
    text = render_markdown()
    for lane in LANES:
        part = text.split(f"## {lane}")[1].split("\n## ")[0]
        for state, cells in MATRIX[lane].items():
            (row,) = [line for line in part.splitlines() if line.startswith(f"| {STATE_SHORT[state]} ")]
            assert [cell.strip() for cell in row.split("|")[2:-1]] == ["/".join(cell) for cell in cells]


@pytest.mark.parametrize("form", ["svg", "mermaid", "markdown"])
def test_out_and_stdout_are_the_same_bytes(
    form: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["--format", form, "--out", str(tmp_path / "picture")]) == 0
    assert main(["--format", form]) == 0
    assert capfdbinary.readouterr().out == (tmp_path / "picture").read_bytes()


def test_the_readme_shows_the_contract_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = Path(__file__).parents[2] / "README.md"
    assert main(["--readme", str(readme), "--check"]) == 0, "python -m tools.diagram --readme README.md"
    copy = tmp_path / "README.md"
    copy.write_text(readme.read_text(encoding="utf-8").replace("`I N V", "`V N V"), encoding="utf-8")
    assert main(["--readme", str(copy), "--check"]) == 1 and "not current" in capsys.readouterr().out
    assert main(["--readme", str(copy)]) == 0
    assert copy.read_bytes() == readme.read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--format", "png"],
        ["--out", "/no/such/folder/x.svg"],
        ["--check"],
        ["--readme", "/no/such/file.md"],
        ["--readme", __file__.replace("test_diagram.py", "__init__.py")],
    ],
)
def test_usage(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 64
