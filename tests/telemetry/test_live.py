"""Telemetry of a chain that runs, through the command line."""

import asyncio
import json
import re
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest
from msgspec.structs import replace

import conductor as chain
from conductor.errors import UsageError
from conductor.spec.managed import options as held
from conductor.spec.managed.file import parse
from conductor.spec.options import Options
from conductor.telemetry import names
from conductor.telemetry.names import OTHER, method
from tests.harness.process.command import COMMAND, Ran, conductor, environment
from tests.telemetry.collector import PATIENT, attributes, collector

WORDS: Final = "what day is it?"
CHAIN: Final = ("datetime", "redact", "demo", "-p", WORDS)
SERIES: Final = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


def run(*options: str, command: Sequence[str] = PATIENT, **variables: str) -> Ran:
    env = environment(**variables)
    done = conductor("exec", *options, *CHAIN, env=env, command=command)
    assert done.code == 0, done.err
    assert WORDS in done.out
    return done


def numbers(text: str) -> dict[tuple[str, str], float]:
    """The series of a text in the format: name and labels, in one order, and the value."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        series = SERIES.match(line)
        assert series, line
        labels = ",".join(sorted(re.findall(r'\w+="[^"]*"', series[2] or "")))
        assert (series[1], labels) not in found, line
        found[series[1], labels] = float(series[3])
    return found


def test_numbers_are_those_of_the_trace(tmp_path: Path) -> None:
    """Message counts are right."""
    path, trace = tmp_path / "chain.prom", tmp_path / "trace.jsons"
    run("-c", f"metrics={path}", "--trace", str(trace), command=COMMAND)
    found = numbers(path.read_text())
    counted: Counter[tuple[str, str, str]] = Counter()
    for line in trace.read_text().splitlines():
        event = json.loads(line)
        if event["type"] != "_conductor":
            name = event.get("method") or event["_conductor"]["method"]
            counted[event["to"], method(name), event["type"]] += 1
    scraped: Counter[tuple[str, str, str]] = Counter()
    for (name, labels), value in found.items():
        if name == "conductor_messages_total":
            pairs = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            scraped[pairs["component"], pairs["method"], pairs["type"]] += int(value)
    # The last words of guests may come when the file has been written.
    assert not scraped - counted
    assert set(counted - scraped) <= {(x, "metric", "notification") for x in ("conductor",)}
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
        done = run("-c", f"otlp={away.address}")
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
        assert attributes(hops["datetime"])["conductor.component.kind"] == "module"
        assert attributes(hops["datetime"])["conductor.changed"] is True
        assert WORDS not in str(found)
        assert {"conductor.messages", "conductor.hop.duration", "conductor.restarts"} <= {
            *away.metrics
        }
        assert away.resource["service.name"] == "conductor"


def test_the_variables_of_opentelemetry_count() -> None:
    with collector() as away:
        run(
            "-c",
            "otlp=env",
            OTEL_EXPORTER_OTLP_ENDPOINT=away.address,
            OTEL_TRACES_SAMPLER="always_off",
            OTEL_SERVICE_NAME="mine",
        )
        assert away.spans == []
        assert away.metrics


@pytest.mark.parametrize("status", [0, 500])
def test_a_collector_that_behaves_badly_costs_one_warning(status: int) -> None:
    """The chain ends while a collector still has not answered."""
    with collector(status) as away:
        done = run("-c", f"otlp={away.address}", command=COMMAND)
        assert done.err.count("warning:") <= 1
        assert "Traceback" not in done.err
        assert away.requests


def test_a_collector_of_spans_alone_costs_one_warning_that_says_what_to_do() -> None:
    """As Phoenix: it refuses numbers."""
    with collector(metrics=405) as away:
        done = run("-c", f"otlp={away.address}")
        assert done.err.count("warning:") == 1
        assert "refuses the data sent to it" in done.err
        assert "hint: OTEL_METRICS_EXPORTER=none sends spans alone" in done.err
        assert away.spans


def test_neither_a_collector_that_is_away_nor_a_port_that_is_taken_stops_a_chain() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        done = run("-c", f"otlp={address}", "-c", f"prometheus={port}", command=COMMAND)
    assert done.err.count("warning:") <= 2
    assert "Traceback" not in done.err
    assert "no numbers are served at port" in done.err
    assert "hint: another chain may have it" in done.err


def test_prometheus_reads_a_chain_that_runs(tmp_path: Path) -> None:
    """Also what ends with the chain."""

    async def read() -> str:
        lines: list[str] = []
        async with chain.open(
            *("datetime", "redact", "demo"),
            cwd=tmp_path,
            prometheus=0,
            log=lambda level, name, text: lines.append(text),
        ) as running:
            await running.prompt(WORDS)
            line = next(line for line in lines if line.startswith("numbers are at "))
            read = ""
            while "conductor_turn_duration" not in read:  # they come when there is time for them
                answer = await asyncio.to_thread(urlopen, line.removeprefix("numbers are at "))
                read = str(answer.read().decode())
            return read

    found = numbers(asyncio.run(read()))
    assert found["conductor_turn_duration_seconds_count", 'stop="end_turn"'] == 1
    if sys.platform == "linux":
        assert found["conductor_guest_memory_bytes", 'component="datetime+redact"'] > 1 << 20


POLICY: Final = """contact = "admin"
trace = {}
content = "{}"
"""


def test_a_managed_policy_counts_for_spans() -> None:
    """Content that must not be in a trace does not leave by a span; numbers hold no content."""
    options = Options(otlp="http://127.0.0.1:4318")
    refused = parse(POLICY.format("false", "all").encode(), "policy.toml")
    with pytest.raises(UsageError, match="spans for a collector: not allowed by `trace`"):
        held.applied(refused, options)
    sizes = parse(POLICY.format("true", "none").encode(), "policy.toml")
    with pytest.raises(UsageError, match="a record with `redacted` of each message"):
        held.applied(sizes, options)
    assert held.applied(sizes, replace(options, trace_content="none")).otlp
    assert held.applied(refused, Options(otlp="none", prometheus=0)).prometheus == 0


def test_without_content_the_variable_that_asks_for_words_gets_none() -> None:
    wanted = {names.CAPTURE: "true", "OTEL_METRICS_EXPORTER": "none"}
    with collector(metrics=405) as away:
        done = run("-c", f"otlp={away.address}", "-c", "trace-content=none", **wanted)
        assert done.err == ""
        assert any(span.name.startswith("invoke_agent") for span in away.spans)
        assert WORDS not in str(away.spans)


def test_methods_of_strangers_are_one() -> None:
    assert method("session/prompt") == "session/prompt"
    assert method("_zed/anything") == method("tools/call") == OTHER
    assert method("tools/call", "mcp") == "tools/call"
