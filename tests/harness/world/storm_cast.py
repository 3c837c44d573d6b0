"""The components of a storm: each is drawn from a seed of its own."""

from random import Random
from typing import Final, NamedTuple

import msgspec

from conductor.core import DIALECTS, Component
from conductor.core.accounts import Allowance
from conductor.core.policy import words
from conductor.core.policy.rules import Grants, Policy
from tests.harness.router.rules import PROFILES, held

KINDS: Final = ("acp", "sdk", "sacp", "pacp", "scp", "channel", "channel")
PLAIN: Final = (*["full"] * 4, *["context"] * 4, "filter", "serve:tools", "observer")
_CONFIGURE: Final = b'{"config":{"x":1}}'


class Drawn(NamedTuple):
    """A component, and its player."""

    component: Component
    kind: str
    """The dialect of the component; guests speak `channel`."""
    keeps: bool
    """Whether a program keeps the ids of messages that it passes on; else its library chooses
    them."""
    hosted: bool
    """Whether the component is a guest in a host, where there are hosts."""

    @property
    def name(self) -> str:
        """The name of the component."""
        return self.component.name

    def beside(self, ports: dict[str, bool], agents: dict[str, str]) -> Component:
        """The component, with ports, and agents with which it may have sessions go on."""
        return msgspec.structs.replace(self.component, ports=ports, agents=agents)


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
        more = ("prompt:unseen", "prompt:within" if turns == "within" else "prompt:anytime")
        policy = _made((*WORDS[policy], *more), policy)
    if plain:
        word = rng.choice(PLAIN)
        fails = rng.choice(("open", "open", "closed"))
        policy = msgspec.structs.replace(held(word), fails=fails)
        WORDS[policy] = (word,)
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
    names = [rng.choice(sorted(PROFILES))]
    if happens < 0.6:
        names = rng.choice(([], names))
        names += rng.sample(_NAMES, rng.randrange(14))
    names += _grants(rng)
    return _made(
        tuple(dict.fromkeys(names)),
        Policy(
            (),
            Grants(),
            rng.choice(("pass", "pass", "pass", "fail")),
            rng.choice(("open", "open", "closed")),
            "kept" if kept else "",
            rng.choice((None, None, 5.0)),
        ),
    )


WORDS: Final[dict[Policy, tuple[str, ...]]] = {}
"""The words of each policy that was drawn: a host of guests gets these."""
_NAMES: Final = [
    name for name in words.TABLE if name.split(":")[0] in ("see", "change", "answer", "add")
    and words.TABLE[name].grant is None
] + ["serve:tools", "stop:turns"]  # fmt: skip


def _made(names: tuple[str, ...], like: Policy) -> Policy:
    """The policy of some words, as hard as another."""
    found = words.policy(*names)
    assert found is not None
    policy = msgspec.structs.replace(like, rules=found.rules, grants=found.grants)
    WORDS[policy] = names
    return policy


def _grants(rng: Random) -> list[str]:
    if rng.random() < 0.4:
        return []
    found = (
        rng.choice(("", "prompt:within", "prompt:anytime")),
        rng.choice(("", "command:review")),
        rng.choice(("", "refuse:permissions")),
        rng.choice(("", "", "change:mcp")),
        rng.choice(("", "prompt:unseen")),
        "offer:modes" if rng.random() < 0.3 else "",
        rng.choice(("", "extension:_x", "extension:_*")),
        "change:tool-calls" if rng.random() < 0.3 else "",
        rng.choice(("", "claim:*", "claim:/fs/readTextFile")),
    )
    return [name for name in found if name]


def hosts(order: list[Drawn]) -> list[list[Drawn]]:
    """Neighbours that are guests in a host, together; all others alone."""
    groups: list[list[Drawn]] = []
    for one in order:
        if one.hosted and groups and groups[-1][0].hosted:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups
