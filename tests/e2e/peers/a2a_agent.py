"""An agent that the official A2A Python SDK serves, in versions 1.0 or 0.3 of the protocol."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Final

import uvicorn
from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

VERSIONS: Final = ("1.0", "0.3")


class Worker(AgentExecutor):
    """Does what the first word of a message says."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """`direct` is answered by a message, anything else by a task."""
        words = context.get_user_input()
        assert context.message is not None
        if words.startswith("direct"):
            await event_queue.enqueue_event(new_text_message(f"said {words}"))
            return
        task = context.current_task
        if task is None:
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if words.startswith("fail"):
            await updater.failed(new_text_message("it cannot be done"))
        elif words.startswith("ask"):
            await updater.requires_input(new_text_message("which one?"))
        else:
            await updater.start_work()
            parts = [new_text_part(f"did {words}"), new_data_part({"words": len(words.split())})]
            await updater.add_artifact(parts, name="result")
            await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing here takes long."""
        raise NotImplementedError


@contextlib.contextmanager
def serving(version: str) -> Iterator[str]:
    """The address of the agent while the block runs."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    place = AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version=version)
    card = AgentCard(
        name="SDK agent",
        description="Does as it is told",
        version="1",
        supported_interfaces=[place],
        capabilities=AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="work", name="Work", description="Works", tags=["work"])],
    )
    handler = DefaultRequestHandler(Worker(), InMemoryTaskStore(), card)
    routes = create_agent_card_routes(card)
    routes += create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=version == "0.3")
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
