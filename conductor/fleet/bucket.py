"""Values that NATS keeps by key, with their revisions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec
from nats import errors
from nats.js import errors as js_errors
from nats.js.kv import KeyValue

from conductor.errors import ConductorError

if TYPE_CHECKING:
    from nats.js import JetStreamContext

STREAM: Final = "KV_"
"""How the stream of a bucket is called."""


class Kept(msgspec.Struct, frozen=True):
    """A value, and the revision that it has."""

    value: bytes
    revision: int


class Bucket:
    """Values by key. Methods raise `ConductorError` where NATS does not keep them now."""

    def __init__(
        self,
        name: str,
        values: KeyValue,
        js: JetStreamContext,
        unkept: Callable[[str, Exception], Unkept],
    ) -> None:
        self._name, self._unkept = name, unkept
        self._values, self._js = values, js
        self._prefix = f"$KV.{name}."

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """Gives the reason where NATS does not answer as it should. Raises `Unkept`."""
        try:
            yield
        except (errors.Error, OSError, TimeoutError) as error:
            raise self._unkept(self._name, error) from None

    async def born(self) -> int:
        """When the bucket was made, in milliseconds. A bucket made anew has another time."""
        with self._asked():
            info = await self._js.stream_info(STREAM + self._name)
        return int(info.created.timestamp() * 1000) if info.created is not None else 0

    async def get(self, key: str) -> Kept | None:
        """The value of a key; None: there is none."""
        with self._asked():
            try:
                entry = await self._values.get(key)
            except js_errors.KeyNotFoundError:
                return None
        return Kept(entry.value or b"", entry.revision or 0)

    async def put(self, key: str, value: bytes) -> int:
        """Sets a key, whatever it has; the revision."""
        with self._asked():
            return await self._values.put(key, value)

    async def create(self, key: str, value: bytes) -> int:
        """Sets a key that has no value. Returns the revision; 0: the key has a value."""
        with self._asked():
            try:
                return await self._values.create(key, value)
            except js_errors.KeyWrongLastSequenceError:
                return 0

    async def update(self, key: str, value: bytes, last: int) -> int:
        """Sets a key whose value still has a revision; the next revision, 0: it has not."""
        with self._asked():
            try:
                return await self._values.update(key, value, last)
            except js_errors.KeyWrongLastSequenceError:
                return 0

    async def delete(self, key: str, last: int = 0) -> bool:
        """Deletes a key, if its value still has a revision; whether it had."""
        with self._asked():
            try:
                return await self._values.delete(key, last or None)
            except js_errors.BadRequestError:
                return False

    async def purge(self, key: str) -> None:
        """Removes a key, and leaves no mark of it: its next value has no revision to be compared
        with."""
        with self._asked():
            await self._js.purge_stream(STREAM + self._name, subject=self._prefix + key)

    async def keys(self, pattern: str) -> list[str]:
        """The keys that fit a pattern, in which `*` stands for any word; also the keys for which
        `delete` has left a mark."""
        with self._asked():
            info = await self._js.stream_info(
                STREAM + self._name, subjects_filter=self._prefix + pattern
            )
        return [subject.removeprefix(self._prefix) for subject in info.state.subjects or {}]


class Unkept(ConductorError):  # noqa: N818 - as above
    """JetStream does not do something now. `undone`: nothing has been changed."""

    def __init__(self, name: str, why: str, *, undone: bool) -> None:
        super().__init__(
            f"NATS does not keep `{name}` now: {why}",
            "JetStream must be on, with room on its disk, and a leader for the stream",
        )
        self.undone = undone
