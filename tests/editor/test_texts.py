"""Panels and comments as text, as a person reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.editor import texts
from conductor.editor.messages import Position


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<h1>A</h1><h3>B</h3><p>c</p>d", "# A\n\n### B\n\nc\n\nd"),
        ("<ul><li>a<li>b<ul><li>c</ul></ul>e", "- a\n- b\n\n  - c\n\ne"),
        ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
        ("<b>a</b> <i>b</i> <code>c</code>", "**a** *b* `c`"),
        ("<pre>a\n  <b>b</b></pre>", "```\na\n  b\n```"),
        ("<a href='http://x/'>a</a> <a href='#x'>b</a> <a>c</a>", "a (http://x/) b c"),
        ("a<br>b<hr>c", "a\nb\n\nc"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><th>c</table>", "| a | b\n | c"),
        ("<img alt='A'><img><input value='go'>", "[A][image] go"),
        ("a<script>b<style>c</style></script>d<svg><g>e</g></svg>", "ad"),
        ("&lt;b&gt; &amp; \n\n c", "<b> & c"),
        ("</ul></pre></a></b>a<unknown>b", "**ab"),
    ],
)
def test_html_as_markdown(html: str, text: str) -> None:
    assert texts.of_html(html) == text


@given(st.text("<>/abhlpre =\"'&;\n!-", max_size=60))
def test_any_html_is_text(html: str) -> None:
    assert isinstance(texts.of_panel("X", "L", html), str)


def test_a_long_text_says_how_much_follows() -> None:
    text = texts.of_comment("X", "a:1", "x" * (texts.MOST + 5))
    assert text.endswith("characters)\n\n")
    assert len(text) < texts.MOST + 50
    assert "more characters" in texts.of_panel("X", "L", "<p>" + "x" * (9 * texts.MOST))


def test_control_characters_are_written_out() -> None:
    assert "\x1b" not in texts.of_panel("X", "a\x1b[1m", "b\x1b[2m")


@pytest.mark.parametrize(
    ("url", "start", "end", "text"),
    [
        ("file:///p/src/a.rs", Position(3), None, "src/a.rs:3"),
        ("file:///p/src/a.rs", Position(3), Position(5), "src/a.rs:3-5"),
        ("file:///p/src/a.rs", Position(3), Position(5, 1), "src/a.rs:3-4"),
        ("file:///p/src/a.rs", Position(3), Position(3, 9), "src/a.rs:3"),
        ("file:///p/a%20b.rs", Position(1), None, "a b.rs:1"),
        ("file:///other/a.rs", Position(1), None, "/other/a.rs:1"),
        ("a.rs", Position(1), None, "a.rs:1"),
        ("https://x/a.rs", Position(1), None, "https://x/a.rs:1"),
    ],
)
def test_places(url: str, start: Position, end: Position | None, text: str) -> None:
    assert texts.place(url, start, end, ("/q", "/p/")) == text
