"""A hostile proxy in the middle of a chain, as a guest and as a program of every dialect.

It tries everything in `attacks.ATTACKS`, one after the other, in a session of its own. None of it
may show: the agent gets what the client said and the client what the agent said, to the byte and in
order, while a neighbour's turn streams by and another hangs. What the proxy broke is on record, in
order, and it was told the rule.
"""

import json
from collections import Counter
from functools import partial
from typing import Final, NamedTuple

import pytest

from tests.e2e.attacks import ARRAY, ATTACKS, FOR_A_CHUNK, KEY, NO, OWN, SETUPS, UPDATES, Attack
from tests.harness.process.client import Json
from tests.harness.process.rig import Rig, member
from tests.places import ACTORS

GUEST: Final = (ACTORS / "evil_guest.wat").read_text(encoding="utf-8")
COUNT, SIZE = 400, 300
"""Updates of the healthy traffic, and bytes in each."""

REFUSED: Final = {"outcome": {"outcome": "selected", "optionId": NO["optionId"]}}
HELLOS: Final[dict[str, Json]] = {
    "v1": {},
    "v2": {"protocolVersion": 2, "info": {"name": "rig", "version": "1"}, "capabilities": {}},
}
ANSWERS: Final[dict[str, Json]] = {
    "session/request_permission": REFUSED,
    "fs/read_text_file": {"content": "of the user"},
    "fs/write_text_file": {},
    "terminal/create": {"terminalId": "t1"},
    "elicitation/create": {"action": "decline"},
    "mcp/message": {"of": "the client"},
    "_scp/mcp": {"of": "the client"},
    "_zed/open_url": {"of": "the client"},
}
"""The client's answers to the agent's requests."""


class Carrier(NamedTuple):
    """How the attacker comes into the chain, and what it may do there."""

    dialect: str
    rights: str
    version: str = "v1"
    granted: tuple[str, ...] = ()

    def component(self, rig: Rig, **more: str) -> str:
        """The carrier on the command line. A program keeps ids where it may prompt by itself."""
        rights = [self.rights, *self.granted]
        if self.rights == "full" and not any(one.startswith("extension:") for one in rights):
            rights += ["extension:_evil/told", "extension:_evil/ask"]
        held = {"only": "+".join(rights), **more}
        if self.dialect == "guest":
            wat = GUEST.replace("TELLS", str(int(self.rights == "full")))
            options = [f"{name}={value}" for name, value in held.items()]
            return ",".join([rig.module("evil", wat), "name=evil", *options])
        flags = ["--dialect", self.dialect, "--log", str(rig.folder / "evil")]
        if self.rights == "full":
            flags.append("--keep-ids")
            held["ids"] = "kept"
        evil = json.loads(rig.actor("evil_proxy", *flags, name="evil"))
        return json.dumps({**evil, "dialect": self.dialect, **held})

    def sees(self, attack: Attack) -> bool:
        """Whether the component is given the message that sets an attack off, or a copy of it."""
        if self.rights == "context":
            return attack.by == "client" and attack.method in _CONTEXT
        return attack.kind != "unseen"

    def may(self, attack: Attack) -> bool:
        """Whether the component may do such a thing at all, within the guards."""
        if attack.needs:
            return attack.needs in (one.partition(":")[0] for one in self._all())
        own = attack.kind == "made up"
        return self.rights == "full" or (self.rights == "context" and not own)

    @property
    def guesses(self) -> bool:
        """Whether what it passes on is found out by fixed rules: it is a program of its own ids."""
        return self.dialect != "guest" and self.rights != "full"

    def _all(self) -> tuple[str, ...]:
        return (*self.granted, *["extension"] * (self.rights == "full"))


_CONTEXT: Final = (*SETUPS, "session/prompt")
GRANTED: Final = ("refuse:permissions", "change:tool-calls")

CARRIERS: Final = (
    *(Carrier("guest", rights) for rights in ("full", "context", "observer")),
    *(Carrier("acp", rights) for rights in ("full", "context", "observer")),
    *(Carrier(dialect, "full") for dialect in ("sdk", "sacp", "pacp")),
    *(Carrier(dialect, "full", granted=GRANTED) for dialect in ("guest", "acp")),
    *(Carrier(dialect, "full", "v2") for dialect in ("guest", "acp")),
    *(Carrier(dialect, "context", "v2") for dialect in ("guest", "acp")),
)


def expected(attack: Attack, carrier: Carrier) -> tuple[tuple[str, ...], int]:
    """The rules an attack breaks, and how many errors the proxy is told.

    What it may not do at all breaks `rights`: sending of its own, or changing what it got a copy
    of. Its answer to a copy is ignored, and what it does not see it can do nothing to.
    """
    if not carrier.sees(attack):
        return (), 0
    if carrier.guesses and attack.name in _GUESSED:
        return _GUESSED[attack.name], 1
    if carrier.may(attack):
        return attack.rules, attack.refused
    if attack.kind == "made up" or (attack.kind == "changed" and attack.method != "initialize"):
        return ("rights",) * len(attack.rules), attack.refused
    return (), 0


_GUESSED: Final = {
    **{
        one.name: ("commands", "rights", "rights")
        for one in ATTACKS
        if one.name.startswith(OWN) and "another's" not in one.name
    },
    "another session": ("rights", "rights"),
}
"""Of a program whose ids say nothing, a prompt of its own in the session of one that it holds is
taken for that one, changed; its own answer to that then comes too early, or too late. In another
session it is refused, and the program answers the one it holds with the error."""


def attacks(carrier: Carrier) -> list[Attack]:
    """The attacks to be made by a carrier.

    An observer's update is taken for a copy that comes back, so whether one that is made up is a
    violation depends on how many copies are under way; so do those of states in ACP v2. There
    nobody's arrays are served, and nobody may initialize again. Who may answer for permissions may
    drop them too.
    """
    left_out = [f"{FOR_A_CHUNK}state_update", ARRAY] if carrier.version == "v2" else []
    if carrier.rights == "observer":
        left_out += [UPDATES, OWN, FOR_A_CHUNK]
    if carrier.granted:
        left_out.append("session/request_permission, dropped")
    return [
        one
        for one in ATTACKS
        if not one.name.startswith(tuple(left_out))
        and (one.method != "initialize" or carrier.version == "v1")
    ]


class Play:
    """A chain under attack, and the client's words in it."""

    def __init__(self, rig: Rig, carrier: Carrier, *options: str, **more: str) -> None:
        self.rig, self.carrier = rig, carrier
        evil = carrier.component(rig, **more)
        self.record = rig.folder / "audit"
        options = ("--audit", str(self.record), *options)
        self.chain = rig.agent("passthrough", evil, "passthrough", rig.demo(), options=options)
        self.said: list[tuple[str, bytes]] = []
        self.answered: list[bytes] = []
        for method, answer in ANSWERS.items():
            self.chain.serves[method] = partial(self._serve, answer)
        self.chain.initialize(**HELLOS[carrier.version])
        self.session, self.neighbour, self.hung = (self.begin() for _ in range(3))
        self.hang = self.prompt(self.hung, "/hang")
        self.stream = self.prompt(self.neighbour, f"/stream {COUNT} {SIZE}")

    def begin(self) -> str:
        """A new session."""
        answer = self.chain.answer(self.ask("session/new", {"cwd": "/project", "mcpServers": []}))
        return str(answer["result"]["sessionId"])

    def ask(self, method: str, params: Json) -> int:
        """Sends a request and remembers it."""
        self.said.append((method, _raw(params)))
        return int(self.chain.start(method, params))

    def prompt(self, session: str, text: str) -> int:
        """Sends a prompt."""
        blocks = [{"type": "text", "text": text}]
        return self.ask("session/prompt", {"sessionId": session, "prompt": blocks})

    def _serve(self, answer: Json, params: Json) -> Json:
        self.answered.append(_raw(answer))
        return answer

    def attack(self, attack: Attack) -> None:
        """Has the proxy try something, and the request that set it off answered."""
        order = {"_meta": {KEY: attack.order(self.session, self.hung)}}
        params = json.loads(json.dumps(attack.params).replace("$S", self.session))
        if attack.by == "answer":
            answer = {**ANSWERS[attack.method], **order}
            self.chain.serves[attack.method] = partial(self._serve, answer)
        else:
            params |= order
        idle = self.idle(self.session)
        if attack.by == "client":
            asked = self.ask(attack.method, params)
        else:
            directive = "/notify" if attack.by == "told" else "/ext"
            asked = self.prompt(self.session, f"{directive} {attack.method} {json.dumps(params)}")
        self.chain.answer(asked)
        if attack.method == "session/prompt" or attack.by != "client":
            self.ended(idle)
        if attack.by == "answer":
            self.chain.serves[attack.method] = partial(self._serve, ANSWERS[attack.method])

    def neighbours(self) -> None:
        """The neighbours' turns are complete, and end when they end."""
        chain, second = self.chain, self.carrier.version == "v2"
        assert "result" in chain.answer(self.stream)
        chain.until(lambda: not second or self.idle(self.neighbour), "the end of the stream")
        texts = [text for text in chain.texts(self.neighbour) if text]
        assert [int(text[:8]) for text in texts] == list(range(COUNT))
        assert second or chain.answers(self.hang) == []
        assert self.idle(self.hung) == 0
        chain.notify("session/cancel", {"sessionId": self.hung})
        self.said.append(("session/cancel", _raw({"sessionId": self.hung})))
        assert second or chain.answer(self.hang)["result"] == {"stopReason": "cancelled"}
        chain.until(lambda: not second or self.idle(self.hung), "the end of the turn")

    def ended(self, idle: int) -> None:
        """Waits for the end of a turn, which in v2 comes after the prompt's answer."""
        if self.carrier.version == "v2":
            self.chain.until(lambda: self.idle(self.session) > idle, "the end of the turn")

    def idle(self, session: str) -> int:
        """How often a session was said to be idle, as it is in v2 after each turn."""
        updates = [one["params"] for one in self.chain.seen("session/update")]
        states = [one["update"].get("state") for one in updates if one["sessionId"] == session]
        return states.count("idle")

    def violations(self) -> list[str]:
        """The rules on record, once the chain has ended."""
        found = [json.loads(line) for line in self.record.read_text().splitlines()]
        broken = [one for one in found if one["event"] == "violation"]
        assert {one["component"] for one in broken} <= {"evil"}
        return [one["rule"] for one in broken]

    def told(self) -> list[str]:
        """The rules that errors named to the proxy."""
        if self.carrier.dialect == "guest":
            frames = [one["params"]["error"] for one in self.chain.seen("_evil/told")]
        else:
            frames = [one.frame for one in self.rig.log("evil", "in") if b'"rule":"' in one.raw]
        flat = [each for one in frames for each in (one if isinstance(one, list) else [one])]
        return [one["error"]["data"]["rule"] for one in flat]


def _raw(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


_LATE: Final = {"identity": ("identity", "rights", "agent-state"), "rights": ("rights", "identity")}
"""Further rules that a program's answer may break: it comes too early, or after the agent's
answer."""


def _surely_violations(play: Play, tried: list[Attack]) -> int:
    """How many attacks of an observer are violations, whenever its copies come. What it makes up
    may be taken for a copy that comes back, if there are messages of that method."""
    carried = {method for method, _ in play.said} | ANSWERS.keys()
    made_up = [one for one in tried if one.name.startswith(("up: ", "down: "))]
    sure = [one for one in made_up if one.name.split()[1] not in carried]
    assert len(sure) > 10
    return sum(len(expected(one, play.carrier)[0]) for one in sure)


@pytest.mark.proves("over a hundred attacks in one", "conductor answers a component's", "chain")
@pytest.mark.parametrize("carrier", CARRIERS, ids=lambda one: "-".join([*one[:3], *one.granted]))
def test_no_attack_comes_through(rig: Rig, carrier: Carrier) -> None:
    play = Play(rig, carrier)
    tried = attacks(carrier)
    for attack in tried:
        play.attack(attack)
    # The session goes on, and so do those of others.
    chain = play.chain
    idle = play.idle(play.session)
    assert "result" in chain.answer(play.prompt(play.session, "/echo at last"))
    play.ended(idle)
    assert [text for text in chain.texts(play.session) if text][-1] == "at last"
    play.neighbours()
    assert chain.finish() == 0
    _nobody_noticed(play)
    wanted = [expected(attack, carrier) for attack in tried]
    rules = [rule for broken, _ in wanted for rule in broken]
    if carrier.rights == "observer":
        assert {*play.violations()} == {"rights"}
        assert len(play.violations()) >= _surely_violations(play, tried)
    else:
        late = {} if carrier.dialect == "guest" else _LATE
        broken = play.violations()
        pairs = zip(broken, rules, strict=False)
        assert [one for one in pairs if one[0] not in late.get(one[1], one[1:])] == []
        assert len(broken) == len(rules)
    if carrier.dialect != "guest" or carrier.rights == "full":  # others cannot say what they heard
        told, most = len(play.told()), sum(count for _, count in wanted)
        assert told <= most if carrier.rights == "observer" else told == most
    assert rig.leftovers(chain) == []


def _nobody_noticed(play: Play) -> None:
    """Client and agent have heard each other as if nobody stood between them."""
    heard, said = play.rig.log("A", "in"), play.rig.log("A", "out")
    got = [(one.frame["method"], member(one.raw, "params")) for one in heard if _calls(one.raw)]
    hellos = [one for one in got if one[0] == "initialize"]
    assert [one for one in got if one[0] != "initialize"] == [
        one for one in play.said if one[0] != "initialize"
    ]
    assert all(b"evil" not in params for _, params in hellos)
    results = [member(one.raw, "result") for one in heard if not _calls(one.raw)]
    assert results == play.answered
    lines = [line for line in play.chain.lines if b'"_evil/told"' not in line]
    for session in (play.session, play.neighbour, play.hung):
        assert _updates(lines, session) == _updates([one.raw for one in said], session)
    assert _answers(lines) == _answers([one.raw for one in said])


def _calls(raw: bytes) -> bool:
    return "method" in json.loads(raw)


def _updates(lines: list[bytes], session: str) -> list[tuple[str, bytes]]:
    """The requests and notifications of a session."""
    named = b'"sessionId":"%b"' % session.encode()
    calls = [line for line in lines if named in line and _calls(line)]
    return [(json.loads(line)["method"], member(line, "params")) for line in calls]


def _answers(lines: list[bytes]) -> Counter[bytes]:
    """The answers, but those to `initialize`."""
    found: Counter[bytes] = Counter()
    for line in lines:
        frame = json.loads(line)
        if "method" not in frame and b"protocolVersion" not in line:
            found[member(line, "result" if "result" in frame else "error")] += 1
    return found


# -- what a violation leads to -------------------------------------------------------------------


def named(name: str) -> Attack:
    """The attack of this name in the table."""
    (found,) = [attack for attack in ATTACKS if attack.name == name]
    return found


@pytest.mark.proves("with `on_violation=fail` the")
@pytest.mark.parametrize("dialect", ["guest", "acp"])
@pytest.mark.parametrize("attack", ["session/new: a command", "up: terminal/create"])
def test_on_violation_fail_ends_the_component(rig: Rig, dialect: str, attack: str) -> None:
    """The component breaks a rule and is ended; with `on_failure=bypass` the session goes on
    without it."""
    carrier = Carrier(dialect, "full")
    play = Play(rig, carrier, on_violation="fail", on_failure="bypass")
    chain = play.chain
    assert "result" in chain.answer(play.stream)
    play.attack(named(attack))  # whatever was open is answered, once
    chain.until_stderr("the chain goes on without it")
    for each in ATTACKS[:3]:
        play.attack(each)
    assert chain.prompt(play.session, "/echo on") == "on"
    chain.notify("session/cancel", {"sessionId": play.hung})  # what it passed on goes on without it
    assert chain.answer(play.hang)["result"] == {"stopReason": "cancelled"}
    methods = rig.methods("A")
    assert methods.count("initialize") == 1
    assert b"evil" not in b"".join(one.raw for one in rig.log("A", "in") if b"@@p" not in one.raw)
    assert chain.finish() == 0
    assert play.violations() == list(named(attack).rules)
    assert rig.leftovers(chain) == []


@pytest.mark.proves("with `on_failure=fail` the chain")
@pytest.mark.parametrize("dialect", ["guest", "acp"])
def test_on_violation_fail_ends_the_chain_if_so_wished(rig: Rig, dialect: str) -> None:
    play = Play(rig, Carrier(dialect, "full"), on_violation="fail", on_failure="fail")
    chain = play.chain
    assert "result" in chain.answer(play.stream)
    attack = named("session/new: a command")
    play.attack(attack)
    error = chain.answer(play.hang)["error"]
    assert "proxy `evil`" in error["message"]
    assert "an MCP server may not be added" in error["message"]
    assert "hint: it broke the rule `mcp-servers`" in error["message"]
    assert error["data"]["component"] == "evil"
    assert chain.exit_code() == 1
    assert chain.stderr.count("error: ") == 1
    assert play.violations() == ["mcp-servers"]
    assert rig.leftovers(chain) == []
