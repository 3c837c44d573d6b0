"""`conductor log export FILE`: a trace for other programs' eyes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

from conductor.cli import report
from conductor.cli.log_kinds import TracePath, Wanted, kind_for
from conductor.cli.typer_options import option, output_option, paragraphs
from conductor.errors import UsageError, counted, visible_path
from conductor.record.turns import filter as filters
from conductor.record.turns import reader as turns

if TYPE_CHECKING:
    from conductor.telemetry.recorded import Recorded

HELP: Final = paragraphs(
    "Turn a trace into spans: a picture for ui.perfetto.dev, or spans for a collector of "
    "OpenTelemetry.",
    "A filter chooses the turns with a matching event. Prompts and answers stay out unless "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT is true.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor log export today.jsons --output today.json",
    "  conductor log export today.jsons --otlp http://127.0.0.1:4318",
    '  conductor log export today.jsons "~slow 2s" --output slow.json',
)


def export(
    file: TracePath,
    wanted: Wanted = "",
    output: Annotated[
        str | None,
        output_option("Write the picture to this file."),
    ] = None,
    otlp: Annotated[
        str | None,
        option(
            "--otlp",
            "URL|env",
            "Send the spans to this collector; env: to the collector that the variables OTEL_… "
            "name.",
        ),
    ] = None,
) -> int:
    """Exports a trace."""
    from conductor.telemetry import collector

    chosen = filters.parse(wanted)
    if (output is None) == (otlp is None):
        raise UsageError(
            "say where the spans go: `--output FILE`, or `--otlp URL`",
            "`conductor log export --help` has examples",
        )
    if otlp is not None:
        collector.require(otlp)
    kind_for(file, "export")
    spans = _spans(file, chosen, pictures=otlp is None)
    if otlp is not None:
        report.say(f"sent {counted(_send(spans, otlp), 'span')} to {collector.shown(otlp)}")
    elif output is not None:
        from conductor.telemetry import perfetto

        _write(output, perfetto.written(spans, spans.components, spans.began))
    return 0


def _spans(file: str, chosen: filters.Filter, *, pictures: bool) -> Recorded:
    from conductor.telemetry import names, recorded

    trace = turns.opened(file)
    content = names.captures(os.environ.get(names.CAPTURE))
    return recorded.Recorded(
        trace, file, content=content, pictures=pictures, turns=_chosen(trace, chosen)
    )


def _chosen(trace: turns.Reader, chosen: filters.Filter) -> set[int] | None:
    """The numbers of the turns with an event that a filter matches; None: all."""
    if not chosen.text.strip():
        return None
    found = {row.turn for row in trace.matching(chosen)}
    if not found:
        raise UsageError(
            "no event matches the filter",
            "`conductor log show` shows the turns of the trace",
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
