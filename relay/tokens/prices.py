"""What a million tokens of a model cost, with the source and the date of the figure. Nothing is asked of the network.

An operator's price goes before that of genai-prices, which ships a table of hosted models. A model that neither knows has
no price: one that is served by its owner costs something, but nobody here can say what.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from relay.tokens.registry import ModelSpec

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot

NAME_LIMIT = 200
SET_BY_HAND = "set by hand"
TIERED = "The price of short requests: the provider asks more for long ones."
HOURLY = "The price of this hour: the provider's changes with the time of day."

_importing = threading.Lock()


class Price(Struct, frozen=True):
    """US dollars a million tokens; null where only the other is known.

    `source` is "genai-prices VERSION", "set by hand", or both where one of the two was set. `date`: the day for which the
    table was read, or since when the model is configured as it is. `note` says what the figure leaves out.
    """

    input_per_million: float | None
    output_per_million: float | None
    source: str
    date: str
    currency: str = "USD"
    note: str = ""


def price_of(spec: ModelSpec) -> Price | None:
    """The price of a configured model by its name, else by an alias; None if nobody says one.

    A repository of the hub has none by its name: whoever serves it knows what that costs.

    Takes microseconds once the table is there.
    """
    if spec.input_price is not None and spec.output_price is not None:
        return Price(spec.input_price, spec.output_price, SET_BY_HAND, spec.priced_on)
    own = () if spec.source == "hub" and "/" in spec.name else (spec.name,)
    listed = next((found for name in (*own, *spec.aliases) if (found := price_of_name(name))), None)
    if spec.input_price is None and spec.output_price is None:
        return listed
    if listed is None:
        return Price(spec.input_price, spec.output_price, SET_BY_HAND, spec.priced_on)
    return Price(
        listed.input_per_million if spec.input_price is None else spec.input_price,
        listed.output_per_million if spec.output_price is None else spec.output_price,
        f"{SET_BY_HAND}, {listed.source}",
        listed.date,
        note=listed.note,
    )


def price_of_name(name: str) -> Price | None:
    """The table's price of a hosted model now: `gpt-4o`, or with its provider `openai/gpt-4o`."""
    now = datetime.now(UTC)
    # tariffs change on the hour and the half hour at most
    return _listed(name, now.replace(minute=now.minute // 30 * 30, second=0, microsecond=0))


@lru_cache(maxsize=4096)
def _listed(name: str, at: datetime) -> Price | None:
    provider, slash, model = name.lower().rpartition("/")
    if len(name) > NAME_LIMIT:
        return None
    providers = _table().providers
    # only a provider's exact name: `mistralai/...` is a repository on the hub, whoever serves it. Not the table's own search,
    # which remembers every name that it was ever asked for.
    if slash:
        owner = next((each for each in providers if each.id == provider), None)
    else:
        owner = next((each for each in providers if each.model_match and each.model_match.is_match(model)), None)
    found = owner.find_model(model, all_providers=providers) if owner else None
    if found is None:
        return None
    prices = found.get_prices(at)
    into, out = getattr(prices, "input_mtok", None), getattr(prices, "output_mtok", None)
    if into is None and out is None:
        return None
    tiered = any(hasattr(price, "base") for price in (into, out))
    tariffs = found.prices if isinstance(found.prices, list) else []
    hourly = any(hasattr(tariff.constraint, "start_time") for tariff in tariffs)
    note = " ".join([TIERED] * tiered + [HOURLY] * hourly)
    return Price(_dollars(into), _dollars(out), f"genai-prices {_version()}", at.date().isoformat(), note=note)


def warm() -> None:
    """Imports the table (0.15 s), so that no request has to. For a thread."""
    _table()


def _dollars(price: Any) -> float | None:
    """The base of a tiered price, else the price."""
    found: Decimal | None = getattr(price, "base", price)
    return None if found is None else float(found)


def _table() -> DataSnapshot:
    """The table that the installed package holds. Its updater, which would ask the network, is never started."""
    with _importing:
        from genai_prices import data_snapshot

        return data_snapshot.get_snapshot()


@lru_cache(maxsize=1)
def _version() -> str:
    return version("genai-prices")
