"""Signed components through the command line: added, updated, locked, and refused."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor.cli import main
from conductor.packages import pack
from conductor.packages.oci import artifact, publish
from conductor.packages.oci.publish import Publication
from conductor.packages.signatures import BUNDLE
from conductor.spec.manifest import section
from tests.harness.process.command import Ran
from tests.packages.oci import registries
from tests.packages.oci.registries import HandMade
from tests.packages.sigstore_root import ISSUER, ME, Sigstore
from tests.places import COMPONENTS, DEADLINE, PASSTHROUGH

MANIFEST = 'name = "mine"\nversion = "{}"\ndescription = "x"\nfile = "p.wasm"\n'


@pytest.fixture
def made() -> Iterator[HandMade]:
    with registries.hand_made() as registry:
        yield registry


class Home:
    """Somebody with nothing in their home, and components that somebody publishes."""

    def __init__(
        self, folder: Path, registry: HandMade, output: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self.registry = registry
        self.where = f"oci://{registry.host}/me/mine:latest"
        self._output = output

    def __call__(self, *arguments: str) -> Ran:
        """The command, in this process: each of its own takes most of a second to start."""
        code = main(list(arguments))
        shown = self._output.readouterr()
        return Ran(code, shown.out, shown.err)

    def ok(self, *arguments: str) -> str:
        done = self(*arguments)
        assert done.code == 0, done.err
        return done.out

    def publish(self, version: str, by: Sigstore | None = None, **who: Any) -> Publication:
        """Publishes a version under the tag that moves."""
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        manifest = MANIFEST.format(version)
        (source / "component.toml").write_text(manifest)
        shutil.copy(PASSTHROUGH, source / "p.wasm")
        section.embed(str(source / "p.wasm"), manifest.encode())
        ready = publish.prepare(pack.pack(str(source)), self.where)
        if by is not None:
            bundle = json.dumps(by.statement(ready.component.manifest, **who)).encode()
            signed = artifact.attached(ready.component, BUNDLE, bundle)
            ready = Publication(ready.reference, ready.component, (signed,))
        publish.push(ready, replace=True)
        return ready


@pytest.fixture
def home(
    tmp_path: Path,
    made: HandMade,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Home:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path, made, capsys)


def test_an_identity(home: Home) -> None:
    trust, other = Sigstore(), Sigstore()
    root = home.folder / "root.json"
    root.write_bytes(trust.trusted_root())
    mine = ("--trusted-root", str(root))
    demanded = ("--signer", ME, "--issuer", ISSUER)
    home.publish("1.0.0", trust)
    refused = home("add", home.where, "--yes", *mine, "--signer", "x@y.z", "--issuer", ISSUER)
    refused.assert_error(2, f"is signed by {ME} ({ISSUER})")
    assert "mine" not in home.ok("list")
    added = home.ok("add", home.where, "--yes", *mine, *demanded)
    assert f"signed by {ME} ({ISSUER})" in added.splitlines()
    assert f"signed by {ME} ({ISSUER})" in home.ok("list")
    home.ok("lock", "mine", "demo")
    lock = (home.folder / "conductor.lock").read_text()
    assert f'signer = "{ME} ({ISSUER})"' in lock

    # Updates: by the same person; and by nobody, somebody else, or with another root.
    home.publish("2.0.0", trust)
    assert "2.0.0" in home.ok("update", "mine", "--yes", *mine)
    for version, by, who in (
        ("3.0.0", None, {}),
        ("3.0.1", trust, {"names": ("you@example.com",)}),
        ("3.0.2", other, {}),
    ):
        home.publish(version, by, **who)
        refused = home("update", "mine", "--yes", *mine)
        assert refused.code == 1, refused.err
        assert f"is not signed by {ME} ({ISSUER})" in refused.err
        assert "--any-signer" in refused.err
    again = home("add", home.where, "--yes", *mine)
    again.assert_error(2, f"is not signed by {ME}")
    assert "2.0.0" in home.ok("list")

    # Unless the user says so.
    home.publish("4.0.0", trust, names=("you@example.com",))
    theirs = ("--signer", "you@example.com", "--issuer", ISSUER)
    assert "signed by you@example.com" in home.ok("update", "mine", "--yes", *mine, *theirs)
    home.publish("5.0.0")
    home.ok("update", "mine", "--yes", "--any-signer")
    assert "not signed" in home.ok("list")


def test_a_key(home: Home) -> None:
    private, public = str(home.folder / "key.pem"), str(home.folder / "key.pub")
    for command in (
        ["openssl", "genpkey", "-algorithm", "ed25519", "-out", private],
        ["openssl", "pkey", "-in", private, "-pubout", "-out", public],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
    where = f"oci://{home.registry.host}/me/p:1"
    datetime = str(COMPONENTS / "datetime")
    home.ok("publish", where, datetime, "--sign", private)
    added = home.ok("add", where, "--name", "clock", "--yes", "--key", public)
    assert "signed by the key sha256:" in added
    home.ok("publish", where, str(COMPONENTS / "passthrough"), "--replace")
    refused = home("update", "clock", "--yes")
    assert refused.code == 1
    assert "is not signed by the key sha256:" in refused.err
    home.ok("publish", where, str(COMPONENTS / "passthrough"), "--sign", private)
    home.ok("update", "clock", "--yes")  # the receipt has the key
    assert "signed by the key" in home.ok("list")


def test_a_lock_holds_the_signer(home: Home) -> None:
    trust = Sigstore()
    root = home.folder / "root.json"
    root.write_bytes(trust.trusted_root())
    home.publish("1.0.0", trust)
    home.ok("add", home.where, "--yes", "--trusted-root", str(root))
    home.ok("lock", "mine", "demo")
    # The same bytes, without their signature.
    digest = home.publish("1.0.0").component.digest
    name = digest.replace(":", "-")
    del home.registry.manifests["me/mine", name]
    home.ok("remove", "mine")
    home.ok("add", home.where, "--yes")
    refused = home("lock", "--check", "mine", "demo")
    assert refused.code == 1
    assert f"signer: {ME} ({ISSUER}) → none" in refused.err
    started = home("exec", "--locked", "mine", "demo", "-p", "hello")
    started.assert_error(2, "does not allow this chain", "signer")


def test_a_bundle_beside_a_file_on_the_web(home: Home) -> None:
    trust = Sigstore()
    root = home.folder / "root.json"
    root.write_bytes(trust.trusted_root())
    content = PASSTHROUGH.read_bytes()
    bundle = json.dumps(trust.bundle(content)).encode()
    home.registry.odd["GET /p.wasm$"] = lambda handler: handler.answer(200, content)
    home.registry.odd["GET /p.wasm.sigstore.json"] = lambda handler: handler.answer(200, bundle)
    url = f"{home.registry.origin}/p.wasm#sha256={hashlib.sha256(content).hexdigest()}"
    mine = ("--name", "mine", "--yes", "--trusted-root", str(root))
    assert f"signed by {ME} ({ISSUER})" in home.ok("add", url, *mine)
    home.ok("remove", "mine")
    long = b"<html>" * 1_000_000
    home.registry.odd["GET /p.wasm.sigstore.json"] = lambda handler: handler.answer(200, long)
    assert "not signed" in home.ok("add", url, *mine)
    refused = home("add", url, *mine, "--signer", ME, "--issuer", ISSUER)
    refused.assert_error(1, "larger than")


@pytest.mark.parametrize(
    "options",
    [("--signer", ME), ("--issuer", ISSUER), ("--key", "no-such-file")],
)
def test_a_demand_that_makes_no_sense(home: Home, options: tuple[str, ...]) -> None:
    home("add", home.where, "--yes", *options).assert_error(2)


def test_one_signer_is_of_one_component(home: Home) -> None:
    done = home("update", "--signer", ME, "--issuer", ISSUER)
    done.assert_error(2, "one component has one signer")
