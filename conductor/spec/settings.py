"""The settings of a component: those in a file of its own, and those given one by one.

The file (`config=FILE`, TOML or JSON) may change while the chain runs: what is told to a component
when it starts, or at a reload, is what the file says then. What was given one by one wins.
"""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.errors import UsageError
from conductor.spec import untrusted_files

_MOST: int = 1024 * 1024
"""Bytes of a file of settings."""


def settings(config: dict[str, Any], file: str | None) -> dict[str, Any]:
    """All of them. Raises `UsageError` for a file that cannot be read, or is not a table."""
    return config if file is None else {**_read(file), **config}


def _read(path: str) -> dict[str, Any]:
    hint = "settings are a TOML table (`key = value` lines), or a JSON object in a `.json` file"
    try:
        text = untrusted_files.read(path, _MOST)
        if path.endswith(".json"):
            return msgspec.json.decode(text, type=dict[str, Any])
        from conductor.spec import toml

        return toml.loads(text.decode())
    except untrusted_files.TooLargeError:
        raise UsageError(f"{path}: settings are at most {_MOST:,} bytes", hint) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "check the path behind `config=`") from None
    except ValueError as error:  # of JSON, TOML and UTF-8 alike
        raise UsageError(f"{path}: {error}", hint) from None
