"""Components into a registry, and out of it again: ours, and those that oras makes of them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import oras.client  # type: ignore[import-untyped]
import pytest

from conductor.errors import ComponentError, ConductorError, UsageError
from conductor.packages import key_signatures, pack, registry_entry, signatures, sources
from conductor.packages.key_signatures import BUNDLE
from conductor.packages.oci import artifact, publish
from conductor.packages.oci.publish import Publication
from conductor.packages.sources import Fetched
from conductor.spec.manifest.reading import Manifest
from tests.packages.oci import registries
from tests.packages.oci.registries import HandMade, digest, log_in
from tests.places import COMPONENTS, DEADLINE

DATETIME = COMPONENTS / "datetime"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A component of Python source."""
    folder = tmp_path_factory.mktemp("script")
    (folder / "component.toml").write_text(
        'name = "p"\nversion = "1.2.3"\ndescription = "A proxy."\nfile = "p.py"\n'
    )
    (folder / "p.py").write_text("profile = 'observer'\n")
    return folder


def ready(folder: Path, host: str, key: str = "", tag: str = "") -> Publication:
    return publish.prepare(pack.pack(str(folder)), f"oci://{host}/me/p{tag}", key)


def fetch(source: object, folder: Path, **wanted: Any) -> Fetched:
    folder.mkdir()
    return sources.parse(str(source)).fetch(str(folder), signatures.demand(**wanted))


# -- what a module looks like to others ------------------------------------------------------------


def test_the_manifest_is_the_one_of_the_wasm_working_group() -> None:
    """wkg and wassette take exactly one layer, of this type, under this config."""
    made = ready(DATETIME, "r.example").made
    manifest = json.loads(made.manifest)
    config = json.loads(made.blobs[0].content)
    module = (DATETIME / "datetime.wasm").read_bytes()
    assert manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert manifest["config"]["mediaType"] == "application/vnd.wasm.config.v0+json"
    assert [layer["mediaType"] for layer in manifest["layers"]] == ["application/wasm"]
    assert manifest["layers"][0]["digest"] == digest(module)
    assert config["architecture"] == "wasm"
    assert config["os"] == "wasip1"
    assert config["layerDigests"] == [digest(module)]
    assert manifest["annotations"]["org.opencontainers.image.version"] == "0.1.0"


def test_a_component_of_wasip2_says_so(tmp_path: Path) -> None:
    made = artifact.of_module(b"\0asm\x0d\0\1\0", is_component=True, annotations={})
    config = json.loads(made.blobs[0].content)
    assert config["os"] == "wasip2"
    assert set(config["component"]) == {"exports", "imports"}


def test_the_tag_is_the_version() -> None:
    assert ready(DATETIME, "r.example").reference.tag == "0.1.0"
    assert ready(DATETIME, "r.example", tag=":new").reference.tag == "new"
    with pytest.raises(UsageError):
        ready(DATETIME, "r.example", tag="@sha256:" + "a" * 64)


# -- there and back --------------------------------------------------------------------------------


@pytest.mark.parametrize("referrers", [False, True])
def test_there_and_back(made: HandMade, tmp_path: Path, referrers: bool) -> None:
    made.referrers = referrers
    one = ready(DATETIME, made.host)
    assert not publish.push(one)
    fetched = fetch(one.reference, tmp_path / "1")
    assert fetched.source == str(one.pinned)
    assert fetched.version == "0.1.0"
    place = Path(fetched.place)
    assert {path.name for path in place.iterdir()} == {"component.toml", "datetime.wasm"}
    assert (place / "component.toml").read_bytes() == (DATETIME / "component.toml").read_bytes()
    assert ("me/p", one.made.digest.replace(":", "-")) in made.manifests or referrers


def test_python_source_there_and_back(made: HandMade, script: Path, tmp_path: Path) -> None:
    one = ready(script, made.host)
    publish.push(one)
    place = Path(fetch(one.pinned, tmp_path / "1").place)
    assert {path.name for path in place.iterdir()} == {"component.toml", "p.py"}
    (layer,) = json.loads(one.made.manifest)["layers"]
    assert layer["mediaType"] == artifact.ARCHIVE


def test_twice_is_once(made: HandMade) -> None:
    one = ready(DATETIME, made.host)
    assert not publish.push(one)
    before = dict(made.manifests)
    made.asked.clear()
    assert publish.push(ready(DATETIME, made.host))
    assert made.manifests == before
    assert not any(method == "POST" for method, *_ in made.asked), "no blob is sent again"


def test_a_tag_is_not_overwritten(made: HandMade, script: Path) -> None:
    publish.push(ready(DATETIME, made.host, tag=":1"))
    other = ready(script, made.host, tag=":1")
    with pytest.raises(UsageError, match="something else"):
        publish.push(other)
    assert ("me/p", other.made.digest) not in made.manifests, "nothing was sent"
    publish.push(other, replace=True)
    assert digest(made.manifests["me/p", "1"][0]) == other.made.digest


@pytest.mark.parametrize("odd", ["POST", "PUT /upload", "PUT /v2/me/p/manifests/sha256"])
def test_a_push_that_fails_leaves_no_tag(made: HandMade, odd: str) -> None:
    made.odd[f"^{odd}"] = lambda handler: handler.answer(500, b"{}")
    made.odd["^POST"] = made.odd.get("^POST") or (
        lambda handler: handler.answer(202, Location=f"{made.origin}/upload")
    )
    if odd.endswith("sha256"):
        del made.odd["^POST"]
    one = ready(DATETIME, made.host)
    with pytest.raises(ConductorError, match="answers 500"):
        publish.push(one)
    assert ("me/p", one.reference.tag) not in made.manifests


def test_the_list_of_referrers_keeps_what_others_put_there(made: HandMade) -> None:
    one = ready(DATETIME, made.host)
    theirs = {"mediaType": artifact.MANIFEST, "digest": digest(b"x"), "size": 1, "odd": [1]}
    index = {"schemaVersion": 2, "mediaType": artifact.INDEX, "manifests": [theirs]}
    tag = one.made.digest.replace(":", "-")
    made.manifests["me/p", tag] = (json.dumps(index).encode(), artifact.INDEX)
    publish.push(one)
    listed = json.loads(made.manifests["me/p", tag][0])["manifests"]
    assert listed[0] == theirs
    assert [each["artifactType"] for each in listed[1:]] == [artifact.DESCRIPTION]


def test_an_oci_layout(tmp_path: Path) -> None:
    one = ready(DATETIME, "r.example")
    files = publish.save(one, str(tmp_path / "out"))
    for name in files:
        content = (tmp_path / "out" / name).read_bytes()
        if name.startswith("blobs/"):
            assert name == "blobs/" + digest(content).replace(":", "/")
    index = json.loads((tmp_path / "out" / "index.json").read_bytes())
    assert index["manifests"][0]["digest"] == one.made.digest
    with pytest.raises(UsageError, match="exists already"):
        publish.save(one, str(tmp_path / "out"))


# -- keys ------------------------------------------------------------------------------------------


def keys(folder: Path, *kind: str) -> tuple[str, str]:
    folder.mkdir()
    private, public = str(folder / "key.pem"), str(folder / "key.pub")
    for command in (
        ["openssl", "genpkey", *kind, "-out", private],
        ["openssl", "pkey", "-in", private, "-pubout", "-out", public],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
    return private, public


KINDS = {
    "ed25519": ("-algorithm", "ed25519"),
    "p256": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_signed_by_a_key(made: HandMade, tmp_path: Path, kind: str) -> None:
    private, public = keys(tmp_path / "mine", *KINDS[kind])
    _, other = keys(tmp_path / "other", *KINDS[kind])
    one = ready(DATETIME, made.host, private)
    publish.push(one)
    assert ready(DATETIME, made.host, private) == one, "a signature is the same each time"
    signer = fetch(one.pinned, tmp_path / "1", key=public).signer
    assert signer is not None
    assert signer.identity.startswith("sha256:")
    assert str(signer).startswith("the key sha256:")
    assert fetch(one.pinned, tmp_path / "2").signer is None, "nobody named the key"
    with pytest.raises(UsageError, match="is not signed by the key"):
        fetch(one.pinned, tmp_path / "3", key=other)
    with pytest.raises(UsageError, match="by a key, not by an identity"):
        fetch(one.pinned, tmp_path / "4", signer="me@example.com", issuer="https://i.example")
    (tmp_path / "5").mkdir()
    again = signatures.as_before(signatures.ANYBODY, signer)
    source = sources.parse(str(one.pinned))
    assert source.fetch(str(tmp_path / "5"), again).signer == signer
    unsigned = ready(COMPONENTS / "passthrough", made.host, tag=":other")
    publish.push(unsigned)
    with pytest.raises(UsageError, match="comes with no signature"):
        sources.parse(str(unsigned.pinned)).fetch(str(tmp_path / "5"), again)


@pytest.mark.proves("a signature counts by whom it")
def test_a_signature_counts_for_its_own_package_only(made: HandMade, tmp_path: Path) -> None:
    """A registry may list the signature of another package as one of this."""
    private, public = keys(tmp_path / "mine", *KINDS["p256"])
    made.referrers = True
    publish.push(ready(DATETIME, made.host, private))
    other = ready(COMPONENTS / "passthrough", made.host, tag=":other")
    publish.push(other)
    bundle = key_signatures.bundle(b"another manifest", private)
    forged = artifact.attached(other.made, BUNDLE, bundle)
    made.put("me/p", "x", forged.manifest, *(blob.content for blob in forged.blobs))
    made.list("me/p", other.made.digest, forged.manifest)
    with pytest.raises(UsageError, match="of another package"):
        fetch(other.pinned, tmp_path / "1", key=public)


def test_so_many_referrers_of_one_kind_are_read_and_no_more(made: HandMade, tmp_path: Path) -> None:
    private, public = keys(tmp_path / "mine", *KINDS["p256"])
    made.referrers = True
    one = ready(DATETIME, made.host, private)
    publish.push(one)
    listed = made.listed["me/p", one.made.digest]
    (signature,) = (each for each in listed if each["artifactType"] == BUNDLE)
    listed.extend([signature] * 31)
    assert fetch(one.pinned, tmp_path / "1", key=public).signer is not None
    listed.append(signature)
    with pytest.raises(ComponentError, match="has 33 referrers of one kind"):
        fetch(one.pinned, tmp_path / "2", key=public)


@pytest.mark.parametrize("count", [0, 2])
def test_what_is_attached_has_one_layer(count: int) -> None:
    subject = artifact.of_module(b"\0asm", is_component=False, annotations={})
    made = json.loads(artifact.attached(subject, BUNDLE, b"x").manifest)
    assert artifact.read_attached(json.dumps(made).encode(), subject.digest, BUNDLE) is not None
    made["layers"] *= count
    with pytest.raises(ComponentError, match="has not exactly one layer"):
        artifact.read_attached(json.dumps(made).encode(), subject.digest, BUNDLE)


def simple(manifest: bytes, private: str, **critical: Any) -> tuple[bytes, bytes]:
    """The payload and the signature of cosign before bundles."""
    from conductor.spec import signing

    held = {
        "identity": {"docker-reference": "x"},
        "image": {"docker-manifest-digest": digest(manifest)},
        "type": "cosign container image signature",
        **critical,
    }
    payload = json.dumps({"critical": held, "optional": None}).encode()
    return payload, signing.sign(signing.private(private), payload)


def put_simple(
    made: HandMade, of: Publication, payload: bytes, signature: bytes, *, before: int = 0
) -> None:
    """Puts a signature as an older cosign does, behind so many that are none."""
    import base64

    layer = artifact.Blob("application/vnd.dev.cosign.simplesigning.v1+json", payload)
    described = layer.descriptor | {
        "annotations": {"dev.cosignproject.cosign/signature": base64.b64encode(signature).decode()}
    }
    config = artifact.Blob("application/vnd.oci.image.config.v1+json", b"{}")
    manifest = {
        "schemaVersion": 2,
        "mediaType": artifact.MANIFEST,
        "config": config.descriptor,
        "layers": [layer.descriptor] * before + [described],
    }
    tag = of.made.digest.replace(":", "-") + ".sig"
    made.put("me/p", tag, manifest, payload, b"{}")


def test_signed_by_an_older_cosign(made: HandMade, tmp_path: Path) -> None:
    private, public = keys(tmp_path / "mine", *KINDS["p256"])
    one = ready(DATETIME, made.host)
    publish.push(one)
    put_simple(made, one, *simple(one.made.manifest, private))
    assert fetch(one.pinned, tmp_path / "1", key=public).signer is not None
    put_simple(made, one, *simple(b"another", private))
    with pytest.raises(UsageError, match="of another package"):
        fetch(one.pinned, tmp_path / "2", key=public)
    put_simple(made, one, *simple(one.made.manifest, private), before=7)
    assert fetch(one.pinned, tmp_path / "5", key=public).signer is not None
    put_simple(made, one, *simple(one.made.manifest, private), before=8)
    with pytest.raises(UsageError, match="not of this package with this key"):
        fetch(one.pinned, tmp_path / "6", key=public)
    payload, signature = simple(one.made.manifest, private)
    put_simple(made, one, payload, signature[:-1] + bytes([signature[-1] ^ 1]))
    with pytest.raises(UsageError, match="not of this package with this key"):
        fetch(one.pinned, tmp_path / "3", key=public)
    put_simple(made, one, *simple(one.made.manifest, private, type="something else"))
    with pytest.raises(UsageError, match="of another package"):
        fetch(one.pinned, tmp_path / "4", key=public)


@pytest.mark.proves("a file that no signature")
def test_a_referrer_says_nothing_about_a_signed_component(made: HandMade, tmp_path: Path) -> None:
    """The signature covers the artifact, and a registry can attach anything to that."""
    private, public = keys(tmp_path / "mine", *KINDS["p256"])
    one = ready(DATETIME, made.host, private)
    bare = artifact.of_module(one.made.blobs[1].content, is_component=False, annotations={})
    other = artifact.attached(bare, artifact.DESCRIPTION, b'name = "x"\nfile = "x.wasm"\n')
    signed = artifact.attached(bare, BUNDLE, key_signatures.bundle(bare.manifest, private))
    publication = Publication(one.reference, bare, (other, signed))
    publish.push(publication)
    assert Path(fetch(publication.pinned, tmp_path / "1").place).is_dir()
    assert Path(fetch(publication.pinned, tmp_path / "2", key=public).place).is_file()


@pytest.mark.parametrize("content", ["", "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n", "x"])
def test_a_private_key_that_cannot_be_used(tmp_path: Path, content: str) -> None:
    (tmp_path / "key").write_text(content)
    with pytest.raises(UsageError) as refused:
        ready(DATETIME, "r.example", str(tmp_path / "key"))
    assert "openssl genpkey" in refused.value.hint


# -- oras, Debian's registry -----------------------------------------------------------------------


def theirs(host: str) -> oras.client.OrasClient:
    return oras.client.OrasClient(hostname=host, insecure=True)


def both_ways(host: str, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    """oras pulls our pushes, and we pull the pushes of oras."""
    one = ready(DATETIME, host)
    publish.push(one)
    assert publish.push(one), "the registry has it as it was sent"
    client = theirs(host)
    place = Path(fetch(one.reference, tmp_path / "1").place)
    assert (place / "datetime.wasm").read_bytes() == (DATETIME / "datetime.wasm").read_bytes()
    manifest = client.get_manifest(f"{host}/me/p:0.1.0")
    assert len(manifest["layers"]) == 1
    blob = client.get_blob(f"{host}/me/p:0.1.0", manifest["layers"][0]["digest"])
    assert blob.content == (DATETIME / "datetime.wasm").read_bytes()
    patch.chdir(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "theirs.wasm").write_bytes((DATETIME / "datetime.wasm").read_bytes())
    client.push(
        f"{host}/me/theirs:1",
        files=["theirs.wasm:application/wasm"],
        manifest_config="config.json:application/vnd.wasm.config.v0+json",
        quiet=True,
    )
    place = Path(fetch(f"oci://{host}/me/theirs:1", tmp_path / "2").place)
    assert place.name == "theirs.wasm"
    assert place.read_bytes() == (DATETIME / "datetime.wasm").read_bytes()


def test_oras(made: HandMade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both_ways(made.host, tmp_path, monkeypatch)


@pytest.mark.parametrize("password", [False, True])
def test_the_registry_of_debian(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    password: bool,
) -> None:
    cache = tmp_path_factory.getbasetemp()
    command = registries.program(cache)
    if not command:
        pytest.skip("no docker-registry, and apt has none; the one made by hand is tested")
    with registries.debian(command, tmp_path, password=password) as host:
        if password:
            with pytest.raises(ConductorError, match="does not let us"):
                publish.push(ready(DATETIME, host))
            log_in(monkeypatch, tmp_path / "docker", host)
            one = ready(DATETIME, host)
            assert not publish.push(one)
            assert publish.push(one)
            fetch(one.pinned, tmp_path / "1")
        else:
            both_ways(host, tmp_path, monkeypatch)
            private, public = keys(tmp_path / "mine", *KINDS["p256"])
            signed = ready(COMPONENTS / "passthrough", host, private, ":signed")
            publish.push(signed)
            assert fetch(signed.pinned, tmp_path / "3", key=public).signer is not None


# -- the entry of a catalogue ----------------------------------------------------------------------


def test_an_entry() -> None:
    manifest = pack.pack(str(DATETIME)).manifest
    entry = registry_entry.entry(manifest, "oci://r.example/p@sha256:1", "https://r.example/p")
    assert entry["id"] == "datetime"
    assert entry["distribution"]["uvx"]["args"] == ["proxy", "oci://r.example/p@sha256:1"]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "1p", "version": "1.0.0", "description": "x"},
        {"name": "p", "version": "1.0", "description": "x"},
        {"name": "p", "version": "", "description": "x"},
        {"name": "p", "version": "1.0.0", "description": " "},
    ],
)
def test_an_entry_that_the_registry_would_refuse(fields: dict[str, str]) -> None:
    with pytest.raises(UsageError) as refused:
        registry_entry.entry(msgspec.convert(fields, Manifest), "x")
    assert refused.value.hint
