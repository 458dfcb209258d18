"""The buckets behind rates: never above rate and burst in any window, exact to the microsecond."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.permits.engine.rates import Bucket, Rate, Rates

MINUTE = 60_000_000


def levels(rates: Rates, now: int) -> dict[str, float]:
    return {kind: level for kind, (_, level) in rates.levels(now).items()}


@given(
    st.integers(1, 10_000),
    st.integers(1, 500),
    st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(1, 500)), max_size=60),
)
def test_no_window_holds_more_than_the_rate_and_one_burst(
    per_minute: int, burst: int, asks: list[tuple[int, int]]
) -> None:
    bucket, now, taken = Bucket(Rate(per_minute, burst), 0), 0, []
    for wait, amount in asks:
        now += wait
        amount = min(amount, burst)
        now = bucket.ready(amount, now)
        bucket.take(amount, now, len(taken) + 1)
        taken.append((now, amount))
    for first, (begin, _) in enumerate(taken):
        total = 0
        for end, amount in taken[first:]:
            total += amount
            assert total * MINUTE <= per_minute * (end - begin) + burst * MINUTE


@given(st.integers(1, 10_000), st.integers(1, 500), st.integers(1, 500), st.integers(1, 500))
def test_it_is_ready_at_the_first_microsecond_that_it_can_be(per_minute: int, burst: int, spent: int, ask: int) -> None:
    spent, ask = min(spent, burst), min(ask, burst)
    bucket = Bucket(Rate(per_minute, burst), 0)
    bucket.take(spent, 0, 1)
    ready = bucket.ready(ask, 0)
    assert bucket.level(ready) >= ask
    if ready:
        late = Bucket(Rate(per_minute, burst), 0)
        late.take(spent, 0, 1)
        assert late.level(ready - 1) < ask


def test_a_charge_for_more_than_was_stated_is_paid_before_the_next() -> None:
    rates = Rates(None, Rate(60, 100), 0)
    rates.take(100, 0, 1)
    rates.settle(100, 160, 0, 1)
    assert rates.ready(1, 0) == 61_000_000
    rates.settle(100, 40, 0, 1)
    assert rates.ready(1, 0) == 1_000_000


def test_giving_back_never_fills_above_the_burst() -> None:
    rates = Rates(Rate(60, 2), Rate(600, 50), 0)
    rates.take(50, 0, 1)
    rates.give_back(50, 60_000_000, 1)
    assert levels(rates, 60_000_000) == {"requests": 2.0, "tokens": 50.0}


def test_what_the_minute_made_up_for_already_is_not_given_back_as_well() -> None:
    bucket = Bucket(Rate(60, 60), 0)
    bucket.take(60, 0, 1)
    bucket.take(50, 50_000_000, 2)  # 50 of the 60 had come in again
    bucket.give_back(60, 50_000_000, 1)
    assert bucket.level(50_000_000) == 10  # had the first used nothing, 60 less the second's 50 would be there
    bucket.give_back(50, 50_000_000, 2)
    assert bucket.level(50_000_000) == 60


@pytest.mark.parametrize(
    ("takes", "backs", "level"),
    [
        # (at s, amount); (grant, amount); what the true numbers would have left
        ([(0, 60), (10, 10), (50, 30)], [(1, 60)], 70),  # nearly full before the last: 20 were missing
        ([(0, 20), (10, 40), (30, 20)], [(2, 25), (1, 20)], 80),  # the first giving back leaves less for the second
    ],
)
def test_the_least_that_was_missing_since_is_what_comes_back(
    takes: list[tuple[int, int]], backs: list[tuple[int, int]], level: int
) -> None:
    bucket = Bucket(Rate(60, 100), 0)
    for token, (at, amount) in enumerate(takes, 1):
        bucket.take(amount, at * 1_000_000, token)
    for token, amount in backs:
        bucket.give_back(amount, takes[-1][0] * 1_000_000, token)
    assert bucket.level(takes[-1][0] * 1_000_000) == level


def test_a_grant_from_before_the_bucket_was_begun_or_changed_gives_nothing_back() -> None:
    bucket = Bucket(Rate(60, 60), 0, 0)
    bucket.charge(10, 0)
    bucket.give_back(60, 0, 7)
    bucket.take(0, 0, 9)
    bucket.give_back(60, 0, 7)
    assert bucket.level(0) == -10
    bucket.change(Rate(120, 60), 0)
    bucket.give_back(60, 0, 9)
    assert bucket.level(0) == -10


@given(
    st.integers(60, 6000),
    st.integers(20, 200),
    st.lists(st.tuples(st.integers(0, 3_000_000), st.integers(1, 60), st.integers(0, 12)), min_size=4, max_size=60),
)
def test_what_comes_back_leaves_the_level_that_the_true_numbers_would_have_left(
    per_minute: int, burst: int, steps: list[tuple[int, int, int]]
) -> None:
    bucket, now = Bucket(Rate(per_minute, burst), 0), 0
    taken: list[list[int]] = []  # when, how much
    for wait, amount, of in steps:
        now += wait
        if of < 6 and taken:  # one of the last six used less than it took
            index = len(taken) - 1 - of % len(taken)
            much = taken[index][1]
            taken[index][1] = much * of // 6
            bucket.give_back(much - taken[index][1], now, index + 1)
        elif amount <= burst:
            bucket.take(amount, now, len(taken) + 1)
            taken.append([now, amount])
        level, last = burst * MINUTE, 0
        for at, much in [*taken, [now, 0]]:
            level, last = min(level + (at - last) * per_minute, burst * MINUTE) - much * MINUTE, at
        assert bucket.level(now) == level / MINUTE


@given(st.lists(st.tuples(st.integers(0, 2_000_000), st.integers(1, 60), st.booleans()), max_size=400))
def test_with_more_lows_than_it_keeps_it_gives_back_less_never_more(steps: list[tuple[int, int, bool]]) -> None:
    exact, short = (Bucket(Rate(6000, 10_000), 0, kept=kept) for kept in (1_000, 2))
    taken: dict[int, int] = {}
    now = 0
    for token, (wait, amount, back) in enumerate(steps, 1):
        now += wait
        oldest = min(taken) if back and taken else None
        for bucket in (exact, short):
            if oldest is not None:
                bucket.give_back(taken[oldest], now, oldest)
            bucket.take(amount, now, token)
        if oldest is not None:
            del taken[oldest]
        taken[token] = amount
        assert short.level(now) <= exact.level(now)


def test_another_rate_keeps_what_is_there_and_a_new_one_begins_full() -> None:
    rates = Rates(Rate(60, 10), None, 0)
    rates.take(0, 0, 1)
    rates.change(Rate(120, 5), Rate(60, 7), 0)
    assert levels(rates, 0) == {"requests": 5.0, "tokens": 7.0}
    rates.change(None, Rate(60, 7), 0)
    assert levels(rates, 1) == {"tokens": 7.0}
