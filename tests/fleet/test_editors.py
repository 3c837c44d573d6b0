"""The editors of the tests, at one server: they see what is answered twice, doubled, out of order
or of a dead life, and come back when their link was cut.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.fleet.editors import Crowd, Editor
from tests.harness.fleet.ledger import META, Ledger, records
from tests.harness.process.delay import Delay
from tests.harness.process.netns import World, world
from tests.harness.process.rig import Rig
from tests.harness.process.serving import Served

Json = dict[str, Any]


def agent(rig: Rig) -> str:
    """The numbering agent."""
    return rig.actor("numbering_agent", str(rig.folder), name="A")


def server(rig: Rig, here: World, port: int = 0) -> Served:
    """A server of numbering agents on a machine."""
    address = here["gateway"].address
    with here["gateway"].inside():
        names = ("--host", here["desk"].address)
        listens = ("--listen", f"ws://{address}:{port}", "--insecure", *names)
        return Served(rig.run("serve", agent(rig), *listens))


Join = Callable[["Rig", World, Crowd, str], Editor]


def by_socket(rig: Rig, here: World, crowd: Crowd, url: str) -> Editor:
    """An editor that connects by itself."""
    del rig
    return crowd.socket(here["desk"], url)


def by_connect(rig: Rig, here: World, crowd: Crowd, url: str) -> Editor:
    """An editor over `conductor connect`."""
    with here["desk"].inside():
        return crowd.pipe(rig.run("connect", url))


def by_chain(rig: Rig, here: World, crowd: Crowd, url: str) -> Editor:
    """An editor with a chain of its own, whose agent is the server."""
    with here["desk"].inside():
        return crowd.pipe(rig.agent(f"{url},name=far,on_failure=restart"))


WAYS = (by_socket, by_connect, by_chain)


@pytest.mark.parametrize("join", WAYS)
def test_turns_of_several_sessions_at_once(rig: Rig, join: Join) -> None:
    with world("desk", "gateway") as here, server(rig, here) as serves, Crowd() as crowd:
        editor = join(rig, here, crowd, f"{serves.address}")
        crowd.begin(sessions=3)
        for number in range(12):
            editor.prompt(editor.sessions[number % 3], updates=5, every=0.001, asks=number % 2)
            if number % 3 == 2:
                crowd.answered()
    crowd.ledger.close(rig.folder)
    assert crowd.ledger.faults == []
    assert crowd.ledger.counts == {"updates": 60, "results": 12}
    assert editor.asked == 6


@pytest.mark.parametrize("join", WAYS)
def test_a_cut_link_comes_back(rig: Rig, join: Join, tmp_path: Path) -> None:
    with (
        world("desk", "gateway") as here,
        server(rig, here) as serves,
        Delay(here["desk"], (here["gateway"].address, serves.port)) as between,
        Crowd() as crowd,
    ):
        editor = join(rig, here, crowd, f"ws://{between.address}:{between.port}/acp")
        crowd.begin()
        turn = editor.prompt(until=str(tmp_path / "go"), every=0.002)
        crowd.until(lambda: turn.updates > 3, "the stream")
        links = between.links
        between.cut()
        crowd.until(lambda: between.links > links, "another link")
        crowd.until(lambda: crowd.linked, "the session")
        (tmp_path / "go").touch()
        crowd.answered()
        editor.prompt()
        crowd.answered()
    crowd.ledger.close(rig.folder)
    assert crowd.ledger.faults == []
    assert crowd.ledger.counts["results"] == (1 if join is by_socket else 2)


@pytest.mark.parametrize("join", [by_socket, by_chain])
def test_a_server_that_is_killed_is_replaced(rig: Rig, join: Join, tmp_path: Path) -> None:
    with world("desk", "gateway") as here, Crowd() as crowd:
        port = here["gateway"].port()
        first = server(rig, here, port)
        editor = join(rig, here, crowd, first.address)
        crowd.begin(sessions=2)
        turns = [editor.prompt(one, until=str(tmp_path / "go")) for one in editor.sessions]
        crowd.until(lambda: all(turn.updates for turn in turns), "the streams")
        first.process.process.kill()
        first.process.process.wait()
        with server(rig, here, port):
            crowd.until(lambda: not crowd.ledger.open and crowd.linked, "the end of the turns")
            for one in editor.sessions:
                editor.prompt(one)
            crowd.answered()
    crowd.ledger.close(rig.folder)
    assert crowd.ledger.faults == []
    assert crowd.ledger.counts["results"] == 2
    loads = [one for one in records(rig.folder) if one["what"] == "load"]
    assert {one["session"] for one in loads} == set(editor.sessions)


# -- what the ledger finds ---------------------------------------------------------------------


def said(n: int, i: int, life: str = "one") -> str:
    """The text of an update."""
    return f'{{"life":"{life}","n":{n},"i":{i}}}'


def result(n: int, updates: int, life: str = "one") -> Json:
    """The answer to a prompt."""
    meta = {META: {"life": life, "n": n, "updates": updates}}
    return {"id": 1, "result": {"stopReason": "end_turn", "_meta": meta}}


@pytest.mark.parametrize(
    ("fault", "updates", "answers"),
    [
        ("", [(1, 1), (1, 2)], [result(1, 2)]),
        ("", [(1, 1)], [{"error": {"code": -32603}}]),
        ("answered 2 times", [(1, 1)], [result(1, 1), result(1, 1)]),
        ("no answer", [(1, 1)], []),
        ("update 1 behind 1", [(1, 1), (1, 1)], [result(1, 1)]),
        ("update 3 behind 1", [(1, 1), (1, 3)], [result(1, 3)]),
        ("1 of 2 updates came", [(1, 1)], [result(1, 2)]),
        ("which nobody sent", [(2, 1)], [result(1, 0)]),
        ("the answer to prompt 2", [], [result(2, 0)]),
        ("first of one, then of two", [(1, 1)], [result(1, 1, "two")]),
    ],
)
def test_the_ledger_finds_each_fault(
    fault: str, updates: list[tuple[int, int]], answers: list[Json], tmp_path: Path
) -> None:
    ledger = Ledger()
    ledger.opened("s")
    turn = ledger.prompted("s")
    for n, i in updates:
        ledger.update("s", said(n, i))
    for answer in answers:
        ledger.answered(turn, answer)
    (tmp_path / "lives").write_text('{"what":"end","life":"one","session":"s","n":1}\n')
    ledger.close(tmp_path)
    assert len(ledger.faults) == bool(fault), ledger.faults
    assert all(fault in text for text in ledger.faults)


def test_the_ledger_finds_a_dead_life_and_a_prompt_that_came_twice(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.opened("s")
    for life in ("one", "two"):
        turn = ledger.prompted("s")
        ledger.update("s", said(turn.n, 1, life))
        ledger.answered(turn, {"error": {}})
    ledger.update("s", said(1, 1))
    assert [text.partition(": ")[2] for text in ledger.faults] == [
        "one is dead, two came after it",
        "update 1 behind the answer",
    ]
    (tmp_path / "lives").write_text('{"what":"prompt","life":"one","session":"s","n":1}\n' * 2)
    ledger.close(tmp_path)
    assert ledger.faults[-1] == "prompt 1 of s: it reached agents 2 times"
