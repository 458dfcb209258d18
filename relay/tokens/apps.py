"""The Django app of the tokenizers' configuration."""

from __future__ import annotations

from django.apps import AppConfig


class TokensConfig(AppConfig):
    """Rows that say which tokenizers this relay serves."""

    name = "relay.tokens"
    label = "tokens"
    verbose_name = "Tokenizers"
    default_auto_field = "django.db.models.BigAutoField"
