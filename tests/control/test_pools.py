"""Writing and reading pools over the API."""

from __future__ import annotations

from typing import Any

import pytest

from relay.permits.models import Pool
from relay.tenants.models import Change
from tests.control.cast import Cast, refused

DEFAULTS = {
    "description": "",
    "default_priority": "interactive",
    "default_timeout_s": 30.0,
    "max_timeout_s": 3600.0,
    "default_ttl_s": 60.0,
    "max_ttl_s": 3600.0,
    "max_lease_s": None,
    "max_waiters": 10_000,
    "aging_s": 30.0,
    "reconnect_grace_s": 10.0,
    "requests_per_minute": None,
    "requests_burst": None,
    "tokens_per_minute": None,
    "tokens_burst": None,
    "state": "active",
    "version": 1,
}


def made(cast: Cast, name: str = "gpu", **fields: Any) -> dict[str, Any]:
    response = cast.operator("POST", "/pools", {"name": name, "capacity": 8} | fields)
    assert response.status_code == 201, response.content
    document: dict[str, Any] = response.json()
    return document


def test_a_new_pool_has_the_contracts_defaults(cast: Cast) -> None:
    response = cast.operator("POST", "/pools", {"name": "gpu", "capacity": 8})
    assert response.status_code == 201
    assert response["Location"] == "/api/v1/pools/gpu"
    assert response["ETag"] == '"1"'
    document = response.json()
    assert document["capacity"] == 8
    assert {field: document[field] for field in DEFAULTS} == DEFAULTS
    assert document["created_at"].endswith("Z")
    assert cast.reader("GET", "/pools/gpu").json() == document


def test_a_second_pool_of_the_name_is_refused(cast: Cast) -> None:
    made(cast)
    refused(cast.operator("POST", "/pools", {"name": "gpu", "capacity": 1}), 409, "pool-exists")
    assert Pool.objects.get().capacity == 8


def test_only_operators_write_pools(cast: Cast) -> None:
    made(cast)
    for method, path, body in [
        ("POST", "/pools", {"name": "new", "capacity": 1}),
        ("PATCH", "/pools/gpu", {"capacity": 1}),
        ("DELETE", "/pools/gpu", None),
        ("POST", "/pools/gpu/pause", None),
        ("PUT", "/pools/gpu/tenants/search", {}),
        ("DELETE", "/pools/gpu/tenants/search", None),
    ]:
        refused(cast.reader(method, path, body), 403, "forbidden")
        refused(cast.permits(method, path, body), 403, "forbidden")
        answer = cast.nobody(method, path, body)
        refused(answer, 401, "unauthenticated")
        assert answer["WWW-Authenticate"].startswith("Bearer")
    refused(cast.permits("GET", "/pools"), 403, "forbidden")
    assert Pool.objects.get().version == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Gpu"),
        ("name", "-gpu"),
        ("name", "gpu\n"),
        ("name", "g" * 64),
        ("name", ""),
        ("name", 7),
        ("capacity", 0),
        ("capacity", 1_000_001),
        ("capacity", "8"),
        ("capacity", True),
        ("capacity", 1.5),
        ("capacity", None),
        ("default_timeout_s", -1),
        ("default_timeout_s", "30"),
        ("default_timeout_s", None),
        ("default_timeout_s", 3601),
        ("max_timeout_s", True),
        ("max_timeout_s", 1e12),
        ("default_ttl_s", 0),
        ("max_ttl_s", -0.5),
        ("max_lease_s", 0),
        ("max_waiters", -1),
        ("aging_s", 0),
        ("reconnect_grace_s", None),
        ("requests_per_minute", 0),
        ("requests_burst", 0),
        ("tokens_per_minute", 1.5),
        ("tokens_burst", 1_000_000_001),
        ("tokens_burst", True),
        ("default_priority", "urgent"),
        ("description", "x" * 1001),
        ("description", "a\u0000b"),
        ("reason", "x" * 501),
        ("reason", None),
        ("capasity", 8),
        ("state", "paused"),
        ("version", 1),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_written(cast: Cast, field: str, value: Any) -> None:
    changes = Change.objects.count()
    refused(cast.operator("POST", "/pools", {"name": "gpu", "capacity": 8} | {field: value}), 400, "invalid", field)
    if field not in ("name",):
        made(cast)
        refused(cast.operator("PATCH", "/pools/gpu", {field: value}), 400, "invalid", field)
        assert Pool.objects.get().version == 1
        assert Change.objects.count() == changes + 1
    else:
        assert not Pool.objects.exists()


@pytest.mark.parametrize(
    "raw", [b"[1]", b"null", b"{", b'{"capacity": NaN}', b'{"capacity": 1e999}', b"\xff", b'"\\ud800"', b"[" * 100_000]
)
def test_a_body_that_is_no_object_is_refused(cast: Cast, raw: bytes) -> None:
    made(cast)
    refused(cast.operator("PATCH", "/pools/gpu", raw=raw), 400, "invalid")


def test_a_configuring_body_must_be_there_and_be_json(cast: Cast) -> None:
    made(cast)
    refused(cast.operator("PATCH", "/pools/gpu"), 400, "invalid", "body")
    refused(cast.operator("PATCH", "/pools/gpu", raw=b"capacity=9", Content_Type="text/plain"), 415, "not-json")
    huge = b'{"reason": "' + b"x" * (2 * 1024 * 1024) + b'"}'
    refused(cast.operator("PATCH", "/pools/gpu", raw=huge), 413, "body-too-large")
    assert cast.operator("PATCH", "/pools/gpu", {"capacity": 9}, Accept="text/html").json()["capacity"] == 9


def test_of_a_key_that_comes_twice_the_last_counts(cast: Cast) -> None:
    made(cast)
    assert cast.operator("PATCH", "/pools/gpu", raw=b'{"capacity": 1, "capacity": 9}').json()["capacity"] == 9


def test_a_missing_field_is_named(cast: Cast) -> None:
    refused(cast.operator("POST", "/pools", {"name": "gpu"}), 400, "invalid", "capacity")
    refused(cast.operator("POST", "/pools", {"capacity": 8}), 400, "invalid", "name")


def test_a_patch_raises_the_version_and_is_logged(cast: Cast) -> None:
    before = made(cast)
    response = cast.operator(
        "PATCH", "/pools/gpu", {"capacity": 3, "aging_s": None, "reason": "night"}, X_Request_ID="deploy-7"
    )
    assert response.status_code == 200
    assert response["ETag"] == '"2"'
    document = response.json()
    assert (document["capacity"], document["aging_s"], document["version"]) == (3, None, 2)
    assert document["default_ttl_s"] == before["default_ttl_s"]
    change = Change.objects.first()
    assert change is not None
    assert (change.kind, change.action, change.name, change.pool) == ("pool", "update", "gpu", "gpu")
    assert (change.actor_kind, change.request_id, change.reason) == ("key", "deploy-7", "night")
    assert change.before is not None
    assert change.after is not None
    assert (change.before["capacity"], change.after["capacity"]) == (8, 3)


def test_a_patch_that_changes_nothing_writes_nothing(cast: Cast) -> None:
    made(cast)
    changes = Change.objects.count()
    for body in ({}, {"capacity": 8}, {"aging_s": 30, "reason": "again"}):
        assert cast.operator("PATCH", "/pools/gpu", body).json()["version"] == 1
    assert cast.operator("POST", "/pools/gpu/resume").json()["version"] == 1
    assert Change.objects.count() == changes


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ('"1"', 200),
        ("*", 200),
        ('"7", "1"', 200),
        ('"2"', 412),
        ('W/"1"', 412),
        ('"abc"', 412),
        ("1", 400),
        ("", 400),
        ('"1', 400),
    ],
)
def test_if_match_guards_against_a_lost_update(cast: Cast, header: str, status: int) -> None:
    made(cast)
    for method, path, body in [
        ("PATCH", "/pools/gpu", {"capacity": 3}),
        ("PUT", "/pools/gpu/tenants/search", {"limit": 1}),
        ("POST", "/pools/gpu/pause", None),
        ("DELETE", "/pools/gpu", None),
    ]:
        version = Pool.objects.get().version
        sent = header.replace('"1"', f'"{version}"') if status == 200 else header
        response = cast.operator(method, path, body, If_Match=sent)
        if status == 200:
            assert response.status_code in (200, 204)
        else:
            refused(response, status, "version-conflict" if status == 412 else "invalid")
            assert Pool.objects.get().version == 1


def test_the_states_of_a_pool(cast: Cast) -> None:
    made(cast)
    for action, state, version in [
        ("pause", "paused", 2),
        ("pause", "paused", 2),
        ("drain", "draining", 3),
        ("resume", "active", 4),
    ]:
        response = cast.operator("POST", f"/pools/gpu/{action}", {"reason": "x"} if action == "drain" else None)
        assert response.status_code == 200
        assert response["ETag"] == f'"{version}"'
        assert response.json()["state"] == state
    assert [row.action for row in Change.objects.filter(kind="pool")] == ["resume", "drain", "pause", "create"]
    refused(cast.operator("POST", "/pools/gpu/pause", {"force": True}), 400, "invalid", "force")


def test_delete_takes_a_pool_and_its_shares_away(cast: Cast) -> None:
    made(cast)
    cast.operator("PUT", "/pools/gpu/tenants/search", {"limit": 2})
    refused(cast.operator("DELETE", "/pools/gpu?force=yes"), 400, "invalid", "force")
    response = cast.operator("DELETE", "/pools/gpu?reason=obsolete")
    assert response.status_code == 204
    assert response.content == b""
    change = Change.objects.first()
    assert change is not None
    assert (change.action, change.reason, change.after) == ("delete", "obsolete", None)
    refused(cast.reader("GET", "/pools/gpu"), 404, "pool-not-found")
    refused(cast.operator("DELETE", "/pools/gpu"), 404, "pool-not-found")
    refused(cast.operator("PATCH", "/pools/gpu", {"capacity": 1}), 404, "pool-not-found")
    refused(cast.operator("POST", "/pools/gpu/pause"), 404, "pool-not-found")
    refused(cast.reader("GET", "/pools/no%00pe"), 404, "pool-not-found")


def test_pools_come_in_pages(cast: Cast) -> None:
    for name in ("d", "b", "a", "c", "e"):
        made(cast, name)
    names, path = [], "/pools?limit=2"
    while path:
        page = cast.reader("GET", path).json()
        assert len(page["items"]) <= 2
        names += [item["name"] for item in page["items"]]
        path = f"/pools?limit=2&cursor={page['next']}" if page["next"] else ""
    assert names == ["a", "b", "c", "d", "e"]
    for query in ("limit=0", "limit=501", "limit=-1", "limit=x", "limit="):
        refused(cast.reader("GET", f"/pools?{query}"), 400, "invalid", "limit")
    for query in ("cursor=%00", "cursor=x", "cursor=MTI=", "cursor="):
        refused(cast.reader("GET", f"/pools?{query}"), 400, "invalid", "cursor")


def test_wrong_methods_and_addresses(cast: Cast) -> None:
    answer = cast.admin("PUT", "/pools", {})
    refused(answer, 405, "method-not-allowed")
    assert set(answer["Allow"].replace(" ", "").split(",")) >= {"GET", "POST"}
    refused(cast.admin("OPTIONS", "/pools"), 405, "method-not-allowed")
    for path in ("/pools/", "/pools/gpu/", "/pool", "/", "/pools/gpu/nothing"):
        refused(cast.admin("GET", path), 404, "not-found")
        refused(cast.admin("POST", path, {}), 404, "not-found")
    refused(cast.nobody("POST", "/schema"), 405, "method-not-allowed")
