"""Plain counters of token counting, by model: what was asked, which level answered, what that saved.

Counting touches plain numbers only, on the event loop, well under a microsecond a call. Windows, estimates and usage are
made of them once a second or less, by whoever reads.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from relay.telemetry.histogram import SECOND, TOKENIZE_BOUNDS_S, Histogram
from relay.telemetry.recent import WINDOW_S, Clock, Recent
from relay.telemetry.tenants import Tenants

SOURCES = ("cache", "partial", "computed")
TIERS = ("text", "segment", "shared")
LEVELS = (*TIERS, "computed")

# What a live frame says about a model, in this order: rates over the last 60 s, each level's share of the characters (null
# without any), and the seconds saved since the start.
MODEL_FIELDS = ("requests_s", "tokens_s", *LEVELS, "saved_s")
MAX_LIVE_MODELS = 50

# What an hour of a processor core is taken to cost, in US dollars: about a cloud's list price for one of a small machine.
# All money said to be saved is processor time saved times this; say so beside the number.
CORE_HOUR_USD = 0.04

_REQUESTS, _TOKENS, _HITS, _LEVELS = 0, 1, 2, 3
_LEVEL = {level: index for index, level in enumerate(LEVELS)}
_TEXT, _COMPUTED = _LEVEL["text"], _LEVEL["computed"]


class Used(Struct, frozen=True, gc=False):
    """What a tenant counted with a model in an interval. `saved_s` is an estimate: see `ModelMeter.rate_s`."""

    model: str
    tenant: str
    requests: int
    tokens: int
    reused_tokens: int
    spent_s: float
    saved_s: float


class ModelMeter:
    """One model's counters since the start; lists are in the order of LEVELS."""

    __slots__ = ("_recent", "_valued", "characters", "computed_s", "differed", "saved_s", "times", "tokens", "total")

    def __init__(self, clock: Clock) -> None:
        self._recent = Recent(_LEVELS + len(LEVELS), clock)
        self.times = {source: Histogram(TOKENIZE_BOUNDS_S) for source in SOURCES}
        self.characters = [0] * len(LEVELS)
        self.tokens = [0] * len(LEVELS)
        self.total = 0  # tokens of all requests
        self.computed_s = 0.0
        self.differed = 0  # times that a fast tokenizer was found wrong, which ends its use
        self.saved_s = 0.0
        self._valued = 0  # reused tokens that saved_s holds

    @property
    def rate_s(self) -> float | None:
        """Seconds that a computed token took, the mean since the start; None before the first.

        An estimate for the reused ones, which nobody timed: other texts, on a machine that was busy otherwise.
        """
        return self.computed_s / self.tokens[_COMPUTED] if self.tokens[_COMPUTED] else None

    def settle(self) -> None:
        """Adds what was reused since to `saved_s`. What comes before the first computed token waits for a rate."""
        rate = self.rate_s
        if rate is not None:
            reused = sum(self.tokens[:_COMPUTED])
            self.saved_s += (reused - self._valued) * rate
            self._valued = reused

    def window(self) -> list[int]:
        """The last 60 s: requests, tokens, requests answered from a cache, and the characters by level."""
        recent = self._recent
        recent.roll()  # what came since the last look belongs to the present second
        times = self.times
        requests = sum(histogram.count for histogram in times.values())
        recent.counts[:] = (requests, self.total, times["cache"].count, *self.characters)
        return recent.window()

    def live(self, window: list[int]) -> list[float | None]:
        """Its part of a live frame, in the order of MODEL_FIELDS."""
        return [
            round(window[_REQUESTS] / WINDOW_S, 3),
            round(window[_TOKENS] / WINDOW_S, 1),
            *shares(window[_LEVELS:]),
            round(self.saved_s, 3),
        ]


class Tally:
    """One tenant's use of one model; all but `total` since the last `take`."""

    __slots__ = ("meter", "requests", "reused", "spent_s", "tokens", "total", "unvalued")

    def __init__(self, meter: ModelMeter) -> None:
        self.meter = meter
        self.total = 0
        self.unvalued = 0  # reused tokens from before the first computed one
        self._begin()

    def _begin(self) -> None:
        self.requests = self.tokens = self.reused = 0
        self.spent_s = 0.0

    def take(self, model: str, tenant: str) -> Used:
        """What was used since the last time."""
        rate, unvalued = self.meter.rate_s, self.unvalued + self.reused
        saved_s = 0.0 if rate is None else unvalued * rate
        self.unvalued = unvalued if rate is None else 0
        used = Used(model, tenant, self.requests, self.tokens, self.reused, self.spent_s, saved_s)
        self._begin()
        return used


class TokenMeter:
    """Counts of token counting, over all models."""

    __slots__ = ("_clock", "_left", "_tallies", "caches", "models", "tenants")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.models: dict[str, ModelMeter] = {}
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._left: list[Used] = []
        self.tenants = Tenants()
        self.caches = dict.fromkeys(TIERS, (0, 0))

    def know(self, model: str) -> None:
        """A tokenizer is there: its series begin at 0."""
        if model not in self.models:
            self.models[model] = ModelMeter(self._clock)

    def counted(
        self, model: str, tenant: str, source: str, tokens: int, seconds: float, reused: int = 0, characters: int = 0
    ) -> None:
        """A request was answered: where its tokens came from, how many, and how long it took (seconds).

        `reused`: how many of the tokens were not computed; from the source `cache` all. `characters`: of a text that was
        found whole in the local cache; books it like `reused` with level `text`, without another call.
        """
        tally = self._tallies.get((model, tenant)) or self._tally(model, tenant)
        meter = tally.meter
        meter.times[source].observe(seconds * SECOND)
        meter.total += tokens
        tally.requests += 1
        tally.tokens += tokens
        tally.total += tokens
        tally.reused += tokens if source == "cache" else reused
        tally.spent_s += seconds
        if characters:
            meter.characters[_TEXT] += characters
            meter.tokens[_TEXT] += tokens

    def reused(self, model: str, level: str, characters: int, tokens: int, seconds: float) -> None:
        """A part of a request came from this level (LEVELS). `seconds`: what it took; kept for `computed` only."""
        meter = self.models.get(model) or self._model(model)
        index = _LEVEL[level]
        meter.characters[index] += characters
        meter.tokens[index] += tokens
        if index == _COMPUTED:
            meter.computed_s += seconds

    def differed(self, model: str) -> None:
        """A fast tokenizer gave another result than the exact one."""
        (self.models.get(model) or self._model(model)).differed += 1

    def cache(self, size: int, entries: int, tier: str = "text") -> None:
        """How much a cache holds: bytes and entries."""
        self.caches[tier] = (size, entries)

    def forget(self, model: str) -> None:
        """A tokenizer was removed: its series end. What was used and not yet taken is kept for `take`."""
        self.models.pop(model, None)
        for key in [key for key in self._tallies if key[0] == model]:
            tally = self._tallies.pop(key)
            if tally.requests:
                self._left.append(tally.take(*key))

    def take(self) -> list[Used]:
        """What was used since the last `take`, by model and tenant."""
        used = self._left
        self._left = []
        used += [tally.take(*key) for key, tally in self._tallies.items() if tally.requests]
        return used

    @property
    def requests(self) -> dict[tuple[str, str], int]:
        """Requests since the start by model and source."""
        return {
            (name, source): histogram.count
            for name, meter in self.models.items()
            for source, histogram in meter.times.items()
        }

    @property
    def tokens(self) -> dict[tuple[str, str], int]:
        """Tokens since the start by model and tenant."""
        return {key: tally.total for key, tally in self._tallies.items()}

    def settle(self) -> None:
        """Brings every model's `saved_s` up to now."""
        for meter in self.models.values():
            meter.settle()

    def live(self) -> dict[str, Any]:
        """The part of a live frame about tokens, over the last 60 s; looked at every second (`Ticker`).

        `hit_rate`: the share of requests answered from a cache, null without any; `levels`: each level's share of the
        characters (LEVELS); `models`: the busiest, MODEL_FIELDS each; `saved_s` and `saved_usd`: since the start, of them all.
        """
        self.settle()
        windows = {name: meter.window() for name, meter in self.models.items()}
        busiest = sorted(windows, key=lambda name: (-windows[name][_REQUESTS], name))[:MAX_LIVE_MODELS]
        totals = [sum(column) for column in zip(*windows.values(), strict=True)] or [0] * (_LEVELS + len(LEVELS))
        requests = totals[_REQUESTS]
        saved_s = sum(meter.saved_s for meter in self.models.values())
        return {
            "requests_s": round(requests / WINDOW_S, 3),
            "tokens_s": round(totals[_TOKENS] / WINDOW_S, 1),
            "hit_rate": round(totals[_HITS] / requests, 4) if requests else None,
            "window_s": WINDOW_S,
            "levels": shares(totals[_LEVELS:]),
            "saved_s": round(saved_s, 3),
            "saved_usd": dollars_saved(saved_s),
            "models": {name: self.models[name].live(windows[name]) for name in busiest},
        }

    def _model(self, model: str) -> ModelMeter:
        self.know(model)
        return self.models[model]

    def _tally(self, model: str, tenant: str) -> Tally:
        key = (model, self.tenants.label(tenant))
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally(self._model(model))
        return tally


def shares(counts: list[int]) -> list[float | None]:
    """Each count's share of their sum; null where that is 0."""
    total = sum(counts)
    return [round(count / total, 4) if total else None for count in counts]


def dollars_saved(seconds: float) -> float:
    """Seconds of one core in US dollars, at CORE_HOUR_USD."""
    return round(seconds / 3600 * CORE_HOUR_USD, 6)
