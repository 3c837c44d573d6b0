"""The HTTP session that the SDK of OpenTelemetry posts with: in bounded time, whatever a collector
answers, and with no status but 2xx as a success."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter

_PROVIDERS: Final = ("OTEL_PYTHON_EXPORTER_OTLP_HTTP_", "CREDENTIAL_PROVIDER")
"""How the variables begin and end that name a session of the user's own."""


def session() -> requests.Session | None:
    """A session for one exporter; None: the user's variables name a session."""
    begin, end = _PROVIDERS
    if any(name.startswith(begin) and name.endswith(end) for name in os.environ):
        return None
    made = requests.Session()
    for scheme in ("http://", "https://"):
        made.mount(scheme, _Bounded())
    return made


class _Bounded(HTTPAdapter):
    """Sends one request at a time, with a time limit for the whole answer. The library's limit is
    for each read, and a collector may send a byte now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._busy: threading.Thread | None = None

    def send(
        self, request: requests.PreparedRequest, *_: object, timeout: Any = None, **options: Any
    ) -> requests.Response:
        """Sends a request. Raises `RequestException` for all answers but errors and successes."""
        if self._busy is not None and self._busy.is_alive():
            raise requests.Timeout("it has not ended an earlier answer")
        options["stream"] = True  # the body of an answer says nothing, and it may have no end
        sent = _Sent(lambda: super(_Bounded, self).send(request, timeout=timeout, **options))
        self._busy = sent.thread
        return sent.response(timeout)


class _Sent:
    """A request on a thread of its own."""

    def __init__(self, send: Callable[[], requests.Response]) -> None:
        self._send = send
        self._response: requests.Response | None = None
        self._error: Exception | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            response = self._send()
            response.close()
            response._content = b""
            self._response = response
        except Exception as error:
            self._error = error

    def response(self, seconds: float | None) -> requests.Response:
        """Waits for the answer. Raises `RequestException`."""
        self.thread.join(seconds)
        if self._error is not None:
            raise self._error
        if self._response is None:
            raise requests.Timeout(f"it has not answered in {seconds} s")
        status = self._response.status_code
        if not 200 <= status < 300 and status < 400:
            raise requests.RequestException(f"it answers with status {status}")
        return self._response
