"""Pages of an allowed and of a foreign origin at a server of chains, in a real browser."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

from tests.harness.process.serving import new_token, served

pytest.importorskip("playwright")

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.harness.process.rig import Rig

_TALK: Final = """
async ([address, token]) => {
    const authorization = {Authorization: `Bearer ${token}`};
    const post = (message, more) => fetch(address, {
        method: 'POST',
        headers: {'Content-Type': 'application/json', ...authorization, ...more},
        body: JSON.stringify({jsonrpc: '2.0', ...message}),
    });
    const params = {protocolVersion: 1, clientCapabilities: {}};
    try {
        const opened = await post({id: 1, method: 'initialize', params}, {});
        const number = opened.headers.get('Acp-Message-Number');
        const connection = {'Acp-Connection-Id': opened.headers.get('Acp-Connection-Id')};
        const initialized = (await opened.json()).result.protocolVersion;
        const stream = await fetch(
            address, {headers: {Accept: 'text/event-stream', ...authorization, ...connection}});
        const sent = await post(
            {id: 2, method: 'session/new', params: {cwd: '/', mcpServers: []}},
            {...connection, 'Acp-Message-Number': '1'});
        const reader = stream.body.pipeThrough(new TextDecoderStream()).getReader();
        let heard = '';
        while (!heard.includes('"sessionId"')) heard += (await reader.read()).value;
        const left = await fetch(
            address, {method: 'DELETE', headers: {...authorization, ...connection}});
        const stranger = await fetch(address, {headers: {Authorization: 'Bearer acp_wrong'}});
        return [number, initialized, stream.status, sent.status, left.status, stranger.status];
    } catch (error) {
        return `${error.name}: ${error.message}`;
    }
}
"""


class _Empty(http.server.BaseHTTPRequestHandler):
    """A site with an empty page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def site() -> Iterator[int]:
    """The port of a site; it has two origins, since it has two names."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Empty) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_page_of_an_allowed_origin_alone_reaches_a_chain(rig: Rig, page: Page, site: int) -> None:
    token = new_token(rig, "alice")
    listen = ("--listen", "http://127.0.0.1:0", "--tokens", str(rig.folder / "tokens"))
    allowed, foreign = f"http://127.0.0.1:{site}", f"http://localhost:{site}"
    with served(rig, "serve", rig.demo(), *listen, "-c", f"serve.origin={allowed}") as server:
        asked = [f"http://127.0.0.1:{server.port}/acp", token]
        page.goto(allowed)
        assert page.evaluate(_TALK, asked) == ["0", 1, 200, 202, 202, 401]
        page.goto(foreign)
        assert page.evaluate(_TALK, asked) == "TypeError: Failed to fetch"
