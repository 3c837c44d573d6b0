"""Gives the agent the abilities of the user's editor: files, terminals, operations.

conductor agent ide claude-agent-acp
"""

from contextlib import suppress
from typing import Any

import operations
from ide_settings import Config
from operations import STANDARD

from guest_sdk.python import (
    Call,
    Cancelled,
    Notification,
    Proxy,
    ProxyError,
    Refused,
    Request,
    Server,
    Session,
    SubSession,
    ToolError,
    Update,
    unlinked,
)

ASK = """\
Find out in the user's editor what is asked for at the end. These are its operations:

{listing}

Call them as tools of the server `{server}`. Where you may not, answer with a plan: a fenced block \
called `plan` that holds JSON, such as [{{"operation": "{example}", "arguments": {{}}}}]. It is \
performed, and you get the results; then make another plan, or answer. Answer in words, without a \
plan, shortly, with files and lines. Do nothing besides.

"""
RESULTS = "The results of your plan:\n\n{}\n\nAnswer now, or make another plan."
PRIMITIVES = "editor-primitives"
MOST = 100
"""Operations of an editor, at most."""
LISTED = 20_000
"""Characters of the schemas that are listed; beyond that, names and descriptions alone."""
RESULT = 8_000
"""Characters of one result within a plan."""
NOISE = 4 << 20
"""Characters of updates that a session of its own may send."""


proxy = Proxy(
    "ide",
    description="What the user's editor can do.",
    config=Config,
)
tools = proxy.server("editor")
"""The tools of the agent. Claude Code hides the tools of a server called `ide`."""
primitives = Server(PRIMITIVES, instructions="The operations of the user's editor.")
"""The tools of a sub-session that performs operations."""


# -- what the editor can ---------------------------------------------------------------------------


class Able:
    """The abilities of the editor, as it declares them, beside operations."""

    files = False
    terminal = False
    operation = False


@proxy.request("initialize")
def initialize(request: Request) -> None:
    """Notes the abilities of the editor."""
    held = request.params.get("clientCapabilities")
    held = held if isinstance(held, dict) else {}
    files = held.get("fs")
    Able.files = isinstance(files, dict) and files.get("readTextFile") is True
    Able.terminal = held.get("terminal") is True
    remember()


def remember() -> None:
    """Has the conductor keep it for the next instance."""
    proxy.keep("able", [Able.files, Able.terminal, Able.operation])


@proxy.on_start
def begun() -> None:
    """Restores the knowledge of a former instance."""
    Able.files, Able.terminal, Able.operation = proxy.kept("able") or (False, False, False)


def operates(session: Session | None) -> bool:
    """Whether the editor has operations."""
    return Able.operation or (session is not None and session.editor.capabilities.operation)


def shown(able: Any) -> Any:
    """Whether the agent sees a primitive in the conversation."""
    return lambda session: proxy.config.primitives and able(session)


def reads(session: Session | None) -> bool:
    """Whether the editor reads files."""
    return Able.files


def runs(session: Session | None) -> bool:
    """Whether the editor has terminals."""
    return Able.terminal


def any_of_it(session: Session | None) -> bool:
    """Whether there is anything to find a way with."""
    return reads(session) or operates(session)


@proxy.request("session/new", "session/load", "session/resume", "session/fork")
async def set_up(request: Request, following: Any) -> Any:
    result = await following(request)
    session = getattr(request, "session", None)
    if session is not None and session.editor.capabilities.operation:
        proxy.start(learn(session))
    return result


async def learn(session: Session) -> None:
    """Asks the editor for its operations, and offers them."""
    Able.operation = True
    remember()
    try:
        found = (await session.editor.operations())[:MOST]
        schemas = [one.input_schema or (await described(session, one.name)) for one in found]
    except ProxyError as error:
        proxy.log.warn(f"the editor does not say which operations it has: {error.message}")
        return
    for name in [*STANDARD, *learned]:
        for server in (tools, primitives):
            server.tools.pop(name, None)
    learned.clear()
    for one, schema in zip(found, schemas, strict=True):
        learned[one.name] = f"[{one.category}] " * bool(one.category) + one.description
        try:
            install(one.name, learned[one.name] or one.name, schema)
        except (TypeError, ValueError) as error:
            del learned[one.name]
            proxy.log.warn(f"an operation of the editor is left out: {error}")
    tools.list_changed("tools", session)


async def described(session: Session, name: str) -> dict[str, Any]:
    """The schema of an operation; an editor need not have schemas."""
    with suppress(ProxyError):
        return (await session.editor.describe(name)).input_schema
    return {}


learned: dict[str, str] = {}
"""The operations that the editor has named, with their descriptions."""


# -- the primitives --------------------------------------------------------------------------------


def install(name: str, description: str, schema: dict[str, Any]) -> None:
    """Offers an operation as a tool of its name. Raises `TypeError` or `ValueError`."""

    async def run(arguments: dict[str, Any], call: Call) -> str:
        return await operated(within(call), name, arguments)

    schema = schema if schema.get("type") == "object" else {"type": "object"}
    for server, when in ((tools, shown(operates)), (primitives, operates)):
        server.tool(name=name, description=description, schema=schema, when=when)(run)


async def operated(session: Session, name: str, arguments: dict[str, Any]) -> str:
    """Has the editor do something."""
    try:
        return operations.text(await session.editor.operation(name, **arguments))
    except ProxyError as error:
        raise ToolError(f"the editor cannot: {error.message}") from None


async def read(path: str, call: Call, line: int = 1, limit: int = 0) -> str:
    """Reads a text file as the editor has it, with what is not saved yet. `path` is absolute;
    `limit`: so many lines from `line` on; 0: all."""
    return await file(within(call), path, line, limit)


async def file(session: Session, path: str, line: int = 1, limit: int = 0) -> str:
    """A text file, or lines of it."""
    part = {"line": line, **({"limit": limit} if limit else {})} if line > 1 or limit else {}
    try:
        held = await proxy.ask_client("fs/read_text_file", sessionId=session.id, path=path, **part)
    except ProxyError as error:
        raise ToolError(f"the editor does not read {path}: {error.message}") from None
    return str(held.get("content", "")) if isinstance(held, dict) else ""


READS = {"readOnlyHint": True}
tools.tool(when=shown(reads), annotations=READS)(read)
primitives.tool(when=reads, annotations=READS)(read)
for standard, does in STANDARD.items():
    install(standard, does, {})


@tools.tool(when=shown(runs), annotations={"destructiveHint": True})
async def terminal(
    command: str, call: Call, args: list[str] | None = None, cwd: str | None = None
) -> str:
    """Runs a command in a terminal of the user's editor, where they see it; its output and how it
    ended. `cwd`: an absolute path; without it the session's folder."""
    session, config = within(call), proxy.config
    where = {"cwd": cwd or session.cwd} if cwd or session.cwd else {}
    try:
        made = await proxy.ask_client(
            "terminal/create", sessionId=session.id, command=command, args=args or [],
            outputByteLimit=config.longest, **where,
        )  # fmt: skip
        at = {"sessionId": session.id, "terminalId": made["terminalId"]}
    except (ProxyError, KeyError, TypeError) as error:
        raise ToolError(f"the editor runs nothing: {error}") from None
    timer = None
    late: list[str] = []

    async def stop() -> None:
        late.append(f"\nstopped: it did not end within {config.seconds:g} seconds")
        await proxy.ask_client("terminal/kill", **at)

    try:
        with suppress(Refused):
            timer = await proxy.timer.after(config.seconds, stop)
        status = await proxy.ask_client("terminal/wait_for_exit", **at)
        held = await proxy.ask_client("terminal/output", **at)
    except ProxyError as error:
        raise ToolError(f"the editor's terminal failed: {error.message}") from None
    finally:
        proxy.start(released(at, timer))
    return f"{held['output']}\n{ended(status)}{''.join(late)}".lstrip("\n")


def ended(status: Any) -> str:
    """How a command ended."""
    status = status if isinstance(status, dict) else {}
    if status.get("exitCode") is None:
        return f"ended by {status.get('signal') or 'the editor'}"
    return f"exit code {status['exitCode']}"


async def released(at: dict[str, str], timer: Any) -> None:
    """Gives a terminal back."""
    with suppress(ProxyError):
        await proxy.ask_client("terminal/release", **at)
    if timer is not None:
        await timer.stop()


def within(call: Call) -> Session:
    """The client's session that a tool works for. Raises `ToolError`."""
    if not call.in_session:
        raise ToolError("the editor can be asked once the session is there")
    return call.session


# -- one tool in place of all ----------------------------------------------------------------------


class Work:
    """One call of `ide_operation`."""

    def __init__(self, session: Session, request: str) -> None:
        self.session = session
        self.request = request
        self.answer = ""
        self.why = ""
        """Why there is no answer."""
        self.seen = 0
        self.task: Any = None

    def end(self, why: str) -> None:
        """Ends it now."""
        self.why = self.why or why
        self.task.cancel()

    def heard(self, update: Update) -> None:
        """Takes an update of the sub-session."""
        self.seen += len(str(update.update))
        if self.seen > NOISE:
            self.end(f"it sent more than {NOISE:,} characters")


works: list[Work] = []
"""The calls that run."""


@tools.tool(when=any_of_it)
async def ide_operation(request: str, call: Call) -> str:
    """Has something found out, or done, in the user's editor: say in plain English what, such as
    `find the definition of Parser.parse that main.rs uses`. Another agent, which knows nothing of
    this conversation, finds the way and performs it; you get the answer alone."""
    if not request.strip() or len(request) > proxy.config.longest:
        raise ToolError(f"`request` has 1 to {proxy.config.longest:,} characters")
    one = Work(within(call), request)
    works.append(one)
    one.task, timer, seconds = proxy.start(found(one)), None, proxy.config.seconds
    try:
        with suppress(Refused):  # without the service it may take as long as it likes
            late = f"it did not end within {seconds:g} seconds"
            timer = await proxy.timer.after(seconds, lambda: one.end(late))
        await one.task
    except Cancelled:
        one.task.cancel()
        raise
    finally:
        works.remove(one)
    if timer is not None:
        await timer.stop()
    if one.why:
        raise ToolError(f"no answer: {one.why}")
    return one.answer[: proxy.config.longest] or "(no words)"


@proxy.notification("session/cancel")
def cancelled(notification: Notification) -> None:
    """Ends the work that was begun in a turn which the user has stopped."""
    for one in works:
        if one.session.id == notification.params.get("sessionId"):
            one.end("the turn was stopped")


async def found(one: Work) -> None:
    """Finds the answer, in a session of its own."""
    cwd = one.session.cwd or "/"
    try:
        async with proxy.subsession(cwd=cwd, servers=[primitives], session=one.session) as sub:
            await answered(one, sub)
    except ProxyError as error:
        one.why = one.why or error.message


async def answered(one: Work, sub: SubSession) -> None:
    """Prompts, and performs plans, until there is an answer in words."""
    there = offered(one.session)
    said = ASK.format(listing=listing(there), server=PRIMITIVES, example=next(iter(there)))
    said += one.request
    for _ in range(proxy.config.rounds):
        turn = await sub.prompt(unlinked(said), on_update=one.heard)
        try:
            steps = operations.plan(turn.text)
        except ValueError as error:
            said = f"{error}. Make another plan, or answer."
            continue
        if steps is None:
            one.answer = turn.text
            return
        results = [
            f"{number}. {step.operation}: {await performed(one.session, step)}"
            for number, step in enumerate(steps, 1)
        ]
        said = RESULTS.format("\n".join(results))
    one.why = f"there was none after {proxy.config.rounds} plans"


def offered(session: Session) -> dict[str, Any]:
    """The primitives that are there."""
    return {name: one for name, one in primitives.tools.items() if one.when(session)}


def listing(there: dict[str, Any]) -> str:
    """The primitives, for a model."""
    long = [
        f"- {name}: {one.description} {operations.text(one.schema)}" for name, one in there.items()
    ]
    if sum(map(len, long)) <= LISTED:
        return "\n".join(long)
    return "\n".join(f"- {name}: {one.description}" for name, one in there.items())[:LISTED]


async def performed(session: Session, step: operations.Step) -> str:
    """The result of a step, as text."""
    there = offered(session)
    try:
        if step.operation not in there:
            return f"error: there is no such operation; there are: {', '.join(there)}"
        if step.operation == "read":
            said = await file(session, **step.arguments)
        else:
            said = await operated(session, step.operation, step.arguments)
    except (ToolError, TypeError) as error:
        return f"error: {error}"
    return said if len(said) <= RESULT else f"{said[:RESULT]} (… {len(said):,} characters)"


if __name__ == "__main__":
    proxy.run()
