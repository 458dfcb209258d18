"""Configuration rows -> what the engine, the key ring and the tokenizers take. Reads the database only; from any thread."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from relay.permits.engine.base import SECOND, PoolConfig, Share
from relay.permits.engine.rates import Rate
from relay.permits.models import Pool, PoolShare, PriorityClass
from relay.permits.sizing.rows import sizing_of
from relay.permits.sizing.sizer import Sizing
from relay.tenants.changes import change_answer
from relay.tenants.keyring import KeyRow
from relay.tenants.keys import live_keys
from relay.tenants.models import Change, Tenant
from relay.tokens.models import TokenModel


class Delta(Struct, frozen=True):
    """What changed up to `version`. None where nothing did; a pool that is None is gone. `changes`: the oldest first.

    `sizings` has every pool that `pools` has; None where nothing sizes it.
    """

    version: int
    pools: dict[str, PoolConfig | None]
    ranks: dict[str, int] | None
    weights: dict[str, float] | None
    keys: list[KeyRow] | None
    models: list[TokenModel] | None
    changes: list[dict[str, Any]]
    sizings: dict[str, Sizing | None] = {}


def newest_version() -> int:
    """The version of the whole configuration: the newest Change's id, 0 before the first."""
    return Change.objects.order_by("-id").values_list("id", flat=True).first() or 0


def changes_since(version: int | None) -> Delta:
    """What changed after `version`; None: everything, as at a start (then without `changes`).

    The version is read before the rows: rows may be newer than it, and then come once more with the next call.
    """
    newest = newest_version()
    if version is None:
        return Delta(newest, pools_of(None), _ranks(), _weights(), live_keys(), _models(), [], _sizings(None))
    rows = list(Change.objects.filter(id__gt=version, id__lte=newest).order_by("id"))
    kinds = {row.kind for row in rows}
    named = {row.pool for row in rows if row.kind in ("pool", "share")}
    return Delta(
        version=newest,
        pools=pools_of(named) if named else {},
        ranks=_ranks() if "priority-class" in kinds else None,
        weights=_weights() if "tenant" in kinds else None,
        keys=live_keys() if "api-key" in kinds else None,
        models=_models() if "model" in kinds else None,
        changes=[change_answer(row) for row in rows],
        sizings=_sizings(named) if named else {},
    )


def pools_of(names: Iterable[str] | None) -> dict[str, PoolConfig | None]:
    """The pools of these names (None: all) as the engine needs them; None for one that is not there."""
    pools = Pool.objects.all()
    shares = PoolShare.objects.select_related("tenant")
    if names is not None:
        pools = pools.filter(name__in=names)
        shares = shares.filter(pool__name__in=names)
    by_pool: dict[int, dict[str, Share]] = {}
    for share in shares:
        by_pool.setdefault(share.pool_id, {})[share.tenant.name] = _share(share)
    found: dict[str, PoolConfig | None] = dict.fromkeys(names or ())
    for pool in pools:
        found[pool.name] = pool_config(pool, by_pool.get(pool.pk, {}))
    return found


def pool_config(pool: Pool, shares: dict[str, Share]) -> PoolConfig:
    """A pool's row as the engine needs it: durations in whole microseconds, none that should last rounded to 0."""
    return PoolConfig(
        name=pool.name,
        capacity=pool.capacity,
        ceiling=None if pool.sizing is None else pool.sizing["maximum"],
        state=pool.state,  # type: ignore[arg-type]  # only these states are ever written
        default_priority=pool.default_priority,
        default_timeout_us=_us(pool.default_timeout_s),
        max_timeout_us=_us(pool.max_timeout_s),
        default_ttl_us=_lasting(pool.default_ttl_s),
        max_ttl_us=_lasting(pool.max_ttl_s),
        max_lease_us=None if pool.max_lease_s is None else _lasting(pool.max_lease_s),
        max_waiters=pool.max_waiters,
        aging_us=None if pool.aging_s is None else _lasting(pool.aging_s),
        reconnect_grace_us=_us(pool.reconnect_grace_s),
        shares=shares,
        requests=_rate(pool.requests_per_minute, pool.requests_burst),
        tokens=_rate(pool.tokens_per_minute, pool.tokens_burst),
    )


def _sizings(names: Iterable[str] | None) -> dict[str, Sizing | None]:
    pools = Pool.objects.all() if names is None else Pool.objects.filter(name__in=names)
    found: dict[str, Sizing | None] = dict.fromkeys(names or ())
    return found | {pool.name: sizing_of(pool) for pool in pools}


def _share(row: PoolShare) -> Share:
    return Share(row.weight, row.limit, row.guarantee, row.max_waiters, row.max_priority)


def _rate(per_minute: int | None, burst: int | None) -> Rate | None:
    if per_minute is None:
        return None
    return Rate(per_minute, max(1, per_minute // 10) if burst is None else burst)


def _us(seconds: float) -> int:
    return round(seconds * SECOND)


def _lasting(seconds: float) -> int:
    return max(1, _us(seconds))


def _ranks() -> dict[str, int]:
    return dict(PriorityClass.objects.values_list("name", "rank"))


def _weights() -> dict[str, float]:
    return dict(Tenant.objects.values_list("name", "weight"))


def _models() -> list[TokenModel]:
    return list(TokenModel.objects.all())
