"""The UI dump as a value: parsing, repair, geometry.

Rules of this file: the dump is untrusted (page content reaches it), so only defusedxml parses it, within
fixed limits of bytes, nodes and depth; characters XML forbids are repaired and the tree says so
(`repaired`, fault F35); what is not a whole `<hierarchy>` raises `dump_unreadable`, never an empty tree.
Nodes are in document order; a parent precedes its children; later nodes are drawn over earlier ones. All
lengths are pixels of the dump's own space, which is also the space of `input tap` (fault F45).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Final

import attrs
from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from hibor.device.errors import DeviceError

LIMIT_BYTES: Final = 8 * 1024 * 1024
LIMIT_NODES: Final = 20_000
LIMIT_DEPTH: Final = 200

_BOUNDS = re.compile(r"^\[(-?\d+),(-?\d+)\]\[(-?\d+),(-?\d+)\]$")
_REFERENCE = re.compile(r"&#(x[0-9A-Fa-f]+|[0-9]+);")
_PAIR = re.compile(r"&#(x[0-9A-Fa-f]+|[0-9]+);&#(x[0-9A-Fa-f]+|[0-9]+);")
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9A-Fa-f]+);)")


@attrs.frozen
class Rect:
    """A rectangle in pixels; right and bottom are outside it."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Width, 0 for an empty rectangle."""
        return max(0, self.right - self.left)

    @property
    def height(self) -> int:
        """Height, 0 for an empty rectangle."""
        return max(0, self.bottom - self.top)

    @property
    def empty(self) -> bool:
        """Nothing can be tapped in it."""
        return self.width == 0 or self.height == 0

    @property
    def center(self) -> tuple[int, int]:
        """The middle pixel."""
        return ((self.left + self.right) // 2, (self.top + self.bottom) // 2)

    def meet(self, other: Rect) -> Rect:
        """The common part (perhaps empty)."""
        return Rect(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        )

    def contains(self, x: int, y: int) -> bool:
        """Whether the pixel lies in it."""
        return self.left <= x < self.right and self.top <= y < self.bottom


@attrs.frozen(eq=False)
class UiNode:
    """One node of the dump. `order` is its place in document order, `parent` its parent's (-1 for a root).

    `end` is the order of the first node after its subtree, so descendants are the nodes order+1 … end-1.
    """

    order: int
    parent: int
    end: int
    text: str
    resource_id: str
    class_name: str
    package: str
    desc: str
    bounds: Rect
    clickable: bool
    scrollable: bool
    enabled: bool
    selected: bool

    @property
    def short_id(self) -> str:
        """The resource id without its `package:id/` prefix."""
        return self.resource_id.rsplit("/", 1)[-1]

    @property
    def label(self) -> str:
        """Text, else content description."""
        return self.text or self.desc


@attrs.frozen(eq=False)
class UiTree:
    """One dump. `taken_s` is the clock's monotonic time at which the dump was in our hands; `digest` is the
    sha256 of the dump's bytes as received; `xml` are those bytes (evidence)."""

    nodes: tuple[UiNode, ...]
    package: str
    rotation: int
    repaired: bool
    taken_s: float
    digest: str
    xml: bytes

    def descendants(self, node: UiNode) -> tuple[UiNode, ...]:
        """The nodes below `node`, in document order."""
        return self.nodes[node.order + 1 : node.end]

    def children(self, node: UiNode) -> Iterator[UiNode]:
        """The direct children of `node`."""
        order = node.order + 1
        while order < node.end:
            child = self.nodes[order]
            yield child
            order = child.end

    def roots(self) -> Iterator[UiNode]:
        """The nodes without a parent."""
        order = 0
        while order < len(self.nodes):
            yield self.nodes[order]
            order = self.nodes[order].end

    def ancestors(self, node: UiNode) -> Iterator[UiNode]:
        """Parents upwards, nearest first."""
        while node.parent >= 0:
            node = self.nodes[node.parent]
            yield node

    def extent(self) -> Rect:
        """The rectangle all roots lie in."""
        rects = [root.bounds for root in self.roots()]
        if not rects:
            return Rect(0, 0, 0, 0)
        return Rect(
            min(r.left for r in rects),
            min(r.top for r in rects),
            max(r.right for r in rects),
            max(r.bottom for r in rects),
        )

    def visible(self, node: UiNode) -> Rect:
        """The part of `node` that its ancestors do not cut off (perhaps empty)."""
        rect = node.bounds
        for parent in self.ancestors(node):
            rect = rect.meet(parent.bounds)
        return rect

    def covering(self, node: UiNode, x: int, y: int) -> UiNode | None:
        """A clickable node drawn over `node` at this pixel that belongs to another branch, if any."""
        for other in self.nodes[node.end :]:
            if other.clickable and other.parent != -1 and self.visible(other).contains(x, y):
                return other
        return None

    def tap_point(self, node: UiNode) -> tuple[int, int] | None:
        """A pixel inside the visible part of `node` that nothing clickable covers; the middle where
        possible.
        """
        rect = self.visible(node)
        if rect.empty:
            return None
        for share_y in (50, 25, 75):
            for share_x in (50, 25, 75):
                x = rect.left + rect.width * share_x // 100
                y = rect.top + rect.height * share_y // 100
                if self.covering(node, x, y) is None:
                    return (x, y)
        return None

    def texts(self) -> Iterator[str]:
        """Every non-empty text and content description."""
        for node in self.nodes:
            if node.text:
                yield node.text
            if node.desc and node.desc != node.text:
                yield node.desc


def center(node: UiNode) -> tuple[int, int]:
    """The middle of the node's own bounds (not clipped: see `UiTree.tap_point` for tapping)."""
    return node.bounds.center


def _code_point(text: str) -> int:
    return int(text[1:], 16) if text.startswith("x") else int(text)


def _join_pair(match: re.Match[str]) -> str:
    high, low = _code_point(match.group(1)), _code_point(match.group(2))
    if 0xD800 <= high < 0xDC00 <= low < 0xE000:
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    return match.group(0)


def _allowed_reference(match: re.Match[str]) -> str:
    point = _code_point(match.group(1))
    if point > 0x10FFFF or 0xD800 <= point < 0xE000 or _FORBIDDEN.match(chr(point)):
        return ""
    return match.group(0)


def repair(text: str) -> str:
    """Text without what XML 1.0 forbids; surrogate pairs become the character they meant (fault F35)."""
    if "&#" in text:
        text = _PAIR.sub(_join_pair, text)
        text = _REFERENCE.sub(_allowed_reference, text)
    text = _BARE_AMPERSAND.sub("&amp;", text)
    return _FORBIDDEN.sub("", text)


def _decode(data: bytes) -> str:
    """UTF-8; surrogates that Android wrote one by one (CESU-8) are joined, other bad bytes dropped."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        loose = data.decode("utf-8", errors="surrogatepass" if _has_only_surrogates(data) else "ignore")
        return loose.encode("utf-16", "surrogatepass").decode("utf-16", errors="ignore")


def _has_only_surrogates(data: bytes) -> bool:
    try:
        data.decode("utf-8", errors="surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def _unreadable(reason: str) -> DeviceError:
    return DeviceError("dump_unreadable", f"the UI dump cannot be read: {reason}")


def _cut_out(data: bytes) -> bytes:
    """The bytes from the XML start to `</hierarchy>`: what uiautomator prints around them is dropped."""
    start = data.find(b"<?xml")
    if start < 0:
        start = data.find(b"<hierarchy")
    end = data.rfind(b"</hierarchy>")
    if start < 0 or end < start:
        if re.search(rb"<hierarchy[^>]*/>\s*$", data):
            raise _unreadable("the hierarchy is empty")
        raise _unreadable("no whole <hierarchy> in it")
    return data[start : end + len(b"</hierarchy>")]


def _rect(text: str) -> Rect:
    match = _BOUNDS.match(text)
    if match is None:
        raise _unreadable(f"bounds {text[:40]!r}")
    left, top, right, bottom = (int(group) for group in match.groups())
    return Rect(left, top, right, bottom)


def _flatten(hierarchy: Any) -> tuple[UiNode, ...]:
    """Element tree → nodes in document order, without recursion."""
    nodes: list[UiNode | None] = []
    entered: list[tuple[Any, int, int]] = []
    stack: list[tuple[Any, int, int, bool]] = [(e, -1, 1, False) for e in reversed(list(hierarchy))]
    while stack:
        element, parent, depth, leaving = stack.pop()
        if leaving:
            _, order, above = entered.pop()
            nodes[order] = _node(element, order, above, len(nodes))
            continue
        if element.tag != "node":
            continue
        if depth > LIMIT_DEPTH or len(nodes) >= LIMIT_NODES:
            raise _unreadable("too many nodes or too deep")
        order = len(nodes)
        nodes.append(None)
        entered.append((element, order, parent))
        stack.append((element, parent, depth, True))
        stack.extend((child, order, depth + 1, False) for child in reversed(list(element)))
    return tuple(node for node in nodes if node is not None)


def _node(element: Any, order: int, parent: int, end: int) -> UiNode:
    read = element.get
    return UiNode(
        order=order,
        parent=parent,
        end=end,
        text=read("text", ""),
        resource_id=read("resource-id", ""),
        class_name=read("class", ""),
        package=read("package", ""),
        desc=read("content-desc", ""),
        bounds=_rect(read("bounds", "")),
        clickable=read("clickable") == "true",
        scrollable=read("scrollable") == "true",
        enabled=read("enabled", "true") == "true",
        selected=read("selected") == "true",
    )


def parse_tree(data: bytes, *, taken_s: float) -> UiTree:
    """The dump's bytes → tree. Raises `dump_unreadable`."""
    if len(data) > LIMIT_BYTES:
        raise _unreadable(f"more than {LIMIT_BYTES} bytes")
    xml = _cut_out(data)
    loose = _decode(xml)
    clean = repair(loose)
    try:
        intact = xml.decode("utf-8") == clean
    except UnicodeDecodeError:
        intact = False
    clean = re.sub(r"^<\?xml[^>]*\?>", "", clean, count=1)
    try:
        hierarchy = ElementTree.fromstring(clean, forbid_dtd=True)
    except (ElementTree.ParseError, DefusedXmlException, ValueError, RecursionError) as error:
        raise _unreadable(f"{type(error).__name__}: {error}") from error
    if hierarchy.tag != "hierarchy":
        raise _unreadable(f"root element {hierarchy.tag!r}")
    nodes = _flatten(hierarchy)
    if not nodes:
        raise _unreadable("the hierarchy is empty")
    rotation_text = hierarchy.get("rotation", "0")
    rotation = int(rotation_text) % 4 if rotation_text.isdigit() else 0
    package = next((node.package for node in nodes if node.package), "")
    return UiTree(nodes, package, rotation, not intact, taken_s, hashlib.sha256(xml).hexdigest(), xml)
