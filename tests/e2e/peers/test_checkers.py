"""`ts-errors` and `a11y` explain what the real compiler and the real checkers print."""

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.components.library.support import agent, component
from tests.e2e.peers.npm import install, link_scripts, node_tools
from tests.harness.process.rig import Rig
from tests.page import library

pytestmark = pytest.mark.peers

_SOURCES: Final = Path(__file__).parent / "checkers"

SOURCE: Final = """\
import { gone } from "./other";
interface Outer { a: { b: number } }
const value = { a: { b: "no" } };
export const outer: Outer = value;
export function first(list: string[]): string { return list.find(Boolean); }
export function loose(a) { return a; }
export const made: Outer = { a: { b: "no" } };
"""
OPTIONS: Final = {"strict": True, "noEmit": True, "module": "nodenext", "types": []}
WANTED: Final = (
    "## error TS2307: Cannot find module './other'",
    "`./other` is a path",
    "> 4 | export const outer: Outer = value;",
    "in `a.b`, `string` is there, `number` is asked for",
    "the value may be `undefined`",
    "## error TS7006: Parameter 'a' implicitly has an 'any' type.",
    "> 6 | export function loose(a) { return a; }",
)


def tools() -> tuple[str, str]:
    """Node and npm."""
    found = node_tools()
    if found is None:
        pytest.skip("needs node and npm on PATH")
    return found


def explained(rig: Rig, name: str, project: Path, *outputs: str) -> list[str]:
    """The answers of the component's tool to each output, in a session of the project."""
    chain = agent(rig, component(name), rig.demo("--acp"))
    chain.initialize()
    session = chain.new_session(cwd=str(project))
    calls = (f"/call {name} explain {json.dumps({'output': each})}" for each in outputs)
    said = [str(chain.prompt(session, call)) for call in calls]
    assert chain.finish() == 0
    return said


@pytest.mark.parametrize("pretty", [False, True])
def test_what_tsc_prints(rig: Rig, tmp_path: Path, pretty: bool) -> None:
    node, npm = tools()
    (tmp_path / "main.ts").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS}))
    compiler = install(npm, library.SOURCES) / "typescript/bin/tsc"
    command = [node, str(compiler), "--pretty", json.dumps(pretty)]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert printed.returncode, printed.stderr
    [said] = explained(rig, "ts-errors", tmp_path, printed.stdout)
    for wanted in WANTED:
        assert wanted in said, said
    assert said.count("\n## ") + 1 == 5
    assert ("- main.ts:2:24: The expected type comes from property 'b'" in said) is pretty


PAGE: Final = """\
<html lang="en"><head><title>Shop</title></head><body><main>
<h1>Shop</h1>
<button id="go"></button>
<img src="logo.png">
</main></body></html>
"""
APP: Final = """\
export const App = () => (
  <div onClick={() => 1}>
    <img src="logo.png" />
  </div>
);
"""


def test_what_axe_and_eslint_find(rig: Rig, tmp_path: Path) -> None:
    node, npm = tools()
    modules = install(npm, _SOURCES)
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    (tmp_path / "App.jsx").write_text(APP, encoding="utf-8")
    (tmp_path / "eslint.config.mjs").write_bytes((_SOURCES / "eslint.config.mjs").read_bytes())
    link_scripts(modules, tmp_path, _SOURCES)

    def printed(*command: str) -> str:
        ran = subprocess.run(
            [node, *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ran.stdout, ran.stderr
        return ran.stdout

    eslint = (str(modules / "eslint/bin/eslint.js"), "--format")
    said, *both = explained(
        rig,
        "a11y",
        tmp_path,
        printed("page.mjs", "page.html"),
        *(printed(*eslint, format_, "App.jsx") for format_ in ("stylish", "json")),
    )
    assert "## critical: Buttons must have discernible text (button-name)" in said
    assert "It may be written here: page.html:3" in said
    assert "WCAG 4.1.2 Name, Role, Value (A)" in said
    assert "## critical: Images must have alternative text (image-alt)" in said
    assert "not explained here" not in said
    for said in both:
        assert "(click-events-have-key-events)" in said
        assert "App.jsx:3:5\n  2 |   <div onClick={() => 1}>\n> 3 |     <img src" in said
        assert "WCAG 1.1.1 Non-text Content (A)" in said
