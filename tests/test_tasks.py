"""Whoever starts a task awaits it: tasks begin in a task group, which ends after them."""

import ast
import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from conductor import tasks
from conductor.errors import ConductorError
from tests.places import DEADLINE, ROOT

FREE: Final = {"create_task", "ensure_future", "run_coroutine_threadsafe"}
"""Functions that start a task that nobody needs to await, of whatever object."""
OF_ASYNCIO: Final = {*FREE, "gather", "wait_for"}
"""Functions that asyncio has beside its task groups and `timeout`."""

GROUPS: Final = ("asyncio.TaskGroup(", "anyio.create_task_group(", "TaskGroup(")
"""Groups that end after their tasks, as `async with` opens them."""


def is_group(found: ast.ClassDef) -> bool:
    """Whether a class is a group itself."""
    return "asyncio.TaskGroup" in map(ast.unparse, found.bases)


def free(text: str) -> Iterator[int]:
    """The lines of a module in which a task may begin without an owner."""
    nodes = [*ast.walk(ast.parse(text))]
    groups = {
        ast.unparse(item.optional_vars)
        for node in nodes
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if item.optional_vars is not None and ast.unparse(item.context_expr).startswith(GROUPS)
    } | {
        ast.unparse(target)
        for node in nodes
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(GROUPS)
        for target in node.targets
    }
    if any(isinstance(node, ast.ClassDef) and is_group(node) for node in nodes):
        groups.add("self")
    for node in nodes:
        match node:
            case ast.Attribute(value=value, attr="create_task") if ast.unparse(value) in groups:
                pass
            case ast.Attribute(value=ast.Name(id="asyncio"), attr=name) if name in OF_ASYNCIO:
                yield node.lineno
            case ast.Attribute(attr=name) if name in FREE:
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="Task")):
                yield node.lineno
            case ast.ImportFrom(module="asyncio", names=names):
                yield from (node.lineno for name in names if name.name in OF_ASYNCIO)


def test_no_task_begins_without_an_owner() -> None:
    files = [file for top in ("conductor", "wasm_host") for file in (ROOT / top).rglob("*.py")]
    found = {file: [*free(file.read_text(encoding="utf-8"))] for file in files}
    assert {str(file.relative_to(ROOT)): lines for file, lines in found.items() if lines} == {}


def test_what_begins_without_an_owner_is_found() -> None:
    text = """
import asyncio
from asyncio import gather, timeout
async def program(group, works):
    asyncio.get_running_loop().create_task(works)
    start = asyncio.ensure_future
    task: asyncio.Task[None] = asyncio.Task(works)
    async with asyncio.timeout(1):
        await asyncio.wait_for(asyncio.gather(works), 1)
    group.create_task(works)
    loop.create_task(works)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(works)
"""
    assert Counter(free(text)) == Counter([3, 5, 6, 7, 9, 9, 10, 11])


def test_the_first_error_of_a_group_comes_out_as_it_is_and_ends_the_others() -> None:
    ended: list[str] = []

    async def waits(name: str) -> None:
        try:
            await asyncio.sleep(DEADLINE)
        finally:
            ended.append(name)

    async def ends_badly() -> None:
        try:
            await asyncio.sleep(DEADLINE)
        finally:
            raise OSError("and then this")

    async def fails() -> None:
        raise ValueError("this")

    async def program() -> None:
        async with tasks.group() as outer:
            outer.start_soon(waits, "outer")
            async with tasks.group() as inner:
                inner.start_soon(waits, "inner")
                inner.start_soon(ends_badly)
                inner.start_soon(fails)

    with pytest.raises(ValueError, match="this") as raised:
        asyncio.run(program())
    assert raised.value.__notes__ == ["then: OSError('and then this')"]
    assert sorted(ended) == ["inner", "outer"]


def test_an_error_of_the_block_comes_out_as_it_is() -> None:
    async def program() -> None:
        async with tasks.group() as group:
            group.start_soon(asyncio.sleep, DEADLINE)
            raise ConductorError("this")

    with pytest.raises(ConductorError, match="this"):
        asyncio.run(program())


async def test_the_first_of_several_waits_ends_the_others() -> None:
    going, never = asyncio.Event(), asyncio.Event()
    going.set()
    await tasks.first(never.wait, going.wait)
    task = asyncio.create_task(tasks.first(never.wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
