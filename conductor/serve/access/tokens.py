"""Bearer tokens of a file: each line names a principal, and the digest of its token.

    alice = "sha256:9f86d0…"
    bob = ["sha256:60303a…", "sha256:fd61a0… until 2027-01-31T00:00:00Z"]

The file holds no token: who reads it cannot connect.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import os
import re
import secrets
import tomllib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from conductor.errors import UsageError
from conductor.spec import private_files

PREFIX: Final = "acp_"
"""How tokens begin that `new_token` makes, so that scanners of secrets know them."""

_ENTRY: Final = re.compile(r"sha256:([0-9a-f]{64})(?: until (\S+))?")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,127}")
_MOST: Final = 1024 * 1024
_HINT: Final = "`conductor serve token NAME --tokens FILE` makes a token and its line"


class Token(msgspec.Struct, frozen=True):
    """One line of the file."""

    principal: str
    digest: bytes
    until: float | None = None
    """Seconds since 1970; None: for ever."""

    def is_valid(self, now: float) -> bool:
        """Whether it has not expired."""
        return self.until is None or self.until > now


def digest(token: str) -> bytes:
    """The digest that the file has of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def new_token() -> str:
    """A token that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(32)


def read(path: str) -> list[Token]:
    """The tokens of a file. Raises `UsageError`."""
    try:
        private_files.refuse_what_others_write(path)
        with open(path, "rb") as file:
            text = file.read(_MOST + 1)
    except OSError as error:
        why = private_files.reason(error)
        raise UsageError(f"the file of tokens `{path}` cannot be used: {why}", _HINT) from None
    if len(text) > _MOST:
        raise UsageError(f"the file of tokens `{path}` has more than 1 MiB", _HINT)
    try:
        table = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"the file of tokens `{path}` is no TOML: {error}", _HINT) from None
    return [token for name, value in table.items() for token in _tokens(path, name, value)]


def _tokens(path: str, name: str, value: Any) -> list[Token]:
    entries = [value] if isinstance(value, str) else value
    if not is_name(name) or not isinstance(entries, list):
        raise UsageError(f"`{name}` in `{path}` is no principal with tokens", _HINT)
    found = []
    for entry in entries:
        match = _ENTRY.fullmatch(entry) if isinstance(entry, str) else None
        if match is None:
            raise UsageError(f"`{name}` in `{path}` has an entry that is no digest", _HINT)
        found.append(Token(name, bytes.fromhex(match[1]), _until(path, name, match[2])))
    return found


def _until(path: str, name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"`{name}` in `{path}`: `{text}` is no time", _HINT) from None
    if moment.tzinfo is None:
        raise UsageError(f"`{name}` in `{path}`: `{text}` needs a zone, such as `Z`", _HINT)
    return moment.timestamp()


def is_name(text: str) -> bool:
    """Whether a text can name a principal."""
    return _NAME.fullmatch(text) is not None


def found(tokens: Iterable[Token], shown: str, now: float) -> tuple[Token | None, str]:
    """The line of a token, or why there is none. All digests are compared, in constant time."""
    given = digest(shown)
    best: Token | None = None
    for token in tokens:
        if hmac.compare_digest(token.digest, given):
            best = token
    if best is None:
        return None, "the token is not known"
    if not best.is_valid(now):
        return None, "the token has expired"
    return best, ""


def add(path: str, name: str, token: str, until: str | None) -> None:
    """Adds the digest of a token to a file, which is made if it is not there. Raises
    `UsageError`."""
    if not is_name(name):
        raise UsageError(f"`{name}` cannot be the name of a principal", "letters, digits and ._@-")
    entry = f"sha256:{digest(token).hex()}" + (f" until {until}" if until else "")
    try:
        private_files.need_folder(path)
        with private_files.alone(f"{path}.lock"):
            table: dict[str, list[str]] = {}
            if os.path.lexists(path):
                for one in read(path):
                    table.setdefault(one.principal, []).append(_entry(one))
            table.setdefault(name, []).append(entry)
            private_files.replace(path, _written(table))
    except OSError as error:
        why = private_files.reason(error)
        raise UsageError(f"the file of tokens `{path}` cannot be used: {why}", _HINT) from None


def _entry(token: Token) -> str:
    text = f"sha256:{token.digest.hex()}"
    if token.until is None:
        return text
    until = datetime.datetime.fromtimestamp(token.until, datetime.UTC)
    return f"{text} until {until.isoformat().replace('+00:00', 'Z')}"


def _written(table: dict[str, list[str]]) -> bytes:
    lines = [
        f'"{name}" = {msgspec.json.encode(entries).decode()}' for name, entries in table.items()
    ]
    return "\n".join([*lines, ""]).encode()
