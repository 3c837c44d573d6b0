"""Modes, models and configuration options: the agent's are shown as it reports them.

A component may offer options of its own, behind the agent's, where everybody sees them. It offers
no modes, and no option of its own looks like a mode, a model or an option of the agent.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final, TypeAlias, TypeGuard

from msgspec import Raw

from conductor.core import json_text
from conductor.core.guards.names import folded, is_plain
from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Json,
    Object,
    as_object,
    canonical,
    member,
    pairs,
    token,
    value_of,
)
from conductor.core.guards.rules import Attempt, Breaches, Context, relayed_only
from conductor.core.policy.key_table import SESSION_NAMES, SETTINGS
from conductor.patterns import lazy_pattern

Which: TypeAlias = tuple[str, str]
"""A setting: the method that sets it, and the id of the option; empty: there is only one."""
Settings: TypeAlias = Mapping[Which, Json]
"""The ids of a mode and a model, and values of options."""
Refused: TypeAlias = dict[Which, str]
"""The settings that an agent did not make, each with the reason."""

SET_MODE, SET_MODEL, SET_OPTION = SETTINGS
VALUES: Final = {SET_MODE: "modeId", SET_MODEL: "modelId", SET_OPTION: "value"}
"""The member of each setting's params that has the value."""

_IDS: Final = ("id", "modeId", "modelId", "configId")
_LISTS: Final = ("availableModes", "availableModels", "configOptions")
_STATES: Final = ("modes", "models")
"""Members of a session's result that say in which mode it is, and which model it has."""
_OPTIONS: Final = "configOptions"

_CHOICE: Final = frozenset({SESSION_NAMES[0], "configId", "value", "type", "_meta"})

_OPTION: Final = frozenset(
    {"id", "configId", "name", "description", "type", "currentValue", "options", "_meta"}
)
"""The members of an option of a component's own. Such an option has no category: by the category
clients know which options to show as the agent's mode or model."""
_VALUE: Final = frozenset({"value", "group", "groupId", "name", "description", "options", "_meta"})

_words = lazy_pattern(r"[\W_]+")
_number = lazy_pattern(r"\d+$")
_marks = lazy_pattern(r"[^\w\s.'\u2019-]+|\s[.'\u2019-]+\s")
_LONGEST: Final = 200
"""Characters of a text that names something."""


def ids(value: Json) -> frozenset[str]:
    """The ids of all modes, models and options in a session's result or update."""
    return frozenset(id_ for entry in _entries(value) for id_ in _ids(entry) if _is_text(id_))


def words(value: Json) -> frozenset[str]:
    """The agent's names of its modes, models and options there, as people read them."""
    said = (text for entry in _entries(value) for text in _said(entry))
    return frozenset(filter(None, (look for text in said for look in _looks(text))))


def _entries(value: Json) -> Iterator[Json]:
    lists = [held for name, held in pairs(value) if name in _LISTS]
    for name, held in pairs(value):
        if name in _STATES:
            lists += [inner for key, inner in pairs(held) if key in _LISTS]
    return (entry for held in lists if isinstance(held, list) for entry in held)


def _ids(entry: Json) -> list[Json]:
    """All ids of an entry."""
    return [value for name, value in pairs(entry) if name in _IDS]


def _is_text(value: Json) -> TypeGuard[str]:
    return isinstance(value, str)


# -- look-alikes of the agent's names --------------------------------------------------------------


def _said(entry: Json) -> Iterator[str]:
    """Ids and names of a mode, a model or an option, and of the values of an option that is the
    agent's mode or model by its category. Any other option, say how long it thinks, may have the
    same values as one of the agent's."""
    held = as_object(entry)
    yield from _texts(held, (*_IDS, "name"))
    if any(map(_poses, _texts(held, (*_IDS, "name", "category")))):
        yield from _values(held, ("value", "name"))


def _texts(held: Object, names: Iterable[str]) -> Iterator[str]:
    return (text for name in names if isinstance(text := held.get(name), str))


def _values(held: Object, names: tuple[str, ...]) -> Iterator[str]:
    """The texts of the values of an option."""
    return (text for one in _all_values(held) for text in _texts(as_object(one), names))


def _all_values(held: Object) -> Iterator[Json]:
    """The values of an option, and the groups of them."""
    for one in _each(held.get("options")):
        yield one
        yield from _all_values(as_object(one))


def _read(text: str) -> str:
    """How people read a name: folded, and with letters for pairs that look like one."""
    return folded(text).replace("rn", "m").replace("cl", "d").replace("vv", "w")


def _parts(text: str) -> list[str]:
    parts = _words.split(unicodedata.normalize("NFKC", text))
    return [_read(_number.sub("", part)) for part in parts]


def _looks(text: str) -> tuple[str, ...]:
    """How a text reads: as a whole, and without numbers and words that change nothing."""
    if len(text) > _LONGEST:
        return ()
    return _read(text), "".join(part for part in _parts(text) if part not in _FILLING)


def _clauses(text: str) -> Iterator[str]:
    """How a text reads, and how each part of it reads between marks: `State: Plan`."""
    return (look for part in (text, *_marks.split(text)) for look in _looks(part))


def _all_read(listed: str) -> frozenset[str]:
    return frozenset(map(_read, listed.split()))


_FILLING: Final = _all_read(
    "current currently active selected now on is it the agent only just always still"
)
# In the languages of many users: English, German, Dutch, Spanish, Portuguese, Italian, French,
# Polish, Swedish, Russian, Chinese, Japanese, Korean.
_MODES: Final = _all_read(
    "mode modes modus modi Betriebsart modo modos modalità tryb läge режим 模式 モード 모드"
)
_POSING: Final = _MODES | _all_read(
    "model models Modell Modelle modelo modello modèle модель 模型 モデル 모델"
)
_ASKING: Final = tuple(
    _all_read(
        "permission approv bypass Berechtig Genehmig toestemming permiso permiss autoriz autoris "
        "uprawnie behörighet разреш 权限 許可 권한"
    )
)


def _poses(text: str) -> bool:
    """Whether a name speaks of the agent's mode or model, or of its questions to the user."""
    whole = _read(text)
    return (
        not _POSING.isdisjoint(_parts(text))
        or whole.endswith(tuple(_POSING))
        or any(word in whole for word in _ASKING)
    )


def _unfit(entry: Json, known: AbstractSet[str], theirs: AbstractSet[str]) -> str:
    """Why a component may not add an option; empty: it may.

    Args:
        known: the ids of others.
        theirs: how the ids and names of others look.
    """
    named = _ids(entry)
    if not isinstance(entry, dict) or len(named) != 1 or not _is_text(named[0]):
        return "an option of its own is an object with one id"
    odd = next((name for name in entry if name not in _OPTION), None)
    if odd is not None:
        return f"{odd!a:.80} may not be in an option of a component's own"
    if not all(_VALUE.issuperset(as_object(one)) for one in _all_values(entry)):
        return "a value of an option of its own has `value`, `name` and `description`"
    texts = [
        *_texts(entry, (*_IDS, "name")),
        *_values(entry, ("value", "group", "groupId", "name")),
    ]
    described = [*_texts(entry, ("description",)), *_values(entry, ("description",))]
    for text in (*texts, *described):
        if not is_plain(text):
            return f"{text!a:.80} has letters that look like others, or that nobody sees"
        if not theirs.isdisjoint(filter(None, _clauses(text))):
            return f"{text!a:.80} looks like one of the agent's"
    for text in described:
        if not _MODES.isdisjoint(_parts(text)):
            return f"{text!a:.80} speaks of a mode"
    for text in texts:
        if len(text) > _LONGEST or _poses(text):
            return f"{text!a:.80} could be taken for the agent's mode or model"
    if named[0] in known:
        return f"{named[0]!a:.80} is the id of another option"
    return ""


# -- lists -----------------------------------------------------------------------------------------


def extended(context: Context, before: Json | Absent, after: Json | Absent, at: str) -> Breaches:
    """Own options may be added to a list, behind those of the agent."""
    if before == after:
        return
    old: list[Json] | None = [] if before is None or isinstance(before, Absent) else None
    if isinstance(before, list):
        old = before
    if not context.grants.options or old is None or not isinstance(after, list):
        text = "options are shown as the agent reports them; hint: `options` lets add own"
        yield text, at
        return
    if after[: len(old)] != old:
        yield "options of the agent stay, in order; own ones stand behind", at
        return
    known = context.modes | ids({_OPTIONS: old})
    theirs = context.words | words({_OPTIONS: old})
    for new in after[len(old) :]:
        if wrong := _unfit(new, known, theirs):
            yield wrong, at
            return


def reported(attempt: Attempt) -> Breaches:
    """In the result of a set-up the mode and the model are the agent's; own options may stand
    behind those of the agent."""
    if attempt.before is not ABSENT and not isinstance(attempt.before, dict):
        return
    for name in _STATES:
        if member(attempt.old, name) != member(attempt.new, name):
            text = f"`{name}` of a session are shown as the agent says"
            yield f"{text}; hint: a component offers options of its own (`options`)", token(name)
    was, now = member(attempt.old, _OPTIONS), member(attempt.new, _OPTIONS)
    yield from extended(attempt.context, was, now, token(_OPTIONS))


# -- choices ---------------------------------------------------------------------------------------


def obeyed(attempt: Attempt) -> Breaches:
    """The result of a choice: of its own options, or as the agent gave it with own options behind
    the agent's."""
    context, at, old, new = attempt.context, token(_OPTIONS), attempt.old, attempt.new
    if attempt.before is ABSENT:
        if not _may_answer(attempt):
            yield from relayed_only(attempt)
        elif not {_OPTIONS, "_meta"}.issuperset(new):
            yield "a choice of its own is answered with options alone", ""
        elif _OPTIONS in new:
            yield from _whole(context, new[_OPTIONS], at)
        return
    objects = isinstance(attempt.before, dict) and isinstance(attempt.after, dict)
    others = {**old, **new}.keys() - {_OPTIONS, "_meta"}
    changed = any(member(old, name) != member(new, name) for name in others)
    if not context.grants.options or not objects or changed:
        yield from relayed_only(attempt)
    else:
        yield from extended(context, member(old, _OPTIONS), member(new, _OPTIONS), at)


def denied(attempt: Attempt) -> Breaches:
    """An error of its own answers a choice of its own options alone."""
    if not attempt.came_back and not _may_answer(attempt):
        yield f"`{attempt.method:.80}` of the agent's may not be denied", ""


def _may_answer(attempt: Attempt) -> bool:
    """Whether a choice is one of the component's own options."""
    context, params = attempt.context, as_object(value_of(attempt.request))
    id_ = params.get("configId")
    return (
        context.grants.options
        and attempt.method == SET_OPTION
        and _CHOICE.issuperset(params)
        and isinstance(id_, str)
        and id_ in context.added
        and id_ not in context.modes
    )


def announced(attempt: Attempt, kind: str, update: Object) -> Breaches:
    """An update of a component's own lists its own options behind the agent's."""
    context = attempt.context
    if not context.grants.options or not {"sessionUpdate", _OPTIONS, "_meta"}.issuperset(update):
        yield f"a session update of '{kind}' may only be originated of own options", "/update"
    else:
        yield from _whole(context, member(update, _OPTIONS), f"/update/{_OPTIONS}")


def _whole(context: Context, listed: Json | Absent, at: str) -> Breaches:
    """A list of a component's own shows all options of the agent, unchanged, and own ones."""
    entries = listed if isinstance(listed, list) else [None]
    theirs = len(context.options)
    shown = tuple(map(canonical, entries[:theirs]))
    own = (_unfit(one, context.modes, context.words) for one in entries[theirs:])
    wrong = next(filter(None, own), "")
    if not context.known or shown != context.options:
        wrong = "a list of options begins with those of the agent, as it lists them"
    if wrong:
        yield wrong, at


# -- settings --------------------------------------------------------------------------------------

_half: Final = lazy_pattern(r"[\ud800-\udfff]")
_MOST_SET: Final = 256
"""The most settings that are read from one message."""
_CURRENT: Final = {
    "modes": (SET_MODE, "currentModeId"),
    "models": (SET_MODEL, "currentModelId"),
}
"""The members of a set-up's result that have the mode and the model."""


def shown(listing: Json) -> Settings:
    """The settings in the result of a set-up or a choice, or in an update."""
    found: dict[Which, Json] = {}
    for name, held in pairs(listing):
        if name == "currentModeId":
            found[SET_MODE, ""] = held
        elif name in _CURRENT:
            method, current = _CURRENT[name]
            found[method, ""] = dict(pairs(held)).get(current)
        elif name == _OPTIONS and isinstance(held, list):
            for option in map(dict, map(pairs, held)):
                id_ = option.get("configId", option.get("id"))
                if _is_plain(id_):
                    found[SET_OPTION, str(id_)] = option.get("currentValue")
    return _plain(found)


def asked(method: str, params: Json) -> Settings:
    """The settings that a request makes."""
    held = dict(pairs(params))
    option = held.get("configId") if method == SET_OPTION else ""
    return _plain({(method, str(option)): held.get(VALUES[method])} if _is_plain(option) else {})


def begun_with(params: Json) -> Settings:
    """The settings that a set-up asks the agent to make at once."""
    wanted = [one for name, held in pairs(params) if name == _OPTIONS for one in _each(held)]
    return {which: one for each in wanted for which, one in asked(SET_OPTION, each).items()}


def _each(value: Json | None) -> list[Json]:
    return value if isinstance(value, list) else []


def _plain(found: Settings) -> Settings:
    return dict(islice(((which, one) for which, one in found.items() if _is_plain(one)), _MOST_SET))


def _is_plain(value: Json) -> bool:
    """Whether a value may be set again: true, false, or a text without half an emoji."""
    return isinstance(value, bool) or (isinstance(value, str) and not _half.search(value))


def choice(session: str, which: Which, value: Json, version: int | None) -> Raw:
    """The params of the request that makes a setting."""
    method, option = which
    params: dict[str, object] = {"sessionId": session}
    if method == SET_OPTION:
        params["configId"] = option
        if isinstance(value, bool):
            params["type"] = "boolean"
        elif version == 2:
            params["type"] = "id"
    params[VALUES[method]] = value
    return Raw(json_text.encode(params))
