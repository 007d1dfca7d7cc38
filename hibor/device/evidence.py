"""What is kept of a screen as evidence: the dump, a screenshot, their hashes.

Rules of this file: a screenshot is welcome but never needed (a secure window gives a black one, which is
said); failing to take one is recorded, not raised; bytes are handed to the caller, nothing is written here.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable

import attrs

from hibor.device.errors import DeviceError
from hibor.device.protocol import Device
from hibor.device.uitree import UiTree

_LIMIT_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 64 * 1024


@attrs.frozen
class ScreenEvidence:
    """`dump_sha256` is over the dump's bytes, `screenshot_sha256` over the PNG (None: not available, `note`
    says why). `black`: the app forbids screenshots (FLAG_SECURE), so the picture shows nothing."""

    dump_sha256: str
    screenshot_sha256: str | None
    dump: bytes = attrs.field(repr=False)
    screenshot: bytes | None = attrs.field(repr=False)
    black: bool = False
    note: str = ""


def is_black(png: bytes) -> bool:
    """Whether a PNG (8 bits a channel) is one single black: every byte is 0, 255 (alpha) or a filter
    number.
    """
    place, packed = 8, bytearray()
    while place + 8 <= len(png):
        length, kind = struct.unpack(">I4s", png[place : place + 8])
        if kind == b"IDAT":
            packed += png[place + 8 : place + 8 + length]
        place += 12 + length
    inflate, rest = zlib.decompressobj(), bytes(packed)
    seen_bytes = zeros = 0
    try:
        while rest and seen_bytes < _LIMIT_BYTES and not inflate.eof:
            pixels = inflate.decompress(rest, _PIECE_BYTES)
            if pixels.strip(b"\x00\x01\x02\x03\x04\xff"):
                return False  # most pictures end here, with the first piece
            seen_bytes += len(pixels)
            zeros += pixels.count(0)
            rest = inflate.unconsumed_tail
    except zlib.error:
        return False
    return seen_bytes > 0 and zeros * 2 > seen_bytes


def capture(device: Device, tree: UiTree) -> ScreenEvidence:
    """Hashes and bytes of the dump at hand and of the screen now."""
    return evidence_of(tree, device.screenshot)


def evidence_of(tree: UiTree, picture: Callable[[], bytes]) -> ScreenEvidence:
    """A dump together with the PNG that `picture` returns, or with why it raised `DeviceError`."""
    try:
        png = picture()
    except DeviceError as error:
        return ScreenEvidence(tree.digest, None, tree.xml, None, note=str(error))
    black = is_black(png)
    note = "the app forbids screenshots, the picture is black" if black else ""
    return ScreenEvidence(tree.digest, hashlib.sha256(png).hexdigest(), tree.xml, png, black, note)
