"""A reader gives memory back when large chunks have ceased to come."""

from __future__ import annotations

import asyncio
import os

import pytest

from conductor.transports import fds

LARGE = b"x" * (fds._CHUNK - 1) + b"\n"


def test_memory_is_given_back_after_large_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> list[int]:
        given = asyncio.Event()
        monkeypatch.setattr(fds, "give_back", given.set)
        source, sink = os.pipe()
        seen: list[int] = []
        reader = fds.FdReader(
            source,
            1024 * 1024,
            lambda lines: seen.append(sum(map(len, lines))),
            lambda head, limit: None,
            lambda error: None,
        )
        try:
            for _ in range(2):  # the second time it has to be armed anew
                given.clear()
                reader.pause()
                assert os.write(sink, LARGE) == len(LARGE)  # a pipe holds no less
                reader.resume()
                await asyncio.wait_for(given.wait(), 30)
        finally:
            reader.close()
            os.close(sink)
        return seen

    assert sum(asyncio.run(scenario())) == 2 * (len(LARGE) - 1)


def test_small_ones_leave_nothing_to_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> bool:
        monkeypatch.setattr(fds, "give_back", lambda: None)
        source, sink = os.pipe()
        came = asyncio.Event()
        reader = fds.FdReader(
            source, 1024, lambda lines: came.set(), lambda head, limit: None, lambda error: None
        )
        try:
            os.write(sink, b"{}\n")
            await asyncio.wait_for(came.wait(), 30)
            return reader._looking
        finally:
            reader.close()
            os.close(sink)

    assert not asyncio.run(scenario())
