"""POST /pools/{pool}/acquire: the lease that it answers, and what it makes of every field."""

from __future__ import annotations

import os
import re
import signal
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.http.wire import accepted, granted, head, items, key_of, problem, state
from tests.relay_server import RelayServer

JSON = {"Content-Type": "application/json"}
FIELDS = [
    "lease_id",
    "pool",
    "tenant",
    "permits",
    "priority",
    "holder",
    "metadata",
    "fencing_token",
    "waited_s",
    "acquired_at",
    "expires_at",
    "expires_in_s",
    "ttl_s",
]


def raw(admin: httpx.Client, pool: str, body: str | bytes, **headers: str) -> httpx.Response:
    """An acquire with these very bytes as its body."""
    return admin.post(f"{pool}/acquire", content=body, headers=JSON | headers)


@pytest.mark.parametrize("body", [None, {}], ids=["empty", "{}"])
def test_an_acquire_that_says_nothing_takes_the_pools_defaults(
    admin: httpx.Client, pool: str, body: dict[str, Any] | None
) -> None:
    admin.patch(pool, json={"default_ttl_s": 7.5, "default_priority": "batch"}).raise_for_status()
    lease = granted(admin.post(f"{pool}/acquire") if body is None else admin.post(f"{pool}/acquire", json=body))
    assert list(lease) == FIELDS
    assert lease["pool"] == pool.rsplit("/", 1)[1]
    assert (lease["tenant"], lease["permits"], lease["priority"]) == ("default", 1, "batch")
    assert (lease["holder"], lease["metadata"], lease["ttl_s"]) == ("", {}, 7.5)
    assert 0 <= lease["waited_s"] < 1
    assert 7 < lease["expires_in_s"] <= 7.5


def test_the_lease_says_what_was_asked_for_and_its_times_are_rfc_3339_utc(admin: httpx.Client, pool: str) -> None:
    asked = {
        "permits": 2,
        "priority": "critical",
        "ttl_s": 30,
        "holder": "worker-7",
        "metadata": {"job": [1, "é", None]},
    }
    lease = granted(admin.post(f"{pool}/acquire", json={**asked, "timeout_s": 0}))
    assert {name: lease[name] for name in asked} == asked
    for name in ("acquired_at", "expires_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", lease[name])
    acquired, expires = (datetime.fromisoformat(lease[name]) for name in ("acquired_at", "expires_at"))
    assert expires - acquired == timedelta(seconds=30)
    assert isinstance(lease["fencing_token"], int)
    assert 0 < lease["fencing_token"] < 2**53


def test_fencing_tokens_rise_with_every_grant(admin: httpx.Client, pool: str) -> None:
    tokens = []
    for _ in range(5):
        lease = granted(admin.post(f"{pool}/acquire"))
        tokens.append(lease["fencing_token"])
        admin.post(f"/api/v1/leases/{lease['lease_id']}/release")
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"permits": 0}', "permits"),
        ('{"permits": -1}', "permits"),
        ('{"permits": 1.5}', "permits"),
        ('{"permits": true}', "permits"),
        ('{"permits": "1"}', "permits"),
        ('{"permits": null}', "permits"),
        ('{"permits": [1]}', "permits"),
        ('{"priority": null}', "priority"),
        ('{"priority": 1}', "priority"),
        ('{"priority": ""}', "priority"),
        ('{"priority": "urgent"}', "priority"),
        ('{"priority": "CRITICAL"}', "priority"),
        ('{"timeout_s": null}', "timeout_s"),
        ('{"timeout_s": -0.001}', "timeout_s"),
        ('{"timeout_s": "1"}', "timeout_s"),
        ('{"timeout_s": false}', "timeout_s"),
        ('{"timeout_s": 3600.001}', "timeout_s"),
        ('{"timeout_s": 1e999}', "timeout_s"),
        ('{"timeout_s": 1e305}', "timeout_s"),
        ('{"ttl_s": null}', "ttl_s"),
        ('{"ttl_s": 0}', "ttl_s"),
        ('{"ttl_s": -0.0}', "ttl_s"),
        ('{"ttl_s": -1}', "ttl_s"),
        ('{"ttl_s": "60"}', "ttl_s"),
        ('{"ttl_s": true}', "ttl_s"),
        ('{"ttl_s": 3601}', "ttl_s"),
        ('{"ttl_s": 1e305}', "ttl_s"),
        ('{"ttl_s": 1%s}' % ("0" * 400), "ttl_s"),
        ('{"holder": null}', "holder"),
        ('{"holder": 7}', "holder"),
        ('{"holder": "%s"}' % ("h" * 201), "holder"),
        ('{"metadata": null}', "metadata"),
        ('{"metadata": []}', "metadata"),
        ('{"metadata": "{}"}', "metadata"),
        ('{"metadata": {"a": "%s"}}' % ("m" * 2048), "metadata"),
        ('{"permit": 1}', "permit"),
        ('{"Permits": 1}', "Permits"),
        ('{"tenant": "other"}', "tenant"),
        ('{"wait": true, "permits": 1}', "wait"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_taken(admin: httpx.Client, pool: str, body: str, field: str) -> None:
    before = state(admin, pool)
    problem(raw(admin, pool, body), 400, "invalid", field, retry=False)
    assert state(admin, pool) == before


@pytest.mark.parametrize(
    "body",
    [
        "null",
        "1",
        "[]",
        '"x"',
        "[{}]",
        "{",
        "}",
        "{}{}",
        " ",
        "permits=1",
        "{'permits': 1}",
        '{"permits": 01}',
        '{"permits": 1,}',
        '{"ttl_s": NaN}',
        '{"timeout_s": Infinity}',
        '{"timeout_s": -Infinity}',
        '{"metadata": {"a": NaN}}',
        '{"holder": "\\ud800"}',
        b'{"holder": "\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"holder": "\x00"}',
        b"{}".decode().encode("utf-16"),
        '{"metadata": ' + "[" * 100_000,
        '{"a": ' * 50_000,
        b"\x00" * 100,
    ],
    ids=repr,
)
def test_what_is_no_json_object_is_refused_and_nothing_is_taken(
    admin: httpx.Client, pool: str, body: str | bytes
) -> None:
    before = state(admin, pool)
    problem(raw(admin, pool, body), 400, "invalid", retry=False)
    assert state(admin, pool) == before


@pytest.mark.parametrize("digits", [7, 19, 20, 400, 5000, 100_000])
def test_a_huge_number_of_permits_is_refused_and_nothing_is_taken(admin: httpx.Client, pool: str, digits: int) -> None:
    before = state(admin, pool)
    answer = raw(admin, pool, '{"permits": %s}' % ("9" * digits))
    problem(answer, 400, answer.json()["code"], retry=False)
    assert answer.json()["code"] in ("invalid", "exceeds-capacity")
    assert state(admin, pool) == before


@pytest.mark.parametrize("holder", ["h" * 200, "\N{GRINNING FACE}" * 200, "", "a\tb", "<b>&\"'"])
def test_a_holder_of_up_to_200_characters_comes_back_as_it_was(admin: httpx.Client, pool: str, holder: str) -> None:
    assert granted(admin.post(f"{pool}/acquire", json={"holder": holder}))["holder"] == holder
    assert items(admin, f"{pool}/leases")[0]["holder"] == holder


def test_metadata_of_2_kib_is_accepted_and_one_byte_more_is_not(admin: httpx.Client, pool: str) -> None:
    most = {"a": "m" * (2048 - len('{"a":""}'))}
    assert granted(admin.post(f"{pool}/acquire", json={"metadata": most}))["metadata"] == most
    problem(admin.post(f"{pool}/acquire", json={"metadata": {"a": most["a"] + "m"}}), 400, "invalid", "metadata")


@pytest.mark.parametrize(
    "number", ["9223372036854775808", "18446744073709551616", "-9223372036854775809", "1" + "0" * 400, "1e308", "1e999"]
)
def test_any_number_in_metadata_comes_back_or_is_refused_and_leaks_nothing(
    admin: httpx.Client, pool: str, number: str
) -> None:
    body = f'{{"metadata": {{"n": {number}}}}}'
    answer = admin.post(f"{pool}/acquire", content=body, headers=JSON, timeout=3.0)
    if answer.status_code == 201:
        assert granted(answer)["metadata"] == {"n": float(number) if "e" in number else int(number)}
        assert admin.post(f"/api/v1/leases/{answer.json()['lease_id']}/release").json()["released"]
    else:
        document = problem(answer, 400, "invalid")
        assert any(field.startswith("metadata") for field in document["errors"])
    assert state(admin, pool)["in_use"] == 0


def test_what_one_caller_sends_does_not_hurt_those_who_ask_in_the_same_instant(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    admin.patch(pool, json={"capacity": 9}).raise_for_status()
    connections = accepted(relay, 5)
    os.kill(relay.pid, signal.SIGSTOP)  # so that all come to it in one turn of its event loop
    for number, connection in enumerate(connections):
        body = b'{"metadata": {"n": 18446744073709551616}}' if number == 2 else b'{"metadata": {"n": 1}}'
        lines = ("Content-Type: application/json", f"Content-Length: {len(body)}")
        connection.sendall(head(relay, "POST", f"{pool}/acquire", *lines) + body)
    os.kill(relay.pid, signal.SIGCONT)
    odd = connections.pop(2)
    for connection in connections:
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
        connection.close()
    odd.close()


def test_metadata_nested_as_deep_as_it_is_accepted_can_be_listed(admin: httpx.Client, pool: str) -> None:
    admin.patch(pool, json={"capacity": 100}).raise_for_status()
    accepted = 0
    for depth in (10, 25, 100, 500, *range(900, 1020, 5)):
        answer = raw(admin, pool, f'{{"metadata": {{"a": {"[" * depth + "]" * depth}}}}}')
        if answer.status_code == 201:
            accepted += 1
        else:
            problem(answer, 400, "invalid")
    assert accepted >= 2
    listed = admin.get(f"{pool}/leases")
    assert listed.status_code == 200, listed.text
    assert listed.text.count('"lease_id"') == state(admin, pool)["in_use"] == accepted


@pytest.mark.parametrize(("key", "fits"), [("k", True), ("k" * 200, True), ("", False), ("k" * 201, False)])
def test_an_idempotency_key_has_1_to_200_characters(admin: httpx.Client, pool: str, key: str, fits: bool) -> None:
    answer = admin.post(f"{pool}/acquire", headers={"Idempotency-Key": key})
    if fits:
        granted(answer)
    else:
        problem(answer, 400, "invalid", "Idempotency-Key")
        assert state(admin, pool)["in_use"] == 0


@pytest.mark.parametrize(
    "media", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx", "json"]
)
def test_a_body_that_is_not_said_to_be_json_is_refused(admin: httpx.Client, pool: str, media: str | None) -> None:
    before = state(admin, pool)
    headers = {} if media is None else {"Content-Type": media}
    problem(admin.post(f"{pool}/acquire", content=b'{"permits": 1}', headers=headers), 415, "not-json", retry=False)
    assert state(admin, pool) == before


@pytest.mark.parametrize("media", ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"])
def test_the_media_type_may_have_parameters_and_capitals(admin: httpx.Client, pool: str, media: str) -> None:
    granted(admin.post(f"{pool}/acquire", content=b'{"permits": 1}', headers={"Content-Type": media}))


def test_the_bounds_of_the_pool_itself_are_accepted(admin: httpx.Client, pool: str) -> None:
    admin.patch(pool, json={"max_ttl_s": 100, "max_timeout_s": 50, "default_ttl_s": 50}).raise_for_status()
    assert granted(admin.post(f"{pool}/acquire", json={"ttl_s": 100, "timeout_s": 50}))["ttl_s"] == 100
    problem(admin.post(f"{pool}/acquire", json={"ttl_s": 100.001}), 400, "invalid", "ttl_s")
    problem(admin.post(f"{pool}/acquire", json={"timeout_s": 50.001}), 400, "invalid", "timeout_s")


def test_a_lease_never_gets_more_than_max_lease_s(admin: httpx.Client, pool: str) -> None:
    admin.patch(pool, json={"max_lease_s": 5}).raise_for_status()
    lease = granted(admin.post(f"{pool}/acquire", json={"ttl_s": 60}))
    assert lease["expires_in_s"] <= 5


def test_a_tenant_may_ask_for_no_more_urgent_class_than_its_share_allows(
    relay: RelayServer, admin: httpx.Client, pool: str
) -> None:
    key = key_of(admin, "http-modest", "permits")
    admin.put(f"{pool}/tenants/http-modest", json={"max_priority": "batch"}).raise_for_status()
    with relay.http(key) as modest:
        for priority in ("critical", "interactive"):
            problem(modest.post(f"{pool}/acquire", json={"priority": priority}), 400, "invalid", "priority")
        assert state(admin, pool)["in_use"] == 0
        for priority in ("batch", "background"):
            assert granted(modest.post(f"{pool}/acquire", json={"priority": priority}))["priority"] == priority
