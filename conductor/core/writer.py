"""Writes messages to one side of one peer in its dialect.

A writer prepares all pieces of a frame that do not depend on the message. Frames are joined, never
formatted: so a message costs one copy of its payload, in an envelope or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Raw, UnsetType

from conductor.core.aliases import renamed
from conductor.core.dialects import ACP, CANCEL, Dialect
from conductor.core.jsonrpc import answer, encode_method

if TYPE_CHECKING:  # few chains need it
    from conductor.core.payloads import Payloads

_NOTIFICATION = b'{"jsonrpc":"2.0","method":'
_REQUEST = b'{"jsonrpc":"2.0","id":'
_PARAMS = b',"params":'


class Writer:
    """Writes the frames of one side, newline included.

    Args:
        tag: stands before the JSON: a side byte of `channel/1`, or nothing.
        request: the method of the envelope of a request; None: requests are plain.
        notification: the method of the envelope of a notification.
        nested: the message sits in the envelope's `params.message`.
        peer: the name of a peer agent, which the envelope has; empty: none.
    """

    __slots__ = ("_end", "_notification", "_request", "_wrapped", "tag")

    def __init__(
        self,
        tag: bytes = b"",
        request: str | None = None,
        notification: str | None = None,
        *,
        nested: bool = False,
        peer: str = "",
    ) -> None:
        self.tag = tag
        self._request = tag + _REQUEST
        named = b'"peer":%b,' % encode_method(peer) if peer else b""
        inside = _PARAMS + b"{" + named + (b'"message":{"method":' if nested else b'"method":')
        self._end = b"}\n"
        self._wrapped = b',"method":'
        self._notification = tag + _NOTIFICATION
        if request is not None and notification is not None:
            self._end = b"}}}\n" if nested else b"}}\n"
            self._wrapped += encode_method(request) + inside
            self._notification += encode_method(notification) + inside

    def request(self, id: bytes, method: str, params: Raw | bytes | UnsetType) -> bytes:  # noqa: A002
        """A request frame with the raw id `id`."""
        name = encode_method(method)
        if isinstance(params, UnsetType):
            return b"".join((self._request, id, self._wrapped, name, self._end))
        return b"".join((self._request, id, self._wrapped, name, _PARAMS, params, self._end))

    def notification(self, method: str, params: Raw | bytes | UnsetType) -> bytes:
        """A notification frame."""
        if isinstance(params, UnsetType):
            return b"".join((self._notification, encode_method(method), self._end))
        return b"".join((self._notification, encode_method(method), _PARAMS, params, self._end))

    def cancel(self, id: bytes) -> bytes:  # noqa: A002
        """`$/cancel_request` for a request sent with this id; never wrapped, since it concerns one
        connection."""
        return b'%b{"jsonrpc":"2.0","method":"%b","params":{"requestId":%b}}\n' % (
            self.tag,
            CANCEL.encode(),
            id,
        )

    def answer(self, id: bytes, member: bytes, body: Raw | bytes) -> bytes:  # noqa: A002
        """A response frame. Responses have no envelope: their id tells the request."""
        frame = answer(id, member, body)
        return self.tag + frame if self.tag else frame


class ReferringWriter(Writer):
    """Writes to a component that gets long texts as references."""

    __slots__ = ("_payloads", "_writer")

    def __init__(self, writer: Writer, payloads: Payloads) -> None:
        super().__init__(writer.tag)
        self._writer = writer
        self._payloads = payloads

    def request(self, id: bytes, method: str, params: Raw | bytes | UnsetType) -> bytes:  # noqa: A002
        """See `Writer`."""
        return self._writer.request(id, method, self._payloads.refer(params, id))

    def notification(self, method: str, params: Raw | bytes | UnsetType) -> bytes:
        """See `Writer`."""
        return self._writer.notification(method, self._payloads.refer(params, None))


class RenamingWriter(Writer):
    """Writes to an agent that has other ids for sessions. `ids`: its ids, which may change."""

    __slots__ = ("_ids",)

    def __init__(self, ids: Mapping[str, str]) -> None:
        super().__init__()
        self._ids = ids

    def request(self, id: bytes, method: str, params: Raw | bytes | UnsetType) -> bytes:  # noqa: A002
        """See `Writer`."""
        return super().request(id, method, self._named(params))

    def notification(self, method: str, params: Raw | bytes | UnsetType) -> bytes:
        """See `Writer`."""
        return super().notification(method, self._named(params))

    def _named(self, params: Raw | bytes | UnsetType) -> bytes | UnsetType:
        return params if isinstance(params, UnsetType) else renamed(bytes(params), self._ids)


def writers(dialect: Dialect, *, to_conductor: bool = False) -> tuple[Writer, Writer]:
    """The writers of a peer's predecessor and successor side.

    Args:
        to_conductor: the peer is the outer conductor and we are the proxy, so the methods of
            envelopes are those that go down.
    """
    if dialect.sideband:
        return Writer(b"p"), Writer(b"s")
    request, notification = _envelopes(dialect, to_conductor)
    return Writer(), Writer(b"", request, notification, nested=dialect.nested)


def port_writer(dialect: Dialect, peer: str, *, to_conductor: bool = False) -> Writer:
    """The writer of a peer's lane to the peer agent of this name.

    A message that has no envelope in this dialect gets the envelope of `acp`.
    """
    request, notification = _envelopes(dialect, to_conductor)
    tag = b"s" if dialect.sideband else b""
    default = ACP.up_request
    return Writer(
        tag, request or default, notification or default, nested=dialect.nested, peer=peer
    )


def _envelopes(dialect: Dialect, to_conductor: bool) -> tuple[str | None, str | None]:
    if to_conductor:
        return dialect.down_request, dialect.down_notification
    return dialect.up_request, dialect.up_notification
