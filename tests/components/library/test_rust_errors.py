"""Language-specific helpers: `rust-errors`."""

import json
from pathlib import Path
from typing import Any

from tests.components.library.support import agent, component, play
from tests.harness.process.rig import Rig

MAIN = (
    "fn f<T: Foo>() {}\ntrait Foo {}\nfn main() {\n    f::<()>();\n    let s = g();\n    h(s);\n}\n"
)
TRAIT = """\
error[E0277]: the trait bound `(): Foo` is not satisfied
 --> src/main.rs:4:9
  |
4 |     f::<()>();
  |         ^^ the trait `Bar` is not implemented for `()`
  |
note: required for `()` to implement `Foo`
 --> src/main.rs:2:7
  |
2 | impl<T: Bar> Foo for T {}
  |              ^^^     ^
error: could not compile `trial` (bin "trial") due to 1 previous error
"""
MOVED = """\
\x1b[1m\x1b[91merror[E0382]\x1b[0m: borrow of moved value: `s`
  --> src/main.rs:90:5
   |
8  |     let s = g();
   |         - move occurs because `s` has type `String`
9  |     h(s);
   |       - value moved here
10 |     println!("{s}");
   |               ^^^ value borrowed here after move
   = note: this error originates in the macro `println` (in Nightly builds, run with more)
   = help: consider cloning it
"""


async def explained(p: Any, output: str) -> str:
    """The text of the tool's result."""
    called = await p.call("explain", output=output)
    return str(called["content"][0]["text"])


async def test_what_is_explained() -> None:
    async with play("rust-errors", files={"/project/src/main.rs": MAIN}) as p:
        await p.new_session()
        said = await explained(p, TRAIT)
        assert (
            "src/main.rs:4:9\n  2 | trait Foo {}\n  3 | fn main() {\n> 4 |     f::<()>();" in said
        )
        assert "- line 4: the trait `Bar` is not implemented for `()`" in said
        assert "- required for `()` to implement `Foo` (src/main.rs:2)" in said
        assert "In this case: `()` lacks `Bar`: implement it" in said
        assert "could not compile" not in said
        said = await explained(p, MOVED)
        assert "src/main.rs:90:5 (the file has 7 lines now: it has changed since)" in said
        assert "the life of `s`: line 8 (move occurs" in said
        assert "→ line 9 (value moved here) → line 10" in said
        assert "the macro `println`: the code is what the macro makes" in said
        assert "The compiler suggests:\n- consider cloning it" in said
        rendered = "error[E0308]: mismatched types\n --> src/main.rs:4:1\n"
        rendered += "4 | x\n  | ^ expected `String`, found `&str`\n"
        lines = [{"reason": "compiler-message", "message": {"rendered": rendered}}, {"message": 1}]
        said = await explained(p, "\n".join(map(json.dumps, lines)) + "\n{broken")
        assert "expected `String`, found `&str`: an owned text is asked for" in said


async def test_short_forms_codes_and_bounds() -> None:
    async with play("rust-errors", config={"most": 1}, grants=[]) as p:
        await p.new_session()
        said = await explained(p, "src/a.rs:1:2: error[E0277]: `Rc<u8>` cannot be sent between "
                                  "threads safely\nsrc/b.rs:1:2: error: odd\n")  # fmt: skip
        assert "src/a.rs:1:2 (it cannot be shown: service `files`" in said
        assert "`Rc<u8>` lacks `Send`: a value that goes to another thread" in said
        assert said.endswith("(1 more; repair these first, many go with them)")
        for output in ("all is well", "x" * 400_001):
            assert (await p.call("explain", output=output))["isError"]
        for code in ("E0382", "382", "[e0382]"):
            told = await p.call("explain_code", code=code)
            assert "has one owner" in told["content"][0]["text"]
        assert (await p.call("explain_code", code="E9999"))["isError"]


def test_rust_errors_through_a_chain(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.rs").write_text(MAIN, encoding="utf-8")
    chain = agent(rig, component("rust-errors"), rig.demo("--acp"))
    chain.initialize()
    session = chain.new_session(cwd=str(tmp_path))
    call = f"/call rust-errors explain {json.dumps({'output': TRAIT})}"
    said = chain.prompt(session, call)
    assert "> 4 |     f::<()>();" in said
    assert "A trait is not implemented that is required" in said
    assert chain.finish() == 0
    assert chain.stderr == ""
