"""Errors of the author's code, told with the author's own file and line."""

from __future__ import annotations

import os
import re
import traceback
from typing import TYPE_CHECKING, Any, Final

from .errors import INTERNAL_ERROR

if TYPE_CHECKING:
    from .speaker import Speaker

_HERE: Final = os.path.dirname(os.path.abspath(__file__))
_LIBRARY: Final = os.path.dirname(os.path.abspath(traceback.__file__))
MAIN: Final = "sandboxed_"
"""How the name begins that the module of an author's main file has in the sandbox."""

_MOST: Final = 3500
"""Characters of a traceback in the log, which cuts lines at 4096."""


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return [
        frame
        for frame in frames
        if os.path.dirname(frame.filename) != _HERE and not _machinery(frame.filename)
    ]


def _machinery(filename: str) -> bool:
    return filename.startswith("<frozen") or filename.endswith("/importlib/__init__.py")


def sentence(error: BaseException) -> str:
    """`ZeroDivisionError: division by zero (my_proxy.py, line 12)`."""
    told = traceback.TracebackException(type(error), error, None)
    told.__notes__ = None  # they would stand last; `json` has some that do not say what is wrong
    what = _plain([*told.format_exception_only()][-1].strip())
    frames = _frames(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{what} ({os.path.basename(error.filename)}, line {error.lineno})"
    if not frames:
        return what
    frame = next((one for one in reversed(frames) if not _library(one.filename)), frames[-1])
    return f"{what} ({os.path.basename(frame.filename)}, line {frame.lineno})"


def _library(filename: str) -> bool:
    """Whether a frame is of the standard library, which was only called by whoever is at fault."""
    return os.path.dirname(filename).startswith(_LIBRARY) and "site-packages" not in filename


def _plain(line: str) -> str:
    """Exceptions of ours and of the author's file without the name of the module they are in."""
    return re.sub(rf"^(guest_sdk\.python\.|{MAIN})\w+\.", "", line)


def story(error: BaseException) -> str:
    """The traceback without the frames of this package, the last of it if it is long."""
    frames = _frames(error)
    lines = traceback.format_list(frames)
    lines += map(_plain, traceback.format_exception_only(error))
    return "".join(lines).rstrip()[-_MOST:]


def report(engine: Speaker, what: str, error: BaseException) -> None:
    """Puts a failure in the log."""
    engine.log("error", f"{what}: {sentence(error)}\n{story(error)}")


def answer(engine: Speaker, method: str, error: BaseException) -> dict[str, Any]:
    """The error object for a request whose handler failed; it is logged too."""
    report(engine, f"the handler of `{method}` failed", error)
    return {
        "code": INTERNAL_ERROR,
        "message": f"proxy `{engine.name}` failed at `{method}`: {sentence(error)}",
        "data": {"component": engine.name, "traceback": story(error).splitlines()},
    }
