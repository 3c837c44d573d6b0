"""The table of editors: the place and form of each editor's agents, and its user's next step."""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from conductor.editors import lisp, lua
from conductor.editors.json_editor import JsonEditor, Shape
from conductor.editors.script_editor import ScriptEditor, text_of
from conductor.editors.target import Launch, Target
from conductor.editors.toad import Toad
from conductor.errors import UsageError, did_you_mean
from conductor.version import version


def home(*parts: str) -> str:
    """A path in the user's home folder. Raises `UsageError` where there is none."""
    base = os.path.expanduser("~")
    # An empty HOME would mean the root of the file system, and nobody sets it for that.
    if not os.path.isabs(base) or not os.environ.get("HOME", base):
        raise UsageError("there is no home folder", "set HOME to an absolute path")
    return os.path.join(base, *parts)


def config(*parts: str) -> str:
    """A path in the user's folder of configuration (XDG base directory specification)."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(base, *parts) if os.path.isabs(base) else home(".config", *parts)


# -- Zed, JetBrains, VS Code: members with a command, arguments and variables ----------------------


def _read(entry: dict[str, Any]) -> Launch | None:
    command, args, env = entry.get("command"), entry.get("args") or [], entry.get("env") or {}
    if entry.get("type") in ("registry", "extension"):
        return None  # Zed keeps their commands in its registry
    if not isinstance(command, str) or not command or not _are_texts(args):
        return None
    if not isinstance(env, dict) or not _are_texts([*env.values()]):
        return None
    return Launch(command, args, env) if _runs([command, *args, *env, *env.values()]) else None


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _runs(texts: list[str]) -> bool:
    """Whether a system takes these texts as words and variables of a program."""
    try:
        return b"\0" not in "".join(texts).encode()
    except UnicodeEncodeError:  # half of a character
        return False


def _write(entry: dict[str, Any], name: str, launch: Launch) -> dict[str, Any]:
    written = {**entry, "command": launch.command}
    if launch.args or "args" in entry or not entry:
        written["args"] = launch.args
    if launch.env or "env" in entry or not entry:
        written["env"] = launch.env
    return written


def _write_typed(entry: dict[str, Any], name: str, launch: Launch) -> dict[str, Any]:
    others = {key: each for key, each in entry.items() if key != "type"}
    return {"type": "custom", **_write(others, name, launch)}


def _vscode() -> str:
    if sys.platform == "darwin":
        return home("Library", "Application Support", "Code", "User", "settings.json")
    return config("Code", "User", "settings.json")


# -- Devin: a registry of agents -------------------------------------------------------------------

_SYSTEMS: Final = {"darwin": "darwin", "linux": "linux"}
_MACHINES: Final = {"arm64": "aarch64", "aarch64": "aarch64"}


def _machine() -> str:
    """This machine, as the ACP registry calls it."""
    machine = _MACHINES.get(platform.machine().lower(), "x86_64")
    return f"{_SYSTEMS.get(sys.platform, 'linux')}-{machine}"


def _devin() -> str:
    folder = home(".windsurf")
    following = home(".windsurf-next")
    if os.path.isdir(following) and not os.path.isdir(folder):
        folder = following
    return os.path.join(folder, "acp", "registry.json")


def _read_agent(entry: dict[str, Any]) -> Launch | None:
    at: Any = entry
    for key in ("distribution", "binary", _machine()):
        at = at.get(key) if isinstance(at, dict) else None
    if not isinstance(at, dict):
        return None
    command = at.get("cmd")
    if not isinstance(command, str) or command.startswith("."):  # in an archive
        return None
    return _read({"command": command, "args": at.get("args"), "env": at.get("env")})


def _write_agent(entry: dict[str, Any], name: str, launch: Launch) -> dict[str, Any]:
    fresh = {
        "id": _slug(name),
        "name": name,
        "version": version(),
        "description": "A chain of proxies and an agent, run by conductor",
    }
    distribution = entry.get("distribution") or {}
    binary = distribution.get("binary") or {}
    # The registry demands the address of an archive. Devin loads none: it starts `cmd`.
    present = binary.get(_machine()) or {"archive": f"file://{quote(os.fsencode(launch.command))}"}
    started = {**present, "cmd": launch.command, "args": launch.args}
    if launch.env:
        started["env"] = launch.env
    binary = {**binary, _machine(): started}
    return {**(entry or fresh), "distribution": {**distribution, "binary": binary}}


def _slug(name: str) -> str:
    """An id as the ACP registry wants it. Names that lose letters by it still have ids of their
    own."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not name.isascii():
        digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()
        slug = f"{slug}-{digest[:6]}".lstrip("-")
    return slug if slug[:1].isalpha() else f"agent-{slug}".rstrip("-")


# -- acpx ------------------------------------------------------------------------------------------

_UNFIT: Final = re.compile(r"[\s'\"]")
"""Characters that acpx refuses in a command that has arguments beside it."""


def _read_acpx(entry: dict[str, Any]) -> Launch | None:
    words = entry.get("argv")
    if words is None and isinstance(entry.get("command"), str) and "args" not in entry:
        try:
            words = shlex.split(entry["command"])
        except ValueError:
            return None
    if words is None:
        return _read(entry)
    return _read({"command": words[0], "args": words[1:]}) if _are_texts(words) and words else None


def _write_acpx(entry: dict[str, Any], name: str, launch: Launch) -> dict[str, Any]:
    others = {key: each for key, each in entry.items() if key not in ("argv", "command", "args")}
    if "argv" in entry or _UNFIT.search(launch.command):
        return {"argv": launch.words, **others}
    return {"command": launch.command, "args": launch.args, **others}


# -- Neovim, Emacs: files of ours ------------------------------------------------------------------


_MOST_FILES: Final = 1000
"""Of a user's settings."""


def _neovim(module: str) -> str:
    """A module for the user's Neovim configuration. Raises `UsageError`."""
    name = os.environ.get("NVIM_APPNAME") or "nvim"
    if os.path.isabs(name) or ".." in name.split("/"):
        raise UsageError(
            f"NVIM_APPNAME is `{name}`, which Neovim refuses",
            "set it to the name of a folder in your folder of configuration, or unset it",
        )
    return config(name, "lua", f"{module}.lua")


def _neovim_settings() -> Iterator[str]:
    """The files of the user's Neovim configuration. Raises `UsageError`."""
    folder = os.path.dirname(os.path.dirname(_neovim("")))
    found = (os.path.join(inner, name) for inner, names in _folders(folder) for name in names)
    scripts = (path for path in found if path.endswith((".lua", ".vim")))
    yield from itertools.islice(scripts, _MOST_FILES)


def _folders(folder: str) -> Iterator[tuple[str, list[str]]]:
    """A folder and those below it with the names of their files, each once: links may lead in a
    circle."""
    seen = set()
    for inner, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(inner)
        if real in seen:
            folders.clear()
        else:
            seen.add(real)
            folders[:] = [name for name in sorted(folders) if not name.startswith(".")]
            yield inner, sorted(names)


def _emacs_settings() -> Iterator[str]:
    """The files that may be the user's init file (the Emacs manual, "Find Init")."""
    folder = os.path.dirname(_emacs())
    yield from (home(".emacs"), home(".emacs.el"))
    yield from glob.iglob(os.path.join(glob.escape(folder), "*.el"))


def _emacs() -> str:
    """Our file in the folder that Emacs takes for the user's (its manual, "Find Init")."""
    folder = home(".emacs.d")
    other = config("emacs")
    if os.path.exists(other) and not (os.path.exists(folder) or os.path.exists(home(".emacs"))):
        folder = other
    return os.path.join(folder, "conductor-acp.el")


# -- the table -------------------------------------------------------------------------------------

_EDITORS: Final = (
    JsonEditor(
        name="zed",
        title="Zed",
        programs=("zed", "zeditor"),
        place=lambda: config("zed", "settings.json"),
        where="agent_servers",
        shape=Shape(
            _read,
            _write_typed,
            no_command="Zed starts it from its registry: add an entry beside it, "
            "`conductor setup zed COMPONENT… AGENT`",
        ),
        comments=True,
        pick="in Zed's agent panel, the `+` menu has `{name}`",
        logs="Zed's command palette: `dev: open acp logs`",
        note="In a project over SSH or in WSL, Zed starts agents on the other machine: run this "
        "there as well",
    ),
    JsonEditor(
        name="jetbrains",
        title="JetBrains",
        place=lambda: home(".jetbrains", "acp.json"),
        where="agent_servers",
        shape=Shape(_read, _write, no_command="give it a command there first"),
        pick="in AI Chat, the list of agents has `{name}` (IDE and AI Assistant 2025.3 or later)",
        logs="the menu of AI Chat: `Get ACP Logs`",
        note="In WSL, these IDEs start no agents",
    ),
    JsonEditor(
        name="vscode",
        title="VS Code",
        programs=("code",),
        place=_vscode,
        where="acp.agents",
        shape=Shape(_read, _write, no_command="give it a command there first"),
        comments=True,
        pick="in the view of the extension ACP Client (`formulahendry.acp-client`), connect to "
        "`{name}`",
        logs="VS Code's command palette: `ACP: Show Log` and `ACP: Show Protocol Traffic`",
        note="VS Code adds the entry to the agents that the extension brings",
    ),
    JsonEditor(
        name="devin",
        title="Devin Desktop",
        place=_devin,
        where="agents",
        shape=Shape(
            _read_agent,
            _write_agent,
            key=_slug,
            listed=True,
            no_command="Devin starts it by its package: add an entry beside it, `conductor setup "
            'devin COMPONENT… "npx -y PACKAGE"`',
        ),
        fresh={"version": "1.0.0", "extensions": []},
        pick="in Devin User Settings, tab Agents, switch `{name}` on, and restart Devin; then the "
        "list of agents at its lower right has it",
        logs="Devin documents none of its own",
    ),
    JsonEditor(
        name="acpx",
        title="acpx",
        programs=("acpx",),
        place=lambda: home(".acpx", "config.json"),
        where="agents",
        shape=Shape(
            _read_acpx,
            _write_acpx,
            key=lambda name: name.strip().lower(),
            no_command="give it a command there first",
        ),
        bare=False,
        pick='`acpx {key} "your prompt"`',
        logs="`acpx --verbose …` shows them",
    ),
)

_SCRIPTED: Final = (
    ScriptEditor(
        name="codecompanion",
        title="Neovim: CodeCompanion",
        programs=("nvim",),
        place=lambda: _neovim("conductor_acp"),
        comment="--",
        adds=lua.codecompanion,
        wraps=lua.codecompanion_wrap,
        load='require("conductor_acp")',
        where='to your Neovim configuration, below require("codecompanion").setup(...)',
        own=_neovim_settings,
        pick="in Neovim, `:CodeCompanionChat adapter={key}`",
        logs="in Neovim, `:checkhealth codecompanion` names CodeCompanion's log",
    ),
    ScriptEditor(
        name="avante",
        title="Neovim: avante",
        programs=("nvim",),
        place=lambda: _neovim("conductor_acp_avante"),
        comment="--",
        adds=lua.avante,
        wraps=lua.avante_wrap,
        load='require("conductor_acp_avante")',
        where='to your Neovim configuration, below require("avante").setup(...)',
        own=_neovim_settings,
        pick="in Neovim, `:AvanteSwitchProvider` lists `{key}`; avante begins with it if the line "
        'behind is `require("avante.config").override({{ provider = "{key}" }})`',
        logs="in Neovim, `:messages`; avante shows no output of an agent",
        warning="avante's own entry for Claude sets ACP_PERMISSION_MODE to bypassPermissions: then "
        "no request for permission reaches a proxy. Ours does not set it, and `--wrap` takes it "
        "out",
    ),
    ScriptEditor(
        name="emacs",
        title="Emacs",
        programs=("emacs",),
        place=_emacs,
        comment=";;",
        adds=lisp.agent_shell,
        wraps=lisp.agent_shell_wrap,
        first_line="  -*- lexical-binding: t; -*-",
        load='(load (expand-file-name "conductor-acp.el" user-emacs-directory) t)',
        where="at the end of your init file (it needs agent-shell)",
        own=_emacs_settings,
        pick="in Emacs, `M-x agent-shell` lists `{name}`",
        logs="in Emacs, `M-x agent-shell-view-acp-logs`",
        bare=True,
    ),
)

TARGETS: Final[dict[str, Target]] = {
    editor.name: editor for editor in (*_EDITORS, *_SCRIPTED, Toad())
}
"""Every editor that `conductor setup` knows, by the name that is typed."""

_OTHER_NAMES: Final[dict[str, str]] = {
    "code": "vscode",
    "vs-code": "vscode",
    "visual-studio-code": "vscode",
    "intellij": "jetbrains",
    "idea": "jetbrains",
    "pycharm": "jetbrains",
    "webstorm": "jetbrains",
    "goland": "jetbrains",
    "clion": "jetbrains",
    "rider": "jetbrains",
    "windsurf": "devin",
    "agent-shell": "emacs",
}


_PLUGGED: Final = ("nvim", "neovim", "vim", "vi")
"""Names of an editor in which plugins speak ACP: the installed plugin shows which one is meant."""


def _of_neovim(name: str) -> Target:
    """The plugin of Neovim that the user has. Raises `UsageError` for none, or for both."""
    ours = [TARGETS[each].file() for each in ("codecompanion", "avante")]
    settings = "".join(text_of(path) for path in _neovim_settings() if path not in ours)
    found = [each for each in ("codecompanion", "avante") if each in settings]
    if len(found) == 1:
        return TARGETS[found[0]]
    has = "your settings name both" if found else "your settings name neither"
    raise UsageError(
        f"`{name}` speaks ACP by a plugin, CodeCompanion or avante; {has}",
        "`conductor setup codecompanion …` or `conductor setup avante …`",
    )


def find(name: str) -> Target:
    """An editor by its name. Raises `UsageError`."""
    if name.lower() in _PLUGGED:
        return _of_neovim(name)
    target = TARGETS.get(_OTHER_NAMES.get(name.lower(), name.lower()))
    if target is None:
        raise UsageError(
            f"there is no editor `{name}` that `setup` knows",
            did_you_mean(
                name, [*TARGETS, *_OTHER_NAMES, *_PLUGGED], f"there are: {', '.join(TARGETS)}"
            ),
        )
    return target
