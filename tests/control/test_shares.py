"""Tenants' shares of pools: validation, guarantees, versions."""

from __future__ import annotations

from typing import Any

import pytest

from relay.permits.models import Pool
from relay.tenants.models import Change
from tests.control.cast import Cast, refused

PATH = "/pools/gpu/tenants"
NONE: dict[str, Any] = {"weight": None, "limit": None, "guarantee": 0, "max_waiters": None, "max_priority": None}


@pytest.fixture
def pool(cast: Cast) -> None:
    """A pool of 10."""
    assert cast.operator("POST", "/pools", {"name": "gpu", "capacity": 10}).status_code == 201


@pytest.mark.usefixtures("pool")
def test_a_share_is_set_whole(cast: Cast) -> None:
    full = {"weight": 2.5, "limit": 6, "guarantee": 2, "max_waiters": 50, "max_priority": "batch"}
    response = cast.operator("PUT", f"{PATH}/search", full)
    assert response.status_code == 200
    assert response.json() == {"tenant": "search"} | full
    assert Pool.objects.get().version == 2
    assert cast.operator("PUT", f"{PATH}/search", {"limit": 4}).json() == {"tenant": "search"} | NONE | {"limit": 4}
    assert cast.operator("PUT", f"{PATH}/search", {"limit": 4}).status_code == 200
    assert Pool.objects.get().version == 3
    assert cast.reader("GET", f"{PATH}/search").json()["limit"] == 4
    change = Change.objects.first()
    assert change is not None
    assert (change.kind, change.action, change.pool, change.tenant) == ("share", "update", "gpu", "search")


@pytest.mark.usefixtures("pool")
def test_shares_are_listed_and_deleted(cast: Cast) -> None:
    for tenant in ("search", "billing"):
        cast.operator("PUT", f"{PATH}/{tenant}", {"limit": 1})
    assert [item["tenant"] for item in cast.reader("GET", PATH).json()["items"]] == ["billing", "search"]
    page = cast.reader("GET", f"{PATH}?limit=1").json()
    rest = cast.reader("GET", f"{PATH}?limit=1&cursor={page['next']}").json()
    assert [item["tenant"] for item in page["items"] + rest["items"]] == ["billing", "search"]
    assert rest["next"] is None
    assert cast.operator("DELETE", f"{PATH}/billing").status_code == 204
    assert Pool.objects.get().version == 4
    refused(cast.operator("DELETE", f"{PATH}/billing"), 404, "not-found")
    refused(cast.reader("GET", f"{PATH}/billing"), 404, "not-found")
    assert Pool.objects.get().version == 4


@pytest.mark.usefixtures("pool")
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"guarantee": 3, "limit": 2}, "guarantee"),
        ({"guarantee": 11}, "guarantee"),
        ({"guarantee": None}, "guarantee"),
        ({"guarantee": -1}, "guarantee"),
        ({"limit": -1}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"weight": 0}, "weight"),
        ({"weight": "2"}, "weight"),
        ({"max_waiters": True}, "max_waiters"),
        ({"max_priority": "urgent"}, "max_priority"),
        ({"tenant": "search"}, "tenant"),
    ],
)
def test_a_wrong_share_is_refused(cast: Cast, body: dict[str, Any], field: str) -> None:
    refused(cast.operator("PUT", f"{PATH}/search", body), 400, "invalid", field)
    assert Pool.objects.get().version == 1


@pytest.mark.usefixtures("pool")
def test_guarantees_above_the_capacity_are_refused_when_raised_and_a_resize_warns(cast: Cast) -> None:  # rule 6
    assert cast.operator("PUT", f"{PATH}/search", {"guarantee": 6}).status_code == 200
    refused(cast.operator("PUT", f"{PATH}/billing", {"guarantee": 5}), 400, "invalid", "guarantee")
    assert cast.operator("PUT", f"{PATH}/billing", {"guarantee": 4}).status_code == 200
    smaller = cast.operator("PATCH", "/pools/gpu", {"capacity": 5})
    assert smaller.status_code == 200
    assert "10" in smaller.json()["warnings"][0]
    assert cast.operator("PUT", f"{PATH}/search", {"guarantee": 5, "limit": 5}).status_code == 200  # lowered: allowed
    refused(cast.operator("PUT", f"{PATH}/search", {"guarantee": 6}), 400, "invalid", "guarantee")
    assert "warnings" not in cast.operator("PATCH", "/pools/gpu", {"capacity": 9}).json()


@pytest.mark.usefixtures("pool")
def test_a_share_needs_its_pool_and_its_tenant(cast: Cast) -> None:
    refused(cast.operator("PUT", "/pools/none/tenants/search", {}), 404, "pool-not-found")
    refused(cast.operator("PUT", f"{PATH}/none", {}), 404, "not-found")
    refused(cast.operator("PUT", f"{PATH}/search"), 400, "invalid", "body")
