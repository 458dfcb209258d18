"""Tenants, their API keys, and the log of every change of configuration."""

from __future__ import annotations

from django.apps import AppConfig


class TenantsConfig(AppConfig):
    """The app that knows who may ask."""

    name = "relay.tenants"
    label = "tenants"
    verbose_name = "Tenants"
