"""The scenario of a pair: a prompt with five updates and a permission, in a new or a loaded
session."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["new", "load"]
Profile = Literal["http", "ws"]
KINDS: Final[tuple[Kind, ...]] = ("new", "load")
PROFILES: Final[tuple[Profile, ...]] = ("http", "ws")

PROMPT: Final = "Grüße, 世界"
KEPT: Final = "kept-1"
"""The session that an agent can load."""

WORDS: Final[dict[str, Any]] = {
    "fresh": "fresh-1",
    "before": ["zwölf Boxkämpfer\n", "日本語", "🥚\u2028naïve"],
    "option": "ja-1",
    "after": ["Ω ≠ 0"],
    "replayed": [
        ["user_message_chunk", "vorher: ß"],
        ["agent_message_chunk", "früher 🥚"],
        ["agent_message_chunk", "останнє"],
    ],
}
"""The texts of the agents; after the permission they name the option that was chosen."""

_TEXTS: Final = (*WORDS["before"], *WORDS["after"], WORDS["option"])
_REPLAYED: Final = tuple(text for _, text in WORDS["replayed"])


@dataclass(frozen=True, slots=True)
class Seen:
    """The account of a client: texts in the order of the wire, or the reason for which there is no
    end."""

    replayed: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    stop: str = ""
    error: str = ""

    @classmethod
    def of(cls, line: str) -> Seen:
        """From the line that a client program writes."""
        read = json.loads(line)
        if "error" in read:
            return cls(error=read["error"])
        return cls(tuple(read["replayed"]), tuple(read["texts"]), read["stop"])


def expected(kind: Kind) -> Seen:
    """The account of a client where everything works."""
    return Seen(_REPLAYED if kind == "load" else (), _TEXTS, "end_turn")


def words() -> str:
    """The texts of the agents, as an argument of their programs."""
    return json.dumps(WORDS)


def plan(kind: Kind) -> str:
    """The steps of a client, as an argument of its program."""
    return json.dumps({"load": KEPT if kind == "load" else None, "prompt": PROMPT})


def outcome(seen: Seen, kind: Kind) -> str:
    """The outcome of a scenario, in the words of the table.

    Over HTTP the answer to `session/load` and the replay may come on two streams without an order
    between them: where the client got the answer first, the replay stands among the texts after it.
    """
    wanted = expected(kind)
    if seen.error:
        return re.sub(r"\s+", " ", re.sub(r"127\.0\.0\.1:\d+", "…", seen.error)).replace("|", "/")
    if seen.stop != wanted.stop:
        return f"ended with `{seen.stop}`"
    got, due = Counter(seen.replayed + seen.texts), Counter(wanted.replayed + wanted.texts)
    if got != due:
        return f"lost {(due - got).total()}, doubled or foreign {(got - due).total()}"
    in_order = seen.replayed + seen.texts == wanted.replayed + wanted.texts
    return "ok" if in_order else "out of order"
