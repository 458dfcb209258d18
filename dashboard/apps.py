"""The operator's pages."""

from __future__ import annotations

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """Pages, static files and the live socket; no tables of its own."""

    name = "dashboard"
    label = "dashboard"
    verbose_name = "Token Relay"
