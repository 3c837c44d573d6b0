"""Golden transcripts: one whole conversation for each dialect in each mode, to be read by people.

    name> a frame that this peer sent
    name< a frame that it got

After a change that is meant: `UPDATE_GOLDEN=1 pytest tests/core/test_golden.py`, then read the
difference before committing it.
"""

import json
import os

import pytest

from conductor.core import CHANNEL, DIALECTS, Component, Dialect
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import (
    CANCEL,
    FORMS,
    INITIALIZE,
    NEW,
    PROMPT,
    Agent,
    Json,
    Stage,
    chain,
    conversation,
    dump,
    proxy,
)
from tests.places import GOLDEN

KINDS = (*FORMS, "scp", "channel")


def compare(name: str, log: list[str]) -> None:
    """Compares a transcript with the recorded one, or records it."""
    path = GOLDEN / f"{name}.txt"
    text = "\n".join(log) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


@pytest.mark.parametrize("kind", KINDS)
def test_agent_mode(kind: str) -> None:
    stage = chain([kind])
    conversation(stage)
    compare(f"{kind}-agent", stage.log)


@pytest.mark.parametrize("kind", ["acp", "sdk", "sacp", "pacp", "scp"])
def test_agent_mode_found_out(kind: str) -> None:
    stage = chain([kind], told=False)
    stage.say(INITIALIZE)
    compare(f"{kind}-detected", stage.log)


@pytest.mark.parametrize("kind", KINDS)
def test_proxy_mode(kind: str) -> None:
    """The component speaks the dialect, and so does the outer conductor (`acp` in the case of
    `scp`, whose proxies have no envelope to answer with)."""
    outer = DIALECTS["acp" if kind == "scp" else kind]
    upstream = CHANNEL if kind == "channel" else None
    router = Router(
        [Component("p1", dialect=DIALECTS[kind])], "proxy", options=RouterOptions(upstream=upstream)
    )
    stage = Stage(router, [proxy(kind, "p1")])
    outside = Outside(outer, stage)
    outside.play()
    compare(f"{kind}-proxy", stage.log)


class Outside:
    """An outer conductor between a client and an agent, reduced to one conversation."""

    def __init__(self, dialect: Dialect, stage: Stage) -> None:
        self.dialect = dialect
        self.stage = stage
        self.agent = Agent("agent")
        self.taken = 0

    def play(self) -> None:
        """Plays each kind of message once, as `conversation` does."""
        params: Json = {**INITIALIZE["params"]}
        if self.dialect.offer:
            params["_meta"] = {"symposium": {"version": "1.0", "proxy": True}}
        self.down({**INITIALIZE, "method": self.dialect.role, "params": params})
        self.down(NEW)
        asked = self.down(PROMPT)
        ended = self.down({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": "allow"}})
        assert ended["result"] == {"stopReason": "end_turn"}
        asked = self.down(PROMPT)
        ended = self.down(CANCEL)
        assert ended["error"]["code"] == -32800
        self.down({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": "cancelled"}})

    def down(self, message: Json) -> Json:
        """Says something as the predecessor; the last thing it was told as such."""
        return self.say(message, b"p")

    def say(self, message: Json, side: bytes) -> Json:
        """Says something, plays the successor too, and returns the last frame that was sent."""
        tag = side if self.dialect.sideband else b""
        self.stage.say(tag + dump(message))
        last: Json = {}
        while self.taken < len(self.stage.client):
            told = self.stage.client[self.taken]
            self.taken += 1
            if not self._is_for_successor(told):
                last = told
                if "proxy/" in told.get("method", ""):
                    no = {"code": -32601, "message": "Method not found"}
                    self.say({"jsonrpc": "2.0", "id": told["id"], "error": no}, b"p")
                continue
            for _, line in self.agent.hear("agent", dump(self._opened(told))):
                last = self.say(self._wrapped(line), b"s") or last
        return last

    def _is_for_successor(self, told: Json) -> bool:
        if self.dialect.sideband:
            lines = [line for line in self.stage.log if line.startswith("client< ")]
            return lines[self.taken - 1].startswith("client< s")
        method = told.get("method")
        if method == "$/cancel_request":
            return told["params"]["requestId"] in self.agent.asked.values()
        ours = (self.dialect.down_request, self.dialect.down_notification)
        return method in ours or (method is None and told["id"] in self.agent.asked)

    def _opened(self, told: Json) -> Json:
        if self.dialect.sideband or told.get("method") in (None, "$/cancel_request"):
            return told
        inner: Json = told["params"]["message"] if self.dialect.nested else told["params"]
        return {**_head(told), **inner}

    def _wrapped(self, line: bytes) -> Json:
        said: Json = json.loads(line)
        if self.dialect.sideband or said.get("method") in (None, "$/cancel_request"):
            return said
        method = self.dialect.up_request if "id" in said else self.dialect.up_notification
        inner = {k: said[k] for k in ("method", "params") if k in said}
        params = {"message": inner} if self.dialect.nested else inner
        return {**_head(said), "method": method, "params": params}


def _head(message: Json) -> Json:
    return {key: message[key] for key in ("jsonrpc", "id") if key in message}
