"""Where the user's login at a registry goes, and where it does not."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from conductor.errors import ConductorError
from conductor.packages import download
from conductor.packages.download import Answer
from conductor.packages.oci import artifact, credentials
from conductor.packages.oci.transport import Transport
from tests.packages.oci import registries
from tests.packages.oci.registries import BASIC, PASSWORD, TOKEN, USER, HandMade, log_in
from tests.packages.oci.test_pull import MODULE, fetch, manifest
from tests.packages.servers import overheard


def given(made: HandMade, at: str = "") -> set[str]:
    return {authorization for _, path, authorization in made.asked if path.startswith(at)}


@pytest.mark.parametrize("auth", ["basic", "bearer"])
def test_with_a_login(
    made: HandMade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auth: str
) -> None:
    log_in(monkeypatch, tmp_path / "docker", made.host)
    made.auth = auth
    made.put("p", "1", manifest(), MODULE, b"{}")
    folder = tmp_path / "folder"
    folder.mkdir()
    assert Path(fetch(made, folder).place).read_bytes() == MODULE
    expected = {"basic": {"", BASIC}, "bearer": {"", f"Bearer {TOKEN}"}}[auth]
    assert given(made, "/v2/") == expected
    refused = [path for _, path, authorization in made.asked if not authorization]
    assert refused == ["/v2/p/manifests/1"], "one refusal, and then the login is known"
    if auth == "bearer":
        (asked,) = [path for _, path, _ in made.asked if path.startswith("/token")]
        assert "service=registry" in asked
        assert "repository%3Ap%3Apull" in asked


@pytest.mark.proves("the login goes to the registry")
@pytest.mark.parametrize("auth", ["basic", "bearer"])
@pytest.mark.parametrize("password", [None, "wrong"])
def test_without_the_right_login(
    made: HandMade,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    auth: str,
    password: str | None,
) -> None:
    """A registry that refuses again and again is asked twice, and the error says how to log in."""
    if password is not None:
        log_in(monkeypatch, tmp_path / "docker", made.host, password=password)
    made.auth = auth
    made.put("p", "1", manifest(), MODULE, b"{}")
    with pytest.raises(ConductorError) as refused:
        fetch(made, tmp_path)
    assert "docker login" in refused.value.hint
    assert "wrong" not in str(refused.value)
    assert len(made.asked) <= 3


@pytest.mark.proves("the login goes to the registry")
def test_a_redirect_takes_no_login_along(
    made: HandMade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_in(monkeypatch, tmp_path / "docker", made.host)
    made.auth = "basic"
    made.put("p", "1", manifest(), MODULE, b"{}")
    folder = tmp_path / "folder"
    folder.mkdir()
    with registries.hand_made() as elsewhere:
        elsewhere.odd["GET /there"] = lambda handler: handler.answer(200, MODULE)
        made.odd["GET /v2/p/blobs/"] = lambda handler: handler.answer(
            307, Location=f"{elsewhere.origin}/there"
        )
        fetch(made, folder)
        assert given(elsewhere) == {""}


@pytest.mark.proves("the login goes to the registry")
@pytest.mark.parametrize("kind", ["Basic", "Bearer"])
def test_where_a_redirect_leads_nobody_may_ask_for_the_login(
    made: HandMade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    log_in(monkeypatch, tmp_path / "docker", made.host)
    made.put("p", "1", manifest(), MODULE, b"{}")
    with registries.hand_made() as elsewhere:
        realm = f'{kind} realm="{elsewhere.origin}/token"'
        elsewhere.odd["GET /there"] = lambda handler: handler.answer(401, WWW_Authenticate=realm)
        made.odd["GET /v2/p/blobs/"] = lambda handler: handler.answer(
            307, Location=f"{elsewhere.origin}/there"
        )
        with pytest.raises(ConductorError, match="does not let us"):
            fetch(made, tmp_path)
        assert [path for _, path, _ in elsewhere.asked] == ["/there"]
        assert given(elsewhere) == {""}


@pytest.mark.proves("the login goes to the registry")
@pytest.mark.parametrize(
    "realm",
    ["http://token.invalid/x", "file:///etc/passwd", "//x", "", "https://me:pw@token.invalid/"],
)
def test_a_login_goes_to_no_token_service_without_tls(
    made: HandMade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, realm: str
) -> None:
    log_in(monkeypatch, tmp_path / "docker", made.host)
    made.odd["/manifests/"] = lambda handler: handler.answer(
        401, WWW_Authenticate=f'Bearer realm="{realm}"'
    )
    with pytest.raises(ConductorError, match="sends us elsewhere"):
        fetch(made, tmp_path)


@pytest.mark.parametrize("token", [b"", b"[]", b"{}", b'{"token": 7}', b'{"token": "a\\r\\nX: y"}'])
def test_a_token_that_is_none(
    made: HandMade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: bytes
) -> None:
    log_in(monkeypatch, tmp_path / "docker", made.host)
    made.auth = "bearer"
    made.odd["GET /token"] = lambda handler: handler.answer(200, token)
    with pytest.raises(ConductorError):
        fetch(made, tmp_path)


def test_anonymous_tokens(made: HandMade, tmp_path: Path) -> None:
    """Public components of most registries need a token, and no login."""
    made.auth = "bearer"
    made.odd["GET /token"] = lambda handler: handler.answer(
        200, json.dumps({"access_token": TOKEN}).encode()
    )
    made.put("p", "1", manifest(), MODULE, b"{}")
    assert Path(fetch(made, tmp_path).place).read_bytes() == MODULE
    assert given(made, "/token") == {""}


# -- config.json -----------------------------------------------------------------------------------


def helper(folder: Path, script: str) -> None:
    path = folder / "docker-credential-test"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("key", ["credHelpers", "credsStore"])
def test_a_credential_helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    value = {"r.example": "test"} if key == "credHelpers" else "test"
    (tmp_path / "config.json").write_text(json.dumps({key: value, "auths": {"r.example": {}}}))
    answer = json.dumps({"ServerURL": "x", "Username": USER, "Secret": PASSWORD})
    helper(tmp_path, f"read name; [ \"$1 $name\" = 'get r.example' ] && echo '{answer}'")
    login = credentials.login("r.example")
    assert login is not None
    assert login.basic == BASIC
    helper(tmp_path, "exit 1")
    assert credentials.login("r.example") is None


@pytest.mark.parametrize(
    "config",
    [
        "{",
        "[]",
        '{"auths": {"r.example": {"auth": "%"}}}',
        '{"auths": {"r.example": {"auth": "é"}}}',
        '{"auths": {"r.example": {"auth": "/w=="}}}',
        '{"credHelpers": {"r.example": "../../bin/sh"}}',
        '{"credHelpers": {"r.example": "that-nobody-has"}}',
        '{"credHelpers": ["r.example"]}',
    ],
)
def test_a_config_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(ConductorError) as refused:
        credentials.login("r.example")
    assert refused.value.hint


def test_a_login_stays_in_the_domain_of_its_registry(
    made: HandMade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token service elsewhere is asked, but not as the user."""
    log_in(monkeypatch, tmp_path / "docker", made.host)
    with registries.hand_made() as elsewhere:
        origin = elsewhere.origin.replace("127.0.0.1", "localhost")
        made.odd["/manifests/"] = lambda handler: handler.answer(
            401, WWW_Authenticate=f'Bearer realm="{origin}/token"'
        )
        with pytest.raises(ConductorError, match="does not let us"):
            fetch(made, tmp_path)
        assert [path.partition("?")[0] for _, path, _ in elsewhere.asked] == ["/token"]
        assert given(elsewhere) == {""}


@pytest.mark.parametrize(
    ("registry", "realm", "sent"),
    [
        ("registry.corp.co.uk", "registry.corp.co.uk", True),
        ("registry.corp.co.uk", "registry.corp.co.uk:8443", True),
        ("registry.corp.co.uk:5000", "auth.registry.corp.co.uk", True),
        ("registry.corp.co.uk", "evil.co.uk", False),
        ("registry.corp.co.uk", "corp.co.uk", False),
        ("registry.corp.co.uk", "other.corp.co.uk", False),
        ("registry.corp.co.uk", "evilregistry.corp.co.uk", False),
        ("registry.corp.co.uk", "registry.corp.co.uk.evil.com", False),
        ("registry.corp.co.uk", "registry.corp.co.uk@evil.com", False),
        ("docker.io", "auth.docker.io", True),
        ("docker.io", "evildocker.io", False),
        ("10.1.1.1", "1.1.1.1", False),
    ],
)
def test_a_login_goes_to_a_token_service_at_its_registry_or_below(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: str, realm: str, sent: bool
) -> None:
    log_in(monkeypatch, tmp_path / "docker", registry)
    asked: list[tuple[str, str]] = []

    def send(_method: str, url: str, _body: object, **given: Any) -> Answer:
        asked.append((url, given["headers"].get("Authorization", "")))
        challenge = f'Bearer realm="https://{realm}/token"'
        return Answer(401, [("www-authenticate", challenge)], b"", url)

    monkeypatch.setattr(download, "send", send)
    transport = Transport(registry, "p", "pull")
    try:
        transport.send("GET", f"{transport.origin}/v2/p/manifests/1")
    except ConductorError:
        assert not sent
    logins = [login for url, login in asked if "/token" in url]
    assert logins == ([BASIC] if sent else logins and [""])


@pytest.mark.proves("a server of the internet sends")
@pytest.mark.parametrize("host", ["inside.example", "127.0.0.1"])
@pytest.mark.parametrize("sent_there", ["for a token", "with an upload"])
def test_a_registry_of_the_internet_sends_nobody_inside(
    monkeypatch: pytest.MonkeyPatch, host: str, sent_there: str
) -> None:
    """Neither by an address nor by a name that means one: not even TLS begins there."""
    once, look_up = download._once, socket.getaddrinfo

    async def from_outside(request: Any, url: str, most: int, outside: bool) -> Answer:
        if "registry.example" not in url:
            return await once(request, url, most, outside)
        challenge = [("www-authenticate", f'Bearer realm="{there}/token"')]
        return Answer(401 if sent_there == "for a token" else 202, challenge, b"", url, True)

    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _host, *rest, **more: look_up("127.0.0.1", *rest, **more)
    )
    monkeypatch.setattr(download, "_once", from_outside)
    with overheard() as (port, heard):
        there = f"https://{host}:{port}"
        transport = Transport("registry.example", "p", "pull,push")
        if sent_there == "with an upload":
            assert transport.send("GET", f"{transport.origin}/v2/").is_outside
        at = transport.origin if sent_there == "for a token" else there
        with pytest.raises(ConductorError, match=r"this machine"):
            transport.send("PUT", f"{at}/upload", body=b"content")
    assert not heard


@pytest.mark.parametrize("path", ["/referrers/", "/token"])
def test_an_answer_of_endless_depth(
    made: HandMade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    log_in(monkeypatch, tmp_path / "docker", made.host)
    made.auth = "bearer" if path == "/token" else ""
    made.put("p", "1", manifest(), MODULE, b"{}")
    deep = b'{"schemaVersion":2,"a":' + b"[" * 25_000 + b"]" * 25_000 + b',"manifests":[]}'
    made.odd[f"GET .*{path}"] = lambda handler: handler.answer(200, deep, artifact.INDEX)
    with pytest.raises(ConductorError):
        fetch(made, tmp_path)
