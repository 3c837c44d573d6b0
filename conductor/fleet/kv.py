"""`kv` of a fleet: the values of components in one bucket, which all workers see.

The bucket is `kv` of the tenant's account; a key there is SPACE.KEY. A space holds the values of
one component in one project, or for one user. Many spaces in one bucket cost NATS one stream, while
a bucket each would cost as many streams as there are spaces.

The leader of the stream answers reads, so a component sees its own writes. A deleted value leaves
no mark: a stream with a mark for each deleted key would grow without end. The bytes of a space are
counted by the worker: it asks for all sizes now and then, and always before it refuses.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from conductor.errors import ConductorError
from conductor.fleet import names
from conductor.fleet.bucket import Bucket, Unkept
from conductor.fleet.bus import Away, Bus, Unanswered
from conductor.services import kv
from conductor.services.calls import Grantee, ServiceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

BUCKET: Final = "kv"
_STREAM: Final = f"KV_{BUCKET}"
_SUBJECTS: Final = f"$KV.{BUCKET}."
_COUNTED: Final = 10.0
"""Seconds that the sizes of a space count as known, while others may write there."""
_SHARE: Final = 50
"""The sizes count as known for at least so many times the duration of their request."""
_SPACES: Final = 32
"""Spaces whose sizes are kept."""
_HEAD: Final = 256
"""Bytes of an answer in which an error would stand."""
_BUSY: Final = 503
"""The code of an error: nobody leads the stream now."""
_BOUND: Final = 10.0
"""Seconds for one call: a stream's leader is chosen in less."""
_LOOK: Final = 0.05
_TRIES: Final = 3

Result = TypeVar("Result")


class _Gone(msgspec.Struct):
    purged: int = 0


class _State(msgspec.Struct):
    subjects: dict[str, int] | None = None


class _Info(msgspec.Struct):
    state: _State


class _Sizes:
    """The bytes of each value of a space."""

    def __init__(self, sizes: dict[str, int], until: float) -> None:
        self.sizes, self.until = sizes, until
        self.total = sum(sizes.values())

    def set(self, key: str, size: int) -> None:
        """A value has been set."""
        self.total += size - self.sizes.get(key, 0)
        self.sizes[key] = size

    def drop(self, key: str) -> None:
        """A value is gone."""
        self.total -= self.sizes.pop(key, 0)


class FleetValues:
    """The values of the components of one user's chains (`conductor.services.kv.Values`).

    Args:
        bus: The bus.
        project: The owner of the values of the scope `project`: the same on all workers.
        user: The owner of the values of the scope `user`.
    """

    def __init__(self, bus: Bus, project: str, user: str) -> None:
        self._bus, self._project, self._user = bus, project, user
        self._bucket: Bucket | None = None
        self._opening = asyncio.Lock()
        self._counted: OrderedDict[str, _Sizes] = OrderedDict()

    async def get(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/get`."""
        request = kv.read_key(params)
        space = self._space(grantee, request.scope)
        return await self._within(lambda: self._get(space, request.key))

    async def set(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/set`."""
        request = kv.read_value(params)
        space = self._space(grantee, request.scope)
        return await self._within(lambda: self._set(space, request))

    async def delete(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/delete`."""
        request = kv.read_key(params)
        space = self._space(grantee, request.scope)
        return await self._within(lambda: self._delete(space, request.key))

    async def list(self, grantee: Grantee, params: bytes | None) -> object:
        """Performs `kv/list`."""
        request = kv.read_list(params)
        space = self._space(grantee, request.scope)
        return await self._within(lambda: self._list(space, request))

    def close(self) -> None:
        """Does nothing: the bus is the worker's."""

    def _space(self, grantee: Grantee, scope: kv.Scope) -> str:
        # By its name alone: who sets up a fleet chooses the names, and the place of its file is
        # another after each rollout.
        whose = ("project", self._project) if scope == "project" else ("user", self._user)
        return hashlib.sha256("\0".join((grantee.name, *whose)).encode()).hexdigest()

    async def _within(self, perform: Callable[[], Awaitable[Result]]) -> Result:
        """Performs a call in bounded time; again while NATS says that nothing was done: the stream
        may be without a leader. Raises `ServiceError`."""
        error: ConductorError = Away()
        try:
            async with asyncio.timeout(_BOUND):
                while True:
                    while not self._bus.is_linked:  # it may be there again in a moment
                        await asyncio.sleep(_LOOK)
                    try:
                        return await perform()
                    except (Unkept, Unanswered) as failed:
                        error = failed
                        if not (failed.undone if isinstance(failed, Unkept) else failed.absent):
                            break
                        await asyncio.sleep(_LOOK)
        except TimeoutError:
            pass
        except ConductorError as failed:
            error = failed
        text = (
            "the values of the fleet cannot be reached now; the new value may be set, or not\n"
            "hint: read it, and try again"
        )
        raise ServiceError("storage", text, private=f"{error.text}\nhint: {error.hint}")

    # -- requests to NATS ------------------------------------------------------------------------

    async def _get(self, space: str, key: str) -> object:
        kept = await (await self._opened()).get(_at(space, key))
        return kv.found(kept.value, kept.revision) if kept is not None else kv.found(None, 0)

    async def _set(self, space: str, request: kv.OfValue) -> object:
        bucket, value = await self._opened(), bytes(request.value)
        size, at = kv.size(request.key, value), _at(space, request.key)
        sizes = await self._room(space, request.key, size)
        if request.if_revision is None:
            revision = await bucket.put(at, value)
        else:
            revision = await self._set_if(bucket, at, value, request)
        sizes.set(request.key, size)
        return kv.stored(sizes.total, revision)

    async def _set_if(self, bucket: Bucket, at: str, value: bytes, request: kv.OfValue) -> int:
        """Sets a value that still has the revision asked for, else raises `ServiceError`."""
        for _ in range(_TRIES):
            revision = await bucket.update(at, value, request.if_revision or 0)
            if revision:
                return revision
            kept = await bucket.get(at)
            # The value may have got the revision asked for in between.
            kv.check_revision(request, kept.revision if kept is not None else 0)
        raise ServiceError("storage", "others set the value too often at the moment; try again")

    async def _delete(self, space: str, key: str) -> object:
        await self._opened()
        asked = {"filter": _SUBJECTS + _at(space, key)}
        gone = msgspec.json.decode(await self._ask(f"STREAM.PURGE.{_STREAM}", asked), type=_Gone)
        if space in self._counted:
            self._counted[space].drop(key)
        return {"deleted": gone.purged > 0}

    async def _list(self, space: str, request: kv.OfList) -> object:
        await self._opened()
        asked = {"subjects_filter": f"{_SUBJECTS}{space}.*"}
        data = await self._ask(f"STREAM.INFO.{_STREAM}", asked)
        keys = await asyncio.to_thread(_chosen, data, request)  # there may be 10,000
        return kv.listed(keys, request.limit)

    async def _ask(self, call: str, params: object) -> bytes:
        """One request to JetStream. Raises `ConductorError`."""
        data = await self._bus.request(f"{self._bus.api}.{call}", msgspec.json.encode(params))
        if b'"error"' in data[:_HEAD]:
            failed = msgspec.json.decode(data, type=_Failed)
            if failed.error is not None:
                raise Unkept(BUCKET, failed.error.description, undone=failed.error.code == _BUSY)
        return data

    async def _opened(self) -> Bucket:
        if self._bucket is None:
            async with self._opening:
                if self._bucket is None:
                    self._bucket = await self._bus.bucket(BUCKET)
        return self._bucket

    # -- how much there is -----------------------------------------------------------------------

    async def _room(self, space: str, key: str, size: int) -> _Sizes:
        """The sizes of a space. Raises `ServiceError` where there is no room for a value."""
        sizes = self._counted.get(space)
        if sizes is None or sizes.until < time.monotonic() or not _fits(sizes, key, size):
            began = time.monotonic()
            found = await self._count(space)
            now = time.monotonic()
            until = now + max(_COUNTED, _SHARE * (now - began))
            sizes = self._counted[space] = _Sizes(found, until)
        self._counted.move_to_end(space)
        while len(self._counted) > _SPACES:
            self._counted.popitem(last=False)
        others = len(sizes.sizes) - (key in sizes.sizes)
        kv.check_quota(others, sizes.total - sizes.sizes.get(key, 0) + size)
        return sizes

    async def _count(self, space: str) -> dict[str, int]:
        """The bytes of each value of a space. Raises `ConductorError`."""
        sizes: dict[str, int] = {}
        async for one in self._bus.stored(_STREAM, f"{_SUBJECTS}{space}.*"):
            with contextlib.suppress(ValueError):  # somebody else's key
                key = _key(one.subject)
                sizes[key] = len(key.encode()) + len(one.data)
        return sizes


class _Error(msgspec.Struct):
    code: int = 0
    description: str = "it says nothing about it"


class _Failed(msgspec.Struct):
    error: _Error | None = None


def _fits(sizes: _Sizes, key: str, size: int) -> bool:
    with contextlib.suppress(ServiceError):
        others = len(sizes.sizes) - (key in sizes.sizes)
        kv.check_quota(others, sizes.total - sizes.sizes.get(key, 0) + size)
        return True
    return False


def _at(space: str, key: str) -> str:
    return f"{space}.{names.encoded(key)}"


def _key(subject: str) -> str:
    return names.decoded(subject.rpartition(".")[2])


def _chosen(data: bytes, request: kv.OfList) -> list[str]:
    """The keys that a list asks for, out of JetStream's answer, and one more if there is one."""
    subjects = msgspec.json.decode(data, type=_Info).state.subjects or {}
    every = sorted(_key(subject) for subject in subjects)
    wanted = (key for key in every if key > request.after and key.startswith(request.prefix))
    return [key for key, _ in zip(wanted, range(request.limit + 1), strict=False)]
