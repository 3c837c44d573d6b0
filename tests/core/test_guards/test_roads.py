"""Every attack along every road: an act that no guard lets pass in the chain passes nowhere
else."""

import pytest

from conductor.core.guards import originated
from conductor.core.policy.rules import Grants
from tests.core.test_guards.attack import Attack, raw
from tests.core.test_guards.roads import IN_THE_CHAIN, ROADS, Road
from tests.core.test_guards.test_attacks import ATTACKS


def is_one(attack: Attack, road: type[Road]) -> bool:
    """Whether the attack goes by this road: the component could do it there, and may do it
    in no other way."""
    move = attack.move
    if move is None or attack.guard in road.without:
        return False
    context = road.context(attack.context)
    sent = raw(move.sent)
    own = move.way == "forwarded" and originated(context, "down", move.method, sent) is None
    return not own and attack.route(context) is not None


def arrived(road: type[Road], attacks: list[Attack]) -> list[str]:
    """The attacks that arrive. A chain stands many: most leave nothing open behind them."""
    found = []
    chains: dict[tuple[Grants, int], Road] = {}
    for number, attack in enumerate(attacks):
        assert attack.move is not None
        version = 1 + number % 2
        chain = chains.get((attack.grants, version))
        if chain is None or not chain.is_idle():
            chain = chains[attack.grants, version] = road(attack.grants, version)
        if chain.arrives(attack.move):
            found.append(f"{attack.guard}: {attack.what}")
    return found


PARTS = 5
"""A loaded machine plays all attacks of a road in more than the time of one test."""


@pytest.mark.proves("chain", "port, branch", "its MCP servers")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.name)
def test_no_attack_arrives(road: type[Road], part: int) -> None:
    attacks = [attack for attack in ATTACKS[part::PARTS] if is_one(attack, road)]
    assert len(attacks) > 400
    assert arrived(road, attacks) == []


@pytest.mark.proves("sub-session", "alias")
@pytest.mark.parametrize("part", range(PARTS))
def test_no_attack_arrives_by_another_session(part: int) -> None:
    for road in IN_THE_CHAIN:
        attacks = [attack for attack in ATTACKS[part::PARTS] if is_one(attack, road)]
        assert len(attacks) > 400
        assert arrived(road, attacks) == [], road.name
