"""`conductor setup`: a chain among the agents of an editor, tested before anything is written."""

from __future__ import annotations

import os
import shlex
from typing import Annotated, Any, Final

import msgspec
import typer

from conductor.cli import configured, pages, report
from conductor.cli.typer_options import argument, option, paragraphs, switch
from conductor.editors import apply, chain, launcher, record, table
from conductor.editors.json_editor import JsonEditor
from conductor.editors.record import Settings
from conductor.editors.target import ENTRY, Edit, Launch, Target
from conductor.errors import ComponentError, UsageError, one_line, visible_path
from conductor.spec import paths
from conductor.spec.lock.entries import redacted
from conductor.spec.redaction import clean_text, is_secret
from conductor.transports.process_groups import adopt_orphans, end_strays

HELP: Final = paragraphs(
    "Put a chain among the agents of an editor, or in front of an agent that is there (--wrap). "
    "Without EDITOR, list the editors.",
    "Conductor starts the chain as the editor will, and changes the file only if the chain "
    "answers. Other entries of the file stay unchanged, with their comments.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor setup zed datetime claude",
    '  conductor setup jetbrains --chain work --name "With review"',
    '  conductor setup zed datetime --wrap "Claude Code"',
    "  conductor setup zed --remove",
)

_PATIENCE: Final = 60.0
"""Seconds that the chain may take to answer `initialize`: more than any editor waits."""


_HIDDEN: Final = "[redacted]"


class _AgainError(Exception):
    """The entry needs the PATH of this terminal."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One `conductor setup`."""

    target: Target
    words: list[str]
    """The words behind the launcher: `agent` and its arguments."""
    name: str
    wrap: bool
    choosing: bool
    """Whether `[[choose]]` picks the chain."""

    def launch(self, env: dict[str, str]) -> Launch:
        """The command that the entry starts, or the words in front of its command."""
        program, *first = launcher.command()
        return Launch(program, [*first, *self.words], env)

    def edit(self, text: str | None, settings: Settings, env: dict[str, str]) -> Edit:
        """The edit of the editor's file. Raises `UsageError`."""
        make = self.target.wrap if self.wrap else self.target.put
        return make(text, settings, self.name, self.launch(env))


_Editor = Annotated[
    str | None,
    argument("EDITOR", f"One of: {', '.join(table.TARGETS)}."),
]
_Components = Annotated[
    list[str] | None,
    argument(
        "COMPONENT",
        "The proxies, then the agent, as `conductor agent` takes them; with --wrap the proxies "
        "alone.",
    ),
]
_Chain = Annotated[str, option("--chain", "NAME", "A chain of the configuration.")]
_Name = Annotated[
    str,
    option("--name", "ENTRY", f"Name of the entry in the editor. Default: {ENTRY}."),
]
_Wrap = Annotated[
    str,
    option("--wrap", "ENTRY", "Put the conductor in front of this entry's command."),
]
_Project = Annotated[
    str,
    option(
        "--project",
        "FOLDER",
        f"Folder whose `{paths.CONFIG}` the entry uses, wherever the editor starts it.",
    ),
]
_Print = Annotated[bool, switch("--print", "Print the entry, and change nothing.")]
_Remove = Annotated[bool, switch("--remove", "Take the entry out, or give a wrapped one back.")]


def setup(
    context: typer.Context,
    target: _Editor = None,
    components: _Components = None,
    chain_name: _Chain = "",
    name: _Name = "",
    wrap: _Wrap = "",
    project: _Project = "",
    print_: _Print = False,
    remove: _Remove = False,
) -> int:
    """Sets an editor up."""
    if target is None:
        return _list()
    found = table.find(target)
    _refuse_contradictions(name, wrap, chain_name, components or [], print_=print_, remove=remove)
    if remove:
        return _remove(found, name or wrap or ENTRY)
    rest, here = list(context.obj or []), os.getcwd()
    if rest and wrap:
        raise UsageError(
            "`--wrap` takes the command of the entry, and one is given behind `--`",
            "leave one of the two out",
        )
    config = configured.here({"project": project} if project else {})
    folder = os.path.realpath(project) if project else ""
    words: list[str] = []
    if components or chain_name or not rest:
        words = chain.words(components or [], chain_name, config, folder, here)
    request = Request(
        target=found,
        words=["agent", *(["--project", folder] if folder else []), *words, *_behind(rest, here)],
        name=wrap or name or ENTRY,
        wrap=bool(wrap),
        choosing=not words and not rest and not folder,
    )
    if print_:
        return _print(request)
    _prepare(words, rest, folder, wrapped=bool(wrap))
    return _write(request) if found.file() else _say_how(request)


def _behind(rest: list[str], here: str) -> list[str]:
    return ["--", *chain.command(rest, here)] if rest else []


def _refuse_contradictions(
    name: str, wrap: str, chain_name: str, components: list[str], *, print_: bool, remove: bool
) -> None:
    if wrap and name:
        raise UsageError(
            "`--wrap` and `--name` exclude each other", "a wrapped entry keeps its name"
        )
    if remove and (components or chain_name or print_):
        raise UsageError(
            "`--remove` takes no components, and nothing else but `--name` or `--wrap`",
            "it takes back the changes of `conductor setup`",
        )
    if any(not text.strip() for text in (name or "-", wrap or "-")):
        raise UsageError("an entry needs a name", f"without `--name` it is `{ENTRY}`")
    if visible_path(name) != name and not remove:
        raise UsageError(
            f"`{visible_path(name)}` is no name for an entry: nobody could type it again",
            f"use letters that can be seen; without `--name` it is `{ENTRY}`",
        )


# -- adding ----------------------------------------------------------------------------------------


def _print(request: Request) -> int:
    """Prints the entry that a user would write by hand."""
    launch = request.launch({})
    if request.wrap and request.target.file():
        snapshot, settings = apply.look(request.target)
        launch = request.edit(snapshot.text, settings, {}).launch or launch
    if isinstance(request.target, JsonEditor):
        # Not to stdout, which is JSON as it stands.
        report.write(f"this belongs in {visible_path(request.target.file())}", word="info")
    report.page(request.target.shown(request.name, launch, wraps=request.wrap))
    return 0


def _say_how(request: Request) -> int:
    """Prints the command line of a program that takes its agents from there alone."""
    edit = request.edit(None, Settings(request.target.name), {})
    assert edit.launch is not None
    shown = request.target.shown(request.name, edit.launch, wraps=request.wrap)
    agent, _ = _tested(request, edit.launch)
    report.page(shown)
    report.say(
        "",
        f"  tested     {agent} answers",
        f"  use it     {request.target.pick}",
        f"  logs       {request.target.logs}",
    )
    return 0


def _prepare(words: list[str], rest: list[str], folder: str, *, wrapped: bool) -> None:
    """Finds the components, and compiles their modules. Raises `ConductorError`."""
    from conductor.cli import consent, readiness
    from conductor.run import compiled
    from conductor.spec import gates
    from conductor.spec.parsed import assemble, layered, planned

    if not (words or rest):
        return  # `[[choose]]` names the chain
    values: dict[str, Any] = {"project": folder} if folder else {}
    parsed = layered(assemble("agent", words, rest or None, **values))
    made = planned(msgspec.structs.replace(parsed, mode="proxy" if wrapped else "agent"))
    if not wrapped:
        gates.refuse_end(made.components)
    consent.say_lacking(made)
    compiled.compile_ahead(made.components, begun=readiness.begun)


def _write(request: Request) -> int:
    env: dict[str, str] = {}
    tested: list[str] = []

    def test(edit: Edit) -> None:
        assert edit.launch is not None
        agent, path = _tested(request, edit.launch)
        if path:
            env["PATH"] = path
            raise _AgainError
        tested[:] = [agent]

    def make(text: str | None, settings: Settings) -> Edit:
        return request.edit(text, settings, env)

    adopt_orphans()
    try:
        outcome = apply.change(request.target, make, test)
    except _AgainError:
        outcome = apply.change(request.target, make, test)
    finally:
        end_strays()
    _report(request, outcome, "".join(tested), "PATH" in env)
    return 0


def _tested(request: Request, launch: Launch) -> tuple[str, str]:
    """Starts the entry as the editor does: the name of the agent, and the PATH that it needs.

    Raises `ComponentError`: it does not start.
    """
    from conductor.client.probe import probe

    bare = launcher.bare_environment() if request.target.bare else dict(os.environ)
    words = launch.words
    if request.choosing:  # as in the project that is open here
        at = words.index("agent") + 1
        words = [*words[:at], "--project", os.getcwd(), *words[at:]]
    if os.isatty(2):
        report.write(f"starting it as {request.target.title} will, to test it", word="info")
    found = probe(words, {**bare, **launch.env}, _PATIENCE, session=False)
    if found.answers:
        return one_line(f"{found.name} {found.version}".strip() or "an agent"), ""
    path = launcher.full_path()
    is_silent = found.error.startswith("did not answer")  # a PATH is no help
    if request.target.bare and launch.env.get("PATH") != path and not is_silent:
        again = probe(words, {**bare, **launch.env, "PATH": path}, _PATIENCE, session=False)
        if again.answers:
            return "", path
        found = again
    again_here = ["conductor", "exec", "-p", "hello", *redacted(_chain(launch))]
    raise ComponentError(
        f"{request.target.title} could not start this: {_without_secrets(found.error, launch)}; "
        "nothing was changed",
        f"see it here: `{shlex.join(again_here)}`",
    )


def _without_secrets(text: str, launch: Launch) -> str:
    """The last output of a chain, without the secrets of its entry: programs quote them."""
    shown = redacted(launch.words)
    hidden = [value for name, value in launch.env.items() if is_secret(name)]
    for word, clean in zip(launch.words, shown, strict=True):
        if word != clean:
            hidden.append(word.removeprefix(clean.removesuffix(_HIDDEN)))
    for value in sorted(filter(None, hidden), key=len, reverse=True):
        text = text.replace(value, _HIDDEN)
    return clean_text(text)


def _chain(launch: Launch) -> list[str]:
    return launch.args[launch.args.index("agent") + 1 :]


def _report(request: Request, outcome: apply.Outcome, tested: str, with_path: bool) -> None:
    target, launch = request.target, outcome.edit.launch
    words = [*request.launch({}).words, "--"] if launch is None else launch.words
    words = redacted(words)
    where = f"{visible_path(outcome.path)} ({target.title})"
    if todo := target.todo():
        report.say(f"to do: {todo}", "")
    if not outcome.changed:
        report.say(f"nothing to be done: the entry `{request.name}` is in {where}")
    else:
        did = "the conductor stands in front of" if request.wrap else "wrote the entry"
        report.say(f"{did} `{request.name}` in {where}")
    report.say(f"  it starts  {one_line(shlex.join(words), 1000)}{'' if launch else ' …'}")
    if tested:
        report.say(f"  tested     {tested} answers")
    else:
        report.say(f"  tested     no: the command of `{request.name}` is in {target.title} alone")
    if with_path:
        report.say("  PATH       that of this terminal is in the entry: it does not start without")
    if outcome.backup and outcome.changed:
        report.say(f"  before     kept in {visible_path(outcome.backup)}")
    use = target.pick.format(name=request.name, key=target.key(request.name))
    report.say(
        f"  use it     {f'as before: `{request.name}`' if request.wrap else use}",
        f"  logs       {target.logs}",
        f"  undo       {_undo(request)}",
    )
    report.say(f"  log files  of conductor: {visible_path(paths.logs())}")
    if target.note:
        report.say(f"  note       {target.note}")
    for remark in outcome.edit.remarks:
        report.write(remark, word="warning")


def _undo(request: Request) -> str:
    named = [] if request.name == ENTRY else ["--name", request.name]
    return shlex.join(["conductor", "setup", request.target.name, "--remove", *named])


# -- removing and listing --------------------------------------------------------------------------


def _remove(target: Target, name: str) -> int:
    if not target.file():
        target.remove(None, Settings(target.name), name)
    outcome = apply.change(
        target, lambda text, settings: target.remove(text, settings, name), lambda _: None
    )
    where = f"{visible_path(outcome.path)} ({target.title})"
    if outcome.removed:
        report.say(f"removed {where}: `setup` had made it, and nothing else was in it")
    elif outcome.changed:
        report.say(f"undid the changes of `setup` to the entry `{name}` in {where}")
    for remark in outcome.edit.remarks:
        report.say(f"  {remark}")
    return 0


def _list() -> int:
    held = record.load().files
    rows = [(each.title, each.name, _place(each, held)) for each in table.TARGETS.values()]
    widths = [max(len(row[at]) for row in rows) for at in range(2)]
    for title, name, place in rows:
        head = f"{title:<{widths[0]}}  {name:<{widths[1]}}"
        fits = len(head) + 2 + len(place) <= pages.columns()
        below = pages.wrapped(f"    {place}", pages.columns(), "    ").splitlines()
        report.say(*([f"{head}  {place}"] if fits else [head.rstrip(), *below]))
    report.say("an entry of ours: conductor setup EDITOR COMPONENT… AGENT")
    report.say("for example:      conductor setup zed datetime demo")
    return 0


def _place(target: Target, held: dict[str, Settings]) -> str:
    """The file in which an editor keeps its agents, and our entries in it."""
    try:
        path = target.file()
    except UsageError as error:
        return error.text
    if not path:
        return "(a command line)"
    known = held.get(path)
    ours = ", ".join(known.entries) if known is not None else ""
    state = f"has {ours}" if ours else "" if os.path.lexists(path) else "not there"
    return f"{visible_path(path)}{f'  ({state})' if state else ''}"
