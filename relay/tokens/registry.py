"""A configured tokenizer as the service takes it: a plain value made of its row."""

from __future__ import annotations

from typing import Literal, cast

from msgspec import Struct

from relay.tokens.models import TokenModel

Source = Literal["package", "hub", "path", "estimate"]


class ModelSpec(Struct, frozen=True):
    """A configured tokenizer. Two equal specs need no reload; `stamp` is the row's last change."""

    name: str
    source: Source
    location: str = ""
    revision: str = ""
    stamp: str = ""
    aliases: tuple[str, ...] = ()
    chat_template: str = ""
    context_size: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    estimate_factor: float | None = None
    estimate_date: str = ""


def spec_of(row: TokenModel) -> ModelSpec:
    """A row as the service takes it."""
    return ModelSpec(
        name=row.name,
        source=cast("Source", row.source),
        location=row.location,
        revision=row.revision,
        stamp=row.updated_at.isoformat(),
        aliases=tuple(row.aliases),
        chat_template=row.chat_template,
        context_size=row.context_size,
        input_price=row.input_price,
        output_price=row.output_price,
        estimate_factor=row.estimate_factor,
        estimate_date=row.estimate_date.isoformat() if row.estimate_date else "",
    )
