"""The cost of a process for its conductor."""

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest

from conductor.transports.process import ProcessTransport
from tests.places import DEADLINE
from tests.transports.ends import ECHO, Recorder


async def test_a_process_that_runs_takes_no_thread_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(pid: int) -> NoReturn:
        raise OSError(pid)

    monkeypatch.setattr(os, "pidfd_open", unknown, raising=False)  # as where there is none
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    transport, events = ProcessTransport([sys.executable, "-c", ECHO]), Recorder()
    await transport.open(events)
    async with asyncio.timeout(DEADLINE):
        assert await asyncio.to_thread(int) == 0
        transport.finish()
        await events.until(lambda: bool(events.ends))
    await transport.close(1.0)
