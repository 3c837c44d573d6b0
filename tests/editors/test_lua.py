"""The Lua that `conductor setup` writes, run by a real Lua."""

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.editors import lua
from conductor.editors.script_editor import Code
from tests.editors.neovim import LUAS, Neovim

ODD = "a\"b'c\\d\ne]]f--[[%s ü 🎉  \t\r\x01\udcff "
COMMAND = ["/opt/a b/conductor", "agent", ODD, "demo"]
WORDS = [os.fsencode(word) for word in COMMAND]
PREFIX = ["/opt/conductor", "agent", "datetime", "--"]

words = st.binary().map(os.fsdecode) | st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(params=sorted(LUAS))
def neovim(request: pytest.FixtureRequest) -> Neovim:
    return Neovim(request.param)


@pytest.mark.parametrize("which", sorted(LUAS))
def test_a_literal_means_the_same_bytes(which: str) -> None:
    neovim = Neovim(which)

    @given(words, words)
    def holds(word: str, next_word: str) -> None:
        assert neovim.read(lua.literal(word)) == os.fsencode(word)
        both = [os.fsencode(word), os.fsencode(next_word)]
        assert neovim.read(lua.values([word, next_word])) == both

    holds()


@given(words)
def test_a_literal_is_printable_ascii(word: str) -> None:
    assert lua.literal(word).isascii()
    assert lua.literal(word).isprintable()


def test_codecompanion_gets_an_adapter(neovim: Neovim) -> None:
    neovim.run(lua.codecompanion("conductor", ODD, COMMAND))
    neovim.run("adapter = codecompanion.adapters.acp.conductor()")
    assert neovim.read("adapter.commands") == {b"default": WORDS}
    assert neovim.read("adapter.formatted_name") == os.fsencode(ODD)
    assert neovim.read("adapter.env") == []
    assert neovim.read("adapter.handlers.auth()") is True
    # The preset itself stays as it was.
    assert neovim.read("preset.name") == b"claude_code"
    assert neovim.read("preset.handlers.auth()") is False


def test_each_command_of_a_wrapped_adapter_goes_through_conductor(neovim: Neovim) -> None:
    neovim.run(
        'codecompanion.adapters.acp.extend = { claude_code = { commands = { own = {"x"} } } }'
    )
    for _ in range(2):  # a second time changes nothing
        neovim.run(lua.codecompanion_wrap("claude_code", "claude_code", PREFIX))
    neovim.run("adapter = codecompanion.adapters.acp.claude_code()")
    prefix = [word.encode() for word in PREFIX]
    assert neovim.read("adapter.commands") == {
        b"default": [*prefix, b"claude-agent-acp"],
        b"yolo": [*prefix, b"claude-agent-acp", b"--yolo"],
    }
    extended = neovim.read("codecompanion.adapters.acp.extend.claude_code.commands.own")
    assert extended == [*prefix, b"x"]
    assert neovim.read("adapter.env.TOKEN") == b"TOKEN"
    assert neovim.read("adapter.handlers.auth()") is False
    assert neovim.read("preset.commands.default") == [b"claude-agent-acp"]


@pytest.mark.parametrize("wrap", [lua.avante_wrap, lua.codecompanion_wrap])
def test_an_unknown_adapter_is_told_and_ends_nothing(neovim: Neovim, wrap: Code) -> None:
    neovim.run(wrap("nobody", "nobody", PREFIX) + "after = 1\n")
    assert neovim.read("after") == 1
    (told,) = neovim.read("notified")
    assert re.fullmatch(rb"conductor: .* has no ACP .* nobody", told)


@pytest.mark.parametrize(
    "code",
    [
        lua.codecompanion("conductor", "Conductor", COMMAND),
        lua.codecompanion_wrap("claude_code", "claude_code", PREFIX),
        lua.avante("conductor", "Conductor", COMMAND),
        lua.avante_wrap("claude-code", "claude-code", PREFIX),
    ],
)
def test_a_plugin_that_is_not_there_ends_nothing(neovim: Neovim, code: str) -> None:
    neovim.run("require = function(name) error('module ' .. name .. ' not found') end")
    neovim.run(code + "after = 1\n")
    assert neovim.read("after") == 1
    (told,) = neovim.read("notified")
    assert b"not found" in told


def test_avante_gets_a_provider(neovim: Neovim) -> None:
    neovim.run(lua.avante("conductor", "Conductor", COMMAND))
    assert neovim.read("avante.acp_providers.conductor") == {
        b"command": WORDS[0],
        b"args": WORDS[1:],
        b"env": {b"HOME": b"/home/me", b"PATH": b"/usr/bin"},
    }


def test_avante_must_have_been_set_up(neovim: Neovim) -> None:
    neovim.run("avante.acp_providers = nil")
    neovim.run(lua.avante("conductor", "Conductor", COMMAND))
    (told,) = neovim.read("notified")
    assert b"below require" in told


def test_a_wrapped_provider_of_avante_asks_for_permission(neovim: Neovim) -> None:
    for _ in range(2):
        neovim.run(lua.avante_wrap("claude_code", "claude-code", PREFIX))
    provider = neovim.read('avante.acp_providers["claude-code"]')
    assert provider[b"command"] == PREFIX[0].encode()
    assert provider[b"args"] == [b"agent", b"datetime", b"--", b"claude-agent-acp", b"-x"]
    assert provider[b"env"] == {b"HOME": b"/home/me", b"PATH": b"/usr/bin"}
