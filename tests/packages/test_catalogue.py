"""Catalogues: their offers, and the checks that make a lying one harmless."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.errors import ConductorError, UsageError
from conductor.packages import catalogue, download
from conductor.spec import catalogues, digests
from tests.packages.servers import serving

MODULE: Final = b"\0asm\x01\0\0\0"
DIGEST: Final = digests.of_bytes(MODULE)
PINNED: Final = f"https://example.com/weather.wasm#sha256={DIGEST}"


def entry(name: str = "weather", source: str = PINNED, **more: Any) -> dict[str, Any]:
    """An entry of the registry's format."""
    runs = {"package": "conductor-acp==1.0", "args": ["proxy", source], **more}
    return {
        "id": name,
        "name": name.title(),
        "version": "1.2",
        "description": "Says how the weather is.",
        "distribution": {"uvx": runs},
    }


def index(*entries: Any, **more: Any) -> bytes:
    """A JSON file."""
    whole = {"version": "1", "agents": [{"id": "x"}], "extensions": list(entries), **more}
    return json.dumps(whole).encode()


def test_a_file_and_its_entries(tmp_path: Path) -> None:
    others = [
        {"id": "npx thing", "distribution": {"npx": {"package": "x"}}},
        {"id": "\x1b[2J", "distribution": {"uvx": {"package": "conductor-other", "args": []}}},
        {"id": "binary"},
    ]
    path = tmp_path / "index.json"
    path.write_bytes(index(*others, entry()))
    (found,) = catalogue.available({str(path): ""})
    assert (found.name, found.source, found.version) == ("weather", PINNED, "1.2")
    named = catalogue.find("weather", {str(path): ""})
    assert (named.written, named.source.written) == ("weather", PINNED)
    assert not named.is_pinned


def test_the_first_catalogue_counts(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_bytes(index(entry("a")))
    other = f"pypi:other==1.0#sha256={DIGEST}"
    two.write_bytes(index(entry("a", other), entry("b", other)))
    places = {str(one): "", str(two): ""}
    assert catalogue.find("a", places).source.written == PINNED
    assert [each.name for each in catalogue.available(places)] == ["a", "b"]
    with pytest.raises(UsageError, match="no catalogue offers `bb`") as error:
        catalogue.find("bb", places)
    assert error.value.hint == "did you mean `b`?"
    with pytest.raises(UsageError, match="there is no catalogue"):
        catalogue.find("a", {})


def test_a_path_is_named_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.json").write_bytes(index(entry("weather")))
    for places in ({}, {"one.json": ""}):
        with pytest.raises(UsageError) as nowhere:
            catalogue.find("mine", places)
        assert "./mine" not in nowhere.value.hint
        (tmp_path / "mine").mkdir()
        with pytest.raises(UsageError) as here:
            catalogue.find("mine", places)
        assert here.value.hint.endswith("the file or folder of that name is `./mine`")
        (tmp_path / "mine").rmdir()


def test_a_folder(tmp_path: Path) -> None:
    component = tmp_path / "weather"
    component.mkdir()
    (component / "component.toml").write_text('name = "w"\nversion = "3"\nfile = "proxy.py"\n')
    (component / "proxy.py").write_text("# one\n")
    (tmp_path / "other.json").write_bytes(json.dumps(entry("other")).encode())
    (tmp_path / "here.json").write_bytes(
        json.dumps(entry("here", f"./files/weather.wasm#sha256={DIGEST}")).encode()
    )
    (tmp_path / "files").mkdir()
    (tmp_path / "files/weather.wasm").write_bytes(MODULE)
    (tmp_path / "README.md").write_text("text")
    assert sorted(catalogue.read(str(tmp_path))) == ["here", "other", "weather"]
    for name in ("here", "weather"):
        place = tmp_path / f"in-{name}"
        place.mkdir()
        assert catalogue.find(name, {str(tmp_path): ""}).fetch(str(place)).place


def test_a_file_of_the_catalogue_that_is_another_one(tmp_path: Path) -> None:
    path = tmp_path / "index.json"
    path.write_bytes(index(entry(source=f"weather.wasm#sha256={'0' * 64}")))
    (tmp_path / "weather.wasm").write_bytes(MODULE)
    (tmp_path / "in").mkdir()
    with pytest.raises(ConductorError, match="is not the file that its catalogue names"):
        catalogue.find("weather", {str(path): ""}).fetch(str(tmp_path / "in"))


def test_a_catalogue_on_the_web(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("http_proxy", raising=False)
    with serving({"/i.json": index(entry()), "/p.json": index(entry(source="./a.wasm"))}) as server:
        assert catalogue.find("weather", {f"{server.url}/i.json": ""}).source.written == PINNED
        with pytest.raises(UsageError, match="on the web has none"):
            catalogue.read(f"{server.url}/p.json")
        with pytest.raises(ConductorError, match="status 404"):
            catalogue.read(f"{server.url}/nothing")
        asked = len(server.asked)
        assert catalogues.offer("weather", [f"{server.url}/i.json"]) is None
        assert len(server.asked) == asked  # a hint asks no server
    with pytest.raises(UsageError, match="is not `https`"):
        catalogue.read("http://example.com/i.json")


LIES: Final[dict[str, Callable[[], bytes]]] = {
    "a branch": lambda: index(entry(source="git+https://example.com/a.git@main")),
    "a million entries": lambda: index(*([{}] * 10_001)),
    "a name twice": lambda: index(entry(), entry()),
    "a name with an escape": lambda: index(entry("a\x1b[2J")),
    "a name with blanks": lambda: index(entry("a b")),
    "a path out of its folder": lambda: index(entry(source="../weather.wasm")),
    "a reserved name": lambda: index(entry("host")),
    "a source that is a list": lambda: index(entry(source=["x"])),  # type: ignore[arg-type]
    "a source that is an option": lambda: index(entry(source="--trust")),
    "a source with an escape": lambda: index(entry(source="https://example.com/\x1b[2J")),
    "a tag": lambda: index(entry(source="oci://example.com/weather:latest")),
    "an absolute path": lambda: index(entry(source="/etc/passwd")),
    "another command": lambda: index(entry(args=["agent", "x"])),
    "another kind of source": lambda: index(entry(source="file:///etc/passwd")),
    "cut off": lambda: index(entry())[:-5],
    "itself": lambda: index(entry(source=".")),
    "more arguments": lambda: index(entry(args=["proxy", PINNED, "--profile=full"])),
    "nested deeply": lambda: b'{"extensions":' + b"[" * 100_000,
    "no name": lambda: index(entry("")),
    "no objects": lambda: index("x"),
    "no package version": lambda: index(entry(source="pypi:weather")),
    "too large": lambda: b" " * (catalogues.MOST + 1),
    "variables": lambda: index(entry(env={"PATH": "/opt"})),
    "without a digest": lambda: index(entry(source="https://example.com/weather.wasm")),
}


@pytest.mark.parametrize("kind", sorted(LIES))
def test_a_catalogue_that_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "catalogue" / "index.json"
    path.parent.mkdir()
    (tmp_path / "weather.wasm").write_bytes(MODULE)
    path.write_bytes(LIES[kind]())
    with pytest.raises(UsageError) as error:
        catalogue.find("weather", {str(path): ""})
    assert "\x1b" not in error.value.text
    assert "--index" in error.value.hint


@pytest.mark.parametrize(
    "source",
    [
        f"git+file:///home/user/private@{'0' * 40}",
        f"git+ssh://localhost/private@{'0' * 40}",
        f"http://127.0.0.1:8080/x.wasm#sha256={DIGEST}",
        f"https://127.0.0.1/x.wasm#sha256={DIGEST}",
        f"https://[::1]/x.wasm#sha256={DIGEST}",
        f"oci://localhost:5000/x@sha256:{DIGEST}",
    ],
)
def test_a_catalogue_elsewhere_names_nothing_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """Else the author of the catalogue would choose the file that is read, or the server that is
    asked."""
    where = "https://example.com/index.json"
    content = index(entry(source=source))
    monkeypatch.setattr(download, "get", lambda *_, **__: content)
    with pytest.raises(UsageError, match="is on this machine"):
        catalogue.find("weather", {where: ""})


def test_a_folder_that_lies(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "component.toml").write_text('name = "w"\nfile = "proxy.py"\n')
    place = tmp_path / "catalogue"
    place.mkdir()
    (place / "weather").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="is a link"):
        catalogue.read(str(place))
    (place / "weather").unlink()
    (place / "weather.json").symlink_to(elsewhere / "component.toml")
    with pytest.raises(UsageError, match="link"):
        catalogue.read(str(place))
    (place / "weather.json").unlink()
    (place / "out.json").write_bytes(json.dumps(entry(source="../elsewhere")).encode())
    with pytest.raises(UsageError, match="leads out of its folder"):
        catalogue.read(str(place))
    with pytest.raises(UsageError, match="cannot be read"):
        catalogue.read(str(tmp_path / "nothing"))


def test_who_names_a_catalogue_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"No such file or directory \(my\.toml, line 3\)"):
        catalogue.find("weather", {str(tmp_path / "none.json"): "my.toml, line 3"})
