"""The way this conductor was installed, and the commands that install packages beside it.

Hints quote these commands: their packages must end up in the Python that runs here.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final, Literal

_NAME: Final = "conductor-acp"

_How = Literal["uv tool", "pipx", "pip", "checkout"]


def with_extra(extra: str) -> str:
    """The command that installs an extra of conductor: `remote`, `otel` …"""
    match _how():
        case "uv tool":
            return _uv(extra=extra)
        case "pipx":
            return f"pipx inject {_NAME} {_told(extra)}"
        case "checkout":
            return f"{_pip()} -e '{_checkout()}[{extra}]'"
        case "pip":
            return f"{_pip()} {_told(extra)}"


def with_package(package: str) -> str:
    """The command that installs a package beside conductor."""
    match _how():
        case "uv tool":
            return _uv(package=package)
        case "pipx":
            return f"pipx inject {_NAME} {package}"
        case "checkout" | "pip":
            return f"{_pip()} {package}"


def again() -> str:
    """The command that installs conductor anew, with all that it needs."""
    match _how():
        case "uv tool":
            return f"uv tool upgrade --reinstall {_NAME}"
        case "pipx":
            return f"pipx reinstall {_NAME}"
        case "checkout":
            return f"{_pip()} --force-reinstall -e '{_checkout()}'"
        case "pip":
            return f"{_pip()} --force-reinstall {_told()}"


def newer() -> str:
    """The command that brings the newest conductor."""
    match _how():
        case "uv tool":
            return f"uv tool upgrade {_NAME}"
        case "pipx":
            return f"pipx upgrade {_NAME}"
        case "checkout":
            return f"git -C {_checkout()} pull"
        case "pip":
            return f"{_pip()} --upgrade {_told()}"


def _how() -> _How:
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")):
        return "uv tool"
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return "pipx"
    return "checkout" if os.path.exists(os.path.join(_checkout(), "pyproject.toml")) else "pip"


def _checkout() -> str:
    """The folder that this package is in."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _uv(*, extra: str = "", package: str = "") -> str:
    """The command of uv for one more extra or package. It installs anew: a package that is not
    named again is removed, and a package from a folder would be looked for in an index."""
    import shlex

    held = _receipt()
    own = next((one for one in held if one.get("name") == _NAME), {})
    extras = ",".join(sorted({*filter(None, [extra]), *own.get("extras", ())}))
    beside = {str(one.get("name")) for one in held if one is not own}
    options = "".join(f"--with {one} " for one in sorted({*filter(None, [package]), *beside}))
    wanted = f"[{extras}]" if extras else ""
    if folder := own.get("editable") or own.get("directory") or own.get("path"):
        options += "--editable " if "editable" in own else ""
        name = f"{folder}{wanted}"
    elif url := own.get("url"):
        name = f"{_NAME}{wanted} @ {url}"
    elif git := own.get("git"):
        repository, _, revision = git.partition("?")
        at = f"@{revision.partition('=')[2]}" if revision else ""
        name = f"{_NAME}{wanted} @ git+{repository}{at}"
    else:
        name = f"{_NAME}{wanted}"
    return f"uv tool install {options}{shlex.quote(name)}"


def _told(extra: str = "") -> str:
    """The package that pip was told to install (PEP 610), for one more extra: a package from a
    folder or an address would be looked for in an index."""
    import importlib.metadata
    import json
    import shlex
    import urllib.parse

    wanted = f"[{extra}]" if extra else ""
    try:
        text = importlib.metadata.distribution(_NAME).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        text = None
    held = json.loads(text or "{}")
    if "vcs_info" in held:
        at = held["vcs_info"].get("requested_revision", "")
        where = f" @ {held['vcs_info']['vcs']}+{held['url']}{f'@{at}' if at else ''}"
    elif held.get("url", "").startswith("file://") and not held.get("dir_info", {}).get("editable"):
        return shlex.quote(urllib.parse.unquote(urllib.parse.urlsplit(held["url"]).path) + wanted)
    else:
        where = f" @ {held['url']}" if "archive_info" in held else ""
    return shlex.quote(f"{_NAME}{wanted}{where}")


def _receipt() -> list[dict[str, Any]]:
    """The requirements that `uv tool` was told to install."""
    import tomllib  # here and below: the start of a chain needs none of it

    try:
        with open(os.path.join(sys.prefix, "uv-receipt.toml"), "rb") as file:
            held = tomllib.load(file)["tool"]["requirements"]
        return [one for one in held if isinstance(one, dict)]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _pip() -> str:
    """The command that installs packages into this Python."""
    import importlib.util
    import shlex
    import shutil

    beside = os.path.dirname(os.path.abspath(sys.executable))
    if os.path.dirname(shutil.which("pip") or "") == beside:
        return "pip install"
    python = shlex.quote(sys.executable)
    if importlib.util.find_spec("pip") is not None:
        return f"{python} -m pip install"
    return f"uv pip install --python {python}"
