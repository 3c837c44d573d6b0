"""`conductor attach ADDRESS [SESSION]`: a session that others have, in a terminal."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from conductor.cli import connection
from conductor.cli.typer_options import argument, option, paragraphs, switch, takes
from conductor.errors import UsageError
from conductor.transports.remote import address as addresses

HELP: Final = paragraphs(
    "Attach to a live session of a server: see the session, and take part in it.",
    "Write ADDRESS as for `conductor connect`. Without SESSION conductor takes the only live "
    "session, or you choose among several. Conductor shows the history first, also of a running "
    "turn. Then you take part as with `tmux attach`: type prompts, answer requests for permission, "
    "cancel the turn with Ctrl-C. The first answer of anybody counts. With --view, or without a "
    "terminal, you only watch. Ctrl-D leaves; the session goes on for the others.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor attach ws://127.0.0.1:8790\n"
    "  conductor attach wss://chains.example.org --view\n"
    "  conductor attach ws://127.0.0.1:8790 --list",
    "Exit codes: 0 you left, or the session was closed; 1 it failed; 2 wrong usage; "
    "130 interrupted.",
)

_Address = Annotated[str, argument("ADDRESS", "The address of the server.")]
_Session = Annotated[
    str | None,
    argument("[SESSION]", "The id of a live session."),
]
_View = Annotated[bool, switch("--view", "Only watch: send nothing.")]
_History = Annotated[
    str,
    option(
        "--history",
        "MODE",
        "How much of the history to show: full, pending (questions without an answer), none.",
    ),
]
_List = Annotated[bool, switch("--list", "Show the live sessions with their owners, and end.")]
_Name = Annotated[
    str,
    option("--name", "NAME", "Your name, for the others in the session."),
]
_Json = Annotated[
    bool,
    switch("--json", "Print each message, one a line, and only watch."),
]


@takes("attach")
def attach(
    address: _Address,
    session: _Session = None,
    view: _View = False,
    history: _History = "full",
    list_: _List = False,
    name: _Name = "",
    json: _Json = False,
    token_file: str | None = None,
    ca: str | None = None,
) -> int:
    """Attaches to a live session."""
    from conductor.cli.attached import Attached, Wanted, is_terminal
    from conductor.cli.loop import run_loop
    from conductor.client.visit import POLICIES

    if history not in POLICIES:
        raise UsageError(f"there is no history `{history}`", f"one of {', '.join(POLICIES)}")
    place = addresses.parse(address)
    types = is_terminal() and not json and not view
    wanted = Wanted(str(place), session, history, name, types, list_, json)
    client = Attached(wanted, lambda: connection.dialled(place, token_file, ca, client.say))
    first = connection.dialled(place, token_file, ca, client.say)  # raises now for a wrong token
    return run_loop(partial(client.run, first))
