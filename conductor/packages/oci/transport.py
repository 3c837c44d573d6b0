"""Requests to one registry, within one deadline, with the login where it belongs.

A login is sent to the registry itself and to the token service that it names, if that is the same
host or a host below it (`auth.docker.io` for `docker.io`), and nowhere else. A registry that goes
on refusing is asked no third time. `conductor.packages.download` bounds the rest.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from conductor.errors import ComponentError, ConductorError, hide, one_line
from conductor.packages import download
from conductor.packages.oci import credentials

_MOST_ANSWER: Final = 64 * 1024
"""Bytes of an answer that says how something went, or holds a token."""

_FAILS: Final = 500
_TOO_OFTEN: Final = 429
"""Statuses that may change in a while: this one, and all from `_FAILS` on."""

_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,16384}")
_CHALLENGE: Final = re.compile(r'([a-z]{1,32})="([^"]{0,2048})"', re.IGNORECASE)
_API_HOSTS: Final = {"docker.io": "registry-1.docker.io"}
"""Registries whose API is at another host."""


class Transport:
    """Requests to one repository of a registry."""

    def __init__(self, host: str, name: str, actions: str) -> None:
        """
        Args:
            host: The registry, with its port if that is written.
            name: The repository.
            actions: The actions that a token is to allow: `pull` or `pull,push`.
        """
        self.host = _API_HOSTS.get(host, host)
        bare, colon, port = self.host.rpartition(":")
        is_local = download.is_loopback(bare if colon and port.isdigit() else self.host)
        self.origin = f"{'http' if is_local else 'https'}://{self.host}"
        self._scope = f"repository:{name}:{actions}"
        self._until = time.monotonic() + download.SECONDS
        self._authorization = ""
        self._outside = False
        """Whether the registry is on the public internet: then it may send us nowhere else."""

    def send(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        most: int = _MOST_ANSWER,
    ) -> download.Answer:
        """Sends a request, with the login if the registry asks for one; the answer, also a refusal.

        Args:
            method: `GET`, `HEAD`, `POST` or `PUT`.
            url: An address at the registry, or an address that it named.
            headers: Besides the headers that are always sent.
            body: The content of the request.
            most: Bytes that the answer may have.

        Raises:
            ConductorError: No answer came, or no allowed one.
        """
        answer = self._once(method, url, headers or {}, body, most)
        # A server behind a redirect may not ask for the login.
        if answer.status == 401 and self._is_ours(answer.url) and self._logged_in(answer):
            return self._once(method, url, headers or {}, body, most)
        return answer

    def _once(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, most: int
    ) -> download.Answer:
        sent = {"Accept-Encoding": "identity", **headers}
        if self._authorization and self._is_ours(url):
            sent["Authorization"] = self._authorization
        answer = self._asked(method, url, body, most, sent)
        packed = answer.header("content-encoding")
        if packed not in ("", "identity"):
            raise ComponentError(
                f"`{self.host}` sends `{one_line(packed)}`, unasked", "ask its owner"
            )
        return answer

    def _asked(
        self, method: str, url: str, body: bytes | None, most: int, headers: Mapping[str, str]
    ) -> download.Answer:
        """The answer of the registry, or of a server elsewhere that it has named: from the internet
        it sends nobody to an address inside. Raises `ConductorError`."""
        is_ours = self._is_ours(url)
        if not is_ours:
            download.refuse_inward(f"{self.origin}/", url)
        answer = download.send(
            method,
            url,
            body,
            most=most,
            until=self._until,
            headers=headers,
            outside=self._outside and not is_ours,
        )
        if self._is_ours(answer.url):
            self._outside = answer.is_outside
        return answer

    def _is_ours(self, url: str) -> bool:
        """Whether an address is at the registry itself: the login belongs there alone."""
        return url.startswith(f"{self.origin}/")

    def _logged_in(self, refusal: download.Answer) -> bool:
        """Whether there is something new to say to a registry that refused a request."""
        challenge = refusal.header("www-authenticate")
        kind = challenge.partition(" ")[0].lower()
        login = credentials.login(self.host)
        before = self._authorization
        if kind == "basic" and login is not None:
            self._authorization = login.basic
        elif kind == "bearer":
            named = {name.lower(): value for name, value in _CHALLENGE.findall(challenge)}
            token = self._token(named, login)
            self._authorization = f"Bearer {token}" if token else ""
        return bool(self._authorization) and self._authorization != before

    def _token(self, named: dict[str, str], login: credentials.Login | None) -> str:
        """A token of the service that the registry names; empty: it gives none. Raises
        `ConductorError`."""
        query = {"service": named["service"]} if "service" in named else {}
        query["scope"] = named.get("scope") or self._scope
        realm = named.get("realm", "")
        try:
            url = download.checked(f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}")
            download.refuse_inward(f"{self.origin}/", url)
        except ConductorError as error:
            raise ComponentError(
                f"`{self.host}` sends us elsewhere for a token: {error.text}", "ask its owner"
            ) from None
        is_near = _is_below(urlsplit(url).hostname, urlsplit(self.origin).hostname)
        headers = {"Authorization": login.basic} if login is not None and is_near else {}
        answer = self._asked("GET", url, None, _MOST_ANSWER, headers)
        if answer.status != 200:
            return ""
        try:
            held = msgspec.json.decode(answer.content, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            held = {}
        token = held.get("token") or held.get("access_token")
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise ComponentError(
                f"the token service of `{self.host}` sends no token", "ask its owner"
            )
        hide(token, "***")
        return token

    def refused(self, answer: download.Answer, name: str) -> ConductorError:
        """The error for an answer that is a refusal."""
        if answer.status in (401, 403):
            return ComponentError(
                f"`{self.host}` does not let us at `{name}`: {_reason(answer)}",
                f"log in: `docker login {self.host}`, `podman login` or `oras login`; conductor "
                "reads their `config.json` (DOCKER_CONFIG names its folder)",
            )
        later = answer.status >= _FAILS or answer.status == _TOO_OFTEN
        kind = download.UnreachableError if later else ComponentError
        return kind(
            f"`{self.host}` answers {_reason(answer)}", "try again later; its owner knows why"
        )


def _is_below(host: str | None, registry: str | None) -> bool:
    """Whether a token service is at the host of its registry, or below it.

    Its port may be another: registries of GitLab are at port 5050, their tokens at 443."""
    names = [name for name, api in _API_HOSTS.items() if api == registry] or [registry or ""]
    return f".{host or ''}".endswith(f".{names[0]}")


def _reason(answer: download.Answer) -> str:
    """Why a registry refused: the errors it lists, or its number."""
    try:
        errors = msgspec.json.decode(answer.content, type=dict[str, list[dict[str, Any]]])["errors"]
        reason = "; ".join(f"{one.get('code')}: {one.get('message')}" for one in errors)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        reason = ""
    return one_line(f"{answer.status} {reason}".strip())
