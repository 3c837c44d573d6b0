"""`conductor.open`: a chain within a program."""

import asyncio
import contextlib
import os
import sys
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import conductor
from conductor.spec.options import Options
from tests.client import agents
from tests.harness.process.processes import Kin, needs_proc

CLOCK = "2026-03-01T12:00:00+01:00"


@pytest.fixture(autouse=True)
def _homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


# -- turns -----------------------------------------------------------------------------------------


async def test_an_answer_prints_as_its_text() -> None:
    async with conductor.open("datetime", "demo", clock=CLOCK) as chain:
        answer = await chain.prompt("hi")
    assert str(answer) == '<current-date date="2026-03-01" time="12:00:00"/>\nhi'
    assert answer.stop_reason == "end_turn"
    assert "".join(update.text for update in answer.updates) == answer.text


async def test_updates_of_a_turn_as_they_come(tmp_path: Path) -> None:
    seen: list[str] = []

    async def keep(update: conductor.Update) -> None:
        seen.append(update.kind)

    async with conductor.open("demo", cwd=tmp_path, on_update=keep) as chain:
        turn = chain.stream(["/toolcall", {"type": "text", "text": "and more"}])
        kinds = [update.kind async for update in turn]
        assert "tool_call" in kinds
        assert (await turn).stop_reason == "end_turn"
        assert seen == kinds


async def test_sessions_have_turns_side_by_side_and_one_has_them_one_by_one(tmp_path: Path) -> None:
    async with conductor.open("demo") as chain:
        other = await chain.session(tmp_path)
        assert (other.cwd, chain.cwd) == (str(tmp_path), str(Path.cwd()))
        hanging = chain.stream("/hang")
        waiting = chain.stream("after")
        assert str(await other.prompt("hi")) == "hi"
        chain.cancel()
        assert (await hanging).stop_reason == "cancelled"
        assert str(await waiting) == "after"


async def test_waiting_that_is_cancelled_cancels_the_turn() -> None:
    async with conductor.open("demo") as chain:
        other = await chain.session()
        waiting = asyncio.create_task(chain.prompt("/hang"))
        await other.prompt("the agent has the first prompt now")
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        assert str(await chain.prompt("hi")) == "hi"


async def test_a_turn_that_waits_for_another_can_be_cancelled_too() -> None:
    async with conductor.open("demo") as chain:
        first = chain.stream("/hang")
        second = asyncio.create_task(chain.prompt("never"))
        await asyncio.sleep(0)
        second.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await second
        chain.cancel()
        assert (await first).stop_reason == "cancelled"
        assert str(await chain.prompt("hi")) == "hi"


# -- what the chain asks of the client -------------------------------------------------------------


@pytest.mark.parametrize(
    ("permissions", "outcome"),
    [
        ("deny", "reject-once"),
        ("allow-once", "allow-once"),
        (True, "allow-once"),
        (False, "reject-once"),
        ("allow-always", "allow-always"),
    ],
)
async def test_permission(permissions: Any, outcome: str) -> None:
    asked: list[conductor.Permission] = []

    async def decide(permission: conductor.Permission) -> bool | str:
        asked.append(permission)
        answer: bool | str = permissions
        return answer

    by = permissions if permissions in ("deny", "allow-once") else decide
    async with conductor.open("demo", permissions=by) as chain:
        assert str(await chain.prompt("/permission Erase it")) == f"permission: {outcome}"
    if by is decide:
        assert asked[0].title == "Erase it"
        assert asked[0].options[0].kind == "allow_once"


async def test_an_option_that_there_is_not_is_no_permission() -> None:
    async def decide(permission: conductor.Permission) -> str:
        return "whatever"

    async with conductor.open("demo", permissions=decide) as chain:
        with pytest.raises(conductor.UsageError, match="`whatever`, which is no option"):
            await chain.prompt("/permission")


async def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("inside")

    async def read(params: dict[str, Any]) -> dict[str, Any]:
        if params["path"].endswith("none"):
            raise conductor.RequestError(-32002, "there is none")
        return {"content": f"made up for {os.path.basename(params['path'])}"}

    async with conductor.open("demo", cwd=tmp_path, files="read") as chain:
        assert "inside" in str(await chain.prompt("/read a.txt"))
        assert "lacks the capability" in str(await chain.prompt("/write a.txt changed"))
    async with conductor.open("demo", handlers={"fs/read_text_file": read}) as chain:
        assert "made up for b.txt" in str(await chain.prompt("/read b.txt"))
        assert "there is none" in str(await chain.prompt("/read none"))


class OfMineError(BaseException):
    """An exception of the program itself."""


# -- what goes wrong -------------------------------------------------------------------------------


async def test_a_chain_that_fails_says_why_once() -> None:
    async with conductor.open("demo") as chain:
        with pytest.raises(conductor.ComponentError, match="with code 3") as failed:
            await chain.prompt("/exit 3")
        assert failed.value.hint
        with pytest.raises(conductor.ComponentError, match="with code 3"):
            await chain.prompt("hi")


async def test_a_failure_that_the_program_has_not_met_is_raised_at_the_end() -> None:
    agents.left = asyncio.Event()
    with pytest.raises(conductor.ComponentError, match="raised ValueError: as it was to"):
        async with conductor.open("py:tests.client.agents:leaving"):
            await agents.left.wait()


async def test_an_agent_that_opens_no_session() -> None:
    with pytest.raises(conductor.RequestError, match="session/new failed: ") as error:
        async with conductor.open("py:tests.cli.agents:unauthenticated"):
            raise AssertionError
    assert error.value.code == -32000
    assert "log in" in error.value.hint


@pytest.mark.parametrize(
    "failure", [ValueError("of mine"), BaseExceptionGroup("of mine", [GeneratorExit()])]
)
async def test_what_a_function_of_the_program_raises_arrives(failure: BaseException) -> None:
    async def failing(*_: object) -> typing.NoReturn:
        raise failure

    async with conductor.open("demo", on_update=failing) as chain:
        with pytest.raises(type(failure)) as met:
            await chain.prompt("hi")
        assert met.value is failure
    async with conductor.open("demo", permissions=failing) as chain:
        with pytest.raises(type(failure)):
            await chain.prompt("/permission")


@needs_proc
def test_a_function_that_ends_the_program_leaves_nothing_behind() -> None:
    async def ending(update: conductor.Update) -> None:
        kin.append(Kin(os.getpid()))
        raise SystemExit(3)

    async def program() -> None:
        async with conductor.open("demo", on_update=ending) as chain:
            await chain.prompt("hi")

    kin: list[Kin] = []
    with pytest.raises(SystemExit):
        asyncio.run(program())
    assert kin[0].leftovers() == []
    kin[0].close()


async def test_a_function_that_the_chain_waits_for_cannot_wait_for_the_chain() -> None:
    async def asking(update: conductor.Update) -> None:
        await chains[0].prompt("what is this?")

    chains: list[conductor.Chain] = []
    async with conductor.open("demo", on_update=asking) as chain:
        chains.append(chain)
        with pytest.raises(conductor.UsageError, match="waits for the chain") as error:
            await chain.prompt("hi")
        assert "asyncio.create_task" in error.value.hint


@pytest.mark.parametrize(
    ("components", "given", "text"),
    [
        ((), {}, "a chain needs an agent"),
        (("no-such-agent",), {}, "no-such-agent"),
        (("demo",), {"clok": CLOCK}, "no option `clok`"),
        (("demo",), {"isolation": "none"}, "invalid value 'none' for `isolation`"),
        (("demo",), {"grace": "soon"}, "float"),
        (("demo",), {"cwd": "/no/such/folder"}, "no such folder"),
        (("demo",), {"files": "all"}, "invalid value 'all' for `files`"),
        (("demo",), {"permissions": "ask"}, "invalid value 'ask' for `permissions`"),
        (("datetime",), {}, "a chain ends with an agent"),
        (("py:tests.cli.agents:silent", "demo"), {"require_sandbox": True}, "not sandboxed"),
    ],
)
async def test_what_cannot_be_run(components: tuple[str, ...], given: Any, text: str) -> None:
    with pytest.raises(conductor.ConductorError, match=text) as error:
        async with conductor.open(*components, **given):
            raise AssertionError
    assert error.value.hint


# -- its end ---------------------------------------------------------------------------------------


@needs_proc
@pytest.mark.parametrize("how", ["returns", "raises", "is cancelled", "is cancelled twice"])
def test_nothing_of_a_chain_is_left_behind(how: str) -> None:
    kin: list[Kin] = []

    async def block(inside: asyncio.Event) -> None:
        async with conductor.open("datetime", "demo", clock=CLOCK) as chain:
            await chain.prompt("hi")
            kin.append(Kin(os.getpid()))
            assert kin[0].named("agent.py")
            chain.stream("/hang")
            inside.set()
            if how == "returns":
                return
            if how == "raises":
                raise OfMineError
            await asyncio.Event().wait()

    async def whole() -> None:
        inside = asyncio.Event()
        task = asyncio.create_task(block(inside))
        await inside.wait()
        if how.startswith("is cancelled"):
            task.cancel()
        if how.endswith("twice"):
            await asyncio.sleep(0)
            task.cancel()
        with contextlib.suppress(OfMineError, asyncio.CancelledError):
            await task
        assert kin[0].leftovers(0) == []

    try:
        asyncio.run(whole())
    finally:
        for each in kin:
            each.close()


@needs_proc
async def test_a_program_that_is_cancelled_while_its_chain_starts(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text("import sys\n\nsys.stdin.read()\n")  # it never answers: the start goes on

    async def block() -> None:
        async with conductor.open("datetime", f"{sys.executable} {agent}"):
            raise AssertionError

    task = asyncio.create_task(block())
    while not (kin := Kin(os.getpid())).named("agent.py"):
        kin.close()
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    try:
        assert kin.leftovers(0) == []
    finally:
        kin.close()


async def test_chains_on_one_loop_end_in_any_order() -> None:
    one, other = conductor.open("demo"), conductor.open("demo")
    first, second = await one.__aenter__(), await other.__aenter__()
    assert str(await first.prompt("one")) == "one"
    await one.__aexit__(None, None, None)
    assert str(await second.prompt("two")) == "two"
    await other.__aexit__(None, None, None)


# -- the log, and options --------------------------------------------------------------------------


def test_the_log_has_what_components_say(caplog: pytest.LogCaptureFixture) -> None:
    lines: list[tuple[str, str, str]] = []

    async def program() -> None:
        async with conductor.open("demo", log=lambda *line: lines.append(line)) as chain:
            await chain.prompt("/stderr it is late")
        async with conductor.open("demo") as chain:
            await chain.prompt("/stderr it is late")

    caplog.set_level("INFO", "conductor")
    asyncio.run(program())
    assert ("info", "demo", "it is late") in lines
    assert "demo: it is late" in caplog.messages


async def test_the_log_has_what_guests_say_each_at_its_level() -> None:
    lines: list[tuple[str, str, str]] = []
    datetime = "datetime,deny=clock"
    async with conductor.open(datetime, "demo", log=lambda *line: lines.append(line)) as chain:
        await chain.prompt("hi")
    refused = next(line for line in lines if "no clock" in line[2])
    assert refused[:2] == ("warning", "datetime")


def test_trace_audit_and_lock(tmp_path: Path) -> None:
    trace, audit = tmp_path / "t.jsons", tmp_path / "a.jsons"

    async def program() -> None:
        async with conductor.open("demo", trace=str(trace), audit=str(audit)) as chain:
            await chain.prompt("hi")
        with pytest.raises(conductor.UsageError, match=r"none\.lock"):
            async with conductor.open("demo", lock_file=str(tmp_path / "none.lock")):
                raise AssertionError

    asyncio.run(program())
    assert b"session/prompt" in trace.read_bytes()
    assert b"demo" in audit.read_bytes()


def test_options_are_those_of_every_chain() -> None:
    fields = {field.name: field.type for field in msgspec.structs.fields(Options)}
    given = typing.get_type_hints(conductor.ChainOptions)
    assert {name: fields[name] for name in given} == given
