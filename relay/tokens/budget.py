"""What tokens cost, and whether they fit a model's context."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from relay.http import invalid
from relay.tokens.answers import Cost
from relay.tokens.prices import price_of, price_of_name
from relay.tokens.service import TokenService

MILLION = 1_000_000


def cost_of(service: TokenService, model: str, tokens: int, output_tokens: int | UnsetType = UNSET) -> Cost:
    """What `tokens` of input (and of output, where given) cost in US dollars; nulls and a note where no price is known."""
    slot = service.slot(model)
    price = price_of_name(model) if slot is None else price_of(slot.spec)
    if price is None:
        note = f"No price is known for {model}: set input_price and output_price of the model."
        return Cost(None, "USD", None, None, note, UNSET if output_tokens is UNSET else None)
    output = UNSET if output_tokens is UNSET else _dollars(price.output_per_million, output_tokens)
    spent = _dollars(price.input_per_million, tokens)
    return Cost(spent, price.currency, price.source, price.date, price.note, output)


def context_of(service: TokenService, model: str, asked: int | UnsetType) -> int:
    """How many tokens a model takes, prompt and answer together. Raises 400 `invalid` where nobody knows."""
    if asked is not UNSET:
        return asked
    slot = service.slot(model)
    if slot is None or slot.context_size is None:
        raise invalid("context_size", f"is not known for {model}; send it, or set context_size of the model")
    return slot.context_size


def _dollars(per_million: float | None, tokens: int) -> float | None:
    return None if per_million is None else round(per_million * tokens / MILLION, 12)
