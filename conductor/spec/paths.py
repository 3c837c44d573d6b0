"""The places of bundled components, of the user's caches and state, and of the lock file.

The start path loads this module, so it does not import pathlib (4 ms).
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Final

import conductor
from conductor.errors import UsageError

if TYPE_CHECKING:
    import pathlib

LOCK_FILE: Final = "conductor.lock"
"""In the current folder."""

CONFIG: Final = "conductor.toml"
"""The name of a project's configuration, in its folder, and of the user's configuration."""

MANIFEST: Final = "component.toml"
SCENARIOS: Final = "test-scenarios"
"""The folder of a component with the scenarios of `conductor test`."""
"""In the folder of a component."""


def user_config() -> str:
    """The path of the user's configuration, which may be absent; empty without a home folder.

    A relative folder counts as none (XDG base directory specification): it could be in a
    stranger's project.
    """
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.config")
    return os.path.join(base, "conductor", CONFIG) if os.path.isabs(base) else ""


def exists(path: str) -> bool:
    """Whether something has this path, if only a link that leads nowhere, or a path that this user
    may not see, since reading it then says why."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def project_config(folder: str) -> str:
    """The nearest configuration from an absolute folder upward that is not the user's; empty if
    there is none."""
    user = user_config()
    while folder:
        path = os.path.join(folder, CONFIG)
        if os.path.lexists(path) and path != user and not _same(path, user):
            return path
        parent = os.path.dirname(folder)
        folder = parent if parent != folder else ""
    return ""


def _same(path: str, other: str) -> bool:
    """Whether two paths lead to one file."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def within(path: str, folder: str) -> bool:
    """Whether a path is this folder, or lies in it, as both are written."""
    return f"{path.rstrip(os.sep)}{os.sep}".startswith(f"{folder.rstrip(os.sep)}{os.sep}")


@functools.cache
def components() -> str:
    """The folder of the bundled components: in the package, or beside it in a checkout."""
    here = os.path.dirname(conductor.__file__)
    installed = os.path.join(here, "_components")
    return os.path.realpath(
        installed if os.path.isdir(installed) else os.path.join(here, "..", "components")
    )


def components_folder() -> pathlib.Path:
    """The same folder as a `Path`."""
    from pathlib import Path

    return Path(components())


def python_sdk() -> str:
    """The folder of the Python guest's sources, with the guest of an installed wheel in it."""
    return os.path.join(os.path.dirname(os.path.dirname(conductor.__file__)), "guest_sdk", "python")


def compiled_modules() -> str:
    """The user's cache of compiled modules (private; created when first used)."""
    return _user_folder("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches", "modules")


def python_guests() -> str:
    """The user's cache of Python guests that were built on this machine."""
    return _user_folder("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches", "guests")


def bundles() -> str:
    """The user's cache of configurations of a fleet (private; `conductor.fleet.bundle_cache`)."""
    return _user_folder("XDG_CACHE_HOME", "~/.cache", "~/Library/Caches", "bundles")


def first_use() -> str:
    """The user's record of the components that `conductor` has reported on their first use."""
    return _user_folder(
        "XDG_STATE_HOME", "~/.local/state", "~/Library/Application Support", "first-use"
    )


def trust() -> str:
    """The user's trust store (private; `conductor.spec.trust`)."""
    return _user_folder(
        "XDG_STATE_HOME", "~/.local/state", "~/Library/Application Support", "trust.json"
    )


def tools() -> str:
    """The offers of MCP servers (private; `conductor.spec.tools`)."""
    return _user_folder(
        "XDG_STATE_HOME", "~/.local/state", "~/Library/Application Support", "tools.json"
    )


def titles() -> str:
    """The part of `prompts` about titles of sessions (private)."""
    return f"{prompts()}.titles"


def prompts() -> str:
    """Additions of components to prompts, as digests (private; `conductor.run.kept_prompts`)."""
    return _user_folder(
        "XDG_STATE_HOME", "~/.local/state", "~/Library/Application Support", "prompts.jsons"
    )


def owners() -> str:
    """The owners of sessions: the principals of `conductor serve` (private)."""
    return _user_folder(
        "XDG_STATE_HOME",
        "~/.local/state",
        "~/Library/Application Support",
        os.path.join("serve", "owners.jsons"),
    )


def installed() -> str:
    """The user's installed components: a receipt each, and their content by digest
    (`conductor.spec.installed`)."""
    return _user_folder(
        "XDG_DATA_HOME", "~/.local/share", "~/Library/Application Support", "installed"
    )


def logs() -> str:
    """The user's logs of conductors that editors start (private; created when first used)."""
    return _user_folder("XDG_STATE_HOME", "~/.local/state", "~/Library/Logs", "logs")


def rings() -> str:
    """The user's rings, each written when a chain failed or was asked for it (private)."""
    return _user_folder("XDG_STATE_HOME", "~/.local/state", "~/Library/Logs", "rings")


def editors() -> str:
    """The user's record of the changes by `conductor setup` in the settings of editors, so that
    `--remove` can give the former text back (private; created when first used)."""
    return _user_folder(
        "XDG_STATE_HOME", "~/.local/state", "~/Library/Application Support", "editors"
    )


def values() -> str:
    """The user's file of values that components keep (`kv`; private; created when first used)."""
    mac = "~/Library/Application Support"
    return _user_folder("XDG_DATA_HOME", "~/.local/share", mac, "kv.sqlite")


def _user_folder(variable: str, default: str, on_mac: str, name: str) -> str:
    if sys.platform == "darwin":
        base = on_mac
    else:
        # An empty variable counts as unset (XDG base directory specification).
        base = os.environ.get(variable) or default
    return os.path.join(os.path.expanduser(base), "conductor", name)


def session_folder(path: str | os.PathLike[str], option: str = "cwd") -> str:
    """The absolute path of a folder that exists. Raises `UsageError`, which names the option."""
    absolute = os.path.abspath(path)
    if not os.path.isdir(absolute):
        raise UsageError(f"no such folder: `{path}`", f"`{option}` names the session's directory")
    return absolute
