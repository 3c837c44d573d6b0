"""Notices sessions outside of the folder by which the chain was chosen.

Which chain fits was judged once, when conductor was started; an editor may then open a session in
any folder. That is no error, so it is reported and nothing else. Only a chain that a `[[choose]]`
has chosen gets this wrapper.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import msgspec

from conductor.core import json_text, jsonrpc
from conductor.core.message import Message
from conductor.core.policy.key_table import SETUP
from conductor.errors import visible_path
from conductor.spec import paths
from conductor.transports.base import Transport, Wrapper

_MOST: Final = 100
"""Folders that are reported."""


class _Params(msgspec.Struct):
    cwd: str = ""


_params: Final = json_text.Decoder(_Params).decode


class JudgedFolder(Wrapper):
    """Passes on what the client writes, and reports each other folder that it opens a session in.

    `log` takes level, component and text.
    """

    def __init__(
        self, inner: Transport, folder: str, chosen: str, log: Callable[[str, str, str], None]
    ) -> None:
        super().__init__(inner)
        self._folder = os.path.realpath(folder)
        self._chosen = chosen
        self._log = log
        self._seen: set[str] = set()

    def received(self, frames: list[bytes]) -> None:
        """Lines of the client arrived."""
        for frame in frames:
            if b'"cwd"' in frame and b'"session/' in frame:
                self._look(frame)
        super().received(frames)

    def _look(self, frame: bytes) -> None:
        try:
            message = jsonrpc.parse(frame)
            if not isinstance(message, Message) or isinstance(message.params, msgspec.UnsetType):
                return
            if message.method not in SETUP:  # an editor may ask about a folder, and never go there
                return
            cwd = _params(message.params).cwd
        except (jsonrpc.Malformed, msgspec.DecodeError, UnicodeDecodeError):
            return  # the router answers it
        if cwd in self._seen or len(self._seen) == _MOST or not os.path.isabs(cwd):
            return
        self._seen.add(cwd)
        if "\0" not in cwd and not paths.within(os.path.realpath(cwd), self._folder):
            self._log(
                "warning",
                "conductor",
                f"a session is in {visible_path(cwd)}, and the chain was chosen for "
                f"{visible_path(self._folder)}: {self._chosen}",
            )
