"""A disk that refuses the journal: nothing is granted, everything else works, and it heals without a restart.

The limit on the size of a file (RLIMIT_FSIZE) of the running server stands for a full disk: a write beyond it fails.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.conftest import NewRelay
from tests.http.wire import Call, gauge, granted, items, make_pool, problem, state, until, waiting
from tests.relay_server import RelayServer

ROOM = 64 * 1024  # more than the server's log and SQLite's side files need, less than the journal below
FILLING = {"m": "x" * 2000}


def fill(admin: httpx.Client, pool: str, number: int = 50, **body: Any) -> list[str]:
    """Leases that make the journal, and a snapshot of it, larger than there will be room for; their paths."""
    body = {"metadata": FILLING, "ttl_s": 600, **body}
    leases = [granted(admin.post(f"{pool}/acquire", json=body)) for _ in range(number)]
    return [f"/api/v1/leases/{lease['lease_id']}" for lease in leases]


@contextmanager
def full_disk(server: RelayServer, room: int = ROOM) -> Iterator[None]:
    """While this lasts, no file of the server can grow beyond `room` bytes."""
    before = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, before)


def ready(admin: httpx.Client) -> int:
    """The status of /readyz."""
    return admin.get("/readyz").status_code


def test_a_full_disk_stops_grants_only_and_heals_without_a_restart(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "gpu", 51)
        paths = fill(admin, pool)
        last = granted(admin.post(f"{pool}/acquire"))
        waiter = Call(server, f"{pool}/acquire")
        until(lambda: waiting(admin, pool) == 1)
        with full_disk(server):
            assert admin.post(f"{paths[0]}/release").json()["released"] is True  # whose permit goes to nobody
            problem(waiter.answer(), 503, "engine-unavailable", retry=True)
            assert state(admin, pool)["in_use"] == 50
            for timeout_s in (0, 5):
                answer = admin.post(f"{pool}/acquire", json={"timeout_s": timeout_s})
                problem(answer, 503, "engine-unavailable", retry=True)
            assert ready(admin) == 503
            assert admin.get("/healthz").status_code == 200
            assert gauge(admin.get("/metrics").text, "relay_engine_up", engine="memory") == 0
            renewed = granted(admin.post(f"/api/v1/leases/{last['lease_id']}/renew", json={"ttl_s": 900}), 200)
            assert renewed["ttl_s"] == 900
            assert admin.post(f"{paths[1]}/release").json()["released"] is True
            assert admin.post(f"{paths[2]}/revoke").json()["revoked"] is True
            time.sleep(1.2)  # it tries again once a second
            problem(admin.post(f"{pool}/acquire", json={"timeout_s": 0}), 503, "engine-unavailable", retry=True)
            assert (ready(admin), state(admin, pool)["in_use"]) == (503, 48)
        until(lambda: ready(admin) == 200, timeout_s=5)
        lease = granted(admin.post(f"{pool}/acquire", json={"timeout_s": 0}))
        assert lease["fencing_token"] > last["fencing_token"]
        survives(
            server, admin, pool, {*(path.rsplit("/", 1)[1] for path in paths[3:]), last["lease_id"], lease["lease_id"]}
        )


def survives(server: RelayServer, admin: httpx.Client, pool: str, leases: set[str]) -> None:
    """Asserts that these leases, and no others, live now and after kill -9."""
    assert {item["lease_id"] for item in items(admin, f"{pool}/leases")} == leases
    server.kill9()
    server.start()
    assert {item["lease_id"] for item in items(admin, f"{pool}/leases")} == leases
    assert state(admin, pool)["in_use"] == len(leases)


def test_a_record_that_was_torn_by_the_full_disk_is_neither_granted_nor_in_the_way_later(new_relay: NewRelay) -> None:
    server = new_relay()
    with server.http() as admin:
        pool = make_pool(admin, "gpu", 100)
        paths = fill(admin, pool)
        journal = max((server.data_dir / "engine").glob("journal-*"))
        with full_disk(server, journal.stat().st_size + 500):  # room for a part of the next record
            problem(admin.post(f"{pool}/acquire", json={"metadata": FILLING}), 503, "engine-unavailable", retry=True)
            assert state(admin, pool)["in_use"] == 50
        until(lambda: ready(admin) == 200, timeout_s=5)
        lease = granted(admin.post(f"{pool}/acquire", json={"metadata": FILLING}))
        survives(server, admin, pool, {*(path.rsplit("/", 1)[1] for path in paths), lease["lease_id"]})


def test_with_every_grant_synced_a_full_disk_fails_closed_likewise(new_relay: NewRelay) -> None:
    server = new_relay(env={"RELAY_JOURNAL_SYNC": "always"})
    with server.http() as admin:
        pool = make_pool(admin, "gpu", 50)
        paths = fill(admin, pool)
        waiter = Call(server, f"{pool}/acquire")
        until(lambda: waiting(admin, pool) == 1)
        with full_disk(server):
            assert admin.post(f"{paths[0]}/release").json()["released"] is True
            problem(waiter.answer(), 503, "engine-unavailable", retry=True)
            problem(admin.post(f"{pool}/acquire"), 503, "engine-unavailable", retry=True)
            granted(admin.post(f"{paths[1]}/renew", json={"ttl_s": 900}), 200)
        until(lambda: ready(admin) == 200, timeout_s=5)
        lease = granted(admin.post(f"{pool}/acquire"))
        survives(server, admin, pool, {*(path.rsplit("/", 1)[1] for path in paths[1:]), lease["lease_id"]})
