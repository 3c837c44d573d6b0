"""A proxy of dialect `acp` that adds one MCP server, of the generation given, to every session.

`--log FILE` writes what it hears of MCP, one JSON line each. A message that holds the text `/die`
ends it with exit code 7. Of calls to `slow`, of cancellations and of closed connections it says on
its standard error that they are there.

`--offers FILE` has the result of `tools/list`, as it is whenever that is asked for.

With `--shout` it adds no server: of what the agent is answered by servers of proxies before it, it
puts each text into capitals.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.e2e.actors.mcp_component import CAPABILITIES, DECLARED, TOOLS, Component, tool

Json = dict[str, Any]
SETUPS = ("session/new", "session/load", "session/resume", "session/fork")


class Proxy:
    """Passes everything on, and plays the component."""

    def __init__(
        self,
        generation: str,
        name: str,
        log: Path | None,
        *,
        shout: bool = False,
        offers: Path | None = None,
    ) -> None:
        id_ = f"id-of-{name}"
        declared = json.dumps({**DECLARED[generation], "name": name})
        self._declared = json.loads(declared.replace('"ID"', f'"{id_}"').replace(":ID", f":{id_}"))
        self._component = Component(generation, self._from_component, id_, name)
        self._component.capabilities = {**CAPABILITIES, "prompts": {}}
        asked = {"role": "user", "content": {"type": "text", "text": "well?"}}
        self._component.sampling = {"maxTokens": 9, "messages": [asked]}
        self._component.tells_session = True
        self._component.lists = lambda params: {"tools": [tool(name) for name in TOOLS]}
        if offers is not None:
            self._component.lists = lambda params: json.loads(offers.read_text())
        self._log = log
        self._shout = shout
        self._shouted: set[object] = set()
        self._open: dict[object, object] = {}
        self._last = 0
        self._mine: dict[object, object] = {}

    def receive(self, frame: Json) -> None:
        """Takes one line of the conductor's."""
        method, params = frame.get("method"), frame.get("params")
        if method is None:
            self._answered(frame)
        elif method == "proxy/initialize":
            self._pass(frame, {"method": "initialize", "params": params})
        elif method == "proxy/successor":
            assert params is not None
            inner = {key: params[key] for key in ("method", "params") if key in params}
            if "mcp" in str(inner["method"]) and self._is_mine(inner["params"]):
                self._hear({**inner, **({"id": frame["id"]} if "id" in frame else {})})
            else:
                self._up(frame, inner)
                if self._shout and "mcp" in str(inner["method"]):
                    self._shouted.add(f"f{self._last}")
        elif method == "$/cancel_request":
            assert params is not None
            if params["requestId"] not in self._open.values():
                self._hear(frame)
            for id_, asked in self._open.items():
                if asked == params["requestId"]:
                    self._write({"method": method, "params": {"requestId": id_}})
        elif method in SETUPS:
            assert params is not None
            added = [] if self._shout else [self._declared]
            servers = [*params.get("mcpServers", []), *added]
            self._pass(frame, {"method": method, "params": {**params, "mcpServers": servers}})
        else:
            self._pass(frame, {"method": method, "params": params})

    def _is_mine(self, params: Json) -> bool:
        return (
            self._component.id in json.dumps(params) or params.get("name") == self._component.name
        )

    def _hear(self, frame: Json) -> None:
        text = json.dumps(frame)
        if self._log is not None:
            with self._log.open("a") as file:
                file.write(text + "\n")
        said = frame["method"]
        if '"slow"' in text or said == "$/cancel_request" or said.endswith("mcp/disconnect"):
            sys.stderr.write(f"heard {said}\n")
            sys.stderr.flush()
        if '"/die"' in text:
            os._exit(7)
        self._component.receive(frame)

    def _from_component(self, frame: Json) -> None:
        if "method" not in frame:
            self._write(frame)
            return
        head = {}
        if "id" in frame:
            self._last += 1
            head = {"id": f"m{self._last}"}
            self._mine[f"m{self._last}"] = frame["id"]
        self._write({**head, "method": "proxy/successor",
                     "params": {"method": frame["method"], "params": frame["params"]}})  # fmt: skip

    def _pass(self, frame: Json, inner: Json) -> None:
        """Sends a message of the predecessor on to the successor."""
        self._write({**self._head(frame), "method": "proxy/successor", "params": inner})

    def _up(self, frame: Json, inner: Json) -> None:
        self._write({**self._head(frame), **inner})

    def _head(self, frame: Json) -> Json:
        if "id" not in frame:
            return {}
        self._last += 1
        self._open[f"f{self._last}"] = frame["id"]
        return {"id": f"f{self._last}"}

    def _answered(self, frame: Json) -> None:
        if frame["id"] in self._mine:
            self._component.receive({**frame, "id": self._mine.pop(frame["id"])})
            return
        if frame["id"] in self._shouted:
            self._shouted.discard(frame["id"])
            frame = _shouted(frame)
        self._write({**frame, "id": self._open.pop(frame["id"])})

    @staticmethod
    def _write(frame: Json) -> None:
        line = json.dumps({"jsonrpc": "2.0", **frame}) + "\n"
        sys.stdout.buffer.write(line.encode())
        sys.stdout.buffer.flush()


def _shouted(held: Any) -> Any:
    """The same with every member `text` in capitals."""
    if isinstance(held, list):
        return [_shouted(one) for one in held]
    if not isinstance(held, dict):
        return held
    return {
        key: one.upper() if key == "text" and isinstance(one, str) else _shouted(one)
        for key, one in held.items()
    }


def main() -> None:
    """Serves until its input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--generation", default="stateless")
    parser.add_argument("--name", default="tools")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--shout", action="store_true")
    parser.add_argument("--offers", type=Path)
    given = parser.parse_args()
    proxy = Proxy(given.generation, given.name, given.log, shout=given.shout, offers=given.offers)
    for line in sys.stdin.buffer:
        proxy.receive(json.loads(line))


if __name__ == "__main__":
    main()
