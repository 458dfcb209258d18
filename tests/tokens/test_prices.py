"""Prices: from the installed table or an operator, always with source and date; none where nobody knows."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from importlib.metadata import version
from typing import NoReturn

import pytest

from relay.tokens.prices import HOURLY, SET_BY_HAND, TIERED, Price, price_of, price_of_name
from relay.tokens.registry import ModelSpec

TABLE = f"genai-prices {version('genai-prices')}"


def priced(found: Price | None) -> Price:
    """A price that is there."""
    assert found is not None
    return found


def test_a_hosted_model_has_the_tables_price_with_version_and_day() -> None:
    found = priced(price_of(ModelSpec("gpt-4o", "path", "/o200k")))
    assert (found.source, found.currency, found.note) == (TABLE, "USD", "")
    assert found.date == datetime.now(UTC).date().isoformat()
    assert 0 < (found.input_per_million or 0) < (found.output_per_million or 0)
    assert price_of_name("openai/gpt-4o") == found


@pytest.mark.parametrize(
    "name", ["gpt2", "acme/llama", "nobody", "openai/", "/gpt-4o", "mistralai/Mistral-7B-v0.3", ""]
)
def test_what_nobody_prices_has_no_price_rather_than_none_to_pay(name: str) -> None:
    assert price_of_name(name) is None


def test_a_repository_of_the_hub_is_not_priced_by_its_name() -> None:
    assert price_of_name("openai/gpt-4o")
    assert price_of(ModelSpec("openai/gpt-4o", "hub")) is None
    assert price_of(ModelSpec("openai/gpt-4o", "hub", aliases=("gpt-4o",))) == price_of_name("gpt-4o")


def test_a_tiered_price_is_its_base_and_says_so() -> None:
    assert TIERED in priced(price_of_name("gemini-2.5-pro")).note


def test_a_tariff_by_the_hour_says_so() -> None:
    assert HOURLY in priced(price_of_name("deepseek-chat")).note


def test_an_operators_price_goes_first_each_for_itself() -> None:
    listed = priced(price_of_name("gpt-4o"))
    both = priced(price_of(ModelSpec("gpt-4o", "hub", input_price=0.0, output_price=1.5, priced_on="2026-11-02")))
    assert both == Price(0.0, 1.5, SET_BY_HAND, "2026-11-02")
    one = priced(price_of(ModelSpec("gpt-4o", "hub", input_price=9.0, priced_on="2026-11-02")))
    assert (one.input_per_million, one.output_per_million) == (9.0, listed.output_per_million)
    assert one.source == f"{SET_BY_HAND}, {TABLE}"
    unknown = priced(price_of(ModelSpec("ours", "path", "/x", output_price=2.0, priced_on="2026-11-02")))
    assert (unknown.input_per_million, unknown.output_per_million) == (None, 2.0)


def test_nothing_is_asked_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> NoReturn:
        raise AssertionError("a price must not connect anywhere")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert price_of_name("claude-sonnet-4-5")
    assert price_of_name("no-such-model-anywhere") is None
