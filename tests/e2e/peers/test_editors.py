"""Neovim and Emacs load what `conductor setup` writes for them, and start the chain.

`CONDUCTOR_PEERS_EDITORS` names a folder with checkouts of the plugins themselves; without it, small
stand-ins take their place that call our files as the plugins do.
"""

import base64
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from conductor.editors import lisp, lua
from tests.e2e.peers.conftest import Launch
from tests.places import DEADLINE

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

PLUGINS: Final = os.environ.get("CONDUCTOR_PEERS_EDITORS", "")
SETTINGS: Final = '{"component":"datetime","name":"dated","config":{"template":"ü\\n]] %{date}"}}'
INITIALIZE: Final = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": 1, "clientCapabilities": {}},
    }
)


class Editor:
    """An editor in a home of its own."""

    def __init__(self, launch: Launch, home: Path, program: str) -> None:
        found = shutil.which(program)
        if found is None:
            pytest.skip(f"needs {program} on PATH")
        self.program = found
        self.home = home
        self._launch = launch
        self._env = {**launch.env, "HOME": str(home)}
        for name in [each for each in self._env if each.startswith(("XDG_", "NVIM_"))]:
            del self._env[name]

    @property
    def demo(self) -> list[str]:
        """The command of an agent."""
        return [*self._launch.base, "agent", "demo"]

    def setup(self, *arguments: str) -> str:
        """Runs `conductor setup`."""
        command = [*self._launch.base, "setup", *arguments]
        return self._run(command)

    def run(self, *arguments: str) -> str:
        """Runs the editor; what it prints."""
        return self._run([self.program, *arguments])

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command,
            env=self._env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


def plugin(name: str) -> Path:
    """A checkout of a plugin."""
    path = Path(PLUGINS, name)
    if not PLUGINS or not path.is_dir():
        pytest.skip(f"needs {name} in the folder CONDUCTOR_PEERS_EDITORS")
    return path


# -- Neovim ----------------------------------------------------------------------------------------

_ASK: Final = """
local function ask(command, env)
  local answer = ""
  local job = vim.fn.jobstart(command, {
    env = env,
    on_stdout = function(_, lines) answer = answer .. table.concat(lines, "\\n") end,
  })
  vim.fn.chansend(job, INITIALIZE .. "\\n")
  vim.wait(60000, function() return answer:find("\\n") ~= nil end)
  vim.fn.jobstop(job)
  print(answer)
end
"""


@pytest.fixture
def neovim(launch: Launch, tmp_path: Path) -> Editor:
    return Editor(launch, tmp_path, "nvim")


def script(neovim: Editor, code: str, *plugins: Path) -> str:
    """Runs Lua in a Neovim with the user's folder; what it prints."""
    path = neovim.home / "script.lua"
    paths = "".join(f"vim.opt.rtp:append({json.dumps(str(each))})\n" for each in plugins)
    path.write_text(
        f"{paths}local INITIALIZE = {json.dumps(INITIALIZE)}\n{_ASK}\n"
        f"local ok, why = xpcall(function()\n{code}\nend, debug.traceback)\n"
        "if not ok then print(why) end\nvim.cmd(ok and 'qall!' or 'cquit!')\n"
    )
    config = neovim.home / ".config/nvim"
    return neovim.run("--headless", "--clean", "--cmd", f"set rtp^={config}", "-S", str(path))


def test_codecompanion_s_file_starts_the_chain(neovim: Editor) -> None:
    neovim.setup("codecompanion", SETTINGS, "demo")
    said = script(
        neovim,
        """
        local adapters = {}
        package.loaded["codecompanion.config"] = { adapters = { acp = adapters } }
        package.loaded["codecompanion.adapters.acp"] = {
          extend = function(_, more) more.handlers = {} return more end,
        }
        require("conductor_acp")
        ask(adapters.conductor().commands.default)
        """,
    )
    assert '"agentInfo":{"name":"demo"' in said


def test_avante_s_file_starts_the_chain(neovim: Editor) -> None:
    neovim.setup("avante", SETTINGS, "demo")
    said = script(
        neovim,
        """
        local providers = {}
        package.loaded["avante.config"] = { acp_providers = providers }
        require("conductor_acp_avante")
        local it = providers.conductor
        ask(vim.list_extend({ it.command }, it.args), it.env)
        """,
    )
    assert '"agentInfo":{"name":"demo"' in said


def test_codecompanion_itself_starts_the_chain(neovim: Editor) -> None:
    plugins = plugin("codecompanion.nvim"), plugin("plenary.nvim")
    neovim.setup("codecompanion", SETTINGS, "demo")
    neovim.setup("codecompanion", "datetime", "--wrap", "claude_code")
    neovim.setup("codecompanion", "datetime", "--wrap", "mine")
    said = script(
        neovim,
        f"local DEMO = {lua.values(neovim.demo)}"
        """
        require("codecompanion").setup({ adapters = { acp = { mine = function()
          return require("codecompanion.adapters").extend("opencode", {
            name = "mine", commands = { default = DEMO },
          })
        end } } })
        require("conductor_acp")
        local adapters = require("codecompanion.adapters")
        local it = require("codecompanion.acp").new({ adapter = adapters.resolve("conductor") })
        assert(it:connect_and_initialize())
        print("session", it.session_id, it._agent_info.agentInfo.title)
        local mine = require("codecompanion.acp").new({ adapter = adapters.resolve("mine") })
        assert(mine:connect_and_initialize())
        print("wrapped", mine.session_id, table.concat(mine.adapter_modified.command, " "))
        mine:disconnect()
        local wrapped = adapters.resolve("claude_code").commands
        print(table.concat(wrapped.yolo, " "))
        it:disconnect()
        """,
        *plugins,
    )
    assert "session demo-1 Demo agent" in said
    assert "wrapped demo-1 " in said
    assert f"agent datetime -- {' '.join(neovim.demo)}" in said
    assert "agent datetime -- claude-agent-acp --yolo" in said


def test_avante_itself_starts_the_chain(neovim: Editor) -> None:
    plugins = plugin("avante.nvim"), plugin("plenary.nvim")
    neovim.setup("avante", SETTINGS, "demo")
    neovim.setup("avante", "datetime", "--wrap", "claude-code")
    said = script(
        neovim,
        """
        local config = require("avante.config")
        config.setup({})
        require("conductor_acp_avante")
        local it = config.acp_providers.conductor
        local client = require("avante.libs.acp_client"):new({
          transport_type = "stdio", handlers = {}, reconnect = false,
          command = it.command, args = it.args, env = it.env,
        })
        local done
        client:connect(function(why) done = vim.inspect(why) end)
        vim.wait(60000, function() return done end)
        print("connected", done, client.state)
        it = config.acp_providers["claude-code"]
        print(it.command, table.concat(it.args, " "), it.env.ACP_PERMISSION_MODE)
        client:stop()
        """,
        *plugins,
    )
    assert "connected nil ready" in said
    assert "agent datetime -- claude-agent-acp nil" in said


# -- Emacs -----------------------------------------------------------------------------------------

_AGENT_SHELL: Final = """
(require 'cl-lib)
(defvar agent-shell-agent-configs (list (lambda () nil)))
(defvar-local state nil)
(cl-defun agent-shell-make-agent-config
    (&rest given &key identifier mode-line-name buffer-name shell-prompt shell-prompt-regexp
           client-maker)
  (ignore mode-line-name buffer-name shell-prompt shell-prompt-regexp client-maker identifier)
  (cl-loop for (key value) on given by #'cddr collect (cons key value)))
(defun agent-shell-get-config (buffer) (buffer-local-value 'state buffer))
(cl-defun agent-shell-start (&key config)
  (with-current-buffer (generate-new-buffer "shell")
    (setq state config)
    (funcall (alist-get :client-maker config) (current-buffer))))
(provide 'agent-shell)
"""
_ACP: Final = """
(cl-defun acp-make-client (&key command command-params context-buffer)
  (ignore context-buffer)
  (list (cons :command command) (cons :command-params command-params)))
(provide 'acp)
"""


@pytest.fixture
def emacs(launch: Launch, tmp_path: Path) -> Editor:
    return Editor(launch, tmp_path, "emacs")


def batch(emacs: Editor, code: str) -> str:
    path = emacs.home / "batch.el"
    path.write_text(f";;; -*- lexical-binding: t -*-\n{code}")
    return emacs.run("--batch", "-l", str(path))


def test_emacs_reads_the_same_words(emacs: Editor) -> None:
    chance = random.Random(14)  # noqa: S311
    words = ["", 'a"b\\c\n]]%g ü \U0001f389\x01\x7f\u202e', "\udcff\udc80x", "ü\udcff1"]
    for _ in range(300):
        many = [chance.choice([chance.randrange(256), ord(chance.choice('"\\nux0 '))])]
        raw = bytes(many * chance.randrange(1, 3)) + chance.randbytes(chance.randrange(9))
        words.append(os.fsdecode(raw))
    said = batch(
        emacs,
        f"(dolist (word '({lisp.values(words)}))\n"
        # As Emacs makes arguments of programs of them.
        "  (if (multibyte-string-p word) (setq word (encode-coding-string word 'utf-8-unix)))\n"
        '  (princ (concat (base64-encode-string word t) "\\n")))',
    )
    read = [base64.b64decode(line) for line in said.split("\n")[: len(words)]]
    assert read == [os.fsencode(word) for word in words]


@pytest.mark.parametrize("folder", sorted([".emacs.d", ".config/emacs"]))
def test_emacs_takes_the_same_folder(emacs: Editor, folder: str) -> None:
    (emacs.home / folder).mkdir(parents=True)
    emacs.setup("emacs", "demo")
    said = batch(emacs, "(princ (expand-file-name user-emacs-directory))")
    assert said.startswith(f"{emacs.home}/{folder}/")
    assert (emacs.home / folder / "conductor-acp.el").exists()


def test_emacs_starts_the_chain(emacs: Editor) -> None:
    stand_ins = emacs.home / "stand-ins"
    stand_ins.mkdir()
    (stand_ins / "agent-shell.el").write_text(f"{_AGENT_SHELL}(require 'acp)")
    (stand_ins / "acp.el").write_text(f"(require 'cl-lib){_ACP}")
    emacs.setup("emacs", SETTINGS, "demo")
    emacs.setup("emacs", "datetime", "--wrap", "claude-code")
    said = batch(
        emacs,
        f"""
(add-to-list 'load-path {lisp.literal(str(stand_ins))})
(load (expand-file-name "conductor-acp.el" user-emacs-directory) t)
(let* ((client (conductor-acp)) (answer "")
       (process (make-process
                 :name "it" :connection-type 'pipe
                 :command (cons (alist-get :command client) (alist-get :command-params client))
                 :filter (lambda (_ text) (setq answer (concat answer text))))))
  (process-send-string process {lisp.literal(INITIALIZE + chr(10))})
  (while (not (string-match-p "\\n" answer)) (accept-process-output process 1))
  (princ answer)
  (delete-process process))
(princ (mapcar (lambda (it) (if (functionp it) 'maker (alist-get :identifier it)))
               agent-shell-agent-configs))
(princ (agent-shell-start
        :config (list (cons :identifier 'claude-code)
                      (cons :client-maker
                            (lambda (buffer)
                              (acp-make-client :command "claude-agent-acp" :command-params '("-x")
                                               :context-buffer buffer))))))
""",
    )
    assert '"agentInfo":{"name":"demo"' in said
    assert "(conductor maker)" in said
    assert "agent datetime -- claude-agent-acp -x" in said


def test_emacs_itself_starts_the_chain(emacs: Editor) -> None:
    stand_ins = emacs.home / "stand-ins"
    stand_ins.mkdir()
    (stand_ins / "agent-shell.el").write_text(f"{_AGENT_SHELL}(require 'acp)")
    emacs.setup("emacs", SETTINGS, "demo")
    said = batch(
        emacs,
        f"""
(add-to-list 'load-path {lisp.literal(str(plugin("acp.el")))})
(add-to-list 'load-path {lisp.literal(str(stand_ins))})
(load (expand-file-name "conductor-acp.el" user-emacs-directory) t)
(let ((client (conductor-acp)) done)
  (acp-send-request :client client
                    :request (acp-make-initialize-request :protocol-version 1)
                    :on-success (lambda (it) (setq done it))
                    :on-failure (lambda (it) (setq done it)))
  (while (not done) (accept-process-output nil 1))
  (princ done)
  (acp-shutdown :client client))
""",
    )
    assert "(agentInfo (name . demo)" in said


# -- Toad ------------------------------------------------------------------------------------------


def test_toad_s_shell_starts_the_chain(launch: Launch, tmp_path: Path) -> None:
    """Toad passes the command to a shell; a program of its name stands in for it here."""
    toad = tmp_path / "bin/toad"
    toad.parent.mkdir()
    toad.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\n"
        'assert sys.argv[1] == "acp" and sys.argv[3:] == ["--title", "Conductor"]\n'
        "sys.exit(subprocess.run(sys.argv[2], shell=True).returncode)\n"
    )
    toad.chmod(0o755)
    env = {**launch.env, "HOME": str(tmp_path)}
    line = subprocess.check_output([*launch.base, "setup", "toad", SETTINGS, "demo"], env=env)
    command = next(each for each in line.decode().split("\n") if "toad acp" in each)
    done = subprocess.run(
        ["/bin/sh", "-c", command.strip()],
        env={**env, "PATH": f"{toad.parent}:{env['PATH']}"},
        input=f"{INITIALIZE}\n".encode(),
        capture_output=True,
        timeout=DEADLINE,
        check=True,
    )
    assert b'"agentInfo":{"name":"demo"' in done.stdout
