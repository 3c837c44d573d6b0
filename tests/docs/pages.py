"""Reads Markdown as far as the checks need it: fenced blocks, links, headings, names of code."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.docs.tables import DOCUMENTS
from tests.places import ROOT

FOLDERS: Final = ("conductor", "wasm_host", "guest_sdk", "components", "tests", "benchmarks")

PAGES: Final = tuple(
    dict.fromkeys(
        (
            *DOCUMENTS,
            *(
                page
                for folder in FOLDERS
                for page in sorted((ROOT / folder).rglob("*.md"))
                if "node_modules" not in page.parts
            ),
        )
    )
)
"""Every page of the project whose links are checked."""

_FENCE: Final = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED: Final = re.compile(r"^ {4}(.*)$", re.MULTILINE)
_LINK: Final = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#+ (.*)$", re.MULTILINE)
_CODE: Final = re.compile(
    rf"`((?:{'|'.join(FOLDERS)}|docs|scripts)/[\w./-]*)(?::([A-Za-z_][\w.]*))?`"
)
_SEPARATORS: Final = frozenset({"|", "||", "&&", ";", "&"})
_SYNOPSIS: Final = ("…", "[OPTIONS]", "[--", "[FOLDER]")


class Block(NamedTuple):
    """A fenced block: the word behind the fence, and the text."""

    language: str
    text: str


class Named(NamedTuple):
    """A file or folder a page names, and what in it (`Class.method`), if anything."""

    path: str
    symbol: str


def read(page: Path) -> str:
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def blocks(text: str, language: str | None = None) -> list[Block]:
    """The fenced blocks, all or those of one language."""
    found = [Block(*match) for match in _FENCE.findall(text)]
    return [block for block in found if language in (None, block.language)]


def section(text: str, title: str) -> str:
    """The text below a heading, up to the next heading of its level or of a higher one."""
    mark = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    assert mark is not None, f"no page has the heading {title}"
    held = [(fence.start(), fence.end()) for fence in _FENCE.finditer(text)]
    for end in re.finditer(rf"^#{{1,{len(mark[1])}}} .*$", text[mark.end() :], re.MULTILINE):
        at = mark.end() + end.start()
        if not any(first < at < last for first, last in held):
            return text[mark.end() : at]
    return text[mark.end() :]


def links(text: str) -> list[str]:
    """Targets of the links outside fenced blocks."""
    return _LINK.findall(_FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """The words that a link may have behind `#`, as the usual viewers make them of headings."""
    titles = _HEADING.findall(_FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def named(text: str) -> list[Named]:
    """The files, folders and names in them that stand in backquotes."""
    return [Named(*match) for match in _CODE.findall(_FENCE.sub("", text))]


def symbols(module: Path) -> set[str]:
    """Everything a module defines: `name`, and `Class.name` for what classes define."""
    found: set[str] = set()
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for name, node in _defined(tree.body):
        found.add(name)
        if isinstance(node, ast.ClassDef):
            found.update(f"{name}.{inner}" for inner, _ in _defined(node.body))
    return found


def _defined(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node


def commands(text: str) -> list[list[str]]:
    """The arguments of every `conductor …` in fenced and indented blocks; synopses are left out."""
    shown = [block.text for block in blocks(text)]
    shown.append("\n".join(_INDENTED.findall(_FENCE.sub("", text))))
    lines = "\n".join(shown).replace("\\\n", " ").splitlines()
    return [
        arguments
        for line in lines
        if "conductor " in line and not any(mark in line for mark in _SYNOPSIS)
        for arguments in _invocations(line)
    ]


def _invocations(line: str) -> Iterator[list[str]]:
    """The words that a shell would hand to `conductor`, for each command of a line."""
    lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        assert not line.startswith("conductor "), f"no shell would take: {line}"
        return
    part: list[str] = []
    for word in (*words, ";"):
        if word not in _SEPARATORS:
            part.append(word)
            continue
        if ">" in part:
            part = part[: part.index(">")]
        if part[:3] == ["python", "-m", "conductor"]:
            part = part[2:]
        if part[:1] == ["conductor"]:
            yield part[1:]
        part = []
