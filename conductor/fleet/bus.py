"""The bus between the parts of a fleet: a connection to NATS that comes back by itself.

Nothing here blocks a publisher: while NATS is away, `publish` drops (links keep the frames that the
other end does not have), and `request` fails at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import anyio
import msgspec
from nats import errors
from nats.js import errors as js_errors
from nats.js.api import KeyValueConfig, StorageType, StreamConfig
from nats.js.kv import KeyValue

from conductor.errors import ConductorError, place_of
from conductor.fleet.bucket import STREAM, Bucket, Unkept
from conductor.fleet.client import BusClient, is_final, why
from conductor.fleet.place import Place, login
from conductor.transports.task_group import TaskGroup

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

ASKED: Final = 5.0
"""Seconds that a part of the fleet has for an answer."""

_PING: Final = 0.5
"""Seconds between two looks whether NATS still answers; it is away when it owes two answers."""
_CONNECTED: Final = 1
"""Seconds in which a server must take a connection: then it is another server's turn."""
_RETRY: Final = 0.2
_AGAIN: Final = 1.0
"""Seconds until the bus tries again to make streams and buckets that NATS has lost."""
_MADE: Final = 3
"""So many tries to make a bucket."""
_REPLICAS: Final = 3
_TWICE: Final = 120.0
"""Seconds in which a stream stores an entry that is sent twice only once."""
_EXPORTED: Final = "JS.fleet"
"""The prefix under which the accounts of deploy/nats ask the JetStream of another account."""
_PLAIN: Final = "$JS.API"
_ANSWERS: Final = ("_INBOX.", "_R_.")
"""How a place for answers begins: of this account, or of another."""
_STORED: Final = "Nats-Stream"
_BATCH: Final = 256
"""The most messages of a stream that are asked for at once."""
_BATCH_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of messages that are asked for at once."""
_SHRUNK: Final = 3.0
"""Seconds in which the clients of a server that is gone must come to another server."""
_UNSENT: Final = 16 * 1024 * 1024
"""Bytes that wait for NATS itself, at most: links have windows far below that."""

Made = TypeVar("Made")
Taker = Callable[[str, bytes], None]
"""Takes the subject and the payload of a message."""
Answerer = Callable[[bytes], Awaitable[bytes]]
"""Answers a request."""
End = Callable[[], Coroutine[Any, Any, None]]
"""Ends a subscription."""


class Unanswered(ConductorError):  # noqa: N818 - nobody is to blame
    """Nobody has answered a request. `absent`: NATS knows that nobody listens there."""

    def __init__(self, subject: str, *, absent: bool) -> None:
        why = "nobody listens there" if absent else "no answer came in time"
        super().__init__(
            f"`{subject}` on NATS: {why}", "`conductor fleet status` shows who is there"
        )
        self.absent = absent


class Away(ConductorError):  # noqa: N818 - as above
    """NATS cannot be reached now."""

    def __init__(self) -> None:
        super().__init__("NATS is away", "it is tried again all the time; see its log")


class Bus:
    """One connection.

    Attributes:
        cut: Called when NATS is gone.
        linked: Called when NATS is there again.
        is_admin: Whether this connection makes streams and buckets, also where others may not.
        log: Takes sentences.
    """

    def __init__(
        self,
        place: Place,
        name: str,
        log: Callable[[str], None],
        over: Callable[[], None] = lambda: None,
    ) -> None:
        """`name` is shown in the server's lists; `log` takes sentences. `over` is called when NATS
        no longer lets this part of the fleet in."""
        self.cut: list[Callable[[], None]] = []
        self.linked: list[Callable[[], None]] = []
        self._over = over
        self.is_admin = False
        self._place, self._name, self.log = place, name, log
        self._client = BusClient(place.is_secure)
        self._js: JetStreamContext | None = None
        self._trying = anyio.CancelScope()
        """Ends the try to connect."""
        self._error: Exception | None = None
        """The client's last error."""
        self._prefix = _PLAIN
        self._loop = asyncio.get_running_loop()
        self._was_cut = self._closing = False
        self._makers: dict[str, Callable[[], Awaitable[object]]] = {}
        """Functions that make the streams and buckets that this part needs, by name."""
        self._making: asyncio.Task[None] | None = None
        self._tasks = TaskGroup(self.defect)
        self._is_unmade = self._has_made = False
        """Whether NATS must be asked for streams and buckets; and whether one was missing."""

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Starts a task, which ends with the bus; once the bus ends, no task starts. An error of
        the task is logged, and ends no other task."""
        if self._closing:
            work.close()
            return None
        return self._tasks.start(work)

    def defect(self, error: Exception) -> None:
        """Says that something has failed that may not; all else goes on."""
        self.log(f"a defect of conductor: {place_of(error)}")

    @property
    def is_linked(self) -> bool:
        """Whether NATS is there."""
        return self._client.is_connected and not self._was_cut

    @property
    def has_lost_a_server(self) -> bool:
        """Whether the cluster has lost a server just now: clients may be on their way to another
        server, and nobody listens for them meanwhile."""
        shrunk = self._client.shrunk
        return shrunk is not None and self._loop.time() < shrunk + _SHRUNK

    @property
    def api(self) -> str:
        """How the subjects begin by which JetStream is asked."""
        return self._prefix

    @property
    def jetstream(self) -> JetStreamContext:
        """The context for streams and values."""
        assert self._js is not None
        return self._js

    async def connect(self) -> None:
        """Connects. Raises `ConductorError` where that does not succeed in time."""
        place, shown = self._place, login(self._place)
        await self._tasks.__aenter__()
        deadline = self._loop.time() + place.wait
        while True:
            # Not asyncio's timeout, which cancels once: code that the client awaits may swallow
            # the cancel.
            self._trying = limit = anyio.CancelScope(deadline=deadline)
            try:
                with limit:
                    await self._client.connect(
                        [*place.nats],
                        name=self._name,
                        error_cb=self._failed,
                        disconnected_cb=self._lost,
                        reconnected_cb=self._found,
                        closed_cb=self._ended,
                        connect_timeout=_CONNECTED,
                        ping_interval=_PING,  # type: ignore[arg-type]
                        max_outstanding_pings=2,
                        reconnect_time_wait=_RETRY,  # type: ignore[arg-type]
                        max_reconnect_attempts=-1,
                        pending_size=_UNSENT,
                        **shown,
                    )
                if not limit.cancelled_caught:
                    break
                raise TimeoutError
            except (TimeoutError, OSError, errors.Error, ValueError) as error:
                cause = self._error or error
                if is_final(cause) or self._loop.time() >= deadline:
                    raise ConductorError(
                        f"no connection to NATS at {place.shown}: {why(cause)}",
                        "`--nats` says where it is; `conductor fleet dev` starts one of its own",
                    ) from None
                await asyncio.sleep(_RETRY)
        self._prefix = await self._found_prefix()
        self._js = self._client.jetstream(prefix=self._prefix, timeout=ASKED)

    async def _failed(self, error: Exception) -> None:
        """The client has met an error. Its `connect` tries again by itself."""
        is_connecting = self._js is None
        if is_connecting and self._error is None and not is_final(error):
            self.log(f"NATS at {self._place.shown} is not there yet ({why(error)}); waiting")
        self._error = error
        if is_connecting and is_final(error):
            self._trying.deadline = 0.0
        if isinstance(error, errors.SlowConsumerError):
            self.log(f"NATS has sent more than was taken: {error}")
        elif "permissions violation" in str(error).lower():
            self.log(f"NATS refuses an action of this user: {error}")

    async def _found_prefix(self) -> str:
        """The prefix of subjects for JetStream: that of another account, or of this one."""
        try:
            await self._client.request(f"{_EXPORTED}.INFO", b"", ASKED)
        except errors.NoRespondersError:
            return _PLAIN
        except (errors.Error, OSError, TimeoutError):
            pass  # it is there, and slow
        return _EXPORTED

    async def close(self) -> None:
        """Ends the connection."""
        self._closing = True
        # RuntimeError: uvloop's, where the client writes its rest to a socket that is gone.
        with contextlib.suppress(errors.Error, OSError, TimeoutError, RuntimeError):
            if self._client.is_connected:
                async with asyncio.timeout(1.0):
                    await self._client.flush()
            await self._client.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.0):  # nobody is waited for
                await self._tasks.__aexit__(None, None, None)

    async def _lost(self) -> None:
        if not self._was_cut and not self._closing:
            self._was_cut = True
            self.log("NATS is away; it is tried again all the time")
            for call in [*self.cut]:
                self._call(call)

    async def _found(self) -> None:
        self._was_cut = False
        self.log("NATS is there again")
        self._make_soon()
        for call in [*self.linked]:
            self._call(call)

    def _make_soon(self) -> None:
        """NATS may have lost streams and buckets."""
        self._is_unmade = True
        if self._making is None or self._making.done():
            self._making = self.start(self._make_again())

    async def _make_again(self) -> None:
        """Makes streams and buckets that are missing; again if NATS loses any meanwhile."""
        said, self._has_made = "", False
        while self._is_unmade and self.is_linked:
            self._is_unmade = False
            try:
                for make in [*self._makers.values()]:
                    await make()
            except (ConductorError, errors.Error, OSError, TimeoutError) as error:
                why = str(error)
                if why != said:
                    self.log(f"NATS does not keep all that it should yet: {why}")
                said, self._is_unmade = why, True
                await asyncio.sleep(_AGAIN)
        if self._has_made:  # the lost content must be written again
            for call in [*self.linked]:
                self._call(call)

    async def _ended(self) -> None:
        """The client has given up: NATS does not let it in any more."""
        await self._lost()
        if not self._closing:
            self.log(
                f"NATS has ended the connection for good: {why(self._client.last_error or Away())}"
            )
            self._call(self._over)

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # the other calls are made
            self.defect(error)

    # -- messages --------------------------------------------------------------------------------

    def publish(
        self,
        subject: str,
        payload: bytes,
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Sends a message to all who listen; drops it while NATS is away. Answers go to `reply`."""
        if self.is_linked:
            _send(self._client.publish(subject, payload, reply, headers))

    @property
    def answers(self) -> int:
        """How often NATS has answered `ask`: while the number stays, NATS may stand still, and
        nobody else is to blame for silence."""
        return self._client.answers

    def ask(self) -> None:
        """Asks NATS for a sign of life, unless NATS owes a sign already."""
        if self.is_linked and not self._client.is_asked:
            _send(self._client.ping())

    def inbox(self) -> str:
        """A name for answers, which nobody else has; words may follow it."""
        return self._client.new_inbox()

    async def request(self, subject: str, payload: bytes, seconds: float = ASKED) -> bytes:
        """Asks one of the listeners. Raises `Away` and `Unanswered`."""
        if not self.is_linked:
            raise Away
        try:
            answer = await self._client.request(subject, payload, seconds)
        except errors.NoRespondersError:
            raise Unanswered(subject, absent=True) from None
        except (errors.TimeoutError, TimeoutError):
            raise Unanswered(subject, absent=False) from None
        except (errors.Error, OSError):
            raise Away from None
        return answer.data

    async def gather(self, subject: str, payload: bytes, seconds: float) -> list[bytes]:
        """Asks all listeners, and takes the answers that come until so many seconds after the first
        answer. Raises `Away`."""
        answers: list[bytes] = []
        inbox = self._client.new_inbox()
        first = asyncio.Event()

        async def take(message: Msg) -> None:
            if message.data:  # else NATS says that nobody listens
                answers.append(message.data)
            first.set()

        try:
            heard = await self._client.subscribe(inbox, cb=take)
            await self._client.publish(subject, payload, reply=inbox)
            with anyio.move_on_after(ASKED):  # on a busy machine it takes a while
                await first.wait()
            await asyncio.sleep(seconds)
            await heard.unsubscribe()
        except (errors.Error, OSError):
            raise Away from None
        return answers

    async def listen(self, subject: str, take: Taker) -> End:
        """Takes messages, one after the other. The returned function ends the subscription."""

        async def taken(message: Msg) -> None:
            try:
                take(message.subject, message.data)
            except Exception as error:  # the next message is taken
                self.defect(error)

        return await self._subscribed(subject, taken, "")

    async def answer(self, subject: str, answer: Answerer, group: str = "") -> End:
        """Answers requests, several at once. The returned function ends the subscription. In a
        `group` one member answers each request."""

        async def reply(message: Msg) -> None:
            data = await answer(message.data)
            if message.reply.startswith(_ANSWERS):  # else it is no place for answers
                self.publish(message.reply, data)

        async def taken(message: Msg) -> None:
            if _STORED in (message.headers or {}):
                return  # JetStream was told to send a stored message here
            self.start(reply(message))

        return await self._subscribed(subject, taken, group)

    async def settled(self) -> None:
        """Waits until NATS knows where this part listens."""
        with contextlib.suppress(errors.Error, OSError, TimeoutError):
            await self._client.flush(int(ASKED))

    async def _subscribed(
        self, subject: str, taken: Callable[[Msg], Awaitable[None]], group: str
    ) -> End:
        try:
            heard = await self._client.subscribe(subject, queue=group, cb=taken)
        except (errors.Error, OSError):
            raise Away from None

        async def end() -> None:
            with contextlib.suppress(errors.Error, OSError):
                await heard.unsubscribe()

        return end

    # -- streams and values ----------------------------------------------------------------------

    @property
    def replicas(self) -> int:
        """The number of servers that keep a stream: three in a cluster of three or more servers."""
        return _REPLICAS if len(self._client.servers) >= _REPLICAS else 1

    async def stream(self, name: str, subjects: str, seconds: float) -> None:
        """Makes a stream, where there is none; its entries go after so many seconds (0: never).
        Raises `ConductorError`."""
        config = StreamConfig(
            name=name,
            subjects=[subjects],
            storage=StorageType.FILE,
            max_age=seconds,
            num_replicas=self.replicas,
            duplicate_window=_TWICE,
            allow_direct=True,  # so that it can be read without a consumer
        )

        async def make() -> None:
            try:
                await self.jetstream.stream_info(name)
            except js_errors.NotFoundError:
                self._about_to_make(name)
                await self.jetstream.add_stream(config)

        try:
            await self.kept(name, make)
        except (errors.Error, OSError, TimeoutError) as error:
            raise self.unkept(name, error) from None

    async def kept(self, name: str, make: Callable[[], Awaitable[Made]]) -> Made:
        """The result of `make`, which finds a stream or bucket or makes it. `make` is called again
        when NATS has come back without it. Raises the errors of `make`."""
        made = await make()
        self._makers[name] = make
        return made

    def _about_to_make(self, name: str) -> None:
        """Raises `ConductorError` where only an administrator makes streams and buckets."""
        if self._prefix == _EXPORTED and not self.is_admin:
            raise ConductorError(
                f"NATS keeps no `{name}` yet",
                "an administrator makes all that a fleet keeps: `conductor fleet init`",
            )
        self._has_made = True

    def unkept(self, name: str, error: Exception) -> Unkept:
        """The error where JetStream does not do something. A stream or bucket that JetStream has
        lost is made again."""
        if isinstance(error, js_errors.NoStreamResponseError | js_errors.NotFoundError):
            self._make_soon()
        undone = isinstance(
            error,
            js_errors.NoStreamResponseError
            | js_errors.ServiceUnavailableError
            | errors.NoRespondersError,
        )
        return Unkept(name, why(error) if self.is_linked else "NATS is away", undone=undone)

    async def bucket(self, name: str) -> Bucket:
        """A bucket of values, made where there is none. Raises `ConductorError`."""
        make = partial(self._values, name)
        for left in reversed(range(_MADE)):
            try:
                values = await self.kept(f"{STREAM}{name}", make)
            except (errors.Error, OSError, TimeoutError) as error:
                # A cluster that has just started chooses its leaders.
                if not left or not isinstance(error, TimeoutError):
                    raise self.unkept(name, error) from None
            else:
                break
        return Bucket(name, values, self.jetstream, self.unkept)

    async def _values(self, name: str) -> KeyValue:
        try:
            await self.jetstream.key_value(name)
        except js_errors.BucketNotFoundError:
            self._about_to_make(name)
            config = KeyValueConfig(
                bucket=name,
                history=1,
                storage=StorageType.FILE,
                replicas=self.replicas,
                direct=True,
            )
            with contextlib.suppress(js_errors.BadRequestError):  # somebody has just made it
                await self.jetstream.create_key_value(config)
        # The leader of the stream answers: a writer reads its own writes.
        js, prefix = self.jetstream, f"$KV.{name}."
        return KeyValue(name=name, stream=STREAM + name, pre=prefix, js=js, direct=False)

    async def stored(self, stream: str, subjects: str) -> AsyncIterator[Stored]:
        """The messages of some subjects that a stream has now, in order. Raises
        `ConductorError`."""
        try:
            last = (await self.jetstream.stream_info(stream)).state.last_seq
            following, more = 1, True
            while more and following <= last:
                more = False
                for message in await self._batch(stream, subjects, following):
                    headers = message.headers or {}
                    following = int(headers["Nats-Sequence"]) + 1
                    more = headers.get("Nats-Num-Pending", "0") != "0"
                    if following > last + 1:  # later messages may come without end
                        return
                    yield Stored(headers["Nats-Subject"], headers, message.data)
        except js_errors.NotFoundError:
            raise ConductorError(
                f"NATS keeps no stream `{stream}`",
                "`conductor fleet init` makes it, or the worker that needs it: `conductor fleet "
                "worker --journal on` the journal",
            ) from None
        except (errors.Error, OSError, TimeoutError, KeyError, ValueError) as error:
            raise self.unkept(stream, error) from None

    async def _batch(self, stream: str, subjects: str, following: int) -> list[Msg]:
        """The next messages of a stream from a number on; empty: there are no more."""
        asked = {
            "seq": following,
            "next_by_subj": subjects,
            "batch": _BATCH,
            "max_bytes": _BATCH_BYTES,
        }
        inbox = self._client.new_inbox()
        heard = await self._client.subscribe(inbox)
        found: list[Msg] = []
        try:
            subject = f"{self._prefix}.DIRECT.GET.{stream}"
            await self._client.publish(subject, msgspec.json.encode(asked), reply=inbox)
            while True:
                message = await heard.next_msg(ASKED)
                status = (message.headers or {}).get("Status", "")
                if status == "503":
                    raise errors.NoRespondersError
                if status:  # the end, or no messages at all
                    return found
                found.append(message)
        finally:
            await heard.unsubscribe()


class Stored(NamedTuple):
    """A message of a stream."""

    subject: str
    headers: dict[str, str]
    data: bytes


def _send(sending: Coroutine[object, object, None]) -> None:
    """Has the client queue its message: the client only waits where it has nothing to send."""
    with contextlib.suppress(StopIteration, errors.Error, OSError):
        sending.send(None)
        sending.close()
