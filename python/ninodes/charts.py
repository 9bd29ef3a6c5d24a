"""Charts as SVG text, and as pictures where Pillow is there."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

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


def picture(title: str, rows: Sequence[tuple[str, float, str]]) -> Any:
    """The same bars as a picture of Pillow."""
    from PIL import Image, ImageDraw, ImageFont

    most = max((value for _, value, _ in rows), default=1.0) or 1.0
    size = (_LABEL + _BAR + 200, 40 + _ROW * len(rows))
    image = Image.new("RGB", size, "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(14)
    draw.text((8, 8), title, "black", font)
    for i, (label, value, text) in enumerate(rows):
        y = 34 + _ROW * i
        length = _BAR * value / most
        draw.text((_LABEL - 8 - draw.textlength(label, font), y + 2), label, "black", font)
        draw.rectangle((_LABEL, y + 3, _LABEL + length, y + 19), "#4477aa")
        draw.text((_LABEL + length + 6, y + 2), text, "black", font)
    return image
