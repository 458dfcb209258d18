"""Rows of a benchmark's outcome, the tables that people read, and the JSON beside them."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from msgspec import Struct

from bench.procs import ROOT

MEMORY, DURABLE = "in memory", "durable"


class Rate(Struct):
    """One scenario over all rounds. `ratio` is the median of the rounds' ratios to the row named `against`."""

    name: str
    title: str
    kept: str
    rates: list[float]
    server_us: list[float]
    client_us: list[float]
    p50_ms: list[float]
    p99_ms: list[float]
    against: str = ""
    ratio: float | None = None
    cpu_ratio: float | None = None
    target: float | None = None
    note: str = ""

    def met(self) -> bool | None:
        """Whether the ratio reaches the target; None without a target."""
        return None if self.target is None or self.ratio is None else self.ratio >= self.target


class Figure(Struct):
    """One figure. `most` and `least` bound it where the issue sets a target. `data` is what it was made from."""

    name: str
    kept: str
    value: float
    unit: str
    most: float | None = None
    least: float | None = None
    note: str = ""
    data: dict[str, Any] = {}

    def met(self) -> bool | None:
        """Whether the figure keeps its bound; None without one."""
        if self.most is None and self.least is None:
            return None
        return (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)

    def target(self) -> str:
        """The bound in words."""
        return f"≤ {self.most:g}" if self.most is not None else f"≥ {self.least:g}" if self.least is not None else ""


class Report(Struct):
    """All that one run found."""

    began: str
    machine: dict[str, Any]
    settings: dict[str, Any]
    rates: list[Rate] = []
    figures: dict[str, list[Figure]] = {}
    seconds: float = 0.0


def new(settings: dict[str, Any]) -> Report:
    """An empty report with the facts of this machine."""
    names = ("uvicorn", "uvloop", "httptools", "msgspec", "django", "tokenizers")
    machine = {
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cores": len(os.sched_getaffinity(0)),
        "packages": {name: version(name) for name in names},
        "revision": _revision(),
    }
    return Report(datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), machine, settings)


def _revision() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""


def save(report: Report) -> Path:
    """Writes the report as JSON into bench/results and returns the file."""
    folder = ROOT / "bench" / "results"
    folder.mkdir(exist_ok=True)
    file = folder / f"{report.began[:19].replace(':', '').replace('-', '')}.json"
    file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))
    return file


def render(report: Report) -> str:
    """The tables for people, and one closing line with the number of targets met."""
    parts = []
    if report.rates:
        head = (
            "HTTP",
            "state",
            "requests/s",
            "ratio",
            "by CPU",
            "p50 ms",
            "p99 ms",
            "server µs",
            "client µs",
            "target",
            "",
        )
        parts.append(table(head, [_rate_cells(rate) for rate in report.rates], right=range(2, 10)))
        parts.append(
            "Medians over the rounds, closed loop. server µs: CPU of the server process (user + system) a request. "
            "ratio: median of the rounds' ratios, to the echo unless the row says otherwise; by CPU: the same of server µs, "
            "which other work on the machine disturbs less."
        )
        parts += [f"  {rate.name}: {rate.note}" for rate in report.rates if rate.note]
    for title, figures in report.figures.items():
        parts.append(
            table(
                (title, "state", "figure", "unit", "target", ""),
                [_figure_cells(figure) for figure in figures],
                right=(2, 4),
            )
        )
    marks = [met for met in _marks(report) if met is not None]
    parts.append(f"{sum(marks)} of {len(marks)} targets met, in {report.seconds:.0f} s.")
    return "\n\n".join(parts)


def _marks(report: Report) -> list[bool | None]:
    return [rate.met() for rate in report.rates] + [row.met() for rows in report.figures.values() for row in rows]


def missed(report: Report) -> bool:
    """Whether any target was missed."""
    return False in _marks(report)


def _mark(met: bool | None) -> str:
    return "" if met is None else "met" if met else "MISSED"


def _rate_cells(rate: Rate) -> list[str]:
    ratio = "" if rate.ratio is None else f"{rate.ratio:.2f}"
    if rate.against not in {"", "echo"}:
        ratio += f" of {rate.against}"
    return [
        rate.title,
        rate.kept,
        f"{median(rate.rates):,.0f}",
        ratio,
        "" if rate.cpu_ratio is None else f"{rate.cpu_ratio:.2f}",
        f"{median(rate.p50_ms):.2f}",
        f"{median(rate.p99_ms):.2f}",
        f"{median(rate.server_us):.1f}",
        f"{median(rate.client_us):.1f}",
        "" if rate.target is None else f"≥ {rate.target:.2f}",
        _mark(rate.met()),
    ]


def _figure_cells(figure: Figure) -> list[str]:
    note = f" ({figure.note})" if figure.note else ""
    value = (
        f"{figure.value:,.0f}"
        if figure.value >= 1000
        else f"{figure.value:.3g}"
        if figure.value < 10
        else f"{figure.value:.1f}"
    )
    return [figure.name + note, figure.kept, value, figure.unit, figure.target(), _mark(figure.met())]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A plain text table; the columns in `right` are aligned to the right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])
