"""Additions of components to prompts are no part of the history and titles that the client gets."""

import json
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from conductor.core import Closure, Component, Entry, Keep, Recall, Send, additions
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import FORMS, PassThrough
from tests.harness.router.policed import (
    guest,
    initialize,
    notification,
    prompt,
    request,
    result,
    trusted,
)

Json = dict[str, Any]
Blocks = list[Json]
Record = tuple[str, str, bytes]

DATE: Final = '<current-date date="2025-10-08" time="12:34:56"/>'
IMAGE: Final[Json] = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
LINK: Final[Json] = {"type": "resource_link", "uri": "file:///work/a", "name": "a"}


def text(words: str) -> Json:
    """A block."""
    return {"type": "text", "text": words}


def nothing(blocks: Blocks) -> Blocks:
    """No component changes anything."""
    return blocks


def before(*words: str) -> Callable[[Blocks], Blocks]:
    """A component that puts texts before the user's."""
    return lambda blocks: [*map(text, words), *blocks]


def behind(*words: str) -> Callable[[Blocks], Blocks]:
    """A change that puts the words behind."""
    return lambda blocks: [*blocks, *map(text, words)]


def inside(prefix: str, suffix: str = "") -> Callable[[Blocks], Blocks]:
    """A change that adds to the user's own block."""
    return lambda blocks: [text(f"{prefix}{blocks[0]['text']}{suffix}"), *blocks[1:]]


def instead(*words: str) -> Callable[[Blocks], Blocks]:
    """A change that sends other words."""
    return lambda blocks: [*map(text, words)]


def edit_prompts(edit: Callable[[Blocks], Blocks]) -> Callable[[Json], None]:
    """A handler of a program that edits the blocks of prompts."""

    def edited(message: Json) -> None:
        if message["method"] == "session/prompt":
            message["params"]["prompt"] = edit(message["params"]["prompt"])

    return edited


class Agent:
    """Keeps sessions as it gets them, and says them again: the blocks of each prompt one by one, or
    joined by a text."""

    def __init__(self, join: str | None = None, cut: int = 0, *, whole: bool = False) -> None:
        self.join = join
        self.cut = cut
        self.whole = whole
        """Whether the agent says a message in one update, as version 2 has it."""
        self.sessions: dict[str, list[Blocks]] = {}
        self.answers = True
        self.echoes = False

    def hear(self, message: Json) -> list[Json]:
        """The agent's messages after a message."""
        params, id_ = message.get("params", {}), message.get("id")
        session = params.get("sessionId", "")
        match message.get("method"):
            case "session/new":
                session = f"S{len(self.sessions)}"
                self.sessions[session] = []
                return [result(id_, {"sessionId": session})]
            case "session/fork":
                new = f"S{len(self.sessions)}"
                self.sessions[new] = [*self.sessions.get(session, [])]
                return [result(id_, {"sessionId": new})]
            case "session/prompt":
                self.sessions[session].append(params["prompt"])
                echo = self.said(session, params["prompt"]) if self.echoes else []
                return [*echo, *([result(id_, {"stopReason": "end_turn"})] if self.answers else [])]
            case "session/load" | "session/resume":
                told = [one for p in self.sessions[session] for one in self.turn(session, p)]
                return [*told, result(id_, {})]
            case "session/list":
                listed = [{"sessionId": one, "cwd": "/"} | self.title(one) for one in self.sessions]
                return [result(id_, {"sessions": listed})]
        return []

    def turn(self, session: str, blocks: Blocks) -> list[Json]:
        """The updates after a prompt."""
        content = text("ok")
        chunk = {"sessionUpdate": "agent_message_chunk", "content": content, "messageId": "a"}
        told = notification("session/update", {"sessionId": session, "update": chunk})
        return [*self.said(session, blocks), *([told] if self.answers else [])]

    def said(self, session: str, blocks: Blocks) -> list[Json]:
        """The updates with a prompt."""
        if self.join is not None:
            words = self.join.join(one["text"] for one in blocks if one["type"] == "text")
            blocks = [text(words), *(one for one in blocks if one["type"] != "text")]
        kind = "user_message" if self.whole else "user_message_chunk"
        contents: list[Any] = [blocks] if self.whole else [*blocks]
        return [
            notification(
                "session/update",
                {
                    "sessionId": session,
                    "update": {"sessionUpdate": kind, "content": one, "messageId": "u"},
                },
            )
            for one in contents
        ]

    def title(self, session: str) -> Json:
        """The title of a session: the beginning of its first prompt."""
        first = " ".join(one.get("text", "") for one in next(iter(self.sessions[session]), []))
        if not first:
            return {}
        return {"title": f"{first[: self.cut]}…" if 0 < self.cut < len(first) else first}


class Chain:
    """A client, a component that does this to prompts, and an agent; a new process each time."""

    def __init__(
        self,
        agent: Agent,
        kept: list[Record],
        edit: Callable[[Blocks], Blocks] = nothing,
        *,
        component: Component | None = None,
        alone: bool = False,
        version: int = 1,
        keeping: bool = True,
        actor: PassThrough | None = None,
    ) -> None:
        """`alone`: there is no component but the agent."""
        components = [] if alone else [component or trusted("g")]
        self.router = Router(
            [*components, Component("agent", "agent `agent`")],
            options=RouterOptions(keeping=keeping, tracing=True),
        )
        initialize(self.router, components, version)
        self.agent, self.kept, self.edit = agent, kept, edit
        self.actor = actor
        self.twice = False
        """Whether the component prompts once more, when it has the next answer."""
        self.prompt: Json = {}
        self.told: list[Json] = []
        """The messages that the client got."""
        self.entries: list[Entry] = []
        """The entries of the updates that the client got."""
        self.queue: deque[tuple[str, bytes]] = deque()
        self.asked = 0

    def ask(self, method: str, params: Json) -> Any:
        """The client asks for something; the result."""
        self.asked += 1
        before = len(self.told)
        self.says("client", request(self.asked, method, params))
        told = self.told[before:]
        found = [one for one in told if one.get("id") == self.asked and "method" not in one]
        return found[0].get("result") if found else None

    def says(self, name: str, *messages: Json) -> None:
        """Somebody says something."""
        self.queue.extend((name, json.dumps(message).encode()) for message in messages)
        while self.queue:
            self.perform(self.router.receive(*self.queue.popleft()))

    def perform(self, effects: Sequence[object]) -> None:
        """Performs the effects of the router."""
        for effect in effects:
            match effect:
                case Keep(peer, session, prompt):
                    assert b"\n" not in prompt.record
                    assert prompt.unread == 0, "it has been read"
                    if prompt.record:
                        self.kept.append((peer, session, prompt.record))
                case Recall(peer, token, session):
                    theirs = [
                        (one[1], one[2])
                        for one in self.kept
                        if one[0] == peer and session in (None, one[1])
                    ]
                    self.perform(self.router.recalled(token, theirs))
                case Entry("notification", target="client"):
                    self.entries.append(effect)
                case Send("client", frame):
                    self.told.append(json.loads(frame))
                case Send("agent", frame):
                    said = self.agent.hear(json.loads(frame))
                    self.queue.extend(("agent", json.dumps(one).encode()) for one in said)
                case Send("g", frame) if frame[:1] in b"ps":
                    message = json.loads(frame[1:])
                    if message.get("method") == "session/prompt":
                        params = message["params"]
                        message["params"] = {**params, "prompt": self.edit(params["prompt"])}
                    side = b"s" if frame[:1] == b"p" else b"p"
                    if side == b"p" and self.twice:  # it is not content with the answer
                        self.twice = False
                        message = self.prompt
                        side = b"s"
                    elif message.get("method") == "session/prompt":
                        self.prompt = message
                    self.queue.append(("g", side + json.dumps(message).encode()))
                case Send("g", frame):
                    self.queue.extend(self.actor.hear("g", frame[:-1]) if self.actor else [])

    def prompts(self, session: str, *blocks: Json | str) -> None:
        """The user prompts."""
        content = [text(one) if isinstance(one, str) else one for one in blocks]
        self.ask("session/prompt", {"sessionId": session, "prompt": content})

    def load(self, session: str = "S0", method: str = "session/load") -> list[str]:
        """The client loads a session. Returns the words that it gets before the answer, the user's
        with `>`."""
        before = len(self.told)
        params = {"sessionId": session, "cwd": "/", "mcpServers": []}
        assert self.ask(method, params) is not None
        assert "result" in self.told[-1], "nothing comes behind the answer"
        return [words(one["params"]["update"]) for one in self.told[before:-1]]


def words(update: Json) -> str:
    """The words of an update."""
    content = update["content"]
    each = content if isinstance(content, list) else [content]
    said = "|".join(one.get("text", one["type"]) for one in each)
    return f"> {said}" if update["sessionUpdate"].startswith("user_message") else said


def new(chain: Chain) -> str:
    """A session."""
    session = chain.ask("session/new", {"cwd": "/", "mcpServers": []})["sessionId"]
    assert isinstance(session, str)
    return session


JOINS: Final = {"by block": None, "": "", "blank": " ", "line": "\n", "lines": "\n\n"}
CASES: Final[dict[str, tuple[Callable[[Blocks], Blocks], list[Json | str], list[str]]]] = {
    "before": (before(DATE), ["hi you"], ["hi you"]),
    "two before": (before(DATE, "There are skills:\n\n- a"), ["hi"], ["hi"]),
    "behind": (behind("Be brief."), ["hi"], ["hi"]),
    "both": (lambda b: behind("Be brief.")(before(DATE)(b)), ["hi"], ["hi"]),
    "inside": (inside(f"{DATE}\n", "\n\nBe brief."), ["hi\n  there"], ["hi\n  there"]),
    "between": (lambda b: [b[0], text(DATE), *b[1:]], ["one", "two"], ["one", "two"]),
    "nothing": (nothing, ["hi"], ["hi"]),
    "only added": (before(DATE), [], []),
    "in words": (instead("[image: a cat]"), [IMAGE], ["[image: a cat]"]),
    "equal words": (before("hi"), ["hi"], ["hi"]),
    "equal blocks": (before(DATE), [DATE, "why?"], [DATE, "why?"]),
    "changed": (instead("my key [redacted]"), ["my key abcde"], ["my key [redacted]"]),
    "changed, too": (
        instead(DATE, "my key [redacted]"),
        ["my key abcde"],
        ["my key [redacted]"],
    ),
    "unlike": (instead(DATE, "go"), ["abcde"], [DATE, "go"]),
    "half an emoji": (before(DATE), ["a\ud83d"], ["a\ud83d"]),
}


@pytest.mark.proves("the conductor in its stead")
@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize(("version", "method"), [(1, "session/load"), (2, "session/resume")])
def test_a_loaded_session_has_the_users_words(
    case: tuple[Callable[[Blocks], Blocks], list[Json | str], list[str]],
    join: str | None,
    version: int,
    method: str,
) -> None:
    edit, blocks, left = case
    agent, kept = Agent(join, whole=version == 2), list[Record]()
    chain = Chain(agent, kept, edit, version=version)
    session = new(chain)
    chain.prompts(session, *blocks)
    chain.prompts(session, *blocks)
    # Another process, another component.
    shown = Chain(agent, kept, version=version).load(method=method)
    users = [one for one in shown if one.startswith("> ")]
    pieces = left if join is None or not left else [join.join(left)]
    if version == 2:
        pieces = ["|".join(pieces)] if pieces else []
    assert users == [f"> {one}" for one in pieces] * 2
    assert shown.count("ok") == 2


@pytest.mark.proves("words of the user's stay")
@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
def test_equal_texts_belong_to_their_prompts_in_order(join: str | None) -> None:
    agent, kept = Agent(join), list[Record]()
    plain = Chain(agent, kept)
    session = new(plain)
    plain.prompts(session, DATE, "hi")
    added = Chain(agent, kept, before(DATE))
    added.load(session)
    added.prompts(session, "hi")
    plain.prompts(session, DATE, "hi")
    mine = [f"> {DATE}", "> hi"] if join is None else [f"> {DATE}{join}hi"]
    assert Chain(agent, kept).load() == [*mine, "ok", "> hi", "ok", *mine, "ok"]


def test_a_python_that_has_digests_from_openssl_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "_blake2", None)
    test_equal_texts_belong_to_their_prompts_in_order(None)


def test_with_an_agent_alone_only_the_beginning_of_a_session_is_kept() -> None:
    agent, kept = Agent(), list[Record]()
    alone = Chain(agent, kept, alone=True)
    session = new(alone)
    for one in ("one", "two"):
        alone.prompts(session, one)
    assert [json.loads(record)["first"] for *_, record in kept] == [True]
    added = Chain(agent, kept, before(DATE))
    added.load(session)
    added.prompts(session, "one")
    assert len(kept) == 2
    shown = ["> one", "ok", "> two", "ok", "> one", "ok"]
    assert Chain(agent, kept, alone=True).load() == shown


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
@pytest.mark.parametrize("whole", [False, True])
def test_prompts_without_an_answer_between(join: str | None, whole: bool) -> None:
    agent, kept = Agent(join, whole=whole), list[Record]()
    agent.answers = False
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    for one in ("one", "two", "two"):
        chain.prompts(session, one)
    assert Chain(agent, kept).load() == ["> one", "> two", "> two"]


@pytest.mark.proves("words of the user's stay")
def test_what_nobody_knows_goes_on_as_it_came() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    chain.prompts(session, "one")
    agent.sessions[session][:0] = [[text(DATE), text("of another program")]]
    agent.sessions[session].append([text(DATE), text("of another program")])
    unknown = [f"> {DATE}", "> of another program", "ok"]
    assert Chain(agent, kept).load() == [*unknown, "> one", "ok", *unknown]
    chain.prompts(session, "two")
    chain.prompts(session, "six")
    del agent.sessions[session][1], agent.sessions[session][-2]
    assert Chain(agent, kept).load() == [*unknown, *unknown, "> six", "ok"], "it was made shorter"
    agent.sessions[session][1:1] = [[text(DATE), text("one")]]
    del agent.sessions[session][-1]
    kept[:0] = [("agent", session, b"{}"), ("agent", session, b"x\xff")]
    kept.append(("agent", session, b"[]"))
    assert Chain(agent, kept).load() == [*unknown, "> one", "ok", *unknown]
    assert Chain(agent, kept, keeping=False).load()[3:] == [f"> {DATE}", "> one", "ok", *unknown]
    assert Chain(agent, []).load()[3:] == [f"> {DATE}", "> one", "ok", *unknown]


def test_what_stands_for_a_link_may_be_anything() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    chain.prompts(session, "look at ", LINK, " please")
    agent.sessions[session] = [[text(f"{DATE}\nlook at"), text("[a](file:///work/a) please")]]
    assert Chain(agent, kept).load() == ["> look at", "> [a](file:///work/a) please", "ok"]
    agent.sessions[session] = [[text(f"{DATE} look at [a](file:///work/a) please")]]
    assert Chain(agent, kept).load() == ["> look at [a](file:///work/a) please", "ok"]
    agent.sessions[session] = [[text(f"{DATE} \n"), text(" "), text("look at "), LINK, text(" p")]]
    assert Chain(agent, kept).load() == ["> look at ", "> resource_link", ">  p", "ok"]


@pytest.mark.parametrize("join", JOINS.values(), ids=JOINS)
def test_words_that_stand_for_a_picture_stay(join: str | None) -> None:
    agent, kept = Agent(join), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    chain.prompts(new(chain), IMAGE)
    (shown, _) = Chain(agent, kept).load()
    assert shown.startswith("> [image: image/png, 3 bytes"), "this agent takes none"


@pytest.mark.parametrize("size", [1, 7, 48])
def test_a_text_that_is_said_in_pieces(size: int) -> None:
    agent, kept = Agent("\n"), list[Record]()
    chain = Chain(agent, kept, inside(f"{DATE}\n", "\n\nBe brief."))
    session = new(chain)
    for users in (WORDS, "two"):
        chain.prompts(session, users)
    whole = [blocks[0]["text"] for blocks in agent.sessions[session]]
    pieces = [[text(one[at : at + size]) for at in range(0, len(one), size)] for one in whole]
    agent.join, agent.sessions[session] = None, pieces
    said = [one.removeprefix("> ") for one in Chain(agent, kept).load()]
    assert "".join("".join(said).split()) == f"{WORDS}oktwook".replace(" ", "")


def test_in_very_many_pieces_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additions, "_MOST_DIGESTED", 10_000)
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    chain.prompts(session, "one")
    (blocks,) = agent.sessions[session]
    assert Chain(agent, kept).load() == ["> one", "ok"]
    agent.sessions[session] = [[*blocks, *map(text, "12345678")]]
    assert Chain(agent, kept).load()[0] == f"> {DATE}"


WORDS: Final = "Please explain how the parser of this project works, and where it is tested"


def test_a_link_stays_where_it_stood() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    chain.prompts(session, LINK, "and")
    chain.prompts(session, "look")
    assert Chain(agent, kept).load() == ["> resource_link", "> and", "ok", "> look", "ok"]


@pytest.mark.parametrize("kind", ["acp", "sdk"])
def test_a_program_passes_prompts_on_by_requests_of_its_own(kind: str) -> None:
    agent, kept = Agent(), list[Record]()
    actor = PassThrough("g", FORMS[kind], edit_prompts(before(DATE)))
    chain = Chain(agent, kept, component=trusted("g", kind), actor=actor)
    session = new(chain)
    chain.prompts(session, "one")
    chain.prompts(session, DATE, "two")
    assert agent.sessions[session][0] == [text(DATE), text("one")]
    assert Chain(agent, kept).load() == ["> one", "ok", f"> {DATE}", "> two", "ok"]


def test_a_prompt_that_the_agent_gets_twice() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    chain.twice = True
    chain.prompts(session, "one")
    assert len(agent.sessions[session]) == 2
    assert Chain(agent, kept).load() == ["> one", "ok", "> one", "ok"]


OWN: Final = "What have you learnt?"


def test_what_a_component_prompts_itself_is_no_word_of_the_users() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    chain.prompts(session, "one")
    own = request("own", "session/prompt", prompt(OWN, session))
    chain.queue.append(("g", b"s" + json.dumps(own).encode()))
    chain.prompts(session, OWN)
    assert agent.sessions[session][1:] == [[text(OWN)], [text(DATE), text(OWN)]]
    shown = Chain(agent, kept).load()
    assert shown == ["> one", "ok", "ok", f"> {OWN}", "ok"]


@pytest.mark.parametrize("edit", [nothing, before(DATE)])
def test_a_title_after_a_prompt_of_a_components(edit: Callable[[Blocks], Blocks]) -> None:
    agent, kept = Agent(cut=9), list[Record]()
    chain = Chain(agent, kept, edit)
    session = new(chain)
    for users, title in (("one", None), ("two", "one"), ("three", "one")):
        own = request(f"before {users}", "session/prompt", prompt(OWN, session))
        chain.queue.append(("g", b"s" + json.dumps(own).encode()))
        chain.says("client")
        assert titles(chain) == titles(Chain(agent, kept)) == [title]
        chain.prompts(session, users)


def test_a_component_with_a_policy_and_sessions_of_its_own() -> None:
    agent, kept = Agent(), list[Record]()
    policed = guest(profile="full", grants="sessions=own turns=unprompted")
    chain = Chain(agent, kept, before(DATE), component=policed)
    session = new(chain)
    chain.prompts(session, "one")
    for method, params in (
        ("session/new", {"cwd": "/", "mcpServers": []}),
        ("session/prompt", prompt(OWN, "S1")),
        ("session/prompt", prompt(OWN, session)),
    ):
        own = json.dumps(request(f"own {params}", method, params)).encode()
        chain.perform(chain.router.receive("g", b"s" + own))
        chain.says("client")
    assert agent.sessions["S1"] == [[text(OWN)]]
    assert {one[1] for one in kept} == {session}
    assert Chain(agent, kept).load() == ["> one", "ok", "ok"]


def test_other_updates_keep_their_places_and_sessions() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    for one in ("one", "two"):
        chain.prompts(new(chain), one)
    chain = Chain(agent, kept)
    agent.hear = lambda message: []  # type: ignore[method-assign]
    for number, session in enumerate(("S0", "S1")):
        params = {"sessionId": session, "cwd": "/", "mcpServers": []}
        chain.says("client", request(f"l{number}", "session/load", params))
    del agent.hear

    def told() -> list[str]:
        before, chain.told = chain.told, []
        return [
            words(one["params"]["update"]) if "params" in one else str(one["id"]) for one in before
        ]

    said = {s: agent.said(s, agent.sessions[s][0]) for s in ("S0", "S1")}
    chain.says("agent", said["S0"][0], said["S1"][0], said["S0"][1])
    assert told() == []
    chain.says("agent", agent.turn("S1", [])[0])
    assert told() == [f"> {DATE}", "ok"], "something else has come before the rest"
    chain.says("agent", said["S1"][1])
    chain.says("agent", result(3, {}))
    assert told() == ["> two", "l1"]
    chain.says("agent", {"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": "no"}})
    assert told() == ["> one", "l0"]
    chain.says("agent", *said["S0"])
    assert told() == [f"> {DATE}", "> one"], "nobody loads it any more"


@pytest.mark.parametrize("alone", [True, False])
def test_nothing_of_a_session_overtakes_words_that_wait_for_the_rest(alone: bool) -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    chain.prompts(session, "one")
    said, last = agent.turn(session, agent.sessions[session][0])[1:]
    agent.hear = lambda message: []  # type: ignore[method-assign]
    chain = Chain(agent, kept, alone=alone)
    named = {"sessionId": session, "cwd": "/", "mcpServers": []}
    for id_, method in (("a", "session/set_mode"), ("l", "session/load"), ("m", "session/load")):
        chain.says("client", request(id_, method, named))
    asks = request("q", "session/request_permission", {"sessionId": session})
    for other in (result(2, {}), notification("_x/note", {"sessionId": session}), asks, last):
        before_ = len(chain.told)
        chain.says("agent", said)
        assert len(chain.told) == before_
        chain.says("agent", other)
        assert [one.get("method") for one in chain.told[before_:][:1]] == ["session/update"]
        assert len(chain.told) == before_ + 2
    chain.says("agent", said, result(3, {}))
    assert [one.get("id") for one in chain.told[-2:]] == [None, "l"]


def test_a_request_that_has_been_answered_meanwhile_goes_nowhere() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept)
    load = request("l", "session/load", {"sessionId": "S0", "cwd": "/", "mcpServers": []})
    (recall,) = chain.router.receive("client", json.dumps(load).encode())
    assert isinstance(recall, Recall)
    assert (recall.peer, recall.session) == ("agent", "S0")
    chain.perform(chain.router.abandon(Closure("the end")))
    assert "the end" in str(chain.told[-1]["error"])
    assert chain.router.recalled(recall.token, []) == []


def test_of_a_prompt_with_odd_or_too_many_blocks_nothing_is_known() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    chain.prompts(session, *["one"] * 300)
    for edit in (nothing, instead("one")):
        chain.edit = edit
        chain.ask("session/prompt", {"sessionId": session, "prompt": [{"text": 5}]})
    assert len(kept) == 1  # it says that the session has begun
    chain.edit = nothing
    chain.prompts(session, " ")
    chain.prompts(session, *["one"] * 300)
    assert len(kept) == 2


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("join", [None, "\n"])
def test_what_an_agent_repeats_at_once(join: str | None, whole: bool) -> None:
    agent, kept = Agent(join, whole=whole), list[Record]()
    agent.echoes = True
    chain = Chain(agent, kept, before(DATE), version=2)
    session = new(chain)
    for one in ("hi", DATE):
        chain.told.clear()
        chain.prompts(session, one)
        assert words(chain.told[0]["params"]["update"]) == f"> {one}"
        chain.says("agent", agent.turn(session, [])[-1])
    chain.told.clear()
    chain.says("agent", *agent.said(session, [text(DATE)]))
    assert [words(one["params"]["update"]) for one in chain.told] == [f"> {DATE}"]


@pytest.mark.parametrize("edit", [before(DATE), nothing])
def test_an_entry_says_who_has_changed_what_an_agent_repeats(
    edit: Callable[[Blocks], Blocks],
) -> None:
    agent = Agent(None, whole=True)
    agent.echoes = True
    chain = Chain(agent, [], edit, version=2)
    chain.prompts(new(chain), "hi")
    (repeated,) = [one for one in chain.entries if b"user_message" in bytes(one.payload or b"")]
    assert (repeated.source, repeated.own) == ("g", edit is not nothing)
    assert DATE.encode() not in bytes(repeated.payload or b"")


# -- titles ----------------------------------------------------------------------------------------


def titles(chain: Chain) -> list[str | None]:
    """The titles of all sessions, as the client gets them."""
    return [one.get("title") for one in chain.ask("session/list", {})["sessions"]]


@pytest.mark.parametrize("cut", [1, 5, 13, 47, 48, 49, 60, 100, 0])
def test_a_title_has_the_users_words(cut: int) -> None:
    agent, kept = Agent(cut=cut), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    chain.prompts(session, f"{WORDS}\n\nHere it is: …")
    chain.prompts(session, "two")
    for process in (chain, Chain(agent, kept)):
        (title,) = titles(process)
        assert title is not None
        length = max(cut + 1, 40) if cut else 200
        whole = f"{WORDS} Here it is: …"
        assert title == (whole if len(whole) <= length else f"{title[:-1]}…")
        assert whole.startswith(title.removesuffix("…").rstrip())
        assert len(title) >= 38
        # So it is where the agent tells the title.
        process.load(session)
        told = {"sessionUpdate": "session_info_update", **agent.title(session), "updatedAt": "now"}
        process.says(
            "agent", notification("session/update", {"sessionId": session, "update": told})
        )
        assert process.told[-1]["params"]["update"] == {**told, "title": title}


@pytest.mark.parametrize(
    ("edit", "users", "title", "shown"),
    [
        (before(DATE), "Explain it", "The parser", "The parser"),
        (before(DATE), "<current", "<current…", "<current…"),
        (before(DATE), "hi", "…", "…"),
        (before(DATE), "hi", None, None),
        (before(DATE), "", f"{DATE[:9]}…", None),
        (behind(DATE), "Explain it", "Explain it", "Explain it"),
        (behind(DATE), "Explain it", f"Explain it {DATE}", "Explain it"),
        (nothing, DATE, f"{DATE[:9]}...", f"{DATE[:9]}..."),
        (before("x" * 300), "hi", "x" * 250, "hi"),
        (before(DATE), "hi", f"{DATE[:9]}...", "hi"),
    ],
)
def test_a_title_of_other_words_stays(
    edit: Callable[[Blocks], Blocks], users: str, title: str | None, shown: str | None
) -> None:
    agent, kept = Agent(), list[Record]()
    agent.title = lambda session: {"title": title} if title else {}  # type: ignore[method-assign]
    chain = Chain(agent, kept, edit)
    chain.prompts(new(chain), *([users] if users else []))
    assert titles(chain) == titles(Chain(agent, kept)) == [shown]


def test_a_title_may_be_of_the_first_prompt_or_of_the_last() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    session = new(chain)
    chain.prompts(session, "one")
    chain.edit = before("The time is 12.")
    for users in ("two", *map(str, range(40)), "three"):
        chain.prompts(session, users)
    chain.edit = nothing
    chain.prompts(session, "four")
    for title, shown in ((DATE[:20], "one"), ("The time is…", "three"), ("four", "four")):
        agent.title = lambda _, title=title: {"title": title}  # type: ignore[method-assign, misc]
        assert titles(chain) == titles(Chain(agent, kept)) == [shown]


def test_long_texts_that_repeat_themselves_are_compared_in_little_time() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, instead("a" * 400_000, "b"))
    chain.prompts(new(chain), "a" * 100_000 + "b" + "a" * 100_000)  # some seconds by `rfind`
    chain = Chain(agent, kept)
    assert [len(said) for said in chain.load()] == [400_002, 2]


@pytest.mark.parametrize("first", [[], [" "]])
def test_an_id_that_is_used_again_is_of_another_session(first: list[str]) -> None:
    agent, kept = Agent(cut=9), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    chain.prompts(new(chain), "one")
    agent.sessions.clear()
    chain = Chain(agent, kept)
    new(chain)
    if first:
        chain.prompts("S0", *first)
    chain.prompts("S0", DATE, "one")
    again = Chain(agent, kept)
    assert again.load()[-3:] == [f"> {DATE}", "> one", "ok"]
    assert titles(again) == [" " if first else f"{DATE[:9]}…"]


def test_a_copy_of_a_session_has_what_was_kept() -> None:
    agent, kept = Agent(cut=9), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    chain.prompts(new(chain), "one")
    chain.prompts("S0", "two")
    copy = Chain(agent, kept).ask("session/fork", {"sessionId": "S0", "cwd": "/", "mcpServers": []})
    assert copy == {"sessionId": "S1"}
    again = Chain(agent, kept)
    assert again.load("S1") == again.load("S0") == ["> one", "ok", "> two", "ok"]
    assert titles(again) == ["one", "one"]
    assert again.ask("session/fork", {"cwd": "/", "mcpServers": []}) is not None


def test_lists_and_updates_that_are_none() -> None:
    agent, kept = Agent(), list[Record]()
    chain = Chain(agent, kept, before(DATE))
    chain.prompts(new(chain), "one")
    answers: list[Any] = [{}, [], {"sessions": 5}, {"sessions": [5, {"title": 5}]}]
    for answer in answers:
        agent.hear = lambda message, a=answer: [result(message["id"], a)]  # type: ignore[method-assign, misc]
        assert chain.ask("session/list", {}) == answer
    agent.hear = lambda message: [  # type: ignore[method-assign]
        {"jsonrpc": "2.0", "id": message["id"], "error": {"code": 1, "message": "no"}}
    ]
    assert chain.ask("session/list", {}) is None
    assert chain.ask("session/new", {"cwd": "/", "mcpServers": []}) is None
    assert chain.ask("session/fork", {"sessionId": "S0", "cwd": "/", "mcpServers": []}) is None
    chain.told.clear()
    for params in (None, {"sessionId": "S0"}, {"sessionId": "S0", "update": {}}):
        said = {"jsonrpc": "2.0", "method": "session/update"}
        chain.says("agent", said if params is None else {**said, "params": params})
    assert len(chain.told) == 3
