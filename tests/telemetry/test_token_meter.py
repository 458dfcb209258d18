"""The meter of token counting against a clock that the test moves."""

from __future__ import annotations

import pytest

from relay.telemetry.tenants import MAX_TENANTS
from relay.telemetry.token_meter import CORE_HOUR_USD, LEVELS, MAX_LIVE_MODELS, MODEL_FIELDS, TokenMeter, dollars_saved
from tests.telemetry.helpers import FakeClock


def live_of(meter: TokenMeter, model: str) -> dict[str, float | None]:
    return dict(zip(MODEL_FIELDS, meter.live()["models"][model], strict=True))


def test_token_counts_give_a_hit_rate() -> None:
    meter = TokenMeter(FakeClock())
    assert meter.live()["hit_rate"] is None
    for source in ("cache", "cache", "cache", "computed"):
        meter.counted("gpt2", "default", source, 30, 0.001)
    live = meter.live()
    assert (live["hit_rate"], live["tokens_s"]) == (0.75, 2.0)
    assert meter.requests[("gpt2", "partial")] == 0


def test_a_count_leaves_the_window_after_sixty_seconds_and_not_before() -> None:
    clock = FakeClock()
    meter = TokenMeter(clock)
    meter.live()
    clock.forward(1)
    meter.counted("gpt2", "default", "computed", 60, 0.001)
    for _ in range(59):
        assert meter.live()["tokens_s"] == 1.0
        clock.forward(1)
    meter.live()
    clock.forward(1)
    assert meter.live()["tokens_s"] == 0.0


def test_levels_are_shares_of_characters() -> None:
    meter = TokenMeter(FakeClock())
    meter.reused("gpt2", "segment", 3000, 700, 0.0001)
    meter.reused("gpt2", "computed", 500, 120, 0.0006)
    meter.reused("llama", "shared", 500, 100, 0.0001)
    meter.counted("gpt2", "default", "partial", 820, 0.001, reused=700)
    assert meter.live()["levels"] == [0.0, 0.75, 0.125, 0.125]
    gpt2 = live_of(meter, "gpt2")
    assert [gpt2[level] for level in LEVELS] == [0.0, 0.8571, 0.0, 0.1429]
    assert live_of(meter, "llama")["requests_s"] == 0


def test_a_text_found_whole_is_booked_by_the_one_call() -> None:
    meter = TokenMeter(FakeClock())
    meter.counted("gpt2", "default", "cache", 25, 0.00001, characters=100)
    meter.reused("gpt2", "computed", 300, 75, 0.00003)
    assert live_of(meter, "gpt2")["text"] == 0.25


def test_time_saved_is_what_computing_the_reused_tokens_would_have_taken() -> None:
    meter = TokenMeter(FakeClock())
    meter.reused("gpt2", "text", 400, 100, 0.0)
    meter.counted("gpt2", "default", "cache", 100, 0.0)
    assert live_of(meter, "gpt2")["saved_s"] == 0  # nobody has measured yet what a token takes
    (first,) = meter.take()
    assert first.saved_s == 0
    meter.reused("gpt2", "computed", 4000, 1000, 10.0)
    meter.reused("gpt2", "segment", 2000, 500, 0.0)
    meter.counted("gpt2", "default", "partial", 1500, 10.0, reused=500)
    assert live_of(meter, "gpt2")["saved_s"] == pytest.approx(6.0)
    assert meter.live()["saved_usd"] == pytest.approx(dollars_saved(6.0))
    (second,) = meter.take()
    assert second.saved_s == pytest.approx(6.0)  # with what had waited for a rate
    assert meter.models["gpt2"].saved_s == pytest.approx(6.0)


def test_money_saved_is_core_time_at_the_stated_price() -> None:
    assert dollars_saved(3600) == CORE_HOUR_USD


def test_take_gives_each_use_once() -> None:
    meter = TokenMeter(FakeClock())
    meter.counted("gpt2", "search", "computed", 7, 0.5)
    meter.counted("gpt2", "search", "cache", 7, 0.25)
    meter.counted("gpt2", "eval", "partial", 9, 1.0, reused=4)
    used = {each.tenant: each for each in meter.take()}
    search, evaluation = used["search"], used["eval"]
    assert (search.requests, search.tokens, search.reused_tokens, search.spent_s) == (2, 14, 7, 0.75)
    assert (evaluation.requests, evaluation.tokens, evaluation.reused_tokens) == (1, 9, 4)
    assert meter.take() == []
    assert meter.tokens[("gpt2", "search")] == 14


def test_a_forgotten_model_loses_its_series_and_not_its_usage() -> None:
    meter = TokenMeter(FakeClock())
    meter.counted("gpt2", "search", "computed", 7, 0.5)
    meter.forget("gpt2")
    assert (meter.requests, meter.tokens, meter.live()["models"]) == ({}, {}, {})
    meter.know("gpt2")
    meter.counted("gpt2", "search", "computed", 5, 0.5)
    assert [each.tokens for each in meter.take()] == [7, 5]


def test_tenants_beyond_the_first_two_hundred_share_one_label() -> None:
    meter = TokenMeter(FakeClock())
    for number in range(MAX_TENANTS + 50):
        meter.counted("gpt2", f"t{number}", "computed", 1, 0.1)
    meter.counted("gpt2", "t0", "computed", 1, 0.1)
    assert (meter.tokens[("gpt2", "other")], meter.tokens[("gpt2", "t0")]) == (50, 2)
    assert len(meter.take()) == MAX_TENANTS + 1


def test_a_frame_holds_the_busiest_models_only_and_the_totals_of_all() -> None:
    meter = TokenMeter(FakeClock())
    for number in range(MAX_LIVE_MODELS + 10):
        for _ in range(1 if number < 10 else 2):
            meter.counted(f"m{number:02}", "default", "computed", 60, 0.1)
    live = meter.live()
    assert len(live["models"]) == MAX_LIVE_MODELS
    assert "m00" not in live["models"]
    assert live["tokens_s"] == 2 * MAX_LIVE_MODELS + 10
