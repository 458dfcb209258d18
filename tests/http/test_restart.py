"""kill -9 with 1,000 leases held and 200 waiting (rule 20); journals that cannot be used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import NewRelay
from tests.http.wire import Call, gauge, granted, items, make_pool, problem, state, until, waiting
from tests.relay_server import ROOT, RelayServer, environment

HELD, WAITING, TTL_S = 1000, 200, 600


def hold(admin: httpx.Client, pool: str, number: int) -> list[dict[str, Any]]:
    """So many leases, each with a key of its own, in the order of their grants."""
    return [granted(acquire(admin, pool, n)) for n in range(number)]


def acquire(admin: httpx.Client, pool: str, number: int) -> httpx.Response:
    """The acquire of a numbered job."""
    body = {"holder": f"job-{number}", "metadata": {"n": number}, "ttl_s": TTL_S}
    return admin.post(f"{pool}/acquire", json=body, headers={"Idempotency-Key": f"job-{number}"})


def crowd(server: RelayServer, pool: str) -> list[Call]:
    """200 callers that wait."""
    calls = [Call(server, f"{pool}/acquire", {"timeout_s": 60}, timeout_s=60) for _ in range(WAITING)]
    with server.http() as admin:
        until(lambda: waiting(admin, pool) == WAITING)
    return calls


def lost(calls: list[Call]) -> None:
    """Asserts that none of these callers was answered."""
    for call in calls:
        with pytest.raises((ConnectionError, httpx.TransportError)):
            call.answer()


def kill(server: RelayServer, calls: list[Call]) -> None:
    """kill -9, and the callers that waited are lost."""
    server.kill9()
    lost(calls)


def shows_all(admin: httpx.Client, pool: str, leases: list[dict[str, Any]]) -> None:
    """Asserts that the pool, its list, its metrics and the callers agree on who holds, each for its full time."""
    shown = state(admin, pool)
    assert (shown["in_use"], shown["available"], shown["waiting"]) == (HELD, 0, 0)
    listed = items(admin, f"{pool}/leases")
    same = ("lease_id", "fencing_token", "holder", "metadata", "permits", "tenant", "priority", "ttl_s")
    assert [[item[name] for name in same] for item in listed] == [[lease[name] for name in same] for lease in leases]
    assert all(TTL_S - 30 < item["expires_in_s"] <= TTL_S for item in listed)
    metrics = admin.get("/metrics").text
    assert gauge(metrics, "relay_pool_permits_in_use", pool="gpu") == HELD
    assert gauge(metrics, "relay_pool_drift", pool="gpu") == 0


def test_kill_9_twice_loses_no_lease_and_gives_none_twice(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "gpu", HELD)
        leases = hold(admin, pool, HELD)
        calls = crowd(server, pool)
        early = granted(admin.post(f"/api/v1/leases/{leases[0]['lease_id']}/renew", json={"ttl_s": TTL_S}), 200)
        kill(server, calls)
        server.start()
        shows_all(admin, pool, leases)
        problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0}), 429, "acquire-timeout", retry=True)
        # clients come back with their keys: the same leases, nothing more
        for number in range(0, HELD, 50):
            assert granted(acquire(admin, pool, number), 200)["lease_id"] == leases[number]["lease_id"]
        server.kill9()
        server.start()
        shows_all(admin, pool, leases)
        renewed = granted(admin.post(f"/api/v1/leases/{early['lease_id']}/renew", json={"ttl_s": TTL_S}), 200)
        assert renewed["fencing_token"] == early["fencing_token"]
        goes_on(server, admin, pool, leases)


def goes_on(server: RelayServer, admin: httpx.Client, pool: str, leases: list[dict[str, Any]]) -> None:
    """Ends some leases and counts who gets their permits: as many as came free, with higher fencing tokens."""
    newcomers = crowd(server, pool)
    freed = 20
    for lease in leases[:freed]:
        path = f"/api/v1/leases/{lease['lease_id']}/release"
        assert admin.post(path).json()["released"] is True
        assert admin.post(path).json() == {"released": False, "reason": "already-released"}
    until(lambda: waiting(admin, pool) == WAITING - freed)
    live = items(admin, f"{pool}/leases")
    assert len(live) == state(admin, pool)["in_use"] == HELD
    highest = max(lease["fencing_token"] for lease in leases)
    answers = [granted(call.answer()) for call in newcomers[:freed]]  # first come, first served
    assert sorted(answer["fencing_token"] for answer in answers) == [answer["fencing_token"] for answer in answers]
    assert min(answer["fencing_token"] for answer in answers) > highest
    kept = {lease["lease_id"] for lease in leases[freed:]}
    assert {item["lease_id"] for item in live} == kept | {answer["lease_id"] for answer in answers}
    for call in newcomers[freed:]:
        call.leave()
    until(lambda: waiting(admin, pool) == 0)


def test_how_a_lease_ended_and_a_deleted_pools_fencing_tokens_outlive_kill_9(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "gpu", 5)
        leases = [granted(admin.post(f"{pool}/acquire")) for _ in range(3)]
        paths = [f"/api/v1/leases/{lease['lease_id']}" for lease in leases]
        admin.post(f"{paths[0]}/release").raise_for_status()
        admin.post(f"{paths[1]}/revoke").raise_for_status()
        server.kill9()
        server.start()
        problem(admin.post(f"{paths[0]}/renew", json={"ttl_s": 5}), 410, "lease-released")
        problem(admin.post(f"{paths[1]}/renew", json={"ttl_s": 5}), 410, "lease-revoked")
        assert state(admin, pool)["in_use"] == 1
        assert admin.delete(f"{pool}?force=true").status_code == 204
        server.kill9()
        server.start()
        problem(admin.post(f"{paths[2]}/renew", json={"ttl_s": 5}), 410, "lease-revoked")
        make_pool(admin, "gpu", 5)
        assert granted(admin.post(f"{pool}/acquire"))["fencing_token"] > leases[2]["fencing_token"]


def test_a_smaller_pool_after_kill_9_grants_nothing_until_there_is_room(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "gpu", 4)
        leases = [granted(admin.post(f"{pool}/acquire")) for _ in range(4)]
        admin.patch(pool, json={"capacity": 2}).raise_for_status()
        server.kill9()
        server.start()
        shown = state(admin, pool)
        assert (shown["in_use"], shown["available"], shown["over_limit"]) == (4, 0, 2)
        for lease in leases[:2]:
            admin.post(f"/api/v1/leases/{lease['lease_id']}/release").raise_for_status()
            problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0}), 429, "acquire-timeout")
        admin.post(f"/api/v1/leases/{leases[2]['lease_id']}/release").raise_for_status()
        granted(admin.post(f"{pool}/acquire", json={"timeout_s": 0}))


def journals(data_dir: Path) -> list[Path]:
    """The journal's segments, the oldest first."""
    return sorted((data_dir / "engine").glob("journal-*"))


def refusal(data_dir: Path) -> str:
    """The one line of a start that is refused."""
    result = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "serve", "--port", "0"],
        env=environment(data_dir),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode != 0
    assert "Traceback" not in result.stdout + result.stderr
    (line,) = [line for line in result.stderr.splitlines() if not re.search(r" (INFO|WARNING) ", line)]
    return line


def test_a_journal_that_cannot_be_used_is_refused_in_one_line_and_left_as_it_is(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "gpu", 100)
        lease = granted(admin.post(f"{pool}/acquire", json={"ttl_s": TTL_S}))
        for _ in range(20):
            granted(admin.post(f"{pool}/acquire", json={"metadata": {"m": "x" * 100}}))
    server.kill9()
    journal = journals(server.data_dir)[-1]
    good = journal.read_bytes()
    head, _, rest = good.partition(b"\n")
    bad = {
        "damaged at byte": good[:200] + bytes([good[200] ^ 0xFF]) + good[201:],
        "has format 999": head[:-3] + b"999\n" + rest,
        "is not a journal": b"something else entirely, and long enough to be one\n" * 20,
    }
    for words, data in bad.items():
        journal.write_bytes(data)
        line = refusal(server.data_dir)
        assert words in line
        assert str(journal) in line
        assert journal.read_bytes() == data
    journal.write_bytes(good)
    server.start()
    with server.http() as admin:
        granted(admin.get(f"/api/v1/leases/{lease['lease_id']}"), 200)
        assert state(admin, pool)["in_use"] == 21
