"""The live numbers for the page's first paint, read from the running service in one step of its event loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.utils.translation import gettext as _

from dashboard.format import percent
from dashboard.tokens.words import level_names, source_names, state_names
from relay import runtime
from relay.telemetry.histogram import SECOND, Histogram
from relay.telemetry.token_meter import LEVELS, MODEL_FIELDS, SOURCES
from relay.tokens.models import TokenModel
from relay.tokens.prices import Price, price_of
from relay.tokens.registry import ModelSpec, spec_of
from relay.tokens.slot import ModelView

_SHARE_OF = {level: MODEL_FIELDS.index(level) for level in LEVELS}
# The tints of app.css, from best to worst; `static/dashboard/tokens-numbers.js` has the same.
TIER_OF = {"text": "t-1", "segment": "t-2", "shared": "t-3", "computed": "t-0"}
_SLOW = 0.95
_FLOOR_S, _DECADES = 0.00001, 5  # bars of times: 10 µs to 1 s

Shares = dict[str, float | None]


@dataclass(frozen=True)
class Timed:
    """How long requests of one source took since the start: the mean and the 95th percentile in seconds."""

    source: str
    requests: int
    mean_s: float | None
    slow_s: float | None

    @property
    def word(self) -> str:
        """The source in the reader's language."""
        return source_names()[self.source]

    @property
    def width(self) -> str:
        """The percentile as a bar on a log scale."""
        share = math.log10(max(self.slow_s or 0, _FLOOR_S) / _FLOOR_S) / _DECADES
        return f"{100 * min(1.0, share):.1f}%"


@dataclass(frozen=True)
class ModelLine:
    """One configured model as a row. Rates and shares are over the last 60 s, `requests` is since the start.

    `shares`: how much of the characters each level answered, None without any.
    """

    view: ModelView
    spec: ModelSpec
    requests: int
    requests_s: float
    tokens_s: float
    shares: Shares
    price: Price | None = None

    @property
    def reused_percent(self) -> str:
        """How much of the characters was known before."""
        reused = reused_of(self.shares)
        return "–" if reused is None else f"{reused * 100:.0f} %"

    @property
    def state(self) -> str:
        """The tokenizer's state; a model without one is estimated."""
        return "estimate" if self.spec.source == "estimate" else self.view.state

    @property
    def state_word(self) -> str:
        """Its state in the reader's language."""
        return state_names()[self.state]

    @property
    def about(self) -> str:
        """One line under its name: why it failed, else its other names, else where its tokenizer comes from."""
        return self.view.why or ", ".join(self.spec.aliases) or self._origin

    @property
    def _origin(self) -> str:
        spec = self.spec
        if spec.source == "estimate":
            words = _("%(model)s times %(factor)s, measured %(date)s")
            return words % {"model": spec.location, "factor": spec.estimate_factor, "date": spec.estimate_date}
        return spec.location or (_("comes with the relay") if spec.source == "package" else "Hugging Face")


@dataclass(frozen=True)
class Level:
    """One level's share of the characters as a bar."""

    key: str
    word: str
    tier: str
    share: float | None

    @property
    def width(self) -> str:
        """How long its bar is."""
        return f"{(self.share or 0) * 100:.1f}%"

    @property
    def percent(self) -> str:
        """Its share in percent."""
        return percent(self.share)


@dataclass(frozen=True)
class Numbers:
    """All of token counting, now. Rates and shares are over the last 60 s; times and what was saved since the start."""

    requests_s: float
    tokens_s: float
    shares: Shares
    saved_s: float
    saved_usd: float
    times: list[Timed]
    models: list[ModelLine]

    @property
    def reused(self) -> float | None:
        """The share of the characters that were known before."""
        return reused_of(self.shares)

    def timed(self, source: str) -> Timed:
        """The times of one source."""
        return next(timed for timed in self.times if timed.source == source)

    @property
    def levels(self) -> list[Level]:
        """Each level's share."""
        names = level_names()
        return [Level(key, names[key], TIER_OF[key], share) for key, share in self.shares.items()]


def reused_of(shares: Shares) -> float | None:
    """All shares but that of what was computed."""
    computed = shares["computed"]
    return None if computed is None else 1 - computed


def numbers() -> Numbers | None:
    """The service as it is now; None if this process does not serve."""
    try:
        server = runtime.current()
        specs = [spec_of(row) for row in TokenModel.objects.all()]
        found: Numbers = server.call(_read, server, specs)
    except (RuntimeError, TimeoutError):
        return None
    # not on the loop: the first price of all reads the table
    return replace(found, models=[replace(line, price=price_of(line.spec)) for line in found.models])


def _read(server: runtime.Runtime, specs: list[ModelSpec]) -> Numbers:
    meter = server.meters.tokens
    live = meter.live()
    views = {view.name: view for view in server.tokens.models()}
    known = [(spec, views[spec.name]) for spec in specs if spec.name in views]
    return Numbers(
        requests_s=live["requests_s"],
        tokens_s=live["tokens_s"],
        shares=dict(zip(LEVELS, live["levels"], strict=True)),
        saved_s=live["saved_s"],
        saved_usd=live["saved_usd"],
        times=[_timed(source, [model.times[source] for model in meter.models.values()]) for source in SOURCES],
        models=[_line(server, spec, view, live["models"].get(spec.name)) for spec, view in known],
    )


def _line(server: runtime.Runtime, spec: ModelSpec, view: ModelView, live: Sequence[float | None] | None) -> ModelLine:
    model = server.meters.tokens.models.get(spec.name)
    values = live or [0.0] * len(MODEL_FIELDS)
    return ModelLine(
        view=view,
        spec=spec,
        requests=sum(times.count for times in model.times.values()) if model else 0,
        requests_s=values[0] or 0.0,
        tokens_s=values[1] or 0.0,
        shares={level: values[index] if live else None for level, index in _SHARE_OF.items()},
    )


def _timed(source: str, histograms: Iterable[Histogram]) -> Timed:
    found = list(histograms)
    requests = sum(each.count for each in found)
    mean_s = sum(each.sum_us for each in found) / requests / SECOND if requests else None
    return Timed(source, requests, mean_s, quantile(found, _SLOW))


def quantile(histograms: Sequence[Histogram], share: float) -> float | None:
    """The value (s) below which `share` of all observations are, interpolated within its bucket; None without any."""
    if not histograms or not any(each.count for each in histograms):
        return None
    bounds: tuple[float, ...] = histograms[0].bounds_s
    buckets: list[int] = [sum(column) for column in zip(*(each.buckets for each in histograms), strict=True)]
    wanted, below = share * sum(buckets), 0
    for index, count in enumerate(buckets[:-1]):
        if count and below + count >= wanted:
            low, high = bounds[index - 1] if index else 0.0, bounds[index]
            return low + (high - low) * ((wanted - below) / count)
        below += count
    return bounds[-1]
