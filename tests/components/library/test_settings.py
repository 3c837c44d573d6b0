"""Manifests, sources and `conductor inspect` say the same of settings."""

import dataclasses
import typing
from pathlib import Path
from typing import Any

import pytest

from conductor.cli import inspect_, inspect_text
from conductor.spec import catalog
from tests.components.library.support import load
from tests.places import COMPONENTS

PYTHON = sorted(path.parent.name for path in COMPONENTS.glob("*/component.toml")
                if 'carrier = "python"' in path.read_text("utf-8"))  # fmt: skip
COMPUTED = {("redact", "only")}
"""Defaults that are computed; their manifests say them in words."""

NESTED = {("capability", "client"), ("capability", "agent")}
"""Settings that are objects with settings of their own."""

NAMES: dict[Any, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object",
}  # fmt: skip


@pytest.mark.parametrize("name", PYTHON)
def test_settings_of_a_component_are_those_of_its_source(name: str) -> None:
    kind, manifest = load(name).config_type, catalog.bundled_manifest(name)
    assert manifest is not None
    if kind is None:
        assert manifest.settings == {}
        return
    hints = typing.get_type_hints(kind)
    fields = {one.name: one for one in dataclasses.fields(kind) if one.init}
    assert set(manifest.settings) == set(fields)
    shown = inspect_.gather(name).settings
    defaults = kind()
    written = (COMPONENTS / name / "component.toml").read_text("utf-8")
    for key, said in manifest.settings.items():
        origin = typing.get_origin(hints[key]) or hints[key]
        if origin is typing.Literal:
            assert (said.type, sorted(said.enum)) == ("string", sorted(typing.get_args(hints[key])))
        elif (name, key) in NESTED:
            assert said.type == "object"
        else:
            assert said.type == NAMES.get(origin, "any"), key
        # Rights are made of settings before the source is read; of others the source alone says it.
        in_rights = f"{{config.{key}}}" in written
        assert said.default == (getattr(defaults, key) if in_rights else None), key
        if (name, key) not in COMPUTED | NESTED:
            assert shown[key].default == getattr(defaults, key), key


SOURCE = '''
from dataclasses import dataclass, field
import enum
from typing import Any, Literal

HOUR = 60 * 60
NAMES: list[str] = ["a"]
PLACE = "here"

@dataclass
class Inner:
    x: int = 1

@dataclass
class Config:
    """The settings."""

    needed: str
    """What it cannot
    do without."""
    seconds: float = 2 * HOUR - 1
    said: str = f"every {HOUR} s"
    names: list[str] = field(default_factory=lambda: NAMES)
    others: list[str] = field(default_factory=lambda: [PLACE, "b"])
    nested: list[list[str]] = field(default_factory=lambda: [NAMES, NAMES])
    more: dict[str, int] = field(default_factory=dict)
    level: Literal["a", "b"] = field(default="b")
    odd: int | None = None
    inner: Inner = field(default_factory=Inner)
    ratio: float = 1 / 0
    huge: str = "ab" * 10**9
    wild: Any = open("/etc/passwd").read()
    wide: str = f"{HOUR:>10}"
    bag: Any = frozenset
    pair: Any = {1, 2}
    raw: Any = b"x"

    def method(self) -> None: ...

proxy = Proxy("p", config=Config)
'''


def test_a_file_alone_tells_its_settings_too(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(SOURCE, encoding="utf-8")
    facts = inspect_.gather(str(path))
    found = {key: (one.type, one.default) for key, one in facts.settings.items()}
    assert found == {
        "needed": ("string", None),
        "seconds": ("number", 7199),
        "said": ("string", "every 3600 s"),
        "names": ("array", ["a"]),
        "others": ("array", ["here", "b"]),
        "nested": ("array", None),
        "more": ("object", {}),
        "level": ("string", "b"),
        "odd": ("any", None),
        "inner": ("object", None),
        "ratio": ("number", None),
        "huge": ("string", None),
        "wild": ("any", None),
        "wide": ("string", None),
        "bag": ("any", None),
        "pair": ("any", None),
        "raw": ("any", None),
    }
    assert facts.settings["needed"].required
    text = "\n".join(inspect_text.lines(facts, 200))
    for line in (
        "needed (string; required): What it cannot do without.",
        "seconds (number; default 7199)",
        'said (string; default "every 3600 s")',
        'names (array; default ["a"])',
        "more (object; default empty)",
        "level (string; one of a, b; default b)",
        "inner (object)",
    ):
        assert line in text
    for source in ("proxy = Proxy('p', config=Config", "proxy = Proxy('p', config=Elsewhere)"):
        path.write_text(source, encoding="utf-8")
        assert inspect_.gather(str(path)).settings == {}


def test_settings_of_a_folder_may_be_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "proxy.py").write_text("import kept\nproxy = Proxy('p', config=kept.Config)\n")
    (tmp_path / "kept.py").write_text("class Config:\n    a: int = 1\n")
    (tmp_path / "broken.py").write_text("class Config(\n")
    assert inspect_.gather(str(tmp_path)).settings["a"].default == 1


BUNDLED = sorted(path.parent.name for path in COMPONENTS.glob("*/component.toml"))


@pytest.mark.parametrize("name", [one for one in BUNDLED if one != "demo"])
def test_readme_and_manifest_ask_for_the_same_and_have_the_same_settings(name: str) -> None:
    """The rights that a component asks for stand in one row, settings anywhere."""
    readme = (COMPONENTS / name / "README.md").read_text("utf-8")
    rows = [line.split(" | ") for line in readme.splitlines() if line.startswith("| ")]
    (asks,) = [" | ".join(row[1:]) for row in rows if row[0] == "| asks for"]
    manifest = catalog.bundled_manifest(name)
    assert manifest is not None
    asked = manifest.rights or ()
    missing = {one for one in asked if f"`{one}`" not in asks and not _said(one, asks)}
    assert not missing, asks
    assert not any(one.startswith("web:") for one in asked), "components/README.md says so"
    assert [key for key in manifest.settings if f"`{key}`" not in readme] == []


def _said(right: str, asks: str) -> bool:
    """Whether a right to read files is told by the ending of their names."""
    ending = right.removeprefix("read:**/*.")
    return ending != right and "and the same for `" in asks and f"`{ending}`" in asks
