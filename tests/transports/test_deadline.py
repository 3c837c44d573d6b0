"""A time that is set anew comes when it was set last, and once."""

import asyncio

from conductor.transports.deadline import Deadline


async def test_what_is_put_off_comes_later_and_what_is_brought_forward_sooner() -> None:
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    deadline, now = Deadline(came.set), loop.time()
    deadline.set(now + 0.01)
    deadline.set(now + 0.03)
    await came.wait()
    assert loop.time() >= now + 0.03

    came.clear()
    deadline.set(now + 3600)
    deadline.set(loop.time())
    await asyncio.wait_for(came.wait(), 30)


async def test_what_is_taken_back_does_not_come() -> None:
    loop, came = asyncio.get_running_loop(), []
    never, stopped = Deadline(lambda: came.append("never")), Deadline(lambda: came.append("-"))
    for deadline in (never, stopped):
        deadline.set(loop.time())
    never.set(None)
    stopped.stop()
    after = asyncio.Event()
    Deadline(after.set).set(loop.time() + 0.01)
    await after.wait()
    assert not came

    never.set(loop.time())
    await asyncio.sleep(0.01)
    assert came == ["never"]
