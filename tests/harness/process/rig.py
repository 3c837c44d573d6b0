"""The rig: chains of scripted components behind the real command line.

    chain = rig.agent(rig.x("X1", dialect="pacp"), rig.demo())
    chain.initialize(); session = chain.new_session(); chain.prompt(session, "hi")

A is the bundled `demo`, X is `actors/recording_proxy.py`, C is `client.Client`. Every component
logs its lines to a file of its own name; `rig.log(name)` reads it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shlex
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import wasmtime

from tests.harness.process.client import Client, Json
from tests.harness.process.command import COMMAND
from tests.harness.process.processes import MARKER, SUPPORTED, Kin, marked, outliving
from tests.places import DEADLINE, HOSTILE, ROOT

PROXIES: Final = ("acp", "sdk", "sacp", "pacp", "scp")
"""Every dialect X speaks."""


def package_folder() -> Path:
    """The folder of the package under test, found without importing it."""
    spec = importlib.util.find_spec("conductor")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))


PACKAGE: Final = package_folder()
_INSTALLED: Final = PACKAGE / "_components"
DEMO: Final = (
    (_INSTALLED if _INSTALLED.is_dir() else PACKAGE.parent / "components") / "demo" / "agent.py"
)
"""The bundled agent."""


class Logged(NamedTuple):
    """A frame in a component's log, raw."""

    name: str
    link: str
    dir: str
    raw: bytes

    @property
    def frame(self) -> Json:
        """The frame, decoded."""
        frame: Json = json.loads(self.raw)
        return frame


class Chain(Client):
    """A conductor's client that knows a little ACP."""

    def initialize(self, **params: object) -> Json:
        """Initializes; the result."""
        full = {"protocolVersion": 1, "clientCapabilities": {}, **params}
        answer = self.request("initialize", full)
        assert "result" in answer, f"{answer}{self.story()}"
        result: Json = answer["result"]
        return result

    def new_session(self, **params: object) -> str:
        """Opens a session; its id."""
        answer = self.request("session/new", {"cwd": "/", "mcpServers": [], **params})
        assert "result" in answer, f"{answer}{self.story()}"
        return str(answer["result"]["sessionId"])

    def begin(self) -> str:
        """`initialize` and `session/new`; the session's id."""
        self.initialize()
        return self.new_session()

    def start_prompt(self, session: str, text: str, **meta: object) -> int:
        """Sends a prompt; the id of its request."""
        blocks = [{"type": "text", "text": text}]
        return int(self.start("session/prompt", {"sessionId": session, "prompt": blocks, **meta}))

    def prompt(self, session: str, text: str) -> str:
        """Sends a prompt and waits for the turn's end; the text of its updates."""
        before = len(self.texts(session))
        answer = self.answer(self.start_prompt(session, text))
        assert "result" in answer, f"{answer}{self.story()}"
        return "".join(self.texts(session)[before:])

    def texts(self, session: str) -> list[str]:
        """The text of each update of the session (empty for updates that are no text)."""
        updates = [f["params"] for f in self.seen("session/update")]
        contents = [u["update"].get("content") for u in updates if u["sessionId"] == session]
        return [c.get("text", "") if isinstance(c, dict) else "" for c in contents]


@dataclass(frozen=True, slots=True)
class Rig:
    """Makes components and starts conductors over them; ends everything afterwards."""

    folder: Path
    cache: Path
    token: str
    chains: list[tuple[Chain, Kin | None]]

    @classmethod
    def create(cls, folder: Path, cache: Path) -> Rig:
        """A rig that keeps its files in `folder` and compiled modules in `cache`."""
        return cls(folder, cache, uuid.uuid4().hex, [])

    # -- components --------------------------------------------------------------------------

    def demo(self, *flags: str, name: str = "A", log: bool = True) -> str:
        """The bundled agent; its log is called `name`."""
        logging = ["--log", str(self.folder / name)] if log else []
        return self.program(sys.executable, str(DEMO), *logging, *flags, name=name)

    def x(self, name: str, *flags: str, dialect: str = "acp", told: bool = True,
          log: bool = True) -> str:  # fmt: skip
        """The recording proxy. `told`: the conductor is told its dialect, else it finds out."""
        logging = ["--log", str(self.folder / name)] if log else []
        program = ["-m", "tests.e2e.actors.recording_proxy", "--name", name, "--dialect", dialect]
        more = {"dialect": dialect} if told else {}
        return self.program(sys.executable, *program, *logging, *flags, name=name, **more)

    @staticmethod
    def program(*command: str, name: str, **more: object) -> str:
        """Any command as a component."""
        return json.dumps({"command": command[0], "args": command[1:], "name": name, **more})

    def actor(self, actor: str, *flags: str, name: str) -> str:
        """The command of another program in `actors`."""
        return self.program(sys.executable, "-m", f"tests.e2e.actors.{actor}", *flags, name=name)

    def lasting(self, *flags: str, **options: str) -> str:
        """The agent whose sessions, in `folder`, outlast it."""
        program = ("-m", "tests.e2e.actors.lasting_agent", str(self.folder))
        return self.program(sys.executable, *program, *flags, name="A", **options)

    def nested(self, *components: str, options: tuple[str, ...] = ()) -> str:
        """A conductor in proxy mode over these components, as a shell-parsed command string."""
        return shlex.join([*COMMAND, "proxy", *options, "-c", f"cache={self.cache}", *components])

    def hostile(self, name: str) -> str:
        """A module of tests/hostile, assembled; its path."""
        return self.module(name, (HOSTILE / f"{name}.wat").read_text(encoding="utf-8"))

    def module(self, name: str, wat: str) -> str:
        """A module from WebAssembly text; its path."""
        path = self.folder / f"{name}.wasm"
        path.write_bytes(bytes(wasmtime.wat2wasm(wat)))
        return str(path)

    @staticmethod
    def bundled(name: str) -> Path:
        """The module of a bundled sandboxed component."""
        return DEMO.parents[1] / name / f"{name}.wasm"

    # -- running -----------------------------------------------------------------------------

    def agent(self, *components: str, options: tuple[str, ...] = (), **env: str) -> Chain:
        """`conductor agent COMPONENT…`."""
        return self.run("agent", *options, "-c", f"cache={self.cache}", *components, **env)

    def proxy(self, *components: str, options: tuple[str, ...] = (), **env: str) -> Chain:
        """`conductor proxy COMPONENT…`."""
        return self.run("proxy", *options, "-c", f"cache={self.cache}", *components, **env)

    def run(self, *arguments: str, **env: str) -> Chain:
        """`conductor ARGUMENT…`."""
        return self.start([*COMMAND, *arguments], **env)

    def start(self, command: list[str], **env: str) -> Chain:
        """Any command in place of a conductor: an agent by itself, for comparison."""
        whole = {**os.environ, MARKER: self.token, "PYTHONPATH": python_path(), **env}
        chain = Chain(command, whole, cwd=self.folder)
        self.chains.append((chain, Kin(chain.process.pid) if SUPPORTED else None))
        return chain

    def kin(self, chain: Chain) -> Kin:
        """The processes below a chain's conductor, including those that are there by now."""
        kin = next(kin for one, kin in self.chains if one is chain)
        assert kin is not None
        kin.look()
        return kin

    def leftovers(self, chain: Chain, seconds: float = DEADLINE) -> list[str]:
        """Command lines of processes that outlive the chain, after so many seconds."""
        kin = next(kin for one, kin in self.chains if one is chain)
        left = kin.leftovers(seconds) if kin is not None else []
        return left + outliving(self.token, seconds)

    # -- what was seen -----------------------------------------------------------------------

    def log(self, name: str, way: str | None = None, link: str | None = None) -> list[Logged]:
        """A component's log, or one direction (`in`, `out`) or link of it."""
        path = self.folder / name
        # The line after the last newline is still being written.
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        entries = [_logged(line) for line in lines]
        return [e for e in entries if way in (None, e.dir) and link in (None, e.link)]

    def until_heard(self, name: str, text: bytes) -> None:
        """Waits until a component's log holds this among the lines sent to it."""
        deadline = time.monotonic() + DEADLINE
        while not any(text in one.raw for one in self.log(name, "in")):
            assert time.monotonic() < deadline, f"{name} has not heard {text!r}"
            time.sleep(0.01)

    def methods(self, name: str, way: str = "in") -> list[str]:
        """The methods in a component's log, in order."""
        return [e.frame["method"] for e in self.log(name, way) if "method" in e.frame]

    def close(self) -> None:
        """Ends everything that still runs."""
        for chain, kin in self.chains:
            if kin is not None and chain.process.poll() is None:
                kin.look()
            chain.kill()
            if kin is not None:
                kin.close()
        for pid in marked(self.token) if SUPPORTED else []:
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pid, 9)


def python_path() -> str:
    """PYTHONPATH that lets a child in any folder import the product and the tests."""
    old = os.environ.get("PYTHONPATH")
    return os.pathsep.join(dict.fromkeys([str(PACKAGE.parent), str(ROOT), *([old] if old else [])]))


def member(raw: bytes, *path: str) -> bytes:
    """The exact bytes of the value at `path` in a JSON object."""
    scan = json.JSONDecoder(parse_int=str, parse_float=str).raw_decode
    text = raw.decode()
    for key in path:
        at = 1
        while True:
            name, at = scan(text, at)
            value, end = scan(text, at + 1)
            del value
            if name == key:
                text = text[at + 1 : end]
                break
            at = end + 1
    return text.encode()


def _logged(line: bytes) -> Logged:
    head, _, frame = line.partition(b',"frame":')
    if not frame:  # the demo's form of a line that is no JSON
        entry = json.loads(line)
        return Logged("", "main", entry["dir"], json.dumps({"text": entry["text"]}).encode())
    entry = json.loads(head + b"}")
    return Logged(entry.get("name", ""), entry.get("link", "main"), entry["dir"], frame[:-1])
