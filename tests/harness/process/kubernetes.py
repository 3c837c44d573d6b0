"""The API server of Kubernetes under test: the programs `kube-apiserver` and `etcd`, from PATH.

It checks manifests, gives them defaults and keeps them; no controller and no node acts on them.
"""

import contextlib
import json
import ssl
import subprocess
import time
from collections.abc import Iterable, Iterator
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any, Final

from tests.fleet.keys import pair
from tests.harness.process.ports import Ports
from tests.places import DEADLINE

OK: Final = 200
CREATED: Final = 201

_TOKEN: Final = "token-of-the-test"  # noqa: S105
_PLURALS: Final = {"NetworkPolicy": "networkpolicies"}
_APPLY: Final = "?fieldManager=test&force=true&fieldValidation=Strict"
_HEADERS: Final = {
    "Authorization": f"Bearer {_TOKEN}",
    "Content-Type": "application/apply-patch+yaml",
}
_PAUSE: Final = 0.1
Json = dict[str, Any]


class Cluster:
    """A server that is ready."""

    def __init__(self, port: int) -> None:
        self._place = "127.0.0.1", port
        self._context = ssl._create_unverified_context()  # noqa: S323 - of this test, on loopback

    def ask(self, method: str, path: str, body: Json | None = None) -> tuple[int, str]:
        """The status and the text of an answer."""
        there = HTTPSConnection(*self._place, timeout=DEADLINE, context=self._context)
        with contextlib.closing(there):
            content = json.dumps(body).encode() if body is not None else None
            there.request(method, path, content, _HEADERS)
            answer = there.getresponse()
            return answer.status, answer.read().decode()

    def apply(self, manifest: Json) -> tuple[int, str]:
        """Applies a manifest; fields that nobody knows are errors."""
        return self.ask("PATCH", _path(manifest) + _APPLY, manifest)

    def generations(self, manifests: Iterable[tuple[str, Json]]) -> dict[str, int]:
        """By name, how often what is asked for has changed."""
        found = {}
        for name, manifest in manifests:
            meta = json.loads(self.ask("GET", _path(manifest))[1])["metadata"]
            found[name] = meta.get("generation", 0)
        return found


def _path(manifest: Json) -> str:
    version, kind, meta = manifest["apiVersion"], manifest["kind"], manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    inner = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    plural = _PLURALS.get(kind, f"{kind.lower()}s")
    return f"{root}{inner}/{plural}/{meta['name']}"


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Runs both programs, with the namespace of the manifests."""
    ports = Ports()
    client, peer, secure = (ports.new("127.0.0.1") for _ in range(3))
    (folder / "tokens.csv").write_text(f"{_TOKEN},test,test,system:masters\n")
    secret, public = pair(folder, kind="p256")
    store, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    commands = (
        [
            *("etcd", "--data-dir", str(folder / "etcd"), "--initial-cluster", f"default={peers}"),
            *("--listen-client-urls", store, "--advertise-client-urls", store),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
        ],
        [
            *("kube-apiserver", "--etcd-servers", store, "--cert-dir", str(folder / "tls")),
            *("--bind-address=127.0.0.1", f"--secure-port={secure}", "--authorization-mode=RBAC"),
            *("--token-auth-file", str(folder / "tokens.csv"), "--service-cluster-ip-range"),
            *("10.0.0.0/24", "--service-account-issuer=https://test.example"),
            *("--service-account-key-file", public, "--service-account-signing-key-file"),
            *(secret, "--disable-admission-plugins=ServiceAccount"),
        ],
    )
    with contextlib.ExitStack() as stack:
        stack.callback(ports.close)
        log = stack.enter_context((folder / "log").open("wb"))
        for command in commands:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait, DEADLINE)
            stack.callback(process.kill)
        cluster = Cluster(secure)
        _await(cluster, folder / "log")
        meta = {"name": "conductor"}
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
        status, answer = cluster.apply(space)
        assert status == CREATED, answer
        yield cluster


def _await(cluster: Cluster, log: Path) -> None:
    end = time.monotonic() + 2 * DEADLINE
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if cluster.ask("GET", "/readyz")[0] == OK:
                return
        time.sleep(_PAUSE)
    raise AssertionError(f"the server is not ready: {log.read_text()[-2000:]}")
