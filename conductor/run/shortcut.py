"""The shortcut of a host: unchanged lines of its guests go on before the router learns it.

Most messages leave a guest as they came. Then the router decides nothing: its lines for the next
guest, and in the end for the parent, are the bytes that came in, behind the other side byte. So a
host reads such a line once, delivers it to one guest after the other, compares the lines that each
returns with its input, and sends the line on. A prompt that a guest has changed goes on as well, if
the guest may change it so.

The router is pure: given the same lines later, it comes to the same result. So it *catches up*
before it gets anything else: it gets the lines that took the shortcut, in order. The recorded lines
of the guests stand in for the guests, and lines that the parent has are not sent again. Where a
guest has deviated the ordinary way goes on from there.

The router never learns of notifications that all guests have passed on, nor of requests that were
answered while no older request was open: they leave nothing behind in it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import jsonrpc
from conductor.core.component import Side
from conductor.core.json_text import too_many_values
from conductor.core.jsonrpc import Malformed, Message
from conductor.core.policy import headings
from conductor.core.policy.headings import Heading, heading, session_of
from conductor.core.policy.key_table import (
    AMEND,
    CARRY,
    DROP,
    EVERYTHING,
    ORIGINATE,
    PLACE,
    PROMPT,
    TEXT_KINDS,
    UPDATE,
    update,
)
from conductor.core.router import Router
from conductor.core.state import Lane, Peer
from conductor.run.segment_guests import Delivery, SegmentGuests
from conductor.transports.buffers import CHUNK

if TYPE_CHECKING:
    from conductor.run.segment_loop import ParentOutput

_MOST_LINES: Final = 128
"""The most notifications in one delivery."""
_MOST_BYTES: Final = 128 * 1024
"""The most bytes in one delivery; a longer notification is delivered alone."""
_MOST_KEPT: Final = 4
"""The most messages that the router may have to learn at once: the sender of another message waits
a fifth of a millisecond for each."""
_MOST_KEPT_BYTES: Final = 1024 * 1024
"""The most bytes of these messages."""
_AT_ONCE: Final = 0.05
"""Seconds of work, before the rest goes the ordinary way, which reads input in between."""

_NOT_SEEN: Final = AMEND | DROP | ORIGINATE
"""Rights of a guest that gets nothing of a message."""
_TEXTS: Final = frozenset(map(update, TEXT_KINDS))
_UPDATE_HEAD: Final = b's{"jsonrpc":"2.0","method":"session/update","params":'
_PROMPT_HEAD: Final = b'p{"jsonrpc":"2.0","id":%b,"method":"session/prompt","params":'
_RESULT_HEAD: Final = b's{"jsonrpc":"2.0","id":%b,"result":'
"""The parent's spelling: the router would write any other spelling anew."""


class Passage(msgspec.Struct, eq=False):
    """The lines that have taken the shortcut at once: one line, or several notifications."""

    lines: list[bytes]
    deliveries: dict[str, Delivery] = {}
    """The input and output of the guests."""
    sent: bytes = b""
    """The bytes that the parent has got."""
    answers: Passage | None = None
    """The request that these lines answer."""
    is_open: bool = False
    """Whether the line is a request without an answer."""
    prompt: headings.Message = headings.NO_MESSAGE
    """A prompt, as the next guest gets it."""
    is_forgotten: bool = False
    """Whether the router will never learn of it."""


class Shortcut:
    """The shortcut of one host; it is open while no guest holds anything back.

    Args:
        router: The router of the host.
        guests: Its guests, which get the lines that take the shortcut.
        output: For the parent.
        route: Has the router route lines of the parent.
        turn: Does the next piece of waiting work; False: there is none.
    """

    def __init__(
        self,
        router: Router,
        guests: SegmentGuests,
        output: ParentOutput,
        route: Callable[[list[bytes]], None],
        turn: Callable[[], bool],
    ) -> None:
        self._router = router
        self._guests = guests
        self._output = output
        self._route = route
        self._turn = turn
        self._is_open = False
        self._kept: deque[Passage] = deque()
        """The passages that the router has not learnt, and may have to."""
        self._bytes = 0
        """The bytes of these passages."""
        self._requests: dict[bytes, Passage] = {}
        """The requests without an answer among these passages, by id."""
        self._sent = b""
        """The bytes that the router is about to send again while it catches up."""
        peers = [router.peers[name] for name in guests.accounts]
        self._values = min(peer.component.allowance.json_values for peer in peers)
        self._prompts = _carriers(peers, "p", PROMPT)
        """The guests through which prompts go, in order; None: prompts take no shortcut."""
        up = [peer for peer in reversed(peers) if peer.name in (self._prompts or ())]
        self._answers = [peer.name for peer in up if _rights(peer.p, PROMPT) & AMEND]
        """The guests among them through which the answers go, the last guest first."""
        self._copies = [peer.name for peer in up if not _rights(peer.p, PROMPT) & AMEND]
        """The guests among them that get copies of the answers."""
        if any(_rights(router.peers[name].p, PROMPT) & PLACE for name in self._copies):
            self._prompts = None  # these answers wait for the guest's round
        self._updates = {
            key: tuple(reversed(names))
            for key in _TEXTS
            if (names := _carriers(peers, "s", key, DROP)) is not None
        }
        """The guests through which updates go, by their key, the last first."""

    @staticmethod
    def fits(router: Router) -> bool:
        """Whether the router of a host writes its input to all guests, under the same ids."""
        for peer in router.peers.values():
            policy_state = peer.policy_state
            if not peer.sideband:  # a program for WASI gets messages without a side, in envelopes
                return False
            if peer.component.allowance.text_bytes is not None:
                return False
            if policy_state is not None and policy_state.policy.grants.sessions:
                return False
        return True

    # -- open and closed -------------------------------------------------------------------------

    def reopen(self) -> None:
        """Nothing waits any more in the host."""
        self._is_open = self._is_open or self._router.at_rest()

    def close(self) -> None:
        """Something else is about to happen to the router: it catches up."""
        self._is_open = False
        kept, self._kept, self._bytes = self._kept, deque(), 0
        self._requests.clear()
        self._guests.repeating = True
        for passage in kept:
            if passage.answers is None or not passage.answers.is_forgotten:
                self._learn(passage)
                while self._turn():
                    pass
        self._guests.repeating = False

    def _learn(self, passage: Passage) -> None:
        """The router gets the lines that took the shortcut, as far as they came."""
        self._guests.recorded = passage.deliveries
        self._sent = passage.sent
        self._route(passage.lines)
        while (self._guests.recorded or self._sent) and self._turn():
            pass
        self._guests.recorded, self._sent = {}, b""

    def has_sent(self, lines: bytes) -> bool:
        """Whether the parent has these lines, which the router sends while it catches up."""
        if not self._sent:
            return False
        if lines != self._sent:
            raise RuntimeError("the router sends other lines than those that took the shortcut")
        self._sent = b""
        return True

    # -- lines of the parent ---------------------------------------------------------------------

    def take(self, lines: list[bytes]) -> list[bytes]:
        """Takes lines of the parent, from the first on. Returns the lines that go the ordinary way;
        the router has caught up if there are any."""
        if not self._is_open:
            return lines
        until, done = time.monotonic() + _AT_ONCE, 0
        while done < len(lines) and self._is_open and time.monotonic() < until:
            taken = self._some(lines, done)
            if not taken:
                break
            done += taken
        if done < len(lines) and self._is_open:
            self.close()
        return lines[done:]

    def _some(self, lines: list[bytes], at: int) -> int:
        """Takes lines from one on; how many: 0 if this is not for the shortcut."""
        line = lines[at]
        message = self._read(line)
        if message is None:
            return 0
        if message.method == UPDATE:
            return self._take_updates(lines, at, message)
        if message.method == PROMPT:
            return self._take_prompt(line, message)
        return self._take_result(line, message) if message.method is UNSET else 0

    def _read(self, line: bytes) -> Message | None:
        """A message that no limit of a guest's concerns."""
        try:
            # The parent has checked the nesting; each guest's limits are checked at delivery.
            message = jsonrpc.parse(line[1:], len(line))
        except Malformed:
            return None
        if not isinstance(message, Message) or message.jsonrpc != "2.0":
            return None
        return None if too_many_values(line, self._values) else message

    def _take_updates(self, lines: list[bytes], at: int, message: Message) -> int:
        names = self._names_of_update(lines[at], message)
        if names is None:
            return 0
        last, size = at + 1, len(lines[at])
        most = min(len(lines), at + _MOST_LINES)
        while last < most and (size := size + len(lines[last])) <= _MOST_BYTES:
            following = self._read(lines[last])
            if following is None or self._names_of_update(lines[last], following) is not names:
                break
            last += 1
        passage = Passage(lines[at:last])
        data = b"\n".join(passage.lines) + b"\n"
        back = b"p" + data[1:]
        if len(passage.lines) > 1:
            # Within a JSON text a newline is escaped: these begin lines.
            back = back.replace(b"\ns", b"\np")
        if self._goes_through(passage, names, data, back):
            self._output.send(back)
        return len(passage.lines)

    def _names_of_update(self, line: bytes, message: Message) -> tuple[str, ...] | None:
        """The guests through which an update goes; None: it is not for the shortcut."""
        params = message.params
        if not _is_spelled(line, _UPDATE_HEAD, params):
            return None
        return self._updates.get(heading(UPDATE, params).key)

    def _take_prompt(self, line: bytes, message: Message) -> int:
        names, key = self._prompts, _key(message)
        if names is None or not _is_spelled(line, _PROMPT_HEAD % key, message.params):
            return 0
        # In version 2 an update ends the turn, for which the router has to catch up anyway.
        if self._router.version != 1 or not self._router.knows_all_about(
            session_of(message.params), key
        ):
            return 0
        data = line + b"\n"
        prompt = headings.read_message(PROMPT, message.params)
        passage = Passage([line], is_open=True, prompt=prompt)
        may_change = partial(self._may_change, passage, key)
        back = self._goes_through(passage, names, data, b"s" + data[1:], may_change)
        if back:
            self._requests[key] = passage
            self._send(passage, back)
            self._forget()
        return 1

    def _may_change(self, passage: Passage, key: bytes, name: str, delivery: Delivery) -> bool:
        """Whether a guest may pass on the prompt with this id as it did, at no cost of its own; so
        the next guest is given it."""
        back = delivery.returned
        if delivery.ended or delivery.error is not None or back.find(b"\n") != len(back) - 1:
            return False
        if len(back) > len(delivery.given) + CHUNK or too_many_values(back, self._values):
            return False
        if b"\r" in back:  # the router writes a blank for it
            return False
        sent = _prompt_params(key, back)
        if sent is None or not self._router.allows_prompt(name, passage.prompt, sent):
            return False
        passage.prompt = passage.prompt._replace(params=sent)
        return True

    def _take_result(self, line: bytes, message: Message) -> int:
        request = self._requests.get(key := _key(message))
        if request is None or message.error is not UNSET:
            return 0
        if not _is_spelled(line, _RESULT_HEAD % key, message.result):
            return 0
        data = line + b"\n"
        back = b"p" + data[1:]
        passage = Passage([line], answers=request)
        if self._goes_through(passage, self._answers, data, back):
            del self._requests[key]
            request.is_open = False
            self._send(passage, back)
            self._output.flush()
            if self._goes_through(passage, self._copies, data, back):
                self._forget()
        return 1

    def _send(self, passage: Passage, data: bytes) -> None:
        """Sends the parent the lines that have come through."""
        self._output.send(data)
        passage.sent = data
        self._kept.append(passage)
        self._bytes += 2 * len(data)

    def _forget(self) -> None:
        """Forgets the oldest requests that are over, and their answers. Has the router catch up if
        too much is kept behind a request that is still open, which may be so for hours."""
        while self._kept and not self._kept[0].is_open:
            oldest = self._kept.popleft()
            oldest.is_forgotten = True
            self._bytes -= 2 * len(oldest.sent)
        if len(self._kept) > _MOST_KEPT or self._bytes > _MOST_KEPT_BYTES:
            self.close()

    def _goes_through(
        self,
        passage: Passage,
        names: Iterable[str],
        data: bytes,
        back: bytes,
        may_change: Callable[[str, Delivery], bool] | None = None,
    ) -> bytes:
        """Delivers to one guest after the other, as long as each returns `back`, or a change that
        `may_change` allows, which then goes on. Returns the lines that come through. Empty: a guest
        did something else; the router has learnt how far they came, and the shortcut is closed."""
        same = Delivery(data, back)
        for name in names:
            delivery = self._guests.exchange(name, same)
            if delivery is not None:
                passage.deliveries[name] = delivery
            if delivery is same:
                continue
            if delivery is None or may_change is None or not may_change(name, delivery):
                self._deviated(passage)
                return b""
            same = Delivery(same.given[:1] + delivery.returned[1:], delivery.returned)
        return same.returned

    def _deviated(self, passage: Passage) -> None:
        """A guest did something else with a message: the router learns how far that came."""
        if passage.sent:
            self._kept.pop()
        self.close()
        self._learn(passage)


def _key(message: Message) -> bytes:
    """The id of a message, if it is a number: requests that guests make have others."""
    id_ = message.id
    key = b"" if isinstance(id_, UnsetType) else bytes(id_)
    return key if key.isdigit() else b""


def _prompt_params(key: bytes, data: bytes) -> Raw | None:
    """The params of a line that is a prompt with this id, written as the router would."""
    try:
        message = jsonrpc.parse(line := data[1:-1])
    except Malformed:
        return None
    if not isinstance(message, Message) or _key(message) != key or not data.startswith(b"s"):
        return None
    params = message.params
    spelled = _is_spelled(line, (_PROMPT_HEAD % key)[1:], params)
    return params if spelled and isinstance(params, Raw) else None


def _is_spelled(line: bytes, head: bytes, member: Raw | UnsetType) -> bool:
    """Whether a line is a head, this member and a closing brace."""
    if isinstance(member, UnsetType):
        return False
    size = len(head) + memoryview(member).nbytes + 1
    return len(line) == size and line.startswith(head)


def _rights(lane: Lane, key: str) -> int:
    """The rights of a guest for messages that come in by a lane."""
    trusted = lane.peer.policy_state is None
    return EVERYTHING if trusted else lane.rights_on(Heading(key, None))


def _carriers(peers: Iterable[Peer], side: str, key: str, also: int = 0) -> tuple[str, ...] | None:
    """The guests through which messages of a key go; None: the router is to see each of these.

    Args:
        side: Of the guests: where the messages come in.
        also: The right that those guests need besides.
    """
    names = []
    for peer in peers:
        rights = _rights(peer.lane(Side(side)), key)
        if rights & CARRY and rights & also == also:
            names.append(peer.name)
        elif rights & ~_NOT_SEEN:
            return None
    return tuple(names)
