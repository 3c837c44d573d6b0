"""The events of a storm, step by step, and the calm after them."""

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from conductor.core import Recall, Resolve, Serve
from conductor.core.service_table import RELAYED
from conductor.run.segment_spec import Relayed
from tests.harness.world.ends import CANCEL, PROMPT
from tests.harness.world.storm import ENDS, GONE, PEERS, Node, Storm
from tests.harness.world.storm_lines import ODD_LINES, call_of


def step(storm: Storm, seed: int) -> None:
    """Anything happens."""
    storm.rng = rng = Random(seed)  # noqa: S311
    happens = rng.random() * (0.73 if storm.weather.plain else 1)
    there = [node for node in storm.nodes.values() if node.name not in storm.away]
    if happens < 0.28:
        beside = PEERS if storm.weather.ports or storm.weather.moves else ()
        storm.begins(storm.nodes[rng.choice(("client", "client", "agent", *beside))])
    elif happens < 0.55:
        busy = [*(node for node in there if node.inbox and node.host is None)]
        hosts = [host for host in storm.hosts.values() if host.inbox]
        if busy or hosts:
            at = rng.randrange(len(busy) + len(hosts))
            if at < len(busy):
                storm.reads(busy[at])
            else:
                storm.host_reads(hosts[at - len(busy)])
    elif happens < 0.7:
        open_ = [node for node in there if node.given]
        if open_:
            node = rng.choice(open_)
            storm.acts(node, rng.choice(list(node.given)), honest=rng.random() < 0.5)
    else:
        guests = [node for node in there if not node.is_end]
        talks = storm.weather.free and rng.random() < 0.6
        rng.choice((own, call) if talks else EVENTS)(storm, rng.choice(guests) if guests else None)
    for name in storm.fatal:
        if name in storm.nodes and not storm.nodes[name].is_end:
            _bypass(storm, name)
    storm.fatal.clear()


# -- events: each of a storm, and of a guest that is there, if one is ---------------------------


def wake(storm: Storm, guest: Node | None) -> None:
    """A deadline comes, and later perhaps once more."""
    if storm.wakes:
        token = storm.wakes.pop(storm.rng.randrange(len(storm.wakes)))
        storm.woken.append(token)
        storm.perform(storm.router.woken(token))


def wake_again(storm: Storm, guest: Node | None) -> None:
    """A wake that has come comes again."""
    if storm.woken:
        storm.perform(storm.router.woken(storm.rng.choice(storm.woken)))


def leave(storm: Storm, guest: Node | None) -> None:
    """A guest ends, and will be started again."""
    if guest is None or guest.name.endswith("/successor"):
        return
    if guest.host is not None:
        guest.host.guests[guest.name].dies = True
    elif _plain(guest) and storm.router.has_role(guest.name):
        storm.renew(guest.name)
        storm.away.add(guest.name)
        storm.perform(storm.router.leaving(guest.name, GONE))


def _plain(guest: Node) -> bool:
    """Whether the component has one connection, and so may end without the chain."""
    return guest.drawn is not None and guest.drawn.kind != "scp"


def come_back(storm: Storm, guest: Node | None) -> None:
    """A component that was to be started again comes back."""
    if storm.away:
        storm.comes_back(storm.rng.choice(sorted(storm.away)))


def agent_leaves(storm: Storm, guest: Node | None) -> None:
    """The agent ends, and will be started again if it may."""
    if "agent" in storm.away or not storm.weather.revived:
        return
    if storm.router.refuses_return("agent") is None:
        storm.nodes["agent"] = Node("agent")
        storm.away.add("agent")
        storm.perform(storm.router.leaving("agent", GONE))


def bypass(storm: Storm, guest: Node | None) -> None:
    """The chain goes on without a guest."""
    if guest is not None and storm.rng.random() < 0.3 and _plain(guest):
        _bypass(storm, guest.name)


def _bypass(storm: Storm, name: str) -> None:
    node = storm.nodes[name]
    if node.host is None and _plain(node):
        del storm.nodes[name]
        storm.away.discard(name)
        storm.perform(storm.router.bypassed(name, GONE))


def pause(storm: Storm, guest: Node | None) -> None:
    """A guest is paused, or resumed."""
    paused = storm.rng.random() < 0.5
    if guest is None:
        return
    if guest.host is not None:
        storm.from_host(guest.host, guest.host.pauses([guest.name] if paused else []))
    elif storm.router.quiet():
        storm.perform(storm.router.pause(guest.name, paused=paused))


def hold(storm: Storm, guest: Node | None) -> None:
    """The client's prompts wait."""
    storm.router.hold()
    storm.holds += 1


def release(storm: Storm, guest: Node | None) -> None:
    """A hold ends: the messages wait no longer."""
    if storm.holds:
        storm.holds -= 1
        storm.perform(storm.router.release())


def refuse(storm: Storm, guest: Node | None) -> None:
    """A request for somebody, or a result, is refused by the transport."""
    for node in storm.nodes.values():
        if node.program is not None or node.host is not None:
            continue
        for line in node.inbox:
            body = line[1:] if node.is_end else line
            if line[:1] != b"c" and (b'"method":' in line or b'"result":' in line):
                node.inbox.remove(line)
                storm.perform(storm.router.undeliverable(node.name, body, "too long"))
                return


def skip(storm: Storm, guest: Node | None) -> None:
    """An answer is too long to be taken."""
    for node in storm.nodes.values():
        if node.program is not None or node.host is not None or node.name in storm.away:
            continue
        for key in list(node.given):
            del node.given[key]
            tag = b"" if node.is_end else key[0].encode()
            head = tag + b'{"jsonrpc":"2.0","id":%b,"result":{"' % key[1].encode()
            storm.perform(storm.router.skipped(node.name, head, "too long"))
            return


def expire(storm: Storm, guest: Node | None) -> None:
    """Somebody has not answered in time: not its own start, of which it ends (`leave`)."""
    names = [n for n, node in storm.nodes.items() if n not in storm.away and node.host is None]
    name = storm.rng.choice(names)
    late = [key for key, method in storm.router.waiting_on(name) if method != "initialize"]
    if late:
        storm.perform(storm.router.expire(name, storm.rng.choice(sorted(late)), GONE))


def end_turn(storm: Storm, guest: Node | None) -> None:
    """Nothing moves in a turn of the agent."""
    late = [key for key, method in storm.router.waiting_on("agent") if method == PROMPT]
    late += storm.router.turns("agent")
    if late:
        storm.perform(storm.router.end_turn("agent", storm.rng.choice(sorted(late)), GONE))


def rearrange(storm: Storm, guest: Node | None) -> None:
    """The chain gets other components, mostly between two messages."""
    if storm.away or storm.weather.hosts or storm.over:
        return
    if storm.router.quiet() or storm.rng.random() < 0.1:
        storm.rearranges()


def own(storm: Storm, guest: Node | None) -> None:
    """A guest says something of its own."""
    if guest is not None:
        storm.begins(guest)


def call(storm: Storm, guest: Node | None) -> None:
    """A guest calls a service, perhaps for a turn."""
    if guest is None:
        return
    name, params = call_of(storm.rng, guest.turns, guest.digests, guest.sessions)
    if storm.weather.moves and storm.rng.random() < 0.6:
        held = [one.params.get("sessionId") for one in guest.given.values()
                if one.method == PROMPT and isinstance(one.params, dict)]  # fmt: skip
        to = storm.rng.choice(("agent", *PEERS))
        name, params = "agent/use", {"sessionId": storm.rng.choice(held or ["S"]), "agent": to}
    if name == "turn/end" and params["turn"] in guest.turns:
        guest.turns.remove(params["turn"])
    guest.last += 1
    id_ = f"call-{guest.last}"
    side = "c" if guest.program is None else "p"
    guest.asked[side, f'"{id_}"'] = [None]
    storm.say(guest, "c", {"id": id_, "method": name, "params": params})


def port(storm: Storm, guest: Node | None) -> None:
    """A guest says something to a peer agent."""
    if guest is None or guest.program is not None or not storm.weather.ports or storm.weather.moves:
        return
    guest.last += 1
    id_ = f"port-{guest.last}"
    method = storm.rng.choice(("session/new", PROMPT, PROMPT, "session/cancel", "_x"))
    inner: dict[str, Any] = {"cwd": "/w", "mcpServers": []}
    if method != "session/new":
        inner = {"sessionId": "N", "prompt": [{"type": "text", "text": "hi"}]}
    params = {"peer": storm.rng.choice((*PEERS, "nobody")), "method": method, "params": inner}
    message: dict[str, Any] = {"method": "proxy/successor", "params": params}
    if method != "session/cancel":
        guest.asked["s", f'"{id_}"'] = [None]
        message["id"] = id_
    storm.say(guest, "s", message)


def stray(storm: Storm, guest: Node | None) -> None:
    """A guest answers a request that it was not given."""
    if guest is not None:
        side, id_ = storm.rng.choice("ps"), storm.rng.randrange(20)
        if (side, str(id_)) not in guest.given:
            storm.say(guest, side, {"id": id_, "result": {}})


def too_late(storm: Storm, guest: Node | None) -> None:
    """A guest says something about a request that it has answered."""
    if guest is None or not guest.past:
        return
    key, held = storm.rng.choice(guest.past)
    match storm.rng.randrange(4):
        case 0 if key not in guest.given:
            storm.say(guest, key[0], {"id": json.loads(key[1]), "result": {"late": 1}})
        case 1 if held.passed is not None:
            params = {"requestId": json.loads(held.passed[1])}
            storm.say(guest, held.passed[0], {"method": CANCEL, "params": params})
        case _:
            storm.passes_on(guest, key, held, changed=storm.rng.random() < 0.5)


def babble(storm: Storm, guest: Node | None) -> None:
    """Somebody says something strange."""
    node = guest if storm.rng.random() < 0.6 else storm.nodes[storm.rng.choice(ENDS)]
    if node is not None and node.name not in storm.away:
        side = storm.rng.choice((b"p", b"s", b"c")) if not node.is_end else b"p"
        storm.says(node, side + storm.rng.choice(ODD_LINES))


def serve(storm: Storm, guest: Node | None) -> None:
    """Performs the calls of services."""
    calls, storm.calls = storm.calls, []
    for one in calls:
        match one:
            case Serve(peer, service, int(token), params) if service == RELAYED:
                relay(storm, peer, token, params)
            case Serve(_, _, int(token)) if storm.rng.random() < 0.2:
                error = b'{"code":1,"message":"no"}'
                storm.perform(storm.router.served(token, None, error))
            case Serve(_, _, int(token)):
                storm.perform(storm.router.served(token, b"{}"))
            case Resolve(_, token, folders, theirs):
                storm.perform(storm.router.resolved(token, folders, theirs))
            case Recall(_, token):
                storm.perform(storm.router.recalled(token, [*storm.records]))


def relay(storm: Storm, host: str, token: int, params: bytes | None) -> None:
    """Performs a call that a host relays."""
    relayed = msgspec.json.decode(params or b"{}", type=Relayed)
    if relayed.method in ("turn/begin", "turn/end", "rebind"):
        raw = bytes(relayed.params)
        storm.perform(storm.router.relayed(host, relayed.component, relayed.method, raw, token))
    else:
        storm.perform(storm.router.served(token, b"{}"))


def conductor(storm: Storm, guest: Node | None) -> None:
    """The conductor asks or tells somebody something."""
    match storm.rng.randrange(5):
        case 0:
            storm.asks += 1
            storm.perform(storm.router.ask("elicitation/create", b'{"x":1}', storm.asks))
        case 1:
            storm.perform(storm.router.notice("S", "a notice") or [])
        case 2 if guest is not None and guest.host is None:
            storm.perform(storm.router.tell(guest.name, "timer/fired", b'{"timer":"1"}'))
        case 3 if guest is not None and guest.host is None:
            storm.perform(storm.router.reconfigure(guest.name, b'{"config":{"x":2}}'))
        case 4:
            storm.router.reserve(["reserved"])


def time_passes(storm: Storm, guest: Node | None) -> None:
    """Time passes in the hosts."""
    for host in list(storm.hosts.values()):
        storm.from_host(host, host.passes(storm.rng.choice((0.5, 5.0, 60.0))))


def peer_ends(storm: Storm, guest: Node | None) -> None:
    """A peer agent ends."""
    if (storm.weather.ports or storm.weather.moves) and storm.rng.random() < 0.3:
        storm.perform(storm.router.closed(storm.rng.choice(PEERS), GONE))


EVENTS: Final[tuple[Callable[[Storm, Node | None], Any], ...]] = (
    wake, wake, wake_again, leave, come_back, come_back, bypass, pause, hold, release, release,
    refuse, skip, expire, end_turn, rearrange, own, own, own, call, call, call, stray, serve,
    babble, too_late, too_late, port, conductor, time_passes, agent_leaves, peer_ends,
)  # fmt: skip


# -- and then ----------------------------------------------------------------------------------


def calms(storm: Storm) -> None:
    """All are there again and honest, and time passes."""
    storm.calm, storm.rng = True, Random(storm.salt)  # noqa: S311
    while storm.holds:
        release(storm, None)
    for name in sorted(storm.away):
        storm.comes_back(name)
    for at in range(40):
        for node in list(storm.nodes.values()):
            if node.host is not None:
                continue
            storm.reads(node, honest=True)
            for key, held in list(node.given.items()):
                if key in node.given and held.passed not in node.asked:
                    held.passed = None
                    storm.acts(node, key, honest=True)
        for host in list(storm.hosts.values()):
            storm.host_reads(host)
        if storm.weather.version == 2:
            ends_turns(storm)
        serve(storm, None)
        for _ in range(len(storm.wakes) if at % 2 else 0):
            wake(storm, None)
        if at % 8 == 7:
            time_passes(storm, None)


def ends_turns(storm: Storm) -> None:
    """Version 2: the agent has done all that it was asked for."""
    for name in ("agent", *(PEERS if storm.weather.moves else ())):
        agent = storm.nodes[name]
        for session in ("", "S", "T", *agent.sessions):
            update = {"sessionUpdate": "state_update", "state": "idle"}
            params = {"sessionId": session, "update": update}
            storm.say(agent, "p", {"method": "session/update", "params": params})
        agent.sessions.clear()


def ends(storm: Storm) -> None:
    """The chain ends, whatever is open."""
    router, names = storm.router, [n for n, one in storm.nodes.items() if one.host is None]
    match storm.salt % 4:
        case 0:
            storm.perform(router.abandon(GONE))
        case 1:
            storm.perform(router.overdue("too late", "wait longer")[1])
        case 2:
            storm.perform(router.upstream_ended(GONE))
            names.reverse()
    for name in names:
        if name in storm.nodes:
            storm.perform(router.settled(name))
            storm.perform(router.closed(name, GONE))
