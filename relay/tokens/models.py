"""Configuration of tokenizers. Rows are written by the configuration's writer; `registry` makes plain values of them."""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import RegexValidator
from django.db import models

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?\Z"


class TokenModel(models.Model):
    """One model whose tokens are counted, and where its tokenizer comes from."""

    class Source(models.TextChoices):
        """Where a tokenizer is loaded from."""

        PACKAGE = "package", "shipped with an installed package"
        HUB = "hub", "Hugging Face hub or its local cache"
        PATH = "path", "a local folder or tokenizer.json"
        ESTIMATE = "estimate", "no public vocabulary: estimated from another model's counts"

    name = models.CharField(
        max_length=200,
        unique=True,
        validators=[
            RegexValidator(NAME_PATTERN, "Use letters, digits, dots, dashes and underscores: name or org/name.")
        ],
    )
    source = models.CharField(max_length=10, choices=Source.choices, default=Source.HUB)
    # other names that callers use for it; unique over all names and aliases
    aliases = models.JSONField(default=list, blank=True)
    # hub: a repository id, empty for the name itself; path: a folder or a tokenizer.json; package: empty; estimate: the
    # name of the model whose counts are multiplied
    location = models.CharField(max_length=1000, blank=True, default="")
    revision = models.CharField(max_length=100, blank=True, default="")
    # Jinja source that replaces the model's own chat template; empty: its own
    chat_template = models.TextField(blank=True, default="")
    # tokens of prompt and answer together; null: unknown
    context_size = models.PositiveIntegerField(null=True, blank=True)
    # US dollars a million tokens, over what genai-prices says; null: what it says
    input_price = models.FloatField(null=True, blank=True)
    output_price = models.FloatField(null=True, blank=True)
    # estimate: what the other model's count is multiplied by, and when that was measured
    estimate_factor = models.FloatField(null=True, blank=True)
    estimate_date = models.DateField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    def __str__(self) -> str:
        return self.name


class UsageHour(models.Model):
    """What one tenant counted with one model in one hour (UTC)."""

    hour = models.DateTimeField()
    model = models.CharField(max_length=200)
    tenant = models.CharField(max_length=63)
    requests = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    # tokens that came from a cache or from reused segments
    reused_tokens = models.BigIntegerField(default=0)
    # wall time spent on counting, and the estimate of what the reused part would have taken
    spent_s = models.FloatField(default=0.0)
    saved_s = models.FloatField(default=0.0)
    # US dollars that these tokens cost as input at the price of the moment; null: no price is known
    cost_usd = models.FloatField(null=True, blank=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["-hour", "model", "tenant"]
        constraints: ClassVar[list[models.BaseConstraint]] = [
            models.UniqueConstraint(fields=["hour", "model", "tenant"], name="usage_of_an_hour")
        ]

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H}:00 {self.model} {self.tenant}"
