"""Random operations on a pool, weighted towards the edges: repeats, takeovers, deadlines to the microsecond."""

from __future__ import annotations

import random

from relay.permits.engine.base import SECOND, PoolConfig, Share
from tests.permits.driver import RANKS
from tests.permits.twins import Twins

# A key's body follows from the key, so that repeats are repeats; `odd` makes a conflict.

TENANTS = ("a", "b", "c", "d")
KEYS = (None, None, "k0", "k1", "k2")
TIMEOUTS = (0, SECOND, 3 * SECOND, 8 * SECOND, 40 * SECOND)
TTLS = (SECOND, 4 * SECOND, 15 * SECOND)
DELTAS = (0, 1, SECOND // 3, SECOND, 2 * SECOND, 5 * SECOND - 1, 11 * SECOND)
AGING = (None, SECOND, 2 * SECOND, 5 * SECOND)
WEIGHTS = (0.3, 0.7, 1.0, 2.0, 3.5)


def random_share(rng: random.Random, capacity: int) -> Share:
    """A share; most tenants have no bounds."""
    limit = rng.choice((None, None, rng.randint(1, capacity)))
    guarantee = rng.choice((0, 0, rng.randint(0, limit if limit is not None else capacity)))
    waiters = rng.choice((None, None, rng.randint(0, 4)))
    return Share(weight=rng.choice((None, *WEIGHTS)), limit=limit, guarantee=guarantee, max_waiters=waiters)


def random_config(rng: random.Random) -> PoolConfig:
    """A small pool with everything in it."""
    capacity = rng.randint(1, 9)
    return PoolConfig(
        name="gpu",
        capacity=capacity,
        ceiling=rng.choice((None, None, capacity + 3)),
        max_lease_us=rng.choice((None, None, 12 * SECOND)),
        max_waiters=rng.choice((3, 8, 100)),
        aging_us=rng.choice(AGING),
        reconnect_grace_us=rng.choice((0, SECOND, 4 * SECOND)),
        shares={tenant: random_share(rng, capacity) for tenant in TENANTS if rng.random() < 0.7},
    )


def random_twins(rng: random.Random) -> Twins:
    """Twins under a random configuration."""
    return Twins(random_config(rng), {tenant: rng.choice(WEIGHTS) for tenant in TENANTS})


def random_acquire(twins: Twins, rng: random.Random) -> None:
    """An acquire, mostly of what can be granted some day."""
    tenant, key = rng.choice(TENANTS), rng.choice(KEYS)
    permits = min(rng.randint(1, 10), rng.randint(1, twins.config.capacity + 1))
    priority = rng.choice(tuple(RANKS))
    ttl_us = rng.choice(TTLS)
    if key is not None and rng.random() < 0.9:
        permits, priority, ttl_us = 1 + int(key[1]) * 2, "batch", 4 * SECOND
    twins.acquire(tenant, permits, priority, rng.choice(TIMEOUTS), ttl_us, key)


def random_change(twins: Twins, rng: random.Random) -> None:
    """A change of the configuration of any kind."""
    kind = rng.choice(("state", "state", "capacity", "share", "aging", "ranks", "weights", "bounds"))
    if kind == "state":
        twins.change(state=rng.choice(("active", "active", "paused", "draining")))
    elif kind == "capacity":
        twins.change(capacity=rng.randint(1, 9), ceiling=rng.choice((None, twins.config.ceiling)))
    elif kind == "share":
        twins.share(rng.choice(TENANTS), random_share(rng, twins.config.capacity))
    elif kind == "aging":
        twins.change(aging_us=rng.choice(AGING))
    elif kind == "ranks":
        twins.change(ranks={name: rng.randint(0, 5) for name in RANKS})
    elif kind == "weights":
        twins.change(weights={tenant: rng.choice(WEIGHTS) for tenant in TENANTS})
    else:
        twins.change(
            max_waiters=rng.choice((3, 8, 100)),
            max_lease_us=rng.choice((None, 12 * SECOND)),
            reconnect_grace_us=rng.choice((0, SECOND, 4 * SECOND)),
        )


def random_step(twins: Twins, rng: random.Random) -> None:
    """Time goes on, often to the very edge of something that is due."""
    kind = rng.random()
    if kind < 0.3:
        twins.step(rng.choice(DELTAS))
    elif kind < 0.5:
        twins.drift_on(rng.choice(DELTAS))
    else:
        twins.step_to_due(rng.choice((-1, 0, 0, 1)), ranks=kind > 0.75)


def random_operation(twins: Twins, rng: random.Random) -> None:
    """One operation; recent leases and waiters are the likelier objects."""
    kind = rng.random()
    recent = -1 - min(rng.randrange(30), rng.randrange(12))
    if kind < 0.42:
        random_acquire(twins, rng)
    elif kind < 0.60:
        twins.release(recent, stranger=rng.random() < 0.05)
    elif kind < 0.66:
        twins.renew(recent, rng.choice((None, *TTLS)), stranger=rng.random() < 0.05)
    elif kind < 0.74:
        twins.on_lease(rng.choice(("revoke", "delivered", "undelivered", "undelivered")), recent)
    elif kind < 0.82:
        twins.on_waiter(rng.choice(("disconnect", "disconnect", "cancel")), recent)
    elif kind < 0.88:
        random_change(twins, rng)
    else:
        random_step(twins, rng)
