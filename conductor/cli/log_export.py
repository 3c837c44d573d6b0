"""`conductor trace export FILE`: a trace for other programs' eyes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from conductor.cli import report
from conductor.cli.log_show import File, Wanted, body
from conductor.cli.typer_options import paragraphs
from conductor.errors import UsageError, counted, visible_path
from conductor.record.turns import filter as filters
from conductor.record.turns import reader as turns

if TYPE_CHECKING:
    from conductor.telemetry.recorded import Recorded

HELP: Final = paragraphs(
    "Turn a trace into spans: as a picture for ui.perfetto.dev, or for a collector of "
    "OpenTelemetry, as a file or sent to its address.",
    "A filter chooses turns: those with an event that it matches (`conductor help filters`). "
    "Prompts and answers stay out unless OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is "
    "true.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor trace export today.jsons --perfetto today.json",
    "  conductor trace export today.jsons --otlp http://127.0.0.1:4318",
    '  conductor trace export today.jsons --otlp slow.json "~slow 2s"',
)


def export(
    file: File,
    wanted: Wanted = "",
    perfetto: Annotated[
        str | None,
        typer.Option(
            "--perfetto",
            metavar="FILE",
            help="Write trace events of Chrome to this file.",
            show_default=False,
        ),
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option(
            "--otlp",
            metavar="FILE|URL|env",
            help="Write OTLP as JSON to this file, or send it to this collector.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Exports a trace."""
    from conductor.telemetry import collector, names, otlp_json, recorded
    from conductor.telemetry import perfetto as pictures
    from conductor.version import version

    chosen = filters.parse(wanted)
    if (perfetto is None) == (otlp is None):
        raise UsageError(
            "say what to make of the trace: `--perfetto FILE`, or `--otlp FILE` or `--otlp URL`",
            "`conductor trace export --help` has examples",
        )
    is_sent = otlp is not None and (otlp == collector.ENVIRONMENT or "://" in otlp)
    if otlp is not None and is_sent:
        collector.require(otlp)
    trace = turns.opened(file)
    spans = recorded.Recorded(
        trace,
        file,
        content=names.captures(os.environ.get(names.CAPTURE)),
        pictures=perfetto is not None,
        turns=_chosen(trace, chosen),
    )
    if perfetto is not None:
        _write(perfetto, pictures.written(spans, spans.components, spans.began))
    elif otlp is not None and is_sent:
        count = _send(spans, otlp)
        report.say(f"sent {counted(count, 'span')} to {collector.shown(otlp)}")
    elif otlp is not None:
        _write(otlp, otlp_json.written(spans, recorded.resource(), version(), spans.began))
    return 0


def _chosen(trace: turns.Reader, chosen: filters.Filter) -> set[int] | None:
    """The numbers of the turns with an event that a filter matches; None: all."""
    if not chosen.text.strip():
        return None
    text, found = body(trace), set[int]()
    for number in range(len(trace)):
        row = trace.row(number)
        if row is not None and row.turn not in found and chosen.matches(row, text):
            found.add(row.turn)
    if not found:
        raise UsageError(
            "no event matches the filter", "`conductor trace show` shows what is there"
        )
    return found


def _send(spans: Recorded, url: str) -> int:
    from conductor.telemetry import otel  # the SDK takes long to load

    return otel.send(spans, url, spans.began)


def _write(path: str, pieces: Iterable[bytes]) -> None:
    """Writes a file as a whole, for its owner alone. Raises `UsageError`."""
    from conductor.spec.limits import size_in_words
    from conductor.spec.private_files import open_private, reason

    size = 0
    try:
        with os.fdopen(open_private(path, os.O_WRONLY | os.O_TRUNC), "wb") as file:
            for piece in pieces:
                size += file.write(piece)
    except (OSError, ValueError) as error:
        why = reason(error)
        raise UsageError(f"cannot write `{path}`: {why}", "choose another file") from None
    report.say(f"written {visible_path(path)} ({size_in_words(size)})")
