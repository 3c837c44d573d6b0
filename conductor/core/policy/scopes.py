"""Reads rights of the world: `clock`, `read:**/AGENTS.md`, `web:POST@api.example.com`.

Such a right names a service; its scope behind the colon narrows it to some files or some addresses.
Three services reach outside the conversation, so nobody has them without a scope.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from conductor.core.service_table import SERVICES, SHOWN_GRANTS
from conductor.errors import UnknownWordError

_EXAMPLES: Final = {
    "web": "web:api.example.com, web:POST@api.example.com:8443 or web:unix:/run/x.sock",
    "read": "read:**/AGENTS.md",
    "write": "write:notes",
}
"""Examples of rights that need a scope."""

READING: Final = frozenset({"GET", "HEAD"})
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_SPECIAL: Final = (
    ipaddress.ip_network("192.0.0.0/24"),  # of protocols
    ipaddress.ip_network("192.31.196.0/24"),  # of AS112, which answers for private names
    ipaddress.ip_network("192.52.193.0/24"),  # of multicast tunnels
    ipaddress.ip_network("192.88.99.0/24"),  # of former 6to4 relays
    ipaddress.ip_network("192.175.48.0/24"),  # of AS112
    ipaddress.ip_network("2001::/23"),  # of protocols
    ipaddress.ip_network("2620:4f:8000::/48"),  # of AS112
    ipaddress.ip_network("3fff::/20"),  # of documents
)
"""Blocks of IANA's special-purpose registries that some version of Python calls global."""

_HOST: Final = re.compile(
    r"(?:(?P<method>[A-Z]+)@)?(?P<scheme>https?://)?"
    r"(?P<host>\[[0-9a-fA-F:.]+\]|(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)(?::(?P<port>\d{1,5}))?"
)


UNIX: Final = "unix"
"""The scheme of a socket of this machine: `unix:PATH`."""
_SOCKET_BYTES: Final = 107
"""Bytes of a path that a socket of Linux can have; elsewhere three less."""
_SOCKET: Final = re.compile(r"(?:(?P<method>[A-Z]+)@)?unix:(?P<path>.*)", re.DOTALL)


def is_socket(scope: str) -> bool:
    """Whether a scope of `web` is a socket of this machine."""
    return _SOCKET.fullmatch(scope) is not None


class Destination(msgspec.Struct, frozen=True):
    """A place where a proxy may send HTTP requests, and the methods for it."""

    scheme: str
    host: str
    """In lower case; `*.example.org` stands for every name below it, not for itself. With the
    scheme `unix` the path of a socket; its port is 0."""
    port: int
    methods: frozenset[str]

    @property
    def private(self) -> bool:
        """Whether it names an address of this machine or its network, and so allows it."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return not is_public(self.host)
        except ValueError:
            return False

    def covers(self, scheme: str, host: str, port: int) -> bool:
        """Whether it stands for this place, whatever the method."""
        if (scheme, port) != (self.scheme, self.port):
            return False
        if scheme == UNIX:
            return host == self.host
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return host == self.host


def is_public(address: str) -> bool:
    """Whether an address is of the public internet, also where it only wraps an IPv4 address.

    Raises `ValueError` if it is no address.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
        if inner is None:
            return ip in _GLOBAL_UNICAST and _is_global(ip)
        ip = inner
    return _is_global(ip)


def _is_global(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    is_special = any(ip in network for network in _SPECIAL)
    return ip.is_global and not ip.is_multicast and not is_special


def name_of(grant: str) -> str:
    """The service that a grant is for."""
    return grant.partition(":")[0]


def _scope(grant: str) -> str:
    return grant.partition(":")[2]


def check(grant: str) -> None:
    """Raises `ValueError` with the fault of a grant that has one."""
    name, colon, scope = grant.partition(":")
    if name not in SERVICES:
        listed = ", ".join(sorted(SERVICES))
        raise UnknownWordError(f"no service `{name}`; services are: {listed}", name, SERVICES)
    if name in SHOWN_GRANTS and not scope:
        form = f"{SHOWN_GRANTS[name]}, such as {_EXAMPLES[name]}"
        raise ValueError(f"`{name}` is a right to something: {form}")
    if name not in SHOWN_GRANTS and colon:
        raise ValueError(f"`{name}` stands as it is, without `:{scope}`")
    if name == "web":
        destination(scope)
    elif name == "read":
        compile_glob(scope)
    elif name == "write":
        _check_folder(scope)


def _check_folder(scope: str) -> None:
    """Raises `ValueError` for a scope that names no folder below a session's."""
    if any(part in ("", ".", "..") for part in scope.split("/")):
        raise ValueError(f"`{scope}` is no folder below the session's, such as `notes`")
    if len(scope) > GLOB_CHARACTERS or not scope.isprintable() or set(scope) & set("*?"):
        raise ValueError(f"`{scope}` names no folder: one path, without `*` and `?`")


def destination(scope: str) -> Destination:
    """Reads a scope behind `web:`. Raises `ValueError`."""
    match = _SOCKET.fullmatch(scope) or _HOST.fullmatch(scope)
    if match is None:
        raise ValueError(f"`{scope}` is no [METHOD@][http://]HOST[:PORT], nor [METHOD@]unix:PATH")
    method = match["method"]
    if method is not None and method not in METHODS:
        text = f"`{method}` is no method; methods are: {', '.join(sorted(METHODS))}"
        raise UnknownWordError(text, method, METHODS)
    methods = frozenset({method}) if method else READING
    if match.re is _SOCKET:
        return Destination(UNIX, socket_path(match["path"]), 0, methods)
    scheme = (match["scheme"] or "https://")[:-3]
    port = int(match["port"]) if match["port"] else {"http": 80, "https": 443}[scheme]
    if not 0 < port < 65536:
        raise ValueError(f"there is no port {port}")
    return Destination(scheme, match["host"].strip("[]").lower(), port, methods)


def socket_path(path: str) -> str:
    """The path of a socket, as a grant or a URL names it. Raises `ValueError` for a path that is
    not absolute and plain."""
    plain = path.isprintable() and not set(path) & set("*?:")
    whole = path[:1] == "/" and path[:2] != "//" and posixpath.normpath(path) == path
    if not plain or not whole or len(path.encode()) > _SOCKET_BYTES:
        raise ValueError(
            f"`{path}` is no path of a socket: absolute, without `..`, `*`, `?` and `:`, of at "
            f"most {_SOCKET_BYTES} bytes"
        )
    return path


def destinations(grants: Iterable[str]) -> tuple[Destination, ...]:
    """Every place that grants allow."""
    return tuple(destination(_scope(grant)) for grant in grants if name_of(grant) == "web")


def patterns(grants: Iterable[str]) -> tuple[str, ...]:
    """Every glob that grants allow."""
    return tuple(_scope(grant) for grant in grants if name_of(grant) == "read")


def folders(grants: Iterable[str]) -> tuple[str, ...]:
    """Every folder that grants allow to write to."""
    return tuple(_scope(grant) for grant in grants if name_of(grant) == "write")


# -- globs ---------------------------------------------------------------------------------
#
# `*` and `?` stand for characters within a name, `**` for any number of folders. A component
# chooses globs, and names of files may be anybody's, so matching takes time that grows with the
# path only, however many stars there are: the part between two stars is taken where it first
# matches, and the atomic groups below never look for it again. That loses nothing: the later star
# would have spanned the difference.

GLOB_CHARACTERS: Final = 1024
"""The most characters of a glob."""

_SHOWN: Final = r"(?!\.)[^/]+"
"""One name that is not hidden."""

_FOLDERS: Final = "**"


@lru_cache(maxsize=256)
def compile_glob(glob: str) -> re.Pattern[str]:
    """A pattern that fully matches the paths a glob stands for.

    `**` is a whole part of the path and stands for no folder as well; `[` has no special meaning.
    As in a shell, names that begin with a dot are only meant where the dot is written: `**` is not
    `.env`, nor anything below `.git`.
    Raises `ValueError` for a glob that is empty, absolute, too long or goes up.
    """
    if len(glob) > GLOB_CHARACTERS:
        raise ValueError(f"a glob has at most {GLOB_CHARACTERS:,} characters, not {len(glob):,}")
    parts = glob.split("/")
    if not glob or parts[0] == "" or ".." in parts or "\0" in glob:
        raise ValueError(f"`{glob}` is no glob of paths below a folder")
    if "" in parts:
        raise ValueError(f"`{glob}` has an empty part")
    if any(_FOLDERS in part and part != _FOLDERS for part in parts):
        raise ValueError(f"`{glob}`: `**` is a whole part of a path")
    first, *others = _groups(parts)
    pattern = "".join(f"{name}/" for name in first)
    for group in others[:-1]:
        if group:  # else `**/**`, which is `**`
            pattern += f"(?>(?:{_SHOWN}/)*?{''.join(f'{name}/' for name in group)})"
    if not others:
        pattern = pattern[:-1]
    elif others[-1]:
        pattern += f"(?:{_SHOWN}/)*{'/'.join(others[-1])}"
    else:
        pattern += f"{_SHOWN}(?:/{_SHOWN})*"
    return re.compile(pattern, re.DOTALL)


def _groups(parts: list[str]) -> Iterator[list[str]]:
    """Patterns of the names before the first `**`, between two of them, and after the last."""
    group: list[str] = []
    for part in parts:
        if part == _FOLDERS:
            yield group
            group = []
        else:
            group.append(_name(part))
    yield group


def _name(part: str) -> str:
    """A pattern for one name."""
    unhidden = r"(?!\.)" if part[0] in "*?" else ""
    first, *others = (re.escape(piece).replace(r"\?", "[^/]") for piece in part.split("*"))
    # Atomic groups: a name with many `*` must not make the match try every split of it.
    middle = "".join(f"(?>[^/]*?{piece})" for piece in others[:-1])
    last = f"[^/]*{others[-1]}" if others else ""
    return f"{unhidden}{first}{middle}{last}"


def matches(globs: tuple[str, ...], path: str) -> bool:
    """Whether one of the globs stands for `path`, which is relative and has `/` in it."""
    return any(compile_glob(glob).fullmatch(path) for glob in globs)


def covers(grant: str, held: str) -> bool:
    """Whether the grant `held` gives all that `grant` gives."""
    if grant == held:
        return True
    name, _, scope = grant.partition(":")
    kind, _, bound = held.partition(":")
    if name != kind or not scope or not bound:
        return False
    if name == "read":
        return _below(scope.split("/"), bound.split("/"))
    if name == "write":
        return _below(scope.split("/"), [*bound.split("/"), "**"])
    if name == "web":
        wanted, given = destination(scope), destination(bound)
        is_there = given.covers(wanted.scheme, wanted.host, wanted.port)
        return is_there and wanted.methods <= given.methods
    return False


def _below(glob: list[str], bound: list[str]) -> bool:
    """Whether a bound stands for each path of a glob, for bounds such as `docs/**` and `**/*.md`; a
    bound of another form stands for the same glob only. A `**` means no hidden name."""
    if bound[-1] == "**":
        first = bound[:-1]
        inner = glob[len(first) :]
        return glob[: len(first)] == first and bool(inner) and not _hidden(inner)
    if bound[0] == "**" and len(bound) == 2:
        return glob[-1] == bound[1] and not _hidden(glob[:-1])
    return False


def _hidden(parts: list[str]) -> bool:
    return any(part.startswith(".") for part in parts)
