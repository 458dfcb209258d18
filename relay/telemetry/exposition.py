"""Prometheus text, line by line, with everything that does not change kept: names, labels and unchanged histograms.

`prometheus_client.generate_latest` builds each sample as an object and formats its labels anew; for 200 pools of 20
tenants that holds the event loop (or, in a thread, the interpreter's lock) many times longer than this.
"""

from __future__ import annotations

import math

from relay.telemetry.histogram import SECOND, Histogram


def escape(value: str) -> str:
    """A label's value between its quotes."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def labels(**values: str) -> str:
    """The labels of a series, in the order given: `pool="gpu",state="active"`."""
    return ",".join(f'{name}="{escape(value)}"' for name, value in values.items())


def number(value: float | int) -> str:
    """A sample's value."""
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "+Inf" if value > 0 else "-Inf"
    return repr(value)


class HistogramText:
    """The lines of one histogram: built anew only when it has counted since."""

    __slots__ = ("_at", "_buckets", "_count", "_histogram", "_sum", "_text")

    def __init__(self, name: str, series: str, histogram: Histogram) -> None:
        self._histogram = histogram
        bounds = [repr(bound) for bound in histogram.bounds_s] + ["+Inf"]
        self._buckets = [f'{name}_bucket{{{series},le="{bound}"}} ' for bound in bounds]
        self._count = f"{name}_count{{{series}}} "
        self._sum = f"{name}_sum{{{series}}} "
        self._at = -1
        self._text = ""

    def of(self, histogram: Histogram) -> bool:
        """Whether this is still that histogram's text."""
        return self._histogram is histogram

    def text(self) -> str:
        """The lines as of now."""
        histogram = self._histogram
        if histogram.count != self._at:
            self._at = histogram.count
            lines = []
            below = 0
            for prefix, count in zip(self._buckets, histogram.buckets, strict=True):
                below += count
                lines.append(f"{prefix}{below}\n")
            lines.append(f"{self._count}{below}\n{self._sum}{histogram.sum_us / SECOND!r}\n")
            self._text = "".join(lines)
        return self._text


class Family:
    """A metric family: its head, and the text of its series gathered piece by piece."""

    __slots__ = ("help", "kind", "name", "parts")

    def __init__(self, name: str, kind: str, text: str) -> None:
        self.name = name
        self.kind = kind
        self.help = text
        self.parts: list[str] = []

    def head(self, openmetrics: bool) -> str:
        """The HELP and TYPE lines; OpenMetrics names a counter without its `_total`."""
        name = self.name.removesuffix("_total") if openmetrics and self.kind == "counter" else self.name
        return f"# HELP {name} {self.help}\n# TYPE {name} {self.kind}\n"
