"""GET /leases/{id}, renew, release, revoke: to the holder, to strangers, to operators, and after the end."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.http.conftest import Keys
from tests.http.wire import granted, items, key_of, problem, state, until
from tests.relay_server import RelayServer

UNKNOWN = ["nothing", "0", "x" * 5000, "%00", "%2e%2e", "..%2f..%2fpools", "%ff", "a%20b", "'--", "%E2%82%AC"]
REASONS = {"released": "already-released", "expired": "expired", "revoked": "revoked"}


def lease_of(admin: httpx.Client, pool: str, **body: object) -> str:
    """The path of a new lease."""
    return f"/api/v1/leases/{granted(admin.post(f'{pool}/acquire', json=body))['lease_id']}"


def end(admin: httpx.Client, lease: str, how: str) -> None:
    """Ends a lease in this way; one that is to expire was given 50 ms."""
    if how == "expired":
        until(lambda: admin.get(lease).status_code == 410)
    else:
        admin.post(f"{lease}/{how.removesuffix('d')}").raise_for_status()


def test_a_lease_is_shown_as_it_was_answered_with_what_is_left_of_it(admin: httpx.Client, pool: str) -> None:
    answered = granted(admin.post(f"{pool}/acquire", json={"permits": 2, "holder": "w", "metadata": {"a": [1]}}))
    time.sleep(0.02)
    shown = granted(admin.get(f"/api/v1/leases/{answered['lease_id']}"), 200)
    assert shown["expires_in_s"] < answered["expires_in_s"]
    assert shown | {"expires_in_s": 0} == answered | {"expires_in_s": 0}
    (listed,) = items(admin, f"{pool}/leases")
    assert listed | {"expires_in_s": 0} == answered | {"expires_in_s": 0}


def test_to_another_tenant_the_lease_does_not_exist(
    relay: RelayServer, admin: httpx.Client, keys: Keys, pool: str
) -> None:
    lease = lease_of(admin, pool)
    before = state(admin, pool)
    with relay.http(keys.permits) as stranger:
        problem(stranger.get(lease), 404, "lease-not-found")
        problem(stranger.post(f"{lease}/renew", json={"ttl_s": 5}), 404, "lease-not-found")
        problem(stranger.post(f"{lease}/release"), 404, "lease-not-found")
        admin.post(f"{lease}/release").raise_for_status()
        problem(stranger.get(lease), 404, "lease-not-found")
        problem(stranger.post(f"{lease}/release"), 404, "lease-not-found")
        problem(stranger.post(f"{lease}/renew", json={"ttl_s": 5}), 404, "lease-not-found")
    assert before["in_use"] == 1


def test_an_operator_sees_everybodys_lease_but_renews_and_releases_only_its_own(
    relay: RelayServer, admin: httpx.Client, keys: Keys, pool: str
) -> None:
    operator_key = key_of(admin, "http-operations", "operate", "permits")
    with relay.http(keys.permits) as holder, relay.http(operator_key) as operator:
        lease = lease_of(holder, pool, ttl_s=30)
        assert granted(operator.get(lease), 200)["tenant"] == "http-other"
        problem(operator.post(f"{lease}/renew", json={"ttl_s": 5}), 404, "lease-not-found")
        problem(operator.post(f"{lease}/release"), 404, "lease-not-found")
        assert operator.post(f"{lease}/revoke", json={"reason": "stuck"}).json() == {"revoked": True}
        assert operator.post(f"{lease}/revoke").json() == {"revoked": False}
        problem(holder.post(f"{lease}/renew", json={"ttl_s": 5}), 410, "lease-revoked", retry=False)
    assert state(admin, pool)["in_use"] == 0


@pytest.mark.parametrize("lease_id", UNKNOWN)
def test_an_unknown_lease_is_not_found_by_anybody(admin: httpx.Client, lease_id: str) -> None:
    path = f"/api/v1/leases/{lease_id}"
    answers = [
        admin.get(path),
        admin.post(f"{path}/renew", json={"ttl_s": 5}),
        admin.post(f"{path}/release"),
        admin.post(f"{path}/revoke"),
    ]
    for answer in answers:
        assert answer.status_code == 404, answer.text[:300]
        assert answer.json()["code"] in ("lease-not-found", "not-found")
        assert len(answer.content) < 7000
    problem(admin.post(f"/api/v1/waiters/{lease_id}/cancel"), 404, "not-found")


def test_a_renewal_moves_the_expiry_forward_and_never_back(admin: httpx.Client, pool: str) -> None:
    lease = lease_of(admin, pool, ttl_s=10)
    first = granted(admin.get(lease), 200)
    longer = granted(admin.post(f"{lease}/renew", json={"ttl_s": 60}), 200)
    assert longer["expires_at"] > first["expires_at"]
    assert (longer["ttl_s"], longer["fencing_token"]) == (60, first["fencing_token"])
    assert granted(admin.post(f"{lease}/renew", json={"ttl_s": 1}), 200)["expires_at"] == longer["expires_at"]


def test_a_renewal_is_capped_by_max_lease_s(admin: httpx.Client, pool: str) -> None:
    admin.patch(pool, json={"max_lease_s": 20}).raise_for_status()
    lease = lease_of(admin, pool, ttl_s=10)
    renewed = granted(admin.post(f"{lease}/renew", json={"ttl_s": 3000}), 200)
    assert 15 < renewed["expires_in_s"] <= 20


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ("", "body"),
        ('{"ttl_s": 0}', "ttl_s"),
        ('{"ttl_s": -1}', "ttl_s"),
        ('{"ttl_s": null}', "ttl_s"),
        ('{"ttl_s": "5"}', "ttl_s"),
        ('{"ttl_s": true}', "ttl_s"),
        ('{"ttl_s": 3600.5}', "ttl_s"),
        ('{"ttl_s": 1e305}', "ttl_s"),
        ('{"ttl_s": 1e999}', "ttl_s"),
        ('{"ttl_s": NaN}', "body"),
        ('{"ttl": 5}', "ttl"),
        ("[]", "body"),
        ("{", "body"),
    ],
)
def test_a_wrong_renewal_names_its_field_and_renews_nothing(
    admin: httpx.Client, pool: str, body: str, field: str
) -> None:
    lease = lease_of(admin, pool, ttl_s=30)
    before = admin.get(lease).json()["expires_at"]
    answer = admin.post(f"{lease}/renew", content=body, headers={"Content-Type": "application/json"})
    problem(answer, 400, "invalid", field)
    assert admin.get(lease).json()["expires_at"] == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('{"outcome": null}', "outcome"),
        ('{"outcome": ""}', "outcome"),
        ('{"outcome": "OK"}', "outcome"),
        ('{"outcome": 1}', "outcome"),
        ('{"result": "ok"}', "result"),
        ("null", "body"),
        ("{", "body"),
    ],
)
def test_a_wrong_release_names_its_field_and_releases_nothing(
    admin: httpx.Client, pool: str, body: str, field: str
) -> None:
    lease = lease_of(admin, pool)
    answer = admin.post(f"{lease}/release", content=body, headers={"Content-Type": "application/json"})
    problem(answer, 400, "invalid", field)
    assert state(admin, pool)["in_use"] == 1


@pytest.mark.parametrize("end", ["renew", "release", "revoke"])
def test_a_body_that_is_not_said_to_be_json_does_nothing(admin: httpx.Client, pool: str, end: str) -> None:
    lease = lease_of(admin, pool)
    before = admin.get(lease).json()["expires_at"]
    answer = admin.post(f"{lease}/{end}", content=b'{"ttl_s": 600}', headers={"Content-Type": "text/plain"})
    problem(answer, 415, "not-json")
    assert admin.get(lease).json()["expires_at"] == before


@pytest.mark.parametrize("outcome", [None, "ok", "error", "throttled", "timeout"])
def test_a_release_says_how_long_it_was_held_and_gives_the_permits_back(
    admin: httpx.Client, pool: str, outcome: str | None
) -> None:
    lease = lease_of(admin, pool, permits=2)
    time.sleep(0.02)
    answer = admin.post(f"{lease}/release", json={} if outcome is None else {"outcome": outcome})
    assert answer.status_code == 200
    assert set(answer.json()) == {"released", "held_s"}
    assert answer.json()["released"] is True
    assert 0.02 <= answer.json()["held_s"] < 5
    assert state(admin, pool)["in_use"] == 0


@pytest.mark.parametrize("how", ["released", "revoked", "expired"])
def test_who_comes_after_the_end_is_told_how_it_ended_and_makes_no_permit(
    admin: httpx.Client, pool: str, how: str
) -> None:
    lease = lease_of(admin, pool, ttl_s=0.05 if how == "expired" else 60)
    kept = lease_of(admin, pool)
    end(admin, lease, how)
    for _ in range(2):
        assert admin.post(f"{lease}/release").json() == {"released": False, "reason": REASONS[how]}
        problem(admin.get(lease), 410, f"lease-{how}", retry=False)
        problem(admin.post(f"{lease}/renew", json={"ttl_s": 5}), 410, f"lease-{how}", retry=False)
        assert admin.post(f"{lease}/revoke").json() == {"revoked": False}
    assert state(admin, pool)["in_use"] == 1
    assert [item["lease_id"] for item in items(admin, f"{pool}/leases")] == [kept.rsplit("/", 1)[1]]


@pytest.mark.parametrize("reason", ['"%s"' % ("r" * 501), "null", "7", "[]"])
def test_a_wrong_reason_revokes_nothing(admin: httpx.Client, pool: str, reason: str) -> None:
    lease = lease_of(admin, pool)
    answer = admin.post(
        f"{lease}/revoke", content=f'{{"reason": {reason}}}', headers={"Content-Type": "application/json"}
    )
    problem(answer, 400, "invalid", "reason")
    problem(admin.post(f"{lease}/revoke", json={"why": "x"}), 400, "invalid", "why")
    assert state(admin, pool)["in_use"] == 1
    assert admin.post(f"{lease}/revoke", json={"reason": "r" * 500}).json() == {"revoked": True}


def test_a_lease_ends_by_itself_within_a_second_of_its_expiry(admin: httpx.Client, pool: str) -> None:
    lease_of(admin, pool, permits=2, ttl_s=0.2)
    begun = time.monotonic()
    waited = granted(admin.post(f"{pool}/acquire", json={"timeout_s": 5}))["waited_s"]
    assert 0.1 < time.monotonic() - begun < 1.2
    assert waited > 0.1
