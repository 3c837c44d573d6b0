"""The address of a collector. Loads nothing of OpenTelemetry."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from conductor import installation
from conductor.errors import UsageError, one_line

ENVIRONMENT: Final = "env"
"""In place of an address: the variables of OpenTelemetry name it."""
TRACES: Final = "v1/traces"
METRICS: Final = "v1/metrics"


def require(url: str) -> None:
    """Raises `UsageError` if the SDK is not installed, or `url` is no address of a collector."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good and url != ENVIRONMENT:
        raise UsageError(
            f"`{one_line(url)}` is no address of a collector",
            "it is written like http://127.0.0.1:4318; `env` takes it from the variables OTEL_…",
        )
    needed = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
    try:
        missing = any(find_spec(name) is None for name in needed)
    except ModuleNotFoundError:
        missing = True
    if missing:
        raise UsageError(
            "OpenTelemetry is not installed", f"install it: `{installation.with_extra('otel')}`"
        )


def shown(url: str) -> str:
    """A collector in messages, without a password in its address."""
    if url == ENVIRONMENT:
        return "the collector that the variables OTEL_… name"
    parts = urlsplit(url)
    return one_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")


def endpoint(url: str, path: str) -> str | None:
    """The URL for one kind of data; None: the variables give it."""
    if url == ENVIRONMENT:
        return None
    base = url.rstrip("/").removesuffix(f"/{TRACES}").removesuffix(f"/{METRICS}")
    return f"{base}/{path}"
