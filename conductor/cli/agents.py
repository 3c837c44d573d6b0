"""`conductor agents`: which known agents are installed, answer, and have somebody logged in.

Each agent on PATH is started in an empty folder and asked (`conductor.client.probe`), several at
a time; afterwards nothing of it is left. An agent that a managed policy forbids is not started.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import shutil
import signal
from collections.abc import Sequence
from typing import Annotated, Final, NoReturn

import msgspec

from conductor import tasks
from conductor.cli import pages, report, status
from conductor.cli.typer_options import JsonArray, argument, option, paragraphs
from conductor.client import probe
from conductor.client.probe_exchange import AuthMethod, Login, Probe
from conductor.errors import UsageError, did_you_mean, visible_path
from conductor.spec import agents as known_agents
from conductor.spec import managed
from conductor.spec.agents import KnownAgent
from conductor.spec.model import Spec
from conductor.spec.programs import first_of
from conductor.transports.process_groups import adopt_orphans, end_strays

HELP: Final = paragraphs(
    "Show the agents that conductor knows: where each agent is or how to install it, whether it "
    "answers, and whether you are logged in.",
    "Conductor starts each installed agent in an empty folder, asks the agent to open a session, "
    "and ends it. Exit code 1 when an agent that you named is not installed or does not answer.",
)
EPILOG: Final = "Examples:\n\n  conductor agents\n\n  conductor agents opencode"

_AT_ONCE: Final = 8
"""Agents asked at a time."""

_NARROWEST: Final = 60
_WIDEST: Final = 100
_INDENT: Final = 12
_SHORT: Final = re.compile(r"v?(\d+\.\d[\w.+-]*)")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about one agent; an object of `--json`."""

    id: str
    name: str
    command: str
    """The command that starts it, as a person would type it."""
    installed: bool = False
    program: str = ""
    """The path of its program."""
    version: str = ""
    answers: bool = False
    """Whether it answers `initialize` in the version of ACP that conductor speaks."""
    protocol: int | None = None
    """The version of ACP it answered with."""
    session: bool = False
    """Whether it opened a session."""
    logged_in: str = Login.UNKNOWN.value
    error: str = ""
    """Its mistake: a sentence that follows its name."""
    install: str
    login: str
    auth_methods: list[AuthMethod] = []
    aliases: tuple[str, ...] = ()
    quirks: tuple[str, ...] = ()


def agents(
    names: Annotated[
        list[str] | None,
        argument("NAME", "Agents to show in detail; default: all."),
    ] = None,
    timeout: Annotated[
        float,
        option("--timeout", "SECONDS", "For all of them together.", min=1.0, max=600.0),
    ] = 20.0,
    json_: JsonArray = False,
) -> int:
    """Shows the known agents."""
    return show(names or [], timeout=timeout, as_json=json_)


def show(names: Sequence[str], *, timeout: float, as_json: bool) -> int:
    """Prints the facts about the agents with these names, or about all.

    Returns 1 if a named agent is not installed or does not answer, else 0. Raises `UsageError`.
    """
    wanted = list(dict.fromkeys(map(_named, names))) or list(known_agents.table())
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        findings = asyncio.run(_found(wanted, timeout))
    finally:
        end_strays()
    width = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))
    if as_json:
        report.say_json(findings)
    elif names:
        report.say(*details(findings, width))
    else:
        report.say(*overview(findings, width))
    return 1 if names and not all(each.answers for each in findings) else 0


def _stop(number: int, _frame: object) -> NoReturn:
    """Ends the command as an interrupt does: the agents and their folders go first."""
    raise SystemExit(128 + number)


def _named(name: str) -> KnownAgent:
    agent = known_agents.named(name)
    if agent is None:
        other = "`conductor agents` lists those it knows; any command can be an agent of a chain"
        hint = did_you_mean(name, known_agents.words(), other)
        raise UsageError(f"conductor knows no agent `{name}`", hint)
    return agent


# -- asking ----------------------------------------------------------------------------------------


async def _found(wanted: Sequence[KnownAgent], seconds: float) -> list[Finding]:
    """The facts about each agent, the installed ones first."""
    turns = asyncio.Semaphore(_AT_ONCE)
    paths = {agent.id: first_of(agent.all_programs) for agent in wanted}
    found = {agent.id: _finding(agent) for agent in wanted}
    waiting = dict.fromkeys(id_ for id_, path in paths.items() if path is not None)

    async def ask(agent: KnownAgent, path: str, deadline: float) -> None:
        has_waited = turns.locked()
        async with turns:
            share = deadline - loop.time() if has_waited else seconds
            found[agent.id] = await _asked(agent, path, share, seconds)
        del waiting[agent.id]

    loop = asyncio.get_running_loop()
    async with status.waiting(lambda: f"waiting for {', '.join(waiting)}"), tasks.group() as asking:
        deadline = loop.time() + seconds
        for agent in wanted:
            if path := paths[agent.id]:
                asking.start_soon(ask, agent, path, deadline)
    return sorted(found.values(), key=lambda each: not each.installed)


async def _asked(agent: KnownAgent, path: str, share: float, seconds: float) -> Finding:
    """The facts about an agent, asked in its share of the seconds for all."""
    try:
        spec = Spec(name=agent.id, command=[path, *agent.command[1:]], source=agent.id)
        managed.tried(spec, agent=True)
    except UsageError as error:
        return _finding(agent, path, Probe(error=f"was not started: {error.text}"))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + share
    found = Probe(error="was not asked: the time was over")
    if share > 0:
        command = spec.command or []
        found = await probe.probing(command, None, share, proves_login=agent.needs_login)
    left = deadline - loop.time()
    if share < seconds - 1 and left <= 0 and found.error:
        alone = f"{found.error}; `conductor agents {agent.id} --timeout 60` gives it more time"
        found = msgspec.structs.replace(found, error=alone)
    elif agent.version and not found.version:
        version = await probe.version_of([path, *agent.version], left)
        found = msgspec.structs.replace(found, version=version)
    return _finding(agent, path, found)


def _finding(agent: KnownAgent, path: str = "", found: Probe | None = None) -> Finding:
    found = found or Probe()
    return Finding(
        id=agent.id,
        name=agent.name,
        command=shlex.join(agent.command),
        installed=bool(path),
        program=path,
        version=found.version,
        answers=found.answers,
        protocol=found.protocol,
        session=found.session,
        logged_in=found.login.value,
        error=found.error,
        install=agent.install,
        login=agent.login,
        auth_methods=found.auth_methods,
        aliases=agent.aliases,
        quirks=agent.quirks,
    )


# -- for people ------------------------------------------------------------------------------------


def overview(findings: Sequence[Finding], width: int) -> list[str]:
    """All agents: a line for each installed one, and how to install the others."""
    here = [each for each in findings if each.installed]
    page: list[str] = []
    if here:
        versions = [_short(each.version) for each in here]
        first = max(len("AGENT"), *(len(each.id) for each in here))
        second = max(len("VERSION"), *map(len, versions))
        page.append(f"{'AGENT':<{first}}  {'VERSION':<{second}}  ANSWERS  LOGGED IN  PROGRAM")
        for each, version in zip(here, versions, strict=True):
            answers = "yes" if each.answers else "no"
            row = f"{each.id:<{first}}  {version:<{second}}  {answers:<7}  {each.logged_in:<9}"
            program = visible_path(each.program)
            fits = len(row) + 2 + len(program) <= width
            page += [f"{row}  {program}"] if fits else [row.rstrip(), f"{'':<{first}}  {program}"]
            for note in _notes(each):
                page += pages.hanging(" " * (first + 2), note, width)
        page.append("")
    missing = [each for each in findings if not each.installed]
    first = max((len(each.id) for each in missing), default=0)
    if missing:
        page.append("not installed, with the command that installs it:")
        for each in missing:
            row = f"  {each.id:<{first}}  {each.install}"
            fits = len(row) <= width
            page.append(row if fits else f"  {each.id:<{first}}  `conductor agents {each.id}`")
        page.append("")
    end = "`conductor agents NAME` shows one in detail, `conductor agent NAME` starts it."
    return [*page, *pages.hanging("", end, width)]


_COMMANDS: Final = ("command", "to install", "try it")
"""The labels of commands."""


def _notes(found: Finding) -> list[str]:
    """The facts about an installed agent that its user should know or act on."""
    if found.logged_in == Login.NO.value:
        return [f"to log in, {found.login}"]
    return [found.error] if found.error else []


def _short(version: str) -> str:
    """The number of a version, without the words around it."""
    match = _SHORT.search(version)
    return match[1] if match else version[:20] or "-"


def details(findings: Sequence[Finding], width: int) -> list[str]:
    """A paragraph for each agent, with all that is known of it."""
    page: list[str] = []
    for found in findings:
        page += [f"{found.name} (`{found.id}`)", ""]
        for label, texts in _rows(found):
            for head, text in pages.labelled(label, texts, _INDENT):
                *more, last = pages.hanging(head, text, width - 2)
                # A command that a user copies stays one command.
                end = " \\" if label in _COMMANDS else ""
                page += [*(f"{line}{end}" for line in more), last]
        page.append("")
    return page[:-1]


def _rows(found: Finding) -> list[tuple[str, list[str]]]:
    """The labels of a paragraph, and their lines."""
    rows = [("command", [found.command])]
    rows.append(("program", [visible_path(found.program) or "not on PATH"]))
    if found.installed:
        answers = "yes" if found.answers else "no"
        rows.append(("version", [found.version] if found.version else []))
        rows.append(("answers", [answers + (f"; it {found.error}" if found.error else "")]))
        rows.append(("logged in", [found.logged_in]))
    rows.append(("to log in", [found.login]))
    methods = [
        f"{each.id}: " + ". ".join(filter(None, (each.name, each.description)))
        for each in found.auth_methods
    ]
    rows.append(("in editors", methods))
    rows.append(("to install", [found.install]))
    rows.append(("also called", [", ".join(found.aliases)] if found.aliases else []))
    rows.append(("quirks", list(found.quirks)))
    rows.append(("try it", [f'conductor exec {found.id} -p "hello"'] if found.answers else []))
    return rows
