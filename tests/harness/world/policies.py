"""Policies and scripts for properties, as Hypothesis draws them."""

from typing import Final

import msgspec
from hypothesis import strategies as st

from conductor.core.policy.key_table import (
    AMEND,
    ANSWER,
    CARRY,
    COPY,
    ORIGINATE,
    PROMPT,
    STATE_KIND,
    Direction,
    update,
)
from conductor.core.policy.rules import Grants, Policy, Rule
from tests.harness.router.rules import PROFILES
from tests.harness.router.rules import held as of_set
from tests.harness.world.ends import DOWN, STOP, UP, Item, Step, asks
from tests.harness.world.world import Cast, Mishap

_STATE: Final = update(STATE_KIND)
KEYS: Final = [
    *((Direction.DOWN, key) for key in sorted(set(DOWN))),
    *((Direction.UP, key) for key in sorted(set(UP))),
]
SESSIONS: Final = st.sampled_from(["S", "S", "S", "T", None])
PAUSES: Final = st.sampled_from([0, 0, 1, 1, 1, 3])


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Something an end of the chain says."""
    who = draw(st.sampled_from(["client", "agent"]))
    key = draw(st.sampled_from(DOWN if who == "client" else UP))
    asked = asks(key, either=draw(st.booleans()))
    return Step(who, key, draw(SESSIONS), asked, draw(PAUSES))


NAMED: Final = st.just(Grants()) | st.builds(
    Grants,
    turns=st.sampled_from(["", "", "within", "unprompted"]),
    commands=st.sampled_from([(), (), ("review",)]),
    permission=st.sampled_from(["", "narrow"]),
    mcp=st.sampled_from(["", "others"]),
    sessions=st.sampled_from(["", "own"]),
    options=st.booleans(),
    methods=st.sampled_from([(), ("_x",), ("_*",)]),
    texts=st.booleans(),
)


@st.composite
def policies(draw: st.DrawFn, *, grants: st.SearchStrategy[Grants] = NAMED) -> Policy:
    """Any rights on any of the keys."""
    rules = draw(_rules(st.integers(1, 63)))
    fails = draw(st.sampled_from(["open", "open", "closed"]))
    return Policy(rules, draw(grants), fails=fails)


def _rules(held: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[Rule, ...]]:
    """Rights on some of the keys."""
    found = st.dictionaries(st.sampled_from(KEYS), held, max_size=12)
    return found.map(lambda some: tuple(Rule(*at, rights) for at, rights in some.items()))


SCRIPTS: Final = st.lists(steps(), max_size=14) | st.lists(steps(), min_size=7, max_size=14)
TAPES: Final = st.one_of(
    *(st.lists(st.integers(0, 98), min_size=least, max_size=40) for least in (0, 8, 20))
)
PROFILED: Final = st.builds(
    lambda name, fails: msgspec.structs.replace(of_set(name), fails=fails),
    st.sampled_from(sorted(PROFILES)),
    st.sampled_from(["open", "closed"]),
)
ANY: Final = st.one_of(policies(), PROFILED)
SEALED: Final = st.one_of(
    _rules(st.just(COPY)).map(Policy),
    st.just(of_set("observer")),
)
"""No key is more than shown."""
WATCHED: Final = ANY.map(lambda held: msgspec.structs.replace(held, fails="open", watched=True))
"""Any rights, of which nothing takes effect."""
KINDS: Final = ("acp", "sdk", "sacp", "pacp", "scp", "channel")


def casts(
    held: st.SearchStrategy[Policy | None],
    tapes: st.SearchStrategy[list[int]] = TAPES,
    kinds: tuple[str, ...] = ("channel",),
) -> st.SearchStrategy[Cast]:
    """Components under such policies."""
    return st.builds(_cast, held, tapes, st.sampled_from(kinds), st.booleans())


def _cast(policy: Policy | None, tape: list[int], kind: str, keeps: bool) -> Cast:
    if policy is not None and keeps:
        policy = msgspec.structs.replace(policy, ids="kept")
    return Cast(policy, tuple(tape), kind, keeps)


MISHAPS: Final = st.lists(
    st.builds(Mishap, st.integers(0, 9), st.integers(0, 2), st.booleans(), TAPES.map(tuple)),
    max_size=2,
)

# -- what a policy leaves alone --------------------------------------------------------------------


def untouched(policy: Policy | None, item: Item, sender: str) -> bool:
    """Whether a component has no part in a message of `sender`: the message goes past it."""
    if policy is None or _is_its_own(policy, item):
        return False
    direction = Direction.DOWN if sender == "client" else Direction.UP
    if item.kind != "answer":
        held = policy.rights(direction, item.key)
        own_turns = bool(policy.grants.turns) and "_chunk" in item.key
        return not (held & (CARRY | ANSWER | AMEND) or own_turns)
    # The answer to a request that it may have changed, answered or sent again is another matter.
    back = Direction.UP if direction is Direction.DOWN else Direction.DOWN
    held = policy.rights(back, item.key)
    return not held & (CARRY | ANSWER | AMEND | ORIGINATE)


def _is_its_own(policy: Policy, item: Item) -> bool:
    """Whether an MCP message may be about a server that it has declared."""
    return item.key.startswith("mcp/") and b"mine" in item.body and policy.serves


def may_originate(policy: Policy | None, item: Item, sender: str) -> bool:
    """Whether such an item may be a component's own."""
    direction = Direction.DOWN if sender == "client" else Direction.UP
    if item.kind == "answer":
        return False
    if policy is None or _is_its_own(policy, item):
        return True
    if item.key == STOP and policy.grants.turns:
        return True
    if item.key == _STATE and policy.rights(Direction.DOWN, PROMPT) & ANSWER:
        return True  # in version 2 the conductor ends the turn of a prompt that is answered here
    return bool(policy.rights(direction, item.key) & ORIGINATE)


def overtakes(item: Item) -> bool:
    """Whether the message waits for nothing: a cancellation of turns reaches the agent at once."""
    return item.kind != "answer" and item.key == STOP
