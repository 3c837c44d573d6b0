"""Bundles: the same content is the same digest, and what is not exactly what somebody trusted has
signed is refused by name, before anything of it is unpacked."""

import contextlib
import gzip
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.errors import ConductorError, UsageError
from conductor.fleet import bundle as bundles
from conductor.fleet.bundle import BundleError
from conductor.fleet.bundle_cache import BundleCache, Opened
from conductor.packages import key_signatures
from conductor.packages.download import UnreachableError
from conductor.packages.oci import artifact, publish, reference
from conductor.packages.oci.artifact import Made
from conductor.packages.pack import File, archive_of
from conductor.spec import installed
from tests.fleet.bundles import blob, of_layer, saved, written
from tests.fleet.keys import pair
from tests.packages.oci import registries
from tests.packages.oci.registries import Handler, HandMade

FILES: Final = {
    "conductor.toml": File(b"[chains.work]\ncomponents = ['demo']\n"),
    "tools/filter.py": File(b"x = 1\n", executable=True),
    "tools/same.py": File(b"x = 1\n"),
    "empty": File(b""),
}


@pytest.fixture(autouse=True)
def _release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "nobody"))
    yield
    for folder in [*installed.held]:
        os.close(installed.held.pop(folder))


class Home:
    """A worker's cache, and the keys of who makes bundles."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key, self.public = pair(folder)
        self.cache = folder / "bundles"

    def open(self, name: str, *keys: str) -> Opened:
        """The bundle as a worker opens it."""
        trusted = bundles.keys_of(keys or (self.public,))
        return BundleCache(str(self.cache)).opened(bundles.parse(name), trusted)

    def refused(self, name: str, reason: str, text: str, *keys: str) -> None:
        """A worker refuses a bundle, with this reason and a hint, and has nothing of it."""
        with pytest.raises(BundleError) as error:
            self.open(name, *keys)
        assert error.value.reason == reason, error.value.text
        assert text in error.value.text
        assert error.value.hint
        assert {*os.listdir(self.cache)} <= {"lock"}

    def files(self, name: str) -> dict[str, File]:
        """The files of a bundle on a worker."""
        root = Path(self.open(name).folder)
        return {
            str(path.relative_to(root)): File(path.read_bytes(), bool(path.stat().st_mode & 0o100))
            for path in root.rglob("*")
            if path.is_file()
        }


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def registry() -> Iterator[HandMade]:
    with registries.hand_made() as made:
        yield made


def push(registry: HandMade, made: Made, key: str = "", tag: str = "1") -> str:
    """Pushes an artifact, signed if a key is named; its name."""
    where = reference.parse(f"oci://{registry.host}/me/pool:{tag}")
    publish.push(publish.signed(where, made, (), key), replace=True)
    return str(where.pinned(made.digest))


# -- what is taken ---------------------------------------------------------------------------------


def test_the_same_content_is_the_same_digest(home: Home) -> None:
    name = written(home.folder / "a", FILES, home.key)
    again = written(home.folder / "b", dict(reversed(FILES.items())), home.key)
    assert name.rpartition("@")[2] == again.rpartition("@")[2]
    assert home.files(name) == FILES
    assert home.files(str(home.folder / "b")) == FILES  # the only one there


@pytest.mark.parametrize("referrers", [True, False])
def test_out_of_a_registry(home: Home, registry: HandMade, referrers: bool) -> None:
    registry.referrers = referrers
    name = push(registry, bundles.made(FILES), home.key)
    assert str(bundles.signed(bundles.parse(f"oci://{registry.host}/me/pool:1"), [])) == name
    assert home.files(name) == FILES
    registry.asked.clear()
    assert home.files(name) == FILES
    assert not registry.asked, "it is here"


@pytest.mark.parametrize("kind", ["ed25519", "p256"])
def test_any_of_the_keys_counts(home: Home, kind: str) -> None:
    secret, public = pair(home.folder, "second", kind)
    name = written(home.folder / "a", FILES, secret)
    home.refused(name, "signature", "is not signed by")
    assert home.open(name, home.public, public).name == name


def test_as_cosign_signs_it(home: Home, registry: HandMade) -> None:
    """The older form: a payload that names the digest, under a tag."""
    import base64

    from cryptography.hazmat.primitives import serialization

    made = bundles.made(FILES)
    name = push(registry, made)
    private: Any = serialization.load_pem_private_key(Path(home.key).read_bytes(), None)
    image = {"docker-manifest-digest": made.digest}
    critical = {"image": image, "type": "cosign container image signature"}
    payload = json.dumps({"critical": critical}).encode()
    layer = artifact.Blob("application/vnd.dev.cosign.simplesigning.v1+json", payload)
    signature = base64.b64encode(private.sign(payload)).decode()
    marked = layer.descriptor | {"annotations": {"dev.cosignproject.cosign/signature": signature}}
    config = artifact.Blob(artifact.EMPTY, b"{}")
    manifest = {
        "schemaVersion": 2, "mediaType": artifact.MANIFEST,
        "config": config.descriptor, "layers": [marked],
    }  # fmt: skip
    tag = made.digest.replace(":", "-") + ".sig"
    registry.put("me/pool", tag, manifest, payload, b"{}")
    assert home.files(name) == FILES
    registry.asked.clear()
    assert home.files(name) == FILES
    assert not registry.asked, "what proves it is here too"


def test_other_tools_read_it(home: Home) -> None:
    made = bundles.made(FILES)
    with tarfile.open(fileobj=io.BytesIO(made.blobs[1].content)) as tar:
        assert {*tar.getnames()} == {*FILES}


# -- who has made it -------------------------------------------------------------------------------


def test_a_bundle_that_nobody_signed(home: Home) -> None:
    home.refused(written(home.folder / "a", FILES), "unsigned", "no signature")


def test_a_signature_of_another_bundle(home: Home) -> None:
    other = key_signatures.bundle(bundles.made({"conductor.toml": File(b"")}).manifest, home.key)
    made = bundles.made(FILES)
    moved = artifact.attached(made, key_signatures.BUNDLE, other)
    publish.save(publish.Publication(bundles.IN_FOLDER, made, (moved,)), str(home.folder / "a"))
    home.refused(str(home.folder / "a"), "signature", "another package")


def test_a_key_that_is_trusted_no_more(home: Home, registry: HandMade) -> None:
    """A bundle in the cache counts only with a key that is trusted now."""
    name = push(registry, bundles.made(FILES), home.key)
    _, other = pair(home.folder, "other")
    home.open(name)
    with pytest.raises(BundleError, match="is not signed by"):
        home.open(name, other)


def test_a_component_of_the_same_key_is_no_bundle(home: Home) -> None:
    packed = archive_of(FILES)
    component = artifact.of_archive(packed, {})
    home.refused(saved(home.folder / "a", component, home.key), "damaged", "which is no bundle")
    mixed = of_layer(packed, config=artifact.ARCHIVE_CONFIG)
    home.refused(saved(home.folder / "b", mixed, home.key), "damaged", "does not belong to")


# -- what is something else ------------------------------------------------------------------------


def test_other_bytes_under_a_digest(home: Home, registry: HandMade) -> None:
    made, other = bundles.made(FILES), bundles.made({"conductor.toml": File(b"")})
    name = push(registry, made, home.key)
    push(registry, other, home.key, tag="2")
    of_other = registry.manifests["me/pool", other.digest]
    true = registry.manifests["me/pool", made.digest]
    registry.manifests["me/pool", made.digest] = of_other
    home.refused(name, "damaged", "sends something else than")
    registry.manifests["me/pool", made.digest] = true
    layer = made.blobs[1].descriptor["digest"]
    registry.blobs[layer] = registry.blobs[layer][:-1] + b"x"
    home.refused(name, "damaged", "sends something else than")
    registry.blobs[layer] = registry.blobs[layer][:-1]
    home.refused(name, "damaged", "of the")
    registry.blobs[layer] += b"more"
    with pytest.raises(ConductorError, match="is larger than"):
        home.open(name)
    del registry.blobs[layer]
    home.refused(name, "damaged", "which the manifest names")


def test_the_signature_is_compared_before_the_layer_is_fetched(
    home: Home, registry: HandMade
) -> None:
    name = push(registry, bundles.made(FILES))
    registry.asked.clear()
    home.refused(name, "unsigned", "no signature")
    assert not any("/blobs/" in path for _, path, _ in registry.asked)


def test_a_registry_that_has_none_and_one_that_is_away(home: Home, registry: HandMade) -> None:
    home.refused(f"oci://{registry.host}/me/pool:9", "missing", "has no 9")
    registry.odd[" "] = lambda handler: handler.answer(503)
    with pytest.raises(UnreachableError, match="503"):
        home.open(f"oci://{registry.host}/me/pool:9")
    registry.odd[" "] = lambda handler: handler.answer(403)
    home.refused(f"oci://{registry.host}/me/pool:9", "damaged", "does not let us")


def test_a_tag_that_moves_is_asked_for_once(home: Home, registry: HandMade) -> None:
    made = bundles.made(FILES)
    push(registry, made, home.key)
    push(registry, bundles.made({"conductor.toml": File(b"")}), home.key, tag="other")

    def moves(handler: Handler) -> None:
        found = registry.manifests["me/pool", "1"]
        registry.manifests["me/pool", "1"] = registry.manifests["me/pool", "other"]
        handler.answer(200, *found)

    registry.odd["GET /v2/me/pool/manifests/1$"] = moves
    assert home.open(f"oci://{registry.host}/me/pool:1").digest == made.digest


def manifest(**fields: Any) -> bytes:
    """The manifest of `FILES`, with other fields."""
    return json.dumps(json.loads(bundles.made(FILES).manifest) | fields).encode()


def layer(**fields: Any) -> bytes:
    (one,) = json.loads(bundles.made(FILES).manifest)["layers"]
    return manifest(layers=[one | fields])


MANIFESTS: Final[dict[str, tuple[bytes, str]]] = {
    "nothing": (b"", "cannot be read"),
    "nested": (b"[" * 100_000, "cannot be read"),
    "not utf-8": (b"\xff", "cannot be read"),
    "a list": (b"[]", "cannot be read"),
    "an index": (manifest(mediaType=artifact.INDEX, manifests=[]), "is an index"),
    "a later format": (layer(mediaType=bundles.LAYER.replace("v1", "v2")), "is no bundle"),
    "no layer": (manifest(layers=[]), "0 layers"),
    "many layers": (manifest(layers=json.loads(manifest())["layers"] * 2), "2 layers"),
    "a module": (layer(mediaType=artifact.WASM), "is no bundle"),
    "another config": (
        manifest(config=artifact.Blob(artifact.EMPTY, b"{}").descriptor),
        "does not belong to",
    ),
    "a path for a digest": (layer(digest="sha256:../../../../etc/passwd"), "is no digest"),
    "another algorithm": (layer(digest="sha512:" + "0" * 128), "is no digest"),
    "elsewhere": (layer(urls=["https://example.com/layer"]), "another address"),
    "huge": (layer(size=2**62), "are the most"),
    "less than nothing": (layer(size=-1), "are the most"),
    "a word for a size": (layer(size="1"), "cannot be read"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_that_is_none(home: Home, registry: HandMade, kind: str) -> None:
    """Whoever signed it."""
    content, text = MANIFESTS[kind]
    made = Made(content, (artifact.Blob(artifact.EMPTY, b"{}"),))
    with contextlib.suppress(ConductorError):
        saved(home.folder / "a", made, home.key)
        home.refused(f"{home.folder / 'a'}@{made.digest}", "damaged", text)
    name = registry.put("me/pool", "1", content, bundles.made(FILES).blobs[1].content)
    home.refused(f"oci://{registry.host}/me/pool@{name}", "damaged", text)
    home.refused(f"oci://{registry.host}/me/pool:1", "damaged", text)


def test_a_registry_that_sends_without_end(home: Home, registry: HandMade) -> None:
    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(bytes(1024 * 1024))

    name = push(registry, bundles.made(FILES), home.key)
    for what in ("manifests", "blobs"):
        registry.odd = {f"GET .*/{what}/": endless}
        with pytest.raises(ConductorError, match="is larger than"):
            home.open(name)
    assert {*os.listdir(home.cache)} <= {"lock"}


# -- folders ---------------------------------------------------------------------------------------


def test_a_folder_cut_off_anywhere(home: Home) -> None:
    name = written(home.folder / "a", FILES, home.key)
    for path in sorted((home.folder / "a").rglob("*")):
        if path.is_dir() or path.name == "oci-layout" or path.read_bytes() == b"{}":
            continue  # nobody reads these
        whole = path.read_bytes()
        for length in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            with pytest.raises(BundleError):
                home.open(name)
        path.unlink()
        with pytest.raises(BundleError):
            home.open(name)
        path.write_bytes(whole)
    assert home.open(name).name == name


@pytest.mark.parametrize("what", ["manifest", "layer", "index"])
@pytest.mark.parametrize("how", ["link", "pipe", "folder", "device"])
def test_files_that_are_none(home: Home, what: str, how: str) -> None:
    name = written(home.folder / "a", FILES, home.key)
    digest = bundles.made(FILES).blobs[1].descriptor["digest"]
    path = blob(name) if what == "manifest" else blob(f"{home.folder / 'a'}@{digest}")
    if what == "index":
        path = home.folder / "a" / "index.json"
    path.rename(home.folder / "moved")
    if how == "link":
        path.symlink_to(home.folder / "moved")
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    home.refused(name, "damaged", "cannot be read")


def test_a_folder_with_none_or_several(home: Home) -> None:
    home.refused(str(home.folder / "missing"), "damaged", "no folder with an OCI layout")
    home.refused(f"{home.folder / 'missing'}@sha256:{'0' * 64}", "missing", "has no sha256:000")
    component = saved(home.folder / "c", artifact.of_archive(archive_of(FILES), {}), home.key)
    home.refused(component.partition("@")[0], "damaged", "0 bundles")
    first = written(home.folder / "a", FILES, home.key)
    second = written(home.folder / "b", "", home.key)
    shutil.copytree(home.folder / "b" / "blobs", home.folder / "a" / "blobs", dirs_exist_ok=True)
    index = home.folder / "a" / "index.json"
    more = json.loads((home.folder / "b" / "index.json").read_bytes())["manifests"]
    one = json.loads(index.read_bytes())
    index.write_text(json.dumps(one | {"manifests": [*one["manifests"], *more]}))
    home.refused(str(home.folder / "a"), "damaged", "2 bundles")
    assert home.open(first).name == first
    assert home.open(f"{home.folder / 'a'}@{second.rpartition('@')[2]}")


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A home with a bundle."""
    home = Home(tmp_path_factory.mktemp("home"))
    written(home.folder / "a", FILES, home.key)
    return home


@settings(max_examples=150)
@given(st.data())
def test_a_changed_byte_changes_no_file(signed: Home, data: st.DataObject) -> None:
    """Only bytes that nobody reads are free: the parts of a signature outside its own cover, a
    name's tag."""
    paths = sorted(path for path in (signed.folder / "a").rglob("*") if path.is_file())
    path = data.draw(st.sampled_from(paths))
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(changed)
    try:
        with contextlib.suppress(BundleError):
            assert signed.files(str(signed.folder / "a")) == FILES
    finally:
        path.write_bytes(whole)


# -- what is in it, whoever has signed it ----------------------------------------------------------


@settings(max_examples=50)
@given(st.binary(max_size=2000))
def test_any_layer(signed: Home, content: bytes) -> None:
    bundle = bundles.Bundle(of_layer(content).manifest, content)
    before = {*os.listdir(signed.cache)} if signed.cache.exists() else set()
    with pytest.raises(BundleError):
        BundleCache(str(signed.cache)).unpacked(bundle)
    assert {*os.listdir(signed.cache)} - {"lock"} <= before


def tarred(change: Callable[[tarfile.TarInfo], None], name: str = "x") -> bytes:
    """A layer with one entry more, whose header is another."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("conductor.toml"))
        head = tarfile.TarInfo(name)
        change(head)
        tar.addfile(head)
    return made.getvalue()


def kind(value: bytes) -> Callable[[tarfile.TarInfo], None]:
    def change(head: tarfile.TarInfo) -> None:
        head.type, head.linkname = value, "/etc/passwd"

    return change


LAYERS: Final[dict[str, bytes]] = {
    "a link": tarred(kind(tarfile.SYMTYPE)),
    "a hard link": tarred(kind(tarfile.LNKTYPE)),
    "a device": tarred(kind(tarfile.CHRTYPE)),
    "a disk": tarred(kind(tarfile.BLKTYPE)),
    "a pipe": tarred(kind(tarfile.FIFOTYPE)),
    "a sparse file": tarred(kind(tarfile.GNUTYPE_SPARSE)),
    "a file twice": archive_of(FILES)[:0] + tarred(kind(tarfile.REGTYPE), "conductor.toml"),
    "a bomb": gzip.compress(bytes(200 * 1024 * 1024)),
    "more than it may hold": archive_of({"x": File(bytes(bundles.MOST + 1))}),
    "many files": archive_of({f"{n}": File(b"") for n in range(2 * bundles.MOST_FILES + 1)}),
    "cut off": archive_of(FILES)[:-20],
    "something behind its end": archive_of(FILES) + b"more",
    "no archive": b"x" * 1000,
    **{
        f"the path {path[:20]!r}": archive_of({**FILES, path: File(b"bad")})
        for path in (
            *("../x", "/etc/x", "a/../x", "a//b", "c:x", "a\\b", "x\n", ".", "a/" * 40 + "b"),
            *("x" * 300, "x.", "x ", "\u202ex", "..", "a/./b"),
        )
    },
    **{
        f"{one!r} and {two!r}": archive_of({**FILES, one: File(b""), two: File(b"")})
        for one, two in (("a", "A"), ("x", "x/y"), ("\u00e9", "e\u0301"), ("Empty", "y"))
    },
}


@pytest.mark.parametrize("what", LAYERS)
def test_layers_that_no_folder_holds(home: Home, what: str) -> None:
    name = saved(home.folder / "a", of_layer(LAYERS[what]), home.key)
    home.refused(name, "damaged", "cannot be unpacked")
    assert not (home.folder / "x").exists()


def test_a_header_that_says_more_counts_for_nothing(home: Home) -> None:
    """No owner, no time and no `setuid` comes out of a layer."""

    def change(head: tarfile.TarInfo) -> None:
        head.mode, head.uid, head.mtime, head.uname = 0o6777, 12345, 1, "nobody"

    opened = home.open(saved(home.folder / "a", of_layer(tarred(change)), home.key))
    status = Path(opened.folder, "x").stat()
    assert (status.st_mode & 0o7777, status.st_uid) == (0o500, os.getuid())


# -- on a worker -----------------------------------------------------------------------------------


def test_unpacked_once_and_read_only(home: Home) -> None:
    name = written(home.folder / "a", FILES, home.key)
    folder = Path(home.open(name).folder)
    modes = {path.stat().st_mode & 0o222 for path in [folder, *folder.rglob("*")]}
    assert modes == {0}
    inode = folder.stat().st_ino
    shutil.rmtree(home.folder / "a")
    assert Path(home.open(name).folder).stat().st_ino == inode


@pytest.mark.parametrize("how", ["changed", "removed", "more", "executable", "link", "whole"])
def test_a_damaged_folder_is_made_anew(home: Home, how: str) -> None:
    name = written(home.folder / "a", FILES, home.key)
    folder = Path(home.open(name).folder)
    for path in (folder.parent, folder, *folder.rglob("*")):
        path.chmod(0o700)
    config = folder / "conductor.toml"
    if how == "changed":
        config.write_bytes(b"bad")
    elif how in ("removed", "link"):
        config.unlink()
    elif how == "more":
        (folder / "more").touch()
    elif how == "whole":
        (folder.parent / "bundle").chmod(0o600)
        (folder.parent / "bundle").write_bytes(b"")
    if how == "link":
        config.symlink_to(folder / "empty")
    assert home.open(name).folder == str(folder)
    assert config.read_bytes() == FILES["conductor.toml"].content
    assert not (folder / "more").exists()
    assert not (folder / "empty").stat().st_mode & 0o100


def test_what_is_in_use_stays(home: Home) -> None:
    cache = BundleCache(str(home.cache))
    digests = [
        home.open(written(home.folder / f"{number}", "\n" * number, home.key)).digest
        for number in range(3)
    ]
    cache.release(digests[1])
    cache.release(digests[2])
    cache.prune([digests[2]])
    kept = {digest.removeprefix("sha256:") for digest in (digests[0], digests[2])}
    assert {*os.listdir(home.cache)} == {"lock", *kept}


def test_a_folder_of_others(home: Home) -> None:
    home.cache.mkdir(mode=0o777)
    home.cache.chmod(0o777)
    with pytest.raises(ConductorError, match="can be written by other users"):
        home.open(written(home.folder / "a", FILES, home.key))


def test_what_cannot_be_bundled() -> None:
    with pytest.raises(UsageError, match=r"needs a conductor\.toml"):
        bundles.made({"x": File(b"")})
    many = {f"{n}": File(b"") for n in range(bundles.MOST_FILES)}
    with pytest.raises(UsageError, match="too large"):
        bundles.made({**FILES, **many})
