"""Requests and tokens a minute beside the permits, over HTTP: stating, counting, waiting, settling, showing."""

from __future__ import annotations

import time
from typing import Any

import httpx
import pytest

from tests.http.wire import Call, gauge, granted, items, problem, until, waiting
from tests.relay_server import RelayServer

TEXT = "The quick brown fox jumps over the lazy dog."


def rate(admin: httpx.Client, pool: str, **fields: Any) -> dict[str, Any]:
    """Sets a pool's rates; the pool."""
    answer = admin.patch(pool, json=fields)
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def tokens_left(admin: httpx.Client, pool: str) -> float:
    """What the pool's rate of tokens would let through now."""
    return float(admin.get(pool).json()["rates"]["tokens"]["available"])


def test_a_pool_shows_its_rates_and_a_burst_is_a_tenth_by_default(admin: httpx.Client, pool: str) -> None:
    assert admin.get(pool).json()["rates"] == {}
    shown = rate(admin, pool, requests_per_minute=5, tokens_per_minute=1000)
    assert (shown["requests_burst"], shown["tokens_burst"]) == (None, None)
    assert shown["rates"] == {
        "requests": {"per_minute": 5, "burst": 1, "available": 1.0},
        "tokens": {"per_minute": 1000, "burst": 100, "available": 100.0},
    }
    assert rate(admin, pool, requests_per_minute=None, tokens_burst=7)["rates"] == {
        "tokens": {"per_minute": 1000, "burst": 7, "available": 7.0}
    }


def test_a_try_past_the_rate_is_told_when_to_come_back_and_gets_it_then(admin: httpx.Client, pool: str) -> None:
    rate(admin, pool, requests_per_minute=120, requests_burst=1)
    granted(admin.post(f"{pool}/acquire"))
    document = problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0}), 429, "rate-limited", retry=True)
    assert 0.2 < document["retry_after_s"] <= 0.5
    time.sleep(document["retry_after_s"] + 0.01)
    granted(admin.post(f"{pool}/acquire", json={"timeout_s": 0}))


def test_a_waiter_is_woken_when_the_bucket_refills(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    rate(admin, pool, tokens_per_minute=6000, tokens_burst=100)
    granted(admin.post(f"{pool}/acquire", json={"tokens": 100}))
    lease = granted(Call(relay, f"{pool}/acquire", {"tokens": 50, "timeout_s": 10}).answer())
    assert 0.4 < lease["waited_s"] < 1.5
    assert lease["tokens"] == 50


def test_a_wait_that_a_rate_made_vain_says_so(admin: httpx.Client, pool: str) -> None:
    rate(admin, pool, tokens_per_minute=60, tokens_burst=100)
    granted(admin.post(f"{pool}/acquire", json={"tokens": 100}))
    answer = admin.post(f"{pool}/acquire", json={"tokens": 90, "timeout_s": 0.1})
    document = problem(answer, 429, "acquire-timeout", retry=True)
    assert "rate" in document["detail"]
    assert document["retry_after_s"] > 80
    name = pool.rpartition("/")[2]
    metrics = admin.get("/metrics").text
    assert gauge(metrics, "relay_pool_rate_limited_total", pool=name) == 1
    assert 0 <= gauge(metrics, "relay_pool_rate_available", pool=name, kind="tokens") < 5
    assert gauge(metrics, "relay_acquire_requests_total", pool=name, outcome="timeout") == 1


def test_a_text_is_counted_exactly_before_the_ask(admin: httpx.Client, pool: str) -> None:
    rate(admin, pool, tokens_per_minute=60, tokens_burst=100)
    count = admin.post("/api/v1/tokens/count", json={"model": "gpt2", "text": TEXT}).json()["count"]
    lease = granted(admin.post(f"{pool}/acquire", json={"model": "gpt2", "text": TEXT}))
    assert lease["tokens"] == count
    assert tokens_left(admin, pool) == pytest.approx(100 - count, abs=1)
    long = {"model": "gpt2", "text": TEXT * 20}
    problem(admin.post(f"{pool}/acquire", json=long), 400, "invalid", "tokens", retry=False)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tokens": -1}, "tokens"),
        ({"tokens": 1.5}, "tokens"),
        ({"tokens": "5"}, "tokens"),
        ({"tokens": True}, "tokens"),
        ({"tokens": None}, "tokens"),
        ({"tokens": 1_000_000_001}, "tokens"),
        ({"tokens": 5, "model": "gpt2", "text": "x"}, "tokens"),
        ({"tokens": 0, "text": "x"}, "tokens"),
        ({"text": "x"}, "model"),
        ({"model": "gpt2"}, "text"),
        ({"model": "gpt2", "text": 7}, "text"),
    ],
)
def test_a_wrong_acquire_is_named(admin: httpx.Client, pool: str, body: dict[str, Any], field: str) -> None:
    problem(admin.post(f"{pool}/acquire", json=body), 400, "invalid", field, retry=False)
    assert admin.get(pool).json()["in_use"] == 0


def test_the_counts_own_errors_pass_through(admin: httpx.Client, pool: str) -> None:
    problem(admin.post(f"{pool}/acquire", json={"model": "nobody/nothing", "text": "x"}), 404, "model-not-found")
    large = {"model": "gpt2", "text": "x" * (2 * 1024 * 1024)}
    problem(admin.post(f"{pool}/acquire", json=large), 413, "body-too-large", retry=False)
    assert admin.get(pool).json()["in_use"] == 0


def test_a_release_settles_the_true_number(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    rate(admin, pool, tokens_per_minute=60, tokens_burst=1000)
    lease = granted(admin.post(f"{pool}/acquire", json={"tokens": 1000}))
    waiter = Call(relay, f"{pool}/acquire", {"tokens": 500, "timeout_s": 10})
    until(lambda: waiting(admin, pool) == 1)
    path = f"/api/v1/leases/{lease['lease_id']}/release"
    problem(admin.post(path, json={"tokens": -1}), 400, "invalid", "tokens")
    assert admin.post(path, json={"tokens": 300, "outcome": "ok"}).json()["released"]
    second = granted(waiter.answer())
    assert tokens_left(admin, pool) == pytest.approx(200, abs=2)
    admin.post(f"/api/v1/leases/{second['lease_id']}/release", json={"tokens": 900})
    assert tokens_left(admin, pool) == pytest.approx(-200, abs=3)
    assert admin.post(path, json={"tokens": 0}).json() == {"released": False, "reason": "already-released"}
    assert tokens_left(admin, pool) == pytest.approx(-200, abs=4)


def test_the_list_explains_the_first_waiters_wait(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    rate(admin, pool, tokens_per_minute=60, tokens_burst=100)
    granted(admin.post(f"{pool}/acquire", json={"tokens": 100}))
    calls = [Call(relay, f"{pool}/acquire", {"tokens": 60}) for _ in range(2)]
    until(lambda: waiting(admin, pool) == 2)
    first, second = items(admin, f"{pool}/waiters")
    assert (first["blocked_by"], second["blocked_by"], second["ready_at"]) == ("rate", None, None)
    assert 55 < first["estimated_wait_s"] <= 60
    assert 115 < second["estimated_wait_s"] <= 120
    assert first["ready_at"].endswith("Z")
    rate(admin, pool, tokens_per_minute=None)  # live: a permit is free, so the first is served
    granted(calls[0].answer())
    calls[1].leave()


def test_a_smaller_burst_ends_who_can_never_be_let_through(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    rate(admin, pool, tokens_per_minute=60, tokens_burst=100)
    granted(admin.post(f"{pool}/acquire", json={"tokens": 100}))
    waiter = Call(relay, f"{pool}/acquire", {"tokens": 60})
    until(lambda: waiting(admin, pool) == 1)
    rate(admin, pool, tokens_burst=50)
    problem(waiter.answer(), 400, "invalid", "tokens", retry=False)


def test_a_pool_that_only_a_rate_holds_up_is_not_grown(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    policy = {"policy": {"kind": "load", "max_wait_s": 0.2}, "minimum": 2, "maximum": 50, "cooldown_s": 0}
    assert admin.put(f"{pool}/sizing", json=policy).status_code == 200
    rate(admin, pool, requests_per_minute=20, requests_burst=1)
    granted(admin.post(f"{pool}/acquire"))
    lease = granted(Call(relay, f"{pool}/acquire", {"timeout_s": 10}).answer())
    assert lease["waited_s"] > 2
    assert admin.get(pool).json()["capacity"] == 2
