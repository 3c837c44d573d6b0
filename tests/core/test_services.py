"""Calls of proxies to the conductor itself."""

import json
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from conductor.core import DIALECTS, Closure, Component, Reached, Send, Serve
from conductor.core.accounts import Allowance
from conductor.core.component import MOST_KEPT, KeptMembers
from conductor.core.json_text import read_members, write_members
from conductor.core.router import LAST_WORDS, Router
from conductor.core.service_table import CALLS, granted_names
from conductor.core.services import configuration
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import (
    agent_mode,
    agent_only,
    begin_acp,
    component,
    error,
    notification,
    proxy_mode,
    request,
    result,
)


def test_a_guest_asks_on_side_c() -> None:
    with proxy_mode("channel", "channel") as pb:
        pb >> ("p", "c", request(1, "clock", {"a": 1.5})) << Serve("p", "clock", 1, b'{"a": 1.5}')
        pb >> ("p", "c", request(1, "clock")) << Noted("warning", "p", "still in use")
        pb << ("p", "c", error(None, -32600, "request id 1 is still in use"))
        pb >> ("p", "c", notification("log", {})) << Serve("p", "log", None, b"{}")
        pb >> (lambda r: r.served(1, b'{"iso": 1.10}'))
        pb << ("p", b'c{"jsonrpc":"2.0","id":1,"result":{"iso": 1.10}}')
        pb >> ("p", "c", request(1, "random")) << Serve("p", "random", 2, None)
        pb >> (lambda r: r.served(2, None, b'{"code":1,"message":"x"}'))
        pb << ("p", "c", error(1, 1, "x"))
        pb >> ("p", "c", request(1.5, "clock")) << Noted("warning", "p", "request id")
        pb << ("p", "c", error(None, -32600, Hole("text")))


def test_others_ask_by_method_and_the_answer_keeps_to_their_side() -> None:
    with proxy_mode("channel", "channel") as pb:
        pb >> ("p", "s", request(1, "_conductor/clock")) << Serve("p", "clock", 1, None)
        assert pb.router.pending("p") == 1
        pb >> (lambda r: r.served(1, b"5")) << ("p", "s", result(1, 5))
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("p", request(1, "_conductor/clock")) << Serve("p", "clock", 1, None)
        pb >> ("p", request(2, "proxy/successor", {"method": "_conductor/log"}))
        pb << Serve("p", "log", 2, None)
        pb >> (lambda r: r.served(2, b"null")) << ("p", result(2, None))
        pb >> (lambda r: r.served(1, None)) << ("p", error(1, -32603, Hole("text")))
        assert pb.values["text"] == "service `_conductor/clock` had no answer"
        pb >> ("p", notification("_conductor/log", [])) << Serve("p", "log", None, b"[]")


def granted(*names: str, denied: str = "") -> Router:
    by = {denied: "command line"} if denied else {}
    one = component("p", "channel", services=frozenset(names))
    return Router([replace(one, denied=by), Component("agent")])


@pytest.mark.parametrize("call", [each for each in CALLS.values() if each.grant])
def test_no_hint_offers_what_is_denied(call: Any) -> None:
    verb = call.grant.partition(":")[0]
    with Playbook(granted(denied=verb)) as pb:
        text = f"hint: leave out `deny={verb}` (command line), which takes `{call.grant}`"
        pb >> ("p", "c", notification(call.name)) << Noted("info", "p", text)
    with Playbook(granted(denied="see:replies")) as pb:
        text = f"hint: `,allow={call.grant}` lets it"
        pb >> ("p", "c", notification(call.name)) << Noted("info", "p", text)


@pytest.mark.proves("from a proxy to the conductor", "services")
@pytest.mark.parametrize(
    ("services", "name", "text"),
    [
        ((), "clock", "is not granted to proxy `p`\nhint: `,allow=clock` lets it"),
        (("random",), "clock", "is not granted"),
        (("clock",), "fetch", "`web` is not granted to proxy `p`\nhint: `,allow=web:HOST` lets it"),
        (
            ("clock",),
            "kv/get",
            "`storage` is not granted to proxy `p`\nhint: `,allow=storage` lets it",
        ),
        (("files",), "files", "no service `files`"),
        (("storage",), "kv/steal", "no service `kv/steal`"),
        ((), "service", "no service `service`"),
        ((), LAST_WORDS, "no service `failed`"),
        ((), "$/cancel_request", "no service"),
    ],
)
def test_ungranted_services_are_refused_by_name(
    services: tuple[str, ...], name: str, text: str
) -> None:
    with Playbook(granted(*services)) as pb:
        pb >> ("p", "c", request(1, name)) << Noted("info", "p", text)
        data = {"service": CALLS[name].service if name in CALLS else name}
        pb << ("p", "c", error(1, -32601, Hole("text"), data))
        assert text in pb.values["text"]
        pb >> ("p", "c", notification(name)) << Noted("info", "p", text)


@pytest.mark.parametrize(
    ("granted_too", "params", "where", "why"),
    [
        (
            False,
            {"url": "https://a.example/"},
            "https://a.example/",
            "service `web` is not granted",
        ),
        (False, {"url": 7}, "", "service `web` is not granted"),
        (False, None, "", "service `web` is not granted"),
        (True, {"url": "https://a.example/", "text": "x" * 5_000_000}, "https://a.exa", "at most"),
    ],
)
def test_what_was_kept_from_reaching_out_is_reported(
    granted_too: bool, params: object, where: str, why: str
) -> None:
    router = granted(*(["web"] if granted_too else []))
    with Playbook(router) as pb:
        sent = notification("fetch", params) if params is not None else notification("fetch")
        effects = router.receive("p", b"c" + json.dumps(sent).encode())
        (kept,) = [one for one in effects if isinstance(one, Reached)]
        assert pb.effects == []
    assert (kept.peer, kept.what) == ("p", "fetch")
    assert kept.where.startswith(where)
    assert bool(kept.where) == bool(where)
    assert why in kept.refused


@pytest.mark.parametrize(
    ("services", "name"),
    [
        ((), "log"),
        ((), "metric"),
        (("clock",), "clock"),
        (("storage",), "kv/get"),
        (("read", "web"), "fetch"),
        ((LAST_WORDS,), LAST_WORDS),
    ],
)
def test_granted_services_are_served(services: tuple[str, ...], name: str) -> None:
    with Playbook(granted(*services)) as pb:
        pb >> ("p", "c", notification(name)) << Serve("p", name, None, None)


@pytest.mark.proves("from a proxy to the conductor")
def test_all_is_granted_where_nothing_is_said_except_last_words() -> None:
    with agent_mode("acp") as pb:
        pb >> ("p", notification("_conductor/random")) << Serve("p", "random", None, None)
        pb >> ("p", notification("_conductor/failed")) << Noted("info", "p", "no service")


@pytest.mark.parametrize("peer", ["client", "agent"])
def test_the_ends_may_not_ask(peer: str) -> None:
    with agent_only() as pb:
        text = "Method not found: `_conductor/clock` is for proxies only"
        pb >> (peer, request(1, "_conductor/clock", {})) << Noted("info", peer, text)
        pb << (peer, error(1, -32601, text, {"service": "clock"}))
        pb >> (peer, notification("_conductor/clock")) << Noted("info", peer, text)


def test_a_changed_configuration_is_told_now_and_at_every_start() -> None:
    router = Router([component("g", "channel", configure=b"{}"), component("p", None)], "proxy")
    with Playbook(router) as pb:
        pb >> (lambda r: r.reconfigure("g", b'{"a":1}'))
        pb << ("g", b'c{"jsonrpc":"2.0","method":"configure","params":{"a":1}}')
        pb >> (lambda r: r.reconfigure("p", b'{"a":2}'))  # it cannot be written to yet
        pb >> (lambda r: r.tell("p", "timer/fired", b"{}"))
        pb >> (lambda r: r.start())
        pb << ("g", b'c{"jsonrpc":"2.0","method":"configure","params":{"a":1}}')
        pb << ("p", b'{"jsonrpc":"2.0","method":"_conductor/configure","params":{"a":2}}')


def test_proxies_are_told_things_by_the_name_of_their_carrier() -> None:
    with proxy_mode("channel", "acp") as pb:
        pb >> (lambda r: r.tell("p", "timer/fired", b'{"timer":"t1"}'))
        pb << ("p", b'c{"jsonrpc":"2.0","method":"timer/fired","params":{"timer":"t1"}}')
    with begin_acp(agent_mode("acp")) as pb:
        pb >> (lambda r: r.tell("p", "timer/fired", b"{}"))
        pb << ("p", b'{"jsonrpc":"2.0","method":"_conductor/timer/fired","params":{}}')


def test_what_was_configured_can_be_asked_for() -> None:
    router = Router([component("g", "channel", configure=b'{"a":1.10}')], "proxy")
    with Playbook(router) as pb:
        pb >> ("g", "c", request(1, "config"))
        pb << ("g", b'c{"jsonrpc":"2.0","id":1,"result":{"a":1.10}}')
        pb >> ("g", "c", notification("config"))
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("p", request(1, "_proxy/config")) << ("p", result(1, {}))


def test_the_old_names_are_the_conductors_where_a_proxy_says_them_itself() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("p", notification("_proxy/log", {"message": "x"}))
        pb << Serve("p", "log", None, b'{"message": "x"}')
        pb >> ("p", request(1, "_proxy/metric", {"name": "n"}))
        pb << Serve("p", "metric", 1, b'{"name": "n"}')
        wrapped = {"method": "_proxy/log", "params": {}}
        pb >> ("p", notification("proxy/successor", wrapped))
        pb << ("agent", notification("_proxy/log", {}))
        pb >> ("agent", notification("_proxy/log", {}))
        pb << ("p", notification("proxy/successor", wrapped))


def test_what_narrows_a_grant_is_no_part_of_its_name() -> None:
    grants = {"clock", "read:**/AGENTS.md", "read:x:y", "web:http://a.org:80"}
    assert granted_names(grants) == {"clock", "read", "web"}


@pytest.mark.parametrize(
    ("configure", "instance", "run", "told"),
    [
        (b'{"name":"a"}', "", 1, b'{"name":"a"}'),
        (b'{"name":"a"}', "", 2, b'{"name":"a","instance":"1.2"}'),
        (b'{"name":"a"}', "", 3, b'{"name":"a","instance":"1.3"}'),
        (b'{"name":"a"}', "2", 1, b'{"name":"a","instance":"2"}'),
        (b'{"name":"a"}', "2", 2, b'{"name":"a","instance":"2.2"}'),
        (None, "", 2, None),
    ],
)
def test_who_is_started_again_is_told_which_instance_it_is(
    configure: bytes | None, instance: str, run: int, told: bytes | None
) -> None:
    held = Component("p", dialect=DIALECTS["channel"], configure=configure, instance=instance)
    router = Router([held, Component("agent")])
    sent = router.start()
    for _ in range(run - 1):
        router.leaving("p", Closure("gone"))
        sent = router.returned("p")
    line = [b'c{"jsonrpc":"2.0","method":"configure","params":%b}\n' % told] if told else []
    assert [one.frame for one in sent if isinstance(one, Send)][:1] == line


def test_changed_settings_leave_the_instance() -> None:
    held = Component("p", dialect=DIALECTS["channel"], configure=b'{"name":"a"}', instance="2.3")
    router = Router([held, Component("agent")])
    (sent,) = router.reconfigure("p", b'{"config":{}}')
    assert isinstance(sent, Send)
    assert b'"params":{"config":{},"instance":"2.3"}' in sent.frame
    first = Router([Component("p", dialect=DIALECTS["channel"]), Component("agent")])
    (sent,) = first.reconfigure("p", b'{"config":{}}')
    assert isinstance(sent, Send)
    assert b'"params":{"config":{}}' in sent.frame


def test_what_was_kept_is_told_to_a_later_instance() -> None:
    """Values are kept member by member; null drops a member. The first instance hears nothing."""
    held = Component(
        "p",
        dialect=DIALECTS["channel"],
        configure=b'{"name":"a"}',
        services=frozenset(),
        kept=b'{"a":1.10,"b":2}',
    )
    with Playbook(Router([held, Component("agent")])) as pb:
        peer = pb.router.peers["p"]
        assert configuration(peer) == b'{"name":"a"}'
        pb >> ("p", b'c{"jsonrpc":"2.0","method":"keep","params":{"c":[1.50],"b":null,"x":null}}')
        pb << Serve("p", "keep", None, b'{"c":[1.50],"b":null,"x":null}')
        pb >> ("p", "c", request(1, "keep", {"a": "new"}))
        pb << Serve("p", "keep", None, b'{"a": "new"}') << ("p", "c", result(1, {}))
        wrong = "`keep` takes an object: the value to keep"
        unfit: list[Any] = [[], None]
        for params in unfit:
            pb >> ("p", "c", request(2, "keep", params)) << Noted("warning", "p", wrong)
            pb << ("p", "c", error(2, -32602, wrong, {"service": "keep"}))
        pb >> ("p", "c", notification("keep")) << Noted("warning", "p", wrong)
        peer.starts = 2
        told = b'{"name":"a","instance":"1.2","kept":{"c":[1.50],"a":"new"}}'
        assert configuration(peer) == told


def test_a_program_without_settings_is_told_what_it_had_kept_all_the_same() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        peer = pb.router.peers["p"]
        peer.starts = 2
        assert configuration(peer) is None
        pb >> ("p", notification("_conductor/keep", {"a": 1}))
        pb << Serve("p", "keep", None, b'{"a": 1}')
        assert configuration(peer) == b'{"instance":"1.2","kept":{"a":1}}'
        peer.starts = 1
        assert configuration(peer) is None


def test_the_oldest_of_what_is_kept_goes_when_it_is_too_much() -> None:
    kept = KeptMembers()
    half = Raw(b'"%b"' % (b"x" * (MOST_KEPT // 2)))
    for name in ("a", "b", "a", "c"):
        assert kept.update(write_members({name: half}))
    assert list(read_members(kept.to_json()) or {}) == ["c"]
    assert kept.update(write_members({"huge": Raw(b'"%b"' % (b"x" * MOST_KEPT))}))
    assert not kept
    assert not kept.update(b"[]")
    assert kept.to_json() == b"{}"
    # As many as can be, which went on for minutes when each of the oldest was looked for anew.
    many = {f"{number}": Raw(b"1") for number in range(MOST_KEPT // 3)}
    assert kept.update(write_members(many))
    assert list(read_members(kept.to_json()) or {}) == list(many)[-(MOST_KEPT // 6) :]


def test_a_request_that_is_too_large_is_refused_before_it_is_read() -> None:
    """54 MB for `log` kept all neighbours waiting for 20 s; 4 million labels took 590 MB."""
    allowance = Allowance(service_bytes=100)
    one = Component("p", dialect=DIALECTS["channel"], allowance=allowance)
    most, more = b'"%b"' % (b"x" * 98), b'["%b"]' % (b"x" * 98)
    with Playbook(Router([one, Component("agent")])) as pb:
        for name in ("log", "metric", "timer/start", "clock", "random", "keep", "files/list"):
            wrong = (
                f"`{name}` takes at most 100 bytes of params (limit `service_bytes`), not 102\n"
                "hint: raise it with `,limit.service_bytes=102` behind the component"
            )
            asked = b'{"jsonrpc":"2.0","id":7,"method":"%b","params":%b}' % (name.encode(), more)
            pb >> ("p", b"c" + asked) << Noted("warning", "p", wrong)
            pb << (
                "p",
                "c",
                error(
                    7, -32602, wrong, {"service": CALLS[name].service if name in CALLS else name}
                ),
            )
        told = b'{"jsonrpc":"2.0","method":"log","params":%b}'
        pb >> ("p", b"c" + told % more) << Noted("warning", "p", "`log` takes at most 100 bytes")
        pb >> ("p", b"c" + told % most) << Serve("p", "log", None, most)
        value = b'{"key":"a","value":"%b"}' % (b"x" * 200_000)
        pb >> ("p", b'c{"jsonrpc":"2.0","method":"kv/set","params":%b}' % value)
        pb << Serve("p", "kv/set", None, value)
        much = b'["%b"]' % (b"x" * (CALLS["kv/set"].most or 0))
        pb >> ("p", b'c{"jsonrpc":"2.0","method":"kv/set","params":%b}' % much)
        pb << Noted("warning", "p", "hint: send less at a time")
