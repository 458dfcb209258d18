"""Fixtures of the cases over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.relay_server import RelayServer


@pytest.fixture
def admin(relay: RelayServer) -> Iterator[httpx.Client]:
    """The first start's key: tenant `default`, all scopes."""
    with relay.http() as client:
        yield client
