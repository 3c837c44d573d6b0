"""The words for rights: one table for flags, manifests, policies, consent, locks, cards and errors.

A right is one word, `VERB:OBJECT` (`see:replies`, `web:HOST`), or a bare word for a service
(`clock`). A set (`context`) or a group (`see:updates`) is a name for several. The table of keys
(`conductor.core.policy.key_table`) stays the truth: a word names cells of that table.

The table itself is `conductor.core.policy.word_table`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from typing import Any, Final

from conductor.core.policy.former_words import FORMER_OPTIONS, former
from conductor.core.policy.key_table import (
    Direction,
    matches,
    row_of,
)
from conductor.core.policy.rules import Grants, Policy, Rule, lacking_grants, merged
from conductor.core.policy.word_table import (
    AGENTS,
    ALL_VERBS,
    CONTEXT,
    FAMILIES,
    FORBIDDING,
    GROUPS,
    OBJECTS,
    SAYS,
    SET_SAYS,
    SETS,
    TABLE,
    TRUSTED,
    VERBS,
    Family,
    Object,
    Word,
    keys_of,
    own_cells,
    split,
    word_for,
)
from conductor.errors import UnknownWordError

__all__ = [
    "AGENTS",
    "ALL_VERBS",
    "CONTEXT",
    "FAMILIES",
    "FORBIDDING",
    "FORMER_OPTIONS",
    "GROUPS",
    "HINT",
    "OBJECTS",
    "SETS",
    "SET_SAYS",
    "TABLE",
    "TRUSTED",
    "VERBS",
    "Family",
    "Object",
    "Word",
    "agents",
    "filled",
    "flat",
    "former",
    "is_denied",
    "lacking",
    "meaning",
    "members",
    "of_world",
    "ordered",
    "policy",
    "read",
    "read_denied",
    "rules_of",
    "services",
    "split",
    "without",
    "word",
    "word_for",
]

HINT: Final = "`conductor help rights` lists the words"
_SETTING: Final = re.compile(r"\{config\.(\w+)\}")
# -- reading ---------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def word(name: str) -> Word:
    """The right of a name that is no set. Raises `ValueError` with the fault of the name."""
    if name in TABLE:
        return TABLE[name]
    verb, colon, scope = name.partition(":")
    if colon and verb in VERBS:
        return _of_key(name, verb, scope)
    if colon and verb in FAMILIES:
        return _scoped(name, FAMILIES[verb], scope)
    raise _unknown(name)


def _of_key(name: str, verb: str, key: str) -> Word:
    own = own_cells(verb, key)
    if own:
        return Word(name, SAYS[verb].format(f"`{key}`"), own)
    keys = OBJECTS[key].keys if key in OBJECTS else keys_of(key)
    if not keys:
        known = (*OBJECTS, *GROUPS)
        raise UnknownWordError(f"no `{key}` to {verb}; there are: {', '.join(known)}", key, known)
    raise ValueError(f"`{name}` is not to be had: {row_of(*keys[0]).rule}")


def _scoped(name: str, family: Family, scope: str) -> Word:
    form = f"{family.verb}:{family.shown}"
    if _SETTING.search(scope):
        pass  # it is checked once the setting is known
    elif family.pattern:
        if not re.fullmatch(family.pattern, scope):
            raise ValueError(f"`{name}` is written `{form}`")
    else:
        from conductor.core.policy import scopes

        scopes.check(name)
    grant = (family.grant, (scope,)) if family.grant else None
    return Word(name, sentence(family, scope).format(scope), (), grant)


def sentence(family: Family, scope: str) -> str:
    """The sentence about a word of a family, with a place for the scope."""
    if family.says_of_sockets:
        from conductor.core.policy import scopes

        if scopes.is_socket(scope):
            return family.says_of_sockets
    return family.says


def _unknown(name: str) -> ValueError:
    if new := former(name):
        return ValueError(f"`{name}` is written `{new}` now")
    if name in ALL_VERBS:
        words = [each for each in TABLE if each.startswith(f"{name}:")]
        groups = (f"{name}:{group}" for group in GROUPS if name in VERBS)
        words += [group for group in groups if members(group)]
        words += [f"{name}:{FAMILIES[name].shown}"] if name in FAMILIES else []
        return ValueError(f"`{name}` alone is no right: {', '.join(words)}")
    if name in FORBIDDING:
        return ValueError(f"`{name}` is a set for `deny` alone")
    known = (*SETS, *TABLE, *(f"{family}:" for family in FAMILIES))
    return UnknownWordError(f"no right `{name}`", name, known)


@lru_cache(maxsize=1024)
def members(name: str) -> tuple[str, ...]:
    """The words that a set or a group (`see:updates`) stands for; of a word, itself."""
    if name in SETS:
        return SETS[name]
    verb, _, group = name.partition(":")
    if verb in VERBS and group in GROUPS:
        of = (f"{verb}:{each}" for each in GROUPS[group])
        return tuple(
            each for each in of if each in TABLE or own_cells(verb, each.partition(":")[2])
        )
    return (name,)


def flat(words: Iterable[str]) -> tuple[str, ...]:
    """Words without sets and groups, each once."""
    return _flat(tuple(words))


@lru_cache(maxsize=256)
def _flat(words: tuple[str, ...]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in words:
        several = members(name)
        found |= dict.fromkeys(several if several == (name,) else _flat(several))
    return tuple(found)


def read(value: Any) -> tuple[str, ...]:
    """The rights that `only`, `allow` or a manifest names. Raises `ValueError`."""
    names = split(value)
    for name in flat(names):
        word(name)
    for name in names:
        if name not in SETS and not flat([name]):
            raise ValueError(f"`{name}` is not to be had on any of them")
    return names


def read_denied(value: Any) -> tuple[str, ...]:
    """The rights that `deny` names: also verbs, and the sets for that. Raises `ValueError`."""
    names = split(value)
    for name in names:
        if name == "none":
            raise ValueError("`none` has no right to deny")
        if name not in FORBIDDING and name not in ALL_VERBS:
            read([name])
    return names


# -- the rights that words give --------------------------------------------------------------------


def rules_of(words: Iterable[str]) -> tuple[Rule, ...]:
    """The cells that words name, one rule for each key."""
    held: dict[tuple[Direction, str], int] = {}
    for name in flat(words):
        for rule in word(name).rules:
            at = rule.direction, rule.key
            held[at] = held.get(at, 0) | rule.rights
    return tuple(Rule(direction, key, rights) for (direction, key), rights in held.items())


@lru_cache(maxsize=256)
def policy(*words: str, **more: Any) -> Policy | None:
    """The engine's policy of words; None: nothing is enforced. `more`: its other members.

    A start asks some thirty times for the same. Raises `ValueError`.
    """
    if TRUSTED in words:
        return None
    names = flat(words)
    grants = reduce(merged, (one.grants for one in map(word, names) if one.grant), Grants())
    return Policy(rules_of(names), grants, **more)


def services(words: Iterable[str]) -> frozenset[str]:
    """The words among these that are rights of the world: services, with their scopes."""
    return frozenset(name for name in flat(words) if word(name).is_service)


def beyond(name: str) -> bool:
    """Whether a word is about something outside the conversation: a service, or another agent."""
    return word(name).is_service or name.partition(":")[0] in AGENTS


def agents(words: Iterable[str], verb: str) -> tuple[str, ...]:
    """The agents beside the chain that words of a verb name: `peer` or `agent`."""
    names = (name.partition(":") for name in flat(words))
    return tuple(sorted(scope for begin, _, scope in names if begin == verb))


def lacking(wanted: Iterable[str], held: Iterable[str]) -> tuple[str, ...]:
    """The words of `wanted` of which `held` does not give all."""
    held = tuple(held)
    has, given = flat(held), policy(*held)
    return tuple(
        name for name in wanted if not all(_gives(given, has, word(one)) for one in flat([name]))
    )


def _gives(given: Policy | None, held: tuple[str, ...], wanted: Word) -> bool:
    if wanted.name in held:
        return True
    if wanted.is_service:
        return any(_covers(wanted.name, one) for one in services(held))
    if wanted.verb == "peer":
        return False
    if given is None:
        return True
    if wanted.grant is not None:
        return not lacking_grants(wanted.grants, given.grants).names()
    return all(rule.rights & ~given.rights(rule.direction, rule.key) == 0
               for rule in wanted.rules)  # fmt: skip


def _covers(wanted: str, held: str) -> bool:
    from conductor.core.policy import scopes

    return scopes.covers(wanted, held)


def of_world(names: Iterable[str]) -> str:
    """The first of these names that is, or holds, a right of the world; empty: none is."""
    for name in names:
        for one in _denied([name]):
            family = FAMILIES.get(one)
            if (family and not family.pattern) if one in ALL_VERBS else word(one).is_service:
                return name
    return ""


def filled(names: Iterable[str], settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Words with the values of settings in place of `{config.KEY}`, one word for each value of a
    list; a word whose setting has no value goes. Raises `ValueError`."""
    found: list[str] = []
    for name in names:
        place = _SETTING.search(name)
        if place is None:
            found.append(name)
            continue
        value = settings.get(place[1])
        values = value if isinstance(value, list | dict) else [] if value is None else [value]
        made = [name.replace(place[0], str(each).strip("/")) for each in values]
        found += read(made)
    return tuple(dict.fromkeys(found))


def meaning(*names: str) -> str:
    """The meaning of words in this release: a short text that changes when their cells do."""
    import zlib  # for agreements alone

    cells = [(r.direction.value, r.key, r.rights) for r in rules_of(names)]
    kept = [*sorted(cells), *sorted(one for one in flat(names) if not word(one).own)]
    return f"{zlib.crc32(repr(kept).encode()):08x}"


def without(words: Iterable[str], denied: Iterable[str]) -> tuple[str, ...]:
    """Words without those that are denied, and without each that includes one of these.

    Raises `ValueError` where only a part of a scope is denied.
    """
    left: list[str] = []
    names = _denied(denied)
    for name in words:
        ones = flat([name])
        kept = [one for one in ones if not any(_hits(each, word(one)) for each in names)]
        left += [name] if len(kept) == len(ones) else kept
    return tuple(dict.fromkeys(left))


def _denied(names: Iterable[str]) -> tuple[str, ...]:
    """Words and verbs, in the place of the sets that stand for them."""
    wide = (each for name in names for each in FORBIDDING.get(name, (name,)))
    return tuple(each for name in wide for each in ([name] if name in ALL_VERBS else flat([name])))


def _hits(denied: str, held: Word) -> bool:
    """Whether a denied word or verb is, or is included in, a held word."""
    if denied in (held.name, held.verb) or denied in held.includes:
        return True
    if denied in VERBS:
        return any(rule.rights & VERBS[denied] for rule in held.rules)
    if denied in ALL_VERBS:
        return False  # the words that a word includes are of its own verb
    other = word(denied)
    if other.verb == held.verb and not other.own and held.verb in FAMILIES:
        return _hits_scope(other, held)
    return any(
        a.direction is b.direction
        and (matches(a.key, b.key) or matches(b.key, a.key))
        and bool(a.rights & b.rights)
        for a in other.own
        for b in held.rules
    )


def _hits_scope(denied: Word, held: Word) -> bool:
    if covered(held, denied):
        return True
    if covered(denied, held):
        raise ValueError(f"`{denied.name}` is a part of `{held.name}`: deny the whole of it")
    return False


def covered(wanted: Word, held: Word) -> bool:
    """Whether a word of a family is within another of the same."""
    if wanted.grant is not None:
        return not lacking_grants(wanted.grants, held.grants).names()
    return wanted.name == held.name or (wanted.is_service and _covers(wanted.name, held.name))


def is_denied(name: str, denied: Iterable[str]) -> bool:
    """Whether a word is among those that are denied, in whole or in part."""
    try:
        return without([name], denied) != (name,)
    except ValueError:
        return True


def cure(name: str, denied: Mapping[str, str]) -> str:
    """How to give a component a word, for people. `denied`: the words that are denied it, each with
    who denies it."""
    if name == TRUSTED:
        return f"only `,only={TRUSTED}` lets it"
    for each, by in denied.items():
        if is_denied(name, [each]):
            return f"leave out `deny={each}` ({by}), which takes `{name}`"
    return f"`,allow={name}` lets it"


# -- the words of cells ----------------------------------------------------------------------------


def ordered(words: Iterable[str]) -> list[Word]:
    """Words without sets and groups, the worst first; those of the world among the others."""
    place = {name: at for at, name in enumerate(dict.fromkeys((*_WORST, *TABLE)))}
    known = [word(name) for name in flat(words)]
    return sorted(known, key=lambda one: (place.get(one.name, place.get(one.verb, 0)), one.name))


_WORST: Final = ("run:commands", "web", "write", "do:operations", "change:mcp", "prompt:unseen",
                 "peer", "prompt:anytime", "extension", "command", "claim", "read")  # fmt: skip
