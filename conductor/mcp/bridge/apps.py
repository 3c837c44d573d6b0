"""MCP Apps: the page of a tool (`ui://`) becomes a panel of the editor, and the bridge is its host.

Once the agent has called a tool that has a page, the bridge reads the page from the same server and
shows it. The page's messages come back as events of the panel. docs/mcp.md has the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    canonical_id,
    error_object,
)
from conductor.core.policy.key_table import STAMP
from conductor.mcp import limits
from conductor.mcp.bridge import app_tools
from conductor.mcp.bridge.app_clients import PageClient, WatchedClient
from conductor.mcp.bridge.clients import Clients, McpClient
from conductor.mcp.bridge.endpoints import ClientConnection, OnResponse
from conductor.mcp.bridge.generations import Generation
from conductor.mcp.bridge.json import EMPTY, read, text, value, write
from conductor.mcp.bridge.servers import Server

SHOW: Final = "_scp/html_panel/show"
EVENT: Final = "_scp/html_panel/event"
_CLOSE: Final = "close"
_SAID: Final = "mcp"
"""The event that holds a message of the page; its answer holds messages for the page."""
_REVISION: Final = "2026-01-26"
"""Of the extension."""
_WORDS: Final = (
    "<p>This tool has a page, and this editor shows no pages. The answer of the tool says the "
    "same.</p>"
)
_WELCOME: Final = write(
    {
        "protocolVersion": _REVISION,
        "hostInfo": {"name": "conductor", "version": "0"},
        "hostCapabilities": {
            "serverTools": {},
            "serverResources": {},
            "sandbox": {"permissions": {}, "csp": {}},
        },
        "hostContext": {"displayMode": "inline", "availableDisplayModes": ["inline"]},
    }
)
"""The capabilities of the host, as a page is told."""
_LABEL: Final = 80
_ID: Final = 256
"""Characters of a panel's label, and of its id."""


class App(msgspec.Struct, eq=False):
    """A page in a panel, with the call that it shows."""

    server: Server
    id: str
    label: str
    arguments: Raw
    result: Raw
    open: int = 0
    """Requests of the page that are not answered."""


class Apps:
    """The pages of the tools of all servers of one agent."""

    def __init__(self, clients: Clients, log: Callable[[str, str], None], *, shown: bool) -> None:
        """`shown`: whether the editor shows panels; else the user gets words."""
        self.shown = shown
        self._clients = clients
        self._log = log
        self._apps: dict[tuple[str, str], App] = {}
        """By session and id of the panel; the oldest first."""
        self._page_clients: dict[str, PageClient] = {}
        """By the server's listener."""

    def open(
        self, server: Server, connection: ClientConnection, generation: Generation | None = None
    ) -> McpClient:
        """A client of the agent's has connected; see `Clients.open`."""
        return self._clients.open(server, WatchedClient(connection, server, self), generation)

    # -- lists and calls of the agent -----------------------------------------------------------

    def listed(self, server: Server, params: bytes | None, body: bytes) -> bytes:
        """A server has listed tools. Returns the list for the agent."""
        tools, for_model = app_tools.listed(body)
        if "cursor" not in read(params):
            server.app_tools.clear()
        room = max(0, limits.APP_TOOLS - len(server.app_tools))
        server.app_tools.update(list(tools.items())[:room])
        return for_model if self.shown else body

    def called(self, server: Server, params: bytes | None, body: bytes) -> None:
        """A server has answered a call of the agent's: a tool's page is shown."""
        given, result = read(params), read(body)
        tool = server.app_tools.get(text(given.get("name")) or "")
        done = text(result.get("resultType")) != "input_required"
        if tool is None or not tool.page or not done or value(result.get("isError")) is True:
            return
        arguments = given.get("arguments", Raw(EMPTY))
        id_, label = f"{server.name} {tool.page}", _line(tool.title, _LABEL)
        app = App(server, id_, label, arguments, Raw(body))
        if len(id_) > _ID or len(body) + len(bytes(arguments)) > limits.APP_BYTES:
            self._fails(app, "its content is too large")
        elif self.shown:
            self._read(app, tool.page)
        else:
            self._show(app, _WORDS, scripts=False)

    def _read(self, app: App, uri: str) -> None:
        def found(member: bytes, body: bytes) -> None:
            page = app_tools.page(uri, body) if member == b"result" else None
            if page is None:
                self._fails(app, f"its server has no page {uri!a:.120}")
            elif len(page) > limits.APP_BYTES:
                self._fails(app, f"it has more than {limits.APP_BYTES} characters")
            else:
                self._show(app, page, scripts=True)

        self._client(app.server).ask("resources/read", {"uri": Raw(write(uri))}, found)

    def _show(self, app: App, page: str, *, scripts: bool) -> None:
        session = app.server.session.value
        key = text(session) or "", app.id

        def shown(member: bytes, body: bytes) -> None:
            if member == b"error":
                self._fails(app, text(read(body).get("message")) or "the editor does not show it")
                if self._apps.get(key) is app:
                    del self._apps[key]

        if scripts:
            self._apps.pop(key, None)
            self._apps[key] = app
            if len(self._apps) > limits.APPS:
                del self._apps[next(iter(self._apps))]
        panel = {"id": app.id, "label": app.label, "contents": page, "scripts": scripts}
        params = {"sessionId": key[0], **panel, "_meta": {STAMP: app.server.name}}
        self._clients.chain.request(SHOW, write(params), shown)

    def _fails(self, app: App, why: str) -> None:
        what = f"the page of `{app.label}` is not shown: {_line(why)}"
        self._log("warning", f"{app.server.label}: {what}")

    # -- messages of a page --------------------------------------------------------------------

    def event(self, id_: bytes, params: bytes | None) -> bool:
        """An event of a panel; False if the panel shows none of these pages."""
        fields = read(params)
        key = text(fields.get("sessionId")) or "", text(fields.get("id")) or ""
        app = self._apps.get(key)
        if app is None:
            return False

        def answer(result: object) -> None:
            self._clients.chain.respond(id_, b"result", write(result))

        name = text(fields.get("name"))
        if name == _SAID:
            self._said(app, read(fields.get("data")), lambda *said: answer({"messages": said}))
            return True
        if name == _CLOSE:
            del self._apps[key]
        answer({})
        return True

    def _said(self, app: App, message: dict[str, Raw], answer: Callable[..., None]) -> None:
        method, id_ = text(message.get("method")) or "", message.get("id")
        if id_ is None or canonical_id(id_) is None:
            answer(*(_begun(app) if method == "ui/notifications/initialized" else ()))
            return

        def reply(member: bytes, body: bytes) -> None:
            answer({"jsonrpc": "2.0", "id": id_, member.decode(): Raw(body)})

        params = read(message.get("params"))
        match method:
            case "ui/initialize":
                reply(b"result", _WELCOME)
            case "ui/request-display-mode":
                reply(b"result", b'{"mode":"inline"}')
            case "ping":
                reply(b"result", EMPTY)
            case "tools/call":
                tool = app.server.app_tools.get(text(params.get("name")) or "")
                if tool is not None and tool.of_pages:
                    self._ask(app, method, params, ("name", "arguments"), reply)
                else:
                    why = "this is no tool of the page's own server that pages may call"
                    reply(b"error", error_object(INVALID_PARAMS, why))
            case "resources/read":
                self._ask(app, method, params, ("uri",), reply)
            case _:
                why = f"`{_line(method, _LABEL)}` is nothing that a page may ask here"
                reply(b"error", error_object(METHOD_NOT_FOUND, why))

    def _ask(
        self,
        app: App,
        method: str,
        params: dict[str, Raw],
        names: tuple[str, ...],
        done: OnResponse,
    ) -> None:
        """A page asks its own server."""
        if app.open >= limits.APP_OPEN:
            why = f"{limits.APP_OPEN} requests of this page are not answered"
            done(b"error", error_object(INTERNAL_ERROR, why))
            return

        def answered(member: bytes, body: bytes) -> None:
            app.open -= 1
            done(member, body)

        app.open += 1
        given = {name: params[name] for name in names if name in params}
        self._client(app.server).ask(method, given, answered)

    def _client(self, server: Server) -> PageClient:
        """The bridge's own connection to a server."""
        client = self._page_clients.get(server.listener)
        if client is None:
            client = PageClient(server, self._clients, lambda: self._forget(server))
            self._page_clients[server.listener] = client
        return client

    def _forget(self, server: Server) -> None:
        """A server is closed, and its pages with it."""
        self._page_clients.pop(server.listener, None)
        self._apps = {key: app for key, app in self._apps.items() if app.server is not server}


def _line(words: str, most: int = 200) -> str:
    """Words of a server or of a page, as one short line."""
    return " ".join(words.split())[:most]


def _begun(app: App) -> tuple[object, ...]:
    """The notifications for a page that has begun: the call that it shows."""
    return (
        _notification("tool-input", {"arguments": app.arguments}),
        _notification("tool-result", app.result),
    )


def _notification(name: str, params: object) -> object:
    return {"jsonrpc": "2.0", "method": f"ui/notifications/{name}", "params": params}
