"""Times of named stretches of a program: start, end, summary. They may nest and repeat."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator
from typing import Any


class Profiler:
    """Times of named stretches by the wall clock. The engine's calls return when their work is
    done, so a stretch around one holds all of it."""

    def __init__(self) -> None:
        self._open: dict[str, list[float]] = {}
        self._times: dict[str, list[float]] = {}
        self._meta: dict[str, dict[str, Any]] = {}

    def start(self, name: str, **meta: Any) -> None:
        """Begins a stretch."""
        self._meta.setdefault(name, {}).update(meta)
        self._open.setdefault(name, []).append(time.perf_counter())

    def end(self, name: str) -> float:
        """Ends the stretch that was begun last under this name; gives its milliseconds."""
        if not self._open.get(name):
            raise ValueError(f"{name!r} was not started")
        elapsed = (time.perf_counter() - self._open[name].pop()) * 1e3
        self._times.setdefault(name, []).append(elapsed)
        return elapsed

    @contextlib.contextmanager
    def stretch(self, name: str, **meta: Any) -> Iterator[None]:
        """A stretch around a block."""
        self.start(name, **meta)
        try:
            yield
        finally:
            self.end(name)

    def get_summary(self) -> dict[str, dict[str, float]]:
        """Count, total, mean, median, least, most and deviation of every stretch, in ms."""
        return {name: _summary(times) for name, times in self._times.items()}

    def print_summary(self) -> None:
        """Prints the summary as a table, the longest first."""
        rows = sorted(self.get_summary().items(), key=lambda row: -row[1]["total_ms"])
        print(f"{'stage':<20} {'n':>4} {'total ms':>10} {'median':>9} {'min':>9} {'max':>9}")
        for name, row in rows:
            numbers = (row["total_ms"], row["median_ms"], row["min_ms"], row["max_ms"])
            times = " ".join(f"{v:>{w}.1f}" for v, w in zip(numbers, (10, 9, 9, 9)))
            print(f"{name:<20} {row['count']:>4.0f} {times}")

    def reset(self) -> None:
        """Forgets everything."""
        self.__init__()


def _summary(times: list[float]) -> dict[str, float]:
    return {
        "count": len(times),
        "total_ms": sum(times),
        "avg_ms": statistics.fmean(times),
        "median_ms": statistics.median(times),
        "min_ms": min(times),
        "max_ms": max(times),
        "stdev_ms": statistics.stdev(times) if len(times) > 1 else 0.0,
    }
