"""Components out of a registry: those of others too, and only with the bytes that were named."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conductor.errors import ConductorError
from conductor.packages import archive, download, sources
from conductor.packages.oci import artifact
from conductor.packages.sources import Fetched
from conductor.spec.manifest import section
from tests.packages.oci.registries import Handler, HandMade, digest
from tests.places import PASSTHROUGH

DESCRIPTION = b'name = "p"\nversion = "1.0.0"\nfile = "p.wasm"\n'
MODULE = PASSTHROUGH.read_bytes()


def described(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest(content), "size": len(content)}


def manifest(layer: bytes = MODULE, **fields: Any) -> dict[str, Any]:
    """A manifest as wkg and others write it."""
    return {
        "schemaVersion": 2,
        "mediaType": artifact.MANIFEST,
        "config": described(artifact.WASM_CONFIG, b"{}"),
        "layers": [described(artifact.WASM, layer)],
        **fields,
    }


def fetch(made: HandMade, folder: Path, wanted: str = ":1") -> Fetched:
    return sources.parse(f"oci://{made.host}/p{wanted}").fetch(str(folder))


OTHER = MODULE + b"\0\2\1x"
"""Another module: with a custom section more."""


# -- what is taken ---------------------------------------------------------------------------------


def test_a_module_that_describes_itself(made: HandMade, tmp_path: Path) -> None:
    path = tmp_path / "module.wasm"
    path.write_bytes(MODULE)
    section.embed(str(path), DESCRIPTION)
    module = path.read_bytes()
    path.unlink()
    pinned = made.put("p", "1", manifest(module), module, b"{}")
    fetched = fetch(made, tmp_path)
    assert fetched.source == f"oci://{made.host}/p@{pinned}"
    assert Path(fetched.place).read_bytes() == module
    assert Path(fetched.place).name == "p.wasm"
    assert fetched.signer is None


def test_by_its_digest(made: HandMade, tmp_path: Path) -> None:
    pinned = made.put("p", "1", manifest(), MODULE, b"{}")
    assert fetch(made, tmp_path, f"@{pinned}").source.endswith(pinned)
    assert not any(path.endswith("/manifests/1") for _, path, _ in made.asked)


def test_one_of_others_without_a_description(made: HandMade, tmp_path: Path) -> None:
    made.put("p", "1", manifest(OTHER), OTHER, b"{}")
    assert Path(fetch(made, tmp_path).place).name == "p.wasm"


@pytest.mark.parametrize("where", ["annotation", "fallback", "referrer"])
def test_its_description(made: HandMade, tmp_path: Path, where: str) -> None:
    annotations = artifact.annotated({}, DESCRIPTION) if where == "annotation" else {}
    module = artifact.of_module(MODULE, is_component=False, annotations=annotations)
    made.put("p", "1", module.manifest, *(blob.content for blob in module.blobs))
    if where != "annotation":
        one = artifact.attached(module, artifact.DESCRIPTION, DESCRIPTION)
        made.put("p", "x", one.manifest, *(blob.content for blob in one.blobs))
        made.referrers = where == "referrer"
        if made.referrers:
            made.list("p", module.digest, one.manifest)
        else:
            index = artifact.index_with(None, one)
            made.manifests["p", module.digest.replace(":", "-")] = (index, artifact.INDEX)
    place = Path(fetch(made, tmp_path).place)
    assert (place / "component.toml").read_bytes() == DESCRIPTION
    assert (place / "p.wasm").read_bytes() == MODULE


def test_an_archive(made: HandMade, tmp_path: Path) -> None:
    from conductor.packages.pack import File, archive_of

    packed = archive_of({"component.toml": File(DESCRIPTION), "p.py": File(b"pass\n", True)})
    one = artifact.of_archive(packed, {})
    made.put("p", "1", one.manifest, *(blob.content for blob in one.blobs))
    place = Path(fetch(made, tmp_path).place)
    assert (place / "p.py").read_bytes() == b"pass\n"
    assert os.access(place / "p.py", os.X_OK)


@pytest.mark.proves("a tag is asked for once, and")
def test_a_tag_that_moves_is_asked_for_once(made: HandMade, tmp_path: Path) -> None:
    first = made.put("p", "1", manifest(), MODULE, b"{}")
    other = made.put("p", "other", manifest(OTHER), OTHER)

    def moves(handler: Handler) -> None:
        content = made.manifests["p", "1"]
        made.manifests["p", "1"] = made.manifests["p", "other"]
        handler.answer(200, *content)

    made.odd["GET /v2/p/manifests/1$"] = moves
    fetched = fetch(made, tmp_path)
    assert fetched.source.endswith(first)
    assert other not in fetched.source
    assert Path(fetched.place).read_bytes() == MODULE


# -- what is refused -------------------------------------------------------------------------------


def layers(*contents: tuple[str, bytes]) -> dict[str, Any]:
    return manifest(layers=[described(*each) for each in contents])


def changed(at: str, **fields: Any) -> dict[str, Any]:
    """A manifest whose config, or layer, is described otherwise."""
    made = manifest()
    (made["config"] if at == "config" else made["layers"][0]).update(fields)
    return made


HOSTILE_MANIFESTS: dict[str, Any] = {
    "no json": b"{",
    "not utf-8": b"\xff\xfe{}",
    "a list": [],
    "a number": 7,
    "nested without end": b"[" * 100_000,
    "nested within": b'{"schemaVersion":2,"layers":' + b"[" * 100_000,
    "of docker's older form": manifest(schemaVersion=1),
    "of docker": manifest(
        mediaType="application/vnd.docker.distribution.manifest.v2+json",
    ),
    "an index": {"schemaVersion": 2, "mediaType": artifact.INDEX, "manifests": []},
    "an index that says it is none": {**manifest(), "manifests": [manifest()]},
    "no config": {key: value for key, value in manifest().items() if key != "config"},
    "no layer": manifest(layers=[]),
    "layers that are null": manifest(layers=None),
    "two layers": layers((artifact.WASM, MODULE), (artifact.WASM, b"x")),
    "a layer of an image": layers(("application/vnd.oci.image.layer.v1.tar+gzip", MODULE)),
    "a foreign layer": changed("layer", urls=["http://127.0.0.1:1/x"]),
    "a config of an image": changed("config", mediaType="application/vnd.oci.image.config.v1+json"),
    "a config of archives": changed("config", mediaType=artifact.ARCHIVE_CONFIG),
    "a size below nothing": changed("layer", size=-1),
    "a size beyond all": changed("layer", size=10 * 1024**3),
    "a size that is no number": changed("layer", size="12"),
    "a size with a fraction": changed("layer", size=1.5),
    "a smaller size": changed("layer", size=len(MODULE) - 1),
    "a larger size": changed("layer", size=len(MODULE) + 1),
    "another digest": changed("layer", digest=digest(b"x")),
    "a digest that is a path": changed("layer", digest="sha256:../../x"),
    "a digest of another kind": changed("layer", digest="sha1:" + "a" * 40),
    "an annotation that is no base64": manifest(annotations={artifact.ANNOTATION: "%"}),
    "an annotation beyond ASCII": manifest(annotations={artifact.ANNOTATION: "é"}),
    "an annotation without end": manifest(annotations={artifact.ANNOTATION: "A" * 5000}),
}


@pytest.mark.proves("nothing is written before all")
@pytest.mark.parametrize("kind", sorted(HOSTILE_MANIFESTS))
def test_a_manifest_that_is_none(made: HandMade, tmp_path: Path, kind: str) -> None:
    made.put("p", "1", HOSTILE_MANIFESTS[kind], MODULE, b"{}", b"x")
    refuses(made, tmp_path)


def refuses(made: HandMade, folder: Path, wanted: str = ":1") -> ConductorError:
    """The error; nothing was written."""
    with pytest.raises(ConductorError) as refused:
        fetch(made, folder, wanted)
    assert list(folder.iterdir()) == []
    assert "\x1b" not in str(refused.value)
    return refused.value


def stays_open(handler: Handler, kind: str, size: int | None, piece: bytes) -> None:
    """Sends a body that does not end, or ends early."""
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    if size is not None:
        handler.send_header("Content-Length", str(size))
    handler.end_headers()
    handler.close_connection = True
    try:
        for _ in range(1 if size is not None else 10_000):
            handler.wfile.write(piece)
    except OSError:
        return


BLOB = "GET /v2/p/blobs/"
OTHER_BYTES = bytes(reversed(MODULE))
HOSTILE_ANSWERS: dict[str, tuple[str, Callable[[Handler], None]]] = {
    "a blob of other bytes": (BLOB, lambda handler: handler.answer(200, OTHER_BYTES)),
    "a truncated blob": (
        BLOB,
        lambda handler: stays_open(handler, "x/y", len(MODULE), MODULE[:100]),
    ),
    "a short blob": (BLOB, lambda handler: handler.answer(200, MODULE[:100])),
    "an endless blob": (BLOB, lambda handler: stays_open(handler, "x/y", None, MODULE)),
    "a compressed blob": (
        BLOB,
        lambda handler: handler.answer(200, gzip.compress(MODULE), Content_Encoding="gzip"),
    ),
    "a blob that is gone": (BLOB, lambda handler: handler.answer(404)),
    "a blob behind a failure": (BLOB, lambda handler: handler.answer(500, b"\x1b[31m")),
    "a redirect in a circle": (
        BLOB,
        lambda handler: handler.answer(307, Location=handler.path),
    ),
    "a redirect to a file": (
        BLOB,
        lambda handler: handler.answer(307, Location="file:///etc/passwd"),
    ),
    "a redirect without TLS": (
        BLOB,
        lambda handler: handler.answer(307, Location="http://registry.invalid/x"),
    ),
    "an endless manifest": (
        "GET /v2/p/manifests/1$",
        lambda handler: stays_open(handler, artifact.MANIFEST, None, b" " * 65536),
    ),
    "a login page": ("GET /v2/p/manifests/1$", lambda handler: handler.answer(200, b"<html>")),
    "a manifest of another type": (
        "GET /v2/p/manifests/1$",
        lambda handler: handler.answer(200, json.dumps(manifest()).encode(), "text/html"),
    ),
    "an endless list of referrers": (
        "GET /v2/p/referrers/",
        lambda handler: stays_open(handler, artifact.INDEX, None, b" " * 65536),
    ),
    "a list of referrers that is none": (
        "GET /v2/p/referrers/",
        lambda handler: handler.answer(200, b"[]", artifact.INDEX),
    ),
    "a header that is none": (BLOB, lambda handler: stays_open(handler, "\r\n\0", 7, b"\0" * 100)),
    "an answer that breaks off": (BLOB, lambda handler: handler.connection.shutdown(2)),
}


@pytest.mark.proves("nothing is written before all")
@pytest.mark.parametrize("kind", sorted(HOSTILE_ANSWERS))
def test_an_answer_that_is_none(made: HandMade, tmp_path: Path, kind: str) -> None:
    pattern, odd = HOSTILE_ANSWERS[kind]
    made.put("p", "1", manifest(), MODULE, b"{}")
    made.odd[pattern] = odd
    refuses(made, tmp_path)


@pytest.mark.proves("nothing is written before all")
def test_another_manifest_than_the_pinned_one(made: HandMade, tmp_path: Path) -> None:
    pinned = made.put("p", "1", manifest(), MODULE, b"{}")
    made.manifests["p", pinned] = (json.dumps(manifest(OTHER)).encode(), artifact.MANIFEST)
    assert pinned in refuses(made, tmp_path, f"@{pinned}").text


def test_a_tag_that_is_not_there(made: HandMade, tmp_path: Path) -> None:
    assert "has no `p` with 1" in refuses(made, tmp_path).text


@pytest.mark.proves("nothing is written before all")
def test_a_server_that_drips(
    made: HandMade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer never ends by itself: only the deadline of the whole pull ends it."""
    monkeypatch.setattr(download, "SECONDS", 0.5)
    made.put("p", "1", manifest(), MODULE, b"{}")
    made.odd[BLOB] = drip
    assert "in time" in refuses(made, tmp_path).text


def drip(handler: Handler) -> None:
    import threading

    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    pause = threading.Event()
    try:
        while not pause.wait(0.05):
            handler.wfile.write(b"X: y\r\n")
    except OSError:
        return


# -- what is attached ------------------------------------------------------------------------------


def attached(made: HandMade, *contents: bytes, subject: artifact.Made | None = None) -> str:
    """A module with descriptions as referrers; its digest."""
    module = artifact.of_module(MODULE, is_component=False, annotations={})
    made.put("p", "1", module.manifest, *(blob.content for blob in module.blobs))
    made.referrers = True
    for content in contents:
        one = artifact.attached(subject or module, artifact.DESCRIPTION, content)
        made.put("p", f"x{len(made.manifests)}", one.manifest, *(b.content for b in one.blobs))
        made.list("p", module.digest, one.manifest)
    return module.digest


@pytest.mark.parametrize("types", ["", artifact.EMPTY])
def test_a_registry_that_does_not_list_the_type(made: HandMade, tmp_path: Path, types: str) -> None:
    """The one of go-containerregistry lists the type of the config."""
    made.types = types
    attached(made, DESCRIPTION)
    assert (Path(fetch(made, tmp_path).place) / "component.toml").is_file()


def test_two_descriptions_that_differ(made: HandMade, tmp_path: Path) -> None:
    attached(made, DESCRIPTION, DESCRIPTION + b"# other\n")
    assert "differ" in refuses(made, tmp_path).text


def test_a_description_of_something_else(made: HandMade, tmp_path: Path) -> None:
    """A referrer is about its subject, whatever list it stands in."""
    other = artifact.of_module(b"\0asm", is_component=False, annotations={})
    attached(made, DESCRIPTION, subject=other)
    assert Path(fetch(made, tmp_path).place).name == "p.wasm"


def test_too_many_referrers(made: HandMade, tmp_path: Path) -> None:
    found = attached(made, DESCRIPTION)
    made.listed["p", found] *= 40
    refuses(made, tmp_path)


@pytest.mark.proves("a module's manifest makes no")
@pytest.mark.parametrize(
    "description",
    [
        b"",
        b"\xff",
        b'name = "p"\ncommand = ["rm"]\n',
        b'name = "p"\nfile = "p.py"\n',
        b"x" * 70_000,
    ],
)
def test_a_description_that_does_not_fit(
    made: HandMade, tmp_path: Path, description: bytes
) -> None:
    """A module's manifest cannot make a program of it."""
    attached(made, description)
    with pytest.raises(ConductorError):
        fetch(made, tmp_path)


def test_an_archive_that_climbs_out(made: HandMade, tmp_path: Path) -> None:
    from conductor.packages.pack import File, archive_of

    one = artifact.of_archive(archive_of({"../escaped": File(b"x")}), {})
    made.put("p", "1", one.manifest, *(blob.content for blob in one.blobs))
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ConductorError):
        fetch(made, folder)
    assert not (tmp_path / "escaped").exists()
    assert archive.BOUNDS.unpacked >= artifact.MOST_LAYER
