"""The claims of docs/security.md, and the tests of each: `python -m tests.docs.claims` lists both.

A claim is a bullet, or a row of a table, between `<!-- claims -->` and `<!-- /claims -->`. A test
names the claims that it proves by their first words: `@pytest.mark.proves("it dies with")`.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import Final

from tests.places import ROOT

PAGE: Final = ROOT / "docs" / "security.md"
_CLAIMS: Final = re.compile(r"<!-- claims -->\n(.*?)<!-- /claims -->", re.DOTALL)
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARK: Final = "mark.proves"


def claims(text: str) -> list[str]:
    """The claims of a page: whole bullets, and the first cells of rows."""
    found: list[str] = []
    for block in _CLAIMS.findall(_LINK.sub(r"\1", text)):
        if block.startswith("|"):
            rows = block.splitlines()[2:]
            found += [row.strip("|").split(" | ")[0].strip() for row in rows]
        else:
            bullets = re.split(r"^- ", block, flags=re.MULTILINE)[1:]
            found += [" ".join(bullet.split()) for bullet in bullets]
    return found


def proofs() -> dict[str, list[str]]:
    """The tests that name a claim, as `path:name`, by the first words of the claim."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        source = file.read_text(encoding="utf-8")
        if _MARK not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for words in _marked(node):
                    name = f"{file.relative_to(ROOT)}:{node.name}"
                    found.setdefault(words, []).append(name)
    return found


def _marked(test: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    marks = [
        one
        for one in test.decorator_list
        if isinstance(one, ast.Call) and ast.unparse(one.func).endswith(_MARK)
    ]
    return [ast.literal_eval(words) for mark in marks for words in mark.args]


def meant(words: str, every: list[str]) -> list[str]:
    """The claims that begin so; of a word that a test names there is exactly one."""
    return [claim for claim in every if claim.startswith(words)]


def main() -> None:
    """Lists each claim with its tests."""
    every = claims(PAGE.read_text(encoding="utf-8"))
    tests = proofs()
    for claim in every:
        sys.stdout.write(f"{claim}\n")
        for names in (names for words, names in tests.items() if claim.startswith(words)):
            sys.stdout.writelines(f"    {name}\n" for name in names)


if __name__ == "__main__":
    main()
