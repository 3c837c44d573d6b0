"""The records of each session in the conductor's store, in parts, so that the store's quota
holds."""

import hashlib
import json
from typing import Any

from guest_sdk.python import Conversation, Proxy, Refused
from guest_sdk.python.conversation import Turn

PART = 200_000
"""Bytes of one part at most; the store takes 256 KiB a value."""

Head = dict[str, Any]
"""The record of a session without its turns: `id`, `cwd`, `title`, `updated`, `leftOut`, and the
numbers of its `first` part and of the `next` one."""


class Store:
    """Conversations by session, for the project that the conductor was started in.

    Where the store refuses, a warning says so, once, and the conversation goes on.
    """

    def __init__(self, proxy: Proxy[Any]) -> None:
        self._proxy = proxy
        self._last: dict[str, list[Any]] = {}
        """The turns of the last part, of the sessions that were written to."""
        self._warned = False

    async def head(self, id_: str) -> Head | None:
        """The record of a session without its turns; None: there is none."""
        try:
            found = await self._proxy.kv.get(f"session/{_name(id_)}")
        except Refused:
            return None
        return found if isinstance(found, dict) and found.get("id") == id_ else None

    async def heads(self) -> list[Head]:
        """The same of all sessions, the oldest first."""
        try:
            keys = await self._proxy.kv.keys("session/")
            found = [await self._proxy.kv.get(key) for key in keys]
        except Refused:
            return []
        heads = [one for one in found if isinstance(one, dict)]
        return sorted(heads, key=lambda one: str(one.get("updated")))

    async def load(self, head: Head) -> Conversation:
        """A conversation. Parts that are missing count as left out."""
        turns: list[Any] = []
        for number in range(head["first"], head["next"]):
            part = await self._proxy.kv.get(_part(head["id"], number))
            turns += part if isinstance(part, list) else []
        held = {"turns": turns, "sessionId": head["id"], "cwd": head["cwd"]}
        return Conversation.read({**held, "leftOut": head["leftOut"]})

    async def append(self, id_: str, cwd: str, conversation: Conversation) -> None:
        """Adds turns to a session, which is new if it is not known."""
        head = await self.head(id_) or {
            "id": id_, "cwd": cwd, "title": "", "leftOut": 0, "first": 0, "next": 0,
        }  # fmt: skip
        head["leftOut"] += conversation.left_out
        head["title"] = head["title"] or _title(conversation)
        head["updated"] = await self._now()
        try:
            await self._write(head, [_short(turn) for turn in conversation.turns])
        except Refused as refused:
            self._warn(f"{id_} is not kept: {refused.message}")

    async def forget(self, id_: str) -> bool:
        """Forgets a session; whether it was known."""
        head = await self.head(id_)
        if head is None:
            return False
        self._last.pop(id_, None)
        for number in range(head["first"], head["next"]):
            await self._proxy.kv.delete(_part(id_, number))
        return await self._proxy.kv.delete(f"session/{_name(id_)}")

    async def move(self, id_: str, to: str) -> None:
        """Keeps a session under another id from now on."""
        head = await self.head(id_)
        if head is None:
            return
        self._last.pop(id_, None)
        kv = self._proxy.kv
        for number in range(head["first"], head["next"]):
            part = await kv.get(_part(id_, number), [])
            await kv.delete(_part(id_, number))
            await kv.set(_part(to, number), part)
        await kv.delete(f"session/{_name(id_)}")
        await kv.set(f"session/{_name(to)}", {**head, "id": to})

    # -- inside --------------------------------------------------------------------------------

    async def _write(self, head: Head, turns: list[Any]) -> None:
        """Adds turns to the last part, and to as many more as they take. Raises `Refused`."""
        id_ = head["id"]
        part = self._last.get(id_)
        if part is None:
            part = await self._proxy.kv.get(_part(id_, head["next"] - 1), [])
        size = _bytes(part)
        for turn in turns:
            more = _bytes(turn) + 1
            if head["next"] == head["first"] or size + more > PART:
                await self._put_part(head, part)
                part, size = [], 2
                head["next"] += 1
            part, size = [*part, turn], size + more
        await self._put_part(head, part)

    async def _put_part(self, head: Head, part: list[Any]) -> None:
        """Writes the last part, together with the head of the session."""
        id_ = head["id"]
        if not part:
            return
        self._last[id_] = part
        await self._put(head, _part(id_, head["next"] - 1), part)
        await self._put(head, f"session/{_name(id_)}", head)

    async def _put(self, head: Head, key: str, value: Any) -> None:
        """Writes a value; where the quota is used up, the oldest makes room. Raises `Refused`."""
        while True:
            try:
                await self._proxy.kv.set(key, value)
            except Refused as refused:
                if not refused.granted or not await self._make_room(head):
                    raise
            else:
                return

    async def _make_room(self, head: Head) -> bool:
        """Forgets the oldest part of the oldest other session, or of this one; whether it could."""
        others = [one for one in await self.heads() if one["id"] != head["id"]]
        if others:
            self._warn(f"the store is full: {others[0]['id']} and older sessions are forgotten")
            return await self.forget(others[0]["id"])
        if head["first"] + 1 >= head["next"]:
            return False
        part = await self._proxy.kv.get(_part(head["id"], head["first"]), [])
        await self._proxy.kv.delete(_part(head["id"], head["first"]))
        head["first"] += 1
        head["leftOut"] += len(part)
        return True

    async def _now(self) -> str:
        try:
            return (await self._proxy.clock.now()).isoformat()
        except Refused:
            return ""

    def _warn(self, said: str) -> None:
        (self._proxy.log if self._warned else self._proxy.log.warn)(said)
        self._warned = True


def _name(id_: str) -> str:
    """A session's id as part of a key, which has 512 bytes at most."""
    return id_ if len(id_) <= 100 else hashlib.sha256(id_.encode("utf-8", "replace")).hexdigest()


def _part(id_: str, number: int) -> str:
    return f"part/{_name(id_)}/{number}"


def _bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _short(turn: Turn) -> Any:
    """A turn as JSON that fits into a part."""
    single = Conversation(turns=[turn])
    single.trim(PART)
    return single.turns[0].json()


def _title(conversation: Conversation) -> str:
    """The beginning of the first prompt."""
    said = [one.text for turn in conversation.turns for one in turn.prompts]
    return " ".join(said[0].split())[:80] if said else ""
