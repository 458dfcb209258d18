"""Pools of permits: their configuration (here) and the engine that gives them out (engine/)."""

from __future__ import annotations

from django.apps import AppConfig


class PermitsConfig(AppConfig):
    """The app that knows the pools."""

    name = "relay.permits"
    label = "permits"
    verbose_name = "Permits"
