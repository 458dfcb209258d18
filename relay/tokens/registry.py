"""Which tokenizers are configured: reads the rows, and hands plain values to the service."""

from __future__ import annotations

from typing import Literal, cast

from msgspec import Struct

from relay.tokens.models import TokenModel

Source = Literal["package", "hub", "path"]


class ModelSpec(Struct, frozen=True):
    """A configured tokenizer. Two equal specs need no reload; `stamp` is the row's last change."""

    name: str
    source: Source
    location: str = ""
    revision: str = ""
    stamp: str = ""


def configured() -> list[ModelSpec]:
    """All configured tokenizers by name. Reads the database: call it from a thread."""
    return [spec_of(row) for row in TokenModel.objects.order_by("name")]


def spec_of(row: TokenModel) -> ModelSpec:
    """A row as the service takes it."""
    return ModelSpec(
        name=row.name,
        source=cast("Source", row.source),
        location=row.location,
        revision=row.revision,
        stamp=row.updated_at.isoformat(),
    )
