"""Usage by the hour: added up, priced, pruned, read by those who may."""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from relay.telemetry.token_meter import CORE_HOUR_USD, TokenMeter, Used
from relay.tokens.models import UsageHour
from relay.tokens.usage import KEPT, UsageLog, add, hour_of, prune, totals
from tests.conftest import NewRelay
from tests.control.cast import Cast, make_cast, refused
from tests.postgres_server import PostgresServer
from tests.relay_server import ROOT, environment

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def used(
    model: str = "gpt2", tenant: str = "search", *, tokens: int = 100, reused: int = 0, saved_s: float = 0
) -> Used:
    return Used(model, tenant, 1, tokens, reused, 0.5, saved_s)


def no_price(model: str) -> float | None:
    return None


@pytest.fixture
def cast(db: None) -> Cast:
    return make_cast()


@pytest.mark.django_db
def test_adding_twice_adds_up_in_one_row() -> None:
    add(NOON, [used(tokens=100, reused=40, saved_s=2), used("llama")], no_price)
    add(NOON, [used(tokens=11)], no_price)
    row = UsageHour.objects.get(model="gpt2")
    assert (row.hour, row.tenant, row.requests, row.tokens, row.reused_tokens) == (NOON, "search", 2, 111, 40)
    assert (row.spent_s, row.saved_s, row.cost_usd) == (1.0, 2.0, None)
    assert UsageHour.objects.count() == 2


@pytest.mark.django_db
def test_cost_is_at_the_price_of_the_moment() -> None:
    add(NOON, [used(tokens=1_000_000)], {"gpt2": 2.5}.get)
    add(NOON, [used(tokens=1_000_000)], {"gpt2": 4.0}.get)
    add(NOON, [used(tokens=1_000_000)], no_price)
    assert UsageHour.objects.get().cost_usd == pytest.approx(6.5)


@pytest.mark.django_db
def test_without_a_price_there_is_no_cost_and_the_sum_says_how_much_is_missing() -> None:
    add(NOON, [used("gpt2", tokens=1_000_000), used("own", tokens=300)], {"gpt2": 2.0}.get)
    gpt2, own = totals(NOON)
    assert (gpt2.model, gpt2.cost_usd, gpt2.unpriced_tokens) == ("gpt2", 2.0, 0)
    assert (own.model, own.cost_usd, own.unpriced_tokens) == ("own", None, 300)
    (every,) = totals(NOON, by=("tenant",))
    assert (every.tokens, every.cost_usd, every.unpriced_tokens) == (1_000_300, 2.0, 300)


@pytest.mark.django_db
def test_sums_by_any_of_hour_model_and_tenant() -> None:
    add(NOON - timedelta(hours=2), [used(tokens=1)], no_price)
    add(NOON, [used(tokens=10), used(tenant="eval", tokens=20)], no_price)
    add(NOON + timedelta(hours=1), [used(tokens=40, saved_s=3600)], no_price)
    since = NOON + timedelta(minutes=59)
    assert [(row.tenant, row.tokens) for row in totals(since, by=("tenant",))] == [("eval", 20), ("search", 50)]
    assert [(row.hour, row.tokens) for row in totals(since, by=("hour",))] == [
        (NOON, 30),
        (NOON + timedelta(hours=1), 40),
    ]
    assert [row.tokens for row in totals(since, by=("model", "tenant"), tenant="search")] == [50]
    assert [row.tokens for row in totals(since, by=("hour", "tenant"), offset=1, limit=1)] == [10]
    (every,) = totals(since, by=())
    assert (every.tokens, every.saved_usd) == (70, CORE_HOUR_USD)


@pytest.mark.django_db
def test_nothing_used_is_a_sum_of_nothing() -> None:
    (every,) = totals(NOON, by=())
    assert (every.requests, every.tokens, every.saved_s, every.cost_usd) == (0, 0, 0.0, None)
    assert totals(NOON) == []


@pytest.mark.django_db
def test_what_is_older_than_it_is_kept_goes() -> None:
    now = NOON + timedelta(minutes=30)
    for days in (0, 399, 401):
        add(hour_of(now - timedelta(days=days)), [used()], no_price)
    prune(now)
    assert UsageHour.objects.count() == 2
    log = UsageLog(TokenMeter(lambda: 0), no_price)
    log.store(NOON + KEPT)
    assert UsageHour.objects.count() == 1


@pytest.mark.django_db
def test_a_log_writes_what_a_meter_counted_once() -> None:
    meter = TokenMeter(lambda: 0)
    log = UsageLog(meter, no_price)
    for minutes in (1, 2, 61):
        meter.counted("gpt2", "search", "computed", 7, 0.1)
        log.collect(NOON + timedelta(minutes=minutes))
    log.store(NOON)
    log.store(NOON)
    assert [row.tokens for row in totals(NOON, by=("hour",))] == [14, 7]


@pytest.mark.django_db
def test_what_the_database_refused_is_written_later() -> None:
    meter = TokenMeter(lambda: 0)
    log = UsageLog(meter, no_price)
    meter.counted("gpt2", "search", "computed", 7, 0.1)
    log.collect(NOON)

    def refuse(*args: Any) -> None:
        raise DatabaseError("the disk is full")

    with connection.execute_wrapper(refuse), pytest.raises(DatabaseError):
        log.store(NOON)
    meter.counted("gpt2", "search", "computed", 5, 0.1)
    log.collect(NOON)
    log.store(NOON)
    assert [row.tokens for row in totals(NOON)] == [12]


def test_readers_see_their_own_tenant_and_operators_all(cast: Cast) -> None:
    add(hour_of(timezone.now()), [used(), used(tenant="billing", tokens=5)], no_price)
    own = cast.reader("GET", "/tokens/usage?by=tenant").json()
    assert [(row["tenant"], row["tokens"]) for row in own["items"]] == [("search", 100)]
    assert cast.reader("GET", "/tokens/usage?by=tenant&tenant=billing").json()["items"] == []
    every = cast.operator("GET", "/tokens/usage?by=tenant,model&range=1h").json()
    assert [(row["tenant"], row["model"], row["tokens"]) for row in every["items"]] == [
        ("billing", "gpt2", 5),
        ("search", "gpt2", 100),
    ]
    assert every["core_hour_usd"] == CORE_HOUR_USD
    assert [row["tokens"] for row in cast.operator("GET", "/tokens/usage?tenant=billing").json()["items"]] == [5]
    refused(cast.permits("GET", "/tokens/usage"), 403, "forbidden")
    refused(cast.nobody("GET", "/tokens/usage"), 401, "unauthenticated")


def test_sums_come_in_pages_with_the_hour_in_utc(cast: Cast) -> None:
    hour = hour_of(timezone.now())
    add(hour, [used(f"m{number}", tokens=number) for number in range(3)], no_price)
    first = cast.operator("GET", "/tokens/usage?by=hour,model&limit=2").json()
    assert [row["model"] for row in first["items"]] == ["m0", "m1"]
    assert {row["hour"] for row in first["items"]} == {f"{hour:%Y-%m-%dT%H}:00:00Z"}
    second = cast.operator("GET", f"/tokens/usage?by=hour,model&limit=2&cursor={first['next']}").json()
    assert ([row["model"] for row in second["items"]], second["next"]) == (["m2"], None)
    whole = cast.operator("GET", "/tokens/usage?by=").json()
    assert [row["tokens"] for row in whole["items"]] == [3]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("by=person", "by"),
        ("by=model,model", "by"),
        ("by=model,", "by"),
        ("range=1w", "range"),
        ("range=999d", "range"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(cast: Cast, query: str, field: str) -> None:
    refused(cast.operator("GET", f"/tokens/usage?{query}"), 400, "invalid", field)


def test_a_running_server_keeps_usage_over_a_restart_and_shows_it(new_relay: NewRelay) -> None:
    relay = new_relay()
    count = {"model": "gpt2", "text": "hello hello " * 10}
    with relay.http() as api:
        tokens = [api.post("/api/v1/tokens/count", json=count).json()["count"] for _ in range(3)]
        metrics = api.get("/metrics").text
    characters = dict(re.findall(r'relay_token_reused_characters_total{model="gpt2",level="(\w+)"} (\d+)', metrics))
    assert set(characters) == {"text", "segment", "shared", "computed"}
    assert re.search(r'^relay_token_time_saved_seconds_total{model="gpt2"} [0-9.e-]+$', metrics, re.M)
    relay.restart()  # stopping writes what has not been written
    with relay.http() as api:
        (kept,) = api.get("/api/v1/tokens/usage?by=model,tenant").json()["items"]
        assert (kept["model"], kept["tenant"]) == ("gpt2", "default")
        assert (kept["requests"], kept["tokens"], kept["reused_tokens"]) == (3, sum(tokens), sum(tokens[1:]))
        api.post("/api/v1/tokens/count", json=count)
        deadline = time.monotonic() + 20
        while api.get("/api/v1/tokens/usage?by=").json()["items"][0]["requests"] < 4:
            assert time.monotonic() < deadline, "what was counted is not written by itself"
            time.sleep(0.2)


def test_two_servers_on_one_postgresql_add_up_in_one_row(
    new_relay: NewRelay, postgres: PostgresServer, tmp_path: Path
) -> None:
    shared = {"RELAY_DATABASE_URL": postgres.new_database(), "RELAY_SECRET_KEY": secrets.token_hex(32)}
    migrate = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
    subprocess.run(migrate, env=environment(tmp_path / "data", shared), check=True, timeout=60)
    one = new_relay(env=shared)
    two = new_relay(env=shared)
    for relay in (one, two):
        with relay.http(one.api_key) as api:
            api.post("/api/v1/tokens/count", json={"model": "gpt2", "text": "hello"}).raise_for_status()
    two.stop()
    one.stop()
    with psycopg.connect(shared["RELAY_DATABASE_URL"]) as database:
        rows = database.execute("SELECT model, tenant, requests, tokens FROM tokens_usagehour").fetchall()
    assert rows == [("gpt2", "default", 2, 2)]
