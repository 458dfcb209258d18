"""`/ws/live/` of a real server."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from bench.procs import cpu_us
from tests.conftest import NewRelay
from tests.dashboard.people import session_cookie
from tests.dashboard.scenes import make_pool
from tests.relay_server import RelayServer


def live(relay: RelayServer, cookie: str | None = None, origin: str | None = None) -> ClientConnection:
    headers = {"Cookie": cookie} if cookie else {}
    return connect(
        f"ws://127.0.0.1:{relay.port}/ws/live/",
        additional_headers=headers,
        origin=origin,
        proxy=None,  # type: ignore[arg-type]
    )


def frame(socket: ClientConnection) -> Any:
    return json.loads(socket.recv(timeout=5))


def close_code(socket: ClientConnection) -> int:
    with pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=5)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def test_hello_then_a_frame_a_second_without_a_hole(relay: RelayServer, pool_name: str) -> None:
    with relay.http() as api:
        assert api.post("/api/v1/pools", json={"name": pool_name, "capacity": 8}).status_code == 201
        assert api.post(f"/api/v1/pools/{pool_name}/acquire", json={"permits": 5}).status_code == 201
    with live(relay, session_cookie(relay), relay.url) as socket:
        hello = frame(socket)
        samples: list[Any] = []
        while len(samples) < 3:
            received = frame(socket)
            if received["type"] == "sample":
                samples.append(received)
    assert hello["type"] == "hello"
    assert hello["fields"][:5] == ["qps", "average_wait_s", "capacity", "in_use", "waiting"]
    assert [sample["seq"] - hello["seq"] for sample in samples] == [1, 2, 3]
    seconds = [datetime.fromisoformat(sample["at"]).timestamp() for sample in samples]
    assert seconds[0] < seconds[1] < seconds[2] < seconds[0] + 10
    values = dict(zip(hello["fields"], samples[0]["pools"][pool_name], strict=True))
    assert (values["capacity"], values["in_use"], values["window_grants"]) == (8, 5, 1)
    assert samples[0]["interval_s"] == 1


def test_fifty_open_pages_cost_the_server_a_few_thousandths_of_a_core(new_relay: NewRelay) -> None:
    """Case 17 in small: 500 pages may cost 5 % of a core (`python -m bench --only pages`), so 50 may cost 0.5 %, and the noise."""
    relay, seconds = new_relay(), 8.0
    for number in range(20):
        make_pool(relay, f"pool-{number}")
    cookie = session_cookie(relay)

    def spent() -> float:
        before = cpu_us(relay.pid)
        time.sleep(seconds)
        return (cpu_us(relay.pid) - before) / seconds / 1e6

    alone = spent()
    with ExitStack() as pages:
        sockets = [pages.enter_context(live(relay, cookie)) for _ in range(50)]
        shared = spent()
        for socket in sockets:  # each was served all the while
            frames = [frame(socket)["type"] for _ in range(5)]
            assert frames.count("sample") >= 4
    assert shared - alone <= 0.015


def test_a_change_of_configuration_is_sent_at_once(relay: RelayServer, pool_name: str) -> None:
    with live(relay, session_cookie(relay), relay.url) as socket, relay.http() as api:
        assert frame(socket)["type"] == "hello"
        api.post("/api/v1/pools", json={"name": pool_name, "capacity": 8})
        received = frame(socket)
        while received["type"] != "change":
            received = frame(socket)
        assert pool_name in received.values()


def test_who_is_not_logged_in_is_told_so(relay: RelayServer) -> None:
    with live(relay, origin=relay.url) as socket:
        assert close_code(socket) == 4401


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "null"])
def test_a_foreign_page_gets_nothing(relay: RelayServer, origin: str) -> None:
    with live(relay, session_cookie(relay), origin) as socket:
        assert close_code(socket) == 4403


def test_the_page_the_api_and_the_metrics_agree(relay: RelayServer, pool_name: str) -> None:
    with relay.http() as api, live(relay, session_cookie(relay), relay.url) as socket:
        api.post("/api/v1/pools", json={"name": pool_name, "capacity": 10})
        api.post(f"/api/v1/pools/{pool_name}/acquire", json={"permits": 8})
        api.patch(f"/api/v1/pools/{pool_name}", json={"capacity": 3})
        fields = frame(socket)["fields"]
        received = frame(socket)
        while received["type"] != "sample" or received["pools"].get(pool_name, [0] * 4)[fields.index("capacity")] != 3:
            received = frame(socket)
        shown = dict(zip(fields, received["pools"][pool_name], strict=True))
        pool = api.get(f"/api/v1/pools/{pool_name}").json()
        metrics = api.get("/metrics").text
    assert (shown["in_use"], shown["over_limit"]) == (pool["in_use"], pool["over_limit"]) == (8, 5)
    assert (pool["available"], pool["health"]) == (0, "shrinking")
    assert f'relay_pool_permits_in_use{{pool="{pool_name}"}} 8\n' in metrics
    assert f'relay_pool_drift{{pool="{pool_name}"}} 0\n' in metrics
