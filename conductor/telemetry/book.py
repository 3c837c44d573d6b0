"""Keeps numbers, and writes them in the text format of Prometheus."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from conductor.telemetry.measures import Labels, Number

_MOST_SERIES: Final = 20_000
"""The most sets of labels that are kept; a further set is not counted."""

_Key = tuple[tuple[str, str], ...]
Read = Callable[[], Iterable[tuple[Number, Labels, float]]]
"""Numbers that are read when somebody looks."""


class _Histogram(msgspec.Struct):
    counts: list[int]
    total: float = 0.0
    count: int = 0


class Book:
    """A `conductor.telemetry.measures.Keeper`. Any thread may read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, Number] = {}
        self._counters: dict[str, dict[_Key, float]] = {}
        self._histograms: dict[str, dict[_Key, _Histogram]] = {}
        self._series = 0
        self.read: Read = tuple

    def add(self, number: Number, labels: Labels, amount: float) -> None:
        """A counter grows."""
        key = tuple(labels.items())
        with self._lock:
            kept = self._counters.setdefault(number.name, {})
            if key in kept:
                kept[key] += amount
            elif self._has_room(number):
                kept[key] = amount

    def record(self, number: Number, labels: Labels, value: float) -> None:
        """One more value of a histogram."""
        key = tuple(labels.items())
        with self._lock:
            kept = self._histograms.setdefault(number.name, {})
            found = kept.get(key)
            if found is None:
                if not self._has_room(number):
                    return
                found = kept[key] = _Histogram([0] * (len(number.buckets) + 1))
            found.counts[bisect_left(number.buckets, value)] += 1
            found.total += value
            found.count += 1

    def _has_room(self, number: Number) -> bool:
        self._numbers[number.name] = number
        self._series += 1
        return self._series <= _MOST_SERIES

    def text(self) -> str:
        """All of it, in the exposition format."""
        lines: list[str] = []
        with self._lock:
            for name, counters in sorted(self._counters.items()):
                if counters:
                    shown = _head(self._numbers[name], lines)
                    lines += [f"{shown}{_inside(k)} {number(v)}" for k, v in counters.items()]
            for name, histograms in sorted(self._histograms.items()):
                if histograms:
                    shown = _head(self._numbers[name], lines)
                    for key, histogram in histograms.items():
                        lines += _drawn(shown, key, histogram, self._numbers[name].buckets)
        last = ""
        for kept, labels, value in self.read():
            shown = _name(kept) if kept.name == last else _head(kept, lines)
            last = kept.name
            lines.append(f"{shown}{_inside(tuple(labels.items()))} {number(value)}")
        return "".join(f"{line}\n" for line in lines)


def _name(number: Number) -> str:
    """The name of a number by the rules of OpenTelemetry for Prometheus."""
    unit = {"s": "_seconds", "By": "_bytes"}.get(number.unit, "")
    name = number.name.replace(".", "_")
    name = name if not unit or name.endswith(unit) else name + unit
    return name + "_total" if number.kind == "counter" else name


def _head(number: Number, lines: list[str]) -> str:
    shown = _name(number)
    lines += [f"# HELP {shown} {number.what}", f"# TYPE {shown} {number.kind}"]
    return shown


def _drawn(
    shown: str, key: _Key, histogram: _Histogram, buckets: tuple[float, ...]
) -> Iterator[str]:
    below = 0
    for bound, count in zip((*buckets, math.inf), histogram.counts, strict=True):
        below += count
        limit = "+Inf" if bound == math.inf else number(bound)
        yield f"{shown}_bucket{_inside((*key, ('le', limit)))} {below}"
    yield f"{shown}_sum{_inside(key)} {number(histogram.total)}"
    yield f"{shown}_count{_inside(key)} {histogram.count}"


def _inside(key: _Key) -> str:
    """Labels; a label without a value is left out."""
    pairs = [f'{name.replace(".", "_")}="{_escaped(text)}"' for name, text in key if text]
    return "{" + ",".join(pairs) + "}" if pairs else ""


def number(value: float) -> str:
    """A number as the format has it."""
    whole = float(value).is_integer() and abs(value) < 2**53
    return str(int(value)) if whole else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
