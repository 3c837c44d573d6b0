"""The official SDKs over HTTP and WebSocket: clients of conductor, and servers it is a client of.

Each pair has to do what the table of docs/remote.md says; `python -m tests.e2e.peers.remote` writes
that table. The pairs with TypeScript need Node, those with Rust a program that takes minutes to
build (`python -m tests.e2e.peers.remote.build`).
"""

from collections.abc import Iterator

import pytest

from tests.e2e.peers.npm import install, link_scripts, node_tools
from tests.e2e.peers.remote import table
from tests.e2e.peers.remote.peers import CHAIN, CONNECT, HERE, OURS, PAIRS, MissingError, Peers
from tests.e2e.peers.remote.scenario import expected, outcome
from tests.e2e.peers.remote.table import Column, Pair

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

ROWS = [(pair, column) for pair in PAIRS for column in table.COLUMNS]


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """How to start the peers; afterwards no process they started may be left."""
    node = scripts = None
    tools = node_tools()
    if tools is not None:
        node = tools[0]
        folder = tmp_path_factory.mktemp("remote-scripts")
        scripts = link_scripts(install(tools[1], HERE), folder, HERE)
    made = Peers(node, scripts, tmp_path_factory.mktemp("remote"))
    yield made
    assert made.leftovers() == []


def _named(value: object) -> str:
    return (
        "-".join(str(word).replace(" ", "_") for word in value) if isinstance(value, tuple) else ""
    )


@pytest.mark.parametrize(("pair", "column"), ROWS, ids=_named)
def test_a_pair_does_what_the_page_says(peers: Peers, pair: Pair, column: Column) -> None:
    client, server = pair
    profile, kind = column
    try:
        with peers.server(server, profile) as address:
            seen = peers.play(client, address, kind)
    except MissingError as error:
        pytest.skip(str(error))

    assert outcome(seen, kind) == table.written()[pair, column], seen
    if profile == "ws" and not seen.error:  # one link: what was replayed comes before the answer
        assert seen == expected(kind)


def test_the_page_has_a_row_for_each_pair_and_all_work_with_our_server() -> None:
    cells = table.written()

    assert list(cells) == ROWS
    assert {said for (pair, _), said in cells.items() if pair[1] == OURS} == {"ok"}
    ours = {said for (pair, _), said in cells.items() if pair[0] in (CONNECT, CHAIN)}
    assert "hangs" not in ours
