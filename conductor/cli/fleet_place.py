"""The address of NATS and the login there, from the options and the environment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from conductor import children, installation
from conductor.cli import report
from conductor.cli.loop import run_loop
from conductor.errors import UsageError

if TYPE_CHECKING:
    from conductor.fleet.bus import Bus
    from conductor.fleet.place import Place

USER: Final = "CONDUCTOR_NATS_USER"
PASSWORD: Final = "CONDUCTOR_NATS_PASSWORD"  # noqa: S105 - the variable's name, not a secret
_EXAMPLE: Final = "CHANGE-"
"""The beginning of the passwords of deploy/nats/tenants.conf: everybody can read them."""
_SCHEMES: Final = ("nats", "tls", "ws", "wss")
_LONGEST: Final = 1024 * 1024
_MARKS: Final = (b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED")
_CREDENTIALS: Final = "name the file that `nsc generate creds` has written for this user"
_NAMES: Final = ("nats", "nats_creds", "nats_ca", "nats_cert", "nats_key", "nats_wait")


def place(values: dict[str, Any], command: str) -> Place:
    """Takes the address and login of NATS out of the options' values. Raises `UsageError`."""
    needs_extra(command)
    from conductor.fleet.place import Place

    taken = {name.removeprefix("nats_"): values.pop(name) for name in _NAMES if name in values}
    if "nats" in taken:
        taken["nats"] = tuple(url for each in taken["nats"] for url in each.split(",") if url)
        _check_servers(taken["nats"])
    if "creds" in taken:
        _check_credentials(taken["creds"])
    taken |= _login()
    children.close_memory()
    where = Place(**taken)
    if where.is_secure and any(url.startswith("ws://") for url in where.nats):
        raise UsageError(
            "`--nats`: an address in ws:// has no TLS, and certificates or other addresses ask for "
            "it",
            "write wss://HOST:PORT",
        )
    return where


def _check_servers(urls: Sequence[str]) -> None:
    """Raises `UsageError` for a text that is no address of NATS: nobody waits for an answer."""
    from conductor.fleet.place import without_login

    for url in urls:
        try:
            parts = urlsplit(url if "://" in url else f"nats://{url}")
            is_one = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_one = False
        if not is_one:
            raise UsageError(
                f"`--nats`: `{without_login(url)}` is no address of NATS",
                f"write nats://HOST:PORT; other schemes are {', '.join(_SCHEMES[1:])}",
            )
    if not urls:
        raise UsageError("`--nats` names no address", "write nats://HOST:PORT")


def _check_credentials(file: str) -> None:
    """Raises `UsageError` for a file that has no credentials of NATS."""
    try:
        with open(file, "rb") as opened:
            written = opened.read(_LONGEST)
    except OSError as error:
        raise UsageError(
            f"`--nats-creds`: `{file}` cannot be read: {error.strerror or error}", _CREDENTIALS
        ) from None
    if any(mark not in written for mark in _MARKS):
        raise UsageError(f"`--nats-creds`: `{file}` has no credentials of NATS", _CREDENTIALS)


def _login() -> dict[str, str]:
    """Takes the login out of the environment, so that nothing which starts from here has it.
    Raises `UsageError`."""
    user, password = children.taken(USER), children.taken(PASSWORD)
    if password.startswith(_EXAMPLE):
        raise UsageError(
            f"the password of `{user}` at NATS is the one of the example: `{_EXAMPLE}…`",
            "write a new password, for example from `openssl rand -hex 24`, into tenants.conf and "
            f"into {PASSWORD}",
        )
    if password and not user:
        raise UsageError(f"{PASSWORD} is set, and {USER} is not", "set both variables, or none")
    return {"user": user, "password": password} if user else {}


def needs_extra(command: str) -> None:
    """Raises `UsageError` where a library of the extra `fleet` is not installed."""
    try:
        import jwt  # noqa: F401
        import nats  # noqa: F401
        import websockets  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`conductor {command}` needs the extra `fleet`: there is no `{error.name}`",
            f"`{installation.with_extra('fleet')}`",
        ) from None


def on_bus(where: Place, work: Callable[[Bus], Awaitable[int]]) -> int:
    """Runs `work` with a connection to NATS; the exit code. Raises `ConductorError`."""

    async def run() -> int:
        from conductor.fleet.bus import Bus

        bus = Bus(where, "conductor fleet", lambda text: report.write(text, word="warning"))
        await bus.connect()
        try:
            return await work(bus)
        finally:
            await bus.close()

    return run_loop(run)
