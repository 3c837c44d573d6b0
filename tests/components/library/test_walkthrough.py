"""The component `walkthrough`."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from guest_sdk.python import Playground
from tests.components.library.support import FORMS, agent, folders, in_form, play
from tests.harness.process.rig import Chain, Rig
from tests.places import COMPONENTS

RUST = """\
use x;

pub struct Parser<'a> {
    text: &'a str,
}

impl<'a> Parser<'a> {
    // fn parse
    pub fn parse(&self) -> usize {
        self.parse(); parse(1)
    }
}

impl Display for Parser<'_> {
    fn fmt(&self) {}
}

struct Other;
impl Other {
    fn parse() {}
}

macro_rules! mine { () => {} }
"""
TYPESCRIPT = """\
export class Store extends Base {
  private items: Map<string, Item> = new Map();
  async load(id: string): Promise<Item> {
    if (this.has(id)) { return this.load(id); }
  }
  render = () => {
  }
}
export default async function run(x) {
  load(x);
}
const fetchAll = async (ids) => {
};
"""
PYTHON = """\
LIMIT = 3
class A:
    def run(self): pass

    async def go(
        self,
    ): ...
def run(): ...
"""
GO = """\
type Parser struct {
}
func (p *Parser) Parse(x int) error {
}
"""
C = """\
static int
helper(int a)
{
    return other(a);
}
void Widget::draw(int x) {
}
"""


@pytest.fixture(name="symbol")
def found_symbol() -> Any:
    """The function that finds symbols: the line and the column of each."""
    sys.path.insert(0, str(COMPONENTS / "walkthrough"))
    try:
        import places  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
        sys.modules.pop("places", None)
    return lambda text, name: [(one.line, one.column) for one in places.symbol(text, name)]


@pytest.mark.parametrize(
    ("text", "name", "at"),
    [
        (RUST, "Parser", [(3, 12)]),
        (RUST, "Parser::parse", [(9, 12)]),
        (RUST, "Parser.fmt", [(15, 8)]),
        (RUST, "Parser.text", [(4, 5)]),
        (RUST, "Other::parse", [(20, 8)]),
        (RUST, "parse", [(9, 12), (20, 8)]),
        (RUST, "mine", [(23, 14)]),
        (RUST, "::", []),
        (TYPESCRIPT, "Store.load", [(3, 9)]),
        (TYPESCRIPT, "Store.items", [(2, 11)]),
        (TYPESCRIPT, "Store.render", [(6, 3)]),
        (TYPESCRIPT, "run", [(9, 31)]),
        (TYPESCRIPT, "fetchAll", [(12, 7)]),
        (PYTHON, "A.run", [(3, 9)]),
        (PYTHON, "run", [(8, 5)]),
        (PYTHON, "A.go", [(5, 15)]),
        (PYTHON, "LIMIT", [(1, 1)]),
        (GO, "Parser.Parse", [(3, 18)]),
        (C, "helper", [(2, 1)]),
        (C, "Widget::draw", [(6, 14)]),
        (C, "other", []),
    ],
)
def test_where_a_symbol_is_defined(
    symbol: Any, text: str, name: str, at: list[tuple[int, int]]
) -> None:
    assert symbol(text, name) == at


FILES = {
    "/project/src/a.rs": RUST,
    "/project/src/b.py": PYTHON,
    "/project/docs/c.md": "fn elsewhere()",
    "/project/target/d.rs": "fn elsewhere()",
}
MARKDOWN = """\
# The <parser>

It has *one* part, `parse`:

```comment src/a.rs symbol=Parser::parse
It reads **one**.
```

```rust
a < b;
```

~~~comment src/a.rs search="struct" nth=2
A unit:
```
Other
```
~~~

1. first
2. second
   goes on

```comment symbol=LIMIT
Never more.
```
"""


async def shows(p: Playground, markdown: str) -> tuple[bool, str]:
    """Whether a walkthrough is refused, and the text of the tool."""
    result = await p.call("show", markdown=markdown)
    return result.get("isError", False), result["content"][0]["text"]


async def test_a_panel_and_comments_at_the_exact_characters() -> None:
    async with play("walkthrough", files=FILES, editor=["panel", "comment"]) as p:
        session = await p.new_session()
        failed, told = await shows(p, MARKDOWN)
        assert (failed, told.splitlines()) == (False, [
            "the user sees `The <parser>`",
            "comment 1 (symbol=Parser::parse): src/a.rs:9",
            'comment 2 (search="struct"): src/a.rs:18',
            "comment 3 (symbol=LIMIT): src/b.py:1",
        ])  # fmt: skip
        panel = p.editor.panels["walkthrough"]
        assert panel["label"] == "The <parser>"
        assert panel["contents"].splitlines() == [
            "<p>It has <em>one</em> part, <code>parse</code>:</p>",
            "<p>→ <code>src/a.rs:9</code> <code>Parser::parse</code></p>",
            "<pre><code>a &lt; b;</code></pre>",
            "<p>→ <code>src/a.rs:18</code></p>",
            "<ol><li>first</li><li>second goes on</li></ol>",
            "<p>→ <code>src/b.py:1</code> <code>LIMIT</code></p>",
        ]
        named = {"sessionId": session, "can_reply": True, "replies": []}
        assert p.editor.comments["walkthrough-1"] == {
            **named, "id": "walkthrough-1", "url": "file:///project/src/a.rs",
            "start": {"line": 9, "column": 12}, "end": {"line": 9, "column": 17},
            "text": "It reads **one**.",
        }  # fmt: skip
        assert p.editor.comments["walkthrough-2"]["start"] == {"line": 18, "column": 1}
        assert p.editor.comments["walkthrough-2"]["text"] == "A unit:\n```\nOther\n```"
        (said,) = [one.raw["params"]["update"] for one in p.heard if one.method == "session/update"]
        event = said["_meta"]["conductor.conversation/event"]
        assert event["kind"] == "walkthrough"
        assert [one["line"] for one in event["data"]["comments"]] == [9, 18, 1]


async def test_the_next_one_takes_its_place_and_the_end_takes_all_away() -> None:
    async with play("walkthrough", files=FILES, editor=["panel", "comment"]) as p:
        await p.new_session()
        await shows(p, MARKDOWN)
        await shows(p, "```comment symbol=LIMIT\nOnly.\n```")
        assert p.editor.panels["walkthrough"]["label"] == "Walkthrough"
        assert list(p.editor.comments) == ["walkthrough-1"]
        await p.editor.event("walkthrough", "close")
        assert not p.editor.comments
        await shows(p, MARKDOWN)
        await p.call("clear")
        assert (p.editor.panels, p.editor.comments) == ({}, {})


async def test_what_cannot_be_found_is_an_error_that_names_it() -> None:
    async with play("walkthrough", files=FILES, config={"most": 2}, editor=["panel"]) as p:
        await p.new_session()
        wrong = (
            "```comment src/a.rs symbol=Nope\nx\n```\n```comment src/z.rs search=a\nx\n```",
            "comment 1 (symbol=Nope): there is no symbol `Nope` in src/a.rs\nsrc/z.rs cannot be",
        )
        for markdown, told in (
            wrong,
            ("```comment src/a.rs symbol=parse\nx\n```", "2 places, src/a.rs:9, src/a.rs:20; say"),
            ("```comment src/a.rs symbol=parse nth=3\nx\n```", "there are 2 of them only"),
            ("```comment symbol=elsewhere\nx\n```", "no symbol `elsewhere` in the project"),
            ("```comment\nx\n```", "line 1, comment 1: it names either `symbol=NAME` or"),
            ("\n```comment search=x\nx\n```", "line 2, comment 1: a search names its file"),
            ("```comment a symbol=x nth=b\nx\n```", "`nth` is a number, not b"),
            ("```comment a b symbol=x\nx\n```", "`file` is given twice"),
            ("```comment a search='x\nx\n```", "No closing quotation"),
            ("```comment symbol=LIMIT\n", "it says nothing"),
            ("```comment symbol=LIMIT\nx\n```\n" * 3, "2 comments at most"),
            ("x" * 200_001, "200,000 characters at most"),
        ):
            failed, said = await shows(p, markdown)
            assert failed
            assert told in said
        assert not p.editor.panels
    async with play("walkthrough", grants=[]) as p:
        await p.new_session()
        failed, said = await shows(p, "```comment symbol=LIMIT\nx\n```")
        assert failed
        assert "the project cannot be looked into: service `files`" in said
        failed, said = await shows(p, "# Words alone")
        assert said == "the user sees `Words alone` as text, since the editor has no panels"


WALK = """\
# Add
The sum:
```comment add.py symbol=add
It **adds**.
```
```comment add.py search="print("
And shows it.
```
"""
SHOW = "_scp/html_panel/show"
COMMENT = "_scp/file_comment/show"


def begun(rig: Rig, form: str, version: int, project: Path, shows: bool) -> tuple[Chain, str]:
    """A chain before the demo agent, in a project."""
    (project / "add.py").write_text(
        "import x\ndef add(a, b):\n    return a + b\nprint(add(1, 2))\n"
    )
    made = in_form(form, "walkthrough")
    chain = agent(rig, made, rig.demo("--acp"), PYTHONPATH=folders("walkthrough"))
    section = {"version": "1.0", "html_panel": shows, "file_comment": shows}
    able = {"_meta": {"symposium": section}}
    if version == 2:
        info = {"name": "c", "version": "1"}
        chain.initialize(protocolVersion=2, info=info, capabilities=able)
    else:
        chain.initialize(clientCapabilities=able)
    return chain, chain.new_session(cwd=str(project))


def walks(chain: Chain, session: str, markdown: str) -> str:
    """The text that the user reads of a turn in which the agent shows a walkthrough."""
    before = len(chain.texts(session))
    call = f"/call walkthrough show {json.dumps({'markdown': markdown})}"
    chain.answer(chain.start_prompt(session, call))

    def said() -> str:
        return "".join(chain.texts(session)[before:])

    chain.until(lambda: "the user sees" in said() or "nothing is shown" in said(), "the end")
    return said()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_a_walkthrough_is_shown(rig: Rig, tmp_path: Path, form: str, version: int) -> None:
    chain, session = begun(rig, form, version, tmp_path, True)
    chain.serves |= {SHOW: lambda _: {}, COMMENT: lambda _: {}}
    wrong = walks(chain, session, "```comment add.py symbol=sub\nx\n```")
    assert (
        "tool error: nothing is shown:\ncomment 1 (symbol=sub): there is no symbol `sub`" in wrong
    )
    assert not chain.seen(SHOW)
    said = walks(chain, session, WALK)
    assert said.strip().startswith("[walkthrough: Add]")
    (panel,) = [one["params"] for one in chain.seen(SHOW)]
    assert (panel["label"], panel["scripts"]) == ("Add", False)
    assert "<p>→ <code>add.py:2</code> <code>add</code></p>" in panel["contents"]
    comments = [one["params"] for one in chain.seen(COMMENT)]
    assert [one["url"] for one in comments] == [f"file://{tmp_path}/add.py"] * 2
    assert [(one["start"], one["end"], one["text"]) for one in comments] == [
        ({"line": 2, "column": 5}, {"line": 2, "column": 8}, "It **adds**."),
        ({"line": 4, "column": 1}, {"line": 4, "column": 7}, "And shows it."),
    ]
    reply = {"sessionId": session, "id": "walkthrough-1", "text": "why?"}
    prompt = chain.request("_scp/file_comment/reply", reply)["result"]["prompt"]
    assert "comment at add.py:2:" in prompt[0]["text"]
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_an_editor_without_panels_gets_text(rig: Rig, tmp_path: Path, version: int) -> None:
    chain, session = begun(rig, "sandboxed", version, tmp_path, False)
    said = walks(chain, session, WALK)
    begins = "walkthrough:\n\n> "
    panel = "**Add**\n>\n> The sum:\n>\n> → `add.py:2` `add`\n>\n> → `add.py:4`\n\n"
    assert f"{begins}{panel}{begins}`add.py:2`: It **adds**.\n\n" in said
    assert f"{begins}`add.py:4`: And shows it.\n" in said
    assert not [one for one in chain.frames if "_scp/" in str(one.get("method"))]
    assert chain.finish() == 0
