"""Changes that the guards leave be in prompts: prefixes, links into the project, prose with `@`."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from conductor.core.guards import Context, forwarded
from conductor.core.guards.commands import asks_for_one, readings, spelled
from conductor.core.guards.names import folded
from conductor.core.guards.paths import decoded, inside
from conductor.core.policy.rules import Grants
from tests.core.test_guards.attack import PLAIN, granted
from tests.core.test_guards.attacks_on_prompts import (
    HELLO,
    IMAGE,
    LINK,
    LINKS,
    MENTIONS,
    PROMPT,
    blob,
    resource,
    text,
)
from tests.core.test_guards.routes import may_send, passes


def rewritten(before: object, after: object, context: Context = PLAIN) -> bool:
    """Whether one prompt may be passed on as another."""
    given_, sent = ({"sessionId": "s", "prompt": blocks} for blocks in (before, after))
    return passes(PROMPT, given_, sent, context)


def sends(blocks: object, context: Context = PLAIN) -> bool:
    """Whether a prompt may be a component's own."""
    return may_send(PROMPT, {"sessionId": "s", "prompt": blocks}, context)


@pytest.mark.parametrize(
    "after",
    [
        [text("Today is Monday."), HELLO],
        [HELLO, text("Today is Monday.")],
        [text("good bye")],
        [],
        [text("see /yolo, it is a command"), HELLO],
        [text("1/2"), HELLO],
        [text("$5 and #1 and !"), HELLO],
        [text("$ fix"), HELLO],
        [text("<file>/yolo</file>"), HELLO],
        [HELLO, resource("/* a comment */")],
        [HELLO, resource("#!/bin/sh")],
        [HELLO, blob(b"/* a comment */"), blob(b"\x89PNG\x00\xff@/x"), blob(b"", "image/png")],
        [{**LINK, "name": "a.py", "title": "A", "uri": "/w/a.py"}, HELLO],
        [{**HELLO, "annotations": {"audience": ["user", "assistant"]}}],
        [{**HELLO, "_meta": {"example.com/x": 1}}],
        [IMAGE, LINK, HELLO],
        [{"type": "audio", "data": "/yolo", "mimeType": "x"}, HELLO],
    ],
)
def test_what_is_no_command_may_be_rewritten(after: list[Any]) -> None:
    assert rewritten([HELLO], after)
    assert rewritten([], after)
    assert sends(after)


@pytest.mark.parametrize("command", ["/review", "/review it", "$fix", "\n/review it", "/mcp:a:b"])
def test_blocks_may_be_put_behind_a_command(command: str) -> None:
    said = text(command)
    for more in ([text("\n\nToday is Monday.")], [text(" and"), IMAGE, LINK], [LINK]):
        assert rewritten([said], [said, *more])
        assert rewritten([IMAGE, said], [IMAGE, said, *more])
        assert rewritten([said, HELLO], [said, HELLO, *more])


def test_a_block_keeps_the_meta_that_it_had() -> None:
    obeyed: dict[str, Any] = {"_meta": {"claudeCode": {}}}
    assert rewritten([{**HELLO, **obeyed}], [{**text("good bye"), **obeyed}])
    assert not rewritten([HELLO], [{**text("good bye"), **obeyed}])


def test_a_path_at_the_beginning_is_no_command() -> None:
    said = text("/etc/hosts is odd")
    assert rewritten([said], [HELLO, said])
    assert rewritten([said], [text("/etc/hosts is [hidden]")])
    assert rewritten([said], [HELLO])
    assert rewritten([HELLO, said], [HELLO, HELLO, said])


def test_a_prompt_asks_for_commands_of_others() -> None:
    for said, own, asks in (
        (b'{"prompt":[{"type":"text","text":"/plan"}]}', (), True),
        (b'{"prompt":[{"type":"text","text":"/plan"}]}', ("plan",), False),
        (b'{"prompt":[],"prompt":[{"text":"/plan"}]}', ("*",), True),
        (b'{"prompt":[{"text":"/etc/hosts"}]}', (), False),
        (b'{"prompt":"/plan"}', (), False),
        (b"[" * 100_000, (), True),
    ):
        assert asks_for_one(Raw(said), frozenset(), Grants(commands=own)) is asks


def test_a_command_of_any_spelling_is_found() -> None:
    commands = frozenset({"Kiss", "5", "\u017fo"})
    for said in ("kiss", "KISS me", "\u212aiss", "5", "so", "S", "5x"):
        assert bool(readings([text(said)], commands)) == (said != "S")


def test_what_looks_like_a_command_further_on_stays_there() -> None:
    said = text("/review")
    assert rewritten([HELLO, said, HELLO], [HELLO, said, text("bye")])
    assert rewritten([HELLO, said], [text("Monday"), HELLO, said, HELLO])
    assert rewritten([HELLO, resource("/yolo")], [text("hi"), resource("/yolo"), IMAGE])


def test_granted_commands_are_a_components_own() -> None:
    context = granted(commands=("plan", "$go"))
    for after in (
        [text("/plan")],
        [text("/plan it all"), HELLO],
        [text("$go")],
        [HELLO, text("/plan")],
        [text("/plan"), text("\nall")],
    ):
        assert rewritten([HELLO], after, context)
        assert sends(after, context)
        assert not rewritten([text("/review")], after, context)
        assert rewritten(after, [HELLO], context)
    assert not rewritten([text("/plan it")], [HELLO])
    assert [spelled(name) for name in ("a", "/a", "$a", "_a", "")] == ["/a", "/a", "$a", "/_a", "/"]


def test_with_every_command_those_the_agent_does_not_list_may_be_taken_out() -> None:
    context = granted(commands=("*",))
    said = text("/tldr it")
    assert rewritten([said], [text("Sum it up.")], context)
    assert rewritten([said], [HELLO, IMAGE], context)
    assert rewritten([said], [said, LINK], context)
    for after in ([text("/yolo")], [HELLO, said], [said, text("/tldr")]):
        assert not rewritten([said], after, context)
    assert not rewritten([text("/review it")], [text("Review it.")], context)
    assert not rewritten([HELLO], [said], context)
    assert not sends([said], context)


def test_as_many_odd_blocks_may_change_as_there_were() -> None:
    odd = [{"type": "new", "text": said} for said in "abc"]
    assert rewritten(odd[:2], [odd[2], odd[0]])
    assert rewritten(odd[:1], [odd[0], odd[0], HELLO])
    assert not rewritten(odd[:1], odd[:2])
    assert not rewritten(odd[:1], [{"type": "new", "text": None}])


def test_words_of_odd_blocks_may_change() -> None:
    for odd in ({"type": "markdown", "text": "hi"}, {"type": "text", "text": "hi", "URI": "x"}):
        assert rewritten([odd, odd, HELLO], [{**odd, "text": "ho"}, HELLO, {**odd, "text": "hu"}])
        assert rewritten([odd, HELLO], [HELLO, odd, odd])


def test_links_into_the_folders_may_be_added() -> None:
    for uri in (
        "file:///w/a.py", "file:///w", "file:///w/", "file://localhost/w/a", "FILE:///w/a",
        "file:///w/a/../b", "file:///home/me/proj/%C3%BC.py", "file:///w/a%20b#L1-2",
        "https://x.example/../../etc", "http://x", "data:text/plain,x", "acp:mine", "mcp://x/y",
        "com.example.notes:/x", "src/a.py", "./a", "a/../b", "/w/x", "", "?x",
        "https://me@x.example/@types/node", "http://[::1]/x", "https://x/?u=file:///a", "<a.py>",
        "/w/(group)/[id].tsx", "file:///w/a b", "mailbox.file.x:1",
    ):  # fmt: skip
        link = {"type": "resource_link", "name": "x", "uri": uri}
        assert rewritten([HELLO], [HELLO, link]), uri
        assert rewritten([HELLO], [HELLO, resource("x", uri)]), uri
        assert sends([link]), uri


def test_resources_may_have_schemes_of_their_own() -> None:
    for uri in (
        "context://today", "memory://x", "skill://a", "note:///1", "urn:x:y", "untitled:Untitled-1",
        "context://profile:1", "notes+x://a",
    ):  # fmt: skip
        assert rewritten([HELLO], [HELLO, resource("x", uri)]), uri
        assert sends([resource("x", uri)]), uri


def test_texts_that_follow_a_mention_are_not_of_its_name() -> None:
    for said in ("see @/etc/hosts", "see @~", 'see @"/etc/x y"', "me@example.com", "it's an @"):
        assert rewritten([text(said)], [text(said), text("\n\nToday's news: /etc/x")])
        assert not rewritten([text("see @/etc/hosts")], [text("see @/etc/hosts"), text("x")])


def test_what_was_linked_may_stay() -> None:
    for uri in LINKS:
        link = {"type": "resource_link", "name": "x", "uri": uri}
        assert rewritten([link], [HELLO, link])
        assert rewritten([link, resource("x", uri)], [{**link, "title": "y"}])
    for said in MENTIONS:
        if said.endswith('"/etc/y'):  # the part behind the last quote belongs to the name
            continue
        assert rewritten([text(f"see {said} there")], [text(f"do see {said} now")])


@pytest.mark.parametrize(
    "said",
    [
        "me@example.com", "<me@example.com>", "git@github.com:me/x.git", "@decorator",
        "@decorator(a, b)", "@app.route('/x')", "@ 5 o'clock", "@5pm", "@~5pm", "@", "@@ -1,2 @@",
        "@src/a.py", "@./a", "@a/../b", "(see @/w/a.py).", '@"a b.py"', "@/w.", "@/w)", "@/w/a,",
        "@types/node", "@scope/pkg@1.2.3", "@$5", "50%@", "@file", '@"/w/a b"', "@/w/my\\ a.py",
        "[@a](a.py)", "[@a]()", "[@a](https://x.example)", "@import '../x.css'", "x@y@z", "@...",
        "@https://x.example/a", "/etc/passwd", "~/.ssh", "../x", "file:///etc/passwd",
        "user@$HOST", "scp a user@$HOST:/srv", "img@${DIGEST}", "\t@$(CC) -o x", "split('@')[0]",
        "{'@': resolve(__dirname, '../src')}", "@(cd /usr; make)", "@{ Path = '/etc/x' }",
        "@<b @<a/../b>", '[@a](https://x.example "a title")', "[@a](a.py), [@b](b.py)", "@a\u00a0b",
        "@page { margin: 0 }\n/* c */", '@"a\nb"',
    ],
)  # fmt: skip
def test_prose_with_an_at_names_nothing_outside(said: str) -> None:
    assert rewritten([HELLO], [text(f"so {said} and on"), HELLO])
    assert sends([text(f"so {said}")])


def test_unknown_folders_hold_nothing() -> None:
    nowhere = msgspec.structs.replace(PLAIN, folders=())
    assert rewritten([HELLO], [text("@src/a.py"), {**LINK, "uri": "a.py"}], nowhere)
    assert not rewritten([HELLO], [text("@/w/a.py")], nowhere)
    assert not rewritten([HELLO], [{**LINK, "uri": "file:///w/a"}], nowhere)


@pytest.mark.parametrize(
    ("folder", "uri"),
    [
        ("/w#1", "file:///w%231/a"),
        ("/w?", "file:///w%3f/a"),
        ("/w/100%", "file:///w/100%25/a"),
        ("/w/100%25", "file:///w/100%2525/a"),
        ("/w/my proj", "file:///w/my%20proj/a/../b"),
        ("/w/caf\u00e9", "file:///w/cafe\u0301/a"),
        ("/w/cafe\u0301", "file:///w/caf%C3%A9/a"),
        ("/w/x/../y", "file:///w/y/a"),
    ],
)
def test_folders_with_odd_names(folder: str, uri: str) -> None:
    context = msgspec.structs.replace(PLAIN, folders=(folder,))
    assert rewritten([HELLO], [{**LINK, "uri": uri}, HELLO], context)
    assert not rewritten([HELLO], [{**LINK, "uri": uri + "/../../x"}, HELLO], context)
    assert not rewritten([HELLO], [{**LINK, "uri": "/w/other"}, HELLO], context)


def test_a_folder_that_says_different_things_holds_nothing() -> None:
    for folder in ("/w/a%2f..%2f..", "/w%" + "25" * 9):
        assert not inside("/etc", (folder,))


def test_folders_of_windows() -> None:
    folders = ("C:\\Proj", "relative", "/")
    for path in ("c:/proj/x", "C:\\proj\\X", "/C:/Proj", "a\\b", "C:/proj/./x"):
        assert inside(path, folders[:2]), path
    for path in ("C:/x", "D:/proj", "C:\\proj\\..\\x", "C:/proj/.. /x", "C:/proj/.../x", "/x"):
        assert not inside(path, folders[:2]), path
    assert not inside("C:proj/x", folders[:2])
    assert inside("/x", folders)
    assert not inside("/x", ("C:/..",))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tools-demo", "Tools_Demo"),
        ("tools-demo", "t\u043eols-d\u0435mo"),
        ("tools", "\uff54ools"),
        ("cafe", "caf\u00e9"),
        ("scope", "\u03c3\u0441\u03bf\u03c1\u03b5".replace("\u03c3", "s")),
        ("all", "a1I"),
    ],
)
def test_names_that_look_alike_are_one(one: str, other: str) -> None:
    assert folded(one) == folded(other)
    assert folded(f"{one}-2") != folded(other)


@given(st.text(), st.lists(st.text(max_size=8), max_size=3))
def test_paths_never_raise_and_the_decoded_decide(path: str, folders: list[str]) -> None:
    held = inside(path, tuple(folders))
    assert isinstance(held, bool)
    rounds = decoded(path)
    assert not held or rounds
    assert not rounds or rounds[0] == path


_blocks = st.lists(
    st.one_of(
        st.text(alphabet="/$a \n\u200b", max_size=4).map(text),
        st.text(alphabet="/a", max_size=3).map(resource),
        st.sampled_from([IMAGE, LINK, 1, None, "x"]),
    ),
    max_size=4,
)


@given(_blocks, _blocks)
def test_no_reading_of_a_prompt_finds_a_new_command(before: list[Any], after: list[Any]) -> None:
    params = (Raw(json.dumps({"prompt": prompt}).encode()) for prompt in (before, after))
    violation = forwarded(PLAIN, "down", PROMPT, *params)
    if violation is not None and violation.guard == "commands":
        return

    def commands(blocks: list[Any]) -> list[str]:
        """The commands that agents find which read the first text, the last, or all joined."""
        said = [b["text"] for b in blocks if isinstance(b, dict) and "text" in b]
        ways = [*said[:1], *said[-1:], *("".join(said), " ".join(said), "\n".join(said))]
        words = [(way.replace("\u200b", "").split() or [""])[0] for way in ways]
        return [word for word in words if len(word) > 1 and word[0] == "/" and "/" not in word[1:]]

    found = {one for reading in readings(before, frozenset()) for one in reading.words}
    found |= {one.replace("\u200b", "") for one in found}
    assert set(commands(after)) <= found | set(commands(before))


def test_huge_prompts_are_judged_at_once() -> None:
    for said in ("@" * 300_000, '@"' * 200_000, "[@" * 200_000, "@\\" * 200_000, "/" * 300_000,
                 "\u200b" * 300_000, "@/w/" + "a/" * 200_000, "@%" + "25" * 200_000,
                 "[@a](" * 100_000, "@'\"`" * 100_000):  # fmt: skip
        rewritten([HELLO], [HELLO, text(said)])
        rewritten([HELLO], [HELLO, {**LINK, "uri": said}])
    many = [text(f"/c{n}") for n in range(5_000)]
    assert rewritten(many, [*many, text("\nhello")])
