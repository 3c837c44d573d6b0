"""The changes of components, for an audit: read off the identities that the engine has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Concatenate, ParamSpec

from msgspec import UnsetType

from conductor.core.effects import Changed
from conductor.core.exchange import Exchange
from conductor.core.jsonrpc import Params
from conductor.core.policy.entries import Notification
from conductor.core.policy.headings import Message
from conductor.core.state import Lane, Peer, Visit
from conductor.core.tracing import best_effort

_Params = ParamSpec("_Params")


def _audit(
    record: Callable[Concatenate[Exchange, _Params], None],
) -> Callable[Concatenate[Exchange, _Params], None]:
    """A record that only an audit needs.

    Without an audit the test here saves each message that a component carries 2 µs: the cost of
    `best_effort` before the record itself could look.
    """
    attempt = best_effort(record)

    @wraps(record)
    def recorded(exchange: Exchange, /, *args: _Params.args, **named: _Params.kwargs) -> None:
        if exchange.audited:
            attempt(exchange, *args, **named)

    return recorded


@_audit
def notification(exchange: Exchange, lane: Lane, notification: Notification, sent: Params) -> None:
    """A component has passed on a notification by `lane`, maybe changed, or too late."""
    if not _audited(exchange, lane):
        return
    came = shown(notification.params)
    if not lane.in_flight.in_order(notification.heading.session, notification.order):
        exchange.emit(_of_notification(lane, notification)(change="reordered", after=came))
    if sent != notification.params:
        exchange.emit(_of_notification(lane, notification)(change="modified", after=shown(sent)))


@_audit
def went_past(exchange: Exchange, lane: Lane, session: str | None) -> None:
    """A message has gone past a component, and has left it by `lane`."""
    if _audited(exchange, lane):
        lane.in_flight.in_order(session, lane.in_flight.comes())


@_audit
def dropped(exchange: Exchange, lane: Lane, notification: Notification) -> None:
    """A component has not passed on a notification that was to leave it by `lane`."""
    if _audited(exchange, lane):
        exchange.emit(
            _of_notification(lane, notification)(change="dropped", target=None, after=None)
        )


def _of_notification(lane: Lane, notification: Notification) -> partial[Changed]:
    return partial(
        _of(lane, "notification", notification),
        before=shown(notification.params),
        source=notification.source or None,
        target=_towards(lane),
    )


def _of(lane: Lane, kind: str, given: Notification | Visit) -> partial[Changed]:
    """A change of a message that a component was given, by the lane by which its message leaves."""
    return partial(
        Changed,
        peer=_owner(lane.peer).name,
        kind=kind,
        direction=lane.direction.value,
        method=given.method,
        session=given.heading.session,
        number=given.number,
    )


@_audit
def originated(
    exchange: Exchange, lane: Lane, message: Message, pending: Visit | None = None
) -> None:
    """A component has sent a message of its own by `lane`; `pending`: it is a request."""
    if _audited(exchange, lane):
        exchange.emit(
            Changed(
                peer=_owner(lane.peer).name,
                change="originated",
                kind="notification" if pending is None else "request",
                direction=lane.direction.value,
                method=message.method,
                session=message.session,
                number=exchange.number if pending is None else pending.number,
                after=shown(message.params),
                target=_towards(lane),
                target_id=None if pending is None else _text(pending.raw_id),
            )
        )


@_audit
def request(exchange: Exchange, carried: Visit, params: Params, pending: Visit) -> None:
    """A component has passed on a request, maybe changed, or too late."""
    lane = carried.lane.other
    if not _audited(exchange, lane):
        return

    change = partial(
        _of(lane, "request", carried),
        before=shown(carried.params),
        source=_source(carried),
        source_id=_text(carried.raw_id),
        target=_towards(lane),
        target_id=_text(pending.raw_id),
    )
    first = not carried.retries
    if not first:
        exchange.emit(change(change="originated", after=shown(params)))
    elif not lane.in_flight.in_order(carried.heading.session, carried.order):
        exchange.emit(change(change="reordered", after=shown(carried.params)))
    if first and params != carried.params:
        exchange.emit(change(change="modified", after=shown(params)))


@_audit
def answer(exchange: Exchange, carried: Visit, member: bytes, body: bytes) -> None:
    """A component has answered a request: by itself, or with the answer that came back, maybe
    changed, or too late."""
    lane, upstream = carried.lane, carried.upstream
    if not _audited(exchange, lane):
        return
    before = None if upstream is None else _outcome(*upstream)
    origin, answers = _source(carried), _text(carried.raw_id)
    change = partial(_of(lane, "response", carried), target=origin, target_id=answers)
    if upstream is not None and not lane.in_flight.in_order(carried.heading.session, carried.order):
        exchange.emit(change(change="reordered", before=before, after=before))
    if upstream != (member, body):
        word = "answered" if upstream is None else "modified"
        exchange.emit(change(change=word, before=before, after=_outcome(member, body)))


def _outcome(member: bytes, body: bytes) -> bytes:
    return b"".join((b'{"', member, b'":', body, b"}"))  # to format it takes far longer


def _audited(exchange: Exchange, lane: Lane) -> bool:
    return _owner(lane.peer).name in exchange.audited


def _owner(peer: Peer) -> Peer:
    return peer.launched_by or peer


def _towards(lane: Lane) -> str | None:
    return None if lane.across is None else _owner(lane.across.peer).name


def _source(carried: Visit) -> str | None:
    origin = carried.origin
    return None if origin is None else _owner(origin.peer).name


def _text(raw_id: bytes) -> str:
    return raw_id.decode()


def shown(params: Params | bytes) -> bytes:
    """Params as they are put on record."""
    return b"null" if isinstance(params, UnsetType) else bytes(params)
