"""A question about one component: its text, its options, and the meaning of an answer.

The words are conductor's own. A component's author chooses only the names of the rights it asks for
(hosts, patterns of files, commands); they stand between backticks, short, and in plain characters.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import msgspec

from conductor.core import json_text
from conductor.core.jsonrpc import METHOD_NOT_FOUND
from conductor.core.policy import words
from conductor.core.policy.key_table import PERMISSION
from conductor.errors import one_line, visible_path
from conductor.spec import policy_text
from conductor.spec.digests import short
from conductor.spec.model import Spec
from conductor.spec.trust import Agreement

if TYPE_CHECKING:
    from conductor.spec.consent.tools import ToolsQuestion

METHOD: Final = PERMISSION
_LONGEST: Final = 60
_PLAIN: Final = re.compile(r"[^A-Za-z0-9_./*?@:+~-]")


class Answer(enum.Enum):
    """The decision of the user, by the id of the option."""

    SESSION = "allow-session"
    """Allowed until this conductor ends."""
    VERSION = "allow-version"
    """Allowed for this file, as it is, and these rights."""
    NARROW = "keep-narrow"


Option: TypeAlias = tuple[Answer, str, str]
"""The meaning of an option, its name, and its kind for the client."""


Asked: TypeAlias = "Question | ToolsQuestion"
"""A question about a component or about tools."""

# A client that allows everything takes the first option it knows to allow: nothing that lasts. So
# neither option says `allow_always`, and the one for the session comes first.
OPTIONS: Final[tuple[Option, ...]] = (
    (Answer.SESSION, "Allow until this conductor ends", "allow_once"),
    (Answer.VERSION, "Allow this version, also later", "allow_once"),
    (Answer.NARROW, "Keep it narrow", "reject_once"),
)
"""The options in their order: the meaning of each, its name, and its kind for the client."""


class Question(msgspec.Struct, frozen=True):
    """A question about one component."""

    component: str
    """Its name in the chain."""
    source: str
    """As the user wrote it."""
    key: str
    """The key of the agreement in the store."""
    agreement: Agreement
    """The agreement that a yes makes, without a time."""
    may: tuple[str, ...]
    """The rights that it has after a yes, in conductor's words."""
    meanwhile: tuple[str, ...]
    """The rights that it has until then."""
    options: ClassVar = OPTIONS
    narrow: ClassVar = "runs with the default rights"
    """The state without a yes."""
    hint: ClassVar = "`conductor trust PATH` allows all rights that a component asks for"
    """How to agree without a question."""

    @property
    def label(self) -> str:
        """The component, as the user wrote it."""
        return quoted(self.source, 200)

    @property
    def title(self) -> str:
        """The question in a line."""
        return f"Allow the sandboxed proxy {self.label} more than the default?"

    def lines(self) -> list[str]:
        """The facts that a person needs for an answer."""
        return [
            "Conductor asks this itself. If you allow it, this proxy may:",
            *(f"- {line}" for line in self.may),
            policy_text.THROUGH,
            f"Until then: it may {'; '.join(policy_text.says(name) for name in self.meanwhile)}.",
            f"File: {quoted(self.agreement.place, 300)}",
            f"SHA-256: {short(self.agreement.sha256)}",
        ]


def quoted(text: str, most: int = _LONGEST) -> str:
    """Somebody's text between backticks, which it cannot leave."""
    inner = visible_path(text).replace("`", "\\u{60}")
    return f"`{one_line(inner, most)}`"


def named(text: str) -> str:
    """A name that the author of a component may have chosen."""
    return quoted(_plain(text))


def is_shown(text: str) -> bool:
    """Whether a question shows all of such a name."""
    return len(_plain(text)) <= _LONGEST


def _plain(text: str) -> str:
    return _PLAIN.sub(lambda odd: f"\\u{{{ord(odd[0]):x}}}", text)


def sentences(spec: Spec, wish: Sequence[str]) -> tuple[str, ...]:
    """The rights of a component as sentences: first the new ones, then all others."""
    held = [name for name in words.flat(spec.policy.rights) if not words.is_denied(name, wish)]
    seen, before = policy_text.sees(wish), policy_text.sees(held)
    new = [*policy_text.may(wish, named), *([f"read {', '.join(seen)}"] if seen else [])]
    rest = [*policy_text.may(held, named), *([f"read {', '.join(before)}"] if before else [])]
    return tuple(dict.fromkeys((*new, *rest)))


def params(question: Asked, session: str, version: int, call: str) -> bytes:
    """The params of `session/request_permission`, in the words of an ACP version.

    Args:
        call: An id of a tool call that nobody can guess: a component that knew the id could change
            the question on the client's screen.
    """
    options = [
        {"optionId": answer.value, "name": name, "kind": kind}
        for answer, name, kind in question.options
    ]
    asked: dict[str, Any] = {"sessionId": session, "options": options}
    text = "\n".join(question.lines())
    if version >= 2:
        asked |= {"title": question.title, "description": text}
    else:
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        asked["toolCall"] = {
            "toolCallId": call,
            "title": question.title,
            "kind": "other",
            "status": "pending",
            "content": content,
        }
    return json_text.encode(asked)


class _Outcome(msgspec.Struct):
    outcome: str
    optionId: str = ""  # noqa: N815 - a name of the protocol


class _Result(msgspec.Struct):
    outcome: _Outcome


class _Error(msgspec.Struct):
    code: int = 0


def meaning(member: str, body: bytes) -> tuple[Answer, str]:
    """The meaning of a client's answer; and why it is no choice of the user, if it is none.

    Args:
        member: `result` or `error`.
        body: Its raw JSON.
    """
    try:
        if member == "result":
            chosen = json_text.decode(body, type=_Result).outcome
            if chosen.outcome == "selected":
                return _chosen(chosen.optionId)
            return Answer.NARROW, "the question was dismissed"
        code = json_text.decode(body, type=_Error).code
    except (msgspec.DecodeError, ValueError):
        return Answer.NARROW, "the editor's answer cannot be read"
    if code == METHOD_NOT_FOUND:
        return Answer.NARROW, "this editor has no way to ask"
    return Answer.NARROW, f"the editor answered the question with error {code}"


def _chosen(option: str) -> tuple[Answer, str]:
    try:
        return Answer(option), ""
    except ValueError:
        return Answer.NARROW, "the editor chose an option that the question does not have"
