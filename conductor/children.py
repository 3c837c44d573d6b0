"""The variables and the user of the programs that conductor starts.

Any process of a chain may be led by its input. So no login of conductor's own is in its
environment. On a worker of a fleet only variables of a list are in it.

Imports nothing that a fresh interpreter has not imported already.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Final, TypedDict

    class Identity(TypedDict, total=False):
        """The user of a program, as `subprocess.Popen` takes it; empty: the user of this
        process."""

        user: int
        group: int
        extra_groups: Sequence[int]


_PREFIX: Final = "CONDUCTOR_"
_LOGINS: Final = frozenset(("TOKEN", "TOKENS", "PASSWORD", "SECRET", "KEY", "CREDS", "NATS"))
"""Words of a variable of conductor's own that has a login."""
_LISTED: Final = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "LANG", "LANGUAGE"),
        *("PYTHONPATH", "VIRTUAL_ENV", "NODE_PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    )
)
"""The variables of an agent on a worker, beside those that its entry names; and `LC_…`."""
_PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy")
_PAST_PROXIES: Final = ("NO_PROXY", "no_proxy")
"""Programs read the one or the other."""
_HERE: Final = ("127.0.0.1", "localhost", "::1")
_PR_SET_DUMPABLE: Final = 4


class _Kept:
    """How this process starts programs. One process has one such rule."""

    def __init__(self) -> None:
        self.listed = False
        self.own: Mapping[str, str] = {}
        """The variables about the user of programs."""
        self.identity: Identity = {}


_KEPT: Final = _Kept()


def inherited() -> dict[str, str]:
    """The variables of this process that a program gets which it starts."""
    if _KEPT.listed:
        found = {
            name: value
            for name, value in os.environ.items()
            if name in _LISTED or name.startswith("LC_")
        }
        return {**found, **_KEPT.own}
    return {name: value for name, value in os.environ.items() if not is_login(name)}


def with_loopback(variables: Mapping[str, str], command: Sequence[str]) -> dict[str, str]:
    """The variables of a program that must reach this machine itself, past the proxies in them or
    in its command, such as `env HTTP_PROXY=… agent`.

    If no variable names a proxy they stay: some programs then use the proxies of the system, and
    stop doing so when they find a list of exceptions.
    """
    found = dict(variables)
    written_there = (word.partition("=")[::2] for word in command)
    named = (*variables.items(), *written_there)
    if not any(value and name.lower() in _PROXIES for name, value in named):
        return found
    upper, lower = (variables.get(name, "") for name in _PAST_PROXIES)
    for name, written in zip(_PAST_PROXIES, (upper or lower, lower or upper), strict=True):
        entries = written.replace(",", " ").split()
        missing = [host for host in _HERE if host not in entries]
        found[name] = written if "*" in entries else ",".join([*filter(None, [written]), *missing])
    return found


def identity() -> Identity:
    """The user that programs run as."""
    return _KEPT.identity


def is_login(name: str) -> bool:
    """Whether a variable has a login of conductor's own."""
    return name.startswith(_PREFIX) and not _LOGINS.isdisjoint(name.split("_"))


def taken(name: str) -> str:
    """The value of a variable, which is removed then, also from the environment of this process
    that the system shows. Empty: there is none."""
    value = os.environ.get(name, "")
    if value:
        import ctypes

        find = ctypes.CDLL(None).getenv
        find.restype = ctypes.c_void_p
        if at := find(os.fsencode(name)):
            ctypes.memset(at, ord("*"), len(os.fsencode(value)))
    os.environ.pop(name, None)
    return value


def list_variables() -> None:
    """From now on programs get only the variables of the list."""
    _KEPT.listed = True


def run_as(name: str) -> None:
    """From now on programs run as another user of this machine.

    Raises:
        UsageError: There is no such user, or this process cannot start programs as another user.
    """
    import pwd

    from conductor.errors import UsageError

    hint = "name a user of this machine, who is not root, and start conductor as root"
    try:
        found = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        raise UsageError(f"there is no user `{name}` for programs", hint) from None
    if found.pw_uid == 0 or os.geteuid() != 0:
        why = "that is root" if found.pw_uid == 0 else "this process is not root"
        raise UsageError(f"programs cannot run as `{name}`: {why}", hint)
    groups = [one for one in os.getgrouplist(found.pw_name, found.pw_gid) if one]
    _KEPT.identity = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": groups}
    who = found.pw_name
    _KEPT.own = {"HOME": found.pw_dir, "USER": who, "LOGNAME": who, "SHELL": found.pw_shell}


def close_memory() -> None:
    """No other process of this user may read this one's memory and environment (Linux)."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
