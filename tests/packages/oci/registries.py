"""Registries for tests: one made by hand, which can be hostile, and the one of Debian."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from conductor.packages.oci import artifact
from tests.harness.process.ports import Ports
from tests.places import DEADLINE

USER: Final = "somebody"
PASSWORD: Final = "a long password"  # noqa: S105
BASIC: Final = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
TOKEN: Final = "token-of-the-test"  # noqa: S105


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Handler(BaseHTTPRequestHandler):
    """Answers as the distribution specification says, unless `HandMade.odd` does."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._handle()

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def answer(
        self, status: int, content: bytes = b"", kind: str = "application/json", **headers: str
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", headers.pop("length", str(len(content))))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            with suppress(ConnectionError):
                self.wfile.write(content)

    def _handle(self) -> None:
        made = self.server.made
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        made.asked.append((self.command, self.path, self.headers.get("Authorization", "")))
        for pattern, odd in made.odd.items():
            if re.search(pattern, f"{self.command} {self.path}"):
                odd(self)
                return
        if self._challenged(made):
            return
        path = urlsplit(self.path).path
        match = re.fullmatch(r"/v2/(.+)/(manifests|blobs|referrers)/(.+)", path)
        if match is None:
            self.answer(404)
            return
        getattr(self, f"_{match[2]}")(made, match[1], match[3], body)

    def _challenged(self, made: HandMade) -> bool:
        given = self.headers.get("Authorization", "")
        if made.auth == "bearer" and self.path.startswith("/token"):
            fits = given == BASIC
            token = json.dumps({"token": TOKEN}).encode()
            self.answer(200 if fits else 401, token if fits else b"")
            return True
        wanted = {"": "", "basic": BASIC, "bearer": f"Bearer {TOKEN}"}[made.auth]
        if given == wanted or not wanted:
            return False
        realm = f'Bearer realm="{made.origin}/token",service="registry"'
        self.answer(401, WWW_Authenticate='Basic realm="r"' if made.auth == "basic" else realm)
        return True

    def _manifests(self, made: HandMade, name: str, wanted: str, body: bytes) -> None:
        if self.command == "PUT":
            kind = self.headers["Content-Type"]
            made.manifests[name, wanted] = made.manifests[name, digest(body)] = (body, kind)
            subject = json.loads(body).get("subject")
            listed = made.referrers and subject is not None
            extra = {"OCI_Subject": subject["digest"]} if listed and subject else {}
            if listed and subject:
                made.list(name, subject["digest"], body)
            self.answer(201, Docker_Content_Digest=digest(body), **extra)
            return
        found = made.manifests.get((name, wanted))
        self.answer(404) if found is None else self.answer(200, *found)

    def _blobs(self, made: HandMade, name: str, wanted: str, body: bytes) -> None:
        if self.command == "POST":
            self.answer(202, Location=f"/v2/{name}/blobs/uploads/1?state=x")
        elif self.command == "PUT":
            (wanted,) = parse_qs(urlsplit(self.path).query)["digest"]
            assert wanted == digest(body)
            made.blobs[wanted] = body
            self.answer(201)
        elif wanted in made.blobs:
            self.answer(200, made.blobs[wanted], "application/octet-stream")
        else:
            self.answer(404)

    def _referrers(self, made: HandMade, name: str, wanted: str, _: bytes) -> None:
        if not made.referrers:
            self.answer(404)
            return
        index = {"schemaVersion": 2, "mediaType": artifact.INDEX}
        index["manifests"] = made.listed.get((name, wanted), [])
        self.answer(200, json.dumps(index).encode(), artifact.INDEX)


class Server(ThreadingHTTPServer):
    made: HandMade
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that has gone is none of ours."""


@dataclass
class HandMade:
    """A registry in this process."""

    origin: str = ""
    auth: str = ""
    referrers: bool = False
    """Whether the registry has the API of referrers."""
    types: str | None = None
    """The type that the registry lists for every referrer; None: the referrer's own type."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)
    listed: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    odd: dict[str, Callable[[Handler], None]] = field(default_factory=dict)
    """The registry's other answers, by a pattern of `METHOD PATH`."""

    @property
    def host(self) -> str:
        return self.origin.removeprefix("http://")

    def list(self, name: str, subject: str, manifest: bytes) -> None:
        described = {
            "mediaType": artifact.MANIFEST,
            "digest": digest(manifest),
            "size": len(manifest),
            "artifactType": json.loads(manifest).get("artifactType", ""),
        }
        if self.types is not None:
            described["artifactType"] = self.types
        self.listed.setdefault((name, subject), []).append(described)

    def put(self, name: str, tag: str, manifest: Any, *blobs: bytes) -> str:
        """Puts a manifest, of whatever form; its digest."""
        content = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
        self.blobs |= {digest(blob): blob for blob in blobs}
        for wanted in (tag, digest(content)):
            self.manifests[name, wanted] = (content, artifact.MANIFEST)
        return digest(content)


@contextmanager
def hand_made() -> Iterator[HandMade]:
    server = Server(("127.0.0.1", 0), Handler)
    made = server.made = HandMade(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()


# -- Debian's --------------------------------------------------------------------------------------

_CONFIG: Final = """\
version: 0.1
log: {{accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {root}}}}}
http: {{addr: 127.0.0.1:{port}}}
"""
_HTPASSWD: Final = "auth: {{htpasswd: {{realm: conductor, path: {path}}}}}\n"
_LINE: Final = f"{USER}:$2b$05$cuxyjHpq/.LIF/RQWzvtN.OJwhA0NAnY.hDAXXN4CMfKtVyp4mTEa\n"
"""`PASSWORD` of `USER`, as `htpasswd -B` writes it."""


def program(cache: Path) -> str:
    """Debian's `docker-registry`, on PATH or fetched with apt; empty where there is neither."""
    found = shutil.which("docker-registry")
    if found is not None:
        return found
    unpacked = cache / "usr" / "bin" / "docker-registry"
    if not unpacked.exists() and shutil.which("apt-get") and shutil.which("dpkg-deb"):
        command = ["apt-get", "download", "docker-registry"]
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(command, cwd=cache, capture_output=True, timeout=DEADLINE, check=False)
        for package in cache.glob("docker-registry_*.deb"):
            unpacking = ["dpkg-deb", "-x", str(package), str(cache)]
            subprocess.run(unpacking, capture_output=True, timeout=DEADLINE, check=False)
    return str(unpacked) if unpacked.exists() else ""


@contextmanager
def debian(command: str, folder: Path, *, password: bool = False) -> Iterator[str]:
    """Runs it; its host and port."""
    ports = Ports()
    port = ports.new("127.0.0.1")
    config = _CONFIG.format(root=folder / "data", port=port)
    if password:
        (folder / "htpasswd").write_text(_LINE)
        config += _HTPASSWD.format(path=folder / "htpasswd")
    (folder / "registry.yml").write_text(config)
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(
            [command, "serve", folder / "registry.yml"], stdout=log, stderr=log
        )
    try:
        _await(port, process)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(DEADLINE)
        ports.close()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        assert process.poll() is None, "the registry did not start"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    raise AssertionError("the registry does not listen")


def log_in(patch: Any, folder: Path, *hosts: str, password: str = PASSWORD) -> None:
    """Leaves the same file as `docker login`."""
    pair = base64.b64encode(f"{USER}:{password}".encode()).decode()
    auths = {host: {"auth": pair} for host in hosts}
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"auths": auths}))
    patch.setenv("DOCKER_CONFIG", os.fspath(folder))
