"""Who may connect: names, origins and tokens."""

import asyncio
import datetime
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jwt
import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa

from conductor.errors import UsageError
from conductor.http.request import Refused
from conductor.serve.access import origins, tokens
from conductor.serve.access.gate import CHALLENGE, LOCAL, Gate, offered, shown_token
from conductor.serve.access.oidc import Oidc
from conductor.serve.access.proof import Proof
from conductor.transports.host import is_named


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ("127.0.0.1:8790", True),
        ("LOCALHOST", True),
        ("[::1]:8790", True),
        ("chains.example:443", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:80", False),
        ("", False),
        *(
            (f"127.0.0.1{end}", False)
            for end in (":1:2", ":", ":x", ":70000", "/", "@evil.example")
        ),
        *(
            (text, False)
            for text in ("[::1", "[::1]x", "[::1]:", "x[::1]", "::1", "localhost localhost")
        ),
        ("[::2]", False),
    ],
)
def test_names_of_the_server(header: str, named: bool) -> None:
    assert is_named(header, [*origins.LOOPBACK, "Chains.example"]) is named


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        (None, True),
        ("https://chat.example", True),
        ("https://CHAT.example", True),
        ("http://chat.example", False),
        ("https://chat.example:8443", False),
        ("https://chat.example.evil", False),
        ("null", False),
        ("", False),
        ("https://[", False),
    ],
)
def test_origins_of_pages(origin: str | None, allowed: bool) -> None:
    assert origins.may_come_from(origin, ["https://chat.example"]) is allowed


@pytest.mark.parametrize("origin", ["null", "chat.example", "https:", "//", "https://[", ""])
def test_what_is_no_origin_never_counts(origin: str) -> None:
    """Not even where `origin` names the same: `null` is any page in a frame of its own."""
    assert not origins.may_come_from(origin, [origin, "chat.example", "null"])
    assert not origins.is_origin(origin)


def test_a_token_is_found_by_its_digest(tmp_path: Path) -> None:
    path = str(tmp_path / "tokens")
    first, second, other = tokens.new_token(), tokens.new_token(), tokens.new_token()
    tokens.add(path, "alice", first, None)
    tokens.add(path, "bob@example.org", other, None)
    tokens.add(path, "alice", second, "2030-01-01T00:00:00Z")
    known = tokens.read(path)

    def found(shown: str) -> str | None:
        line, _ = tokens.found(known, shown, 0.0)
        return line.principal if line is not None else None

    assert found(first) == "alice"
    assert found(second) == "alice"
    assert found(other) == "bob@example.org"
    assert tokens.found(known, "x", 0.0) == (None, "the token is not known")
    late = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC).timestamp()
    assert tokens.found(known, second, late) == (None, "the token has expired")
    text = (tmp_path / "tokens").read_text()
    assert not any(token in text for token in (first, second, other))
    assert (tmp_path / "tokens").stat().st_mode & 0o777 == 0o600


DIGEST: Final = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    "text",
    [
        "alice = 1",
        "alice = 'secret'",
        "alice = ['sha256:00']",
        f"'a b' = '{DIGEST}'",
        f"alice = '{DIGEST} until tomorrow'",
        f"alice = '{DIGEST} until 2030-01-01T00:00:00'",
        "alice",
        "[alice]",
    ],
)
def test_files_of_tokens_that_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(UsageError):
        tokens.read(str(path))


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("")
    path.chmod(0o622)
    with pytest.raises(UsageError, match="other users"):
        tokens.read(str(path))
    with pytest.raises(UsageError):
        tokens.read(str(tmp_path / "nothing"))
    with pytest.raises(UsageError, match="cannot be used"):
        tokens.add("/proc/self/tokens", "alice", tokens.new_token(), None)
    with pytest.raises(UsageError, match="name of a principal"):
        tokens.add(str(tmp_path / "new"), "a b", "x", None)


@pytest.mark.proves("a trusted place can be")
def test_a_file_that_others_can_lead_elsewhere_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kubernetes mounts a Secret it is taken: links of root's, in a folder that is sticky."""
    secret = tmp_path / "secret"
    (secret / "2030").mkdir(parents=True)
    path, real = secret / "tokens", secret / "2030" / "tokens"
    real.write_text(f"alice = '{DIGEST}'")
    real.chmod(0o440)
    (secret / "data").symlink_to("2030")
    path.symlink_to("data/tokens")
    secret.chmod(0o3777)
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: 10001)
    assert [each.principal for each in tokens.read(str(path))] == ["alice"]
    for place in (real, secret / "2030", secret, tmp_path):
        before = place.stat().st_mode
        place.chmod(0o757)
        with pytest.raises(UsageError, match=f"`{place}` .*other"):
            tokens.read(str(path))
        place.chmod(before)


def oidc(issuer: str, audience: str, *more: Any, **most: Any) -> Oidc:
    """A reader of tokens that fetches keys in tasks of the loop that runs then."""
    start = lambda work: asyncio.get_running_loop().create_task(work)  # noqa: E731
    return Oidc(issuer, audience, start, *more, **most)


def gate(**more: Any) -> Gate:
    """A gate that knows one token of alice."""
    known = [tokens.Token("alice", tokens.digest("right"))]
    allowed = ["https://chat.example"]
    return Gate(**{"names": ["h"], "allowed": allowed, "open_": False, "known": known, **more})


def who(one: Gate, **headers: str) -> str:
    named = {"host": "h", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return asyncio.run(one.proof(named)).principal


def test_who_is_let_in() -> None:
    assert who(gate(), authorization="Bearer right") == "alice"
    assert who(gate(), authorization="bearer  right ") == "alice"
    assert who(gate(open_=True)) == LOCAL
    page = {"origin": "https://chat.example", "sec_websocket_protocol": "acp, acp.bearer.right"}
    assert who(gate(), **page) == "alice"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Basic right"}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": "Bearer a.b.c"}, 401),
        ({"sec_websocket_protocol": "acp.bearer.right"}, 401),  # only pages may
        ({"authorization": "Bearer right", "origin": "https://evil.example"}, 403),
        ({"authorization": "Bearer right", "host": "evil.example"}, 421),
    ],
)
def test_who_is_not(headers: dict[str, str], status: int) -> None:
    with pytest.raises(Refused) as denied:
        who(gate(), **headers)
    assert denied.value.status == status
    assert (denied.value.headers == CHALLENGE) is (status == 401)


def test_the_token_is_none_of_the_subprotocols() -> None:
    found = offered({"sec-websocket-protocol": "acp , acp.bearer.x,conductor.link.1"})
    assert (found.token, found.others) == ("x", ["acp", "conductor.link.1"])
    assert offered({}).others == []
    assert shown_token({}) is None


# -- OpenID Connect --------------------------------------------------------------------------------

KEY: Final = rsa.generate_private_key(65537, 2048)
OTHER: Final = rsa.generate_private_key(65537, 2048)


def keys_of(key: rsa.RSAPrivateKey) -> dict[str, Any]:
    """The keys that an issuer publishes of a key."""
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {"keys": [{**public, "kid": "k", "use": "sig", "alg": "RS256"}]}


async def _issuer(
    work: Callable[[str], Any],
    about: dict[str, Any] | None = None,
    keys: dict[str, Any] | None = None,
) -> Any:
    """Runs `work` beside an issuer; it gets its address."""
    keys = keys_of(KEY) if keys is None else keys

    async def configuration(request: web.Request) -> web.Response:
        named = {"issuer": place, "jwks_uri": f"{place}/keys"}
        return web.json_response(named if about is None else about)

    async def jwks(request: web.Request) -> web.Response:
        return web.json_response(keys)

    application = web.Application()
    application.router.add_get("/.well-known/openid-configuration", configuration)
    application.router.add_get("/keys", jwks)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    place = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        return await work(place)
    finally:
        await runner.cleanup()


def token(place: str, key: Any = KEY, **claims: Any) -> str:
    whole = {"iss": place, "aud": "acp", "sub": "alice", "exp": int(time.time()) + 600, **claims}
    held = {name: value for name, value in whole.items() if value is not None}
    return jwt.encode(held, key, "RS256", {"kid": "k"})


def test_a_token_of_an_issuer_shows_its_subject() -> None:
    async def work(place: str) -> str:
        one = gate(issuer=oidc(place, "acp"))
        shown = {"host": "h", "authorization": f"Bearer {token(place)}"}
        return (await one.proof(shown)).principal

    assert asyncio.run(_issuer(work)) == "oidc:alice"


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"sub": ""},
        {"sub": "\ud83d"},
        {"sub": "a\n"},
        {"sub": "a" * 256},
        {"nbf": int(time.time()) + 3600},
        {"key": OTHER},
    ],
)
def test_tokens_of_an_issuer_that_are_refused(claims: dict[str, Any]) -> None:
    async def work(place: str) -> None:
        await oidc(place, "acp").proof(token(place, **claims))

    with pytest.raises(Refused) as denied:
        asyncio.run(_issuer(work))
    assert denied.value.status == 401


def test_a_key_that_the_issuer_has_withdrawn_opens_nothing_later() -> None:
    published, now = keys_of(KEY), [0.0]

    async def work(place: str) -> None:
        issuer = oidc(place, "acp", lambda: now[0])
        shown = token(place)
        await issuer.proof(shown)
        published.update(keys_of(OTHER))
        now[0] += 301
        await issuer.proof(shown)  # it waits for nothing, and has the keys read again
        while True:
            try:
                await issuer.proof(shown)
            except Refused:
                break
            await asyncio.sleep(0.01)
        await issuer.proof(token(place, OTHER))
        published.update(keys_of(KEY))
        now[0] += 901
        with pytest.raises(Refused):
            await issuer.proof(token(place, OTHER))

    asyncio.run(_issuer(work, keys=published))


class Hanging:
    """An issuer of which each answer after the first set of keys is another trouble."""

    def __init__(self, trouble: str) -> None:
        self.trouble, self.asked = trouble, 0

    async def _trouble(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        if self.trouble == "redirect":
            raise web.HTTPFound("/keys")
        if self.trouble == "no JSON":
            return web.Response(text="[" * 100_000)
        if self.trouble == "no keys":
            return web.json_response({"keys": [None, 1, {}, {"kty": "RSA", "kid": "k"}]})
        response = web.StreamResponse()
        await response.prepare(request)
        piece = b" " * (1 << 20) if self.trouble == "huge" else b" "
        while True:
            await response.write(piece)
            await asyncio.sleep(0 if self.trouble == "huge" else 0.01)

    async def answer(self, place: str, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/keys":
            return web.json_response({"issuer": place, "jwks_uri": f"{place}/keys"})
        if self.trouble:
            return await self._trouble(request)
        return web.json_response(keys_of(KEY))

    async def run(self, work: Callable[[str], Any]) -> None:
        server = web.Server(lambda request: self.answer(place, request))
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        place = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            await work(place)
        finally:
            await runner.cleanup()


@pytest.mark.proves("an issuer that hangs, drips")
@pytest.mark.parametrize("trouble", ["drips", "huge", "redirect", "no JSON", "no keys"])
def test_a_token_whose_key_is_known_waits_for_no_issuer(trouble: str) -> None:
    """Strangers make up ids of keys, while the issuer sends nothing good: it is asked once."""
    now, issuer = [0.0], Hanging("")

    async def work(place: str) -> None:
        one = oidc(place, "acp", lambda: now[0], deadline=0.5)
        await one.proof(token(place))
        issuer.trouble = trouble
        now[0] += 61
        forged = [jwt.encode({"sub": "eve"}, OTHER, "RS256", {"kid": f"no {n}"}) for n in range(20)]
        strangers = [asyncio.create_task(one.proof(shown)) for shown in forged]
        await asyncio.sleep(0)
        assert not any(stranger.done() for stranger in strangers)
        assert (await one.proof(token(place))).principal == "oidc:alice"
        done = await asyncio.gather(*strangers, return_exceptions=True)
        assert all(isinstance(denied, Refused) for denied in done)
        assert issuer.asked == 1
        with pytest.raises(Refused):
            await one.proof(forged[0])
        assert issuer.asked == 1
        if trouble != "no keys":  # that is a set of keys, without this one
            assert (await one.proof(token(place))).principal == "oidc:alice"

    asyncio.run(issuer.run(work))


def test_a_token_without_a_signature_is_refused() -> None:
    async def work(place: str) -> None:
        claims = {"iss": place, "aud": "acp", "sub": "alice", "exp": int(time.time()) + 600}
        await oidc(place, "acp").proof(jwt.encode(claims, "", "none", {"kid": "k"}))

    with pytest.raises(Refused):
        asyncio.run(_issuer(work))


NAMELESS: Final = "the issuer of the token does not name itself and its keys"
ABOUT: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "keys that anybody on the way could forge": (
        {"jwks_uri": "http://keys.example/keys"},
        "the issuer of the token has its keys at no https URL",
    ),
    "no keys": ({"jwks_uri": None}, NAMELESS),
    "keys that are no text": ({"jwks_uri": 5}, NAMELESS),
    "the keys of another issuer": ({"issuer": "https://other.example"}, NAMELESS),
    "no issuer": ({"issuer": None}, NAMELESS),
}


@pytest.mark.parametrize("what", ABOUT)
def test_an_issuer_that_says_of_itself(what: str) -> None:
    differs, why = ABOUT[what]
    about: dict[str, Any] = {}

    async def work(place: str) -> None:
        about.update({"issuer": place, "jwks_uri": f"{place}/keys", **differs})
        await oidc(place, "acp").proof(token(place))

    with pytest.raises(Refused) as denied:
        asyncio.run(_issuer(work, about))
    assert (denied.value.status, str(denied.value)) == (503, why)


def test_how_long_a_proof_holds() -> None:
    now = [100.0]
    until = tokens.Token("alice", tokens.digest("short"), 110.0)
    one = gate(known=[until], clock=lambda: now[0])
    shown = asyncio.run(one.proof({"host": "h", "authorization": "Bearer short"}))
    assert one.holds(shown)
    assert not one.holds(Proof("local"))
    assert not one.holds(msgspec.structs.replace(shown, principal="bob"))
    now[0] = 110.0
    assert not one.holds(shown)
    one.become(gate(known=[msgspec.structs.replace(until, until=None)]))  # it counts for longer
    assert one.holds(shown)
    one.become(gate())
    assert not one.holds(shown)
    one.become(gate(open_=True))
    assert one.holds(Proof("local"))
    assert not one.holds(shown)


def test_how_long_the_proof_of_an_issuer_holds() -> None:
    end = int(time.time()) + 600

    async def work(place: str) -> None:
        now = [float(end)]
        one = gate(issuer=oidc(place, "acp"), clock=lambda: now[0])
        shown = await one.proof({"host": "h", "authorization": f"Bearer {token(place, exp=end)}"})
        assert one.holds(shown)
        now[0] += 60
        assert not one.holds(shown)
        now[0] = float(end)
        one.become(gate(issuer=oidc(place, "acp")))
        assert one.holds(shown)
        one.become(gate(issuer=oidc(place, "another")))
        assert not one.holds(shown)

    asyncio.run(_issuer(work))


@pytest.mark.parametrize("about", [{}, [], {"issuer": "https://evil.example", "jwks_uri": "x"}])
def test_an_issuer_that_names_another(about: Any) -> None:
    async def work(place: str) -> None:
        await oidc(place, "acp").proof(token(place))

    with pytest.raises(Refused) as denied:
        asyncio.run(_issuer(work, about))
    assert denied.value.status == 503


def test_an_issuer_that_is_not_there() -> None:
    one = oidc("http://127.0.0.1:1", "acp")
    for _ in range(2):
        with pytest.raises(Refused) as denied:
            asyncio.run(one.proof(token("http://127.0.0.1:1")))
        assert denied.value.status == 503
    for shown in ("a.b.c", jwt.encode({"sub": "alice"}, KEY, "RS256")):  # they name no key
        with pytest.raises(Refused) as denied:
            asyncio.run(one.proof(shown))
        assert denied.value.status == 401


@pytest.mark.parametrize(("issuer", "audience"), [("http://evil.example", "a"), ("https://x", "")])
def test_issuers_that_cannot_be(issuer: str, audience: str) -> None:
    with pytest.raises(UsageError):
        oidc(issuer, audience)


@pytest.mark.parametrize(
    ("issuer", "good"),
    [
        ("https://id.example", True),
        ("http://127.0.0.1:8080", True),
        ("http://localhost/realm", True),
        ("http://127.0.0.1:x@id.example", False),
        ("https://user@id.example", False),
        ("http://127.0.0.1.id.example", False),
        ("http://id.example", False),
        ("https://", False),
        ("https://[", False),
    ],
)
def test_an_issuer_is_at_a_url_that_nobody_on_the_way_can_forge(issuer: str, good: bool) -> None:
    if good:
        oidc(issuer, "acp")
    else:
        with pytest.raises(UsageError, match="is no https URL"):
            oidc(issuer, "acp")
