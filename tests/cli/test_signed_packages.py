"""Signed components through the command line: added, updated, locked, and refused."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from conductor.cli import main
from conductor.packages import pack
from conductor.packages.key_signatures import BUNDLE
from conductor.packages.oci import artifact, publish
from conductor.packages.oci.publish import Publication
from conductor.spec.manifest import section
from tests.fleet.keys import pair
from tests.harness.process.command import Ran, conductor
from tests.packages.oci import registries
from tests.packages.oci.registries import HandMade
from tests.packages.sigstore_root import ISSUER, ME, Sigstore, b64
from tests.places import COMPONENTS, PASSTHROUGH

MANIFEST = 'name = "{}"\nversion = "{}"\ndescription = "x"\nfile = "p.wasm"\n'
DEMANDED = ("--signer", ME, "--issuer", ISSUER)
YOU = "you@example.com"


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

    def refuses(self, code: int, *arguments: str, says: str) -> None:
        """The command is refused, and nothing is installed or recorded by it."""
        before = self.state()
        self(*arguments).assert_error(code, says)
        assert self.state() == before

    def state(self) -> dict[str, bytes]:
        """The packages installed, and the locks."""
        store = self.folder / ".local" / "share" / "conductor" / "installed"
        receipts = {each.name: each.read_bytes() for each in (store / "receipts").glob("*")}
        contents = {each.name: b"" for each in store.glob("sha256-*")}
        locks = {each.name: each.read_bytes() for each in self.folder.glob("*.lock")}
        return receipts | contents | locks

    def trusts(self, root: Sigstore | dict[str, Any]) -> tuple[str, str]:
        """The option that names this root."""
        file = self.folder / "root.json"
        file.write_bytes(
            json.dumps(root).encode() if isinstance(root, dict) else root.trusted_root()
        )
        return "--trusted-root", str(file)

    def publish(
        self,
        version: str,
        by: Sigstore | None = None,
        *,
        name: str = "mine",
        bundle: bytes = b"",
        **who: Any,
    ) -> Publication:
        """Publishes a version under the tag that moves, signed, or with this as its signature."""
        source = self.folder / "source"
        source.mkdir(exist_ok=True)
        manifest = MANIFEST.format(name, version)
        (source / "component.toml").write_text(manifest)
        shutil.copy(PASSTHROUGH, source / "p.wasm")
        section.embed(str(source / "p.wasm"), manifest.encode())
        ready = publish.prepare(pack.pack(str(source)), self.where)
        if by is not None:
            bundle = json.dumps(by.statement(ready.made.manifest, **who)).encode()
        if bundle:
            signed = artifact.attached(ready.made, BUNDLE, bundle)
            ready = Publication(ready.reference, ready.made, (signed,))
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
    mine, demanded = home.trusts(trust), DEMANDED
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
    others: list[tuple[str, Sigstore | None, dict[str, Any]]] = [
        ("3.0.0", None, {}),
        ("3.0.1", trust, {"names": (YOU,)}),
        ("3.0.2", other, {}),
    ]
    for version, by, who in others:
        home.publish(version, by, **who)
        refused = home("update", "mine", "--yes", *mine)
        assert refused.code == 1, refused.err
        assert f"is not signed by {ME} ({ISSUER})" in refused.err
        assert "--any-signer" in refused.err
    again = home("add", home.where, "--yes", *mine)
    again.assert_error(2, f"is not signed by {ME}")
    assert "2.0.0" in home.ok("list")

    # Unless the user says so.
    home.publish("4.0.0", trust, names=(YOU,))
    theirs = ("--signer", YOU, "--issuer", ISSUER)
    assert f"signed by {YOU}" in home.ok("update", "mine", "--yes", *mine, *theirs)
    home.publish("5.0.0")
    home.ok("update", "mine", "--yes", "--any-signer")
    assert "not signed" in home.ok("list")


@pytest.mark.proves("an update by another signer")
def test_a_key(home: Home) -> None:
    private, public = pair(home.folder)
    other, other_public = pair(home.folder, "other")
    where = home.where.replace("me/mine", "me/p")

    def publish(version: str, *options: str) -> None:
        shutil.copytree(COMPONENTS / "datetime", home.folder / "clock", dirs_exist_ok=True)
        manifest = home.folder / "clock" / "component.toml"
        text = re.sub(r"(?m)^version = .*$", f'version = "{version}"', manifest.read_text())
        manifest.write_text(text)
        home.ok("publish", where, str(manifest.parent), "--replace", *options)

    publish("1.0.0", "--sign", private)
    add = ("add", where, "--name", "clock", "--yes")
    home.refuses(2, *add, "--key", other_public, says="is not of this package with this key")
    home.refuses(2, *add, *DEMANDED, says="signed by a key, not by an identity")
    home.refuses(2, *add, "--key", private, says="the public key")
    assert "signed by the key sha256:" in home.ok(*add, "--key", public)
    for options in ((), ("--sign", other)):
        publish("2.0.0", *options)
        home.refuses(1, "update", "clock", "--yes", says="is not signed by the key sha256:")
    publish("2.0.0", "--sign", private)
    home.ok("update", "clock", "--yes")  # the receipt has the key
    assert "signed by the key" in home.ok("list")


@pytest.mark.proves("a lock holds the signer")
def test_a_lock_holds_the_signer(home: Home) -> None:
    trust = Sigstore()
    home.publish("1.0.0", trust)
    home.ok("add", home.where, "--yes", *home.trusts(trust))
    home.ok("lock", "mine", "demo")
    # The same bytes, without their signature.
    digest = home.publish("1.0.0").made.digest
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
    content = PASSTHROUGH.read_bytes()
    bundle = json.dumps(trust.bundle(content)).encode()
    home.registry.odd["GET /p.wasm$"] = lambda handler: handler.answer(200, content)
    home.registry.odd["GET /p.wasm.sigstore.json"] = lambda handler: handler.answer(200, bundle)
    url = f"{home.registry.origin}/p.wasm#sha256={hashlib.sha256(content).hexdigest()}"
    mine = ("--name", "mine", "--yes", *home.trusts(trust))
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


# -- tries -----------------------------------------------------------------------------------------


@pytest.mark.proves("an update by another signer")
def test_a_signature_of_something_else_or_of_somebody_else(home: Home) -> None:
    """Whatever comes with a package, and whatever is typed: who was named has not signed it."""
    trust = Sigstore()
    mine = home.trusts(trust)
    first = home.publish("1.0.0", trust).made.manifest
    home.ok("add", home.where, "--yes", *mine, *DEMANDED)
    tries: list[tuple[dict[str, Any], str]] = [
        ({}, "it comes with no signature"),
        ({"bundle": json.dumps(trust.statement(first)).encode()}, "is of another package"),
        ({"by": trust, "names": (YOU,)}, f"signed by {YOU}"),
        ({"by": trust, "names": (ME.upper(),)}, f"signed by {ME.upper()}"),
        ({"by": trust, "issuer": f"{ISSUER}/"}, f"({ISSUER}/)"),
        ({"by": trust, "names": (ME, YOU)}, "does not name one identity"),
        ({"by": Sigstore()}, "failed to build timestamp certificate chain"),
        ({"by": trust, "predicate": "https://x.y/scan"}, "about something else"),
        ({"bundle": b"{}"}, "failed to load bundle"),
    ]
    for number, (how, says) in enumerate(tries):
        home.publish(f"2.0.{number}", **how)
        home.refuses(1, "update", "mine", "--yes", *mine, says=says)
        home.refuses(2, "add", home.where, "--yes", "--name", "other", *mine, says=says)
    home.publish("3.0.0")
    for words in (("--check",), ("mine", "--allow-all"), ("mine", "--trust", *DEMANDED)):
        home.refuses(1, "update", *words, *mine, says="it comes with no signature")
    for typed in ((), ("--trust",), ("--allow-all",), ("--yes", *DEMANDED)):
        home.refuses(2, "add", home.where, *typed, *mine, says="it comes with no signature")


@pytest.mark.proves("no identity reads as another")
@pytest.mark.parametrize(
    "who",
    [
        {"names": (f"https://x.y/\nsigned by {ME}",)},
        {"names": (f"{ME} ",)},
        {"names": ("https://x.y/\x1b[2K",)},
        {"names": (f"sha256:{'ab' * 32}",), "issuer": ""},
        {"issuer": f"{ISSUER}\n"},
        {"issuer": f"{ISSUER}) ("},
    ],
)
def test_an_identity_that_reads_as_another(home: Home, who: dict[str, Any]) -> None:
    trust = Sigstore()
    home.publish("1.0.0", trust, **who)
    shown = home("add", home.where, *home.trusts(trust))
    shown.assert_error(2, "needs your yes")
    assert "not signed" in shown.out
    assert "signed by" not in shown.out


@pytest.mark.proves("an authority or a log confirms")
@pytest.mark.parametrize("part", ["certificateAuthorities", "tlogs", "ctlogs"])
@pytest.mark.parametrize("when", [("start", "2026-03-02"), ("end", "2026-02-28")])
def test_a_root_that_counts_at_another_time(home: Home, part: str, when: tuple[str, str]) -> None:
    """A part that has ended, or has not begun, on the first of March confirms nothing of that
    day."""
    trust = Sigstore()
    home.publish("1.0.0", trust)
    root = json.loads(trust.trusted_root())
    period = root[part][0].get("publicKey", root[part][0])["validFor"]
    period[when[0]] = f"{when[1]}T00:00:00Z"
    says = "for the time of the signature, 2026-03-01"
    home.refuses(2, "add", home.where, "--yes", *home.trusts(root), *DEMANDED, says=says)


@pytest.mark.proves("another component of the same")
def test_another_component_of_the_same_signer(home: Home) -> None:
    """A higher version under another name is refused by an error that tells both names."""
    trust = Sigstore()
    mine = home.trusts(trust)
    home.publish("1.0.0", trust)
    home.ok("add", home.where, "--yes", *mine)
    home.publish("2.0.0", trust, name="other")
    says = "it calls itself `other`, and the installed one `mine`"
    home.refuses(1, "update", "--yes", *mine, says=says)
    home.refuses(2, "add", home.where, "--name", "mine", "--allow-all", *mine, says=says)
    home.publish("0.9.0", trust)
    home.refuses(1, "update", "--yes", *mine, says="would become older: 1.0.0 → 0.9.0")
    home.refuses(2, "add", home.where, "--yes", *mine, says="`--signer` or `--key` says it again")


@pytest.mark.proves("an update by another signer")
def test_what_replaces_a_component_is_signed_as_that_was(home: Home) -> None:
    """Also where the component's name is known only after the fetch, and another name has another
    signer."""
    trust = Sigstore()
    mine = home.trusts(trust)
    home.publish("1.0.0", trust)
    home.ok("add", home.where, "--yes", *mine, *DEMANDED)
    home.publish("1.0.0", trust, names=(YOU,))
    yours = ("--signer", YOU, "--issuer", ISSUER)
    home.ok("add", home.where, "--yes", "--name", "a-try", *mine, *yours)
    home.publish("2.0.0", trust, names=(YOU,))
    home.refuses(2, "add", home.where, "--yes", *mine, says=f"is not signed by {ME}")
    home.ok("add", home.where, "--yes", *mine, *yours)


@pytest.mark.proves("a demand holds for each source")
def test_a_pinned_component_is_held_to_a_demand(home: Home) -> None:
    digest = home.publish("1.0.0").made.digest
    home.ok("add", f"oci://{home.registry.host}/me/mine@{digest}", "--yes")
    home.refuses(1, "update", "mine", *DEMANDED, says=f"is not signed by {ME}")
    assert "pinned" in home.ok("update", "mine")


@pytest.mark.proves("a demand holds for each source")
def test_what_is_signed_beside_it_or_by_word_of_a_catalogue(home: Home) -> None:
    trust = Sigstore()
    folder = home.folder / "catalogue"
    folder.mkdir()
    file, bundle = folder / "mine.wasm", folder / "mine.wasm.sigstore.json"
    old, new = PASSTHROUGH.read_bytes(), (COMPONENTS / "datetime" / "datetime.wasm").read_bytes()

    def offer(source: str, version: str) -> None:
        runs = {"package": "conductor-acp", "args": ["proxy", source]}
        entry = {"id": "mine", "version": version, "signer": ME, "distribution": {"uvx": runs}}
        (folder / "mine.json").write_text(json.dumps(entry))

    def local(content: bytes, signed: bytes) -> str:
        file.write_bytes(content)
        bundle.write_text(json.dumps(trust.bundle(signed)))
        return f"./mine.wasm#sha256={hashlib.sha256(content).hexdigest()}"

    says = f"is not signed by {ME}"
    options = ("--yes", "--name", "mine", *home.trusts(trust), *DEMANDED)
    add = ("add", "mine", "--index", str(folder), *options)
    offer(local(old, new), "1.0.0")
    commit = f"git+file://{home.folder}/none@{'0' * 40}"
    for source in (str(file), str(folder), commit, "pypi:none-at-all==1.0.0"):
        home.refuses(2, "add", source, *options, says=says)
    home.refuses(2, *add, says=says)
    offer(local(old, old), "1.0.0")
    home.ok(*add)

    update = ("update", "mine", "--yes", *home.trusts(trust))
    unsigned = home.publish("2.0.0").made.digest
    for source in (local(new, old), commit, f"oci://{home.registry.host}/me/mine@{unsigned}"):
        offer(source, "2.0.0")
        home.refuses(1, *update, says=says)
    home.publish("2.0.0", trust)
    home.ok(*update)  # wherever the catalogue takes it from: it is signed as before


@pytest.mark.proves("a lock holds the signer")
def test_a_lock_with_another_signer(home: Home) -> None:
    trust = Sigstore()
    home.publish("1.0.0", trust)
    home.ok("add", home.where, "--yes", *home.trusts(trust))
    home.ok("lock", "mine", "demo")
    lock = home.folder / "conductor.lock"
    written = lock.read_text()
    chain = ("mine", "demo")
    for signer in (f"{YOU} ({ISSUER})", f"{ME} ({ISSUER}/)", f"the key sha256:{'0' * 64}", ""):
        lock.write_text(written.replace(f"{ME} ({ISSUER})", signer))
        says = f"signer: {signer} → {ME} ({ISSUER})"
        home.refuses(1, "lock", "--check", *chain, says=says)
        for command in (("exec", "--locked", *chain, "-p", "x"), ("agent", "--locked", *chain)):
            home.refuses(2, *command, says=says)


def test_only_conductor_speaks_of_a_signature(home: Home) -> None:
    """The library that reads bundles has warnings of its own; they are none of the user's."""
    trust = Sigstore()
    bundle = trust.bundle(PASSTHROUGH.read_bytes())
    leaf = bundle["verificationMaterial"].pop("certificate")
    root = {"rawBytes": b64(trust.root.public_bytes(Encoding.DER))}
    bundle["verificationMaterial"]["x509CertificateChain"] = {"certificates": [leaf, root]}
    bundle["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1"
    shutil.copy(PASSTHROUGH, home.folder / "mine.wasm")
    (home.folder / "mine.wasm.sigstore.json").write_text(json.dumps(bundle))
    refused = conductor("add", "./mine.wasm", *home.trusts(trust), *DEMANDED, cwd=home.folder)
    refused.assert_error(2, "needs your yes")
    assert f"signed by {ME}" in refused.out
    assert refused.err.startswith("error: ")
