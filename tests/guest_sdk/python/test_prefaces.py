"""What proxies add to prompts: never in front of what an agent may read as a command."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from conductor.core.guards import commands
from conductor.core.guards.context import Context
from guest_sdk.python import image, text
from guest_sdk.python.reading import head, read

LISTED = Context(commands=frozenset({"/review", "$skill", "!ls", "#todo"}))
"""What an agent lists as commands."""

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


def added(prompt: Any, *, behind: bool) -> Any:
    """What a proxy makes of a prompt that adds two blocks."""
    params = {"sessionId": "s", "prompt": prompt}
    said = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params})
    request: Any = read("p", said, head(said))
    (request.append if behind else request.preface)("Be brief.", text("Be kind."))
    return json.loads(request.render())["params"]["prompt"]


@given(_prompts, st.booleans())
@example([image(b"", mime_type="image/png"), text("/review")], False)
def test_no_command_is_hidden_changed_or_made(prompt: list[Any], behind: bool) -> None:
    after = added(prompt, behind=behind)
    assert len(after) == len(prompt) + 2
    assert list(commands.kept(LISTED, prompt, after)) == []


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
