"""A2A agent cards: a stranger's words about itself, taken only as far as they make sense."""

import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from guest_sdk.python import read_json

LARGEST = 256 * 1024
"""Bytes of a card."""
WHERE = "/.well-known/agent-card.json"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The names that a tool may have."""
BETWEEN = re.compile(r"[ ./:]")
"""Characters of a skill's id that become `_` in the name of its tool."""
SKILLS = 64
LONGEST = 2000
"""Characters of a description that are shown to the agent."""
BINDING = "JSONRPC"


class CardError(Exception):
    """A card that is not taken; says why."""


class Skill(NamedTuple):
    """A skill of an agent. `tool`: its id as a tool's name has it. `about`: its description by the
    card."""

    id: str
    tool: str
    about: str


class Interface(NamedTuple):
    """The address of an agent. `version`: of the protocol, `1.0` or `0.3`. `tenant`: the name in
    each request, where there is one."""

    url: str
    version: str
    tenant: str = ""


class Card(NamedTuple):
    """The entries of an agent's card that this proxy uses."""

    name: str
    endpoint: Interface
    skills: list[Skill]
    refused: list[str]
    """Why some of its skills are not taken."""


def address(url: str) -> str:
    """Where the card of an agent is."""
    return url if url.endswith(".json") else url.rstrip("/") + WHERE


def read(body: bytes, url: str, endpoint: str) -> Card:
    """Reads a card that came from `url`. `endpoint`: the one that the user allows besides those on
    the card's own host; may be empty. Raises `CardError`."""
    try:
        held = read_json(body)
    except ValueError:
        raise CardError("its card is no JSON") from None
    if not isinstance(held, dict):
        raise CardError("its card is no JSON object")
    name = clean(text(held, "name"), 80)
    place = interface(held)
    if origin(place.url) != origin(url) and place.url != endpoint:
        raise CardError(
            f"its card names the endpoint {clean(place.url, 200)}, on another host than "
            "the card's; `endpoints` in the settings allows it"
        )
    skills, refused = skills_of(held)
    return Card(name, place, skills, refused)


def interface(held: dict[str, Any]) -> Interface:
    """The endpoint for JSON-RPC in the newest version that is known here. Raises `CardError`."""
    found = [
        Interface(text(one, "url"), text(one, "protocolVersion"), str(one.get("tenant") or ""))
        for one in members(held, "supportedInterfaces")
        if one.get("protocolBinding") == BINDING
    ]
    if not found:
        version = held.get("protocolVersion")
        version = version if isinstance(version, str) else "0.3"
        if held.get("preferredTransport", BINDING) == BINDING and "url" in held:
            found.append(Interface(text(held, "url"), version))
        found += [
            Interface(text(one, "url"), version)
            for one in members(held, "additionalInterfaces")
            if one.get("transport") == BINDING
        ]
    for known, begins in (("1.0", "1."), ("0.3", "0.3")):
        for one in found:
            if one.version.startswith(begins):
                return one._replace(version=known)
    said = ", ".join(clean(one.version, 20) for one in found[:5]) or "none"
    raise CardError(f"it speaks JSON-RPC in no known version of A2A (1.0, 0.3): {said}")


def skills_of(held: dict[str, Any]) -> tuple[list[Skill], list[str]]:
    """The skills that are taken, and why others are not."""
    found: dict[str, Skill] = {}
    refused: list[str] = []
    listed = members(held, "skills")
    if len(listed) > SKILLS:
        raise CardError(f"its card has {len(listed)} skills; {SKILLS} are taken at most")
    about = clean(str(held.get("description") or ""), LONGEST)
    for one in listed:
        id_ = text(one, "id")
        tool = BETWEEN.sub("_", id_)
        if not NAME.fullmatch(tool):
            refused.append(f"the id of a skill is no name for a tool: {clean(ascii(id_), 80)}")
        elif tool in found:
            refused.append(f"there are two skills for the tool `{tool}`")
        else:
            found[tool] = Skill(id_, tool, described(one) or about)
    if not listed:
        found["ask"] = Skill("", "ask", about)
    return list(found.values()), refused


def described(skill: dict[str, Any]) -> str:
    """The description of a skill by its card, with examples of questions."""
    examples = skill.get("examples")
    examples = (
        [one for one in examples if isinstance(one, str)] if isinstance(examples, list) else []
    )
    said = "; ".join(examples[:5])
    parts = [str(skill.get("name") or ""), str(skill.get("description") or "")]
    parts += [f"Examples: {said}"] if said else []
    return clean(". ".join(part.rstrip(". ") for part in parts if part), LONGEST)


def members(held: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects. Raises `CardError` for anything else."""
    value = held.get(name) or []
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise CardError(f"`{name}` in its card is no list of objects")
    return value


def text(held: dict[str, Any], name: str) -> str:
    """A text that must be there. Raises `CardError`."""
    value = held.get(name)
    if not isinstance(value, str) or not value:
        raise CardError(f"`{name}` in its card is no text")
    return value


def clean(said: str, most: int) -> str:
    """The words of a stranger on one line, without characters that cannot be seen."""
    line = "".join(one if one.isprintable() else " " for one in said)
    line = " ".join(line.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port. Raises `CardError` for anything but a plain HTTP address."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        raise CardError(f"{clean(url, 200)} is no http or https address") from None
    if not parts.hostname or "@" in parts.netloc:
        raise CardError(f"{clean(url, 200)} names no plain host")
    return parts.scheme, parts.hostname.lower(), port
