"""Gives the agent a tool for each skill of A2A agents.

conductor agent 'a2a,config.agents={"weather": "https://weather.example"},\
allow=web:weather.example+web:POST@weather.example' claude-agent-acp
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import answers
import cards

from guest_sdk.python import (
    Call,
    Cancelled,
    Next,
    Proxy,
    ProxyError,
    Refused,
    Request,
    ToolError,
    gather,
    read_json,
)

LARGEST = 1024 * 1024
"""Bytes of an answer."""
MESSAGE = 100_000
"""Characters of a message."""
CARD_SECONDS = 10.0
"""The time for the fetch of a card: the set-up of a session waits for the card."""
NAME = re.compile(r"[A-Za-z0-9-]{1,32}")
POLL, LONGEST_POLL = 0.1, 10.0
"""Seconds before a task is asked for again: at first, and at most."""


@dataclass
class Config:
    """The settings; README.md explains each."""

    agents: dict[str, str] = field(default_factory=dict)
    endpoints: dict[str, str] = field(default_factory=dict)
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: float = 600
    patience: float = 60
    longest: int = 100_000

    def __post_init__(self) -> None:
        for name, url in self.agents.items():
            if not NAME.fullmatch(name):
                raise ValueError(f"`agents`: `{name}` is no name of letters, digits and `-`")
            try:
                cards.origin(url)
            except cards.CardError as error:
                raise ValueError(f"`agents`: {error}") from None
        for setting in ("endpoints", "headers"):
            for name in getattr(self, setting):
                if name not in self.agents:
                    raise ValueError(f"`{setting}` names `{name}`, and `agents` does not")
        if self.seconds <= 0 or not 0 < self.patience <= 60 or self.longest < 1:
            raise ValueError("`seconds` and `longest` are positive, `patience` is up to 60")


@dataclass
class Talks:
    """The state of a session: by agent, the context and the task that go on."""

    going: dict[str, list[str]] = field(default_factory=dict)


proxy = Proxy(
    "a2a",
    description="Other agents, reached by A2A. What they answer is said by strangers.",
    config=Config,
    session=Talks,
)
known: dict[str, cards.Card] = {}
places: dict[str, str] = {}
"""Where the cards of the known ones came from."""
wrong: dict[str, str] = {}
"""Why an agent has no tools."""


# -- cards -----------------------------------------------------------------------------------------


@proxy.on_start
async def started() -> None:
    """After a restart, and with other settings, the sessions that are open get their tools anew."""
    for name in [one for one in known if proxy.config.agents.get(one) != places[one]]:
        for skill in known.pop(name).skills:
            del proxy.tools[f"{name}_{skill.tool}"]
    if proxy.kept("used"):
        await learn_all()
        proxy.list_changed("tools")


@proxy.request("session/new", "session/load", "session/resume", "session/fork")
async def set_up(request: Request, following: Next) -> Any:
    """The tools are there before the agent looks for them."""
    await learn_all()
    proxy.keep("used", True)
    return await following(request)


async def learn_all() -> None:
    await gather(*(learn(name) for name in proxy.config.agents if name not in known))


async def learn(name: str) -> None:
    """Reads the card of an agent, and makes tools of its skills."""
    url = cards.address(proxy.config.agents[name])
    try:
        body = await fetched(name, url, cards.LARGEST)
        card = cards.read(body, url, proxy.config.endpoints.get(name, ""))
    except (ProxyError, cards.CardError) as error:
        wrong[name] = str(error)
        proxy.log.warn(f"the A2A agent `{name}` has no tools: {error}")
        return
    if name in known:
        return  # another session was first
    known[name], places[name] = card, proxy.config.agents[name]
    wrong.pop(name, None)
    for why in card.refused:
        proxy.log.warn(f"the A2A agent `{name}`: {why}")
    for skill in card.skills:
        offer(name, skill)


def offer(name: str, skill: cards.Skill) -> None:
    """Makes a tool of a skill."""

    async def ask(message: str, call: Call, anew: bool = False) -> str:
        return await asked(name, skill.id, message, call, anew)

    about = (
        f"Asks the agent `{name}` ({known[name].name}), which knows nothing of this conversation "
        "but what you tell it. It remembers what you asked before; `anew` begins afresh. "
        f"It says of this skill: {skill.about or 'nothing'}"
    )
    proxy.tool(name=f"{name}_{skill.tool}", description=about)(ask)


@proxy.tool(annotations={"readOnlyHint": True})
async def agents() -> str:
    """The agents that can be asked, and why others cannot. Those are tried once more."""
    before, lines = len(known), []
    await learn_all()
    if len(known) > before:
        proxy.list_changed("tools")
    for name in proxy.config.agents:
        if name in known:
            skills = ", ".join(f"{name}_{one.tool}" for one in known[name].skills)
            lines.append(f"{name}: {known[name].name}; tools: {skills}")
            lines += [f"  not taken: {why}" for why in known[name].refused]
        else:
            lines.append(f"{name}: cannot be asked: {wrong[name]}")
    return "\n".join(lines) or "none: the user names them by the setting `agents`"


# -- calls -----------------------------------------------------------------------------------------


async def asked(name: str, skill: str, words: str, call: Call, anew: bool) -> str:
    """The answer of an agent to a message."""
    if not words.strip() or len(words) > MESSAGE:
        raise ToolError(f"a message has 1 to {MESSAGE:,} characters")
    going: dict[str, list[str]] = call.session.state.going if call.in_session else {}
    context, task = ["", ""] if anew else going.get(name, ["", ""])
    version = known[name].endpoint.version
    params = answers.message(version, words, await proxy.random.uuid(), skill, context, task)
    answer = await answered(name, "send", params)
    if answer.outcome == "works":
        answer = await finished(name, answer, call)
    going[name] = [answer.context, answer.task if answer.outcome == "asks" else ""]
    if call.in_session:
        call.session.keep("going")
    said = answer.said
    if len(said) > proxy.config.longest:
        said = f"{said[: proxy.config.longest]}\n(… {len(said)} characters)"
    if answer.outcome == "fails":
        raise ToolError(f"`{name}`: the task is {answer.state}: {said or 'it says no more'}")
    if answer.outcome == "asks":
        return f"`{name}` needs to know more; call again with the answer:\n{said}"
    return said or "(no words)"


async def finished(name: str, answer: answers.Answer, call: Call) -> answers.Answer:
    """The answer of a task, once it is over."""
    task, waited, wait = answer.task, 0.0, POLL
    if not task:
        raise ToolError(f"`{name}`: its task has no id")
    try:
        while answer.outcome == "works":
            if waited >= proxy.config.seconds:
                raise ToolError(f"`{name}`: not done within {proxy.config.seconds:g} seconds")
            await proxy.timer.sleep(min(wait, proxy.config.seconds - waited))
            waited, wait = waited + wait, min(wait * 1.5, LONGEST_POLL)
            call.progress(waited, message=f"{name}: {answer.state}")
            answer = await answered(name, "get", {"id": task})
    except (Cancelled, ToolError):
        proxy.start(stopped(name, task))
        raise
    return answer


async def stopped(name: str, task: str) -> None:
    """Has a task stopped that nobody waits for any more."""
    try:
        await answered(name, "cancel", {"id": task})
    except (ProxyError, ToolError) as error:
        proxy.log(f"the task of `{name}` goes on: {error}")


async def answered(name: str, method: str, params: dict[str, Any]) -> answers.Answer:
    """Sends a request to an agent's endpoint; the result is its answer. Raises `ToolError`."""
    place = known[name].endpoint
    sent = {"jsonrpc": "2.0", "id": 1, "method": answers.METHODS[place.version][method]}
    params |= {"tenant": place.tenant} if place.tenant else {}
    try:
        body = await fetched(name, place.url, LARGEST, {**sent, "params": params})
        held = read_json(body)
        if not isinstance(held, dict):
            raise answers.AnswerError("its answer is no JSON object")
        if "error" in held:
            error = held["error"] if isinstance(held["error"], dict) else {}
            said = cards.clean(str(error.get("message")), 500)
            raise answers.AnswerError(f"it answers with an error: {said}")
        return answers.read(held.get("result"))
    except ProxyError as error:
        raise ToolError(f"`{name}`: {error}") from None
    except answers.AnswerError as error:
        raise ToolError(f"`{name}`: {error}") from None
    except ValueError:
        raise ToolError(f"`{name}`: its answer is no JSON") from None


async def fetched(name: str, url: str, most: int, sent: Any = None) -> bytes:
    """The body of the answer of an agent's server; `sent`: the request to post. Raises
    `ProxyError`."""
    headers = {"Accept": "application/json", **proxy.config.headers.get(name, {})}
    more: dict[str, Any] = {}
    if sent is not None:
        headers |= {"Content-Type": "application/json"}
        version = known[name].endpoint.version
        headers |= {"A2A-Version": version} if version != "0.3" else {}
        more = {"method": "POST", "body": json.dumps(sent)}
    timeout = min(proxy.config.patience, CARD_SECONDS if sent is None else 60)
    try:
        response = await proxy.fetch(url, headers=headers, max_bytes=most, timeout=timeout, **more)
    except Refused as refused:
        raise ProxyError(refused.message) from None
    if response.url != url:
        raise ProxyError(f"it redirects to {cards.clean(response.url, 200)}, which is not followed")
    if response.truncated:
        raise ProxyError(f"its answer has more than {most:,} bytes")
    if response.status != 200:
        raise ProxyError(f"its server answers with status {response.status}")
    return response.body


if __name__ == "__main__":
    proxy.run()
