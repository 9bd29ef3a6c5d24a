"""Charts as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_ROW, _LABEL, _BAR = 26, 220, 360


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars: of each row a label, a value and the text beside the bar."""
    most = max((value for _, value, _ in rows), default=1.0) or 1.0
    height = 34 + _ROW * len(rows)
    width = _LABEL + _BAR + 200
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<text x="8" y="20" font-size="15">{escape(title)}</text>',
    ]
    for i, (label, value, text) in enumerate(rows):
        y = 32 + _ROW * i
        length = _BAR * value / most
        lines += [
            f'<text x="{_LABEL - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{_LABEL}" y="{y + 3}" width="{length:.1f}" height="16" fill="#4477aa"/>',
            f'<text x="{_LABEL + length + 6:.1f}" y="{y + 15}">{escape(text)}</text>',
        ]
    return "\n".join([*lines, "</svg>"])
