"""Answers the service requests of a chain: what is simple at once, the rest by a desk.

The desk and all it needs are loaded when the first proxy asks for something that only it can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from conductor.core import Effect, Router, Serve
from conductor.core.component import KeptMembers
from conductor.core.jsonrpc import INVALID_PARAMS, error_object
from conductor.core.services import CALLS, KEEP, RELAYED, too_large
from conductor.run.plan import Options, Planned
from conductor.run.segment_spec import LOCAL, RECONFIGURE, TELL, Relayed
from conductor.services.client import Client
from conductor.services.local import Services as Local
from conductor.services.roots import Roots
from conductor.spec import paths


class Serving:
    """The services of one chain, as its runtime uses them. `apply` performs effects."""

    def __init__(
        self,
        planned: Iterable[Planned],
        router: Router,
        options: Options,
        log: Callable[[str, str, str], None],
        apply: Callable[[Iterable[Effect]], None],
        *,
        held: Callable[[str], int] = lambda name: 0,
    ) -> None:
        """`held`: how many bytes wait to be written to a peer."""
        self._log = log
        self._local = Local(log, options.clock)
        self._held = held
        self._router = router
        self._options = options
        self._apply = apply
        self._clients: dict[str, Client] = {}
        self._hosts: dict[str, str] = {}
        """Which peer hosts a guest."""
        self._kept: dict[str, KeptMembers] = {}
        """What guests keep whose host may have to be told of it when it is started again."""
        for one in planned:
            for client in one.clients:
                self._clients[client.name] = client
                if client.name in one.guests:
                    self._hosts[client.name] = one.component.name
                    if one.belongings is not None:
                        self._kept[client.name] = one.belongings.kept[client.name]
        self._desk: Any = None
        self._roots = Roots()
        self._learns = any(_reads_files(client) for client in self._clients.values())

    def serve(self, effect: Serve) -> list[Effect]:
        """Performs a `Serve` effect: what follows at once, if not later."""
        token = effect.token
        if effect.service == KEEP:
            return []  # the router has
        if effect.service in LOCAL:
            answer = self._local.serve(effect.peer, effect.service, effect.params)
            return self._router.served(token, *answer) if token is not None else []

        def done(result: bytes | None, error: bytes | None) -> None:
            if token is not None:
                self._apply(self._router.served(token, result, error))

        name, service, params = effect.peer, effect.service, effect.params
        if service == RELAYED:
            try:
                asked = msgspec.json.decode(params or b"{}", type=Relayed)
                if self._hosts.get(asked.component) != name or (
                    asked.method not in CALLS and asked.method != KEEP
                ):
                    raise ValueError(f"`{asked.component}` is not one of its guests")
                most = self._clients[asked.component].limits["service_bytes"]
                wrong = too_large(asked.method, memoryview(asked.params).nbytes, most)
                if wrong is not None:
                    raise ValueError(wrong)
            except (ValueError, UnicodeDecodeError) as error:  # a `DecodeError` is a ValueError
                done(None, error_object(INVALID_PARAMS, str(error)))
                return []
            name, service, params = asked.component, asked.method, bytes(asked.params)
            if service == KEEP:
                self._kept[name].update(params)
                return []
        self._open().serve(name, service, params, done)
        return []

    def look(self, frames: Iterable[bytes]) -> None:
        """Learns from what the client says which folders files may be read in."""
        if self._learns:
            for frame in frames:
                self._roots.look(frame)

    def answered(self, data: bytes) -> None:
        """Learns from what the client is told, whole lines, which sessions those are of."""
        if self._roots.waiting:
            self._roots.answered(data)

    def reconfigure(self, name: str, params: bytes) -> None:
        """A proxy's configuration has changed: it is told."""
        self._tell(RECONFIGURE, name, "configure", params)

    def forget(self, name: str) -> None:
        """A component has ended or starts afresh: nothing is done for it any more."""
        if self._desk is not None:
            for client, host in self._hosts.items():
                if name in (client, host):
                    self._desk.forget(client)
            self._desk.forget(name)

    async def close(self) -> None:
        """Ends what is under way."""
        if self._desk is not None:
            await self._desk.close()

    def _open(self) -> Any:
        if self._desk is None:
            from conductor.services.executor import Desk

            def tell(name: str, method: str, params: bytes) -> None:
                self._tell(TELL, name, method, params)

            self._desk = Desk(
                self._clients,
                self._roots,
                tell,
                self._log,
                held=lambda name: self._held(self._hosts.get(name, name)),
                store=self._options.values or paths.values(),
                metrics=self._options.metrics,
            )
        return self._desk

    def _tell(self, how: str, name: str, method: str, params: bytes) -> None:
        host = self._hosts.get(name)
        if host is not None:
            relayed = msgspec.json.encode(Relayed(name, method, msgspec.Raw(params)))
            self._apply(self._router.tell(host, how, relayed))
        elif how == RECONFIGURE:
            self._apply(self._router.reconfigure(name, params))
        else:
            self._apply(self._router.tell(name, method, params))


def _reads_files(client: Client) -> bool:
    return client.grants is None or any(one.startswith("files:") for one in client.grants)
