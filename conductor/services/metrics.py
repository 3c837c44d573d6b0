"""`metric`: numbers that components count, kept by name and written to a file.

The file is in the text format that Prometheus' textfile collector reads: so conductor needs no
server that a collector could connect to.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import math
import operator
import os
import re
import stat
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from conductor.core import json_text
from conductor.errors import hidden
from conductor.services.calls import Grantee, ServiceError, bad_params, read

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.]{0,99}")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,49}")
_LABEL_TEXT: Final = 200
_LABELS: Final = 10
_LABELS_TEXT: Final = 500
"""Characters of all labels of a series: the file with all series is written again and again."""

_INTERVAL: Final = 1.0
"""Seconds between two writings of the file."""

Kind = Literal["counter", "gauge"]
Series = tuple[str, tuple[tuple[str, str], ...]]


class _Metric(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: float = 1
    kind: Kind = "counter"
    labels: dict[str, str] = {}


class Metrics:
    """The metrics of the components of one chain; used on the event loop."""

    def __init__(
        self,
        path: str | None = None,
        log: Callable[[str, str, str], None] = lambda *_: None,
        by: str = "",
    ) -> None:
        """
        Args:
            path: The file to write; None: no file is written.
            log: Writes a line: level, component name, text.
            by: The origin of this setting, for messages about the file.
        """
        self._path = path
        self._by = by
        self._log = log
        self.more: Callable[[], str] = str
        """The text in the file before the components' metrics."""
        self._writing: asyncio.TimerHandle | None = None
        self._values: dict[str, dict[Series, float]] = {}
        """By component and series: a name with a set of labels."""
        self._kinds: dict[tuple[str, str], Kind] = {}
        """By component and name: no component fixes the kind of another's metric."""

    def add(self, grantee: Grantee, params: bytes | None) -> None:
        """Counts. Raises `ServiceError`."""
        component, most = grantee.name, grantee.limits["series"]
        metric = read(params, _Metric)
        _check(metric)
        name = metric.name.replace(".", "_")
        kind = self._kinds.get((component, name), metric.kind)
        if kind != metric.kind:
            raise ServiceError("kind", f"`{name}` is a {kind} already")
        values = self._values.setdefault(component, {})
        series = (name, tuple(sorted(metric.labels.items())))
        if series not in values and len(values) >= most:
            raise ServiceError(
                "too-many",
                f"{most} series are kept for a component (limit `series`)\n"
                "hint: use fewer labels, or raise it with `,limit.series=NUMBER` behind it",
            )
        before = values.get(series, 0.0) if metric.kind == "counter" else 0.0
        values[series] = before + metric.value
        self._kinds[component, name] = kind
        self.changed()

    def changed(self) -> None:
        """There are new numbers: the file is written soon."""
        if self._path is not None and self._writing is None:
            self._writing = asyncio.get_running_loop().call_later(_INTERVAL, self._write)

    def text(self) -> str:
        """All of it, in the exposition format, sorted."""
        series = sorted(
            (name, component, labels, value)
            for component, values in self._values.items()
            for (name, labels), value in values.items()
        )
        kinds: dict[str, set[Kind]] = {}
        for (_, name), kind in self._kinds.items():
            kinds.setdefault(name, set()).add(kind)
        lines = []
        for name, of_name in itertools.groupby(series, key=operator.itemgetter(0)):
            shown = f"conductor_proxy_{name}"
            # A collector rejects a file that declares two types for a name.
            agreed = kinds[name].pop() if len(kinds[name]) == 1 else "untyped"
            lines.append(f"# TYPE {shown} {agreed}")
            for _, component, labels, value in of_name:
                pairs = (("component", component), *labels)
                inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in pairs)
                lines.append(f"{shown}{{{inside}}} {_number(value)}")
        return "".join(f"{line}\n" for line in lines)

    def close(self) -> None:
        """Writes the file for the last time. Raises nothing."""
        if self._writing is not None:
            self._writing.cancel()
        self._write()

    def _write(self) -> None:
        self._writing = None
        if self._path is None:
            return
        try:
            _replace(self._path, hidden(self.more() + self.text()))
        except OSError as error:
            text = f"metrics are not written to {self._path}: {error.strerror}{self._by}"
            self._log("warning", "conductor", text)
            self._path = None  # a second attempt would fail likewise, every second


def _replace(path: str, text: str) -> None:
    """Puts text in the place of an ordinary file of the user's own, as a whole, so that a collector
    never reads half of it. Raises `OSError`."""
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file")
        if status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "it belongs to another user")
    beside = f"{path}.{os.getpid()}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    try:
        # A new file, with the user's usual mode: a collector is often another user.
        with open(beside, "xb") as file:
            file.write(json_text.utf8(text))
        os.replace(beside, path)
    except OSError:  # a full disk gets its bytes back
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def _check(metric: _Metric) -> None:
    if not _NAME.fullmatch(metric.name):
        raise bad_params("a name is up to 100 letters, digits, `_` and `.`")
    if not math.isfinite(metric.value) or (metric.kind == "counter" and metric.value < 0):
        raise bad_params("a counter only grows, and every value is finite")
    if len(metric.labels) > _LABELS or any(
        not _LABEL.fullmatch(key) or len(value) > _LABEL_TEXT or key == "component"
        for key, value in metric.labels.items()
    ):
        raise bad_params(f"at most {_LABELS} labels of plain names and short values")
    if sum(len(key) + len(value) for key, value in metric.labels.items()) > _LABELS_TEXT:
        raise bad_params(f"labels have at most {_LABELS_TEXT} characters together")


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
