"""The files `conductor exec --fs` gives the chain: those under the working directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from conductor.cli.client import RpcError
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS

MODES: Final = ("none", "read", "write")
RESOURCE_NOT_FOUND: Final = -32002
MOST_BYTES: Final = 64 * 1024 * 1024
"""Largest file that is read."""


class Files:
    """Reads and writes text files under one folder; `mode` is one of `MODES`."""

    def __init__(self, root: Path, mode: str) -> None:
        self._root = root.resolve()
        self.reads = mode in ("read", "write")
        self.writes = mode == "write"

    def capability(self) -> dict[str, bool]:
        """What is offered, as `clientCapabilities.fs`."""
        return {"readTextFile": self.reads, "writeTextFile": self.writes}

    async def read(self, params: dict[str, Any]) -> dict[str, Any]:
        """Serves `fs/read_text_file`. Raises `RpcError`."""
        path = self._inside(params)
        line, limit = (_positive(params, name) for name in ("line", "limit"))
        try:
            if not path.is_file():
                raise RpcError(RESOURCE_NOT_FOUND, f"no such file: {path}")
            if path.stat().st_size > MOST_BYTES:
                raise RpcError(INVALID_PARAMS, f"{path} is larger than {MOST_BYTES} bytes")
            with path.open(encoding="utf-8", newline="") as file:
                text = file.read()
        except UnicodeDecodeError:
            raise RpcError(INVALID_PARAMS, f"{path} is no text in UTF-8") from None
        except OSError as error:
            raise RpcError(INTERNAL_ERROR, f"cannot read {path}: {error.strerror}") from None
        if line is None and limit is None:
            return {"content": text}
        start = (line or 1) - 1
        lines = text.splitlines(keepends=True)[start : None if limit is None else start + limit]
        return {"content": "".join(lines)}

    async def write(self, params: dict[str, Any]) -> dict[str, Any]:
        """Serves `fs/write_text_file`; folders are not made. Raises `RpcError`."""
        path = self._inside(params)
        content = params.get("content")
        if not isinstance(content, str):
            raise RpcError(INVALID_PARAMS, "`content` must be a string")
        try:
            if path.exists() and not path.is_file():
                raise RpcError(INVALID_PARAMS, f"{path} is no file")
            path.write_text(content, encoding="utf-8", newline="")
        except UnicodeEncodeError:
            raise RpcError(INVALID_PARAMS, "`content` is not well-formed Unicode") from None
        except OSError as error:
            raise RpcError(INTERNAL_ERROR, f"cannot write {path}: {error.strerror}") from None
        return {}

    def _inside(self, params: dict[str, Any]) -> Path:
        """The path asked for, symbolic links followed, if it is under the root."""
        text = params.get("path")
        if not isinstance(text, str) or not Path(text).is_absolute() or "\0" in text:
            raise RpcError(INVALID_PARAMS, "`path` must be an absolute path")
        try:
            path = Path(text).resolve()
        except (OSError, RuntimeError) as error:
            raise RpcError(INVALID_PARAMS, f"cannot resolve {text}: {error}") from None
        if not path.is_relative_to(self._root):
            raise RpcError(INVALID_PARAMS, f"{text} is outside the working directory {self._root}")
        return path


def _positive(params: dict[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RpcError(INVALID_PARAMS, f"`{name}` must be a whole number, not negative")
    return value
