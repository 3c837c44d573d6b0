"""The services of the conductor: time, randomness, storage, files, the network, a log.

Each call is a message on the proxy's channel, and each needs a right (`allow=clock`), except
`log` and `metric`. Without it the call raises `Refused`. docs/architecture.md has the contract.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from typing import Any, Final

from .engine import engine
from .errors import Refused
from .jsontext import read_json
from .records import Record
from .tasks import Waiter

RIGHTS: Final = {"fetch": "web", "files": "read", "kv": "storage"}
"""The words of services that are called otherwise than their calls."""
NAMES: Final = ("clock", "random", "read", "storage", "timer", "web", "write")
"""The rights to services: three with `:` and what for."""


class Service:
    """A family of requests to the conductor."""

    __slots__ = ()

    @staticmethod
    def ask(method: str, /, **params: Any) -> Waiter[Any]:
        """Sends one request; parameters that are None are left out."""
        return engine().serve(method, {k: v for k, v in params.items() if v is not None})


class Clock(Service):
    """The time (`allow=clock`)."""

    async def now(self) -> datetime.datetime:
        """The local time of the conductor's machine, with its offset; whole seconds."""
        return datetime.datetime.fromisoformat((await self.ask("clock"))["iso"])

    async def unix_ms(self) -> int:
        """Milliseconds since 1970."""
        return int((await self.ask("clock"))["unixMs"])


class Random(Service):
    """Randomness (`allow=random`)."""

    async def bytes(self, count: int = 16) -> bytes:
        """So many random bytes, 1 to 4096."""
        return bytes.fromhex((await self.ask("random", bytes=count))["hex"])

    async def integer(self, below: int) -> int:
        """A number of 0 up to, not including, `below`."""
        if below < 1:
            raise ValueError("below must be at least 1")
        drawn = await self.bytes((below.bit_length() + 7) // 8 + 8)
        return int.from_bytes(drawn, "big") % below

    async def uuid(self) -> str:
        """A random UUID."""
        import uuid

        return str(uuid.UUID(bytes=await self.bytes(16), version=4))


class Kv(Service):
    """A small store that outlives the session (`allow=storage`): keys are text, values any JSON.

    `scope`: `project` (the default: a store for each project) or `user` (one for all).
    """

    async def get(self, key: str, default: Any = None, *, scope: str | None = None) -> Any:
        """The value of a key, or `default`."""
        found = await self.ask("kv/get", key=key, scope=scope)
        return found["value"] if found["found"] else default

    async def found(self, key: str, *, scope: str | None = None) -> tuple[Any, int]:
        """The value of a key (None without one) and its revision (0 without one)."""
        found = await self.ask("kv/get", key=key, scope=scope)
        return found.get("value"), int(found.get("revision", 0))

    async def set(
        self, key: str, value: Any, *, scope: str | None = None, if_revision: int | None = None
    ) -> int:
        """Keeps a value; its revision. Raises `Refused` when the quota is used up, and where the
        value has no longer the revision `if_revision` (0: there is one): then `refused.reason` is
        `conflict`."""
        params = {"key": key, "value": value, **({"scope": scope} if scope else {})}
        if if_revision is not None:
            params["ifRevision"] = if_revision
        return int((await engine().serve("kv/set", params)).get("revision", 0))

    async def change(
        self, key: str, new: Callable[[Any], Any], default: Any = None, *, scope: str | None = None
    ) -> Any:
        """Keeps the result of `new` for the value of a key, or for `default`; returns that result.
        `new` is called again when somebody else sets the value meanwhile."""
        while True:
            value, revision = await self.found(key, scope=scope)
            made = new(value if revision else default)
            try:
                await self.set(key, made, scope=scope, if_revision=revision)
            except Refused as refused:
                if refused.reason != "conflict":
                    raise
            else:
                return made

    async def delete(self, key: str, *, scope: str | None = None) -> bool:
        """Forgets a key; whether it was there."""
        return bool((await self.ask("kv/delete", key=key, scope=scope))["deleted"])

    async def keys(self, prefix: str | None = None, *, scope: str | None = None) -> list[str]:
        """All keys that begin with `prefix`, sorted."""
        keys: list[str] = []
        more = True
        while more:
            after = keys[-1] if keys else None
            page = await self.ask("kv/list", prefix=prefix, after=after, scope=scope)
            keys += page["keys"]
            more = bool(page["more"]) and bool(page["keys"])
        return keys


Callback = Callable[[], Any]


class RunningTimer:
    """A timer that was started; `await timer.stop()` ends it."""

    __slots__ = ("_engine", "id")

    def __init__(self, id: Any) -> None:  # noqa: A002 - the service's word
        self.id = id
        self._engine = engine()

    async def stop(self) -> None:
        """Ends it; it does not fire any more."""
        self._engine.timers.pop(self.id, None)
        await self._engine.serve("timer/stop", {"timer": self.id})


class Timer(Service):
    """Things that happen later (`allow=timer`). Times are seconds, at least 0.01."""

    async def sleep(self, seconds: float) -> None:
        """Waits so long."""
        fired: Waiter[None] = Waiter()
        await self.after(seconds, lambda: fired.resolve(None))
        await fired

    async def after(self, seconds: float, callback: Callback) -> RunningTimer:
        """Calls a function, sync or async, once."""
        return await self._start(callback, once=True, afterMs=_ms(seconds))

    async def every(self, seconds: float, callback: Callback) -> RunningTimer:
        """Calls a function, sync or async, again and again."""
        return await self._start(callback, once=False, afterMs=_ms(seconds), everyMs=_ms(seconds))

    async def _start(self, callback: Callback, *, once: bool, **params: Any) -> RunningTimer:
        running = engine()
        asked = running.serve("timer/start", params)
        # It may fire in the same delivery as the answer.
        asked.then(lambda: running.timer_started(asked, callback, once=once))
        return RunningTimer((await asked)["timer"])


def _ms(seconds: float) -> int:
    return max(10, round(seconds * 1000))


class Response:
    """The response that `fetch` got."""

    __slots__ = ("body", "headers", "status", "truncated", "url")

    def __init__(self, held: dict[str, Any]) -> None:
        self.status = int(held["status"])
        self.url = str(held.get("url", ""))
        self.headers: dict[str, str] = held.get("headers", {})
        """By lower-case name."""
        self.truncated = bool(held.get("truncated"))
        """Whether the body was longer than the requested bytes."""
        self.body = _content(held)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON. Raises `ValueError`, also for JSON of more than 200 levels."""
        return read_json(self.body)


class Fetch(Service):
    """The network, by the conductor (`allow=web:api.example.com`)."""

    async def __call__(
        self,
        url: str,
        *,
        method: str | None = None,
        headers: dict[str, str] | None = None,
        body: str | bytes | None = None,
        max_bytes: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the conductor keeps it
    ) -> Response:
        """Fetches a URL; `timeout` in seconds. A status such as 404 is an answer, not an error."""
        held = await self.ask(
            "fetch",
            url=url,
            method=method,
            headers=headers,
            text=body if isinstance(body, str) else None,
            base64=base64.b64encode(body).decode() if isinstance(body, bytes) else None,
            maxBytes=max_bytes,
            timeoutMs=_ms(timeout) if timeout is not None else None,
        )
        return Response(held)


class Files(Service):
    """The project's files (`allow=read:**/*.md` to read, `allow=write:notes` to write)."""

    async def roots(self) -> list[str]:
        """The folders the client works in."""
        return list((await self.ask("files/roots"))["roots"])

    async def read(self, path: str) -> str:
        """A whole file as text, at most 8 MiB of it."""
        return (await self.read_bytes(path)).decode("utf-8", "replace")

    async def read_bytes(self, path: str, *, offset: int = 0, max_bytes: int = 8 << 20) -> bytes:
        """A part of a file."""
        held = await self.ask("files/read", path=path, offset=offset or None, maxBytes=max_bytes)
        return _content(held)

    async def list(
        self, path: str | None = None, *, glob: str | None = None, limit: int | None = None
    ) -> list[Record]:
        """The entries of a folder: records with `path`, `kind`, `size`, `mtime_ms`."""
        held = await self.ask("files/list", path=path, glob=glob, limit=limit)
        return [Record(entry) for entry in held["entries"]]

    async def write(
        self,
        path: str,
        content: str | bytes,
        *,
        root: str | None = None,
        if_sha256: str | None = None,
    ) -> str:
        """Writes a whole file, at most 1 MiB, into a folder that is granted for it; its absolute
        path. `root`: the session's folder that `path` counts from, where there are several.
        `if_sha256`: the digest of the content that was read (empty: there was no file). Where the
        file has other content by now, it raises `Refused`, whose `reason` is `conflict`."""
        held = await self.ask(
            "files/write",
            path=path,
            root=root,
            text=content if isinstance(content, str) else None,
            base64=base64.b64encode(content).decode() if isinstance(content, bytes) else None,
            ifSha256=if_sha256,
        )
        return str(held["path"])

    async def exists(self, path: str) -> bool:
        """Whether a file can be read. Raises `Refused` for a file without a right."""
        try:
            await self.read_bytes(path, max_bytes=1)
        except Refused as refused:
            if not refused.granted:
                raise
            return False
        return True


def _content(held: dict[str, Any]) -> bytes:
    if "base64" in held:
        return base64.b64decode(held["base64"])
    return str(held.get("text", "")).encode("utf-8", "surrogatepass")


class Log(Service):
    """Lines in the conductor's log; no right is needed."""

    def __call__(self, message: str, *, level: str = "info", **data: Any) -> None:
        """Writes a line; `level` is debug, info, warn or error, `data` anything JSON."""
        params: dict[str, Any] = {"level": level, "message": str(message)}
        if data:
            params["data"] = data
        engine().notify("c", "log", params)

    def debug(self, message: str, **data: Any) -> None:
        """A line for the author."""
        self(message, level="debug", **data)

    def info(self, message: str, **data: Any) -> None:
        """A line for who asks for it."""
        self(message, **data)

    def warn(self, message: str, **data: Any) -> None:
        """A line the user sees."""
        self(message, level="warn", **data)

    def error(self, message: str, **data: Any) -> None:
        """A line the user sees."""
        self(message, level="error", **data)


class Payload(Service):
    """Long texts that come as references (limit `text_bytes`); no right is needed."""

    async def read(self, reference: str) -> str:
        """The text that a reference stands for; any other text is itself."""
        name, _, rest = reference.partition(":sha256:")
        digest, more = rest.partition(":")[0], name == "conductor-payload"
        parts: list[str] = []
        offset = 0
        while more:
            part = await self.ask("payload/read", digest=digest, offset=offset, maxBytes=1 << 20)
            parts.append(part["text"])
            offset, more = offset + part["bytes"], part["more"]
        return "".join(parts) if parts else reference


class Metric(Service):
    """Numbers for the conductor's metrics; no right is needed."""

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Adds to a counter."""
        self._send(name, value, "counter", labels)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Sets a gauge."""
        self._send(name, value, "gauge", labels)

    def _send(self, name: str, value: float, kind: str, labels: dict[str, str]) -> None:
        params: dict[str, Any] = {"name": name, "value": value, "kind": kind}
        if labels:
            params["labels"] = labels
        engine().notify("c", "metric", params)
