"""HTML of components as Markdown: how it reads; no HTML of a stranger fails or takes long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.editor.html import markdown
from conductor.editor.texts import MOST, of_comment
from conductor.editor.urls import path_of

_ODD = ("<a", " b='", ' c="', "=", "<!--", "-->", "<![", "<?", "</", ">", "&#", "9" * 5000, "\n")

_BLOCKS = (
    "p div section article header footer main nav aside hr table thead tbody dl dt dd blockquote "
    "figure figcaption form fieldset details summary"
)


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<h1>Plan</h1><ul><li>one <code>x</code></li></ul>", "# Plan\n\n- one `x`"),
        ("<ol><li>a<ul><li>b</ul><li>c</ol>", "1. a\n\n  - b\n2. c"),
        ("<p>a</p>\n<p>b<br>c", "a\n\nb\nc"),
        ("<pre>a  \n  b<b>c</b></pre>d", "```\na\n  bc\n```\n\nd"),
        ("<A HREF='http://a.b/?x&amp;y'>more</A> <a href='#x'>z</a>", "more (http://a.b/?x&y) z"),
        ("<a title='>' href=x>y</a><a name>n</a>", "y (x)n"),
        ("<img alt='a cat'><img/> <input value=5><button>go", "[a cat][image]  5 go"),
        ("<table><tr><td>1<td>2</table>", "| 1 | 2"),
        ("".join(f"x<{tag}>" for tag in _BLOCKS.split()) + "x", "\n\n".join("x" * 24)),
        ("a<script>if (1 < 2) '<b>'</SCRIPT >b<style>x</style>c<svg>d<svg/></svg>e", "abce"),
        ("<head><title>t</title></head><strong>x</strong>", "**x**"),
        ("1 < 2 &lt; 3 &#x41;&#66; &nope; & <", "1 < 2 < 3 AB &nope; & <"),
        ("a<!-- <b> -->b<!doctype html>c<?x?>d</>e</ f>g", "abcdeg"),
        # A tag without an end is left out, as browsers do.
        *((f"a{odd}b", "a") for odd in ("<!--", "<script>", "<p id='", "<p x", "<!", "<?", "</ ")),
        ("</li></ul></pre></a></b>", "**"),
        ("", ""),
    ],
)  # fmt: skip
def test_how_it_reads(html: str, text: str) -> None:
    assert markdown(html) == text


@given(st.lists(st.sampled_from((*_ODD, "<pre>", "<ul>", "<li>", "x")), max_size=20).map("".join))
def test_no_html_fails(html: str) -> None:
    markdown(html)


@pytest.mark.parametrize(
    "part",
    ["<a ", "<a/", "<a b=", "<a b='", "<a", "<!--", "<![", "</a ", "<script>", "<ul><li>", "&#"]
)  # fmt: skip
def test_the_time_is_in_proportion_to_the_length(part: str) -> None:
    # A reader that reads each part again for every other part takes minutes here.
    markdown(part * (200_000 // len(part)))


def test_spaces_take_no_longer() -> None:
    assert markdown("<pre>" + " " * 500_000 + "x").endswith(" x")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///p/a%20b.py", "/p/a b.py"),
        ("FILE://localhost/p?x#y", "/p"),
        ("file:/p", "/p"),
        ("file://other/p", None),
        ("file://[x", None),
        ("http://[", None),
        ("//[", None),
        ("src/a.py", None),
    ],
)
def test_which_file_a_url_names(url: str, path: str | None) -> None:
    assert path_of(url) == path


def test_a_long_text_is_cut_before_it_is_looked_at() -> None:
    text = of_comment("X", "a:1", "x" * 1_000_000)
    assert text.endswith(f"\n> … ({1_000_000 + len('`a:1`: ') - MOST:,} more characters)\n\n")
