"""Who sets the size: nobody, the load rule, published limiters from their formulas, the relay's own, and an oracle."""

from __future__ import annotations

from collections.abc import Callable

from bench.sizing.world import Scenario, Sized
from relay.permits.sizing.adaptive import Adaptive
from relay.permits.sizing.base import Completion, Decision, Sample
from relay.permits.sizing.estimators import Estimator, Gradient2, Vegas
from relay.permits.sizing.load import ByLoad
from relay.permits.sizing.sizer import Sizer, Sizing

START = 20
MOST = 200


def fixed(scenario: Scenario) -> Sized:
    """The size that somebody set once."""
    return Sized(lambda _: None, lambda _, __: None)


def oracle(scenario: Scenario) -> Sized:
    """Knows the true capacity, a second ahead where it falls."""

    def look(sample: Sample) -> int:
        return max(1, int(min(scenario.capacity(sample.at), scenario.capacity(sample.at + 1))))

    return Sized(look, lambda _, __: None)


def by_load(scenario: Scenario) -> Sized:
    """The relay's rule of +10 % alone."""
    return _sizer(Sizing(ByLoad(), 1, MOST))


def adaptive(scenario: Scenario) -> Sized:
    """The relay's default."""
    return _sizer(Sizing(Adaptive(), 1, MOST))


def _sizer(settings: Sizing) -> Sized:
    sizer = Sizer(settings)

    def size(decision: Decision | None) -> int | None:
        return None if decision is None else decision.after

    return Sized(lambda sample: size(sizer.look(sample)), lambda done, _: size(sizer.completed(done)))


def netflix_aimd(scenario: Scenario) -> Sized:
    """Netflix's AIMDLimit: x 0.9 on every drop, + 1 on every success while at least half is in use."""

    def completed(done: Completion, in_use: int) -> int | None:
        if done.outcome != "ok":
            return max(1, int(done.capacity * 0.9))
        return min(MOST, done.capacity + 1) if in_use * 2 >= done.capacity else None

    return Sized(lambda _: None, completed)


def _estimated(make: Callable[[], Estimator]) -> Callable[[Scenario], Sized]:
    def sized(scenario: Scenario) -> Sized:
        estimator = make()

        def look(sample: Sample) -> int | None:
            found = estimator.propose(sample.capacity, sample.in_use)
            return None if found is None else min(MOST, found.capacity)

        def completed(done: Completion, in_use: int) -> int | None:
            estimator.observe(done.held_us)
            return None

        return Sized(look, completed)

    return sized


POLICIES: dict[str, Callable[[Scenario], Sized]] = {
    "oracle": oracle,
    "fixed at 20": fixed,
    "by load, +10 %": by_load,
    "AIMD (Netflix)": netflix_aimd,
    "Gradient2 (Netflix)": _estimated(Gradient2),
    "Vegas (Netflix)": _estimated(Vegas),
    "adaptive": adaptive,
}
