"""The record of a session, and the text for the agent when the session goes on elsewhere."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from guest_sdk.python import Conversation

CHARACTERS = 4
"""The characters of one token, about, where the agent does not count."""
MARK = "<conversation-so-far>"
"""The beginning of the block that tells the agent of the conversation."""
ASKED = "<sum-up>"
"""The beginning of the prompt that asks for a summary."""
REMEMBER = re.compile(r"^\s*remember:\s*(.+?)\s*$", re.IGNORECASE)


@dataclass
class Config:
    """The settings; README.md explains each."""

    tokens: int = 100_000
    part: float = 0.8
    keep: int = 4
    turn_chars: int = 4000
    facts: list[str] = field(default_factory=list)
    summary: bool = True
    ask: str = (
        "This conversation is about to be shortened. Sum it up for yourself: what the user wants, "
        "what was decided and why, what is done, in which files, and what is still to do. Use no "
        "tools. Answer with the summary only."
    )
    note: Literal["thought", "message", "none"] = "thought"

    def __post_init__(self) -> None:
        if min(self.tokens, self.keep) < 0 or not 0 <= self.part <= 1 or self.turn_chars < 1:
            raise ValueError(
                "`tokens` and `keep` are 0 or more, `part` is 0 to 1, `turn_chars` at least 1"
            )
        try:
            self.patterns = [re.compile(one) for one in self.facts]
        except re.error as error:
            raise ValueError(f"`facts`: {error}") from None


@dataclass
class Turn:
    """One prompt and its answer. `parts`: the agent's text, by message."""

    prompt: str
    parts: dict[Any, str] = field(default_factory=dict)
    tools: list[str] = field(default_factory=list)

    @property
    def answer(self) -> str:
        """All that the agent said."""
        return "".join(self.parts.values())


@dataclass
class Chat:
    """A session as the client knows it. `agent`: the agent's session that it is now.

    `past`: those it was before, the first of which has the client's own id.
    """

    agent: str = ""
    past: list[str] = field(default_factory=list)
    setup: dict[str, Any] = field(default_factory=dict)
    choices: dict[tuple[str, Any], dict[str, Any]] = field(default_factory=dict)
    """Modes and options the user chose, to be chosen again."""
    turns: list[Turn] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    summary: str = ""
    spare: str = ""
    """The agent's session that it will be next, if that is open already."""
    since: int = 0
    """Prompts that the agent's session has had; less if there was no other to be had."""
    running: int = 0
    """Turns that the agent works on."""
    chars: int = 0
    """How much has been said in the agent's session."""
    used: int = 0
    size: int = 0
    """Tokens in its context, and how many fit, as the agent says."""
    loading: bool = False
    hiding: bool = False
    """Whether the message that is told again while loading was hidden before."""
    warned: bool = False
    ids: dict[tuple[str, str], str] = field(default_factory=dict)
    """Which of the agent's sessions first gave a message or tool call this id."""

    def tell_apart(self, held: Any) -> None:
        """Gives what has an id that another of the agent's sessions gave before one of its own.

        Some agents count messages and tool calls in each session anew.
        """
        for key in ("messageId", "toolCallId") if isinstance(held, dict) else ():
            id_ = held.get(key)
            if isinstance(id_, str) and self.ids.setdefault((key, id_), self.agent) != self.agent:
                held[key] = f"{id_}@{self.agent}"

    def choose(self, choices: list[list[Any]]) -> None:
        """Takes note of choices of the user's: the method and parameters of each."""
        for method, params in choices:
            self.choices[method, params.get("configId")] = params

    def chosen(self) -> list[list[Any]]:
        """The choices, to be made again or kept."""
        return [[method, params] for (method, _), params in self.choices.items()]

    def full(self, config: Config) -> bool:
        """Whether the agent's session holds as much as it may, and nothing is going on in it."""
        used = self.used or self.chars // CHARACTERS
        return self.since > 0 and not self.running and used >= self.limit(config)

    def limit(self, config: Config) -> float:
        """How many tokens the agent's session may hold."""
        limits = [config.tokens, int(self.size * config.part)]
        return min((one for one in limits if one > 0), default=math.inf)

    def note_facts(self, config: Config, said: str, *, marked: bool) -> None:
        """Takes note of lines to be kept: those that match, and the user's that are marked."""
        for line in said.splitlines():
            mark = REMEMBER.match(line) if marked else None
            if mark is None and not any(one.search(line) for one in config.patterns):
                continue
            fact = mark[1] if mark is not None else line.strip()
            if fact not in self.facts:
                self.facts.append(fact)

    def begun(self, config: Config, said: str) -> None:
        """Takes a prompt of the user's."""
        self.note_facts(config, said, marked=True)
        self.turns.append(Turn(said))
        self.since += 1
        self.chars += len(said)

    def moved(self, config: Config, summary: str) -> str:
        """Goes on in the spare session; returns the text for the agent there."""
        for turn in self.turns:
            self.note_facts(config, turn.answer, marked=False)
        self.past.append(self.agent)
        self.agent, self.spare, self.summary = self.spare, "", summary or self.summary
        self.turns = kept(self, config)
        told = so_far(self, config)
        self.chars, self.used, self.since, self.warned = len(told), 0, 0, False
        return told


# -- what is told ----------------------------------------------------------------------------------


def kept(chat: Chat, config: Config) -> list[Turn]:
    """The turns that are told word by word: the last ones, in half of the room."""
    room = chat.limit(config) * CHARACTERS / 2
    found: list[Turn] = []
    for turn in reversed(chat.turns[-config.keep :] if config.keep else []):
        room -= sum(len(shortened(said, config)) for said in (turn.prompt, turn.answer))
        if room < 0:
            break
        found.insert(0, turn)
    return found


def so_far(chat: Chat, config: Config) -> str:
    """The text that tells the agent of the conversation so far."""
    lines = [MARK, "This conversation goes on from a longer one. What you need of that:"]
    if chat.facts:
        lines += ["", "Facts to keep to:", *(f"- {fact}" for fact in chat.facts)]
    if chat.summary:
        lines += ["", "Summary of all before:", chat.summary]
    if chat.turns:
        lines += ["", "The last turns, the newest at the end:"]
    for turn in chat.turns:
        lines += ["", f"User: {shortened(turn.prompt, config)}"]
        if turn.tools:
            lines.append(f"(You used: {', '.join(dict.fromkeys(turn.tools))})")
        if turn.answer:
            lines.append(f"You: {shortened(turn.answer, config)}")
    return "\n".join([*lines, MARK.replace("<", "</")])


def shortened(said: str, config: Config) -> str:
    """A text without its middle, if it is long."""
    most = config.turn_chars
    said = said.strip()
    if len(said) <= most:
        return said
    return f"{said[: most - most // 3]} […] {said[len(said) - most // 3 :]}"


def summarised(chat: Chat) -> str:
    """The same in short, for the user."""
    parts = [counted(len(chat.facts), "fact")] if chat.facts else []
    parts += ["a summary"] if chat.summary else []
    parts += [f"the last {counted(len(chat.turns), 'turn')}"] if chat.turns else []
    return ", ".join(parts) or "nothing of it"


def counted(number: int, noun: str) -> str:
    """`1 fact`, `2 facts`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


# -- what is heard ---------------------------------------------------------------------------------


def readable(blocks: list[Any]) -> Iterator[str]:
    """The blocks of a prompt that can be told again, as text."""
    for block in blocks:
        if not isinstance(block, dict):
            continue
        resource = block.get("resource")
        uri = block.get("uri", resource.get("uri") if isinstance(resource, dict) else None)
        if isinstance(block.get("text"), str):
            yield block["text"]
        elif isinstance(uri, str):
            yield f"[{block.get('name') or uri}]({uri})"


def heard_user(chat: Chat, config: Config, said: dict[str, Any]) -> bool:
    """Takes a prompt that the agent repeats; returns whether the client is shown it.

    Blocks of our own are taken out.
    """
    content = said.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [str(one.get("text", "")) for one in blocks if isinstance(one, dict)]
    ours = [one for one in texts if one.startswith((ASKED, MARK))]
    if chat.loading:
        chat.hiding = any(one.startswith(ASKED) for one in texts)
        chat.chars += sum(map(len, texts))
        told_again(chat, config, "\n".join(one for one in readable(blocks) if one not in ours))
    if isinstance(content, list) and 0 < len(ours) < len(content):
        said["content"] = [
            one for one in content if not isinstance(one, dict) or one.get("text") not in ours
        ]
        return True
    return not ours


def told_again(chat: Chat, config: Config, prompt: str) -> None:
    """Takes a prompt, or part of one, of a session that is loaded."""
    if not prompt:
        return
    chat.note_facts(config, prompt, marked=True)
    last = chat.turns[-1] if chat.turns else None
    if last is not None and not last.parts and not last.tools:
        last.prompt += "\n" + prompt
    else:
        chat.turns.append(Turn(prompt))


def told_before(chat: Chat, config: Config, held: Any) -> None:
    """Takes the last turns of the conversation that a session begins with."""
    try:
        turns = Conversation.read(held).turns[-config.keep :] if config.keep else []
    except ValueError:  # the agent, or what begins the session for it, refuses that
        return
    for one in turns:
        said = "".join(each.text for each in one.responses if not each.thought)
        turn = Turn("\n".join(each.text for each in one.prompts), {None: said})
        turn.tools = [each.title for each in one.tool_uses]
        chat.turns.append(turn)
        chat.chars += len(turn.prompt) + len(said)


def heard_agent(chat: Chat, kind: str, said: dict[str, Any]) -> None:
    """Takes the agent's words and acts in a turn."""
    turn, content = chat.turns[-1], said.get("content")
    blocks = content if isinstance(content, list) else [content]
    words = "".join(str(one.get("text", "")) for one in blocks if isinstance(one, dict))
    chat.chars += len(words)
    if "tool" in kind:
        chat.chars += sum(len(str(said[one])) for one in ("content", "rawOutput") if one in said)
    if kind == "agent_message_chunk":
        at = said.get("messageId")
        turn.parts[at] = turn.parts.get(at, "") + words
    elif kind == "agent_message" and content is not None:
        turn.parts[said.get("messageId")] = words
    elif kind in ("tool_call", "tool_call_update") and isinstance(said.get("title"), str):
        turn.tools.append(said["title"])


def number(value: Any) -> int:
    """A count; any other value counts nothing."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def worded(blocks: list[Any]) -> None:
    """Puts words for the agent in place of `/remember …`, a command that the agent does not
    have."""
    for block in blocks:
        said = block.get("text") if isinstance(block, dict) else None
        if isinstance(said, str) and said.lstrip().lower().startswith("/remember "):
            block["text"] = "Remember: " + said.lstrip()[len("/remember ") :]
