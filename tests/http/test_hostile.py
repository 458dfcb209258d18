"""Hostile and broken callers: the server answers or hangs up, never fails, and no pool is touched by it."""

from __future__ import annotations

import random
import re
import socket
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.http.wire import HOST, Call, exchange, gauge, granted, head, problem, state, until, waiting
from tests.relay_server import RelayServer

JSON = ("Content-Type: application/json",)
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@pytest.fixture(autouse=True)
def _no_failure_is_logged(relay: RelayServer) -> Iterator[None]:
    """Whatever is sent here, the server itself does not fail."""
    begin = len(relay.log())
    yield
    logged = relay.log()[begin:]
    assert "Exception in ASGI application" not in logged
    assert not re.search(r"ERROR +(relay|asyncio|django\.request)", logged), logged


def statuses(received: bytes) -> list[int]:
    """The status codes in what a connection received."""
    return [int(code) for code in STATUS.findall(received)]


def refused(received: bytes) -> bool:
    """Whether nothing was done: hung up, or answered with 4xx only."""
    return all(400 <= status < 500 for status in statuses(received))


def post(relay: RelayServer, pool: str, body: bytes = b"{}", *lines: str) -> bytes:
    """A raw acquire."""
    return head(relay, "POST", f"{pool}/acquire", *JSON, f"Content-Length: {len(body)}", *lines) + body


def test_random_bytes_are_refused(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    chance = random.Random(1)
    before = state(admin, pool)
    for _ in range(40):
        assert refused(exchange(relay, chance.randbytes(chance.randrange(1, 3000)) + b"\r\n\r\n", timeout_s=0.05))
    assert state(admin, pool) == before


def test_a_request_with_broken_bytes_in_it_takes_nothing_that_its_sender_did_not_ask_for(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    chance = random.Random(2)
    admin.patch(pool, json={"capacity": 1000}).raise_for_status()
    whole = post(relay, pool, b'{"permits": 1, "timeout_s": 0}')
    took = 0
    for _ in range(60):
        broken = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        received = exchange(relay, bytes(broken), timeout_s=0.05, wait_for=b"}")
        assert all(status < 500 for status in statuses(received)), received
        took += statuses(received).count(201)
    leases = admin.get(f"{pool}/leases?limit=500").json()["items"]
    assert len(leases) == took
    assert state(admin, pool)["in_use"] == sum(lease["permits"] for lease in leases)


@pytest.mark.parametrize("cut", [1, 20, 100, -1])
def test_half_a_request_takes_nothing(relay: RelayServer, admin: httpx.Client, pool: str, cut: int) -> None:
    with socket.create_connection((HOST, relay.port)) as connection:
        connection.sendall(post(relay, pool, b'{"permits": 2}')[:cut])
        time.sleep(0.05)
        assert granted(admin.post(f"{pool}/acquire", json={"permits": 2, "timeout_s": 0}))  # nobody else is held up
    time.sleep(0.05)
    assert (state(admin, pool)["in_use"], waiting(admin, pool)) == (2, 0)


def test_a_body_that_comes_byte_by_byte_is_read(relay: RelayServer, pool: str) -> None:
    with socket.create_connection((HOST, relay.port), timeout=5) as connection:
        for byte in post(relay, pool, b'{"permits": 2}'):
            connection.sendall(bytes([byte]))
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")


def test_a_caller_that_expects_100_continue_is_told_to_go_on(relay: RelayServer, pool: str) -> None:
    body = b'{"permits": 2}'
    start = head(relay, "POST", f"{pool}/acquire", *JSON, f"Content-Length: {len(body)}", "Expect: 100-continue")
    with socket.create_connection((HOST, relay.port), timeout=5) as connection:
        connection.sendall(start)
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")


def test_pipelined_requests_are_answered_in_their_order(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    bodies = (b'{"permits": 2}', b'{"permits": 1, "timeout_s": 0.2}', b"{", b'{"permits": 3}', b'{"timeout_s": 0}')
    received = exchange(relay, b"".join(post(relay, pool, body) for body in bodies), timeout_s=1)
    assert statuses(received) == [201, 429, 400, 400, 429]
    assert (state(admin, pool)["in_use"], waiting(admin, pool)) == (2, 0)


def test_a_grant_to_a_connection_that_was_lost_with_requests_pipelined_on_it_goes_back(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    lease = granted(admin.post(f"{pool}/acquire", json={"permits": 2}))
    with socket.create_connection((HOST, relay.port)) as connection:
        connection.sendall(post(relay, pool) * 3)
        until(lambda: waiting(admin, pool) == 1)
    admin.post(f"/api/v1/leases/{lease['lease_id']}/release").raise_for_status()
    until(lambda: (state(admin, pool)["in_use"], waiting(admin, pool)) == (0, 0), timeout_s=2)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/pools/other/../{name}/acquire",
        "/api/v1/pools/./{name}/acquire",
        "/api/v1/pools/other%2f..%2f{name}/acquire",
        "/api/v1/pools/%2e%2e/pools/{name}/acquire",
        "//api/v1/pools/{name}/acquire",
        "/api/v1//pools/{name}/acquire",
        "/api/v1/pools//{name}/acquire",
        "/api/v1/pools/{name}//acquire",
        "/api/v1/pools/{name}/acquire%2F",
        "/api/v1/pools/{name}%252Facquire",
        "/api/v1/pools/{name}/acquire;a=b",
        "/api/v1/pools/{name}/acquire%00",
        "/api/v1/pools/{name}%00/acquire",
        "/api/v1/pools/{name}%20/acquire",
        "/api/v1/pools/{name}%0d%0aX:y/acquire",
        "/api/v1/pools/%ff{name}/acquire",
        "/api/v1/pools/*/acquire",
        "/api/v1/pools//acquire",
        "/API/v1/pools/{name}/acquire",
        "/api/v2/pools/{name}/acquire",
        "/api/v1\\pools\\{name}\\acquire",
        "/api/v1/pools/{name}/ACQUIRE",
        "/api/v1/pools/{name}/acquire/../acquire",
        "/static/../api/v1/pools/{name}/acquire",
    ],
)
def test_no_trick_with_the_path_reaches_a_pool(relay: RelayServer, admin: httpx.Client, pool: str, path: str) -> None:
    raw = path.format(name=pool.rsplit("/", 1)[1])
    received = exchange(relay, head(relay, "POST", raw, "Content-Length: 0", "Connection: close"))
    assert statuses(received), received
    assert refused(received), received
    assert state(admin, pool)["in_use"] == 0


@pytest.mark.parametrize("length", [300, 5000, 60_000])
def test_a_very_long_name_is_refused_in_few_words(
    relay: RelayServer, admin: httpx.Client, pool: str, length: int
) -> None:
    name = "p" * length
    answer = admin.post(f"/api/v1/pools/{name}/acquire")
    assert 400 <= answer.status_code < 500
    assert len(answer.content) < 1000
    problem(admin.post(f"{pool}/acquire", json={"priority": name}), 400, "invalid", "priority")
    assert len(admin.post(f"{pool}/acquire", json={"priority": name}).content) < 1000
    assert len(admin.post(f"{pool}/acquire", json={name: 1}).content) < 1000 + 4 * min(length, 300)


@pytest.mark.parametrize(("number", "size"), [(2000, 10), (100, 10_000), (1, 500_000)])
def test_a_flood_of_headers_is_answered_or_refused(
    relay: RelayServer, admin: httpx.Client, pool: str, number: int, size: int
) -> None:
    flood = [f"X-Flood-{n}: {'f' * size}" for n in range(number)]
    received = exchange(relay, post(relay, pool, b'{"permits": 2}', *flood), wait_for=b"}", timeout_s=3)
    assert all(status < 500 for status in statuses(received))
    assert state(admin, pool)["in_use"] == 2 * statuses(received).count(201)


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 2", "Content-Length: 200"),
        ("Content-Length: 2", "Transfer-Encoding: chunked"),
        ("Content-Length: -1",),
        ("Content-Length: two",),
        ("Content-Length: 99999999999999999999999",),
        ("Transfer-Encoding: gzip",),
    ],
    ids=lambda lines: " ".join(lines),
)
def test_a_request_whose_end_is_in_doubt_is_refused(
    relay: RelayServer, admin: httpx.Client, pool: str, lines: tuple[str, ...]
) -> None:
    smuggled = post(relay, pool, b'{"permits": 1}')
    received = exchange(relay, head(relay, "POST", f"{pool}/acquire", *JSON, *lines) + b"{}" + smuggled, timeout_s=0.5)
    assert refused(received), received
    assert state(admin, pool)["in_use"] == 0


def test_a_websocket_at_an_address_of_the_api_is_refused(relay: RelayServer, admin: httpx.Client, pool: str) -> None:
    lines = (
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    for path in (f"{pool}/acquire", "/ws/none/", "/"):
        received = exchange(relay, head(relay, "GET", path, *lines), timeout_s=1, wait_for=b"\r\n\r\n")
        assert refused(received), received
    assert state(admin, pool)["in_use"] == 0


def test_after_a_storm_of_bad_requests_the_pool_is_as_it_was(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    chance = random.Random(3)
    lease = granted(admin.post(f"{pool}/acquire", json={"holder": "kept", "permits": 1}))
    full = granted(admin.post(f"{pool}/acquire", json={"holder": "full", "permits": 1}))
    waiter = Call(relay, f"{pool}/acquire", {"holder": "waits"})
    until(lambda: waiting(admin, pool) == 1)
    before = state(admin, pool)
    bodies = ["{", "[]", '{"permits": 0}', '{"permits": "1"}', '{"ttl_s": -1}', '{"a": 1}', '{"permits": 7}']
    bodies += ['{"timeout_s": 0}', '{"priority": "x"}', '{"metadata": 1}', '{"holder": null}']
    for number in range(300):
        if number % 10 == 0:
            Call(relay, f"{pool}/acquire", {"timeout_s": 20}).leave()
        end = chance.choice(["/acquire", "/acquire", "/acquire/", "/nothing"])
        headers = {"Content-Type": chance.choice(["application/json", "application/json", "text/plain"])}
        answer = admin.post(f"{pool}{end}", content=chance.choice(bodies), headers=headers)
        problem(answer, answer.status_code, answer.json()["code"])
        assert 400 <= answer.status_code < 500
    until(lambda: waiting(admin, pool) == 1, timeout_s=1)
    assert state(admin, pool) == before
    metrics = relay_metrics(admin)
    name = pool.rsplit("/", 1)[1]
    assert gauge(metrics, "relay_pool_drift", pool=name) == 0
    assert gauge(metrics, "relay_pool_permits_in_use", pool=name) == 2
    admin.post(f"/api/v1/leases/{lease['lease_id']}/release").raise_for_status()
    assert granted(waiter.answer())["holder"] == "waits"
    assert granted(admin.get(f"/api/v1/leases/{full['lease_id']}"), 200)["holder"] == "full"


def relay_metrics(admin: httpx.Client) -> str:
    """The text of /metrics."""
    answer = admin.get("/metrics")
    assert answer.status_code == 200
    return answer.text
