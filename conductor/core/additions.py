"""Additions of components to prompts: kept as digests, found again in later messages of an agent.

Agents keep prompts as they got them, and join the blocks by nothing, a blank or new lines. So texts
are compared without their white space: such a text is called bare here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.jsonrpc import Params
from conductor.core.text_pairs import SIMILAR, similarity

TEXT: Final = "text"
"""The type of blocks that are compared; the content of other blocks is unknown."""

_BEGINNING: Final = 200
"""Characters of a prompt that are kept for titles."""
_SHORTEST: Final = 40
"""Characters that a title may have in any case, where it is made of the user's own words."""
_MOST_BLOCKS: Final = 256
"""The most blocks of a prompt in which changes of components are looked for."""
_MOST_COMPARED: Final = 1 << 27
"""The most characters that are compared for such changes, in the worst case: each block with the
whole prompt."""

Span = tuple[int, int]
"""A part of a bare text: its first character, and the first character behind it."""


class Block(msgspec.Struct):
    """The members of a block that are compared."""

    type: str = ""
    text: str = ""


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """A prompt, as an agent got it: its text up to the first block that is no text."""

    size: int
    """Characters of the bare text."""
    digest: str
    """The digest of the bare text."""
    added: tuple[Span, ...] = ()
    """The parts of the bare text that components added."""
    more: bool = False
    """Whether a block follows that is no text: an agent may say anything for it."""
    first: bool = False
    """Whether it is the first prompt of its session."""
    whole: str = ""
    """The beginning of the bare text, where something was added."""
    own: str = ""
    """The beginning of the user's words, where something was added, or where only components had
    prompted before."""


_BEGINS: Final = Kept(0, "", first=True)
"""The record of a session's first prompt whose text is not kept. It marks the start of the
session: an agent may have used the session's id before."""


class _Prompt(msgspec.Struct):
    prompt: list[Block]


_prompt: Final = json_text.Decoder(_Prompt)
_kept: Final = json_text.Decoder(Kept)


class Unread(NamedTuple):
    """A prompt as it passed: nobody has looked for the additions of components yet."""

    users: Params | None
    """The params of the user's prompt; None: the prompt is a component's own."""
    sent: Raw
    """The params that go to the agent; the same object, if nothing was added."""
    got: Raw
    """The params that the agent gets, with words for blocks that it does not take."""
    first: bool
    """Whether it is the first prompt of its session."""
    worded: bool
    """Whether the user's words are kept although nothing was added."""


class Prompt:
    """A prompt that an agent has got. The prompt is read when somebody asks, in any thread: the
    agent does not wait for the reading."""

    def __init__(self, unread: Unread | None, kept: Kept | None = None) -> None:
        self._unread = unread
        self._kept = kept
        self.in_titles = unread is None or (
            unread.first or unread.worded or unread.users is not unread.sent
        )
        """Whether titles may be made of the prompt."""

    @property
    def unread(self) -> int:
        """Bytes of the prompt that are held until it is read."""
        held = {id(params): params for params in self._unread or () if isinstance(params, Raw)}
        return sum(memoryview(params).nbytes for params in held.values())

    def read(self) -> Kept | None:
        """The record to keep; None: the prompt cannot be found again."""
        unread = self._unread
        if unread is not None:
            self._kept = _found(unread) or (_BEGINS if unread.first else None)
            self._unread = None
        return self._kept

    @property
    def record(self) -> bytes:
        """The record as JSON, in one line; empty: none is kept."""
        kept = self.read()
        return b"" if kept is None else json_text.encode(kept)


def _blocks(params: Params) -> list[Block] | None:
    """The blocks of a prompt; None: they cannot be read."""
    prompt = _prompt.find(params)
    return prompt.prompt if prompt is not None else None


def read(records: Iterable[bytes]) -> list[Kept]:
    """The prompts of a session, from its first one on."""
    found: list[Kept] = []
    for kept in map(_kept.find, records):
        if kept is not None:  # else it is of another version
            found = [kept] if kept.first else [*found, kept]
    return found


def bare(text: str) -> str:
    """A text without white space."""
    return "".join(text.split())


def without(text: str, cuts: Sequence[Span]) -> str:
    """A text without some spans of its bare text, and without the white space that set them apart.

    Args:
        cuts: not empty, in order.
    """
    signs = [at for at, sign in enumerate(text) if not sign.isspace()]
    left, at = [], 0
    for start, end in cuts:
        if end < len(signs):
            left.append(text[at : signs[start]])
            at = signs[end]
        else:
            left.append(text[at : signs[start - 1] + 1 if start else 0])
            at = len(text)
    return "".join([*left, text[at:]])


# -- additions to one prompt -----------------------------------------------------------------------


def _found(unread: Unread) -> Kept | None:
    params, sent, got, first, worded = unread
    blocks = _blocks(sent)
    users: list[Block] | None = []
    if params is not None:
        users = blocks if params is sent else _blocks(params)
    after = blocks if got is sent else _blocks(got)
    if users is None or blocks is None or after is None:
        return None
    owned, other = ({}, _ALL) if users == blocks else (_owned(users, blocks), _NOTHING)
    if owned is None:
        return None
    texts: list[str] = []
    words: list[str] = []
    added: list[Span] = []
    at = 0
    for number, block in enumerate(after):
        if block.type != TEXT:
            break
        text = bare(block.text)
        size = len(text)
        start, end = owned.get(number, other)
        if (start, min(end, size)) == (0, size):
            words.append(block.text)
        elif start < end:
            cuts = [cut for cut in ((0, start), (end, size)) if cut[0] < cut[1]]
            words.append(without(block.text, cuts))
            added += [(at + begin, at + over) for begin, over in cuts]
        else:
            added.append((at, at + size))
        texts.append(text)
        at += size
    if not at:
        return None
    whole, more = "".join(texts), len(texts) < len(after)
    beginning = whole[:_BEGINNING] if added else ""
    own = " ".join(" ".join(words).split())[:_BEGINNING] if added or worded else ""
    return Kept(at, _digest(whole), _joined(added), more, first, beginning, own)


def _joined(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Spans in order, those together that touch."""
    joined: list[Span] = []
    for start, end in spans:
        begin = joined.pop()[0] if joined and joined[-1][1] == start else start
        joined.append((begin, end))
    return tuple(joined)


_NOTHING: Final = (0, 0)
"""The user's part of a block that has nothing of the user's."""
_ALL: Final = (0, 1 << 62)
"""The user's part of a block that is all the user's."""


def _owned(users: Sequence[Block], sent: Sequence[Block]) -> dict[int, Span] | None:
    """The user's part of each block that goes to an agent, by index; None: there is too much to
    compare.

    The user's blocks are looked for from the end, since components put their own before them.
    """
    blocks = max(len(users), len(sent))
    size = sum(len(block.text) for block in (*users, *sent))
    if blocks > _MOST_BLOCKS or blocks * size > _MOST_COMPARED:
        return None
    owned: dict[int, Span] = {}
    above, end = len(users), len(sent)
    for number in reversed(range(len(users))):
        place = next((at for at in reversed(range(end)) if sent[at] == users[number]), None)
        if place is not None:
            owned |= _changed(users[number + 1 : above], sent, range(place + 1, end))
            above, end = number, place
            owned[end] = _ALL
    return owned | _changed(users[:above], sent, range(end))


def _changed(users: Sequence[Block], sent: Sequence[Block], among: range) -> dict[int, Span]:
    """The user's parts, for blocks of the user's that components changed. Each went on as a block
    that contains its text, or that is much like it; if none is found, no other block counts as
    added."""
    owned: dict[int, Span] = {}
    free = [at for at in among if sent[at].type == TEXT] if users else []
    for block in reversed(users):
        text = bare(block.text)
        for at in reversed(free):
            whole = bare(sent[at].text)
            # From the end, and not by `rfind`: that takes the square of the time.
            found = whole[::-1].find(text[::-1]) if text else -1
            if found >= 0:
                end = len(whole) - found
                owned[at] = end - len(text), end
            elif similarity(text, whole) >= SIMILAR:
                owned[at] = _ALL
            else:
                continue
            free = [one for one in free if one < at]
            break
        else:
            return owned | dict.fromkeys((at for at in among if at not in owned), _ALL)
    return owned


def _digest(text: str) -> str:
    # Not from `hashlib`: that loads OpenSSL, and a user waits for the answer.
    try:
        from _blake2 import blake2b
    except ImportError:  # this Python has it from OpenSSL alone
        from hashlib import blake2b
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


# -- later messages of an agent --------------------------------------------------------------------


_MOST_DIGESTED: Final = 1 << 28
"""The most characters in which prompts are looked for: each text may begin each prompt. In more of
them nothing is found: messages wait meanwhile."""
_DIGESTED: Final = 2000
"""The characters whose digest takes as much time as the call for it."""


class Replay:
    """The prompts of one session that its agent has not repeated yet, in order."""

    def __init__(self, prompts: Iterable[Kept] = ()) -> None:
        self._prompts = list(prompts)
        self._next = 0

    def expect(self, prompt: Kept) -> None:
        """The agent has got one more prompt."""
        self._prompts.append(prompt)

    @property
    def most(self) -> int:
        """The size of the longest prompt that is left; 0: none is left."""
        return max((prompt.size for prompt in self._prompts[self._next :]), default=0)

    def added(self, texts: Sequence[str]) -> list[Span]:
        """The additions to prompts that the agent repeats in these bare texts, as spans of the
        joined texts. Each prompt is found once, and in order: so words of the user's that equal an
        addition elsewhere stay."""
        sizes = sum(prompt.size + _DIGESTED for prompt in self._prompts[self._next :])
        if len(texts) * sizes > _MOST_DIGESTED:
            return []
        whole, ends = "".join(texts), [*accumulate(map(len, texts))]
        at_end, over = frozenset(ends), 0
        found: list[Span] = []
        for start in [0, *ends[:-1]]:
            prompt = self._found(whole, start, at_end) if start >= over else None
            if prompt is not None:
                found += [(start + one, start + other) for one, other in prompt.added]
                over = start + prompt.size
        return found

    def _found(self, whole: str, start: int, ends: frozenset[int]) -> Kept | None:
        """The next prompt that stands at a place of a text, and ends where a text does."""
        digests: dict[int, str] = {}
        for number in range(self._next, len(self._prompts)):
            prompt = self._prompts[number]
            end = start + prompt.size
            if end not in ends and not (prompt.more and end < len(whole)):
                continue
            if end not in digests:
                digests[end] = _digest(whole[start:end])
            if digests[end] == prompt.digest:
                self._next = number + 1
                return prompt
        return None


_Session = TypeVar("_Session")
"""The name of a session."""

_UNREAD: Final = 32
"""The most prompts that wait until somebody asks for a title."""


class Titles:
    """The prompts that titles of a session may be made of."""

    def __init__(self) -> None:
        self._held: tuple[Kept, ...] = ()
        self._more: list[Prompt] = []

    def add(self, prompt: Prompt) -> None:
        """The session has one more prompt."""
        self._more.append(prompt)
        if len(self._more) > _UNREAD:
            self.held()

    def held(self) -> tuple[Kept, ...]:
        """The first prompt with something added, the first with words of the user's, the last."""
        more, self._more = self._more, []
        for prompt in more:
            kept = prompt.read()
            if kept is not None and kept.first:
                self._held = ()
            if kept is not None and (kept.whole or kept.own):
                held = self._held
                self._held = (*held[:1], *[one for one in held if one.own][:1], kept)
        return self._held

    def shown(self, title: str) -> str:
        """The title of the session without additions of components; empty: nothing is left."""
        held = self.held()
        worded = next((one.own for one in held if one.own), "")
        for prompt in held:
            other = _title(prompt, prompt.own or worded, title)
            if other != title:
                return other
        return title


def _title(prompt: Kept, own: str, title: str) -> str:
    """The title, but `own` in its place if it may have been made of an addition to this prompt."""
    short = bare(title.rstrip().removesuffix("…").rstrip("."))
    most = min(len(short), len(prompt.whole))
    touches = any(start < most for start, _ in prompt.added)
    if not touches or short[:most] != prompt.whole[:most] or bare(own).startswith(short):
        return title
    length = max(len(title), _SHORTEST)
    return own if len(own) <= length else own[: length - 1].rstrip() + "…"


def titles(records: Iterable[tuple[_Session, bytes]]) -> dict[_Session, Titles]:
    """The titles of the sessions that have records; the session with the latest prompt is last."""
    found: dict[_Session, Titles] = {}
    for session, record in records:
        for prompt in read([record]):
            found[session] = found.pop(session, Titles())
            found[session].add(Prompt(None, prompt))
    return found


TITLE_WORDS: Final = (b'"first"', b'"own"', b'"whole"')
"""Each record that titles are made of holds one of these; nearly no other record does."""
