"""Rows of the pools' configuration. Written by `permits.config` and `permits.classes` only; the engine never reads them."""

from __future__ import annotations

from django.db import models

from relay.tenants.models import Tenant

STATES = [("active", "active"), ("paused", "paused"), ("draining", "draining")]


class PriorityClass(models.Model):
    """A named urgency; rank 0 is the most urgent."""

    name = models.CharField(max_length=63, unique=True)
    rank = models.PositiveSmallIntegerField()

    class Meta:
        ordering = ["rank", "name"]
        verbose_name_plural = "priority classes"

    def __str__(self) -> str:
        return self.name


class Pool(models.Model):
    """A named, resizable number of permits. Durations are seconds; `version` is the ETag."""

    name = models.CharField(max_length=63, unique=True)
    capacity = models.PositiveIntegerField()
    description = models.CharField(max_length=1000, blank=True, default="")
    default_priority = models.CharField(max_length=63, default="interactive")
    default_timeout_s = models.FloatField(default=30.0)
    max_timeout_s = models.FloatField(default=3600.0)
    default_ttl_s = models.FloatField(default=60.0)
    max_ttl_s = models.FloatField(default=3600.0)
    max_lease_s = models.FloatField(null=True, blank=True, default=None)
    max_waiters = models.PositiveIntegerField(default=10_000)
    aging_s = models.FloatField(null=True, blank=True, default=30.0)
    reconnect_grace_s = models.FloatField(default=10.0)
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True, default=None)
    requests_burst = models.PositiveIntegerField(null=True, blank=True, default=None)  # null: a tenth of the minute's
    tokens_per_minute = models.PositiveIntegerField(null=True, blank=True, default=None)
    tokens_burst = models.PositiveIntegerField(null=True, blank=True, default=None)
    state = models.CharField(max_length=16, choices=STATES, default="active")
    sizing = models.JSONField(null=True, blank=True, default=None)  # permits.sizing.sizer.Sizing; null: sized by hand
    version = models.PositiveBigIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PoolShare(models.Model):
    """What one tenant may have of one pool. Null: the tenant's own weight, no limit, no bound."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="shares")
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="shares")
    weight = models.FloatField(null=True, blank=True)
    limit = models.PositiveIntegerField(null=True, blank=True)
    guarantee = models.PositiveIntegerField(default=0)
    max_waiters = models.PositiveIntegerField(null=True, blank=True)
    max_priority = models.CharField(max_length=63, null=True, blank=True)  # noqa: DJ001 - null: no bound, as in the API

    class Meta:
        ordering = ["tenant__name"]
        constraints = [models.UniqueConstraint(fields=["pool", "tenant"], name="one_share_a_tenant")]

    def __str__(self) -> str:
        return f"{self.pool_id}/{self.tenant_id}"
