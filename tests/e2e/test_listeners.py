"""Every place where conductor listens: silent strangers keep nobody out, however many they are."""

import ast
import contextlib
import re
import socket
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.harness.process.command import conductor, environment
from tests.harness.process.rig import Rig
from tests.harness.process.serving import served
from tests.page.talking import DEMO, Talking
from tests.page.viewing import Viewed
from tests.places import DEADLINE, ROOT
from tests.record.turns import recorded

_FLOOD: Final = 300
"""More connections than there may be strangers at one entrance."""

Place = tuple[str, int] | str
Opened = tuple[Place, "Callable[[], object]"]


# -- the places ------------------------------------------------------------------------------------

_LISTEN: Final = frozenset(
    (
        *("bind", "create_server", "start_server", "create_unix_server", "start_unix_server"),
        *("start_serving", "TCPSite", "UnixSite", "SockSite", "NamedPipeSite", "run_app"),
        *("HTTPServer", "ThreadingHTTPServer", "TCPServer", "UnixStreamServer", "uvicorn.Server"),
    )
)
"""Calls by which a program listens."""
_BINDS: Final = {
    "conductor/control/server.py": "conductor/control/server.py",
    "conductor/page/server.py": "conductor/http/server.py",
    "conductor/serve/server.py": "conductor/http/server.py",
    "conductor/telemetry/serving.py": "conductor/http/server.py",
    "conductor/transports/private.py": "conductor/mcp/doors/stdio.py",
}
"""Where conductor listens, and where the entrance of that socket is made."""


def _calls(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            whole = ast.unparse(node.func)
            yield whole
            yield whole.rpartition(".")[2]


@pytest.mark.proves("silent connections without end")
def test_no_socket_listens_without_an_entrance() -> None:
    found = {}
    for path in (ROOT / "conductor").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith("conductor/core/") and (calls := _LISTEN & {*_calls(path)}):
            found[name] = calls
    assert found.keys() == _BINDS.keys(), "a new place to listen needs an `Entrance` and a row here"
    for name in _BINDS.values():
        assert "Entrance" in {*_calls(ROOT / name)}, name


# -- floods ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _view(rig: Rig) -> Iterator[Opened]:
    del rig
    with Viewed(recorded.trace()) as page:
        yield ("127.0.0.1", page.port), lambda: page.ask("/api/head")[0] == 200


@contextlib.contextmanager
def _chat(rig: Rig) -> Iterator[Opened]:
    del rig
    with Talking(DEMO) as page:
        yield ("127.0.0.1", page.port), lambda: page.ask("/api/chat/news")[0] == 200


@contextlib.contextmanager
def _control(rig: Rig) -> Iterator[Opened]:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:  # the address of a socket is short
        chain = rig.agent(rig.demo(), XDG_RUNTIME_DIR=short)
        chain.begin()
        folder = Path(short, "conductor")
        env, until = environment(XDG_RUNTIME_DIR=short), time.monotonic() + DEADLINE
        while "idle" not in conductor("ps", env=env).out:
            assert time.monotonic() < until, "there is no control socket"
        (path,) = folder.iterdir()
        yield str(path), lambda: "idle" in conductor("ps", env=env).out
        assert chain.finish() == 0


@contextlib.contextmanager
def _metrics(rig: Rig) -> Iterator[Opened]:
    chain = rig.agent(rig.demo(), options=("-c", "prometheus=0"))
    chain.begin()
    line = re.compile(r"numbers are at (http://127.0.0.1:(\d+)/metrics)")
    chain.until(lambda: line.search(chain.stderr), "the address of the numbers")
    found = line.search(chain.stderr)
    assert found is not None

    def asked() -> bool:
        with urllib.request.urlopen(found[1], timeout=DEADLINE) as answer:  # noqa: S310 - it is ours
            return b"conductor_" in answer.read()

    yield ("127.0.0.1", int(found[2])), asked
    assert chain.finish() == 0


@contextlib.contextmanager
def _served(rig: Rig) -> Iterator[Opened]:
    with served(rig, "serve", rig.demo(), "--listen", "http://127.0.0.1:0") as server:
        yield ("127.0.0.1", server.port), lambda: server.http("/health").ask("GET").body == b"ok"


@contextlib.contextmanager
def _lines(rig: Rig) -> Iterator[Opened]:
    with served(rig, "serve", rig.demo(), "--listen", f"unix:{rig.folder / 'lines'}") as server:
        yield str(rig.folder / "lines"), lambda: server.lines().begin()


@pytest.mark.proves("silent connections without end")
@pytest.mark.parametrize("opened", [_view, _chat, _control, _metrics, _served, _lines])
def test_silent_strangers_make_room(
    rig: Rig, opened: Callable[[Rig], contextlib.AbstractContextManager[Opened]]
) -> None:
    with opened(rig) as (place, asked), contextlib.ExitStack() as stack:
        family = socket.AF_UNIX if isinstance(place, str) else socket.AF_INET
        crowd = [
            stack.enter_context(socket.socket(family, socket.SOCK_STREAM)) for _ in range(_FLOOD)
        ]
        for one in crowd:
            one.settimeout(DEADLINE)
            one.connect(place)
        assert asked()
        crowd[0].setblocking(False)
        assert crowd[0].recv(1) == b""  # the one that has waited longest has made room
