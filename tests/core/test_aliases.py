"""Aliases as data, and as properties of a chain: every message comes back as it was, and a session
does not depend on another's aliases."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from conductor.core import Send
from conductor.core.aliases import NAMES, Aliases, of_json, renamed, to_json
from conductor.core.router import Router
from tests.core.policy.test_own_sessions import OWN, THERE, set_up
from tests.harness.router.policed import Hole, chain, request, result, stop, update

IDS = ("A", "B", "T", "U", "V")
ids = st.sampled_from(IDS)
binds = st.lists(st.tuples(ids, ids), max_size=8)
json_values = st.recursive(
    st.none() | st.integers() | ids | st.text(max_size=8) | st.just('"sessionId":"A"'),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*NAMES, "x", "a, ", "sessionId "]), inner, max_size=4)
    ),
    max_leaves=12,
)


def after(steps: list[tuple[str, str]]) -> Aliases:
    """The aliases after these calls."""
    aliases = Aliases()
    for session, to in steps:
        aliases = aliases.bind(session, to)
    return aliases


def read(value: Any, names: dict[str, str]) -> Any:
    """A message with other ids, by reading it as JSON."""
    if isinstance(value, list):
        return [read(one, names) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: names.get(held, held) if key in NAMES and isinstance(held, str) else read(held, names)
        for key, held in value.items()
    }


@settings(max_examples=200)
@given(binds, json_values, st.booleans(), st.sampled_from([None, (",", ":"), (" ,\t", " : ")]))
def test_any_message_is_renamed_as_a_parser_would_and_comes_back(
    steps: list[tuple[str, str]], value: Any, ascii_only: bool, separators: Any
) -> None:
    aliases = after(steps)
    text = json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode()
    below = renamed(text, aliases.down)
    assert json.loads(below) == read(value, dict(aliases.down))
    assert renamed(below, aliases.up) == text


@given(binds)
def test_aliases_are_a_permutation_that_is_kept_as_json(steps: list[tuple[str, str]]) -> None:
    aliases = after(steps)
    assert {below: above for above, below in aliases.down.items()} == aliases.up
    assert sorted(aliases.down) == sorted(aliases.up)
    for session, to in aliases.bound.items():
        assert aliases.down[session] == to
    again = of_json(Raw(to_json(aliases if aliases.down else None)))
    assert again == (aliases if aliases.down else None)


def test_names_and_ids_may_be_spelled_with_escapes() -> None:
    aliases = Aliases().bind("A", "T")
    text = rb'{"\u0073ession\u0049d":"\u0041","x":"\"sessionId\":\"A\"","sessionId":"\ud800"}'
    expected = rb'{"\u0073ession\u0049d":"T","x":"\"sessionId\":\"A\"","sessionId":"\ud800"}'
    assert renamed(text, aliases.down) == expected


# -- in a chain ------------------------------------------------------------------------------------

Event = tuple[str, str, str]
events: st.SearchStrategy[Event] = st.tuples(
    st.sampled_from(["up", "down", "own"]), st.sampled_from(["A", "B", "T", "U"]), st.just("")
) | st.tuples(st.just("rebind"), st.just("A"), st.sampled_from(["A", "T", "U"]))


def opened() -> Router:
    """A chain in which the user has the sessions A and B, and the component T and U."""
    with chain(**OWN) as pb:
        for id_ in ("A", "B"):
            set_up(pb, id_, "session/new", THERE, {"sessionId": id_})
        for id_ in ("T", "U"):
            pb >> ("g", "s", request(id_, "session/new", THERE))
            pb << ("agent", request(Hole(id_), "session/new", THERE))
            pb >> ("agent", result(Hole(id_), {"sessionId": id_}))
            pb << ("g", "s", result(id_, {"sessionId": id_}))
    return pb.router


def frames_of(session: str, script: list[Event], left_out: str = "") -> list[tuple[str, bytes]]:
    """The frames that client and agent get in a session during the script, without the events about
    the sessions `left_out`."""
    router, got = opened(), list[tuple[str, bytes]]()
    for number, (what, id_, to) in enumerate(script):
        if id_ in left_out:
            continue
        match what:
            case "up":
                name, said = "agent", update(f"{number}", id_)
            case "down":
                name, said = "client", stop(id_)
            case "own":
                name, said = "g", update(f"own {number}", id_)
            case _:
                name, said = "g", request(number, "rebind", {"sessionId": id_, "to": to})
        side = {"own": b"p", "rebind": b"c"}.get(what, b"")
        for effect in router.receive(name, side + json.dumps(said).encode()):
            if isinstance(effect, Send) and effect.peer in ("client", "agent"):
                params = json.loads(effect.frame).get("params", {})
                if params.get("sessionId") == session:
                    got.append((effect.peer, effect.frame))
    return got


@settings(max_examples=60)
@given(st.lists(events, max_size=14))
def test_a_session_does_not_depend_on_another_s_aliases(script: list[Event]) -> None:
    with_others = frames_of("B", script)
    assert with_others == frames_of("B", script, left_out="ATU")


@settings(max_examples=60)
@given(st.lists(events, max_size=14))
def test_the_client_hears_of_its_own_sessions_alone(script: list[Event]) -> None:
    router = opened()
    for number, (what, id_, to) in enumerate(script):
        if what == "rebind":
            said = request(number, "rebind", {"sessionId": id_, "to": to})
            router.receive("g", b"c" + json.dumps(said).encode())
        elif what == "up":
            frame = json.dumps(update("x", id_)).encode()
            out = [one for one in router.receive("agent", frame) if isinstance(one, Send)]
            now = router.peers["g"].s.aliases or Aliases()
            above = now.up.get(id_, id_)
            heard = [json.loads(one.frame) for one in out if one.peer == "client"]
            assert [one["params"]["sessionId"] for one in heard] == (
                [above] if above in ("A", "B") else []
            )
