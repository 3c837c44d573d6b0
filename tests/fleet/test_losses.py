"""Parts of a fleet are lost in streaming turns: each request is answered once, updates come in
order, and nothing of a dead epoch reaches an editor (`Site` compares that at the end of each test).
"""

import os
import signal

import pytest

from tests.harness.fleet.ledger import records
from tests.harness.fleet.site import Site, kill
from tests.harness.process.netns import needs_namespaces, stopped
from tests.harness.process.rig import Rig


def loads(site: Site) -> int:
    """How often an agent has loaded a session."""
    return sum(one["what"] == "load" for one in records(site.rig.folder))


def test_a_worker_is_killed(rig: Rig) -> None:
    with Site(rig) as site:
        site.editors()
        site.stream()
        name, worker = site.holder()
        kill(worker)
        site.crowd.answered()
        assert [error["data"]["reason"] for error in site.errors] == ["worker lost"] * 4
        site.prompt()
        assert site.holder()[0] != name
        assert loads(site) >= 4


def test_a_gateway_is_killed(rig: Rig) -> None:
    with Site(rig, gateways=2) as site:
        site.editors()
        site.stream()
        kill(site.gateways["gateway1"].process)
        site.crowd.until(lambda: len(site.errors) == 2, "the end of the turns over `connect`")
        site.gateway("gateway1")
        site.crowd.until(lambda: site.crowd.linked, "the editor that connects by itself")
        site.end()
        site.prompt()


def test_a_gateway_is_killed_and_another_one_is_there(rig: Rig) -> None:
    with Site(rig, gateways=2) as site:
        site.connect()
        site.crowd.begin()
        site.stream()
        kill(site.gateways["gateway1"].process)
        site.crowd.until(lambda: site.errors, "the end of the turn")
        [turn] = site.crowd.ledger.turns
        said = turn.updates
        site.crowd.until(lambda: turn.updates > said, "what was missed of it, and what follows")
        (rig.folder / "gate-1").touch()
        site.prompt()


def test_a_worker_stands_still_and_comes_back_as_a_zombie(rig: Rig) -> None:
    with Site(rig) as site:
        site.editors()
        site.stream()
        name, worker = site.holder()
        with stopped(worker.process.pid):
            site.crowd.answered()
            assert len(site.errors) == 4
            site.prompt()
        worker.until_stderr("another worker has the room")
        site.prompt()
        assert site.holder()[0] != name


@needs_namespaces
def test_a_worker_is_cut_off_from_nats_but_not_from_its_agents(rig: Rig) -> None:
    with Site(rig) as site:
        site.editors()
        site.stream()
        name, worker = site.holder()
        site.machine(name).cut()
        site.crowd.answered()
        assert len(site.errors) == 4
        site.prompt()
        site.machine(name).restore()
        worker.until_stderr("another worker has the room")
        site.prompt()
        assert [other for other, _ in [site.holder()]] != [name]


@needs_namespaces
def test_a_gateway_is_cut_off_from_nats_and_comes_back_with_an_old_epoch(rig: Rig) -> None:
    with Site(rig, gateways=2) as site:
        site.socket("gateway1")
        site.socket("gateway2")
        site.crowd.begin()
        site.stream()
        _, worker = site.holder()
        node = site.machine("nats1")
        site.machine("gateway1").part(node)
        site.gateways["gateway1"].process.until_stderr("NATS is away")
        kill(worker)  # the room gets another epoch, of which this gateway hears nothing
        site.crowd.until(lambda: len(site.errors) == 1, "the turn over the other gateway")
        site.machine("gateway1").join(node)
        site.crowd.answered()
        assert len(site.errors) == 2
        site.prompt()


@pytest.mark.parametrize("how", ["killed", "still"])
@pytest.mark.parametrize("which", ["worker", "gateway", "leader"])
def test_a_nats_server_is_lost(rig: Rig, which: str, how: str) -> None:
    with Site(rig, nodes=3) as site:
        site.editors()
        site.stream()
        name, worker = site.holder()
        places = {"worker": name, "gateway": "gateway1"}
        leads = site.nats.leader("KV_rooms")
        node = leads if which == "leader" else used_by(site, places[which])
        parts = {name: worker, "gateway1": site.gateways["gateway1"].process}
        moved = [part for one, part in parts.items() if used_by(site, one) == node]
        lost = site.nats.nodes[node]
        (lost.kill if how == "killed" else lost.pause)()
        for part in moved:
            part.until_stderr("NATS is there again")
        site.goes_on()
        site.end()
        site.prompt()
        assert site.errors == []
        assert site.holder()[0] == name


def test_the_leader_of_the_leases_is_killed_and_then_a_worker(rig: Rig) -> None:
    with Site(rig, nodes=3) as site:
        site.editors()
        site.stream()
        name, worker = site.holder()
        site.nats.nodes[site.nats.leader("KV_rooms")].kill()
        site.goes_on()
        kill(worker)
        site.crowd.answered()
        while site.crowd.ledger.counts["results"] == 0:  # an election takes its time
            for editor in site.crowd.editors:
                for session in editor.sessions:
                    editor.prompt(session)
            site.crowd.answered()
        site.prompt()
        assert site.holder()[0] != name


def used_by(site: Site, machine: str) -> int:
    """The NATS server that the part on a machine is connected to."""
    kind = f"conductor {machine.rstrip('0123456789')}"
    found = [
        number
        for number, node in enumerate(site.nats.nodes)
        for one in node.ask("/connz").get("connections", [])
        if one.get("name") == kind and one.get("ip") == site.machine(machine).address
    ]
    return found[0]


def test_nats_is_away_and_everything_goes_on_with_the_same_epochs(rig: Rig) -> None:
    with Site(rig) as site:
        site.editors()
        site.stream()
        name, worker = site.holder()
        site.nats.kill()
        worker.until_stderr("NATS is away")
        site.gateways["gateway1"].process.until_stderr("NATS is away")
        late = site.socket()
        late.begin()
        site.crowd.until(lambda: late.refusals, "the named error for a new client")
        assert "NATS" in late.refusals[0]["message"]
        late.comes_back = False
        late.close()
        site.crowd.editors.remove(late)
        site.nats.start()
        site.goes_on()
        site.end()
        site.prompt()
        assert site.errors == []
        assert site.holder()[0] == name


def test_a_rolling_upgrade_loses_no_turn(rig: Rig) -> None:
    with Site(rig) as site:
        site.editors()
        site.stream()
        name, worker = site.holder()
        os.kill(worker.process.pid, signal.SIGTERM)
        site.goes_on()
        site.end()
        assert worker.exit_code() == 0, worker.story()
        site.prompt()
        assert site.errors == []
        assert site.holder()[0] != name
