"""Rows: tenants, API keys, and the Change log. Written by `tenants.config`, `tenants.keys` and `tenants.changes` only."""

from __future__ import annotations

from django.db import models


class Tenant(models.Model):
    """Who asks: a team or service. `weight` is its share under contention, unless a pool overrides it."""

    name = models.CharField(max_length=63, unique=True)
    weight = models.FloatField(default=1.0)
    description = models.CharField(max_length=1000, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class ApiKey(models.Model):
    """A key of a tenant. The row keeps the public id and a keyed digest, never the secret."""

    id = models.CharField(primary_key=True, max_length=32)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="keys")
    name = models.CharField(max_length=100, blank=True, default="")
    scopes = models.JSONField(default=list)
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return f"{self.tenant_id}/{self.name or self.id}"


class Change(models.Model):
    """One change of configuration: who, when, what, before, after, why. Its id is the version of the whole configuration."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor_kind = models.CharField(max_length=16)
    actor = models.CharField(max_length=150)
    request_id = models.CharField(max_length=64, blank=True, default="")
    kind = models.CharField(max_length=32)
    name = models.CharField(max_length=200)
    pool = models.CharField(max_length=63, blank=True, default="", db_index=True)
    tenant = models.CharField(max_length=63, blank=True, default="", db_index=True)
    action = models.CharField(max_length=32)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    reason = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.id}: {self.action} {self.kind} {self.name}"
