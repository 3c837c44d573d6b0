"""Additions of proxies to prompts: never in front of text that an agent may read as a command."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conductor.core.guards import Context, commands, links
from conductor.core.guards.reading import read as read_json
from conductor.core.guards.rules import Attempt, Rule
from guest_sdk.python import image, text, unlinked
from guest_sdk.python.reading import head, read

LISTED = Context(commands=frozenset({"/review", "$skill", "!ls", "#todo"}))
"""The commands that an agent lists."""

_starts = st.sampled_from(
    ["", "/", "$", "!", "#", " /", "\n/", "\u200b/", "\uff0f", "\uff04", "/a/", "-"]
)
_ends = st.text(max_size=6).map("{}x".format) | st.sampled_from(["review it", "skill"])
_texts = st.builds(str.__add__, _starts, _ends)
_resources = st.builds(
    lambda said: {"type": "resource", "resource": {"uri": "file:///a", "text": said}}, _texts
)
_images = st.just(image(b"", mime_type="image/png"))
_blocks = st.builds(text, _texts) | _resources | _images
_prompts: st.SearchStrategy[list[dict[str, Any]]] = st.lists(_blocks, max_size=3)


def breaches(rule: Rule, context: Context, *prompts: list[Any]) -> list[tuple[str, str]]:
    """The breaches of one rule where one prompt is passed on as another."""
    before, after = (read_json(json.dumps({"prompt": prompt}).encode()) for prompt in prompts)
    return list(rule(Attempt(context, "down", "session/prompt", after, before)))


def added(prompt: Any, *, behind: bool) -> Any:
    """The prompt after a proxy has added two blocks."""
    params = {"sessionId": "s", "prompt": prompt}
    said = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params})
    request: Any = read("p", said, head(said))
    (request.append if behind else request.preface)("Be brief.", text("Be kind."))
    return json.loads(request.render())["params"]["prompt"]


@given(_prompts, st.booleans())
@example([image(b"", mime_type="image/png"), text("/review")], False)
@example(
    [{"type": "resource", "resource": {"uri": "file:///a", "text": "/a/x"}}, text("/x")], False
)
def test_no_command_is_hidden_changed_or_made(prompt: list[Any], behind: bool) -> None:
    after = added(prompt, behind=behind)
    assert len(after) == len(prompt) + 2
    assert breaches(commands.kept, LISTED, prompt, after) == []


@pytest.mark.parametrize(
    "said", ["hi", "Über", "привет", "日本", '"/a" is a path', "<a/>", "1/2", ""]
)
def test_what_begins_with_words_takes_it_in_front(said: str) -> None:
    assert added([text(said)], behind=False) == [text("Be brief."), text("Be kind."), text(said)]


@pytest.mark.parametrize("said", ["/review", "$skill x", "!ls", "\n/review", " hi", "/a/b"])
def test_what_may_be_a_command_takes_it_behind(said: str) -> None:
    expected = [text(said), text("\nBe brief."), text("\nBe kind.")]
    assert added([text(said)], behind=False) == expected
    assert added([text(said)], behind=True) == expected


def test_a_prompt_that_is_no_list_stays() -> None:
    assert added("hi", behind=False) == "hi"


PROJECT = Context(folders=("/project",))
_MARKS = ["@", "/", "~", "..", "a", " ", '"', "'", "`", "[", "](", ")", "\\", "%2e", ".", ":"]
_words = st.sampled_from([*_MARKS, "file:", "/etc/x"])


@given(st.lists(_words, max_size=12).map("".join) | st.text())
@example("import { x } from '@/components'")
@example("[@x](/etc/passwd)")
@example("@~/.ssh/id_rsa, @../up and @@/etc/x@/y")
def test_what_comes_of_files_leads_nowhere(said: str) -> None:
    """Links in Markdown lead an agent nowhere by themselves, but for those that are mentions."""
    assert breaches(links.added, PROJECT, [], [text(unlinked(said))]) == []


@pytest.mark.parametrize(
    "said", ["me@example.com", "see @src/main.py.", "@acme/pkg", "@ /etc", "a @", "(@README.md)"]
)
def test_what_leads_nowhere_stays(said: str) -> None:
    assert unlinked(said) == said


def test_what_leads_elsewhere_is_set_off() -> None:
    assert unlinked("from '@/lib', @~/x") == "from '@ /lib', @ ~/x"
