"""A browser that notes its arguments."""

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.places import DEADLINE

_NOTES: Final = """
import json, os, pathlib, sys, urllib.parse
path = pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(sys.argv[1]).path))
about = {"argv": sys.argv[1:], "text": path.read_text(), "path": str(path)}
about["modes"] = [oct(one.stat().st_mode & 0o777) for one in (path, path.parent)]
place = pathlib.Path(sys.argv[0]).with_name("noted")
place.with_suffix(".new").write_text(json.dumps(about))
place.with_suffix(".new").rename(place)
"""


class Noting:
    """A program in the place of the desktop's browser."""

    def __init__(self, folder: Path) -> None:
        self._noted = folder / "noted"
        program = folder / "browser.py"
        program.write_text(_NOTES)
        self.env = {"DISPLAY": ":none", "BROWSER": f"{sys.executable} {program} %s"}

    def seen(self) -> dict[str, Any]:
        """The call by which the browser was opened, as the browser noted it."""
        deadline = time.monotonic() + DEADLINE
        while not self._noted.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        noted: dict[str, Any] = json.loads(self._noted.read_text())
        return noted
