"""The core against the model: the same operations, the same answers, events, order and numbers.

A mismatch prints the last operations of both; the seed of a random trace replays it.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from relay.permits.engine.base import SECOND, PoolConfig, Share
from tests.permits import traces as t
from tests.permits.driver import RANKS
from tests.permits.twins import Twins

tenants = st.sampled_from(t.TENANTS)
keys = st.sampled_from(t.KEYS)
timeouts = st.sampled_from(t.TIMEOUTS)
ttls = st.sampled_from(t.TTLS)
recent = st.integers(-8, -1)
shares = st.builds(
    Share,
    weight=st.sampled_from((None, *t.WEIGHTS)),
    limit=st.none() | st.integers(1, 6),
    guarantee=st.integers(0, 4),
    max_waiters=st.none() | st.integers(0, 3),
)


class PoolMachine(RuleBasedStateMachine):
    """Hypothesis chooses the operations, and shortens what fails."""

    @initialize(
        capacity=st.integers(1, 7),
        above=st.none() | st.integers(0, 3),
        aging_us=st.sampled_from(t.AGING),
        grace_us=st.sampled_from((0, 2 * SECOND)),
        max_lease_us=st.sampled_from((None, 6 * SECOND)),
        max_waiters=st.sampled_from((2, 50)),
        given=st.dictionaries(tenants, shares, max_size=3),
        weight=st.sampled_from(t.WEIGHTS),
    )
    def start(
        self,
        capacity: int,
        above: int | None,
        aging_us: int | None,
        grace_us: int,
        max_lease_us: int | None,
        max_waiters: int,
        given: dict[str, Share],
        weight: float,
    ) -> None:
        config = PoolConfig(
            name="gpu",
            capacity=capacity,
            ceiling=None if above is None else capacity + above,
            max_lease_us=max_lease_us,
            max_waiters=max_waiters,
            aging_us=aging_us,
            reconnect_grace_us=grace_us,
            shares=given,
        )
        self.twins = Twins(config, {"a": weight})

    @rule(
        tenant=tenants,
        permits=st.integers(1, 7),
        priority=st.sampled_from(tuple(RANKS)),
        timeout_us=timeouts,
        ttl_us=ttls,
        key=keys,
    )
    def acquire(self, tenant: str, permits: int, priority: str, timeout_us: int, ttl_us: int, key: str | None) -> None:
        self.twins.acquire(tenant, permits, priority, timeout_us, ttl_us, key)

    @rule(tenant=tenants, timeout_us=timeouts, key=st.sampled_from(("k0", "k1")))
    def acquire_again(self, tenant: str, timeout_us: int, key: str) -> None:
        self.twins.acquire(tenant, 1 + int(key[1]) * 2, "batch", timeout_us, 4 * SECOND, key)

    @rule(index=recent, stranger=st.booleans())
    def release(self, index: int, stranger: bool) -> None:
        self.twins.release(index, stranger)

    @rule(index=recent, ttl_us=st.none() | ttls)
    def renew(self, index: int, ttl_us: int | None) -> None:
        self.twins.renew(index, ttl_us)

    @rule(index=recent, operation=st.sampled_from(("revoke", "delivered", "undelivered")))
    def on_lease(self, index: int, operation: str) -> None:
        self.twins.on_lease(operation, index)

    @rule(index=recent, operation=st.sampled_from(("disconnect", "cancel")))
    def on_waiter(self, index: int, operation: str) -> None:
        self.twins.on_waiter(operation, index)

    @rule(state=st.sampled_from(("active", "paused", "draining")))
    def change_state(self, state: str) -> None:
        self.twins.change(state=state)

    @rule(capacity=st.integers(1, 8))
    def resize(self, capacity: int) -> None:
        self.twins.change(capacity=capacity)

    @rule(tenant=tenants, share=shares)
    def share(self, tenant: str, share: Share) -> None:
        self.twins.share(tenant, share)

    @rule(aging_us=st.sampled_from(t.AGING), ranks=st.none() | st.permutations(range(4)))
    def change_ranks(self, aging_us: int | None, ranks: list[int] | None) -> None:
        self.twins.change(aging_us=aging_us, ranks=None if ranks is None else dict(zip(RANKS, ranks, strict=True)))

    @rule(weights=st.dictionaries(tenants, st.sampled_from(t.WEIGHTS)))
    def change_weights(self, weights: dict[str, float]) -> None:
        self.twins.change(weights=weights)

    @rule(delta_us=st.sampled_from(t.DELTAS), told=st.booleans())
    def step(self, delta_us: int, told: bool) -> None:
        if told:
            self.twins.step(delta_us)
        else:
            self.twins.drift_on(delta_us)

    @precondition(lambda self: self.twins.waiters or self.twins.leases)
    @rule(offset_us=st.sampled_from((-1, 0, 1)), ranks=st.booleans())
    def step_to_due(self, offset_us: int, ranks: bool) -> None:
        self.twins.step_to_due(offset_us, ranks=ranks)


TestPool = PoolMachine.TestCase
TestPool.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("seed", range(80))
def test_a_random_trace_goes_alike(seed: int) -> None:
    rng = random.Random(seed)
    twins = t.random_twins(rng)
    for _ in range(120):
        t.random_operation(twins, rng)


@pytest.mark.parametrize("seed", range(10))
def test_under_bounded_traffic_with_aging_nobody_starves(seed: int) -> None:
    """Holds of at most 4 s and aging of 1 s from rank 3: whoever came 60 s ago has been served."""
    rng = random.Random(seed)
    capacity = rng.randint(2, 6)
    twins = Twins(PoolConfig(name="gpu", capacity=capacity, aging_us=SECOND, max_waiters=12), {"a": 2.0})
    for _ in range(120):
        for _ in range(rng.randint(0, 3)):
            permits = rng.choice((1, 1, rng.randint(1, capacity)))
            priority = rng.choice(("critical", "critical", "background"))
            twins.acquire(rng.choice("abc"), permits, priority, 900 * SECOND, rng.choice((SECOND, 4 * SECOND)))
        twins.step(SECOND)
        oldest = min((waiter.enqueued_us for waiter, _ in twins.core.queue(500)), default=twins.now)
        assert twins.now - oldest <= 60 * SECOND


@pytest.mark.parametrize("seed", range(12))
def test_a_pool_that_is_woken_only_when_it_asks_goes_alike(seed: int) -> None:
    """`next_due` is enough: what happens by itself happens on time, ranks within a second."""
    rng = random.Random(seed)
    twins = t.random_twins(rng)
    for _ in range(40):
        for _ in range(4):
            t.random_operation(twins, rng)
        twins.step(0)
        until = twins.now + 3 * SECOND
        while (due := twins.core.next_due()) is not None and due < until:
            assert due > twins.now, "next_due does not move on"
            grant_us = twins.first_grant_us(until)
            assert grant_us is None or due <= grant_us + SECOND, "asleep while a waiter's turn has come"
            twins.step(due - twins.now)
        twins.step(until - twins.now)
