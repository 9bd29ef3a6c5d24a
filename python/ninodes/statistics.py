"""What an engine's calls came to, under the names that the first node pack had for it. There each
was a constant or a counter of nothing; here each is counted, and has a meaning."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

_Made = TypeVar("_Made")


class Statistics:
    """Counts over the calls of one engine. ``Engine.statistics()`` gives them as a dictionary."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: list[float] = []
        self._hits = 0
        self._smaller = 0
        self._narrow = 0
        self._retried = 0
        self._planned = 0
        self._peak = 0
        #: Pictures and seconds of decodes of one picture, and of several.
        self._single = [0, 0.0]
        self._batched = [0, 0.0]
        self._batches = 0

    def watch(self, run: Callable[[], _Made], loads: Callable[[], int]) -> _Made:
        """Runs one call and counts it; one that raises does not count."""
        before, begin = loads(), time.perf_counter()
        made = run()
        taken = time.perf_counter() - begin
        with self._lock:
            self._seconds.append(taken)
            self._hits += loads() == before
        return made

    def heard(self, report: dict[str, Any], pictures: int) -> None:
        """Counts what a decode's report says."""
        with self._lock:
            narrow = report["precision"] != "f32"
            self._smaller += report["strategy"] != "untiled"
            self._narrow += narrow
            self._retried += narrow and report["retries"] > 0
            self._planned += report["planned_bytes"]
            self._peak += report["peak_bytes"]
            self._batches += pictures > 1
            side = self._batched if pictures > 1 else self._single
            side[0] += pictures
            side[1] += report["seconds"]

    def summary(self) -> dict[str, float | int | None]:
        """The numbers by name; ``None`` where nothing was counted that they could be made of."""
        with self._lock:
            calls = len(self._seconds)
            alone, together = _each(self._single), _each(self._batched)
            return {
                # Calls of stages, and the mean of their seconds by the wall clock.
                "total_executions": calls,
                "average_execution_time": _share(sum(self._seconds), calls),
                # Share of the calls that found their weights on the device.
                "cache_hit_rate": _share(self._hits, calls),
                # Decodes that were not made in one piece, to fit the budget.
                "total_memory_saves": self._smaller,
                # What decodes had planned to take, of what they took at their most.
                "memory_efficiency": _share(self._planned, self._peak),
                # Decodes with activations in less than f32, and the share of them that did not
                # have to be made again in f32.
                "total_precision_optimizations": self._narrow,
                "precision_efficiency": _share(self._narrow - self._retried, self._narrow),
                # Decodes of several pictures, and the time of a picture alone by that of one among
                # several.
                "total_batch_optimizations": self._batches,
                "batch_efficiency": None if None in (alone, together) else alone / together,
            }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _each(side: list[float]) -> float | None:
    return _share(side[1], side[0])
