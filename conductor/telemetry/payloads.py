"""The values that spans take from params and results. Never raises: strangers wrote them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from conductor.core.json_text import Decoder, encode
from conductor.record.turns.messages import members

MOST_TEXT: Final = 64 * 1024
"""Characters of an attribute that holds words."""
MOST_NAME: Final = 200
"""Characters of a name that a stranger chose."""

_BAD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Meta(msgspec.Struct):
    traceparent: Any = None
    mcp_version: Any = msgspec.field(name="io.modelcontextprotocol/protocolVersion", default=None)


class Params(msgspec.Struct):
    """Members of params."""

    meta: _Meta | None = msgspec.field(name="_meta", default=None)
    name: Any = None
    uri: Any = None
    arguments: msgspec.Raw = msgspec.Raw(b"")
    modelId: Any = None  # noqa: N815 - ACP's names
    connectionId: Any = None  # noqa: N815

    @property
    def traceparent(self) -> str:
        """The context of the sender; empty: it names none."""
        return _word(self.meta.traceparent) if self.meta is not None else ""


class _Models(msgspec.Struct):
    current: Any = msgspec.field(name="currentModelId", default=None)


class _Option(msgspec.Struct):
    id: Any = None
    category: Any = None
    current: Any = msgspec.field(name="currentValue", default=None)


class Result(msgspec.Struct):
    """Members of a result."""

    version: Any = msgspec.field(name="protocolVersion", default=None)
    info: Any = None
    agentInfo: Any = None  # noqa: N815 - `info` in version 1 of ACP
    stop: Any = msgspec.field(name="stopReason", default=None)
    models: _Models | None = None
    options: list[_Option] | None = msgspec.field(name="configOptions", default=None)
    session: Any = msgspec.field(name="sessionId", default=None)
    connectionId: Any = None  # noqa: N815
    is_error: Any = msgspec.field(name="isError", default=None)

    @property
    def agent(self) -> dict[str, Any]:
        """The agent's facts about itself; empty: there are none."""
        return members(self.info) or members(self.agentInfo)

    @property
    def model(self) -> str:
        """The model that it names; empty: none."""
        if self.models is not None:
            return name_of(self.models.current)
        for option in self.options or ():
            if "model" in (option.category, option.id):
                return name_of(option.current)
        return ""


_params: Final = Decoder(Params).decode
_result: Final = Decoder(Result).decode


def params(body: msgspec.Raw) -> Params:
    """Params, as far as they are understood."""
    try:
        return _params(body)
    except _BAD:
        return Params()


def result(body: msgspec.Raw) -> Result:
    """A result, as far as it is understood."""
    try:
        return _result(body)
    except _BAD:
        return Result()


def json_text(raw: msgspec.Raw) -> str:
    """A value as JSON; empty: there is none, or it is too long."""
    if not raw or len(raw) > MOST_TEXT:
        return ""
    return bytes(raw).decode(errors="replace")


def value_text(value: Any) -> str:
    """A value as JSON; empty: it is too long."""
    return json_text(msgspec.Raw(encode(value)))


def message(role: str, text: str, finish: str = "") -> str:
    """Words as the conventions write a conversation."""
    made: dict[str, Any] = {"role": role, "parts": [{"type": "text", "content": text}]}
    if finish:
        made["finish_reason"] = finish
    return encode([made]).decode(errors="replace")


def name_of(value: Any) -> str:
    """A name that a stranger chose; empty if it is none."""
    return _word(value)[:MOST_NAME]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""
