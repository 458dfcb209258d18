"""A configured model as the service takes it: a plain value made of its row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, cast

from msgspec import Struct

if TYPE_CHECKING:  # the process that loads a tokenizer takes specs, and has no Django
    from relay.tokens.models import TokenModel

Source = Literal["package", "hub", "path", "estimate"]


class ModelSpec(Struct, frozen=True):
    """A configured model. Prices in US dollars a million tokens.

    `stamp` is the row's making: a model that is deleted and made again is another. `priced_on`: its last change, where a
    price is set.
    """

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
    priced_on: str = ""

    @property
    def origin(self) -> tuple[str, str, str, str]:
        """What its tokenizer depends on: two specs of one origin need no reload."""
        return self.source, self.location, self.revision, self.stamp


def spec_of(row: TokenModel) -> ModelSpec:
    """A row as the service takes it."""
    priced = row.input_price is not None or row.output_price is not None
    return ModelSpec(
        name=row.name,
        source=cast("Source", row.source),
        location=row.location,
        revision=row.revision,
        stamp=row.created_at.isoformat(),
        aliases=tuple(row.aliases),
        chat_template=row.chat_template,
        context_size=row.context_size,
        input_price=row.input_price,
        output_price=row.output_price,
        estimate_factor=row.estimate_factor,
        estimate_date=row.estimate_date.isoformat() if row.estimate_date else "",
        priced_on=row.updated_at.date().isoformat() if priced else "",
    )
