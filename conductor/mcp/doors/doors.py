"""The two doors for an agent's MCP clients: a stdio shim and a loopback HTTP server.

    doors = Doors(events, log=log, line_limit=limit, start=start)
    declaration = await doors.listen("7:tools", "stdio")   # goes into the agent's `mcpServers`
    … events.client_opened(connection, "7:tools"), events.client_received(connection, frame) …
    doors.perform(ToClient(connection, response))

A door carries frames, and knows of MCP only the rules of its transport. Each listener has a secret
that only its declaration names: in the shim's environment, or in a header of HTTP. A door opens,
and loads its modules, when its first listener does.
"""

from __future__ import annotations

from conductor.mcp.bridge.declarations import Declaration
from conductor.mcp.bridge.effects import (
    ClientEffect,
    CloseClient,
    CloseListener,
    NoResponse,
    ToClient,
)
from conductor.mcp.doors.door import Door, DoorEvents, Log, Start


class Doors:
    """All listeners of one conductor. Names of connections and listeners are never used twice."""

    def __init__(self, events: DoorEvents, *, log: Log, line_limit: int, start: Start) -> None:
        """`line_limit`: bytes of the longest message that clients may send."""
        self._events = events
        self._log = log
        self._limit = line_limit
        self._start = start
        self._doors: dict[str, Door] = {}
        """By kind."""
        self._listeners: dict[str, Door] = {}

    async def listen(self, listener: str, kind: str) -> Declaration:
        """Opens a listener of a kind (`stdio` or `http`); its declaration for the agent.

        Raises `conductor.errors.ComponentError` if that is impossible.
        """
        door = self._listeners[listener] = self._door(kind)
        return await door.listen(listener)

    def perform(self, effect: ClientEffect) -> None:
        """Performs an effect of the bridge. One for a client that has left does nothing."""
        if isinstance(effect, CloseListener):
            door = self._listeners.pop(effect.listener, None)
            if door is not None:
                door.close_listener(effect.listener)
            return
        door = self._owner(effect.connection)
        if door is None:
            return
        match effect:
            case ToClient(connection, frame, related):
                door.send(connection, frame, related)
            case NoResponse(connection, request):
                door.no_response(connection, request)
            case CloseClient(connection):
                door.close(connection)

    def hold(self, connection: str, wait: bool) -> None:
        """Stops reading from a client, or goes on."""
        door = self._owner(connection)
        if door is not None:
            door.hold(connection, wait)

    async def aclose(self) -> None:
        """Ends everything; returns when no socket and no file is left."""
        self._listeners.clear()
        for door in self._doors.values():
            await door.aclose()

    def _door(self, kind: str) -> Door:
        if kind not in self._doors:
            self._doors[kind] = self._open(kind)
        return self._doors[kind]

    def _open(self, kind: str) -> Door:
        if kind == "stdio":
            from conductor.mcp.doors.stdio import StdioDoor

            return StdioDoor(self._events, log=self._log, line_limit=self._limit)
        from conductor.mcp.http.door import HttpDoor

        return HttpDoor(self._events, log=self._log, line_limit=self._limit, start=self._start)

    def _owner(self, connection: str) -> Door | None:
        return next((door for door in self._doors.values() if door.owns(connection)), None)
