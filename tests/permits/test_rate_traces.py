"""Random traces under rates: buckets counted anew in fractions, windows, order, nobody starves, refusals change nothing."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from relay.permits.engine.base import SECOND, Ask, Lease, PoolConfig, Refused
from relay.permits.engine.core import PoolCore
from relay.permits.engine.events import Ended, Granted, Left
from relay.permits.engine.rates import Rate
from relay.permits.engine.timeline import NEVER
from tests.permits import traces
from tests.permits.driver import RANKS, build

MINUTE = 60 * SECOND


class Mirror:
    """The oracle of a bucket: counted anew from the beginning each time, in fractions, with all that is known by now."""

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self.taken: list[tuple[int, str, int]] = []  # when, for which lease, how much

    def take(self, now: int, lease_id: str, amount: int) -> None:
        self.taken.append((now, lease_id, amount))

    def correct(self, lease_id: str, amount: int) -> None:
        self.taken = [(at, who, amount if who == lease_id else much) for at, who, much in self.taken]

    def level(self, now: int) -> Fraction:
        level, last = Fraction(self.rate.burst), 0
        for at, _, amount in [*self.taken, (now, "", 0)]:
            came = Fraction((at - last) * self.rate.per_minute, MINUTE)
            level, last = min(level + came, Fraction(self.rate.burst)) - amount, at
        return level


class Traffic:
    """One rated pool under random callers. `used`: what each lease used in truth, by its grant's time, a list of [t, n]."""

    def __init__(self, rng: random.Random, *, overuse: bool = False) -> None:
        self.rng = rng
        self.overuse = overuse
        self.config = PoolConfig(
            name="gpu",
            capacity=rng.randint(1, 6),
            aging_us=rng.choice((None, SECOND, 5 * SECOND)),
            reconnect_grace_us=rng.choice((0, SECOND)),
            max_waiters=rng.choice((4, 100)),
            requests=rng.choice((None, Rate(rng.randint(1, 300), rng.randint(1, 5)))),
            tokens=Rate(rng.randint(60, 6000), rng.randint(10, 200)),
        )
        self.core: PoolCore = build(PoolCore, self.config, weights={"a": 2.0})
        self.now = 0
        self.mirrors = {kind: Mirror(rate) for kind in ("requests", "tokens") if (rate := getattr(self.config, kind))}
        self.live: dict[str, Lease] = {}
        self.used: dict[str, list[int]] = {}
        self.waiters: list[Any] = []
        self.excess: dict[str, int] = {}

    # What happens

    def acquire(self) -> None:
        rng, core = self.rng, self.core
        burst = self.config.tokens.burst if self.config.tokens else 0
        ask = Ask(
            rng.choice("abc"), rng.randint(1, self.config.capacity), rng.choice(tuple(RANKS)),
            rng.choice((0, SECOND, 600 * SECOND)), 600 * SECOND,
            key=rng.choice((None, None, "k")), tokens=rng.choice((0, rng.randint(1, burst), burst, burst + 1)),
        )  # fmt: skip
        core.advance(self.now)
        self.carry()
        before = self.state()
        got: Any
        try:
            got = core.acquire(ask, self.now)
        except Refused as refused:
            got = refused
        if isinstance(got, Refused):
            assert self.state() == before, f"{got.code} changed something"
            self.hinted(ask, got)
        elif isinstance(got, Lease):
            self.granted(got)
        elif hasattr(got, "waiter_id"):
            self.waiters.append(got)
        self.carry()

    def release(self) -> None:
        if not self.live:
            return
        lease = self.rng.choice(list(self.live.values()))
        most = 3 * lease.ask.tokens if self.overuse else lease.ask.tokens
        used = self.rng.choice((None, self.rng.randint(0, most)))
        self.core.advance(self.now)
        self.carry()
        if lease.lease_id in self.live:
            if used is not None:
                self.settle(lease, used)
            self.core.release(lease.lease_id, lease.ask.tenant, self.now, used)
            self.carry()

    def lose(self) -> None:
        if self.live:
            self.core.undelivered(self.rng.choice(list(self.live)), self.now)
            self.carry()

    def leave(self) -> None:
        if self.waiters:
            self.core.disconnect(self.rng.choice(self.waiters).waiter_id, self.now)
            self.carry()

    def sleep(self, most_us: int) -> None:
        """Time goes on; the pool is woken when it asked for it, and not otherwise."""
        until = self.now + most_us
        self.core.advance(self.now)
        self.carry()
        while (due := self.core.next_due()) <= until:
            assert due > self.now, "next_due does not move on"
            self.now = due
            by_rate, head = due == self.core.rate_due, self.head()
            alone = self.core._held.dues.soonest > due and self.core._queue.dues.soonest > due
            alarm = self.core._order.next_alarm()
            self.core.advance(due)
            first = next((e for e in self.core.events if isinstance(e, Granted)), None)
            if by_rate and alone and alarm == NEVER:
                assert first is not None, "woken for nothing"
                assert first.waiter is head, "overtaken"
            self.carry()
        self.now = until

    # What must hold

    def settle(self, lease: Lease, used: int) -> None:
        stated, mirror = lease.ask.tokens, self.mirrors["tokens"]
        if used < stated:
            mirror.correct(lease.lease_id, used)
        else:
            mirror.take(self.now, "", used - stated)
        self.used[lease.lease_id][1] = used
        self.excess[lease.lease_id] = max(0, used - stated)

    def hinted(self, ask: Ask, refused: Refused) -> None:
        """Who comes back when it was told to is not sent away by the rate again, if nobody else was there."""
        if refused.code == "rate-limited":
            assert refused.retry_after_us is not None
            assert self.core.rates is not None
            assert self.core.rates.ready(ask.tokens, self.now) <= self.now + refused.retry_after_us
        most = 0 if self.config.tokens is None else self.config.tokens.burst
        assert (ask.tokens <= most) == (refused.code != "invalid") or refused.code == "idempotency-conflict"

    def granted(self, lease: Lease) -> None:
        for kind, amount in (("requests", 1), ("tokens", lease.ask.tokens)):
            if kind in self.mirrors and amount:
                assert self.mirrors[kind].level(self.now) >= amount, f"granted without its {kind}"
                self.mirrors[kind].take(self.now, lease.lease_id, amount)
        self.live[lease.lease_id] = lease
        self.used[lease.lease_id] = [self.now, lease.ask.tokens]

    def carry(self) -> None:
        for event in self.core.take_events():
            if isinstance(event, Granted):
                self.waiters.remove(event.waiter)
                self.granted(event.lease)
            elif isinstance(event, Left):
                self.waiters.remove(event.waiter)
            elif isinstance(event, Ended):
                lease = self.live.pop(event.lease.lease_id)
                if event.reason == "dropped":
                    del self.used[lease.lease_id]
                    for mirror in self.mirrors.values():
                        mirror.correct(lease.lease_id, 0)
        self.check()

    def check(self) -> None:
        """The levels are the oracle's, permits are the leases', and nobody waits who could be let through."""
        core = self.core
        assert core.in_use == sum(lease.ask.permits for lease in self.live.values()) <= self.config.capacity
        assert core.rates is not None
        for kind, (_, level) in core.rates.levels(self.now).items():
            assert level == float(self.mirrors[kind].level(self.now))
        head = self.head()
        if head is not None and core.in_use + head.ask.permits <= self.config.capacity:
            assert self.now < core.rate_due < NEVER, "it stands idle, or sleeps"
            assert core.next_due() <= core.rate_due

    def head(self) -> Any:
        return next((waiter for waiter, place in self.core.queue(1) if place == 1), None)

    def state(self) -> Any:
        core = self.core
        assert core.rates is not None
        queue = [(waiter.waiter_id, place) for waiter, place in core.queue(500)]
        return core.in_use, set(core.leases), queue, core.rates.levels(self.now), core.rate_due

    def windows(self) -> None:
        """In no window more than the rate and one burst, and what nobody could know: used above what was stated."""
        spent = sorted((at, used, self.excess.get(lease_id, 0)) for lease_id, (at, used) in self.used.items())
        for kind in self.mirrors:
            rate = self.mirrors[kind].rate
            for first, (begin, _, _) in enumerate(spent):
                total = 0
                for end, used, excess in spent[first:]:
                    total += used - excess if kind == "tokens" else 1
                    assert total * MINUTE <= rate.per_minute * (end - begin) + rate.burst * MINUTE


def play(rng: random.Random, *, overuse: bool = False, steps: int = 150) -> Traffic:
    traffic = Traffic(rng, overuse=overuse)
    for _ in range(steps):
        kind = rng.random()
        if kind < 0.45:
            traffic.acquire()
        elif kind < 0.65:
            traffic.release()
        elif kind < 0.70:
            traffic.lose()
        elif kind < 0.76:
            traffic.leave()
        else:
            traffic.sleep(rng.choice((1, SECOND // 3, SECOND, 7 * SECOND)))
    return traffic


@pytest.mark.parametrize("seed", range(60))
def test_rates_are_never_exceeded_in_any_window_by_more_than_the_burst(seed: int) -> None:
    play(random.Random(seed)).windows()


@pytest.mark.parametrize("seed", range(30))
def test_what_was_used_above_what_was_stated_is_paid_before_the_next(seed: int) -> None:
    play(random.Random(seed), overuse=True).windows()


@pytest.mark.parametrize("seed", range(20))
def test_everybody_is_served_in_the_end_whatever_the_sizes(seed: int) -> None:
    """A stream of small calls of many tenants, and big ones: the kept turn lets nobody starve."""
    rng = random.Random(seed)
    config = PoolConfig("gpu", 4, aging_us=SECOND, tokens=Rate(600, 50), requests=Rate(300, 10))
    core: PoolCore = build(PoolCore, config, weights={})
    held: list[tuple[int, Lease]] = []
    for second in range(400):
        now = second * SECOND
        for due, lease in list(held):
            if due <= now:
                held.remove((due, lease))
                core.release(lease.lease_id, lease.ask.tenant, now)
        if second < 300 and core.waiting < 12:
            for tenant in "abc":
                tokens = 50 if rng.random() < 0.1 else rng.randint(0, 4)
                permits = rng.choice((1, 1, 4))
                got = core.acquire(Ask(tenant, permits, "background", 900 * SECOND, 900 * SECOND, tokens=tokens), now)
                if isinstance(got, Lease):
                    held.append((now + 2 * SECOND, got))
        core.advance(now)
        held += [(now + 2 * SECOND, event.lease) for event in core.take_events() if isinstance(event, Granted)]
        oldest = min((waiter.enqueued_us for waiter in core.waiters.values()), default=now)
        assert now - oldest <= 90 * SECOND
    assert not core.waiters


@pytest.mark.parametrize("seed", range(20))
def test_rates_that_never_bind_change_nothing_of_the_order(seed: int) -> None:
    """The core with vast rates against the model, which knows none."""
    rng = random.Random(seed)
    config = msgspec.structs.replace(traces.random_config(rng), requests=Rate(10**9, 10**9), tokens=Rate(10**9, 10**9))
    twins = traces.Twins(config, {tenant: rng.choice(traces.WEIGHTS) for tenant in traces.TENANTS})
    for _ in range(120):
        traces.random_operation(twins, rng)
