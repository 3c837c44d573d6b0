"""The walk through a page finds each fault of it."""

from pathlib import Path

import pytest

from tests.docs.walk import Block, Shown, Walk, blocks, changed, differences, updated
from tests.places import ROOT

PAGE = ROOT / "docs" / "tutorial.md"


def page(text: str) -> str:
    """A page, written here with `~~~` for the fences."""
    return text.replace("~~~", "```")


def diff(text: str) -> Block:
    """A block that changes something."""
    return Block("diff", "", text, 0, 1, "`a.py`, changed:")


def test_commands_files_changes_and_what_comes(tmp_path: Path) -> None:
    walk = Walk(tmp_path)
    text = page(
        """
`a/b.txt`:

~~~text
one
two

three
~~~

`a/b.txt`, changed:

~~~diff
 one
-two
+2
@@
 three
+four
~~~

~~~sh
cd a
~~~

~~~sh
cat b.txt
echo error >&2
pwd
~~~

~~~text
one
2
…
four
err…
/home/you/a
~~~

~~~sh fails
exit 3
~~~

~~~sh not run here
exit 3
~~~
"""
    )
    (shown,) = walk.page(text)
    assert shown.right, shown.came
    assert shown.came == "one\n2\n\nthree\nfour\nerror\n/home/you/a\n"
    assert [block.text for block in walk.left_out] == ["exit 3\n"]
    assert differences(PAGE, [shown]) == ""
    assert updated(text, [shown]) == text


def test_what_is_wrong_is_shown_and_put_right(tmp_path: Path) -> None:
    text = page("~~~sh\necho yes\n~~~\n\n~~~text\nno\n~~~\n")
    shown = Walk(tmp_path).page(text)
    assert "docs/tutorial.md:5" in differences(PAGE, shown)
    assert "-no\n+yes" in differences(PAGE, shown)
    assert updated(text, shown) == text.replace("\nno\n", "\nyes\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("~~~sh\nexit 1\n~~~\n", "line 1: exit 1"),
        ("~~~sh\nfalse\ntrue\n~~~\n", "line 1: false"),
        ("~~~sh fails\ntrue\n~~~\n", "line 1: true"),
        ("~~~sh\necho yes\n~~~\n\nWords.\n", "wrote:\nyes"),
        ("~~~sh sometimes\ntrue\n~~~\n", "unknown: sometimes"),
        ("Words.\n\n~~~text\nyes\n~~~\n", "nobody knows what this block is for"),
        ("~~~text editor\n> hi\n~~~\n", "no editor was started"),
    ],
)
def test_what_cannot_be_done(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(AssertionError) as caught:
        Walk(tmp_path).page(page(text))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("came", "right"),
    [
        ("a 1.5 s\nx\ny\nend\n", True),
        ("a  s\nx\nend\n", True),
        ("a 1.5 s\nend\n", False),
        ("a 1.5\n2 s\nx\nend\n", False),
        ("a 1.5 s\nx\nend\nmore\n", False),
        ("", False),
    ],
)
def test_what_dots_stand_for(came: str, right: bool) -> None:
    (block,) = blocks(page("~~~text\na … s\n…\nend\n~~~\n"))
    assert Shown(block, came).right is right


def test_a_change_that_does_not_fit() -> None:
    assert changed("a\nb\n", diff("-b\n+c\n")) == "a\nc\n"
    assert changed("a\n\nb\n", diff(" a\n\n-b\n")) == "a\n\n"
    for wrong in ("-x\n+c\n", "b\n"):
        with pytest.raises(AssertionError):
            changed("a\nb\n", diff(wrong))
    with pytest.raises(AssertionError, match="there 2 times"):
        changed("a\na\n", diff("-a\n"))
