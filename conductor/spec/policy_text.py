"""The rights of a component, in sentences of conductor's own.

The sentences come from the table of words (`conductor.core.policy.words`), so that neither the page
of `conductor inspect` nor a question to the user can promise anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from conductor.core.policy import words
from conductor.core.policy.word_table import SAYS
from conductor.core.policy.words import FAMILIES, GROUPS, OBJECTS, TRUSTED, Word

Shown = Callable[[str], str]
"""Shows a name that the author of a component may have chosen."""

THROUGH: Final = "Through the agent it can do what you let the agent do."
"""The warning that no table of rights can give: rights compose."""


def may(rights: Iterable[str], shown: Shown = str) -> list[str]:
    """The rights of a component but those to see, the worst first, each after "it may"."""
    sentences: dict[str, list[str]] = {}
    for one in words.ordered(rights):
        if one.verb != "see":
            form, of = _parts(one, shown)
            sentences.setdefault(form, []).extend(of)
    return [form.format(", ".join(dict.fromkeys(of))) for form, of in sentences.items()]


def _parts(one: Word, shown: Shown) -> tuple[str, list[str]]:
    """A sentence with a place for names, and the names: several words may share one sentence."""
    if one.name not in words.TABLE and one.verb in FAMILIES:
        form = words.sentence(FAMILIES[one.verb], one.scope)
        return form, ["any" if one.scope in ("*", "_*") else shown(one.scope)]
    form = SAYS.get(one.verb, "")
    if one.says == form.format(_object(one.scope)):
        return form, [_object(one.scope)]
    return one.says, []


def _object(name: str) -> str:
    return OBJECTS[name].says if name in OBJECTS else f"`{name}`"


def says(name: str, shown: Shown = str) -> str:
    """The effect of one word, set or group."""
    if name in words.SET_SAYS:
        return words.SET_SAYS[name].removeprefix("may ")
    done = may([name], shown)
    seen = [each for each in sees([name]) if not any(each in text for text in done)]
    return "; ".join([*done, *([f"read {', '.join(seen)}"] if seen else [])])


def sees(rights: Iterable[str]) -> list[str]:
    """The subjects of the messages that a component sees, the most private first."""
    if TRUSTED in (names := tuple(rights)):
        return ["every message"]
    given = tuple(name for name in names if not words.services([name]))
    held = {name for name in OBJECTS if not words.lacking([f"see:{name}"], given)}
    if held.issuperset(GROUPS["*"]):
        return ["every message"]
    seen = [OBJECTS[name].says for name in OBJECTS if name in held]
    updates = [name for name in GROUPS["updates"] if name in OBJECTS]
    if held.issuperset(updates):
        seen = [text for text in seen if text not in {OBJECTS[name].says for name in updates}]
        seen.insert(1 if "prompts" in held else 0, "all updates")
    keys = [one.scope for one in words.ordered(given) if one.verb == "see" and "/" in one.scope]
    return seen + [f"`{key}`" for key in keys if "all updates" not in seen]
