"""`/metrics` as Prometheus reads it."""

from __future__ import annotations

import asyncio
import math
import subprocess
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from relay.telemetry.collector import FAMILIES
from relay.telemetry.gauges import RateLevel
from relay.telemetry.meters import SECOND, Meters
from relay.telemetry.metrics import metrics_handler, wants_openmetrics
from tests.relay_server import RelayServer
from tests.telemetry.helpers import FakeClock, StillEngine, gauges


def scrape(
    meters: Meters, engine: StillEngine, *, token: str | None = None, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": "/metrics",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    asyncio.run(metrics_handler(meters, engine, token)(scope, receive, send))  # type: ignore[arg-type, func-returns-value]
    head = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], head, b"".join(message["body"] for message in sent[1:]).decode()


def busy() -> tuple[Meters, StillEngine]:
    meters = Meters(FakeClock())
    pool = meters.pool("gpu")
    for waited in (0, SECOND // 2, 40 * SECOND):
        pool.arrived()
        pool.answered("search", "interactive", "granted", waited)
    pool.arrived()
    pool.answered("eval", "batch", "timeout", 2 * SECOND)
    pool.ended("released", 3 * SECOND)
    meters.tokens.counted("gpt2", "search", "cache", 7, 0.00002)
    pool.limited_by_rate()
    full = gauges(
        "gpu", capacity=3, in_use=5, waiting=2, tenants={"search": 5}, rates=(RateLevel("tokens", 60, 9, 4.5),)
    )
    engine = StillEngine(full, gauges("idle"))
    return meters, engine


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse_text(text)
        for sample in family.samples
    }


def test_every_metric_of_the_contract_is_there_with_its_type() -> None:
    _, _, text = scrape(*busy())
    kinds = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    assert kinds == {name: kind for name, kind, _ in FAMILIES}
    names = {line.split("{")[0] for line in text.splitlines() if not line.startswith("#")}
    for name, kind, _ in FAMILIES:
        assert (f"{name}_bucket" if kind == "histogram" else name) in names


def test_values_agree_with_the_meters() -> None:
    _, _, text = scrape(*busy())
    found = samples(text)

    def value(name: str, **labels: str) -> float:
        return found[(name, frozenset(labels.items()))]

    granted = {"pool": "gpu", "priority": "interactive", "outcome": "granted"}
    assert value("relay_acquire_requests_total", tenant="search", **granted) == 3
    assert value("relay_acquire_wait_seconds_bucket", le="0.5", **granted) == 2
    assert value("relay_acquire_wait_seconds_bucket", le="+Inf", **granted) == 3
    assert value("relay_acquire_wait_seconds_sum", **granted) == 40.5
    assert value("relay_leases_ended_total", pool="gpu", reason="released") == 1
    assert value("relay_pool_permits_in_use", pool="gpu") == 5
    assert value("relay_pool_state", pool="gpu", state="active") == 1
    assert value("relay_pool_qps", pool="gpu") == pytest.approx(4 / 60)
    assert value("relay_pool_rate_available", pool="gpu", kind="tokens") == 4.5
    assert value("relay_pool_rate_limited_total", pool="gpu") == 1
    assert value("relay_pool_rate_limited_total", pool="idle") == 0
    assert value("relay_tenant_permits_in_use", pool="gpu", tenant="search") == 5
    assert value("relay_tenant_permits_in_use", pool="gpu", tenant="eval") == 0
    assert value("relay_tokens_counted_total", model="gpt2", tenant="search") == 7
    assert value("relay_engine_up", engine="memory") == 1


def test_series_without_a_tenant_exist_from_zero() -> None:
    _, _, text = scrape(Meters(FakeClock()), StillEngine(gauges("idle")))
    found = samples(text)
    for priority in ("critical", "interactive", "batch", "background"):
        for outcome in ("granted", "timeout", "cancelled"):
            key = frozenset({"pool": "idle", "priority": priority, "outcome": outcome}.items())
            assert found[("relay_acquire_wait_seconds_count", key)] == 0
    for reason in ("released", "expired", "revoked", "dropped"):
        assert found[("relay_leases_ended_total", frozenset({("pool", "idle"), ("reason", reason)}))] == 0
    assert math.isnan(found[("relay_pool_average_wait_seconds", frozenset({("pool", "idle")}))])
    assert not any(name == "relay_acquire_requests_total" for name, _ in found)


def test_a_second_scrape_shows_what_came_between() -> None:
    meters, engine = busy()

    async def twice() -> list[str]:
        handler = metrics_handler(meters, engine, None)  # type: ignore[arg-type]
        texts = []
        for _ in range(2):
            body: list[bytes] = []

            async def send(message: dict[str, Any], body: list[bytes] = body) -> None:
                body.append(message.get("body", b""))

            await handler({"method": "GET", "path": "/metrics", "headers": []}, send, send)  # type: ignore[arg-type]
            texts.append(b"".join(body).decode())
            meters.pool("gpu").answered("search", "interactive", "granted", 0)
        return texts

    key = (
        "relay_acquire_wait_seconds_count",
        frozenset({("pool", "gpu"), ("priority", "interactive"), ("outcome", "granted")}),
    )
    assert [samples(text)[key] for text in asyncio.run(twice())] == [3, 4]


def test_openmetrics_is_given_to_who_asks_for_it() -> None:
    status, head, text = scrape(*busy(), accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.3")
    assert status == 200
    assert head["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name: family for family in parse_openmetrics(text)}
    assert families["relay_acquire_requests"].type == "counter"
    assert len(families) == len(FAMILIES)


def test_plain_text_is_the_default() -> None:
    _, head, text = scrape(*busy(), accept="*/*")
    assert head["content-type"].startswith("text/plain; version=0.0.4")
    assert "# EOF" not in text
    assert "_created" not in text


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (b"", False),
        (b"*/*", False),
        (b"application/openmetrics-text", True),
        (b"application/openmetrics-text;q=0.2,text/plain;q=0.9", False),
        (b"application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1", True),
        (b"application/openmetrics-text;q=much", False),
    ],
)
def test_accept_decides_by_quality(accept: bytes, openmetrics: bool) -> None:
    assert wants_openmetrics(accept) is openmetrics


def test_label_values_are_escaped() -> None:
    meters, engine = busy()
    meters.tokens.counted('org/"odd"\\name\n', "search", "computed", 1, 0.1)
    _, _, text = scrape(meters, engine)
    models = {dict(labels).get("model") for _, labels in samples(text)}
    assert 'org/"odd"\\name\n' in models


def test_holders_beyond_two_hundred_tenants_are_other_and_none_is_lost() -> None:
    meters = Meters(FakeClock())
    engine = StillEngine(gauges("gpu", capacity=500, in_use=250, tenants={f"t{n}": 1 for n in range(250)}))
    _, _, text = scrape(meters, engine)
    held = {
        dict(labels)["tenant"]: value
        for (name, labels), value in samples(text).items()
        if name == "relay_tenant_permits_in_use"
    }
    assert (len(held), held["other"], sum(held.values())) == (201, 50, 250)


def test_an_engine_that_is_down_is_said_and_nothing_else_breaks() -> None:
    meters, engine = busy()
    engine.up = False
    status, _, text = scrape(meters, engine)
    assert (status, samples(text)[("relay_engine_up", frozenset({("engine", "memory")}))]) == (200, 0)


@pytest.mark.parametrize("sent", ["", "Bearer wrong", "secret", "bearer secret"])
def test_a_metrics_token_is_asked_for_when_set(sent: str) -> None:
    assert scrape(*busy(), token="secret", authorization=sent)[0] == 401
    assert scrape(*busy(), token="secret", authorization="Bearer secret")[0] == 200


def test_only_get_is_allowed() -> None:
    status, head, _ = scrape(*busy(), method="POST")
    assert (status, head["allow"]) == (405, "GET")


def test_promtool_finds_nothing_to_mend(promtool: str) -> None:
    _, _, text = scrape(*busy())
    check(promtool, text)


def test_promtool_finds_nothing_to_mend_on_a_live_scrape(promtool: str, relay: RelayServer, pool_name: str) -> None:
    with relay.http() as api:
        api.post("/api/v1/pools", json={"name": pool_name, "capacity": 1}).raise_for_status()
        lease = api.post(f"/api/v1/pools/{pool_name}/acquire").json()["lease_id"]
        assert api.post(f"/api/v1/pools/{pool_name}/acquire", json={"timeout_s": 0}).status_code == 429
        api.post(f"/api/v1/leases/{lease}/release").raise_for_status()
        text = api.get("/metrics").text
    assert f'relay_acquire_requests_total{{pool="{pool_name}",tenant="default"' in text
    check(promtool, text)


def check(promtool: str, text: str) -> None:
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
