"""`conductor chat`: its help and its options; `chat_page` does it."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from conductor.cli import chains
from conductor.cli.log_view import NoOpen, Port
from conductor.cli.typer_options import argument, option, paragraphs, switch, takes

HELP: Final = paragraphs(
    "Talk to a chain in the browser; each turn has the acts of each component.",
    "Only this machine can open the page, and only by its whole address, with the secret. The "
    "agent's questions wait on the page for your answer. Ctrl-C ends the page and the chain.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor chat datetime redact claude",
    "  conductor chat --fs read --trace today.jsons demo",
    "  conductor chat ws://127.0.0.1:8790 --attach SESSION --view",
)

_Components = Annotated[
    list[str] | None,
    argument(chains.AGENT_WORDS[0], chains.AGENT_WORDS[1]),
]
_Attach = Annotated[
    str | None,
    option(
        "--attach",
        "SESSION",
        "Show this live session of a server. Write the server's address in the agent's place.",
    ),
]
_View = Annotated[bool, switch("--view", "Only watch the session of `--attach`.")]


@takes("chat")
def chat(
    context: typer.Context,
    components: _Components = None,
    no_open: NoOpen = False,
    port: Port = 0,
    attach: _Attach = None,
    view: _View = False,
    **values: Any,
) -> int:
    """Serves a page that is the client of a chain."""
    from conductor.cli import chat_page, configured
    from conductor.spec.parsed import assemble

    parsed = assemble("chat", components or [], context.obj, **values)
    parsed = configured.applied(parsed)
    return chat_page.execute(
        parsed, port=port, opens=not no_open, attach=attach, view=view, **parsed.values
    )
