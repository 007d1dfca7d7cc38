"""Where the adb program is.

The adbutils wheel carries one for Windows, macOS and Linux on x86-64. It is found without importing the
package, so that asking for the path costs nothing and runs nothing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path


def adb_binary() -> str:
    """The absolute path of adb: the one in the adbutils wheel, else the first on `PATH`.

    The wheel's own comes first because its version is the one this project is tested with. Raises
    `FileNotFoundError` where neither exists (a platform without a wheel, adb not installed).
    """
    name = "adb.exe" if os.name == "nt" else "adb"
    spec = importlib.util.find_spec("adbutils")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        bundled = Path(folder) / "binaries" / name
        if bundled.is_file():
            return str(bundled)
    installed = shutil.which("adb")
    if installed is not None:
        return os.path.abspath(installed)
    raise FileNotFoundError("no adb: this platform's adbutils carries none, and PATH has none")
