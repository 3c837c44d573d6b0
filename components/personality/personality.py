"""Prompts the agent before the user's first prompt, so that it answers in a manner of its own.

conductor agent personality,config.prompts=/symposium:hi claude-agent-acp
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from guest_sdk.python import DROP, Cancelled, Proxy, ProxyError, Request, Update, text
from guest_sdk.python.tasks import Task, Waiter

LASTING = (
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
    "usage_update",
)
"""Updates that are about the session, not about a turn."""


@dataclass
class Config:
    """The settings; what each means is in README.md."""

    prompts: str | list[str] = ""
    show: Literal["hidden", "forwarded", "merged"] = "hidden"

    def __post_init__(self) -> None:
        held = [self.prompts] if isinstance(self.prompts, str) else self.prompts
        self.texts = [one for one in held if one]


@dataclass
class State:
    """What is kept of a session that began here. `task`: our prompts, while they are answered."""

    done: bool = False
    task: Task | None = None
    stopped: bool = False
    """Whether nothing more shall be said in that task."""
    idle: Waiter[Any] = field(default_factory=Waiter)
    """Settled when the agent says that it works no more (version 2)."""


proxy = Proxy(
    "personality",
    profile="context",
    description="Prompts the agent before the user's first prompt.",
    config=Config,
)
known: dict[str, State] = {}


@proxy.request("session/new")
async def opened(request: Request, following: Any) -> Any:
    result = await following(request)
    if isinstance(result, dict) and isinstance(result.get("sessionId"), str):
        known[result["sessionId"]] = State()
    return result


@proxy.request("session/close", "session/delete")
async def end(request: Request, following: Any) -> Any:
    result = await following(request)
    known.pop(str(request.params.get("sessionId")), None)
    return result


@proxy.request("session/prompt")
async def prompt(request: Request, following: Any) -> Any:
    id_ = str(request.params.get("sessionId"))
    state, config = known.get(id_), proxy.config
    if state is None or state.done or not config.texts:
        return await following(request)
    if config.show == "merged":
        blocks = request.params.get("prompt")
        if isinstance(blocks, list) and not is_command(request):
            state.done = True
            blocks[:0] = [text(one) for one in config.texts]
        return await following(request)
    for _ in range(2):  # what was begun may have been cancelled together with an earlier prompt
        if not state.done:
            # Apart from this prompt: that it is cancelled does not make untold what was begun.
            if state.task is None or state.task.done:
                state.task, state.stopped = proxy.start(embody(id_, state)), False
            try:
                await state.task
            except Cancelled:
                state.stopped = True
                raise
    return await following(request)


async def embody(session_id: str, state: State) -> None:
    """Sends our prompts, one after another, each when the one before is answered."""
    for one in proxy.config.texts:
        if state.stopped:
            return
        state.idle = Waiter()
        try:
            result = await proxy.ask_agent(
                "session/prompt", sessionId=session_id, prompt=[text(one)]
            )
        except ProxyError as error:
            proxy.log.warn(f"{proxy.name}: `{one}` came to nothing: {error.message}")
            break
        stop = result.get("stopReason") if isinstance(result, dict) else None
        if stop is None:  # version 2 answers when a turn begins
            stop = await state.idle
        if stop == "cancelled":
            return  # the next prompt tries again
    state.done = True


@proxy.update()
def hide(update: Update) -> Any:
    state = known.get(str(update.params.get("sessionId")))
    if state is None or state.task is None or state.task.done:
        return None
    if update.kind == "state_update" and update.update.get("state") == "idle":
        state.idle.resolve(update.update.get("stopReason") or "end_turn")
    hidden = proxy.config.show == "hidden" and update.kind not in LASTING
    return DROP if hidden else None


def is_command(request: Request) -> bool:
    """Whether an agent may take the prompt for a slash command, which must begin it."""
    word = request.text.lstrip().partition(" ")[0].partition("\n")[0]
    return word.startswith("/") and word.count("/") == 1 and len(word) > 1


if __name__ == "__main__":
    proxy.run()
