"""What a screen is made of, how `uiautomator dump` prints it, and how it looks as a PNG.

Rules: one widget tree is the only truth of a screen; the XML, the picture and the hit test are read from it,
so they cannot disagree. The XML has the attributes, their order and the escapes of Android's own dumper,
including its two habits a reader must survive: bounds are clipped to the visible part (nodes wholly outside
are left out), and characters XML cannot carry are replaced by dots, an emoji by two of them (fault F35).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs

from hibor.sim.reports import Stroke, paint_png

Bounds = tuple[int, int, int, int]
Action = tuple[str, str]

APP_PACKAGE = "com.huibo.research"
FRAME = "android.widget.FrameLayout"
TEXT = "android.widget.TextView"
BUTTON = "android.widget.Button"
NO_ACTION: Action = ("", "")


@attrs.define
class Widget:
    """One view. `bounds` are left, top, right, bottom in display pixels; `action` is what a tap on it does.

    `id_name` is the part after `:id/`; `report_id` names the report whose control this is.
    """

    class_name: str
    bounds: Bounds
    id_name: str = ""
    text: str = ""
    description: str = ""
    clickable: bool = False
    scrollable: bool = False
    enabled: bool = True
    password: bool = False
    focusable: bool = False
    action: Action = NO_ACTION
    report_id: str | None = None
    children: list[Widget] = attrs.Factory(list)

    def walk(self) -> Iterator[Widget]:
        """This widget and everything below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@attrs.frozen
class Window:
    """The active window: what a dump shows. `focus` is package and activity as `dumpsys window` tells them.
    """

    root: Widget
    package: str = APP_PACKAGE
    activity: str = f"{APP_PACKAGE}.MainActivity"


def clipped(bounds: Bounds, outer: Bounds) -> Bounds | None:
    """The part of `bounds` inside `outer`, or None when nothing is left."""
    left, top = max(bounds[0], outer[0]), max(bounds[1], outer[1])
    right, bottom = min(bounds[2], outer[2]), min(bounds[3], outer[3])
    return (left, top, right, bottom) if left < right and top < bottom else None


def clip_tree(widget: Widget, outer: Bounds) -> Widget | None:
    """The visible part of a tree: every bound cut to `outer`, invisible nodes left out."""
    bounds = clipped(widget.bounds, outer)
    if bounds is None:
        return None
    children = [kept for child in widget.children if (kept := clip_tree(child, outer)) is not None]
    return attrs.evolve(widget, bounds=bounds, children=children)


def hit(root: Widget, x: int, y: int) -> Widget | None:
    """The topmost clickable widget at a point, as the touch dispatcher would find it; None when there is
    none.
    """
    left, top, right, bottom = root.bounds
    if not (left <= x < right and top <= y < bottom):
        return None
    for child in reversed(root.children):
        found = hit(child, x, y)
        if found is not None:
            return found
    return root if root.clickable and root.enabled else None


def window_xml(
    window: Window, rotation: int, compressed: bool = False, renamed: Mapping[str, str] | None = None,
    junk: bool = False, reworded: Mapping[str, str] | None = None,
) -> bytes:
    """The file `uiautomator dump` writes for `window`.

    `compressed` drops layout-only containers. `renamed` maps id names to those of another app version,
    `reworded` maps words of its texts likewise. With `junk` characters XML forbids are written as character
    references, as some phones do (fault F35).
    """
    parts = ["<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>"]
    parts.append(f'<hierarchy rotation="{rotation}">')
    escape = _junk_escape if junk else _escape

    def clean(text: str) -> str:
        for old, new in (reworded or {}).items():
            text = text.replace(old, new)
        return escape(text)

    roots = _important([window.root]) if compressed else [window.root]
    for index, root in enumerate(roots):
        _node_xml(parts, root, index, window.package, renamed or {}, clean, compressed)
    parts.append("</hierarchy>")
    return "".join(parts).encode("utf-8", errors="replace")


def _important(widgets: list[Widget]) -> list[Widget]:
    """Widgets with plain containers replaced by their children."""
    kept: list[Widget] = []
    for widget in widgets:
        plain = not (
            widget.id_name or widget.text or widget.description or widget.clickable or widget.scrollable
        )
        kept += _important(widget.children) if plain else [widget]
    return kept


def _node_xml(
    parts: list[str], widget: Widget, index: int, package: str, renamed: Mapping[str, str],
    clean: Callable[[str], str], compressed: bool,
) -> None:
    naf = (
        widget.clickable and widget.enabled
        and not any(one.text or one.description for one in widget.walk())
    )
    id_name = renamed.get(widget.id_name, widget.id_name)
    resource = f"{package}:id/{id_name}" if id_name and ":" not in id_name else id_name
    left, top, right, bottom = widget.bounds
    values = {
        "index": str(index), "text": clean(widget.text), "resource-id": resource,
        "class": widget.class_name, "package": package, "content-desc": clean(widget.description),
        "checkable": _flag(False), "checked": _flag(False), "clickable": _flag(widget.clickable),
        "enabled": _flag(widget.enabled), "focusable": _flag(widget.clickable or widget.focusable),
        "focused": _flag(False), "scrollable": _flag(widget.scrollable), "long-clickable": _flag(False),
        "password": _flag(widget.password), "selected": _flag(False),
        "bounds": f"[{left},{top}][{right},{bottom}]",
    }
    opening = "<node" + (' NAF="true"' if naf else "")
    opening += "".join(f' {key}="{value}"' for key, value in values.items())
    children = _important(widget.children) if compressed else widget.children
    if not children:
        parts.append(opening + " />")
        return
    parts.append(opening + ">")
    for place, child in enumerate(children):
        _node_xml(parts, child, place, package, renamed, clean, compressed)
    parts.append("</node>")


def _flag(value: bool) -> str:
    return "true" if value else "false"


_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}


def _escape(text: str) -> str:
    """Attribute text as the dumper writes it: markup escaped, forbidden characters as dots."""
    out: list[str] = []
    for char in text:
        code = ord(char)
        if char in _MARKUP:
            out.append(_MARKUP[char])
        elif code > 0xFFFF:
            out.append("..")
        elif code < 0x20 or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF or code >= 0xFFFE:
            out.append(".")
        else:
            out.append(char)
    return "".join(out)


def _junk_escape(text: str) -> str:
    """Attribute text as a careless dumper writes it: surrogate and control references no parser accepts."""
    out: list[str] = []
    for char in text:
        code = ord(char)
        if code > 0xFFFF:
            code -= 0x10000
            out.append(f"&#{0xD800 + (code >> 10)};&#{0xDC00 + (code & 0x3FF)};")
        else:
            out.append(_MARKUP.get(char, char))
    return "&#0;&#11;" + "".join(out) + "\ufffe" if text else ""


_FILLS = {
    "btn_download": (0.13, 0.45, 0.85), "dialog_ok": (0.13, 0.45, 0.85), "dialog_cancel": (0.85, 0.85, 0.85),
    "report_row": (1.0, 1.0, 1.0), "ad_row": (1.0, 0.95, 0.8), "notice_row": (0.9, 0.95, 1.0),
    "toolbar": (0.1, 0.35, 0.7), "tab_bar": (0.94, 0.94, 0.94), "dialog_root": (1.0, 1.0, 1.0),
    "toast_text": (0.3, 0.3, 0.3),
}


def window_png(window: Window, size: tuple[int, int], behind: Widget | None = None) -> bytes:
    """The screen as a PNG; `behind` is what a dialog lies on. None of it is readable for the adapter."""
    strokes = [Stroke((0, 0, *size), (0.93, 0.93, 0.95))]
    if behind is not None:
        strokes += _strokes(behind)
        strokes.append(Stroke((0, 0, *size), (0.55, 0.55, 0.55)))
    strokes += _strokes(window.root)
    return paint_png(size[0], size[1], strokes)


def black_png(size: tuple[int, int]) -> bytes:
    """What a screenshot of a protected window (FLAG_SECURE) looks like."""
    return paint_png(size[0], size[1], [Stroke((0, 0, *size), (0.0, 0.0, 0.0))])


def _strokes(root: Widget) -> list[Stroke]:
    strokes: list[Stroke] = []
    for widget in root.walk():
        left, _, right, bottom = widget.bounds
        fill = _FILLS.get(widget.id_name)
        light = widget.id_name in ("btn_download", "dialog_ok", "toast_text")
        size_px = 40 if widget.id_name.endswith("title") else 32
        strokes.append(
            Stroke(
                widget.bounds, fill, widget.text or widget.description, size_px,
                (1.0, 1.0, 1.0) if light else (0.12, 0.12, 0.12),
            )
        )
        if widget.id_name in ("report_row", "history_row", "ad_row", "notice_row"):
            strokes.append(Stroke((left, bottom - 2, right, bottom), (0.8, 0.8, 0.8)))
    return strokes
