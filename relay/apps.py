"""The service as a Django app, so that its commands are found."""

from __future__ import annotations

from django.apps import AppConfig


class RelayConfig(AppConfig):
    """Has commands, no tables."""

    name = "relay"
    label = "relay"
    verbose_name = "Token Relay"
