"""The three charts as the server draws them first, and the table behind each. `pool-charts.js` draws over them, and moves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from dashboard import format as figures
from relay.telemetry.history import FIELDS

Row = Sequence[float | int | None]
Column = list[float | None]

RANGES = {"live": 60, "5m": 300, "15m": 900}
DEFAULT_RANGE = "15m"
POINTS = 300  # a chart's most: longer ranges are drawn in steps
TABLE_ROWS = 30
WIDTH, HEIGHT = 600, 100

_AT = {name: index + 1 for index, name in enumerate(FIELDS)}  # a row begins with its second


@dataclass(frozen=True)
class Line:
    """A line of a chart: `kind` is line, area or step; `key` names its colour in app.css; `text` writes a value."""

    name: str
    label: str
    key: str
    css: str
    kind: str
    text: Callable[[float | None], str]


@dataclass(frozen=True)
class Chart:
    """A chart ready to be painted: `paths` are of a box of 600 by 100, `rows` are its table, the newest first."""

    name: str
    title: str
    unit: str
    label: str
    lines: list[Line]
    paths: list[tuple[str, str]]
    top: str
    rows: list[tuple[int, list[str]]]
    latest: list[str]

    @property
    def legend(self) -> list[tuple[Line, str]]:
        """Each line with its newest value."""
        return list(zip(self.lines, self.latest, strict=True))


def step_of(range_s: int) -> int:
    """Seconds that one point stands for."""
    return max(1, range_s // POINTS)


def charts(samples: Sequence[Row], range_s: int, now_s: int) -> list[Chart]:
    """The three charts of the `range_s` seconds up to `now_s` (Unix seconds)."""
    step = step_of(range_s)
    drawn = columns(samples, now_s, range_s, step)
    table = columns(samples, now_s, range_s, max(step, range_s // TABLE_ROWS))
    every = max(step, range_s // TABLE_ROWS)
    last = now_s // every * every
    times = [last - index * every for index in range(len(next(iter(table.values()))))]
    return [_chart(*spec, drawn, table, times) for spec in _specs()]


def _specs() -> list[tuple[str, str, str, str, list[Line]]]:
    def rate(value: float | None) -> str:
        return "–" if value is None else figures.rate(value)

    def whole(value: float | None) -> str:
        return "–" if value is None else figures.whole(value)

    def wait(value: float | None) -> str:
        return " ".join(figures.duration(value)).strip()

    return [
        (
            "requests",
            _("Requests"),
            _("/s"),
            _("Requests a second by outcome"),
            [
                Line("granted", _("granted"), "", "p-1", "line", rate),
                Line("timeouts", _("timed out"), "key-act", "p-act", "line", rate),
                Line("rejected", _("refused"), "key-watch", "p-watch", "line", rate),
                Line("cancelled", _("cancelled"), "key-soft", "p-3", "line", rate),
            ],
        ),
        (
            "wait",
            _("Wait"),
            _("s"),
            _("Average wait of grants in seconds"),
            [Line("average_wait_s", _("average"), "", "p-1", "line", wait)],
        ),
        (
            "permits",
            _("Permits"),
            "",
            _("Capacity, permits in use and waiters"),
            [
                Line("capacity", _("capacity"), "key-ink", "p-2", "step", whole),
                Line("in_use", _("in use"), "key-area", "p-1", "area", whole),
                Line("waiting", _("waiters"), "key-watch", "p-watch", "line", whole),
            ],
        ),
    ]


def columns(samples: Sequence[Row], now_s: int, range_s: int, step: int) -> dict[str, Column]:
    """Samples in steps that end with the one of `now_s`: rates averaged, waits weighed by grants, states as last seen."""
    count = math.ceil(range_s / step)
    first = now_s // step - count + 1
    buckets: list[list[Row]] = [[] for _ in range(count)]
    for row in samples:
        index = int(row[0] or 0) // step - first
        if 0 <= index < count:
            buckets[index].append(row)
    rates = ("granted", "timeouts", "rejected", "cancelled")
    found: dict[str, Column] = {name: [_mean(bucket, _AT[name]) for bucket in buckets] for name in rates}
    found["average_wait_s"] = [_mean_wait(bucket) for bucket in buckets]
    for name in ("capacity", "in_use", "waiting"):
        found[name] = [bucket[-1][_AT[name]] if bucket else None for bucket in buckets]
    return found


def _mean(bucket: list[Row], at: int) -> float | None:
    return sum(row[at] or 0 for row in bucket) / len(bucket) if bucket else None


def _mean_wait(bucket: list[Row]) -> float | None:
    grants = sum(row[_AT["granted"]] or 0 for row in bucket)
    if not grants:
        return None
    return sum((row[_AT["average_wait_s"]] or 0) * (row[_AT["granted"]] or 0) for row in bucket) / grants


def _chart(
    name: str,
    title: str,
    unit: str,
    label: str,
    lines: list[Line],
    drawn: dict[str, Column],
    table: dict[str, Column],
    times: list[int],
) -> Chart:
    shown = [value for line in lines for value in drawn[line.name] if value is not None]
    top = ceiling(max(shown, default=0))
    rows = []
    for index, at in enumerate(times):
        values = [table[line.name][-1 - index] for line in lines]
        rows.append((at, [line.text(value) for line, value in zip(lines, values, strict=True)]))
    newest = [next((value for value in reversed(drawn[line.name][-5:]) if value is not None), None) for line in lines]
    return Chart(
        name=name,
        title=title,
        unit=unit,
        label=label,
        lines=lines,
        paths=[(path(drawn[line.name], top, line.kind), _css(line)) for line in lines],
        top=figures.rate(top) if top < 10 else figures.whole(top),
        rows=rows,
        latest=[line.text(value) for line, value in zip(lines, newest, strict=True)],
    )


def _css(line: Line) -> str:
    return "p-area" if line.kind == "area" else line.css


def ceiling(value: float) -> float:
    """The scale's end: the next of 1, 2, 3, 5 times a power of ten."""
    if value <= 0:
        return 1
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 3, 5, 10) if value <= step * power), 10 * power)


def path(values: Column, top: float, kind: str) -> str:
    """A path of a box of 600 by 100; what has no value is a gap."""
    parts: list[str] = []
    start: float | None = None
    x = 0.0
    for index, value in enumerate(values):
        if value is None:
            parts.append(_closed(start, x, kind))
            start = None
            continue
        x = WIDTH * index / max(1, len(values) - 1)
        y = HEIGHT - HEIGHT * min(value, top) / top
        if start is None:
            parts.append(f"M{x:.1f} {HEIGHT}L{x:.1f} {y:.1f}" if kind == "area" else f"M{x:.1f} {y:.1f}h0")
            start = x
        else:
            parts.append(f"H{x:.1f}V{y:.1f}" if kind == "step" else f"L{x:.1f} {y:.1f}")
    parts.append(_closed(start, x, kind))
    return "".join(parts)


def _closed(start: float | None, x: float, kind: str) -> str:
    return f"L{x:.1f} {HEIGHT}Z" if kind == "area" and start is not None else ""
