"""Bars and small lines as SVG attributes. `static/dashboard/pictures.js` draws the same ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

MAX_CELLS = 24
WIDTH, HEIGHT = 80, 24
_LOG_FLOOR_S, _LOG_DECADES = 0.001, 4  # one scale for every row: 1 ms to 10 s


@dataclass(frozen=True)
class Meter:
    """Permits held of capacity, in percent of the bar. Above the capacity the bar is what is held. What is "" is not drawn."""

    use: str
    ground: str
    over: str
    cell: str
    due: str = ""

    @classmethod
    def of(cls, in_use: int, capacity: int, due: int = 0) -> Meter:
        """The bar of a pool; no `cell` where permits are too many to draw each. `due` is where the tick stands."""
        whole = max(in_use, capacity)
        held = min(in_use, capacity)
        cell = _percent(1, capacity) if capacity <= MAX_CELLS and in_use <= capacity else ""
        over = _percent(in_use - held, whole) if in_use > held else ""
        tick = _percent(due, whole) if 0 < due < whole else ""
        return cls(_percent(held, whole), _percent(capacity, whole), over, cell, tick)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3f}".rstrip("0").rstrip(".") + "%"


def spark(values: list[float | None], *, log: bool) -> tuple[str, str]:
    """A line and the dot on its newest point, as paths in a box of 80 by 24; a gap stays a gap."""
    known = [value for value in values if value is not None]
    if not any(known):
        return "", ""
    top = max(known) * 1.15
    line, pen = [], "M"
    for index, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        share = _log_share(value) if log else value / top
        line.append(f"{pen}{_x(index, len(values)):.1f} {HEIGHT - 1 - (HEIGHT - 3) * share:.1f}".replace(".0", ""))
        pen = "L"
    dot = "" if values[-1] is None else f"M{line[-1][1:]}h0"
    return "".join(line), dot


def _x(index: int, count: int) -> float:
    return 2 + (WIDTH - 5) * index / (count - 1)


def _log_share(value: float) -> float:
    return min(1.0, math.log10(max(value, _LOG_FLOOR_S) / _LOG_FLOOR_S) / _LOG_DECADES)
