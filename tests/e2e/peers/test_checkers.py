"""`ts-errors` explains what the real compiler prints."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from tests.components.library.support import agent, component
from tests.e2e.peers.npm import install, node_tools
from tests.page import library

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.process.rig import Rig

pytestmark = pytest.mark.peers

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


@pytest.mark.parametrize("pretty", [False, True])
def test_what_tsc_prints(rig: Rig, tmp_path: Path, pretty: bool) -> None:
    tools = node_tools()
    if tools is None:
        pytest.skip("needs node and npm on PATH")
    (tmp_path / "main.ts").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "tsconfig.json").write_text(json.dumps({"compilerOptions": OPTIONS}))
    compiler = install(tools[1], library.SOURCES) / "typescript/bin/tsc"
    command = [tools[0], str(compiler), "--pretty", json.dumps(pretty)]
    printed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert printed.returncode, printed.stderr
    chain = agent(rig, component("ts-errors"), rig.demo("--acp"))
    chain.initialize()
    call = f"/call ts-errors explain {json.dumps({'output': printed.stdout})}"
    said = chain.prompt(chain.new_session(cwd=str(tmp_path)), call)
    for wanted in WANTED:
        assert wanted in said, said
    assert said.count("\n## ") + 1 == 5
    assert ("- main.ts:2:24: The expected type comes from property 'b'" in said) is pretty
    assert chain.finish() == 0
