"""`conductor audit verify` and `conductor audit show` as typer sees them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from conductor.cli.typer_options import paragraphs

audit_app = typer.Typer(help="Work with the files that --audit writes.")


@audit_app.command(
    epilog="Example:\n\n  conductor audit verify audit.jsonl",
    help="Check that no line of an audit was altered, removed, added or moved.\n\nExit code 1, "
    "and the first line that is wrong, if one was. Lines cut off at the end leave no trace in the "
    "file itself: compare the last hash with one you noted, or give that with --head.",
)
def verify(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What --audit wrote.", show_default=False)
    ],
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            metavar="HASH",
            help="The last hash an earlier check printed: that line has to be there still.",
            show_default=False,
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> int:
    """Checks the chain of an audit."""
    from conductor.cli import audit

    return audit.verify(file, head, as_json=json_)


def _filter(option: str, metavar: str, what: str) -> Any:
    """An option of `audit show` that may be given several times."""
    return typer.Option(option, metavar=metavar, help=what, show_default=False)


@audit_app.command(
    epilog=paragraphs(
        "Examples:",
        "  conductor audit show audit.jsonl",
        "  conductor audit show --method session/prompt --component datetime audit.jsonl",
        "  conductor audit show --kind violation --kind dropped audit.jsonl",
    ),
    help=paragraphs(
        "Tell who changed which message, and how.",
        "Each filter may be given several times. Exit code 1 if the audit was altered: only what "
        "stands before that is shown.",
    ),
)
def show(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What --audit wrote.", show_default=False)
    ],
    component: Annotated[
        list[str] | None, _filter("--component", "NAME", "Only what this component did.")
    ] = None,
    method: Annotated[
        list[str] | None, _filter("--method", "PATTERN", "Only these messages; `*` fits anything.")
    ] = None,
    session: Annotated[
        list[str] | None, _filter("--session", "ID", "Only changes in this session.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        _filter(
            "--kind",
            "KIND",
            "Only these records: change, violation, failure, …; of changes also modified, "
            "answered, originated, dropped, reordered.",
        ),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="The lines themselves, one JSON object each.")
    ] = False,
) -> int:
    """Tells what is in an audit."""
    from conductor.cli import audit_show

    wanted = audit_show.Filter(
        components=component or (),
        methods=method or (),
        sessions=session or (),
        kinds=kind or (),
    )
    return audit_show.show(file, wanted, as_json=json_)
