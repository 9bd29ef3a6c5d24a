"""What was measured on this machine before, in an SQLite file of the cache folder."""

from __future__ import annotations

import os
import platform
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass

from .measure import Series
from .models import Path, cache_dir

_TABLE = """
CREATE TABLE IF NOT EXISTS measured (
    time REAL, machine TEXT, device TEXT, what TEXT,
    n INTEGER, median REAL, stdev REAL, peak_bytes INTEGER, version TEXT
)
"""


@dataclass(frozen=True)
class Record:
    """One measurement: when, with how many runs, seconds, and bytes on the device."""

    time: float
    n: int
    median: float
    stdev: float
    peak_bytes: int
    version: str


class History:
    """Measurements by device and by what was measured."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = os.fspath(path or os.path.join(cache_dir(), "history.sqlite"))

    def add(self, device: str, what: str, series: Series, peak_bytes: int) -> None:
        from ._native import __version__

        row = (time.time(), platform.node(), device, what, series.n, series.median)
        row += (series.stdev, peak_bytes, __version__)
        os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        with closing(sqlite3.connect(self.path)) as file, file:
            file.execute(_TABLE)
            file.execute("INSERT INTO measured VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def of(self, device: str, what: str) -> list[Record]:
        """Earlier measurements of this machine, the oldest first."""
        if not os.path.isfile(self.path):
            return []
        query = "SELECT time, n, median, stdev, peak_bytes, version FROM measured"
        query += " WHERE machine = ? AND device = ? AND what = ? ORDER BY time"
        with closing(sqlite3.connect(self.path)) as file:
            file.execute(_TABLE)
            rows = file.execute(query, (platform.node(), device, what)).fetchall()
        return [Record(*row) for row in rows]

    def trend(self, device: str, what: str) -> str:
        """How the last measurement compares with the median of those before it."""
        records = self.of(device, what)
        if len(records) < 2:
            return "measured for the first time here"
        before = sorted(record.median for record in records[:-1])
        usual, last = before[len(before) // 2], records[-1]
        share = last.median / usual - 1.0
        noise = 2 * max(record.stdev for record in records)
        if abs(last.median - usual) <= noise:
            return f"as in {len(before)} earlier measurements, within their spread"
        word = "slower" if share > 0 else "faster"
        return f"{abs(share):.0%} {word} than the median of {len(before)} earlier measurements"
