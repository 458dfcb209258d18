"""Tokens and what they cost by the hour, by model and tenant: gathered in memory, added to the database every FLUSH_S.

Several nodes add up in one row. A process that is killed loses what it has not written yet: at most FLUSH_S; and as much of
an hour may stand in the next one's row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db import transaction
from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce
from msgspec import UNSET, Struct, UnsetType

from relay.telemetry.token_meter import TokenMeter, Used, dollars_saved
from relay.tokens.models import UsageHour

By = Literal["hour", "model", "tenant"]

FLUSH_S = 10.0
KEPT = timedelta(days=400)
BATCHES = 2160  # what a database that is away for six hours leaves to be written

_SUMMED = "sum_"  # before the names of sums: those of the fields themselves are taken
_SUMS: dict[str, Any] = {
    **{f"{_SUMMED}{name}": Sum(name, default=0) for name in ("requests", "tokens", "reused_tokens")},
    **{f"{_SUMMED}{name}": Sum(name, default=0.0) for name in ("spent_s", "saved_s")},
    f"{_SUMMED}cost_usd": Sum("cost_usd"),
    f"{_SUMMED}unpriced_tokens": Sum("tokens", filter=Q(cost_usd__isnull=True), default=0),
}


class UsageTotal(Struct, kw_only=True):
    """Sums of usage; of `hour` (UTC), `model`, `tenant` those that were asked to be told apart.

    `spent_s`: wall time of counting. `saved_s`: what computing the reused tokens would have taken, an estimate, and
    `saved_usd` that as processor time at CORE_HOUR_USD. `cost_usd`: the tokens as input at the prices of their time; null if
    no price was known; `unpriced_tokens` are not in it.
    """

    hour: datetime | UnsetType = UNSET
    model: str | UnsetType = UNSET
    tenant: str | UnsetType = UNSET
    requests: int
    tokens: int
    reused_tokens: int
    spent_s: float
    saved_s: float
    saved_usd: float
    cost_usd: float | None
    unpriced_tokens: int


class UsageLog:
    """Takes a meter's counts to the database. `price_of` gives a model's dollars a million input tokens, if known."""

    def __init__(self, meter: TokenMeter, price_of: Callable[[str], float | None]) -> None:
        self._meter = meter
        self._price_of = price_of
        self._batches: deque[tuple[datetime, list[Used]]] = deque(maxlen=BATCHES)
        self._pruned: datetime | None = None

    def collect(self, now: datetime) -> None:
        """On the event loop: takes what was used since the last time."""
        used = self._meter.take()
        if used:
            self._batches.append((hour_of(now), used))

    def store(self, now: datetime) -> None:
        """In the database's thread: adds what was collected. A batch that fails is kept for the next time."""
        while self._batches:
            add(*self._batches[0], self._price_of)
            self._batches.popleft()
        if self._pruned != hour_of(now):
            prune(now)
            self._pruned = hour_of(now)


def hour_of(moment: datetime) -> datetime:
    """The beginning of its hour."""
    return moment.replace(minute=0, second=0, microsecond=0)


def add(hour: datetime, used: Iterable[Used], price_of: Callable[[str], float | None]) -> None:
    """Adds to an hour's rows, all or nothing. In a fixed order, so that two nodes do not lock each other out."""
    entries = sorted(used, key=lambda each: (each.model, each.tenant))
    with transaction.atomic():
        UsageHour.objects.bulk_create(
            [UsageHour(hour=hour, model=each.model, tenant=each.tenant) for each in entries], ignore_conflicts=True
        )
        for each in entries:
            _add_one(UsageHour.objects.filter(hour=hour, model=each.model, tenant=each.tenant), each, price_of)


def _add_one(row: QuerySet[UsageHour], used: Used, price_of: Callable[[str], float | None]) -> None:
    price = price_of(used.model)
    cost = {} if price is None else {"cost_usd": Coalesce(F("cost_usd"), 0.0) + used.tokens * price / 1e6}
    row.update(
        requests=F("requests") + used.requests,
        tokens=F("tokens") + used.tokens,
        reused_tokens=F("reused_tokens") + used.reused_tokens,
        spent_s=F("spent_s") + used.spent_s,
        saved_s=F("saved_s") + used.saved_s,
        **cost,
    )


def prune(now: datetime) -> None:
    """Deletes what is older than KEPT."""
    UsageHour.objects.filter(hour__lt=now - KEPT).delete()


def totals(
    since: datetime,
    by: Sequence[By] = ("model",),
    *,
    tenant: str | None = None,
    offset: int = 0,
    limit: int | None = None,
) -> list[UsageTotal]:
    """Sums from the hour of `since` on, in the order of the `by` fields; by nothing: one sum of all, also of none.

    Without what the last FLUSH_S seconds brought. `tenant`: of this one only.
    """
    rows = UsageHour.objects.filter(hour__gte=hour_of(since))
    if tenant is not None:
        rows = rows.filter(tenant=tenant)
    if not by:
        return [_total(rows.aggregate(**_SUMS))][offset:][:limit]
    grouped = rows.values(*by).annotate(**_SUMS).order_by(*by)
    return [_total(row) for row in grouped[offset : None if limit is None else offset + limit]]


def _total(row: dict[str, Any]) -> UsageTotal:
    fields = {name.removeprefix(_SUMMED): value for name, value in row.items()}
    return UsageTotal(**fields, saved_usd=dollars_saved(fields["saved_s"]))
