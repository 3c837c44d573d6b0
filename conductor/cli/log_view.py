"""`conductor log view FILE`: a trace as a page in the browser of this machine."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Annotated, Final

from conductor.cli import report
from conductor.cli.log_kinds import TracePath, is_begun, kind_for
from conductor.cli.typer_options import option, output_option, paragraphs, switch
from conductor.errors import UsageError
from conductor.record.turns import reader as turns
from conductor.spec.limits import size_in_words

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from conductor.page.source import Source

HELP: Final = paragraphs(
    "Show a trace as a page: the conversation, with the changes and the times of each component.",
    "Only this machine can open the page, and only by its whole address, with the secret. Ctrl-C "
    "ends the page. --output writes the page as one file that opens without conductor, to send to "
    "a colleague.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor log view today.jsons",
    "  conductor log view today.jsons --live",
    "  conductor log view today.jsons --output today.html",
)

NoOpen = Annotated[bool, switch("--no-open", "Only print the address; open no browser.")]
Port = Annotated[
    int,
    option("--port", "PORT", "Port of the page. Default: any free.", min=0, max=65535),
]


def view(
    file: TracePath,
    live: Annotated[bool, switch("--live", "Show new events as the file grows.")] = False,
    output: Annotated[
        str | None,
        output_option("Write the page as one file."),
    ] = None,
    turn: Annotated[
        int | None,
        option(
            "--turn",
            "NUMBER",
            "Open the page at this turn; with --output, write this turn alone.",
            min=0,
        ),
    ] = None,
    no_open: NoOpen = False,
    port: Port = 0,
) -> int:
    """Shows a trace as a page."""
    from conductor.page.source import TraceFile

    if not live or is_begun(file):
        kind_for(file, "view")
        turns.check(file)
    if output is not None:
        if live:
            raise UsageError("a saved page does not grow", "leave out --live or --output")
        from conductor.page import saved

        size = saved.save(file, output, number=turn)
        report.say(f"written {output} ({size_in_words(size)})")
        return 0
    at = "" if turn is None else f"turn={turn}"
    return _run(TraceFile(file, follow=live), port=port, opens=not no_open, at=at)


def _run(source: Source, *, port: int, opens: bool, at: str) -> int:
    """Serves the page of a trace until Ctrl-C."""
    import asyncio

    from conductor.page import server
    from conductor.page.elsewhere import Elsewhere
    from conductor.page.posts import pausing

    listening = listen(port)
    pauses = [pausing(Elsewhere(source).pause)] if source.live else []
    secret = server.new_secret()
    page = server.Page(source, listening.getsockname()[1], secret, "trace.html", pauses)
    shown = announced(listening, secret, opens=opens, at=at)
    asyncio.run(server.serve(source, page.serve, listening, complain, shown))
    return 0


def complain(text: str) -> None:
    """Warns of something that the server of a page cannot do."""
    report.write(text, word="warning")


def listen(port: int) -> socket.socket:
    """Listens for a page. Raises `UsageError`."""
    from conductor.page import server

    try:
        return server.listen(port)
    except OSError as error:
        why = error.strerror or str(error)
        raise UsageError(f"cannot listen on port {port}: {why}", "choose another --port") from None


@contextlib.contextmanager
def announced(
    listening: socket.socket, secret: str, *, opens: bool, at: str = ""
) -> Iterator[None]:
    """Prints the address of a page, and opens a browser with it while the page is served.

    Args:
        listening: The socket that serves the page.
        secret: The secret in the address.
        opens: Whether to open the browser.
        at: The first view of the page, as its addresses have it: `turn=3`.
    """
    host, port = listening.getsockname()
    address = f"http://{host}:{port}/#secret={secret}{at and f'&{at}'}"
    report.say(address)
    report.write("the page is served until Ctrl-C", dim=True)
    with _opened(address) if opens and _has_desktop() else contextlib.nullcontext():
        yield


def _has_desktop() -> bool:
    import sys

    return not sys.platform.startswith("linux") or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


@contextlib.contextmanager
def _opened(address: str) -> Iterator[None]:
    """Opens the browser of this desktop. Everybody on this machine can read its command line, so it
    gets a private file that leads to the address."""
    import html
    import tempfile
    import webbrowser
    from pathlib import Path

    with tempfile.TemporaryDirectory(prefix="conductor-page-") as folder:
        place = Path(folder, "open.html")
        with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            to = html.escape(address)
            file.write(
                '<!doctype html><meta charset="utf-8"><title>conductor</title>'
                f'<meta http-equiv="refresh" content="0;url={to}"><a href="{to}">conductor</a>'
            )
        webbrowser.open(place.as_uri())
        yield
