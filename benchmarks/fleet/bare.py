"""Bare NATS: how long a request and its reply take between two processes."""

import asyncio
import subprocess
import sys
import time
from statistics import median
from typing import Self

import nats
import uvloop
from nats.aio.msg import Msg

_SUBJECT = "bare.echo"


async def _echo(url: str) -> None:
    client = await nats.connect(url)

    async def answer(message: Msg) -> None:
        await client.publish(message.reply, message.data)

    await client.subscribe(_SUBJECT, cb=answer)
    await client.flush()
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def _ask(url: str, count: int, size: int) -> float:
    client = await nats.connect(url)
    payload = b"x" * size
    times = []
    for _ in range(count):
        began = time.perf_counter_ns()
        await client.request(_SUBJECT, payload, 5)
        times.append(time.perf_counter_ns() - began)
    await client.close()
    return median(times) / 1e3


class Bare:
    """The process that answers. A context manager."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fleet.bare", self._url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def microseconds(self, count: int, size: int) -> float:
        """The median of so many requests."""
        return uvloop.run(_ask(self._url, count, size))


if __name__ == "__main__":
    uvloop.run(_echo(sys.argv[1]))
