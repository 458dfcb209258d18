"""When the refused should come back: hints grow while nothing is served, stay bounded and spread, and recover."""

from __future__ import annotations

import random
from statistics import mean

from hypothesis import given
from hypothesis import strategies as st

from relay.permits.engine.base import SECOND
from relay.permits.engine.hints import MOST_US, Hints


class Middle(random.Random):
    """No jitter: the middle of every range."""

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2

    def random(self) -> float:
        return 0.5


def hints(*holds_us: int) -> Hints:
    found = Hints(Middle())
    for held_us in holds_us:
        found.held(held_us)
    return found


refusals = st.lists(st.tuples(st.integers(0, 5 * SECOND), st.integers(1, 20)), min_size=2, max_size=60)


@given(st.integers(1, 1000), st.integers(1, 30 * SECOND), refusals)
def test_refusals_without_service_grow_the_hint_up_to_a_bound(
    capacity: int, hold_us: int, refused: list[tuple[int, int]]
) -> None:
    found, now, last = hints(hold_us), 0, 0
    for wait, permits in refused:
        now += wait
        hint = found.retry_us(20, permits, capacity, now)
        assert last <= hint <= MOST_US
        last = hint
    assert last >= min(now - refused[0][0], MOST_US)  # it may well last as long again


@given(st.integers(1, 1000), st.integers(1, 30 * SECOND), refusals, st.integers(1, 20))
def test_hints_fall_back_when_permits_flow(
    capacity: int, hold_us: int, refused: list[tuple[int, int]], permits: int
) -> None:
    fresh = hints(hold_us).retry_us(20, permits, capacity, 0)
    found, now = hints(hold_us), 0
    for wait, much in refused:
        now += wait
        found.retry_us(20, much, capacity, now)
    last = found.retry_us(20, 0, capacity, now)
    for _ in range(100):
        found.held(hold_us)
        before, last = last, found.retry_us(20, 0, capacity, now)
        assert last <= before
    assert found.retry_us(20, permits, capacity, now) == fresh


@given(st.integers(0, 100), st.integers(1, 1000), st.integers(0, 2**32))
def test_hints_of_one_moment_are_spread_around_the_same_middle(missing: int, capacity: int, seed: int) -> None:
    middle = hints(SECOND).retry_us(missing, 0, capacity, 0)
    found = Hints(random.Random(seed))
    found.held(SECOND)
    spread = [found.retry_us(missing, 0, capacity, 0) for _ in range(200)]
    assert len(set(spread)) > 100
    assert middle // 2 <= min(spread)
    assert max(spread) <= middle * 3 // 2 + 1
    assert 0.9 * middle < mean(spread) < 1.1 * middle


def test_a_lone_callers_tries_at_a_stuck_pool_come_ever_more_slowly() -> None:
    found, now, tries = hints(SECOND // 1000), 0, []
    while now < 600 * SECOND:
        tries.append(found.retry_us(1, 1, 1000, now))
        now += tries[-1]
    assert len(tries) < 25
    found.held(600 * SECOND)
    assert found.retry_us(1, 1, 1_000_000, now) == SECOND // 10


def test_a_rates_hint_is_exact_for_the_first_and_spread_behind_it_for_the_others() -> None:
    found = Hints(random.Random(1))
    told = [found.rate_retry_us(2 * SECOND, SECOND) for _ in range(30)]
    assert told[0] == 2 * SECOND
    assert min(told) == 2 * SECOND
    assert all(hint <= (2 + number) * SECOND for number, hint in enumerate(told))
    assert len(set(told)) == len(told)
    assert max(told) > 10 * SECOND
    for _ in range(60):
        found.served()
    assert found.rate_retry_us(2 * SECOND, SECOND) == 2 * SECOND


def test_a_crowd_that_does_as_it_is_told_is_served_with_few_tries() -> None:
    """200 callers, a pool of 4 that holds each for 0.1 s: without growth each would try some 20 times."""
    rng = random.Random(3)
    found = Hints(rng)
    arrivals = sorted((int(rng.random() * SECOND), number) for number in range(200))
    busy: list[int] = []
    tries = served = 0
    while arrivals:
        now, number = arrivals.pop(0)
        for end in [end for end in busy if end <= now]:
            busy.remove(end)
            found.held(SECOND // 10)
        tries += 1
        if len(busy) < 4:
            busy.append(now + SECOND // 10)
            served += 1
        else:
            arrivals.append((now + found.retry_us(1, 1, 4, now), number))
            arrivals.sort()
    assert served == 200
    assert tries < 200 * 6
