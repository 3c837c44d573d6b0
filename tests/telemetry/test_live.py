"""Telemetry of a chain that runs, through the command line."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from conductor.telemetry.names import OTHER, method
from tests.harness.process.command import Ran, conductor, environment
from tests.telemetry.collector import attributes, collector

WORDS: Final = "what day is it?"
CHAIN: Final = ("datetime", "redact", "demo", "-p", WORDS)
SERIES: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


def run(*options: str, **variables: str) -> Ran:
    done = conductor("exec", *options, *CHAIN, env=environment(**variables))
    assert done.code == 0, done.err
    assert WORDS in done.out
    return done


def numbers(path: Path) -> dict[tuple[str, str], float]:
    """The series of a file in the text format: name and labels, in one order, and the value."""
    found = {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        series = SERIES.match(line)
        assert series, line
        labels = ",".join(sorted(re.findall(r'\w+="[^"]*"', series[2] or "")))
        assert (series[1], labels) not in found, line
        found[series[1], labels] = float(series[3])
    return found


def test_numbers_are_those_of_the_trace(tmp_path: Path) -> None:
    """SEEDS §25 row 114: message counts are right."""
    path, trace = tmp_path / "chain.prom", tmp_path / "trace.jsons"
    run("--metrics", str(path), "--trace", str(trace))
    found = numbers(path)
    counted: Counter[tuple[str, str, str]] = Counter()
    for line in trace.read_text().splitlines():
        event = json.loads(line)
        if event["type"] != "_conductor":
            name = event.get("method") or event["_conductor"]["method"]
            counted[event["to"], method(name), event["type"]] += 1
    told: Counter[tuple[str, str, str]] = Counter()
    for (name, labels), value in found.items():
        if name == "conductor_messages_total":
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            told[pairs["component"], pairs["method"], pairs["type"]] += int(value)
    # The last words of guests may come when the file has been written.
    assert not told - counted
    assert set(counted - told) <= {(x, "metric", "notification") for x in ("conductor",)}
    assert found["conductor_tokens_added_total", 'component="datetime"'] > 0
    asked = 'component="redact",direction="down",method="session/prompt"'
    within = asked.replace(",method", ',le="+Inf",method')
    assert found["conductor_hop_duration_seconds_count", asked] == 1
    assert found["conductor_hop_duration_seconds_bucket", within] == 1
    assert found["conductor_turn_duration_seconds_count", 'stop="end_turn"'] == 1
    assert found["conductor_restarts_total", 'component="redact"'] == 0
    assert ("conductor_outbox_bytes", 'component="demo"') in found


def test_a_collector_gets_spans_and_numbers_of_a_chain_that_runs() -> None:
    with collector() as away:
        done = run("--otlp", away.address)
        assert done.err == ""
        found = away.spans
        ids = {span.span_id: span for span in found}
        turn = next(span for span in found if span.name == "invoke_agent demo")
        hops = {attributes(s)["conductor.component.name"]: s for s in found
                if s.name == "session/prompt"}  # fmt: skip
        assert ids[hops["agent"].parent_span_id] is hops["redact"]
        assert ids[hops["redact"].parent_span_id] is hops["datetime"]
        assert ids[hops["datetime"].parent_span_id] is turn
        assert not turn.parent_span_id
        assert attributes(hops["datetime"])["conductor.component.kind"] == "guest"
        assert attributes(hops["datetime"])["conductor.changed"] is True
        assert WORDS not in str(found)
        assert {"conductor.messages", "conductor.hop.duration", "conductor.restarts"} <= {
            *away.metrics
        }
        assert away.resource["service.name"] == "conductor"


def test_the_variables_of_opentelemetry_count() -> None:
    with collector() as away:
        run(
            "--otlp",
            "env",
            OTEL_EXPORTER_OTLP_ENDPOINT=away.address,
            OTEL_TRACES_SAMPLER="always_off",
            OTEL_SERVICE_NAME="mine",
        )
        assert away.spans == []
        assert away.metrics


@pytest.mark.parametrize("status", [0, 500, 405])
def test_a_collector_that_behaves_badly_costs_one_warning(status: int) -> None:
    """The chain ends while a collector still has not answered."""
    with collector(status) as away:
        done = run("--otlp", away.address)
        assert done.err.count("warning:") <= 1
        assert "Traceback" not in done.err
        if status == 405:
            assert "does not take what is sent to it" in done.err
        assert away.requests


def test_a_collector_that_is_away_costs_one_warning() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        address = f"http://127.0.0.1:{held.getsockname()[1]}"
    done = run("--otlp", address)
    assert done.err.count("warning:") <= 1
    assert "Traceback" not in done.err


def test_a_port_that_is_taken_is_no_reason_not_to_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        done = run("--prometheus", str(held.getsockname()[1]))
    assert done.err.count("warning:") == 1
    assert "no numbers are served at port" in done.err
    assert "hint: another chain may have it" in done.err


def test_an_address_that_is_none_is_refused() -> None:
    done = conductor("exec", "--otlp", "collector:4318", *CHAIN)
    done.assert_error(2, "invalid value `collector:4318` for `--otlp`")


def test_methods_of_strangers_are_one() -> None:
    assert method("session/prompt") == "session/prompt"
    assert method("_zed/anything") == method("tools/call") == OTHER
    assert method("tools/call", "mcp") == "tools/call"
