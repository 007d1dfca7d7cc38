"""Finding the nodes a profile names, and saying what is wrong when they are not there.

Rules of this file: pure; where one node is required, none is `anchor_drift` and several are
`anchor_ambiguous`, never "the first one"; nodes of other packages do not count; a node without visible area
is not there. The diagnosis names the anchor and its nearest candidates, so that a person can repair the
profile.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from hibor.device.errors import DeviceError
from hibor.device.profile_types import Anchor
from hibor.device.uitree import UiNode, UiTree


def same_id(node: UiNode, wanted: str) -> bool:
    """Whether the node's resource id is the wanted one, given with or without its package."""
    return node.resource_id == wanted if ":" in wanted else bool(wanted) and node.short_id == wanted


def matches(tree: UiTree, node: UiNode, anchor: Anchor) -> bool:
    """Whether every given condition of the anchor holds for the node."""
    if anchor.id is not None and not same_id(node, anchor.id):
        return False
    if anchor.text is not None and node.text.strip() != anchor.text:
        return False
    if anchor.desc is not None and node.desc.strip() != anchor.desc:
        return False
    if anchor.class_name is not None and node.class_name != anchor.class_name:
        return False
    if anchor.clickable is not None and node.clickable != anchor.clickable:
        return False
    if anchor.text_matches is not None and not re.search(anchor.text_matches, node.text):
        return False
    if anchor.desc_matches is not None and not re.search(anchor.desc_matches, node.desc):
        return False
    within = anchor.within
    return within is None or any(same_id(above, within) for above in tree.ancestors(node))


def find_all(tree: UiTree, anchor: Anchor, below: UiNode | None = None) -> tuple[UiNode, ...]:
    """Every visible match, in document order; `below` limits the search to a node and its descendants."""
    nodes: Iterable[UiNode] = tree.nodes if below is None else (below, *tree.descendants(below))
    return tuple(n for n in nodes if matches(tree, n, anchor) and not tree.visible(n).empty)


def find_one(tree: UiTree, anchor: Anchor, name: str) -> UiNode:
    """The only match. Raises `anchor_drift` or `anchor_ambiguous` with a diagnosis."""
    found = find_all(tree, anchor)
    if len(found) == 1:
        return found[0]
    if not found:
        raise DeviceError(
            "anchor_drift", f"{name} ({anchor.describe()}) is not on the screen; {nearest(tree, anchor)}"
        )
    places = "; ".join(_place(node) for node in found[:4])
    raise DeviceError(
        "anchor_ambiguous", f"{name} ({anchor.describe()}) matches {len(found)} nodes: {places}"
    )


def present(tree: UiTree, anchor: Anchor) -> bool:
    """Whether at least one visible node matches."""
    return bool(find_all(tree, anchor))


def _place(node: UiNode) -> str:
    box = node.bounds
    name = node.short_id or node.class_name.rsplit(".", 1)[-1] or "node"
    text = f" {node.label[:20]!r}" if node.label else ""
    return f"{name}{text} [{box.left},{box.top}][{box.right},{box.bottom}]"


def _likeness(anchor: Anchor, node: UiNode) -> float:
    """How near a node comes to an anchor, 0 to 1: the best of its id and its texts."""
    pairs = [
        (anchor.id.rsplit("/", 1)[-1] if anchor.id else None, node.short_id),
        (anchor.text, node.text),
        (anchor.text_matches, node.text),
        (anchor.desc, node.desc),
        (anchor.desc_matches, node.desc),
        (anchor.class_name, node.class_name),
    ]
    ratios = [difflib.SequenceMatcher(None, a, b[:80]).ratio() for a, b in pairs if a and b]
    return max(ratios, default=0.0)


def nearest(
    tree: UiTree, anchor: Anchor, count: int = 3, *, candidates: Sequence[UiNode] | None = None
) -> str:
    """The most similar nodes, for the diagnosis; `candidates` are named whether or not they resemble it."""
    pool = tree.nodes[:2000] if candidates is None else tuple(candidates)
    least = 0.4 if candidates is None else 0.0
    ranked = sorted(((_likeness(anchor, node), -node.order) for node in pool), reverse=True)
    chosen = [tree.nodes[-order] for ratio, order in ranked[:count] if ratio >= least]
    if not chosen:
        return "nothing on the screen resembles it"
    return "nearest: " + "; ".join(_place(node) for node in chosen)
