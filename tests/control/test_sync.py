"""Configuration rows as the engine takes them, and what changed since a version."""

from __future__ import annotations

import pytest

from relay.permits import classes, config, sync
from relay.permits.engine.base import SECOND, Share
from relay.permits.engine.rates import Rate
from relay.tenants import config as tenants
from relay.tenants.changes import Actor
from relay.tenants.keys import create_key, revoke_key, write_last_used
from relay.tenants.models import ApiKey, Change

ME = Actor("command", "tests")


@pytest.fixture(autouse=True)
def gpu(db: None) -> None:
    """A pool with a share."""
    tenants.create_tenant({"name": "search"}, actor=ME)
    config.create_pool(
        {"name": "gpu", "capacity": 4, "max_lease_s": 90.5, "aging_s": None, "default_timeout_s": 0}, actor=ME
    )
    config.put_share("gpu", "search", {"limit": 3, "guarantee": 1, "max_priority": "batch"}, actor=ME)


def test_everything_comes_at_a_start() -> None:
    config.set_pool_state("gpu", "paused", actor=ME)
    delta = sync.changes_since(None)
    pool = delta.pools["gpu"]
    assert pool is not None
    assert (pool.capacity, pool.state, pool.max_waiters) == (4, "paused", 10_000)
    assert (pool.max_lease_us, pool.aging_us, pool.default_timeout_us) == (90_500_000, None, 0)
    assert pool.default_ttl_us == 60 * SECOND
    assert pool.shares == {"search": Share(limit=3, guarantee=1, max_priority="batch")}
    assert delta.ranks == {"critical": 0, "interactive": 1, "batch": 2, "background": 3}
    assert delta.weights == {"search": 1.0}
    assert delta.keys == []
    assert [model.name for model in delta.models or []] == ["gpt2"]
    assert delta.version == sync.newest_version() == Change.objects.count()
    assert delta.changes == []


def test_rates_come_with_a_tenth_as_burst_where_none_is_set() -> None:
    for fields, requests, tokens in (
        ({"requests_per_minute": 5}, Rate(5, 1), None),
        ({"tokens_per_minute": 1000}, Rate(5, 1), Rate(1000, 100)),
        ({"tokens_burst": 3}, Rate(5, 1), Rate(1000, 3)),
        ({"requests_per_minute": None, "tokens_burst": None}, None, Rate(1000, 100)),
    ):
        config.update_pool("gpu", fields, actor=ME)
        pool = sync.changes_since(None).pools["gpu"]
        assert pool is not None
        assert (pool.requests, pool.tokens) == (requests, tokens)


def test_only_what_changed_comes_later() -> None:
    version = sync.newest_version()
    config.create_pool({"name": "cpu", "capacity": 1}, actor=ME)
    nothing_else = sync.changes_since(version)
    assert set(nothing_else.pools) == {"cpu"}
    assert (nothing_else.ranks, nothing_else.weights, nothing_else.keys, nothing_else.models) == (None,) * 4
    assert [change["name"] for change in nothing_else.changes] == ["cpu"]
    assert sync.changes_since(nothing_else.version).changes == []


def test_a_share_brings_its_pool_and_a_deleted_pool_is_none() -> None:
    version = sync.newest_version()
    config.delete_share("gpu", "search", actor=ME)
    pool = sync.changes_since(version).pools["gpu"]
    assert pool is not None
    assert pool.shares == {}
    config.delete_pool("gpu", actor=ME)
    delta = sync.changes_since(version)
    assert delta.pools == {"gpu": None}
    assert [change["action"] for change in delta.changes] == ["delete", "delete"]


def test_ranks_weights_and_keys_come_whole_when_one_changes() -> None:
    version = sync.newest_version()
    classes.update_class("batch", {"rank": 7}, actor=ME)
    tenants.update_tenant("search", {"weight": 2}, actor=ME)
    _, row = create_key("search", "", ["read"], ME)
    _, gone = create_key("search", "", ["admin"], ME)
    revoke_key("search", gone.id, ME)
    delta = sync.changes_since(version)
    assert delta.ranks == {"critical": 0, "interactive": 1, "batch": 7, "background": 3}
    assert delta.weights == {"search": 2.0}
    assert [(key.key_id, key.tenant, key.scopes) for key in delta.keys or []] == [(row.id, "search", ("read",))]
    assert delta.pools == {}


def test_last_use_is_stored_without_a_change() -> None:
    _, row = create_key("search", "", ["read"], ME)
    version = sync.newest_version()
    write_last_used({row.id: 1_700_000_000.5, "gone": 1.0})
    stored = ApiKey.objects.get(id=row.id).last_used_at
    assert stored is not None
    assert stored.timestamp() == 1_700_000_000.5
    assert sync.newest_version() == version
