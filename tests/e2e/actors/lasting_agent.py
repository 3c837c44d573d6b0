"""An agent whose sessions outlast its process: it keeps them in a folder, and can load them again.

    python -m tests.e2e.actors.lasting_agent FOLDER [--resume] [--no-load]

Its log is `FOLDER/A`, as the rig reads it, its process id stands in `FOLDER/pid`. A prompt is its
text: `hang` waits to be cancelled, `ask` asks for a permission, `tools` says the tools of the first
MCP server over stdio, `fail` ends the process, and all else is said back. Standard library only;
both versions of ACP.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]

HOME: Final = Path(sys.argv[1])
FLAGS: Final = sys.argv[2:]


def note(way: str, line: str) -> None:
    """Logs one line."""
    with (HOME / "A").open("a", encoding="utf-8") as log:
        log.write(f'{{"dir":"{way}","frame":{line}}}\n')


def send(**message: Any) -> None:
    """Writes one line."""
    line = json.dumps({"jsonrpc": "2.0", **message})
    note("out", line)
    print(line, flush=True)


class Agent:
    """The state of this process."""

    def __init__(self) -> None:
        self.version = 1
        self.open: dict[str, Json] = {}
        self.running: dict[str, Any] = {}
        """By session: the id of the prompt that runs."""
        self.asked = 0

    # -- sessions --------------------------------------------------------------------------------

    def path(self, session: str) -> Path:
        """The file with what was said in a session."""
        return HOME / f"session-{session}"

    def said(self, session: str) -> list[str]:
        """The texts of a session."""
        return self.path(session).read_text(encoding="utf-8").splitlines()

    def keep(self, session: str, text: str) -> None:
        """A session goes on."""
        with self.path(session).open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    def load(self, id_: Any, params: Json, *, replays: bool) -> None:
        """A session of an earlier process is opened again."""
        session = params["sessionId"]
        if not self.path(session).exists():
            send(id=id_, error={"code": -32002, "message": "its file is damaged"})
            return
        if replays:
            for text in self.said(session):
                self.update(session, "agent_message_chunk", text=text)
        self.open[session] = params
        if self.version == 2:
            self.update(session, "state_update", state="idle")
        send(id=id_, result={})

    # -- turns -----------------------------------------------------------------------------------

    def update(self, session: str, kind: str, text: str | None = None, **members: Any) -> None:
        """Says something in a session."""
        update: Json = {"sessionUpdate": kind, **members}
        if text is not None:
            update |= {"content": {"type": "text", "text": text}, "messageId": "m"}
        send(method="session/update", params={"sessionId": session, "update": update})

    def say(self, session: str, text: str) -> None:
        """Says a text."""
        self.keep(session, text)
        self.update(session, "agent_message_chunk", text=text)

    def prompt(self, id_: Any, params: Json) -> None:
        """Plays one turn."""
        session, text = params["sessionId"], str(params["prompt"][-1].get("text"))
        if session not in self.open:
            send(id=id_, error={"code": -32002, "message": "no such session"})
            return
        if self.version == 2:
            send(id=id_, result={"messageId": "user"})
            self.update(session, "state_update", state="running")
        self.running[session] = id_
        match text:
            case "fail":
                os._exit(3)
            case "hang":
                self.say(session, "hanging")
                return
            case "ask":
                self.asked += 1
                options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
                asked = {"sessionId": session, "toolCall": {"toolCallId": "t"}, "options": options}
                send(id=f"ask-{self.asked}", method="session/request_permission", params=asked)
                return
            case "history":
                self.say(session, "|".join(self.said(session)))
            case "setup":
                kept = {k: self.open[session].get(k) for k in ("cwd", "additionalDirectories")}
                self.say(session, json.dumps(kept))
            case "tools":
                self.say(session, tools(self.open[session]["mcpServers"][0]))
            case _:
                self.say(session, text)
        self.end(session, "end_turn")

    def end(self, session: str, reason: str) -> None:
        """A turn is over."""
        if session in self.running:
            id_ = self.running.pop(session)
            if self.version == 2:
                self.update(session, "state_update", state="idle", stopReason=reason)
            else:
                send(id=id_, result={"stopReason": reason})

    # -- messages --------------------------------------------------------------------------------

    def initialize(self, params: Json) -> Json:
        """The result of `initialize`."""
        self.version = params["protocolVersion"]
        able = "--no-load" not in FLAGS
        if self.version == 2:
            capabilities: Json = {"session": {"prompt": {}, "mcp": {"stdio": {}}}} if able else {}
            return {"protocolVersion": 2, "info": {"name": "lasting", "version": "1"},
                    "capabilities": capabilities, "authMethods": []}  # fmt: skip
        resume: Json = {"resume": {}} if "--resume" in FLAGS else {}
        abilities = {"loadSession": able, "sessionCapabilities": resume}
        return {"protocolVersion": self.version, "agentCapabilities": abilities}

    def hear(self, message: Json) -> None:
        """Takes one message."""
        id_, params = message.get("id"), message.get("params", {})
        match message.get("method"):
            case None:
                session = next(iter(self.running))
                self.say(session, str(message.get("result", {}).get("outcome")))
                self.end(session, "end_turn")
            case "initialize":
                send(id=id_, result=self.initialize(params))
            case "session/new":
                session = f"s{len(list(HOME.glob('session-*'))) + 1}"
                self.path(session).touch()
                self.open[session] = params
                send(id=id_, result={"sessionId": session})
            case "session/load":
                self.load(id_, params, replays=True)
            case "session/resume":
                self.load(id_, params, replays=False)
            case "session/close":
                self.open.pop(params["sessionId"], None)
                send(id=id_, result={})
            case "session/prompt":
                self.prompt(id_, params)
            case "session/cancel":
                self.end(params["sessionId"], "cancelled")
            case _ if id_ is not None:
                send(id=id_, error={"code": -32601, "message": "Method not found"})


def tools(server: Json) -> str:
    """The names of the tools of an MCP server over stdio."""
    variables = {one["name"]: one["value"] for one in server.get("env", [])}
    with subprocess.Popen(
        [server["command"], *server["args"]],
        env={**os.environ, **variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        about = {"protocolVersion": "2025-06-18", "capabilities": {},
                 "clientInfo": {"name": "lasting", "version": "1"}}  # fmt: skip
        lines: list[Json] = [
            {"id": 1, "method": "initialize", "params": about},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
        ]
        for line in lines:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
        process.stdin.flush()
        answers = (json.loads(line) for line in process.stdout)
        listed = next(answer for answer in answers if answer.get("id") == 2)
        process.stdin.close()
        return ",".join(tool["name"] for tool in listed["result"]["tools"])


def main() -> None:
    """Serves standard input."""
    (HOME / "pid").write_text(str(os.getpid()), encoding="utf-8")
    agent = Agent()
    for line in sys.stdin:
        note("in", line.rstrip("\n"))
        agent.hear(json.loads(line))


if __name__ == "__main__":
    main()
