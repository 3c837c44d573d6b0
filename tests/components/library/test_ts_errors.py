"""Language-specific helpers: `ts-errors`."""

import json
from pathlib import Path
from typing import Final

import pytest

from guest_sdk.python import Playground
from tests.components.library.support import agent, component, load, play
from tests.harness.process.rig import Rig

MAIN: Final = """\
interface Outer { a: { b: number } }
const value = { a: { b: "no" } };
const outer: Outer = value;
let unused = 1;
"""
HEAD: Final = "Type '{ a: { b: string; }; }' is not assignable to type 'Outer'."
REASONS: Final = """\
  The types of 'a.b' are incompatible between these types.
    Type 'string' is not assignable to type 'number'.
"""
PLAIN: Final = f"""\
src/main.ts(4,5): error TS6133: 'unused' is declared but its value is never read.
src/main.ts(3,7): error TS2322: {HEAD}
{REASONS}"""
PRETTY: Final = f"""\
\x1b[96msrc/main.ts\x1b[0m:\x1b[93m3\x1b[0m:\x1b[93m7\x1b[0m - \x1b[91merror\x1b[0m\x1b[90m TS2322: \x1b[0m{HEAD}
{REASONS}
\x1b[7m3\x1b[0m const outer: Outer = value;
\x1b[7m \x1b[0m \x1b[91m      ~~~~~\x1b[0m

  \x1b[96msrc/main.ts\x1b[0m:\x1b[93m1\x1b[0m:\x1b[93m24\x1b[0m
    \x1b[7m1\x1b[0m interface Outer {{ a: {{ b: number }} }}
    \x1b[7m \x1b[0m \x1b[96m                       ~\x1b[0m
    The expected type comes from property 'b' which is declared here on type '{{ b: number; }}'

Found 1 error in src/main.ts\x1b[90m:3\x1b[0m
"""  # noqa: E501
NEWER: Final = """\
src/main.ts:3:7 - error TS2345: Argument of type 'string | undefined' is not assignable to parameter of type 'string'.

3 const outer: Outer = value;
        ~~~~~

  src/main.ts:1:24 - 'b' is declared here.
    1 interface Outer { a: { b: number } }
                             ~

"""  # noqa: E501
BUNDLER: Final = """\
ERROR in ./src/main.ts:3:7
TS2307: Cannot find module './gone.svg' or its corresponding type declarations.
    1 | interface Outer { a: { b: number } }
  > 3 | const outer: Outer = value;
      |       ^^^^^
"""
SPECIAL: Final = {
    "TS2322: Type 'Promise<number>' is not assignable to type 'number'.": "`await` it",
    "TS2322: Type 'undefined' is not assignable to type 'string'.": "may be `undefined`",
    "TS2322: Type 'Item' is not assignable to type 'never'.": "`useState<Item[]>([])`",
    "TS2322: Type 'string' is not assignable to type '\"a\" | \"b\"'.": "write `as const`",
    'TS2322: Type \'"c"\' is not assignable to type \'"a" | "b"\'.': "none of the texts",
    "TS2345: Argument of type 'Item' is not assignable to parameter of type 'Item[]'.": "[value]",
    "TS2322: Type 'Item[]' is not assignable to type 'Item'.": "take one of the array",
    "TS2719: Type 'A' is not assignable to type 'A'. Two different types with this name exist, but "
    "they are unrelated.": "two copies of one package",
    "TS2339: Property 'name' does not exist on type 'never'.": "checks above leave nothing here",
    "TS2339: Property 'value' does not exist on type 'EventTarget'.": "`currentTarget` is typed",
    "TS2339: Property 'b' does not exist on type 'A | B'.": "only some of the union have it",
    "TS2304: Cannot find name 'expect'.": "it is of the test runner",
    "TS2307: Cannot find module './a' or its corresponding type declarations.": "is a path",
    "TS2307: Cannot find module '@/a' or its corresponding type declarations.": "is an alias",
    "TS2307: Cannot find module 'node:fs' or its corresponding type declarations.": "is of Node",
    "TS2307: Cannot find module '@a/b/c' or its corresponding type declarations.": "that path",
    "TS7016: Could not find a declaration file for module '@a/b'.": "--save-dev @types/a__b`",
}
"""Errors, and the special detail of each."""


async def explained(p: Playground, output: str) -> str:
    """The text of the tool's result."""
    called = await p.call("explain", output=output)
    return str(called["content"][0]["text"])


async def test_what_is_explained() -> None:
    async with play("ts-errors", files={"/project/src/main.ts": MAIN}) as p:
        await p.new_session()
        for output in (PLAIN, PRETTY):
            said = await explained(p, output)
            assert said.startswith(f"## error TS2322: {HEAD}\n\nsrc/main.ts:3:7\n  1 | interface")
            assert "> 3 | const outer: Outer = value;\n  4 | let unused = 1;\n\n" in said
            assert (
                "reasons:\nThe types of 'a.b' are incompatible between these types.\n  Ty" in said
            )
            assert "A value of another type than its place asks for." in said
            assert "In this case: in `a.b`, `string` is there, `number` is asked for:" in said
        assert "also points at:\n- src/main.ts:1:24: The expected type comes from pr" in said
        # Errors about unused code come last.
        said = await explained(p, PLAIN)
        assert said.index("TS2322") < said.index("## error TS6133")
        said = await explained(p, NEWER)
        assert "- src/main.ts:1:24: 'b' is declared here." in said
        assert "`string | undefined` is there, `string` is asked for: the value may be" in said
        said = await explained(p, BUNDLER)
        assert said.startswith("## error TS2307: Cannot find module './gone.svg' or its corresp")
        assert "./src/main.ts:3:7\n" in said
        assert "declare such files, `declare module '*.svg'`" in said


async def test_places_that_cannot_be_shown_codes_and_bounds() -> None:
    async with play("ts-errors", config={"most": 2}, grants=[]) as p:
        await p.new_session()
        twice = "src/a.ts(1,2): error TS2304: Cannot find name 'x'.\n" * 3
        said = await explained(p, twice)
        assert "src/a.ts:1:2 (it cannot be shown: service `files`" in said
        assert said.count("A name that is not declared.") == 1
        assert "(TS2304 as above)" in said
        assert said.endswith("(1 more; repair these first, many go with them)")
        said = await explained(p, "error TS18003: No inputs were found in config file 'a'.")
        assert "`include` and `files` match nothing" in said
        # A code that is not known is answered with what can be said.
        said = await explained(p, "src/a.ts(1,2): error TS2999: Something new.")
        assert "## error TS2999: Something new." in said
        assert "It is not explained here. Codes from 2000 to 3999: the types do not fit" in said
        for output in ("all is well", "x" * 400_001):
            assert (await p.call("explain", output=output))["isError"]
        for code in ("TS2322", "2322", " ts-2322: ", "[TS2322]"):
            told = await p.call("explain_code", code=code)
            assert told["content"][0]["text"].startswith("TS2322: A value of another type")
        told = await p.call("explain_code", code="TS99999")
        assert told["content"][0]["text"] == "TS99999: It is not explained here."
        assert (await p.call("explain_code", code="E0382"))["isError"]


@pytest.mark.parametrize("text", SPECIAL)
async def test_what_is_special_about_an_error(text: str) -> None:
    async with play("ts-errors", grants=[]) as p:
        await p.new_session()
        said = await explained(p, f"a.ts(1,2): error {text}")
        assert SPECIAL[text] in said.partition("In this case: ")[2]


def test_each_code_has_a_title_and_a_repair() -> None:
    load("ts-errors")
    from ts_codes import CODES, KINDS  # type: ignore[import-not-found]

    assert len(CODES) == 183  # README.md names the number
    for code, (title, _, repair) in CODES.items():
        assert title, code
        assert repair.endswith((".", "`")), code
        assert any(first <= code <= last for first, last, _ in KINDS), code


def test_ts_errors_through_a_chain(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.ts").write_text(MAIN, encoding="utf-8")
    (tmp_path / "outside.ts").symlink_to("/etc/hostname")
    chain = agent(rig, component("ts-errors"), rig.demo("--acp"))
    chain.initialize()
    session = chain.new_session(cwd=str(tmp_path))

    def explain(output: str) -> str:
        call = f"/call ts-errors explain {json.dumps({'output': output})}"
        return str(chain.prompt(session, call))

    said = explain(PRETTY)
    assert "> 3 | const outer: Outer = value;" in said
    assert "in `a.b`, `string` is there, `number` is asked for" in said
    # A path that leads out of the project is not shown, however it does.
    for path in ("/etc/hostname", "../../../../etc/hostname", "outside.ts"):
        assert "it cannot be shown" in explain(f"{path}(1,1): error TS2304: Cannot find name 'x'.")
    types = "undefined | " * 70
    hostile = f"a.ts(1,1): error TS2322: Type '{types}' is not assignable to type '{types}'.\n"
    assert "is not assignable" in explain(hostile * 200)
    assert chain.finish() == 0
    assert chain.stderr == ""
