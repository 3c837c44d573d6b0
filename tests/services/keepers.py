"""The keepers of values, opened as a test needs them: the file of a user, and the bucket of a
fleet."""

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any, Protocol

import msgspec
import pytest

from conductor.fleet.bus import Bus
from conductor.fleet.kv import FleetValues
from conductor.fleet.place import Place
from conductor.services import kv
from conductor.services.calls import Grantee, ServiceError
from tests.services.support import grantee

NOTHING = {"found": False, "revision": 0}


def ask(store: kv.Values, who: str, service: str, **params: object) -> Any:
    """Performs a request; the result as the component would decode it."""
    result = getattr(store, service)(grantee(who), msgspec.json.encode(params))
    return msgspec.json.decode(msgspec.json.encode(result))


def conflict(store: kv.Values, **params: object) -> int:
    """The revision that a refused `kv/set` names."""
    with pytest.raises(ServiceError) as caught:
        ask(store, "p", "set", **params)
    body = msgspec.json.decode(caught.value.body("kv/set"))
    revision = int(body["data"]["revision"])
    assert body["data"] == {"service": "kv/set", "reason": "conflict", "revision": revision}
    has = f"the value has revision {revision}" if revision else "there is no value"
    assert str(caught.value).split("\n") == [
        f"{has} now; `ifRevision` is {params['ifRevision']}",
        "hint: somebody else has set it: read it again, and set it anew",
    ]
    return revision


class Opener(Protocol):
    """Opens what keeps values."""

    def __call__(self, project: str) -> kv.Values:
        """The values of chains in a project."""

    def close(self) -> None:
        """Closes all."""


class Files:
    """Opens stores of one file, and closes them all: Python 3.13 warns of databases that are left
    open."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._stores: list[kv.Store] = []

    def __call__(self, project: str, file: str = "") -> kv.Store:
        """The values of chains in a project."""
        store = kv.Store(file or self._file, project)
        self._stores.append(store)
        return store

    def close(self) -> None:
        """Closes all."""
        for store in self._stores:
            store.close()


class Fleet:
    """Opens the values of a fleet: each as on a worker of its own. Their event loop has a thread of
    its own here."""

    def __init__(self, url: str, user: str = "", password: str = "") -> None:
        """`url`: of a server; of several with commas between."""
        servers = tuple(url.split(","))
        self._place = Place(nats=servers, user=user, password=password)
        self._loop = asyncio.new_event_loop()
        self._buses: list[Bus] = []
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def __call__(self, project: str) -> kv.Values:
        """The values of chains in a project."""

        async def opened() -> FleetValues:
            bus = Bus(self._place, "test", lambda line: None)
            self._buses.append(bus)
            await bus.connect()
            return FleetValues(bus, project, "user")

        return _Waiting(self, self.wait(opened()))

    def wait(self, work: Awaitable[Any]) -> Any:
        """Waits for what the loop performs."""

        async def done() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result()

    def close(self) -> None:
        """Closes all."""
        for bus in self._buses:
            self.wait(bus.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Waiting:
    """The values of a fleet, for a caller who waits."""

    def __init__(self, fleet: Fleet, values: FleetValues) -> None:
        self._fleet, self._values = fleet, values

    def get(self, grantee: Grantee, params: bytes | None) -> object:
        return self._fleet.wait(self._values.get(grantee, params))

    def set(self, grantee: Grantee, params: bytes | None) -> object:
        return self._fleet.wait(self._values.set(grantee, params))

    def delete(self, grantee: Grantee, params: bytes | None) -> object:
        return self._fleet.wait(self._values.delete(grantee, params))

    def list(self, grantee: Grantee, params: bytes | None) -> object:
        return self._fleet.wait(self._values.list(grantee, params))

    def close(self) -> None:
        self._values.close()
