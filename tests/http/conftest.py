"""Fixtures of the data plane's tests: a pool on the shared server, and keys that may do little."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.http.wire import key_of, make_pool
from tests.relay_server import RelayServer


@dataclass(frozen=True)
class Keys:
    """API keys of the tenant `http-other`, by what they may do."""

    permits: str
    read: str
    tokens: str


@pytest.fixture
def admin(relay: RelayServer) -> Iterator[httpx.Client]:
    """The first start's key: tenant `default`, all scopes."""
    with relay.http() as client:
        yield client


@pytest.fixture(scope="session")
def keys(relay: RelayServer) -> Keys:
    """Another tenant's keys."""
    with relay.http() as client:
        return Keys(*(key_of(client, "http-other", scope) for scope in ("permits", "read", "tokens")))


@pytest.fixture
def pool(admin: httpx.Client, pool_name: str) -> Iterator[str]:
    """The path of a pool of 2, which is deleted at the end."""
    path = make_pool(admin, pool_name, 2)
    yield path
    assert admin.delete(f"{path}?force=true").status_code in (204, 404)
