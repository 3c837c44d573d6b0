"""Whatever components and the user do: turns do not mix, nobody waits for ever, and a session does
not depend on another."""

import json
from collections import Counter, defaultdict
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import Closure, Send, Wake
from conductor.core.effects import Effects
from conductor.core.router import Router
from tests.harness.router.actors import dump
from tests.harness.router.policed import (
    DONE,
    PROMPT,
    Json,
    chain_of,
    guest,
    prompt,
    request,
    result,
    stop,
    update,
)

CLIENT: Final = "client"


class Op(NamedTuple):
    """Something that happens. A component does it, the client, or the agent (`answer`, `say`)."""

    what: str
    who: str
    session: str
    show: bool = False


def ops() -> st.SearchStrategy[Op]:
    """The steps, in two sessions."""
    who, session = st.sampled_from(("f", "g")), st.sampled_from("STT")
    kinds = ("begin", "begin", "end", "own", "own")
    theirs = st.builds(Op, st.sampled_from(kinds), who, session, st.booleans())
    users = st.builds(Op, st.sampled_from(("ask", "ask", "stop")), st.just(CLIENT), session)
    agents = st.builds(Op, st.sampled_from(("answer", "answer", "say")), st.just("agent"), session)
    rare = st.builds(Op, st.sampled_from(("gone", "late")), who, st.just(""))
    return theirs | theirs | users | agents | agents | rare


SCRIPTS: Final = st.lists(ops(), min_size=4, max_size=30)


class Play:
    """A chain in which the steps happen, and their results.

    `e` embodies: it holds the first prompts of a session for a turn of its own. `f` and `g` prompt
    at any time, in turns and without.
    """

    def __init__(self) -> None:
        free: Json = {"grants": "turns=unprompted"}
        embodies = guest("down:session/prompt:carry+amend", name="e", grants="turns=within")
        book = chain_of(embodies, guest(name="f", **free), guest(name="g", **free))
        self.router: Router = book.router
        self.wakes: list[int] = []
        self.asked: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.at_agent: dict[str, list[tuple[int, str]]] = defaultdict(list)
        """By session the prompts that the agent has not answered: the id, and who prompted."""
        self.excused: set[int] = set()
        """The prompts among them that others have waited for long enough."""
        self.turns: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.embodied: dict[str, list[Json]] = {}
        """The prompts that `e` holds, by session; it holds none later."""
        self.gone: set[str] = set()
        self.log: dict[str, list[str]] = defaultdict(list)
        """The messages that client and agent got, by session."""

    def to(self, name: str, line: bytes) -> None:
        """A peer sends a line."""
        self.took(self.router.receive(name, line))

    def took(self, effects: Effects) -> None:
        """Performs effects."""
        for effect in effects:
            if isinstance(effect, Wake):
                self.wakes.append(effect.token)
            elif isinstance(effect, Send):
                for line in effect.frame.splitlines():
                    self.got(effect.peer, line)

    def got(self, name: str, line: bytes) -> None:
        """A peer gets a line."""
        side, frame = ("", line) if name in (CLIENT, "agent") else (chr(line[0]), line[1:])
        message = json.loads(frame)
        params = message.get("params", {})
        if not side:
            self.log[params.get("sessionId") or ""].append(
                f"{name} {message.get('method')} {params}"
            )
        if "method" not in message:
            self.answered(name, side, message, frame)
        elif name == "agent" and message["method"] == PROMPT:
            self.prompted(message["id"], params)
        elif name == "e" and side == "p" and message["method"] == PROMPT:
            self.hold(message, params["sessionId"])

    def prompted(self, id_: int, params: Json) -> None:
        """The agent gets a prompt: nothing of anybody else's runs in its session."""
        session, who = params["sessionId"], params["prompt"][0]["text"].partition(":")[0]
        running = {one for open_, one in self.at_agent[session] if open_ not in self.excused}
        assert running <= {who}
        self.at_agent[session].append((id_, who))

    def answered(self, name: str, side: str, message: Json, frame: bytes) -> None:
        """A peer gets an answer."""
        key = f"{name}{side}{message['id']}"
        self.answers[key] += 1
        if name == CLIENT:
            self.log[str(message["id"]).partition(":")[0]].append(f"answer {message}")
        elif side == "c" and "result" in message and "turn" in message["result"]:
            session = str(message["id"]).partition(":")[0]
            self.turns[name, session].append(message["result"]["turn"])
            if name == "e":
                self.ask("e", "s", session)
        elif name == "e" and side == "s" and isinstance(message["id"], int):
            self.to("e", b"p" + frame)  # the answer to a prompt that it has passed on
        elif name == "e" and side == "s":
            session = str(message["id"]).partition(":")[0]
            self.end("e", session)
            held, self.embodied[session] = self.embodied[session], []
            for one in held:
                self.to("e", b"s" + dump(request(one["id"], PROMPT, one["params"])))

    def hold(self, message: Json, session: str) -> None:
        """`e` is given a prompt."""
        if session not in self.embodied:
            self.embodied[session] = [message]
            self.begin("e", session, show=False)
        elif held := self.embodied[session]:
            held.append(message)
        else:
            self.to("e", b"s" + dump(request(message["id"], PROMPT, message["params"])))

    def begin(self, who: str, session: str, *, show: bool) -> None:
        """A component begins a turn."""
        self.asked[f"{who}c{session}:{(number := self.number(session))}"] += 1
        call = {"sessionId": session, "show": show}
        self.to(who, b"c" + dump(request(f"{session}:{number}", "turn/begin", call)))

    def end(self, who: str, session: str) -> None:
        """A component ends a turn, if it has one."""
        if turns := self.turns[who, session]:
            call = {"jsonrpc": "2.0", "method": "turn/end", "params": {"turn": turns.pop()}}
            self.to(who, b"c" + dump(call))

    def ask(self, who: str, side: str, session: str) -> None:
        """Somebody prompts."""
        key = f"{session}:{self.number(session)}"
        self.asked[f"{who}{side}{key}"] += 1
        line = dump(request(key, PROMPT, prompt(f"{who}:{key}", session)))
        self.to(who, side.encode() + line)

    def number(self, session: str) -> int:
        """A number that is new in a session, and says nothing of others."""
        return sum(1 for key in self.asked if f"{session}:" in key)

    def answer(self, session: str) -> None:
        """The agent answers the oldest prompt of a session."""
        if self.at_agent[session]:
            id_, _ = self.at_agent[session].pop(0)
            self.to("agent", dump(result(id_, DONE)))

    def do(self, op: Op) -> None:
        """Does one step."""
        if op.who in self.gone:
            return
        match op.what:
            case "ask":
                self.ask(CLIENT, "", op.session)
            case "stop":
                self.to(CLIENT, dump(stop(op.session)))
            case "begin":
                self.begin(op.who, op.session, show=op.show)
            case "end":
                self.end(op.who, op.session)
            case "own":
                self.ask(op.who, "s", op.session)
            case "answer":
                self.answer(op.session)
            case "say":
                self.to("agent", dump(update("words", op.session)))
            case "gone":
                self.gone.add(op.who)
                self.took(self.router.bypassed(op.who, Closure("gone")))
            case "late":
                self.late()

    def late(self) -> None:
        """All time that anybody waits for is over."""
        while self.wakes:
            self.excused |= {id_ for open_ in self.at_agent.values() for id_, _ in open_}
            self.took(self.router.woken(self.wakes.pop(0)))

    def finish(self) -> None:
        """Whoever still has something to do does it."""
        while any(self.at_agent.values()) or any(self.turns.values()):
            for session in "ST":
                self.answer(session)
            for who, session in list(self.turns):
                if who in self.gone:
                    self.turns[who, session].clear()
                self.end(who, session)
        self.late()


def played(script: list[Op]) -> Play:
    """A play of a script, to its end."""
    play = Play()
    for op in script:
        play.do(op)
    play.finish()
    return play


@pytest.mark.proves("turns of several components do")
@settings(max_examples=100)
@given(SCRIPTS)
def test_turns_do_not_mix_and_everything_is_answered_once(script: list[Op]) -> None:
    play = played(script)
    for key in play.asked:
        if key[0] not in play.gone:
            assert play.answers[key] == 1, key
    for session in "ST":  # nobody is left who holds it up
        play.ask(CLIENT, "", session)
        play.finish()
    assert play.router.pending() == 0


@pytest.mark.proves("turns in one session change nothing")
@settings(max_examples=60)
@given(SCRIPTS)
def test_a_session_does_not_depend_on_another(script: list[Op]) -> None:
    alone = played([op for op in script if op.session in ("S", "")])
    assert played(script).log["S"] == alone.log["S"]
