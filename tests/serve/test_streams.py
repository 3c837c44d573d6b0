"""The streams of an HTTP client."""

import pytest

from conductor.http.request import Refused
from conductor.serve.connections import MOVES, Event, Farewell, State
from conductor.serve.streams import Kept, Streams


async def opened() -> Streams:
    """Streams that are open."""
    streams = Streams(b"1", Kept())
    streams.send(b'{"jsonrpc":"2.0","id":1,"result":{}}', None)
    assert await streams.opening == (b'{"jsonrpc":"2.0","id":1,"result":{}}', False)
    return streams


async def test_the_answer_to_initialize_goes_into_its_body() -> None:
    streams = Streams(b'"1"', Kept())
    streams.send(b'{"jsonrpc":"2.0","method":"early"}', None)
    streams.send(b'{"jsonrpc":"2.0","id":1,"result":{}}', None)  # not its id
    assert not streams.opening.done()
    streams.send(b'{"jsonrpc":"2.0","id":"1","error":{}}', None)
    assert (await streams.opening)[1] is True
    events = await streams.read(None, None).take(0)
    assert events is not None
    assert len(events) == 2


async def test_a_session_without_a_reader_is_heard_on_the_connection() -> None:
    streams = await opened()
    own = streams.read(None, None)
    streams.send(b"a", "s")
    assert await own.take(0) == [b"id: 1\ndata: a\n\n"]
    reader = streams.read("s", None)
    streams.send(b"b", "s")
    streams.send(b"c", None)
    assert await reader.take(0) == [b"id: 1\ndata: b\n\n"]
    assert await own.take(0) == [b"id: 2\ndata: c\n\n"]
    streams.leave(reader)
    streams.send(b"d", "s")  # the reader may come back
    assert await own.take(0) == []
    assert await streams.read("s", None).take(0) == [b"id: 2\ndata: d\n\n"]


async def test_a_reader_comes_back() -> None:
    streams = await opened()
    reader = streams.read("s", None)
    for text in (b"a", b"b", b"c"):
        streams.send(text, "s")
    await reader.take(0)
    streams.send(b"d", "s")
    again = streams.read("s", 1)  # the former one is dead, and has not been noticed
    assert await reader.take(0) is None
    rest = [b"id: 2\ndata: b\n\n", b"id: 3\ndata: c\n\n", b"id: 4\ndata: d\n\n"]
    assert await again.take(0) == rest
    with pytest.raises(Refused):
        streams.read("s", 5)  # it has never been sent
    streams.leave(reader)
    assert streams.readers == 1


async def test_a_return_that_came_late_costs_nothing() -> None:
    streams = await opened()
    reader = streams.read(None, None)
    for frame in (b"a", b"b", b"c"):
        streams.send(frame, None)
    assert len(await reader.take(0) or ()) == 3
    streams.read(None, 1)  # sent before the client got the rest, and served only now
    reader = streams.read(None, 3)
    assert reader.after == 3
    assert await reader.take(0) == []
    streams.send(b"d", None)
    assert await reader.take(0) == [b"id: 4\ndata: d\n\n"]
    with pytest.raises(Refused):
        streams.read(None, 5)


async def test_what_may_be_on_its_way_is_kept_until_the_stream_is_quiet() -> None:
    streams = await opened()
    reader = streams.read(None, None)
    for _ in range(8):
        streams.send(b"x" * 1_000_000, None)
    while await reader.take(0):
        pass
    for _ in range(2):
        reader = streams.read(None, 0)
        assert reader.after == 0
        while await reader.take(0):
            pass
    for _ in range(4):
        assert await reader.take(0) == []
    with pytest.raises(Refused):
        streams.read(None, 0)
    assert streams.read(None, 7).after == 7


async def test_a_session_whose_first_reader_was_cut_is_heard_on_no_other_stream() -> None:
    streams = await opened()
    own = streams.read(None, None)
    streams.leave(streams.read("s", None))
    streams.send(b"a", "s")
    assert await own.take(0) == []
    assert await streams.read("s", 0).take(0) == [b"id: 1\ndata: a\n\n"]


async def test_too_many_sessions_that_nobody_knows() -> None:
    streams = await opened()
    readers = [streams.read(str(number), None) for number in range(16)]
    with pytest.raises(Refused) as refused:
        streams.read("one more", None)
    assert refused.value.status == 404
    streams.leave(readers[0])
    assert streams.read("one more", None)


async def test_numbers_of_messages() -> None:
    streams = await opened()
    assert [streams.fresh(number) for number in (1, 1, 3, 2, 3, 2, 4)] == [
        *(True, False, True, True, False, False, True)
    ]
    assert streams.fresh(None)
    assert all(streams.fresh(number) for number in range(100, 1124))
    with pytest.raises(Refused):
        streams.fresh(2000)


async def test_what_waits_leaves_before_the_end() -> None:
    streams = await opened()
    reader = streams.read(None, None)
    streams.send(b"a", None)
    assert streams.waiting == 1
    streams.close(Farewell.LEAVING)
    streams.send(b"b", None)
    assert await reader.take(0) == [b"id: 1\ndata: a\n\n"]
    assert await reader.take(0) is None


def test_the_moves_of_a_connection() -> None:
    assert {state for state, _ in MOVES} == {State.LINKED, State.CUT}
    assert all(MOVES[state, Event.CLOSE] is State.CLOSED for state in (State.LINKED, State.CUT))
    assert MOVES[State.CUT, Event.LINK] is State.LINKED
    assert (State.CUT, Event.CUT) not in MOVES


async def test_what_waits_is_counted_over_all_streams() -> None:
    streams = await opened()
    own, reader = streams.read(None, None), streams.read("s", None)
    streams.send(b"a" * 5, None)
    streams.send(b"b" * 7, "s")
    assert streams.waiting == 12
    assert await own.take(0) is not None
    assert streams.waiting == 7
    assert await reader.take(0) is not None
    assert streams.waiting == 0
    again = streams.read("s", 0)
    assert streams.waiting == 7
    assert await again.take(0) == [b"id: 1\ndata: bbbbbbb\n\n"]
    assert streams.waiting == 0


async def test_streams_of_sessions_that_nobody_reads_any_more_make_room() -> None:
    """A client may open sessions for as long as it lives."""
    streams = await opened()
    for number in range(3000):
        reader = streams.read(f"s{number}", None)
        streams.send(b"x", f"s{number}")
        assert await reader.take(0) is not None
        streams.leave(reader)
    with pytest.raises(Refused, match="the events after this one are gone"):
        streams.read("s0", 1)
    assert await streams.read("s2999", 0).take(0) == [b"id: 1\ndata: x\n\n"]


async def test_streams_that_still_have_something_are_not_forgotten() -> None:
    streams = await opened()
    for number in range(1024):
        reader = streams.read(f"s{number}", None)
        streams.send(b"x", f"s{number}")
        streams.leave(reader)
    with pytest.raises(Refused) as refused:
        streams.read("one more", None)
    assert refused.value.status == 404
    assert await streams.read("s0", None).take(0) == [b"id: 1\ndata: x\n\n"]


async def test_what_streams_keep_is_bounded_where_their_readers_have_left() -> None:
    streams = await opened()
    piece = b"x" * (1 << 20)
    for number in range(100):
        reader = streams.read(f"s{number}", None)
        streams.send(piece, f"s{number}")
        assert await reader.take(0) is not None
        streams.leave(reader)
    assert streams.kept <= 64 << 20
    with pytest.raises(Refused):
        streams.read("s0", 1)
    assert await streams.read("s99", 0).take(0) is not None


@pytest.mark.proves("60 streams of one principal that")
async def test_what_all_clients_of_a_principal_keep_is_bounded() -> None:
    kept = Kept()
    clients = [Streams(b"1", kept) for _ in range(20)]
    readers = [one.read("s", None) for one in clients]
    for _ in range(24):
        for one, reader in zip(clients, readers, strict=True):
            one.send(b"x" * 500_000, "s")
            assert await reader.take(0)
    assert kept.size == sum(one.kept for one in clients) < 128 << 20
    for one, reader in zip(clients, readers, strict=True):
        one.send(b"x" * 500_000, "s")
        one.close(Farewell.LEFT)
        assert await reader.take(0)
        one.leave(reader)
    assert kept.size == 0
