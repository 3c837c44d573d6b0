"""Puts the agent into a role: by its mode, or by words in front of a prompt.

conductor agent 'system-prompt,config.prompt="You are a reviewer. Change nothing."' claude-agent-acp
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from guest_sdk.python import Proxy, ProxyError, Request, Update

SETUPS = ("session/new", "session/load", "session/resume", "session/fork")
OPTION = "role"
"""The id of our option."""
NONE = "none"
"""The value of the option while no role holds."""
NO_LONGER = "From now on the instructions of the last role do not hold."


@dataclass
class Role:
    """A role of ours: `prompt` is the text for the agent when the user chooses the role."""

    prompt: str
    name: str = ""
    description: str = ""


@dataclass
class Config:
    """The settings; README.md explains each."""

    prompt: str = ""
    mode: str = ""
    roles: dict[str, Role] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if NONE in self.roles:
            raise ValueError(f"`{NONE}` is no role; name yours otherwise")


@dataclass
class State:
    """The state of a session. `pending`: texts for the next prompt."""

    pending: list[str] = field(default_factory=list)
    role: str = NONE
    offered: list[str] = field(default_factory=list)
    """The ids of the roles that the client is offered."""
    theirs: list[Any] = field(default_factory=list)
    """The options of others, as they were last listed."""


proxy = Proxy(
    "system-prompt",
    description="Puts the agent into a role: by its mode, or by words before a prompt.",
    config=Config,
    session=State,
)


agreed = 1
"""The version of ACP that the client and the agent speak."""


@proxy.request("initialize")
async def initialized(request: Request, following: Any) -> Any:
    global agreed  # noqa: PLW0603 - a fact about the chain
    result = await following(request)
    if isinstance(result, dict) and result.get("protocolVersion") == 2:
        agreed = 2
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
    if fresh and config.mode in config.roles:
        state.role = config.mode
        state.pending.append(config.roles[config.mode].prompt)
    found = list(agent_modes(result))
    if fresh and config.mode and config.mode not in config.roles:
        await switch(session.id, found)
    if config.roles and request.method != "session/fork" and isinstance(result, dict):
        offer(result, state, found)
    session.keep()
    return result


@proxy.request("session/set_config_option")
async def choose(request: Request, following: Any) -> Any:
    session = getattr(request, "session", None)
    if session is None or not session.state.offered:
        return await following(request)
    state: State = session.state
    if request.params.get("configId") != OPTION:
        result = await following(request)
        if isinstance(result, dict):
            list_beside(result, state)
            session.keep()
        return result
    role = request.params.get("value")
    if role not in (NONE, *state.offered):
        raise ProxyError(f"there is no role `{role}`", -32602)
    if role != state.role:
        told = proxy.config.roles.get(role)
        state.role = role
        state.pending.append(told.prompt if told else NO_LONGER)
        session.keep()
    return {"configOptions": [*state.theirs, option(state)]}


@proxy.update("config_option_update")
def listed_anew(update: Update) -> None:
    session = getattr(update, "session", None)
    if session is not None and session.state.offered:
        list_beside(update.update, session.state)
        session.keep()


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
        proxy.log.warn(f"the agent is not switched to `{one.id}`: {error.message}")
        return
    for other in fits:  # as the agent would say it now
        other.held[other.key] = other.id


# -- the roles ---------------------------------------------------------------------------------


def offer(result: dict[str, Any], state: State, found: list[Offered]) -> None:
    """Adds our option to those that an agent lists in its answer to a setup."""
    theirs = {text.casefold() for one in found for text in (one.id, one.name)}
    for id_, one in proxy.config.roles.items():
        if theirs.isdisjoint((id_.casefold(), title(id_, one).casefold())):
            state.offered.append(id_)
        else:
            proxy.log.warn(f"the role `{id_}` is not offered: a mode of the agent's is called so")
    known = {one.get("configId", one.get("id")) for one in listed(result.get("configOptions"))}
    if OPTION in known:
        proxy.log.warn(f"no role is offered: the agent has an option `{OPTION}` itself")
        state.offered.clear()
    if state.offered:
        list_beside(result, state)


def list_beside(listing: dict[str, Any], state: State) -> None:
    """Puts our option behind those of others."""
    theirs = listing.get("configOptions")
    if isinstance(theirs, list) or theirs is None:
        state.theirs = theirs or []
        listing["configOptions"] = [*state.theirs, option(state)]


def option(state: State) -> dict[str, Any]:
    """Our option, as clients see it."""
    values: list[dict[str, Any]] = [{"value": NONE, "name": "None"}]
    for id_ in state.offered:
        one = proxy.config.roles[id_]
        more = {"description": one.description} if one.description else {}
        values.append({"value": id_, "name": title(id_, one), **more})
    named = {"configId" if agreed == 2 else "id": OPTION, "name": "Role", "type": "select"}
    return {**named, "currentValue": state.role, "options": values}


def title(id_: str, role: Role) -> str:
    """The name of a role."""
    return role.name or id_.capitalize()


if __name__ == "__main__":
    proxy.run()
