"""Measuring: repeated runs with warm-up, their statistics, and whether two series differ."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Above so many ways to split two series, a sample of them is looked at.
_SPLITS = 20_000


@dataclass(frozen=True)
class Series:
    """Times in seconds of runs that do the same."""

    times: tuple[float, ...]

    @property
    def n(self) -> int:
        return len(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def stdev(self) -> float:
        return statistics.stdev(self.times) if self.n > 1 else 0.0

    def __str__(self) -> str:
        low, high = min(self.times), max(self.times)
        return f"{self.median:.3f} s (n={self.n}, {low:.3f} to {high:.3f}, sd {self.stdev:.3f})"


def repeat(run: Callable[[], Any], n: int = 5, warm_up: int = 1) -> tuple[Series, Any]:
    """The times of ``n`` runs after ``warm_up`` others, and what the last one gave."""
    for _ in range(warm_up):
        run()
    times, made = [], None
    for _ in range(n):
        begin = time.perf_counter()
        made = run()
        times.append(time.perf_counter() - begin)
    return Series(tuple(times)), made


def significance(a: Series, b: Series) -> float:
    """The probability of a difference of medians at least as large, if both series were of the same
    thing: a permutation test, exact where there are few enough splits."""
    values = [*a.times, *b.times]
    seen = abs(a.median - b.median)
    total = math.comb(len(values), a.n)
    if total <= _SPLITS:
        splits = itertools.combinations(range(len(values)), a.n)
    else:
        random = np.random.default_rng(0)
        splits = (random.permutation(len(values))[: a.n] for _ in range(_SPLITS))
    at_least, count = 0, 0
    for split in splits:
        chosen = set(int(i) for i in split)
        left = statistics.median(values[i] for i in chosen)
        right = statistics.median(v for i, v in enumerate(values) if i not in chosen)
        at_least += abs(left - right) >= seen - 1e-12
        count += 1
    return at_least / count


def psnr(image: Any, reference: Any) -> float:
    """Peak signal to noise in dB of pictures in 0..1; infinite where they are equal."""
    a, b = np.asarray(image, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    error = float(np.mean((a.clip(0, 1) - b.clip(0, 1)) ** 2))
    return math.inf if error == 0 else -10 * math.log10(error)


def resident_bytes() -> int | None:
    """Bytes of this process in memory, by the operating system; ``None`` where it does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096
    except (OSError, ValueError, IndexError):
        return None
