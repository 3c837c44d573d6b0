"""A collector of OpenTelemetry, as small as can be: it decodes what it gets, or behaves badly."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as numbers
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

from tests.places import DEADLINE

PATIENT: Final = (
    sys.executable,
    "-c",
    f"""import sys
from conductor.cli import main
from conductor.telemetry import otel
otel._PATIENCE = {DEADLINE}
sys.exit(main(sys.argv[1:]))""",
)
"""`conductor` whose chains wait at their end until a collector has all: a busy machine may need
more than the two seconds that a user waits."""

Span = Any
"""A span of the protocol."""


class Collector:
    """The data that a collector got so far."""

    def __init__(self, status: int) -> None:
        self.status = status
        """The status of the answer; 0: no answer, as long as the test lasts."""
        self.requests = 0
        self.spans: list[Span] = []
        self.metrics: dict[str, Any] = {}
        """The last value of each metric, by name."""
        self.resource: dict[str, str] = {}
        self.address = ""
        self._changed = threading.Condition()
        self.over = threading.Event()

    def take(self, path: str, body: bytes) -> None:
        """Takes a request."""
        with self._changed:
            self.requests += 1
            if path == "/v1/traces" and self.status == 200:
                for group in traces.ExportTraceServiceRequest.FromString(body).resource_spans:
                    named = {one.key: one.value.string_value for one in group.resource.attributes}
                    self.resource.update(named)
                    for scope in group.scope_spans:
                        self.spans.extend(scope.spans)
            elif path == "/v1/metrics" and self.status == 200:
                sent = numbers.ExportMetricsServiceRequest.FromString(body)
                for resource in sent.resource_metrics:
                    for kept in resource.scope_metrics:
                        self.metrics.update({one.name: one for one in kept.metrics})
            self._changed.notify_all()

    def wait_for_requests(self, count: int) -> None:
        """Waits until so many requests have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.requests >= count, DEADLINE)


@contextmanager
def collector(status: int = 200, *, metrics: int = 200) -> Iterator[Collector]:
    """Runs a collector that answers with this status; 0: it never answers. `metrics`: what it
    answers to numbers."""
    made = Collector(status)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            made.take(self.path, body)
            if made.status == 0:
                made.over.wait(DEADLINE)
                return
            self.send_response(metrics if self.path == "/v1/metrics" else made.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A conductor that ends breaks the connection."""

    server = Server(("127.0.0.1", 0), Handler)
    made.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made
    finally:
        made.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def attributes(span: Span) -> dict[str, Any]:
    """The attributes of a span."""
    found: dict[str, Any] = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        found[one.key] = [x.string_value for x in value.values] if kind == "array_value" else value
    return found
