"""Writes the reference in docs/api from the docstrings: `python -m tests.docs.reference`.

The sources are read, not imported, so that every Python writes the same. What is described is in
`public.py`; what is not named there may change any day.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import griffe

from tests.docs.public import INSIDE, MADE, OUTSIDE, PAGES, WHERE, Page
from tests.places import ROOT

FOLDER: Final = ROOT / "docs" / "api"
_WIDTH: Final = 96
_SECTION: Final = re.compile(
    r"^(Args|Attributes|Raises|Returns):\n((?: {4}.*\n|\n)*)", re.MULTILINE
)
_ENTRY: Final = re.compile(r"^ {4}([\w., `]+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_ROLE: Final = re.compile(r":\w+:`~?([\w.]+)`")
_TITLES: Final = {"Args": "Parameters:\n\n", "Raises": "Raises:\n\n", "Returns": "Returns:\n\n"}
_LITERAL: Final = re.compile(r"None|True|False|\[\]|\{\}|-?[\d._]+|[rb]?'[^'\"]*'|frozenset\(\)")
_STARS: Final = {
    griffe.ParameterKind.var_positional: "*",
    griffe.ParameterKind.var_keyword: "**",
}

Found = griffe.Object | griffe.Alias


def pages() -> Iterator[tuple[Path, str]]:
    """Every page, with what it should say."""
    loader = griffe.GriffeLoader(search_paths=[ROOT])
    for page in PAGES:
        package = loader.load(page.package)
        text = "".join(Writer(package, page).page())
        name = page.package.replace(".python", "").replace(".", "_")
        yield FOLDER / f"{name}.md", text


class Writer:
    """Writes one page."""

    def __init__(self, package: Found, page: Page) -> None:
        self._package = package
        self._page = page
        self._found = {name: self._find(name) for names in page.parts.values() for name in names}
        self._names = {one.name for one in self._found.values()}
        self._inside = INSIDE[page.package]

    def _find(self, name: str) -> griffe.Object:
        module, _, symbol = name.rpartition(":")
        one = self._package[f"{module}.{symbol}" if module else symbol]
        return one.final_target if isinstance(one, griffe.Alias) else one

    def page(self) -> Iterator[str]:
        """The whole page."""
        yield f"# {self._page.package}\n\n"
        yield "<!-- Written by `python -m tests.docs.reference` from the docstrings. -->\n\n"
        yield self._prose(self._package)
        for title, names in self._page.parts.items():
            yield f"\n## {title}\n"
            for name in names:
                yield from self._described(name, self._found[name])

    def _described(self, name: str, one: griffe.Object) -> Iterator[str]:
        module = ".".join([self._page.package, *name.split(":")[:-1]])
        where = WHERE.get(one.path) or WHERE.get(one.name) or f"`from {module} import {one.name}`"
        yield f"\n### {one.name}\n\n{where}\n\n"
        if isinstance(one, griffe.Function):
            yield _code(signature(one)) + "\n"
        if isinstance(one, griffe.Class):
            yield _code(self._head(one)) + "\n"
        yield self._prose(one)
        if isinstance(one, griffe.Class):
            yield from self._members(one)

    def _head(self, one: griffe.Class) -> str:
        """A class, and how it is made where that is for others to do."""
        known = {*self._names, "Exception", "BaseException"}
        bases = [base for each in one.bases if (base := str(each).split(".")[-1]) in known]
        shown = f"class {one.name}" + (f"({', '.join(bases)})" if bases else "")
        made = one.members.get("__init__")
        if MADE.isdisjoint((one.name, one.path)) or not isinstance(made, griffe.Function):
            return shown
        return f"{shown}\n\n{signature(made, one.name)}"

    def _members(self, owner: griffe.Class) -> Iterator[str]:
        """Attributes as a table; then each method."""
        public = [one for one in self._all_members(owner) if self._shown(one, owner)]
        fields = [one for one in public if isinstance(one, griffe.Attribute)]
        if fields:
            yield "\n| | |\n|---|---|\n"
            yield from map(self._row, fields)
        for one in public:
            if isinstance(one, griffe.Function):
                yield f"\n#### {owner.name}.{one.name}\n\n"
                overloads = owner.overloads.get(one.name) or [one]
                yield _code("\n".join(map(signature, overloads))) + "\n"
                yield self._prose(one)

    def _all_members(self, owner: griffe.Class) -> Iterator[griffe.Object]:
        """The class's own members, then those of bases that have no place of their own on the
        page."""
        seen: set[str] = set()
        for one in (owner, *owner.mro()):
            if one is not owner and one.name in self._names:
                continue
            for name, member in one.members.items():
                if name not in seen and isinstance(member, griffe.Object):
                    seen.add(name)
                    yield member

    def _shown(self, one: griffe.Object, owner: griffe.Class) -> bool:
        whose = {owner.name, one.parent.name if one.parent is not None else ""}
        hidden = {name for each in whose for name in self._inside.get(each, "").split()}
        if "*" in hidden and one.name not in OUTSIDE.get(owner.name, "").split():
            return False
        if one.name in hidden or (one.name.startswith("_") and one.name != "__call__"):
            return False
        if isinstance(one, griffe.Attribute):
            told_above = f"`{one.name}`" in _said(owner) or f"    {one.name}: " in _said(owner)
            plain = "class-attribute" in one.labels and not told_above
            return bool(_said(one)) or _service(one) or plain
        return isinstance(one, griffe.Function)

    def _row(self, one: griffe.Attribute) -> str:
        if _service(one):
            kind = str(one.value).removeprefix("services.").removesuffix("()")
            return f"| `{one.name}` | [{kind}](#{kind.lower()}) |\n"
        shown = one.name if one.annotation is None else f"{one.name}: {one.annotation}"
        value = str(one.value)
        if "class-attribute" in one.labels and _LITERAL.fullmatch(value):
            shown += f" = {value}"
        told = " ".join(self._prose(one).split())
        return f"| `{_quoted(shown)}` | {told} |\n".replace(" | None", " \\| None")

    def _prose(self, one: Found) -> str:
        """A docstring as Markdown: its sections as lists, its roles as code."""
        text = _ROLE.sub(r"`\1`", _said(one)).replace("``", "`").replace("::\n", ":\n")
        return _SECTION.sub(lambda found: _section(found, one.path), text)


def _said(one: Found) -> str:
    return inspect.cleandoc(one.docstring.value) + "\n" if one.docstring is not None else ""


def _service(one: griffe.Attribute) -> bool:
    return str(one.value).startswith("services.")


def _section(found: re.Match[str], path: str) -> str:
    entries = _ENTRY.findall(found[2])
    assert entries, f"{path}: a section `{found[1]}` without entries"
    lines = [f"- `{name}`: {' '.join(said.split())}\n" for name, said in entries]
    rest = "\n" if found[2].endswith("\n\n") else ""
    return _TITLES.get(found[1], "") + "".join(lines) + rest


# -- code ------------------------------------------------------------------------------------------


def _code(text: str) -> str:
    return f"```python\n{_quoted(text)}\n```\n"


def _quoted(text: str) -> str:
    """Texts in the quotes that the project uses."""
    return re.sub(r"'([^'\"]*)'", r'"\1"', text)


def signature(one: griffe.Function, made: str = "") -> str:
    """How a function is called; with `made`, how an instance of that class is made."""
    prefix = "" if made else "async def " if "async" in one.labels else "def "
    words = list(_parameters(one))
    end = "" if made or one.returns is None else f" -> {one.returns}"
    line = f"{prefix}{made or one.name}({', '.join(words)}){end}"
    if len(line) <= _WIDTH:
        return line
    inner = "".join(f"    {word},\n" for word in words)
    return f"{prefix}{made or one.name}(\n{inner}){end}"


def _parameters(one: griffe.Function) -> Iterator[str]:
    starred = False
    for parameter in one.parameters:
        if parameter.name in ("self", "cls"):
            continue
        star = _STARS.get(parameter.kind, "") if parameter.kind is not None else ""
        if parameter.kind is griffe.ParameterKind.keyword_only and not starred:
            yield "*"
            starred = True
        starred = starred or star == "*"
        text = f"{star}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not star:
            text += (" = " if parameter.annotation is not None else "=") + str(parameter.default)
        yield text


def main() -> None:
    """Writes the pages that differ from their sources."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
