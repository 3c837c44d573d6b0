"""Who signed a package: compared without a network, with a root of trust that the test makes."""

import base64
import copy
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from conductor import installation
from conductor.errors import UsageError
from conductor.packages import signatures, sources
from conductor.packages.signatures import Demand, Offer
from conductor.spec.installed import Signer
from tests.packages.sigstore_root import ISSUER, ME, NOW, Sigstore, b64, canonical
from tests.places import DEADLINE, PASSTHROUGH, checkout_environment

CONTENT = PASSTHROUGH.read_bytes()
WORKFLOW = "https://github.com/somebody/proxy/.github/workflows/release.yml@refs/tags/v1"


@pytest.fixture(scope="module")
def trust() -> Sigstore:
    return Sigstore()


@pytest.fixture(scope="module")
def root(trust: Sigstore, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("root") / "trusted_root.json"
    path.write_bytes(trust.trusted_root())
    return str(path)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def me(root: str, signer: str = ME, issuer: str = ISSUER) -> Demand:
    return signatures.demand(signer=signer, issuer=issuer, trusted_root=root)


def offer(bundle: dict[str, Any]) -> Offer:
    return Offer("bundle", json.dumps(bundle).encode())


def signer(bundle: dict[str, Any], wanted: Demand, content: bytes = CONTENT) -> Signer | None:
    return signatures.signer_of(content, [offer(bundle)], wanted, "p")


FORMS: dict[str, Callable[..., dict[str, Any]]] = {
    "of an artifact": Sigstore.statement,
    "of a file": Sigstore.bundle,
}
forms = pytest.mark.parametrize("form", sorted(FORMS))


# -- good ------------------------------------------------------------------------------------------


@forms
@pytest.mark.parametrize("name", [ME, WORKFLOW])
def test_by_an_identity(trust: Sigstore, root: str, form: str, name: str) -> None:
    bundle = FORMS[form](trust, CONTENT, names=(name,))
    proved = signer(bundle, me(root, name))
    assert proved == Signer(identity=name, issuer=ISSUER)
    assert str(proved) == f"{name} ({ISSUER})"


@forms
def test_nobody_asked(trust: Sigstore, root: str, form: str) -> None:
    """The user is shown the signer, and the next version is held to that signer."""
    proved = signer(FORMS[form](trust, CONTENT), Demand(trusted_root=root))
    assert proved == Signer(identity=ME, issuer=ISSUER)
    again = signatures.as_before(Demand(trusted_root=root), proved)
    assert again == me(root)


def test_built_by_a_workflow(trust: Sigstore, root: str) -> None:
    bundle = trust.statement(CONTENT, predicate="https://slsa.dev/provenance/v1")
    assert signer(bundle, me(root)) is not None


def test_one_good_signature_of_several(trust: Sigstore, root: str) -> None:
    others = [offer(Sigstore().statement(CONTENT)), Offer("bundle", b"{"), Offer("plain", b"x")]
    good = offer(trust.statement(CONTENT))
    assert signatures.signer_of(CONTENT, [*others, good], me(root), "p") is not None


# -- bad -------------------------------------------------------------------------------------------


@pytest.mark.proves("a signature counts by whom it")
@forms
@pytest.mark.parametrize(
    ("name", "issuer"),
    [
        ("you@example.com", ISSUER),
        (ME, "https://accounts.example.org"),
        (ME, ISSUER + "/"),
        (ME.upper(), ISSUER),
        ("example.com", ISSUER),
    ],
)
def test_by_somebody_else(trust: Sigstore, root: str, form: str, name: str, issuer: str) -> None:
    with pytest.raises(UsageError) as refused:
        signer(FORMS[form](trust, CONTENT), me(root, name, issuer))
    assert f"it is signed by {ME} ({ISSUER})" in refused.value.text
    assert "--any-signer" in refused.value.hint


def moved(bundle: dict[str, Any], other: dict[str, Any], *path: str | int) -> dict[str, Any]:
    """A bundle with one part of another."""
    made = copy.deepcopy(bundle)
    target: Any = made
    source: Any = other
    for step in path[:-1]:
        target, source = target[step], source[step]
    target[path[-1]] = source[path[-1]]
    return made


ENTRY = ("verificationMaterial", "tlogEntries", 0)
PARTS: dict[str, tuple[str | int, ...]] = {
    "another certificate": ("verificationMaterial", "certificate"),
    "another entry": ("verificationMaterial", "tlogEntries"),
    "another promise": (*ENTRY, "inclusionPromise"),
    "another proof": (*ENTRY, "inclusionProof"),
    "another checkpoint": (*ENTRY, "inclusionProof", "checkpoint"),
    "another body": (*ENTRY, "canonicalizedBody"),
}


@pytest.mark.proves("certificate, log entry, its proof")
@forms
@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_of_another_signature(trust: Sigstore, root: str, form: str, part: str) -> None:
    """The other is of the same person, and good by itself."""
    bundle = FORMS[form](trust, CONTENT)
    other = FORMS[form](trust, b"something else", at=NOW + timedelta(minutes=2))
    with pytest.raises(UsageError, match="is not signed by"):
        signer(moved(bundle, other, *PARTS[part]), me(root))


KEYS = {
    "authority": "certificate chain: .* signature does not match",
    "certificates": "SCT verify failed",
    "entries": "checkpoint: invalid signature",
}


@pytest.mark.proves("certificate, log entry, its proof")
@forms
@pytest.mark.parametrize("part", sorted(KEYS))
def test_a_root_with_another_key(trust: Sigstore, root: str, form: str, part: str) -> None:
    """Each of the three keys has to be the one of the root."""
    keys = {name: getattr(trust, name) for name in ("authority", "certificates", "entries")}
    other = Sigstore(**(keys | {part: getattr(Sigstore(), part)}))
    with pytest.raises(UsageError, match=KEYS[part]):
        signer(FORMS[form](other, CONTENT), me(root))


@forms
def test_the_root_of_everybody(trust: Sigstore, form: str) -> None:
    """Without a root of one's own it is the one in the package `sigstore`."""
    with pytest.raises(UsageError, match="is not signed by"):
        signer(FORMS[form](trust, CONTENT), me(""))
    assert signer(FORMS[form](trust, CONTENT), Demand()) is None


@pytest.mark.proves("certificate, log entry, its proof")
@forms
@pytest.mark.parametrize("minutes", [-30, 30])
def test_a_certificate_that_had_ended(trust: Sigstore, root: str, form: str, minutes: int) -> None:
    """The log says when it was signed, and the certificate lives for ten minutes."""
    late = FORMS[form](trust, CONTENT, at=NOW + timedelta(minutes=minutes))
    with pytest.raises(UsageError, match="not valid at validation time"):
        signer(late, me(root))


@pytest.mark.proves("a signature counts by whom it")
@forms
def test_of_another_package(trust: Sigstore, root: str, form: str) -> None:
    with pytest.raises(UsageError, match="is not signed by"):
        signer(FORMS[form](trust, b"something else"), me(root))


@forms
def test_of_several_people(trust: Sigstore, root: str, form: str) -> None:
    with pytest.raises(UsageError, match="does not name one identity"):
        signer(FORMS[form](trust, CONTENT, names=(ME, WORKFLOW)), me(root))


@pytest.mark.proves("a signature counts by whom it")
@pytest.mark.parametrize(
    "odd",
    [
        {"predicate": "https://cosign.sigstore.dev/attestation/vuln/v1"},
        {"kind": "application/json"},
    ],
)
def test_a_statement_that_is_no_signature(trust: Sigstore, root: str, odd: dict[str, Any]) -> None:
    """The same person says something about the package, such as the result of a scan."""
    with pytest.raises(UsageError, match="about something else"):
        signer(trust.statement(CONTENT, **odd), me(root))


@forms
def test_without_what_proves_the_time(trust: Sigstore, root: str, form: str) -> None:
    bundle = FORMS[form](trust, CONTENT)
    del bundle["verificationMaterial"]["tlogEntries"][0]["inclusionPromise"]
    with pytest.raises(UsageError, match="is not signed by"):
        signer(bundle, me(root))


@pytest.mark.proves("certificate, log entry, its proof")
@forms
def test_a_promise_that_was_not_given(trust: Sigstore, root: str, form: str) -> None:
    bundle = FORMS[form](trust, CONTENT)
    entry = bundle["verificationMaterial"]["tlogEntries"][0]
    entry["integratedTime"] = str(int(entry["integratedTime"]) + 60)
    with pytest.raises(UsageError, match="is not signed by"):
        signer(bundle, me(root))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b'{"verificationMaterial": {"publicKey": {}}}',
        b'{"verificationMaterial": {"publicKey": {}}, "dsseEnvelope": {"signatures": []}}',
        (
            b'{"verificationMaterial": {"publicKey": 1}, "dsseEnvelope": {"payloadType": "\\ud800",'
            b' "payload": "", "signatures": [{"sig": ""}]}}'
        ),
        b'{"verificationMaterial": 7}',
    ],
)
def test_a_bundle_that_is_none(root: str, tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UsageError, match="is not signed by"):
        signatures.signer_of(CONTENT, [Offer("bundle", content)], me(root), "p")
    assert signatures.signer_of(CONTENT, [Offer("bundle", content)], Demand(), "p") is None
    wanted = signatures.demand(key=key_pair(tmp_path)[1])
    for kind in ("bundle", "simple", "plain"):
        with pytest.raises(UsageError, match="is not signed by"):
            signatures.signer_of(CONTENT, [Offer(kind, content, content)], wanted, "p")


def test_no_signature_at_all(root: str) -> None:
    with pytest.raises(UsageError, match="comes with no signature"):
        signatures.signer_of(CONTENT, [], me(root), "p")
    assert signatures.signer_of(CONTENT, [], Demand(), "p") is None


@pytest.mark.parametrize(
    ("key", "offers"),
    [
        ("A", []),
        ("A", [Offer("plain", b"")]),
        ("\u00e9", []),
        ("\u00e9", [Offer("plain", b"")]),
        pytest.param("MA0wBQYDKgMEAwQAYWJj", [Offer("plain", b"")], id="of an unknown kind"),
    ],
)
def test_a_recorded_key_that_is_damaged(key: str, offers: list[Offer]) -> None:
    with pytest.raises(UsageError, match="recorded public key") as refused:
        signatures.signer_of(CONTENT, offers, Demand(key=key), "p")
    assert refused.value.hint


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"mediaType": "x"}'])
def test_a_root_that_is_none(trust: Sigstore, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "root.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        signer(trust.bundle(CONTENT), me(str(path)))
    assert "root.json" in refused.value.text
    with pytest.raises(UsageError, match="No such file"):
        signer(trust.bundle(CONTENT), me(str(tmp_path / "no")))


@pytest.mark.parametrize(
    "typed",
    [{"signer": ME}, {"issuer": ISSUER}, {"signer": ME, "issuer": ISSUER, "key": "x"}],
)
def test_a_demand_that_says_too_little_or_too_much(typed: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as refused:
        signatures.demand(**typed)
    assert refused.value.hint


def test_without_sigstore(trust: Sigstore, tmp_path: Path) -> None:
    """The extra is not installed: nobody is shown, and a demand is an error that says so."""
    (tmp_path / "sigstore.py").write_text("raise ImportError\n")
    bundle = tmp_path / "bundle"
    bundle.write_text(json.dumps(trust.bundle(CONTENT)))
    script = f"""
from pathlib import Path
from conductor.errors import UsageError
from conductor.packages import signatures as s
content, offers = b"x", [s.Offer("bundle", Path({str(bundle)!r}).read_bytes())]
assert s.signer_of(content, offers, s.ANYBODY, "p") is None
try:
    s.signer_of(content, offers, s.demand({ME!r}, {ISSUER!r}), "p")
except UsageError as error:
    print(error.hint)
"""
    env = checkout_environment()
    env["PYTHONPATH"] = f"{tmp_path}:{env['PYTHONPATH']}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=env,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=True,
    )
    assert installation.with_extra("sigstore") in done.stdout


def test_without_cryptography(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A receipt may name a key where the extra is not installed any more."""
    wanted = signatures.demand(key=key_pair(tmp_path)[1])
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UsageError) as refused:
        signatures.signer_of(CONTENT, [Offer("plain", b"x")], wanted, "p")
    assert installation.with_extra("signatures") in refused.value.hint


# -- beside a file ---------------------------------------------------------------------------------


def key_pair(folder: Path) -> tuple[str, str]:
    private, public = str(folder / "key.pem"), str(folder / "key.pub")
    for command in (
        ["openssl", "genpkey", "-algorithm", "ed25519", "-out", private],
        ["openssl", "pkey", "-in", private, "-pubout", "-out", public],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE)
    return private, public


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.wasm"
    path.write_bytes(CONTENT)
    return path


def fetch(file: Path, folder: Path, wanted: Demand) -> Signer | None:
    folder.mkdir()
    return sources.parse(str(file)).fetch(str(folder), wanted).signer


def test_a_bundle_beside_a_file(trust: Sigstore, root: str, file: Path, tmp_path: Path) -> None:
    beside = file.with_name("p.wasm.sigstore.json")
    beside.write_text(json.dumps(trust.bundle(CONTENT)))
    proved = fetch(file, tmp_path / "1", me(root))
    assert proved == Signer(identity=ME, issuer=ISSUER)
    file.write_bytes(CONTENT + b"\0\2\1x")
    with pytest.raises(UsageError, match="is not signed by"):
        fetch(file, tmp_path / "2", me(root))
    assert fetch(file, tmp_path / "3", Demand(trusted_root=root)) is None


@pytest.mark.parametrize("form", ["base64", "bytes"])
def test_a_signature_beside_a_file(file: Path, tmp_path: Path, form: str) -> None:
    from conductor.spec import signing

    private, public = key_pair(tmp_path)
    signature = signing.sign(signing.private(private), CONTENT)
    beside = file.with_name("p.wasm.sig")
    beside.write_bytes(base64.b64encode(signature) + b"\n" if form == "base64" else signature)
    wanted = signatures.demand(key=public)
    proved = fetch(file, tmp_path / "1", wanted)
    assert proved is not None
    assert signatures.as_before(Demand(), proved) == wanted
    file.write_bytes(CONTENT + b"\0\2\1x")
    with pytest.raises(UsageError, match="not of this package with this key"):
        fetch(file, tmp_path / "2", wanted)


def test_a_folder_has_no_signature(root: str, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "p.wasm").write_bytes(CONTENT)
    with pytest.raises(UsageError, match="comes with no signature"):
        fetch(folder, tmp_path / "1", me(root))


def test_the_root_is_what_the_test_thinks() -> None:
    assert canonical({"b": 1, "a": b64(b"x")}) == b'{"a":"eA==","b":1}'
