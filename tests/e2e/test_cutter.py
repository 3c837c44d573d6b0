"""The proxy that cuts links: where its cuts fall."""

import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.harness.process.cutter import DOWN, UP, Cutter, Where

HEAD = b"GET /acp HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"
PLAIN = b"POST /acp HTTP/1.1\r\n\r\n"
TEXT = b'{"method":"session/prompt"}'
MASK = b"\x01\x02\x03\x04"
MASKED = bytes(byte ^ MASK[at % 4] for at, byte in enumerate(TEXT))
FRAME = b"\x81" + bytes([0x80 | len(TEXT)]) + MASK + MASKED


class Ends:
    """A client and a server with the proxy between."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.cutter = Cutter(self._server.getsockname()[1])

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """The two ends of a new link."""
        client = socket.create_connection(("127.0.0.1", self.cutter.port), timeout=30)
        server, _ = self._server.accept()
        server.settimeout(30)
        return client, server

    def close(self) -> None:
        """Ends the proxy."""
        self.cutter.__exit__()
        self._server.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A client, a server and the proxy between."""
    with closing(Ends()) as made:
        yield made


def taken(end: socket.socket, size: int) -> bytes:
    """So many bytes, or fewer where the link is cut before."""
    data = b""
    while len(data) < size:
        try:
            more = end.recv(size - len(data))
        except ConnectionResetError:
            more = b""
        if not more:
            break
        data += more
    return data


@pytest.mark.parametrize(("where", "arrives"), [(Where.BEFORE, 0), (Where.WITHIN, len(FRAME) // 2)])
def test_a_cut_waits_for_a_masked_message(ends: Ends, where: Where, arrives: int) -> None:
    client, server = ends.pair()
    ends.cutter.when(UP, b"session/prompt", where)
    with client, server:
        client.sendall(HEAD)
        assert taken(server, len(HEAD)) == HEAD
        client.sendall(FRAME)
        # A reset may take away what has arrived just before.
        assert len(taken(server, len(FRAME))) in {0, arrives}
        assert taken(client, 1) == b""
    assert ends.cutter.made == 1
    assert ends.cutter.waiting == 0


def test_a_cut_waits_for_its_direction_and_for_texts_across_reads(ends: Ends) -> None:
    client, server = ends.pair()
    ends.cutter.when(DOWN, b"stopReason", Where.BEFORE)
    with client, server:
        client.sendall(PLAIN + b"stopReason")
        assert taken(server, len(PLAIN) + 10) == PLAIN + b"stopReason"
        server.sendall(b"HTTP/1.1 200 OK\r\n\r\n.stop")
        assert taken(client, 24) == b"HTTP/1.1 200 OK\r\n\r\n.stop"
        assert ends.cutter.waiting == 1
        server.sendall(b"Reason.")
        assert taken(client, 7) == b""


def test_links_are_refused_and_stand_still(ends: Ends) -> None:
    client, server = ends.pair()
    with client, server:
        client.sendall(b"a")
        assert taken(server, 1) == b"a"
        ends.cutter.freeze(True)
        client.sendall(b"b")
        ends.cutter.freeze(False)
        assert taken(server, 1) == b"b"
        ends.cutter.refuse(True)
        assert taken(server, 1) == b""
    # The reset may come while `connect` still waits, or after it.
    with (
        suppress(ConnectionResetError),
        socket.create_connection(("127.0.0.1", ends.cutter.port), timeout=30) as refused,
    ):
        assert taken(refused, 1) == b""
    ends.cutter.refuse(False)
    client, server = ends.pair()
    with client, server:
        client.sendall(b"c")
        assert taken(server, 1) == b"c"
    assert ends.cutter.links == 3
