"""Sources as users write them, and the files that each kind fetches; git and pip are the real
programs."""

import io
import os
import shutil
import socket
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from conductor.errors import ConductorError, UsageError
from conductor.packages import sources
from conductor.packages.sources import Fetched
from conductor.spec import digests
from tests.packages.servers import Server, answer, serving
from tests.packages.test_archive import tar

MODULE: Final = b"\0asm\x01\0\0\0"
GIT: Final = shutil.which("git") or "git"
COMMIT: Final = "0123456789" * 4


def fetched(text: str, place: Path) -> Fetched:
    """The files that a source fetches, in a new folder."""
    place.mkdir()
    return sources.parse(text).fetch(str(place))


def tree(place: str) -> dict[str, bytes]:
    """The files of a package, by path."""
    path = Path(place)
    if path.is_file():
        return {path.name: path.read_bytes()}
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


# -- this machine ----------------------------------------------------------------------------------


def test_a_folder_without_what_tools_leave(tmp_path: Path) -> None:
    folder = tmp_path / "weather"
    for path in ("proxy.py", "more/x.py", ".git/config", ".env", "more/__pycache__/x.pyc"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    (folder / "node_modules").mkdir()
    got = fetched(str(folder), tmp_path / "in")
    assert tree(got.place) == {"proxy.py": b"proxy.py", "more/x.py": b"more/x.py"}
    assert got.source == str(folder)


def test_a_link_in_a_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "weather"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "proxy.py").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="it is a link"):
        fetched(str(folder), tmp_path / "in")


def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    folder = tmp_path / "weather"
    folder.mkdir()
    os.mkfifo(folder / "proxy.py")
    with pytest.raises(UsageError, match="no ordinary file"):
        fetched(str(folder), tmp_path / "in")
    with pytest.raises(UsageError, match="no ordinary file"):
        fetched(str(folder / "proxy.py"), tmp_path / "in2")


def test_an_archive_and_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(tar(("weather-1.0/proxy.py", b"x")))
    (tmp_path / "a.wasm").write_bytes(MODULE)
    (tmp_path / "a.txt").write_bytes(b"text")
    assert tree(fetched(str(tmp_path / "a.tar.gz"), tmp_path / "1").place) == {
        "weather-1.0/proxy.py": b"x"
    }
    assert tree(fetched(str(tmp_path / "a.wasm"), tmp_path / "2").place) == {"a.wasm": MODULE}
    with pytest.raises(UsageError, match="neither a `"):
        fetched(str(tmp_path / "a.txt"), tmp_path / "3")
    with pytest.raises(UsageError, match="No such file"):
        fetched(str(tmp_path / "b.wasm"), tmp_path / "4")


# -- the web ---------------------------------------------------------------------------------------


def test_the_digest_decides(tmp_path: Path) -> None:
    digest = digests.of_bytes(MODULE)
    with serving({"/a.wasm": MODULE, "/pack": tar(("proxy.py", b"x"))}) as server:
        url = f"{server.url}/a.wasm"
        got = fetched(f"{url}#sha256={digest}", tmp_path / "1")
        assert (tree(got.place), got.source) == ({"a.wasm": MODULE}, f"{url}#sha256={digest}")
        with pytest.raises(ConductorError, match="is not the file that you asked for"):
            fetched(f"{url}#sha256={'0' * 64}", tmp_path / "2")
        with pytest.raises(UsageError, match="has no digest") as none:
            fetched(url, tmp_path / "3")
        assert f"`conductor add '{url}#sha256={digest}'`" in none.value.hint
        packed = digests.of_bytes(tar(("proxy.py", b"x")))
        assert packed
    for odd in ("#sha256=ABC", "#md5=00", "#", f"#sha256={digest}&x=1"):
        with pytest.raises(UsageError, match="no digest"):
            sources.parse(f"{url}{odd}")


# -- git -------------------------------------------------------------------------------------------


def git(*words: str, cwd: Path, given: str = "") -> str:
    """The output of git."""
    environment = {
        **os.environ,
        **{
            f"GIT_{who}_{what}": "a@b"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    done = subprocess.run(
        [GIT, *words],
        cwd=cwd,
        env=environment,
        input=given,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def repository(
    place: Path, files: Mapping[str, str], links: Mapping[str, str] | None = None
) -> str:
    """A new repository; its commit."""
    place.mkdir()
    git("init", "-q", "-b", "main", cwd=place)
    for path, text in files.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text)
    for path, target in (links or {}).items():
        (place / path).symlink_to(target)
    git("add", "-A", cwd=place)
    git("commit", "-qm", "one", cwd=place)
    return git("rev-parse", "HEAD", cwd=place)


def test_a_commit_as_it_is_stored(tmp_path: Path) -> None:
    """Attributes, filters and hooks of the tree and of the repository change nothing."""
    repo = tmp_path / "repo"
    files = {
        ".gitattributes": "*.py export-subst filter=evil eol=crlf\nhidden.py export-ignore\n",
        "proxy.py": "# $Format:%H$\n",
        "hidden.py": "x\n",
        "deep/component.toml": "name = 'x'\n",
    }
    commit = repository(repo, files)
    (repo / "proxy.py").write_text("changed since\n")
    git("commit", "-qam", "two", cwd=repo)
    ran = tmp_path / "ran"
    for hook in ("post-checkout", "reference-transaction", "post-index-change"):
        path = repo / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {ran}\n")
        path.chmod(0o755)
    for key, value in {
        "filter.evil.smudge": f"touch {ran}",
        "core.fsmonitor": f"touch {ran}",
        "uploadpack.packObjectsHook": f"touch {ran}",
        "core.sshCommand": f"touch {ran}",
    }.items():
        git("config", key, value, cwd=repo)
    got = fetched(f"git+file://{repo}@{commit}", tmp_path / "1")
    assert tree(got.place) == {path: text.encode() for path, text in files.items()}
    assert got.source == f"git+file://{repo}@{commit}"
    deep = fetched(f"git+file://{repo}@{commit}#subdirectory=deep", tmp_path / "2")
    assert tree(deep.place) == {"component.toml": b"name = 'x'\n"}
    assert not ran.exists()


def test_what_a_tree_may_not_hold(tmp_path: Path) -> None:
    links = repository(tmp_path / "links", {"a": "x"}, {"b": "/etc/passwd"})
    with pytest.raises(UsageError, match="`b` is a link"):
        fetched(f"git+file://{tmp_path}/links@{links}", tmp_path / "1")
    inner = tmp_path / "outer"
    repository(inner, {"a": "x"})
    git("update-index", "--add", "--cacheinfo", f"160000,{links},module", cwd=inner)
    git("commit", "-qm", "module", cwd=inner)
    head = git("rev-parse", "HEAD", cwd=inner)
    with pytest.raises(UsageError, match="`module` is a submodule"):
        fetched(f"git+file://{inner}@{head}", tmp_path / "2")
    with pytest.raises(UsageError, match="no folder `nothing`"):
        fetched(f"git+file://{tmp_path}/links@{links}#subdirectory=nothing", tmp_path / "3")


def test_a_tree_of_billions_of_files(tmp_path: Path) -> None:
    """A few objects can stand for any number of paths."""
    repo = tmp_path / "repo"
    repository(repo, {"a": "x"})
    blob = git("rev-parse", "HEAD:a", cwd=repo)
    lines = "".join(f"100644 blob {blob}\tf{n}\n" for n in range(10))
    for _ in range(9):
        made = git("mktree", cwd=repo, given=lines)
        lines = "".join(f"040000 tree {made}\tt{n}\n" for n in range(10))
    commit = git("commit-tree", "-m", "bomb", made, cwd=repo)
    git("update-ref", "refs/heads/bomb", commit, cwd=repo)
    with pytest.raises(ConductorError) as error:
        fetched(f"git+file://{repo}@{commit}", tmp_path / "1")
    assert error.value.hint


def test_a_commit_that_is_not_there(tmp_path: Path) -> None:
    repository(tmp_path / "repo", {"a": "x"})
    with pytest.raises(ConductorError, match="git could not fetch"):
        fetched(f"git+file://{tmp_path}/repo@{COMMIT}", tmp_path / "1")
    with pytest.raises(ConductorError, match="git could not fetch"):
        fetched(f"git+file://{tmp_path}/nothing@{COMMIT}", tmp_path / "2")


def backend(root: Path) -> Server:
    """A git server of this machine: `git http-backend` over HTTP."""

    def one(connection: socket.socket, path: str) -> None:
        head, _, body = server.heads[-1].partition(b"\r\n\r\n")
        lines = [line.partition(b": ") for line in head.split(b"\r\n")[1:]]
        headers = {name.decode().lower(): value.decode() for name, _, value in lines}
        while len(body) < int(headers.get("content-length", "0")):
            body += connection.recv(65536)
        done = subprocess.run(
            [GIT, "http-backend"],
            input=body,
            capture_output=True,
            check=True,
            env={
                **os.environ,
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": headers.get("git-protocol", ""),
                "GIT_CONFIG_GLOBAL": os.devnull,
                "REQUEST_METHOD": head.split()[0].decode(),
                "PATH_INFO": path.partition("?")[0],
                "QUERY_STRING": path.partition("?")[2],
                "CONTENT_TYPE": headers.get("content-type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
            },
        ).stdout
        said, _, content = done.partition(b"\r\n\r\n")
        more = dict(line.decode().split(": ", 1) for line in said.split(b"\r\n"))
        connection.sendall(answer(content, more.pop("Status", "200 OK"), **more))

    server = Server(one)
    return server


def test_a_git_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    commit = repository(tmp_path / "repo", {"proxy.py": "x", "more/y": "y"})
    (tmp_path / "repo" / "proxy.py").write_text("later")
    git("commit", "-qam", "two", cwd=tmp_path / "repo")
    with backend(tmp_path) as server:
        got = fetched(f"git+{server.url}/repo/.git@{commit}", tmp_path / "1")
        assert tree(got.place) == {"proxy.py": b"x", "more/y": b"y"}
        moved = answer(b"", "302 Found", Location=f"{server.url}/repo/.git/info/refs")
        with (
            Server(lambda connection, _: connection.sendall(moved)) as other,
            pytest.raises(ConductorError, match="git could not fetch"),
        ):
            fetched(f"git+{other.url}/repo/.git@{commit}", tmp_path / "2")


def test_a_git_server_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("conductor.packages.sources.git.SECONDS", 1.0)
    with (
        Server(lambda connection, _: (connection.recv(1), None)[1]) as server,
        pytest.raises(ConductorError, match="has taken too long"),
    ):
        fetched(f"git+{server.url}/repo@{COMMIT}", tmp_path / "1")


ODD_GIT: Final = {
    "a branch": "git+https://example.com/a.git@main",
    "a climbing folder": f"git+https://example.com/a.git@{COMMIT}#subdirectory=../x",
    "a climbing path": f"git+https://example.com/../a.git@{COMMIT}",
    "a colon": f"git+ssh://example.com:/a.git@{COMMIT}",
    "a folder that is an option": f"git+https://example.com/a.git@{COMMIT}#subdirectory=",
    "a host that is an option": f"git+ssh://-oProxyCommand=touch/a@{COMMIT}",
    "a newline": f"git+https://example.com/a\n.git@{COMMIT}",
    "a path that is an option": f"git+ssh://example.com/--upload-pack=touch@{COMMIT}",
    "a port that is text": f"git+ssh://example.com:x/a.git@{COMMIT}",
    "a query": f"git+https://example.com/a.git?x=1@{COMMIT}",
    "a short commit": "git+https://example.com/a.git@0123456",
    "a user that is an option": f"git+ssh://-oProxyCommand=x@example.com/a@{COMMIT}",
    "a user with a password": f"git+https://a:b@example.com/a.git@{COMMIT}",
    "an option as a commit": "git+https://example.com/a.git@--upload-pack=touch",
    "another helper": f"git+ext::sh -c touch%20x@{COMMIT}",
    "another protocol": f"git+ftp://example.com/a.git@{COMMIT}",
    "git's own protocol": f"git+git://example.com/a.git@{COMMIT}",
    "no commit": "git+https://example.com/a.git",
    "plain http": f"git+http://example.com/a.git@{COMMIT}",
    "two commits": f"git+https://example.com/a.git@{COMMIT}@{COMMIT}",
    "upper case": f"git+https://example.com/a.git@{'A' * 40}",
}


@pytest.mark.parametrize("kind", sorted(ODD_GIT))
def test_a_git_source_that_is_refused(kind: str) -> None:
    with pytest.raises(UsageError) as error:
        sources.parse(ODD_GIT[kind])
    assert error.value.hint


def test_a_branch_is_refused_with_the_command_that_shows_its_commit() -> None:
    with pytest.raises(UsageError) as error:
        sources.parse("git+https://example.com/a.git@v1.0")
    wanted = "`git ls-remote https://example.com/a.git v1.0 'refs/tags/v1.0^{}'`"
    assert wanted in error.value.hint


def test_git_takes_nothing_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = repository(tmp_path / "repo", {"proxy.py": "x"})
    ran = tmp_path / "ran"
    config = tmp_path / "config"
    config.write_text(f"[core]\n\tsshCommand = touch {ran}\n[alias]\n\tfetch = !touch {ran}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_EXEC_PATH", str(tmp_path))
    monkeypatch.setenv("GIT_TRACE", str(ran))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(tmp_path))
    got = fetched(f"git+file://{tmp_path}/repo@{commit}", tmp_path / "1")
    assert tree(got.place) == {"proxy.py": b"x"}
    assert not ran.exists()


# -- Python packages -------------------------------------------------------------------------------


def wheel(
    folder: Path, version: str, files: Mapping[str, str], name: str = "weather_proxy"
) -> Path:
    """A wheel in a folder."""
    info = f"{name}-{version}.dist-info"
    whole = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for inner, text in whole.items():
            file.writestr(inner, text)
        record = "".join(f"{inner},,\n" for inner in [*whole, f"{info}/RECORD"])
        file.writestr(f"{info}/RECORD", record)
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    path.write_bytes(made.getvalue())
    return path


def test_a_wheel_with_a_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "index"
    component = {"weather/component.toml": 'name = "weather"\nfile = "proxy.py"\n'}
    for version in ("1.0", "1.2"):
        wheel(index, version, {**component, "weather/proxy.py": f"# {version}\n"})
    wheel(index, "1.0", {"a/component.toml": "", "b/component.toml": ""}, name="two")
    wheel(index, "1.0", {"library.py": ""}, name="library")
    (index / "sdist-1.0.tar.gz").write_bytes(tar(("sdist-1.0/setup.py", b"raise SystemExit")))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    got = fetched("pypi:Weather.Proxy", tmp_path / "1")
    assert (got.version, tree(got.place)["proxy.py"]) == ("1.2", b"# 1.2\n")
    assert got.source.startswith("pypi:weather-proxy==1.2#sha256=")
    again = sources.parse(got.source)
    assert again.is_pinned
    assert again.written == got.source
    with pytest.raises(ConductorError, match="is not the file that you asked for"):
        fetched(f"pypi:weather-proxy==1.0#sha256={'0' * 64}", tmp_path / "2")
    with pytest.raises(UsageError, match="2 files component"):
        fetched("pypi:two", tmp_path / "3")
    with pytest.raises(UsageError, match="carries no component") as program:
        fetched("pypi:library", tmp_path / "4")
    assert "uv tool install library" in program.value.hint
    with pytest.raises(ConductorError, match="pip could not download"):
        fetched("pypi:sdist", tmp_path / "5")


@pytest.mark.parametrize(
    "text",
    [
        "pypi:",
        "pypi:--index-url=https://example.com",
        "pypi:-r",
        "pypi:a b",
        "pypi:a;python_version>'3'",
        "pypi:a==",
        "pypi:a==1 --pre",
        "pypi:a==1.*",
        "pypi:a==junk",
        "pypi:a>=1",
        "pypi:a@https://example.com/a.whl",
        "pypi:a[x]",
    ],
)
def test_a_python_package_that_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        sources.parse(text)


# -- any -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "a" * 3000, "file:///etc/passwd", "ftp://example.com/x", "ssh://example.com/x"]
)
def test_a_text_that_is_no_source(text: str) -> None:
    with pytest.raises(UsageError):
        sources.parse(text)
