"""The operator's pages."""

from __future__ import annotations

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """Pages, static files and the live socket; no tables of its own."""

    name = "dashboard"
    label = "dashboard"
    verbose_name = "Token Relay"

    def ready(self) -> None:
        """One sign-in for all: the admin site's own would know neither the limit of tries nor the first password."""
        from django.contrib import admin

        from dashboard.people import admin_sign_in, may_use_admin

        admin.site.login = admin_sign_in  # type: ignore[method-assign]
        admin.site.has_permission = may_use_admin  # type: ignore[method-assign]
