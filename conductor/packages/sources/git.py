"""Sources in git: one commit of a repository, read without a checkout.

`git` fetches the commit, and writes out its files as they are stored: nothing of the repository and
nothing of the user's configuration runs (no hook, filter, credential helper, submodule or prompt).
The files of the tree go through the bounds of every package.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from conductor.errors import ConductorError, UsageError
from conductor.packages import archive, download, signatures
from conductor.packages.signatures import ANYBODY, Demand
from conductor.packages.sources import Fetched
from conductor.packages.sources.programs import ProgramError, bounded

SECONDS: Final = 300.0
"""The longest time for fetching a commit."""

_LARGEST: Final = 128 * 1024 * 1024
"""The most bytes of a file that `git` may write while it fetches."""

_SOURCE: Final = re.compile(
    r"git\+(?P<url>(?P<scheme>https|http|ssh|file)://(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]*)@)?"
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])?(?::(?P<port>\d{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~+%][A-Za-z0-9._~+%-]*)+/?))"
    r"(?:@(?P<ref>[^@#]*))?(?:#(?P<fragment>.*))?"
)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_FOLDER: Final = re.compile(r"subdirectory=([A-Za-z0-9._+-]+(?:/[A-Za-z0-9._+-]+)*)/?")
_ENTRY: Final = re.compile(rb"(\d{6}) (\w+) ([0-9a-f]{40,64}) +(\d+|-)\t(.*)", re.DOTALL)
_EXAMPLE: Final = "as in `git+https://example.com/NAME.git@COMMIT#subdirectory=FOLDER`"

_SETTINGS: Final = (
    # No configuration is read; these settings replace defaults of git.
    "-c", "core.hooksPath=/dev/null", "-c", "http.followRedirects=false",
    "-c", "transfer.fsckObjects=true", "-c", "core.fsmonitor=false", "-c", "gc.auto=0",
    "-c", "fetch.recurseSubmodules=false", "-c", "pack.threads=1", "-c", "maintenance.auto=false",
)  # fmt: skip


class Git(msgspec.Struct, frozen=True):
    """A commit of a repository, and a folder in it."""

    url: str
    commit: str
    folder: str = ""
    """Empty: the whole tree."""
    is_pinned: bool = True

    @property
    def written(self) -> str:
        """As a user writes it."""
        return f"git+{self.url}@{self.commit}{self._fragment}"

    @property
    def origin(self) -> str:
        """The repository, whatever the commit."""
        return f"git+{self.url}{self._fragment}"

    @property
    def _fragment(self) -> str:
        return f"#subdirectory={self.folder}" if self.folder else ""

    def fetch(self, folder: str, wanted: Demand = ANYBODY) -> Fetched:
        """Fetches the commit and writes out its files. Raises `ConductorError`, `OSError`."""
        signatures.signer_of(b"", (), wanted, self.written)  # a tree has no signature of its own
        program = shutil.which("git")
        if program is None:
            raise UsageError("there is no `git` on PATH", "install it, or take a source on the web")
        repository = os.path.join(folder, "repository")
        place = os.path.join(folder, "package")
        os.mkdir(place, 0o700)
        run = _Runner(program, repository, self.url, time.monotonic() + SECONDS)
        run("init", "--quiet", "--bare", "--template=", "--", repository, inside=False)
        run(
            "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules",
            "--no-write-fetch-head", "--", self.url, self.commit,
        )  # fmt: skip
        if run("cat-file", "-t", self.commit).strip() != b"commit":
            raise UsageError(f"`{self.commit}` is no commit there", "name the commit, not a tag")
        self._write(run, archive.Tree(place))
        shutil.rmtree(repository, ignore_errors=True)
        return Fetched(place=place, source=self.written)

    def _write(self, run: _Runner, tree: archive.Tree) -> None:
        prefix = f"{self.folder}/" if self.folder else ""
        limits = ["--", prefix] if prefix else []
        listed = run("ls-tree", "-r", "-z", "-l", "--full-tree", self.commit, *limits)
        # One entry too many is enough: a tree may list itself millions of times.
        found = list(itertools.islice(_entries(listed), archive.BOUNDS.entries + 1))
        if not found:
            raise UsageError(
                f"there is no folder `{self.folder}` in that commit", "check `#subdirectory=`"
            )
        if len(found) > archive.BOUNDS.entries:
            raise archive.refused(
                f"it holds more than {archive.BOUNDS.entries:,} files",
                "`#subdirectory=FOLDER` takes one folder of it",
            )
        if sum(size for _, _, size, _ in found) > archive.BOUNDS.unpacked:
            raise archive.refused(
                "it holds more than 64 MiB", "`#subdirectory=FOLDER` takes one folder of it"
            )
        # As they are stored: a checkout, and `git archive`, would obey the tree's `.gitattributes`.
        names = "".join(f"{name}\n" for _, name, _, _ in found).encode()
        content = run("cat-file", "--batch", given=names)
        at = 0
        for executable, name, size, path in found:
            head, _, _ = content[at : at + 200].partition(b"\n")
            begin = at + len(head) + 1
            at = begin + size + 1
            if head.decode("ascii", "replace") != f"{name} blob {size}" or at > len(content):
                raise archive.refused("git gave back something else", "fetch it again")
            inner = path.removeprefix(prefix)
            tree.file(inner, (content[begin : begin + size],), executable=executable)


def parse(text: str) -> Git:
    """Raises `UsageError` for a text that names no commit, or could be an option of git."""
    found = _SOURCE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"`{text}` is no git source",
            f"{_EXAMPLE}; other protocols, and options in it, are refused",
        )
    _check_place(found)
    url, ref, fragment = found["url"], found["ref"] or "", found["fragment"]
    folder = ""
    if fragment is not None:
        named = _FOLDER.fullmatch(fragment)
        if named is None or {"..", "."} & set(named[1].split("/")):
            raise UsageError(f"`#{fragment}` names no folder", "as in `#subdirectory=proxies/mine`")
        folder = named[1]
    if _COMMIT.fullmatch(ref) is None:
        plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]*", ref)
        what = f"{ref} 'refs/tags/{ref}^{{}}'" if plain else "HEAD"
        raise UsageError(
            f"`{text}` names no commit, and a branch or a tag can move",
            f"this command shows the commit, 40 digits: `git ls-remote {url} {what}`; write it as "
            "`@COMMIT` behind the URL",
        )
    return Git(url, ref, folder)


def _check_place(found: re.Match[str]) -> None:
    scheme, host = found["scheme"], found["host"] or ""
    if (scheme == "file") != (not host) or (found["user"] and scheme != "ssh"):
        text = "a user belongs to `ssh`, a host to everything but `file`"
        raise UsageError(f"`{found[0]}` is no git source: {text}", _EXAMPLE)
    if ".." in found["path"].split("/"):
        raise UsageError(f"`{found[0]}` is no git source: its path climbs", _EXAMPLE)
    if scheme == "http" and not download.is_loopback(host):
        raise UsageError(
            f"`{found[0]}` is not `https`", "`http` is only for servers of this machine"
        )


def _entries(listed: bytes) -> Iterator[tuple[bool, str, int, str]]:
    """Of each file whether it is executable, its object, its size and its path.

    Raises `UsageError` for a link or a submodule.
    """
    for found in re.finditer(rb"[^\0]+", listed):
        line = found[0]
        entry = _ENTRY.fullmatch(line)
        if entry is None:
            raise archive.refused("git listed something else than files", "fetch it again")
        mode, kind, name, size, raw = entry.groups()
        try:
            path = raw.decode()
        except UnicodeDecodeError:
            raise archive.refused("it has a path that is not UTF-8", "rename the file") from None
        if kind != b"blob" or mode not in (b"100644", b"100755", b"100664"):
            what = "a submodule" if kind == b"commit" else "a link"
            raise archive.refused(
                f"`{path}` is {what}", "`#subdirectory=FOLDER` takes one folder of the repository"
            )
        yield mode == b"100755", name.decode(), int(size), path


class _Runner:
    """Runs `git`, bounded in time and in its output."""

    def __init__(self, program: str, repository: str, url: str, until: float) -> None:
        self._program = program
        self._repository = repository
        self._url = url
        self._until = until
        self._environment = _environment(url.partition(":")[0])

    def __call__(self, *words: str, given: bytes = b"", inside: bool = True) -> bytes:
        """The output of git. Raises `ConductorError`."""
        where = ["--git-dir", self._repository] if inside else []
        command = [self._program, *_SETTINGS, *where, *words]
        try:
            return bounded(command, self._environment, self._until, given, largest=_LARGEST)
        except ProgramError as error:
            raise ConductorError(
                f"git could not fetch {self._url}: {error}",
                "check the URL, the commit and your network; a private repository needs `git+ssh`",
            ) from None


def _environment(scheme: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "GIT_SSL_CAINFO" or not name.startswith(("GIT_", "SSH_ASKPASS"))
    }
    return kept | {
        "GIT_ALLOW_PROTOCOL": scheme,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }
