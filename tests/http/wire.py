"""Callers of the tests of the data plane: requests whose answers are read later, raw bytes, and what an error must be."""

from __future__ import annotations

import http.client
import json
import math
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from tests.relay_server import RelayServer

HOST = "127.0.0.1"


class Call:
    """A POST on a connection of its own, sent at once; `answer()` waits for what comes back, `leave()` hangs up."""

    def __init__(
        self,
        server: RelayServer,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 20.0,
    ) -> None:
        self._connection = http.client.HTTPConnection(HOST, server.port, timeout=timeout_s)
        sent = {"Authorization": f"Bearer {server.api_key if key is None else key}", **(headers or {})}
        data = b"" if body is None else json.dumps(body).encode()
        if data:
            sent["Content-Type"] = "application/json"
        self._connection.request("POST", path, data, sent)

    def answer(self) -> httpx.Response:
        """The answer. Raises TimeoutError if none comes."""
        with self._connection.getresponse() as response:
            answer = httpx.Response(response.status, headers=response.getheaders(), content=response.read())
        self._connection.close()
        return answer

    def leave(self) -> None:
        """Closes the connection without having read anything."""
        self._connection.close()


def problem(
    answer: httpx.Response, status: int, code: str, field: str | None = None, *, retry: bool | None = None
) -> dict[str, Any]:
    """Asserts that an answer is this problem, whole and well-formed; `retry`: whether it must say when to come back."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert (document["status"], document["code"]) == (status, code), document
    assert document["type"].endswith(code)
    assert document["title"]
    assert document["detail"]
    if field is not None:
        assert field in document["errors"], document
        assert all(document["errors"][field])
    if retry is not None:
        assert ("retry-after" in answer.headers) == retry, dict(answer.headers)
    if "retry-after" in answer.headers:
        seconds = answer.headers["retry-after"]
        assert seconds.isdigit()
        assert int(seconds) == max(1, math.ceil(document["retry_after_s"]))
    else:
        assert "retry_after_s" not in document
    return document


def granted(answer: httpx.Response, status: int = 201) -> dict[str, Any]:
    """Asserts that an answer is a lease, and gives it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    lease: dict[str, Any] = answer.json()
    assert lease["lease_id"]
    return lease


def until(holds: Callable[[], Any], timeout_s: float = 10.0) -> None:
    """Waits until a condition is true. Raises AssertionError if it does not come true."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.01)


def key_of(admin: httpx.Client, tenant: str, *scopes: str) -> str:
    """A new key of a tenant, which is made if it is missing."""
    assert admin.post("/api/v1/tenants", json={"name": tenant}).status_code in (201, 409)
    answer = admin.post(f"/api/v1/tenants/{tenant}/keys", json={"scopes": scopes})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["key"])


def make_pool(admin: httpx.Client, name: str, capacity: int, **fields: Any) -> str:
    """Makes a pool; its path."""
    answer = admin.post("/api/v1/pools", json={"name": name, "capacity": capacity, **fields})
    assert answer.status_code == 201, answer.text
    return f"/api/v1/pools/{name}"


def items(admin: httpx.Client, path: str) -> list[dict[str, Any]]:
    """All items of a list, over all its pages."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        answer = admin.get(f"{path}{'&' if '?' in path else '?'}limit=500{cursor}")
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["items"]
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


def waiting(admin: httpx.Client, pool: str) -> int:
    """How many wait in a pool."""
    return int(admin.get(pool).json()["waiting"])


def state(admin: httpx.Client, pool: str) -> dict[str, Any]:
    """A pool as the API shows it, but for what counts requests and time."""
    shown: dict[str, Any] = admin.get(pool).json()
    moving = ("qps", "average_wait_s", "health", "oldest_wait_s")
    return {name: value for name, value in shown.items() if name not in moving}


def exchange(server: RelayServer, data: bytes, *, timeout_s: float = 5.0, wait_for: bytes = b"") -> bytes:
    """Sends raw bytes and reads until the server closes, `wait_for` came, or it has been silent for `timeout_s`."""
    received = b""
    with socket.create_connection((HOST, server.port), timeout=timeout_s) as connection:
        try:
            connection.sendall(data)
            while not (wait_for and wait_for in received):
                chunk = connection.recv(65536)
                if not chunk:
                    break
                received += chunk
        except (TimeoutError, ConnectionError):
            pass
    return received


def head(server: RelayServer, method: str, path: str, *lines: str) -> bytes:
    """The head of a raw request with the server's key."""
    start = (f"{method} {path} HTTP/1.1", f"Host: {HOST}", f"Authorization: Bearer {server.api_key}")
    return "\r\n".join((*start, *lines, "", "")).encode("latin-1")


def accepted(server: RelayServer, number: int) -> list[socket.socket]:
    """Connections that were served once: the next request on each needs nothing but to be read."""
    connections = [socket.create_connection((HOST, server.port), timeout=3) for _ in range(number)]
    for connection in connections:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b'{"status":"ok"}'):  # head and body may come apart
            part = connection.recv(1000)
            assert part, answer
            answer += part
    return connections


def gauge(metrics: str, name: str, **labels: str) -> float:
    """The value of one series in the text of /metrics. Raises AssertionError if it is not there."""
    for line in metrics.splitlines():
        if line.startswith(f"{name}{{") and all(f'{label}="{value}"' in line for label, value in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"{name}{labels} is not in the metrics")
