"""The dump as a value: repair (F35), limits, geometry (F45)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hibor.device.errors import DeviceError
from hibor.device.uitree import LIMIT_DEPTH, Rect, parse_tree, repair
from tests.device.dumps import hierarchy, node, tree


def texts(data: bytes) -> list[str]:
    return [n.text for n in parse_tree(data, taken_s=0.0).nodes]


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (b"a&#0;b", "ab"),
        (b"a&#11;b", "ab"),
        (b"a&#x1F;b", "ab"),
        (b"&#55357;&#56832;", "\U0001f600"),
        (b"&#55357;x", "x"),
        (b"a\x0bb", "ab"),
        ("a\ufffeb".encode(), "ab"),
        (b"a&#65534;b", "ab"),
        (b"\xed\xa0\xbd\xed\xb8\x80", "\U0001f600"),
        (b"a\xffb", "ab"),
        (b"A&B 5 &amp; C", "A&B 5 & C"),
        ("報告..".encode(), "報告.."),
    ],
)
def test_f35_forbidden_characters_are_repaired_with_a_flag(raw: bytes, clean: str) -> None:
    data = hierarchy(node("t", "TEXT", (0, 0, 9, 9))).replace(b"TEXT", raw)
    parsed = parse_tree(data, taken_s=0.0)
    assert parsed.nodes[0].text == clean
    assert parsed.repaired == (raw.decode("utf-8", "replace") not in (clean, "報告.."))


def test_intact_dump_is_not_flagged() -> None:
    assert not tree(node("a", "慧博 \U0001f600 & <x>")).repaired


@given(st.binary(max_size=60))
def test_f35_any_bytes_in_a_text_give_a_tree_or_a_device_error(noise: bytes) -> None:
    data = hierarchy(node("t", "TEXT")).replace(b"TEXT", noise)
    try:
        assert parse_tree(data, taken_s=0.0).nodes
    except DeviceError as error:
        assert error.failure == "dump_unreadable"


@given(st.text())
def test_repair_is_idempotent(text: str) -> None:
    assert repair(repair(text)) == repair(text)


BOMB = b"""<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>
<hierarchy rotation="0"><node text="&b;" bounds="[0,0][1,1]"/></hierarchy>"""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"ERROR: could not get idle state.\n",
        hierarchy(node("a"))[:-20],
        b"<?xml version='1.0'?><hierarchy rotation='0'></hierarchy>",
        b"<hierarchy rotation='0'/>",
        BOMB,
        hierarchy(node("a", "", (0, 0, 1, 1))).replace(b"[0,0][1,1]", b"nonsense"),
        hierarchy(b"<node bounds='[0,0][1,1]'>".decode() * (LIMIT_DEPTH + 1) + "</node>" * (LIMIT_DEPTH + 1)),
    ],
)
def test_what_is_no_whole_hierarchy_is_unreadable_never_empty(data: bytes) -> None:
    with pytest.raises(DeviceError) as caught:
        parse_tree(data, taken_s=0.0)
    assert caught.value.failure == "dump_unreadable"


def test_words_around_the_xml_are_dropped() -> None:
    data = b"junk\r\n" + hierarchy(node("a", "x")) + b"UI hierchary dumped to: /dev/tty\n"
    assert texts(data) == ["x"]


def test_document_order_parents_and_subtrees() -> None:
    parsed = tree(
        node("a", "", (0, 0, 100, 100), node("b", "", (0, 0, 50, 50), node("c")), node("d")), node("e")
    )
    assert [n.short_id for n in parsed.nodes] == ["a", "b", "c", "d", "e"]
    a, b, c, d, e = parsed.nodes
    assert [x.parent for x in (a, b, c, d, e)] == [-1, 0, 1, 0, -1]
    assert parsed.descendants(a) == (b, c, d) and tuple(parsed.children(a)) == (b, d)
    assert tuple(parsed.roots()) == (a, e) and tuple(parsed.ancestors(c)) == (b, a)


def test_visible_part_is_cut_by_every_ancestor() -> None:
    parsed = tree(
        node(
            "list",
            "",
            (0, 200, 1080, 2000),
            node("row", "", (0, 1900, 1080, 2200), node("t", "", (0, 2100, 9, 2150))),
        )
    )
    _, row, text = parsed.nodes
    assert parsed.visible(row) == Rect(0, 1900, 1080, 2000)
    assert parsed.visible(text).empty and parsed.tap_point(text) is None


def test_covered_pixels_are_not_tapped() -> None:
    button = node("float", "", (440, 900, 640, 1100), clickable=True)
    parsed = tree(
        node("root", "", (0, 0, 1080, 2340), node("row", "", (0, 900, 1080, 1100), clickable=True), button)
    )
    row = parsed.nodes[1]
    point = parsed.tap_point(row)
    assert point is not None and not Rect(440, 900, 640, 1100).contains(*point)
    wall = node("wall", "", (0, 0, 1080, 2340), clickable=True)
    hidden = tree(node("root", "", (0, 0, 1080, 2340), node("row", "", (0, 900, 1080, 1100)), wall))
    assert hidden.tap_point(hidden.nodes[1]) is None


def test_f45_rotation_is_read_and_bad_rotation_is_upright() -> None:
    assert tree(node("a"), rotation=1).rotation == 1
    assert parse_tree(hierarchy(node("a")).replace(b'rotation="0"', b'rotation="x"'), taken_s=0).rotation == 0


def test_digest_is_of_the_received_bytes() -> None:
    first, second = tree(node("a", "x")), tree(node("a", "y"))
    assert first.digest != second.digest and first.digest == tree(node("a", "x")).digest
