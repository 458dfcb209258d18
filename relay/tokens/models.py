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

    name = models.CharField(
        max_length=200,
        unique=True,
        validators=[
            RegexValidator(NAME_PATTERN, "Use letters, digits, dots, dashes and underscores: name or org/name.")
        ],
    )
    source = models.CharField(max_length=10, choices=Source.choices, default=Source.HUB)
    # hub: a repository id, empty for the name itself; path: a folder or a tokenizer.json; package: empty
    location = models.CharField(max_length=1000, blank=True, default="")
    revision = models.CharField(max_length=100, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["name"]

    def __str__(self) -> str:
        return self.name
