"""Language-specific helpers: `a11y`."""

import json
from pathlib import Path
from typing import Any, Final

from guest_sdk.python import Playground
from tests.components.library.support import agent, component, load, play
from tests.harness.process.rig import Rig

APP: Final = """\
export default function App() {
  return <main>
    <img
      src={logo} className="hero" />
    <div role="buton" onClick={go}>Go on</div>
    <button
      id="save"></button>
  </main>;
}
"""
STYLISH: Final = """
> web@1.0.0 lint
> eslint src

/project/src/App.jsx
  \x1b[2m3:5\x1b[22m  \x1b[31merror\x1b[39m    img elements must have an alt prop              \x1b[2mjsx-a11y/alt-text\x1b[22m
  5:10  warning  Elements with ARIA roles must use a valid role  jsx-a11y/aria-role
  1:1   error    'React' must be in scope                        react/react-in-jsx-scope

✖ 3 problems (2 errors, 1 warning)
"""  # noqa: E501
UNIX: Final = (
    "/project/src/App.jsx:3:5: img elements must have an alt prop [Error/jsx-a11y/alt-text]\n"
)
AXE: Final[dict[str, Any]] = {
    "url": "http://localhost/",
    "violations": [
        {"id": "region", "impact": "moderate", "tags": ["best-practice"], "help": "Use landmarks",
         "nodes": [{"html": "<p>", "target": ["p"]}] * 7},
        {"id": "button-name", "impact": "critical", "tags": ["wcag2a", "wcag412"],
         "help": "Buttons must have discernible text",
         "nodes": [{"html": '<button id="save"></button>', "target": [["#host", "#save"]],
                    "any": [{"id": "x", "message": "Element has no text"}]}]},
        {"id": "future-rule", "impact": "minor", "tags": ["wcag143"], "help": "Be new",
         "helpUrl": "https://example.org/future-rule", "nodes": []},
    ],
    "incomplete": [
        {"id": "color-contrast", "impact": "serious", "tags": ["wcag143"], "help": "Contrast",
         "nodes": [{"html": '<div role="buton">Go on</div>', "target": ["iframe", "div"]}]},
    ],
}  # fmt: skip
PA11Y: Final = [
    {"code": "WCAG2AA.Principle1.Guideline1_1.1_1_1.H37", "type": "error", "message": "No alt.",
     "context": '<img src="/assets/logo.3fa9b2c1.png" class="hero">', "selector": "html > img",
     "runner": "htmlcs"},
    {"code": "link-name", "type": "error", "message": "Links must have text (https://example.org/x)",
     "context": "<a>", "selector": "a", "runner": "axe",
     "runnerExtras": {"impact": "serious", "needsFurtherReview": False}},
    {"code": "WCAG2AA.Principle1.Guideline1_3.1_3_1.H49.B", "type": "warning", "message": "Bold",
     "context": "<b>", "selector": "b", "runner": "htmlcs"},
]  # fmt: skip


async def explained(p: Playground, output: Any) -> str:
    """The text of the tool's result."""
    text = output if isinstance(output, str) else json.dumps(output)
    called = await p.call("explain", output=text)
    return str(called["content"][0]["text"])


async def test_what_eslint_found() -> None:
    async with play("a11y", files={"/project/src/App.jsx": APP}) as p:
        await p.new_session()
        said = await explained(p, STYLISH)
        assert said.startswith(
            "## error: img elements must have an alt prop (alt-text)\n\nAn image"
        )
        assert "WCAG 1.1.1 Non-text Content (A): what is no text has a text" in said
        assert "src/App.jsx:3:5\n  2 |   return <main>\n> 3 |     <img\n  4 |" in said
        assert "## warning: Elements with ARIA roles must use a valid role (aria-role)" in said
        assert said.endswith("(1 of other rules of ESLint are left out)")
        assert "> 3 |     <img" in await explained(p, UNIX)
        message = {"ruleId": "jsx-a11y/alt-text", "severity": 2, "message": "No alt", "line": 3}
        held = [{"filePath": "/project/src/App.jsx", "messages": [message, {"ruleId": None}]}]
        said = await explained(p, "\n> web lint\n\n" + json.dumps(held))
        assert said.startswith("## error: No alt (alt-text)")
        assert "> 3 |     <img" in said


async def test_what_axe_found_and_where_it_is_written() -> None:
    files = {"/project/src/App.jsx": APP, "/project/node_modules/x/App.jsx": APP}
    async with play("a11y", files=files) as p:
        await p.new_session()
        for output in (AXE, [AXE], AXE["violations"], {"results": {"home": AXE}}):
            said = await explained(p, output)
            assert said.startswith("## critical: Buttons must have discernible text (button-name)")
            assert "WCAG 4.1.2 Name, Role, Value (A)" in said
            assert (
                '- `<button id="save"></button>` at `#host >> #save`\n  Element has no te' in said
            )
            place = "It may be written here: src/App.jsx:6\n  5 | "
            assert place in said
            assert said.count(place) == 1
            assert "node_modules" not in said
            assert "## moderate: Use landmarks (region)" in said
            assert "No success criterion of WCAG asks for it: it is good practice." in said
            assert "(2 more of this rule)" in said
            # A rule that is not known is answered with what the checker says of it.
            unknown = said.partition("## minor: Be new (future-rule)")[2]
            assert (
                "not explained here; the checker's own words are all there is, and htt" in unknown
            )
            assert "WCAG 1.4.3 Contrast (Minimum) (AA)" in unknown
        said = await explained(p, AXE)
        doubtful = said.partition("## to be checked: Contrast (color-contrast)")[2]
        assert "The checker could not decide this" in doubtful
        assert "`div in frame iframe`" in doubtful
        assert "It may be written here: src/App.jsx:5" in doubtful


async def test_what_pa11y_found() -> None:
    async with play("a11y", files={"/project/page.html": '<p>\n<img src="logo.png">\n'}) as p:
        await p.new_session()
        for output in (PA11Y, {"total": 1, "results": {"http://localhost/": PA11Y}}):
            said = await explained(p, output)
            assert said.startswith("## serious: Links must have text (link-name)\n\nA control wit")
            assert "WCAG 2.4.4 Link Purpose (In Context) (A)" in said
            assert "## error: No alt. (WCAG2AA.Principle1.Guideline1_1.1_1_1.H37)" in said
            assert "It may be written here: page.html:2\n  1 | <p>\n> 2 | <img" in said
            assert "This rule is not explained here" in said.partition("## warning: Bold")[2]
            assert "WCAG 1.3.1 Info and Relationships" in said.partition("## warning: Bold")[2]


async def test_rules_bounds_and_nothing_found() -> None:
    async with play("a11y", config={"most": 1, "files": 0}, grants=[]) as p:
        await p.new_session()
        said = await explained(p, AXE)
        assert said.endswith("(Also found: region, future-rule, color-contrast)")
        said = await explained(p, STYLISH)
        assert "src/App.jsx:3:5 (it cannot be shown: service `files`" in said
        said = await explained(p, {"violations": [], "incomplete": []})
        assert said.startswith("The checker found nothing. It sees a part")
        deep = "[" * 100_000
        odd = {"violations": [1, {"id": 2}, {"id": "a", "nodes": [1, {"target": 3}], "tags": [4]}]}
        assert "## moderate: a (a)" in await explained(p, odd)
        for output in ("all is well", "x" * 1_000_001, deep, "{}", '{"violations": 1}'):
            assert (await p.call("explain", output=output))["isError"]
        told = await p.call("explain_rule", rule="jsx-a11y/tabindex-no-positive")
        assert "WCAG 2.4.3 Focus Order (A)" in told["content"][0]["text"]
        told = await p.call("explain_rule", rule="1.4.3")
        assert told["content"][0]["text"].startswith("WCAG 1.4.3 Contrast (Minimum) (AA): text")
        assert (await p.call("explain_rule", rule="no-such-rule"))["isError"]


def test_each_rule_has_a_topic_and_its_criteria() -> None:
    load("a11y")
    from a11y_topics import RULES, TECHNIQUES, TOPICS  # type: ignore[import-not-found]
    from wcag import CRITERIA  # type: ignore[import-not-found]

    assert {topic for topic, _ in [*RULES.values()]} == set(TOPICS)
    assert {topic for _, topic in TECHNIQUES} <= set(TOPICS)
    for rule, (_, criteria) in RULES.items():
        assert set(criteria.split()) <= set(CRITERIA), rule


def test_a11y_through_a_chain(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/App.jsx").write_text(APP, encoding="utf-8")
    (tmp_path / "outside.html").symlink_to("/etc/hostname")
    chain = agent(rig, component("a11y"), rig.demo("--acp"))
    chain.initialize()
    session = chain.new_session(cwd=str(tmp_path))

    def explain(output: str) -> str:
        return str(chain.prompt(session, f"/call a11y explain {json.dumps({'output': output})}"))

    said = explain(json.dumps(AXE))
    assert "It may be written here: src/App.jsx:6" in said
    assert "> 6 |     <button" in said
    # A path that leads out of the project is not shown.
    for path in ("/etc/hostname", "../../../../etc/hostname", str(tmp_path / "outside.html")):
        assert "it cannot be shown" in explain(UNIX.replace("/project/src/App.jsx", path))
    many = {
        "violations": [{"id": f"r{n}", "nodes": AXE["violations"][1]["nodes"]} for n in range(2000)]
    }
    assert "(r0)" in explain(json.dumps(many))
    assert chain.finish() == 0
    assert chain.stderr == ""
