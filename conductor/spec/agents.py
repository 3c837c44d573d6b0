"""The known agents: what starts each, how it is installed, how its user logs in, its quirks.

A word of a chain that is neither configured nor a component may be the id or an alias of one:
`opencode` means `opencode acp` (`conductor.spec.catalog`). Nothing here is ever installed or logged
in by conductor: it names the command, and the user runs it. The facts are those of the agents' own
documents, of the ACP registry and of acpx in November 2026; `tests/e2e/peers/agents.py` tries those
that npm and pip install.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import msgspec


class KnownAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent."""

    id: str
    """What chains call it."""
    name: str
    command: tuple[str, ...]
    """What starts it as an ACP agent: its program and arguments."""
    install: str
    """The command that installs it on Linux and macOS."""
    login: str
    """How its user logs in: what follows 'to log in, '."""
    aliases: tuple[str, ...] = ()
    """What others call it: the ACP registry, acpx."""
    programs: tuple[str, ...] = ()
    """Other programs that are the same agent."""
    version: tuple[str, ...] = ("--version",)
    """Arguments with which its program prints its version; none where it has no such arguments."""
    needs_login: bool = False
    """Whether it opens a session only for somebody who is logged in."""
    quirks: tuple[str, ...] = ()

    @property
    def all_programs(self) -> tuple[str, ...]:
        """The programs looked for, the preferred one first."""
        return (self.command[0], *self.programs)

    @property
    def package(self) -> str:
        """What its install command asks a package manager for; empty where that is a script."""
        words = self.install.split()
        by_manager = words[:3] in (["npm", "install", "-g"], ["uv", "tool", "install"])
        return words[3] if by_manager else ""


_NO_QUESTION: Final = (
    "opens a session for anybody: only a prompt shows that nobody is logged in, so `conductor "
    "agents` cannot know it"
)
_KEYS: Final = "has no login of its own"
_DEVIN_CLIENT: Final = (
    "may refuse a client that does not call itself `windsurf` in `initialize`; conductor passes on "
    "what the editor says"
)
_AGY_FILES: Final = (
    "comes as an archive for each system, of which the ACP registry (`antigravity-acp`) names the "
    "newest; its two programs belong in one folder"
)
_FAST_AGENT_URL: Final = (
    "appends `/mcp` to the address of an MCP server that ends otherwise: those of conductor end so"
)

TABLE: Final = (
    KnownAgent(
        id="amp",
        name="Amp",
        command=("amp-acp",),
        install="npm install -g amp-acp @sourcegraph/amp",
        login="run `amp login`, or set `AMP_API_KEY`",
        aliases=("amp-acp",),
        version=(),
        quirks=("an adapter: it runs the program `amp`, which must be on PATH, too",),
    ),
    KnownAgent(
        id="antigravity",
        name="Google Antigravity",
        command=("agy_acp_server.par", "--uid="),
        install=(
            "curl -fLO https://dl.google.com/agy-extensions/releases/linux/"
            "agy-acp-server-agy_acp_server_1.1.1-linux-x86_64.zip && unzip agy-acp-server-*.zip "
            "-d ~/.local/bin"
        ),
        login="follow its dialog in the editor",
        aliases=("antigravity-acp",),
        version=(),
        quirks=(_AGY_FILES,),
    ),
    KnownAgent(
        id="auggie",
        name="Auggie CLI",
        command=("auggie", "--acp"),
        install="npm install -g @augmentcode/auggie",
        login="run `auggie login`",
        needs_login=True,
        quirks=("updates itself: `AUGMENT_DISABLE_AUTO_UPDATE=1` keeps its version",),
    ),
    KnownAgent(
        id="autohand",
        name="Autohand Code",
        command=("autohand-acp",),
        install="npm install -g @autohandai/autohand-acp",
        login="run `autohand` and choose a provider",
        version=(),
        quirks=("an adapter: it runs the program `autohand`, which must be on PATH, too",),
    ),
    KnownAgent(
        id="claude",
        name="Claude Agent",
        command=("claude-agent-acp",),
        install="npm install -g @agentclientprotocol/claude-agent-acp",
        login="run `claude-agent-acp --cli auth login`, or set `ANTHROPIC_API_KEY`",
        aliases=("claude-acp", "claude-agent-acp", "claude-code", "claude-code-acp"),
        programs=("claude-code-acp",),
        version=(),
        quirks=(
            "an adapter: the program `claude` itself speaks no ACP",
            "its older versions are called `claude-code-acp`: conductor starts what is on PATH",
            _NO_QUESTION,
        ),
    ),
    KnownAgent(
        id="cline",
        name="Cline",
        command=("cline", "--acp"),
        install="npm install -g cline",
        login="run `cline auth`",
        needs_login=True,
    ),
    KnownAgent(
        id="codebuddy",
        name="CodeBuddy Code",
        command=("codebuddy", "--acp"),
        install="npm install -g @tencent-ai/codebuddy-code",
        login="run `codebuddy` and type `/login`",
        aliases=("codebuddy-code",),
    ),
    KnownAgent(
        id="codex",
        name="Codex",
        command=("codex-acp",),
        install="npm install -g @agentclientprotocol/codex-acp",
        login="run `npx -y @openai/codex login`",
        aliases=("codex-acp",),
        needs_login=True,
        quirks=(
            "an adapter: the program `codex` itself speaks no ACP",
            "`NO_BROWSER=1` hides its login with a browser",
        ),
    ),
    KnownAgent(
        id="copilot",
        name="GitHub Copilot CLI",
        command=("copilot", "--acp"),
        install="npm install -g @github/copilot",
        login="run `copilot login`",
        aliases=("github-copilot", "github-copilot-cli"),
        needs_login=True,
    ),
    KnownAgent(
        id="cortex",
        name="Cortex Code",
        command=("cortex", "acp", "serve"),
        install="curl -LsS https://ai.snowflake.com/static/cc-scripts/install.sh | sh",
        login="run `cortex` and choose a Snowflake connection",
        aliases=("cortex-code",),
    ),
    KnownAgent(
        id="crow",
        name="crow-cli",
        command=("crow-cli", "acp"),
        install="uv tool install crow-cli --python 3.14",
        login="write its providers and keys into `~/.crow/config.yaml`",
        aliases=("crow-cli",),
        quirks=(_KEYS,),
    ),
    KnownAgent(
        id="cursor",
        name="Cursor CLI",
        command=("cursor-agent", "acp"),
        install="curl https://cursor.com/install -fsS | bash",
        login="run `cursor-agent login`, or set `CURSOR_API_KEY`",
        aliases=("cursor-agent",),
        quirks=("the program `cursor` is the editor: conductor starts `cursor-agent`",),
    ),
    KnownAgent(
        id="deepagents",
        name="DeepAgents",
        command=("deepagents-acp",),
        install="npm install -g deepagents-acp",
        login="set the key of a model's provider, such as `ANTHROPIC_API_KEY`",
        aliases=("deepagents-acp",),
        version=(),
        quirks=(_KEYS, "other providers than its default need their package of LangChain, too"),
    ),
    KnownAgent(
        id="devin",
        name="Devin CLI",
        command=("devin", "acp"),
        install="curl -fsSL https://cli.devin.ai/install.sh | bash",
        login="run `devin auth login`",
        version=("version",),
        quirks=(_DEVIN_CLIENT,),
    ),
    KnownAgent(
        id="dimcode",
        name="DimCode",
        command=("dim", "acp"),
        install="npm install -g dimcode",
        login="run `dim provider add`, or `dim` and type `/connect`",
        aliases=("dim",),
        programs=("dimcode",),
    ),
    KnownAgent(
        id="dirac",
        name="Dirac",
        command=("dirac", "--acp"),
        install="npm install -g dirac-cli",
        login="run `dirac auth`",
    ),
    KnownAgent(
        id="droid",
        name="Factory Droid",
        command=("droid", "exec", "--output-format", "acp"),
        install="npm install -g droid",
        login="run `droid` and follow its dialog, or set `FACTORY_API_KEY`",
        aliases=("factory-droid", "factorydroid"),
        needs_login=True,
        quirks=("updates itself: `DROID_DISABLE_AUTO_UPDATE=true` keeps its version",),
    ),
    KnownAgent(
        id="fast-agent",
        name="fast-agent",
        command=("fast-agent-acp",),
        install="uv tool install fast-agent-acp",
        login="set the key of a model's provider, or run `fast-agent auth`",
        aliases=("fast-agent-acp",),
        quirks=(
            _KEYS,
            'runs a shell only with `-x`: for that write the command, `"fast-agent-acp -x"`',
            _FAST_AGENT_URL,
        ),
    ),
    KnownAgent(
        id="fx",
        name="fx",
        command=("fx", "acp"),
        install="curl -fsSL https://fx.sh/setup.sh | bash",
        login="run `fx` and follow its dialog",
        quirks=("a viewer of JSON is called `fx`, too: `path:fx` means the program alone",),
    ),
    KnownAgent(
        id="gemini",
        name="Gemini CLI",
        command=("gemini", "--acp"),
        install="npm install -g @google/gemini-cli",
        login="run `gemini` and choose how to log in, or set `GEMINI_API_KEY`",
        aliases=("gemini-cli",),
        needs_login=True,
        quirks=(
            "older versions know `--experimental-acp` only: for those write the whole command",
        ),
    ),
    KnownAgent(
        id="glm",
        name="GLM Agent",
        command=("glm-acp-agent",),
        install="npm install -g glm-acp-agent",
        login="set `Z_AI_API_KEY`",
        aliases=("glm-acp-agent",),
        version=(),
        quirks=(_KEYS, _NO_QUESTION),
    ),
    KnownAgent(
        id="goose",
        name="goose",
        command=("goose", "acp"),
        install=(
            "curl -fsSL https://github.com/block/goose/releases/download/stable/download_cli.sh "
            "| bash"
        ),
        login="run `goose configure`",
    ),
    KnownAgent(
        id="grok",
        name="Grok Build",
        command=("grok", "agent", "stdio"),
        install="npm install -g @xai-official/grok",
        login="run `grok login`, or set `XAI_API_KEY`",
        aliases=("grok-build",),
        needs_login=True,
        quirks=("names neither itself nor its version in `initialize`",),
    ),
    KnownAgent(
        id="harn",
        name="Harn",
        command=("harn", "serve", "acp"),
        install="curl -fsSL https://harnlang.com/install.sh | sh",
        login="set the key of a model's provider",
        quirks=(_KEYS,),
    ),
    KnownAgent(
        id="hermes",
        name="Hermes Agent",
        command=("hermes", "acp"),
        install="uv tool install 'hermes-agent[acp]'",
        login="run `hermes setup`, or `hermes model` to choose a provider",
        aliases=("hermes-agent",),
        quirks=(
            "takes some 10 s to start",
            "without a provider it refuses `session/new` with -32603, not as a missing login",
        ),
    ),
    KnownAgent(
        id="iflow",
        name="iFlow CLI",
        command=("iflow", "--experimental-acp"),
        install="npm install -g @iflow-ai/iflow-cli",
        login="run `iflow` and choose how to log in",
    ),
    KnownAgent(
        id="junie",
        name="Junie",
        command=("junie", "--acp=true"),
        install="curl -fsSL https://junie.jetbrains.com/install.sh | bash",
        login="run `junie` and follow its dialog",
    ),
    KnownAgent(
        id="kilo",
        name="Kilo Code",
        command=("kilo", "acp"),
        install="npm install -g @kilocode/cli",
        login="run `kilo auth login`",
        aliases=("kilocode",),
        programs=("kilocode",),
    ),
    KnownAgent(
        id="kimi",
        name="Kimi Code",
        command=("kimi", "acp"),
        install="npm install -g @moonshot-ai/kimi-code",
        login="run `kimi login`",
        aliases=("kimi-cli", "kimi-code"),
        needs_login=True,
        quirks=(
            "needs Node.js 22: an older one ends it with an error of its syntax",
            "its predecessor `kimi-cli`, of Python, has a program of the same name",
        ),
    ),
    KnownAgent(
        id="kiro",
        name="Kiro CLI",
        command=("kiro-cli-chat", "acp"),
        install="curl -fsSL https://cli.kiro.dev/install | bash",
        login="run `kiro-cli login`",
        aliases=("kiro-cli",),
        programs=("kiro-cli",),
        quirks=("`kiro-cli acp` leaves a child behind: conductor prefers `kiro-cli-chat`",),
    ),
    KnownAgent(
        id="mcode",
        name="MiniMax Code",
        command=("mcode", "acp"),
        install="npm install -g @minimax-ai/code",
        login="run `mcode login`",
        aliases=("minimax-code",),
        quirks=("`minion-code` installs a program `mcode`, too, which is that agent",),
    ),
    KnownAgent(
        id="minion-code",
        name="Minion Code",
        command=("minion-code", "acp"),
        install="uv tool install minion-code",
        login="set the key of a model's provider, such as `OPENROUTER_API_KEY`",
        aliases=("minion",),
        version=(),
        needs_login=True,
    ),
    KnownAgent(
        id="mux",
        name="Mux",
        command=("mux", "acp"),
        install="npm install -g mux",
        login="set the key of a model's provider, such as `ANTHROPIC_API_KEY`",
        quirks=(_KEYS,),
    ),
    KnownAgent(
        id="nova",
        name="Nova",
        command=("nova", "acp"),
        install="npm install -g @compass-ai/nova",
        login="run `nova` and follow its dialog",
    ),
    KnownAgent(
        id="openclaw",
        name="OpenClaw",
        command=("openclaw", "acp"),
        install="npm install -g openclaw",
        login="run `openclaw onboard`",
        quirks=(
            "needs Node.js 22",
            "a bridge to the OpenClaw Gateway, which must run",
            "refuses the MCP servers of a session: leave out proxies that bring some",
        ),
    ),
    KnownAgent(
        id="opencode",
        name="OpenCode",
        command=("opencode", "acp"),
        install="npm install -g opencode-ai",
        login="run `opencode auth login`",
        quirks=("has free models that need no login", _NO_QUESTION),
    ),
    KnownAgent(
        id="openhands",
        name="OpenHands",
        command=("openhands", "acp"),
        install="uv tool install openhands --python 3.12",
        login="run `openhands login`",
    ),
    KnownAgent(
        id="pi",
        name="Pi",
        command=("pi-acp",),
        install="npm install -g pi-acp @earendil-works/pi-coding-agent",
        login="run `pi` and type `/login`, or set the key of a model's provider",
        aliases=("pi-acp",),
        version=(),
        needs_login=True,
        quirks=(
            "an adapter: it runs the program `pi`, which must be on PATH, too",
            "asks for no permission: proxies see no request for one",
        ),
    ),
    KnownAgent(
        id="pool",
        name="Poolside",
        command=("pool", "acp"),
        install="curl -fsSL https://downloads.poolside.ai/pool/install.sh | sh",
        login="run `pool login`",
        aliases=("poolside",),
    ),
    KnownAgent(
        id="qoder",
        name="Qoder CLI",
        command=("qodercli", "--acp"),
        install="npm install -g @qoder-ai/qodercli",
        login="run `qodercli login`",
        aliases=("qodercli",),
        programs=("qoder",),
        needs_login=True,
    ),
    KnownAgent(
        id="qwen",
        name="Qwen Code",
        command=("qwen", "--acp"),
        install="npm install -g @qwen-code/qwen-code",
        login="run `qwen auth`, or set `OPENAI_API_KEY`, `OPENAI_BASE_URL` and `OPENAI_MODEL`",
        aliases=("qwen-code",),
        needs_login=True,
    ),
    KnownAgent(
        id="sigit",
        name="siGit Code",
        command=("sigit",),
        install="npm install -g @smbcloud/sigit",
        login="nothing is to be done: its models run on this machine",
        aliases=("sigit-code",),
    ),
    KnownAgent(
        id="stakpak",
        name="Stakpak",
        command=("stakpak", "acp"),
        install="curl -fsSL https://stakpak.dev/install.sh | sh",
        login="run `stakpak auth login`",
    ),
    KnownAgent(
        id="trae",
        name="Trae CLI",
        command=("traecli", "acp", "serve"),
        install="curl -fsSL https://trae.cn/trae-cli/install_v2.sh | sh",
        login="run `traecli login`",
        aliases=("trae-cli", "traecli"),
        programs=("trae-cli",),
    ),
    KnownAgent(
        id="vibe",
        name="Mistral Vibe",
        command=("vibe-acp",),
        install="uv tool install mistral-vibe",
        login="run `vibe --setup`, or set `MISTRAL_API_KEY`",
        aliases=("mistral-vibe", "vibe-acp"),
    ),
    KnownAgent(
        id="vtcode",
        name="VT Code",
        command=("vtcode", "acp"),
        install="cargo install vtcode",
        login="set the key of a model's provider, such as `OPENAI_API_KEY`",
        quirks=(_KEYS, "speaks ACP only with `VT_ACP_ENABLED=1` in its environment"),
    ),
    KnownAgent(
        id="zeroclaw",
        name="ZeroClaw",
        command=("zeroclaw", "acp"),
        install=(
            "curl -fsSL https://raw.githubusercontent.com/zeroclaw-labs/zeroclaw/master/install.sh "
            "| bash"
        ),
        login="run `zeroclaw onboard`",
    ),
)
"""The agents, by id."""


@cache
def _by_word() -> dict[str, KnownAgent]:
    return {word: agent for agent in TABLE for word in (agent.id, *agent.aliases)}


def words() -> Iterator[str]:
    """Every id and alias."""
    return iter(_by_word())


def named(word: str) -> KnownAgent | None:
    """The agent that a word means, an id or an alias."""
    return _by_word().get(word)


def of_program(program: str) -> KnownAgent | None:
    """The agent whose program this is, a name or a path."""
    name = _plain(program)
    return next((agent for agent in TABLE if name in agent.all_programs), None)


def of_command(command: Sequence[str]) -> KnownAgent | None:
    """The agent that a command starts: its program, or its package behind `npx` or `uvx`."""
    if not command:
        return None
    if _plain(command[0]) not in ("npx", "uvx", "bunx", "pnpm", "npm", "uv", "bun"):
        return of_program(command[0])
    asked = {_unpinned(word) for word in command[1:]}
    return next((agent for agent in TABLE if agent.package in asked and agent.package), None)


def _plain(program: str) -> str:
    """The name of a program without its folder, and without an ending of Windows."""
    name = os.path.basename(program)
    stem, ending = os.path.splitext(name)
    return stem if ending.lower() in (".exe", ".cmd", ".bat") else name


def _unpinned(word: str) -> str:
    """A package without its version: `@scope/name@1.2` is `@scope/name`."""
    name, at, _ = word.rpartition("@")
    return name.partition("==")[0] if at and name else word.partition("==")[0]


def login_hint(agent: KnownAgent) -> str:
    """What to do when an agent refuses because nobody is logged in."""
    return f"to log in, {agent.login}; then try again"


def missing(agent: KnownAgent, word: str) -> tuple[str, str]:
    """The error for an agent whose program is not on PATH, and its hint."""
    called = f"`{word}`" if word == agent.id else f"`{word}` ({agent.id})"
    programs = " or ".join(f"`{program}`" for program in agent.all_programs)
    text = f"the agent {called} is not installed: there is no program {programs} on PATH"
    return text, f"install it with `{agent.install}`"
