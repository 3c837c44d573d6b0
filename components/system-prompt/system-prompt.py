"""Puts the agent into a role: by a mode of its own, or by words in front of the first prompt.

conductor agent 'system-prompt,config.prompt="You are a reviewer. Change nothing."' claude-agent-acp
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from guest_sdk.python import Proxy, ProxyError, Request

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")
DEFAULT = "default"
"""The id of the mode in which none of ours holds, where the agent has no modes."""
NO_LONGER = "From now on the instructions of the last mode do not hold."

OPTIONS_ONLY = 2
"""The version of ACP whose clients look for modes among options, so that ours are not shown."""


@dataclass
class Mode:
    """A mode of ours: `prompt` is what the agent is told when the user switches to it."""

    prompt: str
    name: str = ""
    description: str = ""


@dataclass
class Config:
    """The settings; what each means is in README.md."""

    prompt: str = ""
    mode: str = ""
    modes: dict[str, Mode] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if DEFAULT in self.modes:
            raise ValueError(f"`{DEFAULT}` is the mode without instructions; name yours otherwise")


@dataclass
class State:
    """What is kept of a session. `pending`: what the next prompt shall say."""

    pending: list[str] = field(default_factory=list)
    mode: str = DEFAULT
    ours: list[str] = field(default_factory=list)
    """The ids of the modes that the client was offered beside the agent's."""


proxy = Proxy(
    "system-prompt",
    profile="context",
    description="Puts the agent into a role: by its mode, or by words before the first prompt.",
    config=Config,
    session=State,
)


agreed = 1
"""The version of ACP that the client and the agent speak."""


@proxy.request("initialize")
async def initialized(request: Request, following: Any) -> Any:
    global agreed  # noqa: PLW0603 - a fact about the chain
    result = await following(request)
    if isinstance(result, dict) and result.get("protocolVersion") == OPTIONS_ONLY:
        agreed = OPTIONS_ONLY
    return result


@proxy.request(*SETUPS)
async def set_up(request: Request, following: Any) -> Any:
    result = await following(request)
    session = getattr(request, "session", None)
    if session is None:
        return result
    state = session.state = State()
    config, fresh = proxy.config, request.method == "session/new"
    if fresh and config.prompt:
        state.pending.append(config.prompt)
    if fresh and config.mode in config.modes:
        state.mode = config.mode
        state.pending.append(config.modes[config.mode].prompt)
    found = list(agent_modes(result))
    shown = config.modes and request.method != "session/fork" and agreed != OPTIONS_ONLY
    if shown and isinstance(result, dict):
        offer(result, state, alone=not found)
    if fresh and config.mode and config.mode not in config.modes:
        await switch(session.id, found)
    session.keep()
    return result


@proxy.request("session/set_mode")
async def set_mode(request: Request, following: Any) -> Any:
    session, mode = getattr(request, "session", None), str(request.params.get("modeId"))
    state = session.state if session is not None else State()
    if state.ours and DEFAULT in state.ours and mode not in state.ours:
        raise ProxyError(f"there is no mode `{mode}`", -32602)
    result = {} if mode in state.ours else await following(request)
    now = mode if mode in state.ours else DEFAULT
    if now != state.mode:
        told = proxy.config.modes.get(now)
        state.mode = now
        state.pending.append(told.prompt if told else NO_LONGER)
        session.keep()
    return result


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    session, blocks = getattr(request, "session", None), request.params.get("prompt")
    pending = session.state.pending if session is not None else []
    if pending and isinstance(blocks, list) and not request.is_command:
        request.preface(*pending)
        pending.clear()
        request.session.keep()
    return await following(request)


# -- the agent's own modes ---------------------------------------------------------------------


@dataclass
class Offered:
    """A mode the agent has, and the places in its answer that say which one is on."""

    id: str
    name: str
    held: dict[str, Any]
    key: str
    option: Any = None
    """The id of the configuration option that it is a value of; None: it is a mode proper."""


def agent_modes(result: Any) -> Iterator[Offered]:
    """The modes an agent tells of in its answer to a setup."""
    result = result if isinstance(result, dict) else {}
    modes = result.get("modes")
    if isinstance(modes, dict):
        for one in listed(modes.get("availableModes")):
            yield Offered(str(one.get("id")), str(one.get("name")), modes, "currentModeId")
    for option in listed(result.get("configOptions")):
        if option.get("category") != "mode" or option.get("type") != "select":
            continue
        known_as = option.get("configId", option.get("id"))
        for one in listed(option.get("options")):
            for value in listed(one.get("options")) or [one]:  # in groups, or not
                id_, name = str(value.get("value")), str(value.get("name"))
                yield Offered(id_, name, option, "currentValue", known_as)


def listed(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


async def switch(session: str, found: list[Offered]) -> None:
    """Switches the agent to the mode of the settings."""
    wanted = proxy.config.mode
    fits = [one for one in found if one.id == wanted]
    fits = fits or [one for one in found if one.name.casefold() == wanted.casefold()]
    if not fits:
        has = ", ".join(dict.fromkeys(one.id for one in found)) or "none"
        proxy.log.warn(f"the agent has no mode `{wanted}`; it has: {has}")
        return
    proper = [one for one in fits if one.option is None]
    one = (proper or fits)[0]
    if one.held.get(one.key) == one.id:
        return
    try:
        if one.option is None:
            await proxy.ask_agent("session/set_mode", sessionId=session, modeId=one.id)
        else:
            params = {"sessionId": session, "configId": one.option, "type": "id", "value": one.id}
            await proxy.ask_agent("session/set_config_option", **params)
    except ProxyError as error:
        hint = "\nhint: `,profile=trusted` lets it" if guarded(error) else ""
        proxy.log.warn(f"the agent is not switched to `{one.id}`: {error.message}{hint}")
        return
    for other in fits:  # as the agent would say it now
        other.held[other.key] = other.id


def guarded(error: ProxyError) -> bool:
    """Whether it is the conductor that refuses to let the agent's own modes be switched."""
    return isinstance(error.data, dict) and error.data.get("rule") == "session-mode"


def offer(result: dict[str, Any], state: State, *, alone: bool) -> None:
    """Adds our modes to those an agent tells of in its answer to a setup; if it has none, they are
    `alone`."""
    modes: list[dict[str, Any]] = [{"id": DEFAULT, "name": "Default"}] if alone else []
    for id_, one in proxy.config.modes.items():
        more = {"description": one.description} if one.description else {}
        modes.append({"id": id_, "name": one.name or id_.capitalize(), **more})
    told = result.get("modes")
    if alone:
        result["modes"] = {"currentModeId": state.mode, "availableModes": modes}
    elif isinstance(told, dict) and isinstance(told.get("availableModes"), list):
        theirs = {one.get("id") for one in listed(told["availableModes"])}
        modes = [one for one in modes if one["id"] not in theirs]
        told["availableModes"] += modes
    else:  # an option: it is the agent's
        return
    state.ours = [one["id"] for one in modes]


if __name__ == "__main__":
    proxy.run()
