"""A configured tokenizer as the service takes it: a plain value made of its row."""

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


def spec_of(row: TokenModel) -> ModelSpec:
    """A row as the service takes it."""
    return ModelSpec(
        name=row.name,
        source=cast("Source", row.source),
        location=row.location,
        revision=row.revision,
        stamp=row.updated_at.isoformat(),
    )
