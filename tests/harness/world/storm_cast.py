"""The components of a storm: each is drawn from a seed of its own."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

import msgspec

from conductor.core import DIALECTS, Component
from conductor.core.accounts import Allowance
from conductor.core.policy.key_table import Direction, Right
from conductor.core.policy.rules import NO_PROFILE, PROFILES, Grants, Policy, Rule
from tests.harness.world.storm_lines import DOWN, UP

KINDS: Final = ("acp", "sdk", "sacp", "pacp", "scp", "channel", "channel")
RIGHTS: Final = (1, 2, 6, 10, 18, 33, 62, 63)
_KEYS: Final = [
    *((Direction.DOWN, key) for key in sorted(set(DOWN))),
    *((Direction.UP, key) for key in sorted(set(UP))),
]
PLAIN: Final = (*["full"] * 4, *["context"] * 4, "filter", "tools", "observer")
_CONFIGURE: Final = b'{"config":{"x":1}}'


class Drawn(NamedTuple):
    """A component, and who plays it."""

    component: Component
    kind: str
    """Its dialect; guests speak `channel`."""
    keeps: bool
    """Whether a program keeps the ids of what it passes on; else its library chooses them."""
    hosted: bool
    """Whether it is a guest in a host, where there are hosts."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.component.name

    def with_ports(self, ports: dict[str, bool]) -> Component:
        """The component, with ports."""
        return msgspec.structs.replace(self.component, ports=ports)


def component(
    rng: Random,
    name: str,
    *,
    programs: bool,
    detected: bool = False,
    free: bool = False,
    plain: bool = False,
) -> Drawn:
    """Any component.

    Args:
        programs: it may be a program of any dialect.
        detected: the router may have to find out which dialect a program speaks.
        free: it has turns and sessions of its own.
        plain: it has a profile and no more, and is in a host where there are hosts.
    """
    kind = rng.choice(KINDS) if programs else "channel"
    keeps = rng.random() < 0.5
    policy = _policy(rng, kept=keeps and kind != "channel")
    if free and policy is not None:
        turns = rng.choice(("within", "unprompted", "unprompted"))
        grants = msgspec.structs.replace(policy.grants, turns=turns, sessions="own")
        policy = msgspec.structs.replace(policy, grants=grants)
    if plain:
        policy = Policy(rng.choice(PLAIN), fails=rng.choice(("open", "open", "closed")))
    texts = rng.choice((None, None, None, 128)) if not plain else None
    made = Component(
        name,
        f"proxy `{name}`",
        None if detected and kind != "channel" and rng.random() < 0.7 else DIALECTS[kind],
        rng.choice((None, frozenset(), frozenset({"clock", "kv"}))),
        rng.choice((None, _CONFIGURE)),
        policy,
        allowance=Allowance(text_bytes=texts),
    )
    hosted = kind == "channel" and (plain or rng.random() < 0.7)
    return Drawn(made, kind, keeps, hosted)


def _policy(rng: Random, *, kept: bool) -> Policy | None:
    happens = rng.random()
    if happens < 0.2:
        return None
    profile = rng.choice(sorted(PROFILES))
    rules: tuple[Rule, ...] = ()
    if happens < 0.6:
        profile = rng.choice((NO_PROFILE, profile))
        some = rng.sample(_KEYS, rng.randrange(14))
        rules = tuple(Rule(*at, Right(rng.choice(RIGHTS))) for at in some)
    return Policy(
        profile,
        rules,
        _grants(rng),
        rng.choice(("pass", "pass", "pass", "fail")),
        rng.choice(("open", "open", "closed")),
        "kept" if kept else "",
        rng.choice((None, None, 5.0)),
    )


def _grants(rng: Random) -> Grants:
    if rng.random() < 0.4:
        return Grants()
    return Grants(
        turns=rng.choice(("", "within", "unprompted")),
        commands=rng.choice(((), ("review",))),
        permission=rng.choice(("", "narrow")),
        mcp=rng.choice(("", "", "others")),
        sessions=rng.choice(("", "own")),
        options=rng.random() < 0.3,
        methods=rng.choice(((), ("_x",), ("_*",))),
        texts=rng.random() < 0.3,
        capabilities=rng.choice(((), ("*",), ("/fs/readTextFile",))),
    )


def hosts(order: list[Drawn]) -> list[list[Drawn]]:
    """Neighbours that are guests in a host, together; all others alone."""
    groups: list[list[Drawn]] = []
    for one in order:
        if one.hosted and groups and groups[-1][0].hosted:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups
