"""The user's logins at registries: the `config.json` of Docker, podman and oras.

`auths` holds a user and a password in base64; `credHelpers` and `credsStore` name a program
`docker-credential-NAME`, which conductor asks as they do.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
from typing import Any, Final

import msgspec

from conductor.errors import UsageError, hide
from conductor.spec import untrusted_files

_MOST: Final = 1024 * 1024
_PATIENCE: Final = 30.0
"""Seconds a helper may take: it may ask the user to unlock something."""

_HELPER: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_OTHER_NAMES: Final = {"registry-1.docker.io": ("https://index.docker.io/v1/", "docker.io")}
"""Under which keys Docker keeps the login of a registry, where that is not its host."""


class Login(msgspec.Struct, frozen=True):
    """A user and their password, or token, at one registry."""

    user: str
    password: str

    @property
    def basic(self) -> str:
        """The value of an `Authorization` header."""
        pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        hide(pair, "***")
        return f"Basic {pair}"


def config_path() -> str:
    """The path of Docker's `config.json`, which may be absent."""
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    return os.path.join(folder, "config.json")


def login(host: str) -> Login | None:
    """The user's login at a registry; None: there is none. Raises `UsageError`."""
    path = config_path()
    try:
        content = untrusted_files.read(path, _MOST)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", "it holds your logins") from None
    try:
        config = msgspec.json.decode(content, type=dict[str, Any])
        found = _found(config, (host, f"https://{host}", *_OTHER_NAMES.get(host, ())))
    except (
        msgspec.DecodeError,
        ValueError,
        TypeError,
        AttributeError,
        KeyError,
        RecursionError,
    ) as error:
        text = f"{path} cannot be read: {error}"
        raise UsageError(text, f"`docker login {host}` writes it anew") from None
    if found is not None:
        hide(found.password, "***")
    return found


def _found(config: dict[str, Any], names: tuple[str, ...]) -> Login | None:
    helpers = config.get("credHelpers") or {}
    for name in names:
        if name in helpers:
            return _asked(str(helpers[name]), name)
    auths = config.get("auths") or {}
    for name in names:
        entry = auths.get(name) or {}
        if entry.get("auth"):
            try:
                pair = base64.b64decode(entry["auth"], validate=True).decode()
            except ValueError:  # also of characters beyond ASCII
                raise ValueError(f"the login at `{name}` is not base64") from None
            user, _, password = pair.partition(":")
            return Login(user, password)
    if config.get("credsStore"):
        for name in names:
            if (stored := _asked(str(config["credsStore"]), name)) is not None:
                return stored
    return None


def _asked(helper: str, name: str) -> Login | None:
    """The login that a credential helper keeps; None: it has none. Raises `UsageError`."""
    if not _HELPER.fullmatch(helper):
        raise ValueError(f"`{helper}` is no name of a credential helper")
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run(
            [program, "get"],
            input=name.encode(),
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except FileNotFoundError:
        raise UsageError(
            f"the login at `{name}` is kept by `{program}`, which is not on PATH", "install it"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"`{program}` failed: {error}", f"try `{program} get`") from None
    if done.returncode != 0:
        return None  # by the protocol of helpers: it has none
    answer = msgspec.json.decode(done.stdout, type=dict[str, Any])
    return Login(str(answer["Username"]), str(answer["Secret"]))
