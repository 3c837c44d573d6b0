"""Entries in the settings of editors: added, brought up to date, wrapped, and taken out again."""

import copy
import json
from typing import Any, Final

import pytest
from hypothesis import given, settings

from conductor.editors import jsonc, table
from conductor.editors.json_editor import JsonEditor
from conductor.editors.record import Settings
from conductor.editors.target import Launch, Target
from conductor.errors import UsageError
from tests.editors.documents import FIXTURES, WRONG, documents

LAUNCH = Launch("/opt/my bin/conductor", ["agent", "datetime", "démo // x"])
ZED = table.find("zed")
JSON: Final = sorted(name for name, each in table.TARGETS.items() if isinstance(each, JsonEditor))


def held(text: str | None) -> Any:
    """The value of a text."""
    value = jsonc.parse(text or "")
    return {} if value is None else copy.deepcopy(value.data)


def apply(target: Target, text: str | None, kept: Settings, *names: str) -> tuple[Any, Settings]:
    """Adds entries one after the other."""
    for name in names:
        edit = target.put(text, kept, name, LAUNCH)
        text, kept = edit.text, edit.settings
    return text, kept


def gone(target: Target, text: str | None, kept: Settings, *names: str) -> str | None:
    """Removes entries one after the other."""
    for name in names:
        edit = target.remove(text, kept, name)
        text, kept = edit.text, edit.settings
    assert kept.entries == {}
    return text


@pytest.mark.parametrize("name", sorted(FIXTURES))
@pytest.mark.parametrize("editor", JSON)
@pytest.mark.parametrize("order", ["first in, first out", "last in, first out"])
def test_what_was_added_is_taken_out_byte_for_byte(name: str, editor: str, order: str) -> None:
    target, text = table.find(editor), FIXTURES[name]

    after, kept = apply(target, text, Settings(editor), "Conductor", "Second")

    assert [*target.entries(after)][:2] != []
    names = ["Conductor", "Second"] if order[0] == "f" else ["Second", "Conductor"]
    assert gone(target, after, kept, *names) == (text or "")


@settings(max_examples=60)
@given(documents())
def test_any_settings_come_back_byte_for_byte(document: tuple[str, Any]) -> None:
    text, data = document
    holder = data.get("agent_servers")
    if holder is not None and not isinstance(holder, dict):
        with pytest.raises(UsageError, match="wants an object"):
            ZED.put(text, Settings("zed"), "Conductor", LAUNCH)
        return
    if "Conductor" in (holder or {}):
        return

    after, kept = apply(ZED, text, Settings("zed"), "Conductor")

    now = held(after)
    ours = now["agent_servers"].pop("Conductor")
    assert ours == {
        "type": "custom",
        "command": LAUNCH.command,
        "args": LAUNCH.args,
        "env": {},
    }
    expected = copy.deepcopy(data)
    expected["agent_servers"] = holder or {}
    assert now == expected
    assert gone(ZED, after, kept, "Conductor") == text


@pytest.mark.parametrize("name", sorted(FIXTURES))
def test_a_second_time_there_is_nothing_to_do(name: str) -> None:
    after, kept = apply(ZED, FIXTURES[name], Settings("zed"), "Conductor")

    again = ZED.put(after, kept, "Conductor", LAUNCH)

    assert again.text == after
    assert again.settings == kept


def test_what_the_user_has_added_to_our_entry_stays() -> None:
    after, kept = apply(ZED, FIXTURES["others"], Settings("zed"), "Conductor")
    ours = '"command": "/opt/my bin/conductor",'
    mine = after.replace(ours, f'{ours}\n"default_mode": "plan", // mine')
    mine = mine.replace('"env": {}', '"env": {"KEY": "1"}')

    edit = ZED.put(mine, kept, "Conductor", Launch("/opt/conductor", ["agent", "demo"]))

    assert held(edit.text)["agent_servers"]["Conductor"] == {
        "type": "custom",
        "command": "/opt/conductor",
        "default_mode": "plan",
        "args": ["agent", "demo"],
        "env": {"KEY": "1"},
    }
    assert "// mine\n" in (edit.text or "")
    assert gone(ZED, edit.text, edit.settings, "Conductor") == FIXTURES["others"]


def test_an_edit_elsewhere_stays_and_all_else_comes_back() -> None:
    text = FIXTURES["others"]
    assert text is not None
    after, kept = apply(ZED, text, Settings("zed"), "Conductor")
    mine = after.replace("// mine", "/* ours */").replace('"other"', '"another"')

    expected = text.replace("// mine", "/* ours */").replace('"other"', '"another"')
    assert gone(ZED, mine, kept, "Conductor") == expected


def test_an_entry_behind_ours_leaves_a_valid_file() -> None:
    after, kept = apply(ZED, "{}", Settings("zed"), "Conductor")
    mine = after.replace('"env": {}\n    }', '"env": {}\n    },\n    "Other": {"command": "x"}')
    assert mine != after

    left = gone(ZED, mine, kept, "Conductor")

    assert held(left) == {"agent_servers": {"Other": {"command": "x"}}}
    assert jsonc.beyond_json(left or "") == -1


def test_somebody_elses_entry_of_the_same_name_stays() -> None:
    text = '{"agent_servers": {"Conductor": {"type": "custom", "command": "orchestra"}}}'

    with pytest.raises(UsageError, match=r":1:20: there is an entry `Conductor`") as caught:
        ZED.put(text, Settings("zed"), "Conductor", LAUNCH)

    assert "--name" in caught.value.hint


def test_an_entry_made_by_hand_is_given_back() -> None:
    text = '{"agent_servers": {"Conductor": {"command": "conductor", "args": ["agent", "x"]}}}'

    after, kept = apply(ZED, text, Settings("zed"), "Conductor")

    entry = held(after)["agent_servers"]["Conductor"]
    assert (entry["type"], entry["command"]) == ("custom", LAUNCH.command)
    assert gone(ZED, after, kept, "Conductor") == text


@pytest.mark.parametrize("editor", JSON)
@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_mistake_in_the_file_is_named_with_its_place(editor: str, name: str) -> None:
    text, place = WRONG[name]
    target = table.find(editor)

    with pytest.raises(UsageError) as caught:
        target.put(text, Settings(editor), "Conductor", LAUNCH)

    assert f"{target.file()}:{place}: " in caught.value.text
    assert "nothing was changed" in caught.value.text
    assert "--print" in caught.value.hint


@pytest.mark.parametrize("text", ["[]", '"x"', "null", '{"agent_servers": [1]}', "12"])
def test_a_file_of_another_shape_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r":1:\d+: .* wants an object; nothing was changed"):
        ZED.put(text, Settings("zed"), "Conductor", LAUNCH)


# -- wrapping --------------------------------------------------------------------------------------

FRONT = Launch("/opt/conductor", ["agent", "datetime"])
WRAPPED = """{
  "agent_servers": {
    // mine
    "Claude": {
      "type": "custom", // as Zed wants it
      "command": "npx",
      "args": ["-y", "claude-agent-acp"],
      "env": {"KEY": "1"},
      "default_mode": "plan",
    },
  },
}
"""


def wrapped(text: str = WRAPPED, front: Launch = FRONT) -> tuple[str, Settings]:
    """The settings with the conductor in front of `Claude`."""
    edit = ZED.wrap(text, Settings("zed"), "Claude", front)
    assert edit.text is not None
    return edit.text, edit.settings


def test_the_conductor_stands_in_front_of_an_entry_and_all_else_stays() -> None:
    after, kept = wrapped()

    assert held(after)["agent_servers"]["Claude"] == {
        "type": "custom",
        "command": "/opt/conductor",
        "args": ["agent", "datetime", "--", "npx", "-y", "claude-agent-acp"],
        "env": {"KEY": "1"},
        "default_mode": "plan",
    }
    assert "// as Zed wants it" in after
    assert gone(ZED, after, kept, "Claude") == WRAPPED


def test_wrapping_twice_wraps_once() -> None:
    after, kept = wrapped()

    same = ZED.wrap(after, kept, "Claude", FRONT)
    other = ZED.wrap(after, kept, "Claude", Launch("/opt/conductor", ["agent", "a", "b"]))

    assert (same.text, same.settings) == (after, kept)
    assert held(other.text)["agent_servers"]["Claude"]["args"] == [
        *("agent", "a", "b", "--", "npx", "-y", "claude-agent-acp"),
    ]
    assert gone(ZED, other.text, other.settings, "Claude") == WRAPPED


def test_of_a_wrapped_entry_that_was_changed_only_our_words_go() -> None:
    after, kept = wrapped()
    mine = after.replace('"claude-agent-acp"', '"claude-agent-acp@2"').replace("plan", "code")

    edit = ZED.remove(mine, kept, "Claude")

    expected = WRAPPED.replace('"claude-agent-acp"', '"claude-agent-acp@2"')
    assert edit.text == expected.replace("plan", "code")
    assert "only our words" in edit.remarks[0]


def test_a_wrapped_entry_with_another_command_has_nothing_of_ours() -> None:
    after, kept = wrapped()
    mine = after.replace("/opt/conductor", "npx")

    edit = ZED.remove(mine, kept, "Claude")

    assert edit.text == mine
    assert "nothing of ours" in edit.remarks[0]


def test_a_wrapped_entry_without_arguments_has_none_again() -> None:
    text = '{"agent_servers": {"Claude": {"command": "claude-agent-acp"}}}'
    after, kept = wrapped(text)
    mine = after.replace("claude-agent-acp", "claude")

    edit = ZED.remove(mine, kept, "Claude")

    assert held(edit.text)["agent_servers"]["Claude"]["command"] == "claude"
    assert "args" not in held(edit.text)["agent_servers"]["Claude"]
    assert gone(ZED, after, kept, "Claude") == text


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ('{"type": "registry", "env": {}}', "no command"),
        ('{"type": "extension"}', "no command"),
        ('{"command": "conductor", "args": ["agent", "demo"]}', "already starts a conductor"),
        ('{"command": "/x/python", "args": ["-m", "conductor", "agent", "x"]}', "already starts"),
        ("[]", "no command"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(entry: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        wrapped(f'{{"agent_servers": {{"Claude": {entry}}}}}')

    assert caught.value.hint


def test_an_entry_that_is_not_there_has_a_near_one() -> None:
    with pytest.raises(UsageError, match="has no entry `Cluade`") as caught:
        ZED.wrap(WRAPPED, Settings("zed"), "Cluade", FRONT)

    assert caught.value.hint == "did you mean `--wrap Claude`?"


def test_a_wrapped_entry_is_not_overwritten_by_one_of_ours() -> None:
    after, kept = wrapped()

    with pytest.raises(UsageError, match="that the conductor wraps"):
        ZED.put(after, kept, "Claude", LAUNCH)


def test_removing_what_was_never_added_is_refused() -> None:
    with pytest.raises(UsageError, match="has added no entry `Claude`"):
        ZED.remove("{}", Settings("zed"), "Claude")
    with pytest.raises(UsageError, match=r":4:5: `setup` has no record"):
        ZED.remove(WRAPPED, Settings("zed"), "Claude")


def test_removing_what_is_gone_forgets_it() -> None:
    _, kept = apply(ZED, None, Settings("zed"), "Conductor")

    edit = ZED.remove("{}", kept, "Conductor")

    assert (edit.text, edit.settings.entries) == ("{}", {})
    assert "not in Zed's settings any more" in edit.remarks[0]


@pytest.mark.parametrize("text", [r"a\u0000b", r"\ud800"])
def test_what_no_system_can_start_is_refused_and_stays(text: str) -> None:
    entry = f'{{"agent_servers": {{"Claude": {{"command": "{text}", "note": "\\udfff"}}}}}}'

    with pytest.raises(UsageError, match="no command"):
        wrapped(entry)

    after, kept = apply(ZED, entry, Settings("zed"), "Conductor")
    assert gone(ZED, after.encode().decode(), kept, "Conductor") == entry


def test_half_a_character_is_written_as_it_was() -> None:
    text = '{"agent_servers": {"Conductor": {"command": "conductor", "env": {"K": 1}}}}'

    assert jsonc.dumps(["\ud800", "😀", "ü"]) == r'["\ud800", "😀", "ü"]'
    with pytest.raises(UsageError, match="not the conductor's"):
        ZED.put(text, Settings("zed"), "Conductor", LAUNCH)


RELAID: Final = {"formatted": 4, "on one line": None}
"""How a formatter may write a file anew: its indentation."""


@pytest.mark.parametrize("name", sorted(RELAID))
def test_of_a_wrapped_entry_in_a_file_that_was_formatted_nothing_of_ours_stays(name: str) -> None:
    before = '{"agent_servers": {"Mine": {"command": "/mine", "env": {"A": "B"}}}}'
    edit = ZED.wrap(before, Settings("zed"), "Mine", LAUNCH)
    assert edit.text is not None
    formatted = json.dumps(json.loads(edit.text), indent=RELAID[name])

    removed = ZED.remove(formatted, edit.settings, "Mine")

    assert json.loads(removed.text or "") == json.loads(before)


THEIRS: Final = '{"agent_servers": {"Conductor": {"command": "/theirs", "args": ["--x"]}}}'


def test_an_entry_of_the_user_in_the_place_of_ours_stays() -> None:
    edit = ZED.put("{}", Settings("zed"), "Conductor", LAUNCH)

    removed = ZED.remove(THEIRS, edit.settings, "Conductor")

    assert removed.text == THEIRS
    assert "stays" in removed.remarks[0]


def test_an_entry_of_the_user_in_the_place_of_ours_is_wrapped_and_given_back() -> None:
    edit = ZED.put("{}", Settings("zed"), "Conductor", LAUNCH)

    wrapped = ZED.wrap(THEIRS, edit.settings, "Conductor", LAUNCH)
    removed = ZED.remove(wrapped.text, wrapped.settings, "Conductor")

    assert removed.text == THEIRS


def test_another_program_called_conductor_is_not_ours() -> None:
    theirs = '{"agent_servers": {"Conductor": {"command": "/opt/conductor", "args": ["serve"]}}}'

    with pytest.raises(UsageError, match="is not the conductor's"):
        ZED.put(theirs, Settings("zed"), "Conductor", LAUNCH)

    wrapped = ZED.wrap(theirs, Settings("zed"), "Conductor", LAUNCH)
    assert ZED.remove(wrapped.text, wrapped.settings, "Conductor").text == theirs


def test_a_file_made_anew_has_nothing_of_ours() -> None:
    edit = ZED.put(None, Settings("zed"), "Conductor", LAUNCH)
    edit.settings.created = True
    theirs = '{\n  "agent_servers": {}\n}'

    again = ZED.put(theirs, edit.settings, "Conductor", LAUNCH)
    removed = ZED.remove(again.text, again.settings, "Conductor")

    assert removed.text == theirs
    assert not again.settings.created


def test_a_word_that_json_cannot_say_is_refused() -> None:
    with pytest.raises(UsageError, match="is not UTF-8"):
        ZED.put(None, Settings("zed"), "Conductor", Launch("/opt/\udcff/conductor", ["agent"]))
