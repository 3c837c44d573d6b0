"""The records in the conductor's store: for sessions loaded later, and for a new start."""

from typing import Any

from guest_sdk.python import Proxy, Refused, Session

RECENT = "recent"
"""The key of how the latest sessions were opened; of the others each has a key of its own."""
LATEST = 16


class Kept:
    """The sessions this proxy knew, also in an earlier life.

    `inner`: ids of sessions that the client does not know, and the client's that each belongs to.
    """

    def __init__(self, proxy: Proxy) -> None:
        self.inner: dict[str, str] = {}
        self._proxy = proxy
        self._recent: dict[str, Any] = {}

    async def learn(self) -> None:
        """Learns in which sessions the agent may still be at work, if this is a new start."""
        older = await self._get(RECENT) or {}
        newer = dict(self._recent)
        self._recent.clear()
        self._recent.update({**older, **newer})
        for id_, held in older.items():
            for agent in held["agents"]:
                if agent not in self._proxy.sessions:
                    self.inner.setdefault(agent, id_)

    async def parts(self, id_: str) -> Any:
        """The record of a session; None: there is none."""
        return await self._get(f"session/{id_}")

    async def opened(self, id_: str) -> dict[str, Any]:
        """How a session was opened; empty where that is forgotten."""
        held = self._recent or await self._get(RECENT) or {}
        found: dict[str, Any] = held.get(id_, {}).get("setup") or {}
        return found

    async def hidden(self) -> set[str]:
        """All sessions the client does not know."""
        try:
            keys = await self._proxy.kv.keys("inner/")
        except Refused:
            keys = []
        return {*self.inner, *(key.removeprefix("inner/") for key in keys)}

    async def begun(self, session: Session) -> None:
        """Takes up a session that begins here; agents may give an id again that an old one had."""
        try:
            await self._proxy.kv.delete(f"session/{session.id}")
            await self._proxy.kv.delete(f"inner/{session.id}")
        except Refused as refused:
            self._proxy.log(refused.message)
            return
        await self.setup(session)

    async def record(self, session: Session) -> None:
        """Keeps the agent's sessions that a session has had, and the facts that must not be
        forgotten."""
        chat = session.state
        held = {
            "past": chat.past,
            "agent": chat.agent,
            "facts": chat.facts,
            "summary": chat.summary,
            "choices": chat.chosen(),
        }
        try:
            await self._proxy.kv.set(f"session/{session.id}", held)
            if chat.past:
                await self._proxy.kv.set(f"inner/{chat.agent}", session.id)
        except Refused as refused:
            told = f"loaded again, {session.id} is cut off: {refused.message}"
            (self._proxy.log.warn if chat.past else self._proxy.log)(told)
            return
        await self.setup(session)

    async def setup(self, session: Session) -> None:
        """Keeps how a session was opened, and which it is, in case this proxy is started again.

        Setups with secrets, as in the environment of MCP servers, are not written down.
        """
        chat = session.state
        servers = chat.setup.get("mcpServers")
        secret = any(
            isinstance(one, dict) and (one.get("env") or one.get("headers"))
            for one in (servers if isinstance(servers, list) else [])
        )
        agents = [one for one in (*chat.past, chat.agent) if one != session.id]
        self._recent.pop(session.id, None)
        self._recent[session.id] = {"setup": {} if secret else chat.setup, "agents": agents}
        for id_ in list(self._recent)[:-LATEST]:
            del self._recent[id_]
        try:
            await self._proxy.kv.set(RECENT, self._recent)
        except Refused as refused:
            self._proxy.log(refused.message)

    async def forget(self, id_: str, agents: list[str]) -> None:
        """Forgets a session that is deleted, and the agent's that it was."""
        kv = self._proxy.kv
        try:
            for key in (f"session/{id_}", *(f"inner/{one}" for one in agents)):
                await kv.delete(key)
            self._recent.pop(id_, None)
            await (kv.set(RECENT, self._recent) if self._recent else kv.delete(RECENT))
        except Refused as refused:
            self._proxy.log(refused.message)

    async def _get(self, key: str) -> Any:
        """A value that was kept; None without one, or without the service."""
        try:
            return await self._proxy.kv.get(key)
        except Refused as refused:
            self._proxy.log(refused.message)
            return None
