"""Sizing by what callers report on release: AIMD by default, a latency gradient or Vegas for short uniform calls.

AIMD as in TCP (Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion avoidance in computer
networks", 1989): add while all is well, multiply down when the backend pushes back. The gradient and Vegas estimators
are in estimators.py.
"""

from __future__ import annotations

from collections import deque
from typing import Annotated, Literal

from msgspec import Meta, Struct

from relay.permits.engine.base import SECOND
from relay.permits.sizing.base import Completion, Proposal, Sample
from relay.permits.sizing.estimators import Estimator, Gradient2, Vegas

RECENT = 50

Algorithm = Literal["aimd", "gradient", "vegas"]


class Adaptive(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="adaptive"):
    """`decrease`: the factor on throttled, timeout or error; `increase`: permits added after a clean window at the limit.

    Fewer than `min_samples` releases decide nothing. `tolerance`: the share of bad outcomes that is the backend's own
    noise and not our load. `window_s`: how long all must go well, with the pool at its limit, before it grows. Before the
    size that failed last is tried again, all must go well for `retry_s`: a backend of constant capacity is not pushed over
    it every few seconds.
    """

    algorithm: Algorithm = "aimd"
    decrease: Annotated[float, Meta(ge=0.1, lt=1)] = 0.9
    increase: Annotated[int, Meta(ge=1, le=1000)] = 1
    window_s: Annotated[float, Meta(ge=0.1, le=3600)] = 1.0
    retry_s: Annotated[float, Meta(ge=0, le=86_400)] = 20.0
    min_samples: Annotated[int, Meta(ge=1, le=10_000)] = 5
    tolerance: Annotated[float, Meta(ge=0, lt=1)] = 0.05

    def fault(self) -> tuple[str, str] | None:
        """Nothing here contradicts anything else."""
        return None


class AdaptivePolicy:
    """See Adaptive. It holds while the size holds nobody back, and finds the limit by growing, never by refusing."""

    def __init__(self, settings: Adaptive) -> None:
        self._settings = settings
        self._estimator = _estimator(settings)
        self._recent: deque[bool] = deque(maxlen=RECENT)  # the newest outcomes: whether each was bad
        self._good = 0  # since the window began
        self._clean_since: int | None = None
        self._shrunk_us = -1
        self._failed: int | None = None  # the size that was cut last, until it is seen to work

    def look(self, sample: Sample) -> Proposal | None:
        """Growth, after a full clean window at the limit."""
        settings = self._settings
        if self._clean_since is None or not sample.full:
            self._begin(sample.now_us)
            return None
        waited_us = sample.now_us - self._clean_since
        target = sample.capacity + settings.increase
        if self._failed is not None and sample.capacity >= self._failed:
            self._failed = None
        careful = self._failed is not None and target >= self._failed
        window_s = settings.retry_s if careful else settings.window_s
        if waited_us < window_s * SECOND or self._good < settings.min_samples:
            return None
        good = self._good
        self._begin(sample.now_us)
        if self._estimator is not None:
            return self._estimator.propose(sample.capacity, sample.in_use)
        reason = f"{good} calls went well at the limit for {waited_us / SECOND:.0f} s"
        return Proposal(target, reason)

    def completed(self, completion: Completion) -> Proposal | None:
        """A step down, as soon as enough of the newest calls went wrong."""
        settings, recent = self._settings, self._recent
        bad = completion.outcome != "ok"
        if bad and completion.acquired_us <= self._shrunk_us:
            return None  # it was under way when the size was cut already: one overload, one cut
        recent.append(bad)
        if not bad:
            self._good += 1
            if self._estimator is not None:
                self._estimator.observe(completion.held_us)
            return None
        calls, wrong = len(recent), sum(recent)
        if wrong <= calls * settings.tolerance:
            return None
        self._begin(completion.now_us)
        if calls < settings.min_samples:
            return None
        recent.clear()
        self._failed = completion.capacity
        target = min(int(completion.capacity * settings.decrease), completion.capacity - 1)
        return Proposal(target, f"{wrong} of the last {calls} calls went wrong, the newest {_word(completion)}")

    def resized(self, now_us: int, *, shrunk: bool) -> None:
        """Counts anew. What began before a cut is no reason for another."""
        if shrunk:
            self._shrunk_us = now_us
        self._recent.clear()
        self._begin(now_us)

    def _begin(self, now_us: int) -> None:
        self._good = 0
        self._clean_since = now_us


def _word(completion: Completion) -> str:
    return {"throttled": "throttled", "timeout": "timed out", "error": "failed"}[completion.outcome]


def _estimator(settings: Adaptive) -> Estimator | None:
    if settings.algorithm == "gradient":
        return Gradient2()
    return Vegas() if settings.algorithm == "vegas" else None
