"""Bars and small lines as SVG attributes. `static/dashboard/pictures.js` draws the same ones, the lines more finely."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

MAX_CELLS = 24
WIDTH, HEIGHT = 80, 24
_LOG_FLOOR_S, _LOG_DECADES = 0.001, 4  # one scale for every row: 1 ms to 10 s
_MISSED = 2  # pixels off that nobody sees in the moment before the script draws the line

Point = tuple[int, int]


@dataclass(frozen=True)
class Meter:
    """Permits held of capacity, in percent of the bar. Above the capacity the bar is what is held. What is "" is not drawn."""

    use: str
    over: str
    cells: bool
    due: str = ""

    @classmethod
    def of(cls, in_use: int, capacity: int, due: int = 0) -> Meter:
        """The bar of a pool; no `cells` where permits are too many to draw each. `due` is where the tick stands."""
        whole = max(in_use, capacity)
        held = min(in_use, capacity)
        over = _percent(in_use - held, whole) if in_use > held else ""
        tick = _percent(due, whole) if 0 < due < whole else ""
        return cls(_percent(held, whole), over, capacity <= MAX_CELLS and not over, tick)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}".rstrip("0").rstrip(".") + "%"


def spark(values: list[float | None], *, log: bool) -> str:
    """A line, as a path in a box of 80 by 24; a gap stays a gap.

    Whole pixels, and without the points that nobody would miss: the page's size is what counts here.
    """
    known = [value for value in values if value is not None]
    if not any(known):
        return ""
    top = max(known) * 1.15
    parts: list[list[Point]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            parts.append([])
        else:
            share = _log_share(value) if log else value / top
            parts[-1].append((_x(index, len(values)), round(HEIGHT - 1 - (HEIGHT - 3) * share)))
    return "".join(_path(_kept(part)) for part in parts if part)


def _kept(points: list[Point]) -> list[Point]:
    """The ends of the longest straight pieces that pass every point between them within two pixels."""
    kept, start = points[:1], 0
    for end in range(2, len(points)):
        (x0, y0), (x1, y1) = points[start], points[end]
        slope = (y1 - y0) / (x1 - x0)
        if any(abs(y0 + slope * (x - x0) - y) > _MISSED for x, y in points[start + 1 : end]):
            start = end - 1
            kept.append(points[start])
    return [*kept, points[-1]] if len(points) > 1 else kept


def _path(points: list[Point]) -> str:
    """`M2 12l3-4 1 2`: relative, and a minus needs no space before it."""
    steps = (f"{x1 - x0} {y1 - y0}" for (x0, y0), (x1, y1) in pairwise(points))
    x, y = points[0]
    return f"M{x} {y}l{' '.join(steps) or '0 0'}".replace(" -", "-")


def _x(index: int, count: int) -> int:
    return round(2 + (WIDTH - 5) * index / (count - 1))


def _log_share(value: float) -> float:
    return min(1.0, math.log10(max(value, _LOG_FLOOR_S) / _LOG_FLOOR_S) / _LOG_DECADES)
