"""The programs themselves against real servers: a short load, the echo, and the demo from start to end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from bench import handoff, loadgen
from bench.flows import FlowSpec
from bench.loadgen import Load
from bench.parker import Park, Parked
from bench.procs import ROOT, EchoServer, cpu_us, rss_bytes
from bench.rest import Rest, acquire, make_pool, wait_for_waiting
from bench.traffic import POOLS
from tests.conftest import NewRelay
from tests.relay_server import RelayServer


def test_a_short_load_is_answered_and_leaves_nothing_behind(relay: RelayServer, pool_name: str) -> None:
    with Rest(relay.url, relay.api_key) as rest:
        make_pool(rest, pool_name, 2)
        flow = FlowSpec("pair", relay.api_key, pool_name)
        result = loadgen.run(Load(relay.port, flow, connections=8, seconds=0.5, warmup_s=0.1, pid=relay.pid))
        assert set(result.statuses) == {"200", "201"}
        assert result.waited_share > 0.5
        assert result.server_us > 0
        pool = rest.call("GET", f"/api/v1/pools/{pool_name}")
        assert (pool["in_use"], pool["waiting"]) == (0, 0)


def test_parked_acquires_wait_until_the_block_is_left(relay: RelayServer, pool_name: str) -> None:
    with Rest(relay.url, relay.api_key) as rest:
        make_pool(rest, pool_name, 1)
        acquire(rest, pool_name)
        with Parked(Park(relay.port, pool_name, relay.api_key, 50)) as parked:
            wait_for_waiting(rest, pool_name, 50)
        wait_for_waiting(rest, pool_name, 0, most=True)
        assert parked.answered == {}
        rest.call("DELETE", f"/api/v1/pools/{pool_name}?force=true")


def test_a_hand_over_is_measured_beside_the_echo(relay: RelayServer, pool_name: str) -> None:
    with Rest(relay.url, relay.api_key) as rest:
        make_pool(rest, pool_name, 1)
    with EchoServer() as echo:
        spec = handoff.Handoff(relay.port, echo.port, relay.api_key, pool_name, samples=10)
        times = handoff.run(spec)
        assert cpu_us(echo.pid) > 0
        assert rss_bytes(echo.pid) > 1_000_000
    assert times.waited_share == 1.0
    assert 0 < times.echo_ms["p50"] < 1000
    assert 0 < times.handoff_ms["p50"] < 1000


@pytest.mark.timeout(60)
def test_the_demo_fills_its_pools_and_gives_everything_back(new_relay: NewRelay) -> None:
    relay = new_relay()
    environment = {**os.environ, "RELAY_URL": relay.url, "RELAY_API_KEY": relay.api_key}
    command = [sys.executable, "-m", "bench.demo", "--seconds", "2.5"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert " granted/s " in done.stdout
    with Rest(relay.url, relay.api_key) as rest:
        pools = rest.call("GET", "/api/v1/pools")["items"]
        assert {pool["name"]: (pool["in_use"], pool["waiting"]) for pool in pools} == {
            plan.name: (0, 0) for plan in POOLS
        }
        assert all(pool["qps"] > 0 for pool in pools)
        assert rest.call("GET", "/api/v1/tenants/search/keys")["items"] == []


def test_the_demo_says_what_to_do_when_no_relay_answers() -> None:
    environment = {**os.environ, "RELAY_URL": "http://127.0.0.1:9", "RELAY_API_KEY": "none"}
    command = [sys.executable, "-m", "bench.demo", "--seconds", "1"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "No relay answers at http://127.0.0.1:9" in done.stderr
    assert "make run" in done.stderr
