"""A real Lua with as much of Neovim and its plugins as the files of `conductor setup` need."""

from typing import Any, Final

from lupa import lua51, luajit21  # type: ignore[import-untyped]

LUAS: Final = {"lua51": lua51, "luajit": luajit21}
"""Neovim has LuaJIT, and PUC Lua 5.1 where that does not exist."""

_NEOVIM: Final = b"""
local function copy(value)
  if type(value) ~= "table" then return value end
  local new = {}
  for k, v in pairs(value) do new[copy(k)] = copy(v) end
  return new
end
local function extend(how, into, ...)
  into = copy(into)
  for _, more in ipairs({...}) do
    for k, v in pairs(more) do
      if how == "deep" and type(v) == "table" and type(into[k]) == "table" and not v[1] then
        into[k] = extend(how, into[k], v)
      else
        into[k] = copy(v)
      end
    end
  end
  return into
end
notified = {}
vim = {
  deepcopy = copy,
  list_extend = function(list, more)
    for _, value in ipairs(more) do table.insert(list, value) end
    return list
  end,
  tbl_extend = function(_, ...) return extend("flat", ...) end,
  log = { levels = { ERROR = 4 } },
  notify = function(text, level)
    assert(level == 4)
    table.insert(notified, text)
  end,
  fn = { environ = function() return { HOME = "/home/me", PATH = "/usr/bin" } end },
}
preset = {
  name = "claude_code",
  commands = { default = { "claude-agent-acp" }, yolo = { "claude-agent-acp", "--yolo" } },
  env = { TOKEN = "TOKEN" },
  handlers = { auth = function() return false end },
}
codecompanion = { adapters = { acp = { claude_code = "claude_code" } } }
avante = { acp_providers = { ["claude-code"] = {
  command = "claude-agent-acp", args = { "-x" }, env = { ACP_PERMISSION_MODE = "bypassPermissions" }
} } }
local modules = {
  ["codecompanion.config"] = codecompanion,
  ["codecompanion.adapters.acp"] = { extend = function(adapter, more)
    if adapter == "claude_code" then adapter = preset end
    if type(adapter) == "function" then adapter = adapter() end
    return extend("deep", adapter, more or {})
  end },
  ["avante.config"] = avante,
}
require = function(name) return assert(modules[name], name) end
"""


class Neovim:
    """Runs Lua as Neovim would."""

    def __init__(self, lua: str = "luajit") -> None:
        self._lua = LUAS[lua].LuaRuntime(encoding=None, unpack_returned_tuples=True)
        self._lua.execute(_NEOVIM)

    def run(self, code: str) -> None:
        """Runs the code of a file."""
        self._lua.execute(code.encode(errors="surrogateescape"))

    def read(self, expression: str) -> Any:
        """The value of an expression: tables as lists or dictionaries, strings as bytes."""
        return _plain(self._lua.eval(expression.encode(errors="surrogateescape")))


def _plain(value: Any) -> Any:
    if not hasattr(value, "items"):
        return value
    items = {key: _plain(each) for key, each in value.items()}
    return list(items.values()) if list(items) == list(range(1, len(items) + 1)) else items
