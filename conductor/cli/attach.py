"""`conductor attach ADDRESS [SESSION]`: a session that others have, in a terminal."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from conductor.cli import connection
from conductor.cli.typer_options import argument, option, paragraphs, switch, takes
from conductor.errors import UsageError
from conductor.transports.remote import address as addresses

HELP: Final = paragraphs(
    "Attach to a session that others have, on a server of chains: see it, and take part in it.",
    "ADDRESS is written as for `conductor connect`. Without SESSION it is the one that is live; of "
    "several you choose. What has been is shown first, also of a turn that runs. As with `tmux "
    "attach` you take part: type prompts, answer questions for permission (the first answer of "
    "anybody counts), cancel the turn with Ctrl-C. With --view you only watch, as does a program "
    "without a terminal. Ctrl-D leaves; the session goes on for the others.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor attach ws://127.0.0.1:8790\n"
    "  conductor attach wss://chains.example.org --view\n"
    "  conductor attach ws://127.0.0.1:8790 --list",
    "Exit codes: 0 you left, or the session was closed; 1 it failed; 2 wrong usage; "
    "130 interrupted.",
)

_Address = Annotated[str, argument("ADDRESS", "Where the chains are served.")]
_Session = Annotated[
    str | None,
    argument("[SESSION]", "The id of a live session."),
]
_View = Annotated[bool, switch("--view", "Only watch: nothing is sent.")]
_History = Annotated[
    str,
    option(
        "--history",
        "MODE",
        "How much of the past to show: full, pending (questions without an answer), none.",
    ),
]
_List = Annotated[bool, switch("--list", "Show the live sessions, and who has each, and end.")]
_Name = Annotated[
    str,
    option("--name", "NAME", "Your name, as others see it."),
]
_Json = Annotated[
    bool,
    switch("--json", "Print each message as it comes, one a line, and only watch."),
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
    from conductor.cli.run import run_loop
    from conductor.client.visit import POLICIES

    if history not in POLICIES:
        raise UsageError(f"there is no history `{history}`", f"one of {', '.join(POLICIES)}")
    place = addresses.parse(address)
    types = is_terminal() and not json and not view
    wanted = Wanted(str(place), session, history, name, types, list_, json)
    client = Attached(wanted, lambda: connection.dialled(place, token_file, ca, client.say))
    first = connection.dialled(place, token_file, ca, client.say)  # raises now for a wrong token
    return run_loop(partial(client.run, first))
