"""Who may call the data plane, with which method, at which address, in which order the checks come; how large a body is."""

from __future__ import annotations

import json

import httpx
import pytest

from relay.http import BODY_LIMIT
from tests.http.conftest import Keys
from tests.http.wire import Call, exchange, granted, head, key_of, make_pool, problem, state, until, waiting
from tests.relay_server import RelayServer

# every address of permits, with what may be done there, and which scope it takes
ADDRESSES = [
    ("POST", "/api/v1/pools/{pool}/acquire", "permits"),
    ("GET", "/api/v1/leases/{lease}", "permits"),
    ("POST", "/api/v1/leases/{lease}/renew", "permits"),
    ("POST", "/api/v1/leases/{lease}/release", "permits"),
    ("POST", "/api/v1/leases/{lease}/revoke", "operate"),
    ("POST", "/api/v1/waiters/none/cancel", "operate"),
]
WRONG_KEYS = (
    None,
    "",
    "Bearer",
    "Bearer nonsense",
    "Bearer relay_abc_def",
    "Bearer relay_" + "a" * 10_000,
    "Basic YWRtaW46YWRtaW4=",
    "{key}",
    "Token {key}",
    "Bearer {key}x",
    "Bearer {key} {key}",
)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND")


@pytest.fixture
def lease(admin: httpx.Client, pool: str) -> str:
    """A lease in the pool."""
    return str(granted(admin.post(f"{pool}/acquire"))["lease_id"])


def address(path: str, pool: str, lease: str) -> str:
    """An address of the table."""
    return path.format(pool=pool.rsplit("/", 1)[1], lease=lease)


@pytest.mark.parametrize(("method", "path", "scope"), ADDRESSES)
def test_without_a_valid_key_nothing_is_done(
    relay: RelayServer,
    admin: httpx.Client,
    pool: str,
    lease: str,
    method: str,
    path: str,
    scope: str,
) -> None:
    before = state(admin, pool)
    with relay.http("") as nobody:
        for wrong in WRONG_KEYS:
            headers = {} if wrong is None else {"Authorization": wrong.format(key=relay.api_key)}
            answer = nobody.request(method, address(path, pool, lease), headers=headers)
            problem(answer, 401, "unauthenticated", retry=False)
            assert answer.headers["www-authenticate"].startswith("Bearer")
    assert state(admin, pool) == before


def test_the_scheme_is_read_without_regard_to_capitals(relay: RelayServer, pool: str) -> None:
    with relay.http("") as client:
        granted(client.post(f"{pool}/acquire", headers={"Authorization": f"bearer {relay.api_key}"}))


@pytest.mark.parametrize(("method", "path", "scope"), ADDRESSES)
def test_a_key_without_the_scope_is_told_which_it_lacks(
    relay: RelayServer, admin: httpx.Client, keys: Keys, pool: str, lease: str, method: str, path: str, scope: str
) -> None:
    lacking = [keys.read, keys.tokens] + ([keys.permits] if scope == "operate" else [])
    before = state(admin, pool)
    for key in lacking:
        with relay.http(key) as client:
            document = problem(client.request(method, address(path, pool, lease)), 403, "forbidden", retry=False)
            assert scope in document["detail"]
    assert state(admin, pool) == before


@pytest.mark.parametrize(("method", "path", "scope"), ADDRESSES)
def test_a_login_cookie_counts_for_nothing(
    relay: RelayServer, pool: str, lease: str, method: str, path: str, scope: str
) -> None:
    with relay.http("") as browser:
        browser.get("/login/")
        form = {"username": "admin", "password": relay.password, "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        assert browser.post("/login/", data=form, headers={"Referer": f"{relay.url}/login/"}).status_code == 302
        assert "sessionid" in browser.cookies
        problem(browser.request(method, address(path, pool, lease)), 401, "unauthenticated")


@pytest.mark.parametrize(("method", "path", "scope"), ADDRESSES)
def test_other_methods_are_not_allowed_and_the_allowed_one_is_named(
    admin: httpx.Client, pool: str, lease: str, method: str, path: str, scope: str
) -> None:
    for other in METHODS:
        if other != method:
            answer = admin.request(other, address(path, pool, lease))
            problem(answer, 405, "method-not-allowed", retry=False)
            assert method in answer.headers["allow"]
    assert state(admin, pool)["in_use"] == 1


@pytest.mark.parametrize(("method", "path", "scope"), ADDRESSES)
def test_a_trailing_slash_is_another_address(
    admin: httpx.Client, pool: str, lease: str, method: str, path: str, scope: str
) -> None:
    problem(admin.request(method, address(path, pool, lease) + "/"), 404, "not-found", retry=False)


@pytest.mark.parametrize(("method", "path", "scope"), ADDRESSES)
def test_no_other_site_is_let_in(
    admin: httpx.Client, pool: str, lease: str, method: str, path: str, scope: str
) -> None:
    origin = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": method}
    for verb in ("OPTIONS", method):
        answer = admin.request(verb, address(path, pool, lease), headers=origin)
        assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_the_checks_of_an_acquire_come_in_the_documented_order(
    relay: RelayServer, admin: httpx.Client, keys: Keys, pool: str
) -> None:
    key = key_of(admin, "http-order", "permits")
    admin.put(f"{pool}/tenants/http-order", json={"limit": 1}).raise_for_status()
    bad, missing, kept = {"permits": 0}, "/api/v1/pools/no-such-pool", {"Idempotency-Key": "kept"}
    with relay.http("") as nobody, relay.http(keys.read) as reader, relay.http(key) as caller:
        lease = granted(caller.post(f"{pool}/acquire", headers=kept))
        admin.post(f"{pool}/drain").raise_for_status()
        problem(nobody.post(f"{missing}/acquire", json=bad), 401, "unauthenticated")
        problem(reader.post(f"{missing}/acquire", json=bad), 403, "forbidden")
        problem(caller.post(f"{missing}/acquire", json=bad), 404, "pool-not-found")
        problem(caller.post(f"{pool}/acquire", json=bad, headers=kept), 400, "invalid")
        problem(caller.post(f"{pool}/acquire", json={"permits": 9}, headers=kept), 422, "idempotency-conflict")
        assert granted(caller.post(f"{pool}/acquire", headers=kept), 200)["lease_id"] == lease["lease_id"]
        problem(caller.post(f"{pool}/acquire", json={"permits": 3}), 400, "exceeds-capacity", retry=False)
        problem(caller.post(f"{pool}/acquire", json={"permits": 2}), 400, "exceeds-tenant-limit", retry=False)
        for timeout_s in (0, 5):
            answer = caller.post(f"{pool}/acquire", json={"timeout_s": timeout_s})
            problem(answer, 503, "pool-draining", retry=True)


def test_a_try_is_told_of_the_pause_or_of_the_full_pool_before_a_waiter_of_the_full_queue(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    admin.patch(pool, json={"max_waiters": 1}).raise_for_status()
    granted(admin.post(f"{pool}/acquire", json={"permits": 2}))
    waiter = Call(relay, f"{pool}/acquire")
    until(lambda: waiting(admin, pool) == 1)
    problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0}), 429, "acquire-timeout", retry=True)
    problem(admin.post(f"{pool}/acquire", json={"timeout_s": 5}), 429, "queue-full", retry=True)
    admin.post(f"{pool}/pause").raise_for_status()
    problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0}), 503, "pool-paused", retry=True)
    problem(admin.post(f"{pool}/acquire", json={"timeout_s": 5}), 429, "queue-full", retry=True)
    problem(admin.post(f"{pool}/acquire", json={"permits": 3, "timeout_s": 5}), 400, "exceeds-capacity")
    waiter.leave()


@pytest.mark.parametrize("name", ["acquire", "release", "renew", "leases", "pause", "0", "a.b-c_d"])
def test_a_pool_may_bear_any_valid_name(admin: httpx.Client, name: str) -> None:
    path = make_pool(admin, name, 1)
    try:
        assert admin.get(path).status_code == 200
        assert admin.patch(path, json={"capacity": 2}).json()["capacity"] == 2
        lease = granted(admin.post(f"{path}/acquire", json={"permits": 2}))
        assert lease["pool"] == name
        assert len(admin.get(f"{path}/leases").json()["items"]) == 1
    finally:
        admin.delete(f"{path}?force=true")
    assert admin.get(path).status_code == 404


def body_of(size: int) -> bytes:
    """A valid body of this many bytes."""
    filling = json.dumps({"holder": ""}).encode()
    return filling + b" " * (size - len(filling))


def test_a_body_of_2_mib_is_read_and_one_byte_more_is_not(admin: httpx.Client, pool: str) -> None:
    headers = {"Content-Type": "application/json"}
    granted(admin.post(f"{pool}/acquire", content=body_of(BODY_LIMIT), headers=headers))
    answer = admin.post(f"{pool}/acquire", content=body_of(BODY_LIMIT + 1), headers=headers)
    problem(answer, 413, "body-too-large", retry=False)
    assert state(admin, pool)["in_use"] == 1


@pytest.mark.parametrize("end", ["acquire", "renew", "release"])
def test_a_declared_size_over_the_limit_is_refused_before_the_body_comes(
    relay: RelayServer, admin: httpx.Client, pool: str, lease: str, end: str
) -> None:
    path = f"{pool}/acquire" if end == "acquire" else f"/api/v1/leases/{lease}/{end}"
    before = state(admin, pool)
    lines = ("Content-Type: application/json", f"Content-Length: {BODY_LIMIT + 1}")
    received = exchange(relay, head(relay, "POST", path, *lines) + b'{"holder"', wait_for=b"body-too-large")
    assert received.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in received
    assert state(admin, pool) == before


@pytest.mark.parametrize("end", ["acquire", "renew", "release"])
def test_chunks_are_refused_as_soon_as_they_are_too_many(
    relay: RelayServer, admin: httpx.Client, pool: str, lease: str, end: str
) -> None:
    path = f"{pool}/acquire" if end == "acquire" else f"/api/v1/leases/{lease}/{end}"
    before = state(admin, pool)
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    received = exchange(relay, head(relay, "POST", path, *lines) + chunk * 33, wait_for=b"body-too-large")
    assert received.startswith(b"HTTP/1.1 413 ")
    assert state(admin, pool) == before


def test_chunks_within_the_limit_make_one_body(relay: RelayServer, pool: str) -> None:
    chunks = b'9\r\n{"permits\r\n4\r\n": 2\r\n1\r\n}\r\n0\r\n\r\n'
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    received = exchange(relay, head(relay, "POST", f"{pool}/acquire", *lines) + chunks, wait_for=b'"ttl_s"')
    assert received.startswith(b"HTTP/1.1 201 ")
    assert b'"permits":2' in received
