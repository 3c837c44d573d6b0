"""Neovim's plugins CodeCompanion and avante: the Lua file that puts conductor into them.

Both plugins are configured in the user's own Lua, which nobody but the user can edit safely. So
conductor writes a module of its own, and the user's configuration loads it by one line. Pure:
values in, text out.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

_INDENT: Final = "  "
_BEGINS: Final = """\
local function wrapped_already(command)
  for at, word in ipairs(prefix) do
    if command[at] ~= word then
      return false
    end
  end
  return true
end
"""


def literal(text: str) -> str:
    """A Lua string that means exactly these bytes, in every version of Lua.

    Printable ASCII stays, the quote and the backslash behind a backslash; every other byte is
    written by number.
    """
    return '"' + "".join(map(_byte, text.encode(errors="surrogateescape"))) + '"'


def _byte(byte: int) -> str:
    character = chr(byte)
    if character in '"\\':
        return f"\\{character}"
    return character if " " <= character <= "~" else f"\\{byte:03d}"


def values(words: Sequence[str]) -> str:
    """A Lua table of strings, one a line."""
    return "{\n" + "".join(f"{_INDENT}{literal(word)},\n" for word in words) + "}"


def _guarded(code: str) -> str:
    """Code whose mistakes Neovim tells, and whose end does not end the user's own settings."""
    return f"""\
do
  local well, why = pcall(function()
{textwrap.indent(code, 2 * _INDENT)}  end)
  if not well then
    vim.notify("conductor: " .. tostring(why), vim.log.levels.ERROR)
  end
end
"""


def codecompanion(key: str, title: str, command: Sequence[str]) -> str:
    """The code that adds an adapter to CodeCompanion.

    Args:
        key: The adapter's name in CodeCompanion.
        title: The title for the user.
        command: The command that CodeCompanion starts.
    """
    return _guarded(f"""\
local command = {values(command)}

require("codecompanion.config").adapters.acp[{literal(key)}] = function()
  -- The parts of a preset that say how CodeCompanion itself works; nothing of Claude's stays.
  local adapter = require("codecompanion.adapters.acp").extend("claude_code", {{
    name = {literal(key)},
    formatted_name = {literal(title)},
  }})
  adapter.commands = {{ default = command }}
  adapter.env = {{}}
  -- Log in with the agent's own program.
  adapter.handlers.auth = function()
    return true
  end
  return adapter
end
""")


def codecompanion_wrap(key: str, wrapped: str, prefix: Sequence[str]) -> str:
    """The code that puts conductor in front of all commands of an adapter of CodeCompanion."""
    del key
    return _guarded(f"""\
local prefix = {values(prefix)}

{_BEGINS}
local function wrap(commands)
  for name, command in pairs(commands or {{}}) do
    if type(command) == "table" and not wrapped_already(command) then
      commands[name] = vim.list_extend(vim.deepcopy(prefix), command)
    end
  end
end

local adapters = require("codecompanion.config").adapters.acp
local wrapped = {literal(wrapped)}
local original = adapters[wrapped]
if original == nil then
  error("CodeCompanion has no ACP adapter " .. wrapped, 0)
end
adapters[wrapped] = function()
  local adapter = require("codecompanion.adapters.acp").extend(original)
  wrap(adapter.commands)
  return adapter
end
-- CodeCompanion lays what is in `extend` over the adapter afterwards, so commands there count too.
wrap(((adapters.extend or {{}})[wrapped] or {{}}).commands)
""")


_AVANTE_READY: Final = """\
local providers = require("avante.config").acp_providers
if providers == nil then
  error("load this module below require('avante').setup(...)", 0)
end
"""


def avante(key: str, title: str, command: Sequence[str]) -> str:
    """The code that adds an ACP provider to avante. avante shows its key, and no title."""
    del title
    return _guarded(f"""\
local command = {values(command)}

{_AVANTE_READY}providers[{literal(key)}] = {{
  command = table.remove(command, 1),
  args = command,
  -- avante passes PATH alone; agents look for their logins with the help of HOME and others.
  env = vim.fn.environ(),
}}
""")


def avante_wrap(key: str, wrapped: str, prefix: Sequence[str]) -> str:
    """The code that puts conductor in front of an ACP provider of avante."""
    del key
    return _guarded(f"""\
local prefix = {values(prefix)}

{_BEGINS}
{_AVANTE_READY}local wrapped = {literal(wrapped)}
local original = providers[wrapped]
if original == nil then
  error("avante has no ACP provider " .. wrapped, 0)
end
local command = vim.list_extend({{ original.command }}, original.args or {{}})
if not wrapped_already(command) then
  local provider = vim.deepcopy(original)
  provider.args = vim.list_extend(vim.deepcopy(prefix), command)
  provider.command = table.remove(provider.args, 1)
  -- avante passes PATH and this alone; conductor finds the user's files with the help of HOME.
  provider.env = vim.tbl_extend("force", vim.fn.environ(), original.env or {{}})
  -- avante's preset for Claude has "bypassPermissions" here: then no request for permission ever
  -- reaches a proxy.
  provider.env.ACP_PERMISSION_MODE = nil
  providers[wrapped] = provider
end
""")
