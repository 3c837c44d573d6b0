"""Where in a text something is: words, or the definition of a symbol.

No language is parsed. A definition is known by its keyword (`fn`, `class`, …), else by how a
method, a field or an assignment looks. To it belongs what is further to the right below it.
"""

import re
from typing import NamedTuple


class Range(NamedTuple):
    """A part of a line. Lines and columns count from 1, columns count characters; the end is
    exclusive."""

    line: int
    column: int
    end: int


_KEYWORDS = (
    "fn|def|class|struct|enum|trait|type|interface|func|fun|function|const|static|let|var|val|mod|"
    "module|namespace|package|record|object|protocol|union|actor|sub|typedef"
)
_PREFIX = rf"(?<![\w$.])(?:macro_rules!|#define|(?:{_KEYWORDS})\b)"
_BEFORE = r"[\s*&]*(?:mut\s+|self\.|<[^>\n]*>\s*|\([^)\n]*\)\s*)?"
_MODIFIERS = r"(?:(?:export|public|private|protected|readonly|static|pub(?:\([^)]*\))?)[ \t]+)*"
_CONTROL = {
    *("if", "elif", "else", "for", "while", "do", "switch", "match", "case", "return", "yield"),
    *("await", "new", "throw", "try", "catch", "except", "with", "assert", "print", "del", "in"),
    *("not", "and", "or", "lambda"),
}
_NO_CODE = ("//", "/*", "*", "# ", "--", ";", "'''", '"""')


def words(text: str, wanted: str) -> list[Range]:
    """Where these words stand, in order."""
    return [
        Range(number, at.start() + 1, at.end() + 1)
        for number, line in enumerate(text.split("\n"), 1)
        for at in re.finditer(re.escape(wanted), line)
    ]


def symbol(text: str, name: str) -> list[Range]:
    """Where a symbol is defined: `parse`, or `Parser.parse`, `Parser::parse`, `Parser#parse`."""
    parts = [one for one in re.split(r"::|\.|#", name) if one]
    lines = text.split("\n")
    if not parts:
        return []
    *outer, last = parts
    blocks = [(0, len(lines))]
    for one in outer:
        holders = [at for block in blocks for at in _holders(lines, one, block)]
        blocks = [(at, _block_end(lines, at)) for at in holders]
    found = [
        at for block in blocks for at in _defined(lines, last, (block[0] + bool(outer), block[1]))
    ]
    if not found and outer:
        found = _outside(lines, outer[-1], last)
    if not outer:  # what stands by itself comes before members of others
        least = min((_indent(lines[one.line - 1]) for one in found), default=0)
        found = [one for one in found if _indent(lines[one.line - 1]) == least]
    return sorted(set(found))


def _holders(lines: list[str], name: str, block: tuple[int, int]) -> list[int]:
    """The lines where something begins that has members."""
    n = re.escape(name)
    implemented = rf"\b(?:impl|extension)\b(?:<[^>\n]*>)?[^{{\n]*?(?<![\w$])({n})(?![\w$])"
    found = [*_matches(lines, implemented, block), *_defined(lines, name, block)]
    return sorted({one.line - 1 for one in found})


def _defined(lines: list[str], name: str, block: tuple[int, int]) -> list[Range]:
    """The definitions by keyword; else as a method; else as a field or an assignment."""
    n = rf"({re.escape(name)})(?![\w$])"
    found = _matches(lines, rf"{_PREFIX}{_BEFORE}{n}", block)
    if not found:
        called = rf"^[ \t]*(?:[\w$<>\[\],.&*:~@]+[ \t]+)*[*&]?{n}[ \t]*(?:<[^>\n]*>)?\("
        found = [one for one in _matches(lines, called, block) if _opens(lines, one)]
    return found or _matches(
        lines, rf"^[ \t]*{_MODIFIERS}{n}[ \t]*\??[ \t]*(?:=(?!=)|:(?!:))", block
    )


def _outside(lines: list[str], holder: str, name: str) -> list[Range]:
    """Definitions that name their holder: methods of Go, of C++ and of prototypes."""
    h, n = re.escape(holder), rf"({re.escape(name)})(?![\w$])"
    whole = (0, len(lines))
    found = _matches(lines, rf"\bfunc\s*\([^)\n]*\b{h}\b[^)\n]*\)\s*{n}", whole)
    named = _matches(lines, rf"(?<![\w$]){h}(?:::|\.prototype\.|\.){n}\s*(?:=(?!=)|\()", whole)
    return found or [one for one in named if _opens(lines, one)]


def _matches(lines: list[str], pattern: str, block: tuple[int, int]) -> list[Range]:
    found = []
    for at in range(*block):
        line = lines[at]
        if not line.lstrip().startswith(_NO_CODE):
            found += [
                Range(at + 1, m.start(1) + 1, m.end(1) + 1) for m in re.finditer(pattern, line)
            ]
    return found


def _opens(lines: list[str], one: Range) -> bool:
    """Whether a line that looks like a call begins a definition: a block follows."""
    line = lines[one.line - 1]
    before = line[: one.column - 1].split()
    if {*before, line[one.column - 1 : one.end - 1]} & _CONTROL or "=" in "".join(before):
        return False
    end = line.split("//")[0].rstrip()
    if end.endswith(("{", "(", ",", "=> {")):
        return True
    after = next((each.strip() for each in lines[one.line :] if each.strip()), "")
    return end.endswith(")") and after.startswith("{")


def _block_end(lines: list[str], at: int) -> int:
    """The line behind a definition's block."""
    depth = _indent(lines[at])
    for end in range(at + 1, len(lines)):
        line = lines[end].strip()
        if not line or _indent(lines[end]) > depth:
            continue
        if line.startswith(("}", "end")):
            return end + 1
        if not line.startswith(("{", ")", "]", "where")):
            return end
    return len(lines)


def _indent(line: str) -> int:
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())
