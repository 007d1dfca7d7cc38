"""The app's cache folders on the phone, as one listing (design 5 "App profile", faults F25, F28).

A folder may be reachable under one name of the shared storage and not the other; the first that can be read
is
used from then on. A folder that does not exist yet is empty; one that refuses to be read is
`cache_unreadable`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hibor.device.errors import DeviceError
from hibor.device.profile import Profile
from hibor.device.protocol import Device, RemoteFile
from hibor.items.catalogue import CatalogueEntry
from hibor.package.match import named_like, new_files


class PhoneCache:
    """Listings of the profile's cache folders."""

    def __init__(self, device: Device, profile: Profile) -> None:
        self._device = device
        self._profile = profile
        self._chosen: dict[tuple[str, ...], str] = {}

    def listing(self) -> tuple[RemoteFile, ...]:
        """All regular files of the cache folders. Raises DeviceError `cache_unreadable` where none can be
        read.
        """
        found: list[RemoteFile] = []
        for names in self._profile.cache.paths():
            found.extend(file for file in self._entries(names) if file.kind == "file")
        return tuple(found)

    def new_since(self, baseline: Sequence[RemoteFile]) -> tuple[RemoteFile, ...]:
        """Finished files that are new or changed against an earlier listing."""
        return new_files(baseline, self.listing())

    def file_of(self, entry: CatalogueEntry, listing: Sequence[RemoteFile]) -> RemoteFile | None:
        """The cached file whose name is this report's, None when there is none or more than one.

        Only a hint: the content is checked before the file is used.
        """
        fitting = [file for file in new_files((), listing) if named_like(file.name, entry)]
        return fitting[0] if len(fitting) == 1 else None

    def _entries(self, names: tuple[str, ...]) -> tuple[RemoteFile, ...]:
        chosen = self._chosen.get(names)
        refused: DeviceError | None = None
        for name in (chosen,) if chosen else names:
            try:
                entries = self._device.list(name).entries
            except DeviceError as error:
                if error.failure == "remote_vanished":
                    continue
                if error.failure != "cache_unreadable":
                    raise
                refused = error
                continue
            self._chosen[names] = name
            return entries
        if refused is not None:
            raise refused
        return ()
