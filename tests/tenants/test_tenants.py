"""Tenants, their keys and the change log over the API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from relay.tenants.models import ApiKey, Change, Tenant
from tests.control.cast import ALL, Api, Cast, refused


def test_a_tenant_is_made_changed_and_deleted(cast: Cast) -> None:
    response = cast.admin("POST", "/tenants", {"name": "ads", "weight": 2, "description": "Ranking"})
    assert response.status_code == 201
    assert response["Location"] == "/api/v1/tenants/ads"
    assert {k: response.json()[k] for k in ("name", "weight", "description")} == {
        "name": "ads",
        "weight": 2.0,
        "description": "Ranking",
    }
    refused(cast.admin("POST", "/tenants", {"name": "ads"}), 409, "in-use")
    assert cast.admin("PATCH", "/tenants/ads", {"weight": 0.5}).json()["weight"] == 0.5
    assert [item["name"] for item in cast.reader("GET", "/tenants").json()["items"]] == ["ads", "billing", "search"]
    assert cast.admin("DELETE", "/tenants/ads").status_code == 204
    refused(cast.reader("GET", "/tenants/ads"), 404, "not-found")


def test_wrong_tenants_are_refused(cast: Cast) -> None:
    refused(cast.admin("POST", "/tenants", {"name": "Ads"}), 400, "invalid", "name")
    for weight in (0, -1, "1", True, None, 1e9):
        refused(cast.admin("POST", "/tenants", {"name": "ads", "weight": weight}), 400, "invalid", "weight")
    refused(cast.operator("POST", "/tenants", {"name": "ads"}), 403, "forbidden")
    assert not Tenant.objects.filter(name="ads").exists()


def test_a_tenant_with_keys_or_shares_stays(cast: Cast) -> None:
    cast.admin("POST", "/tenants", {"name": "ads"})
    key = cast.admin("POST", "/tenants/ads/keys", {"scopes": ["permits"]}).json()
    refused(cast.admin("DELETE", "/tenants/ads"), 409, "in-use")
    cast.admin("DELETE", f"/tenants/ads/keys/{key['id']}")
    cast.operator("POST", "/pools", {"name": "gpu", "capacity": 4})
    cast.operator("PUT", "/pools/gpu/tenants/ads", {"limit": 1})
    refused(cast.admin("DELETE", "/tenants/ads"), 409, "in-use")
    cast.operator("DELETE", "/pools/gpu/tenants/ads")
    assert cast.admin("DELETE", "/tenants/ads").status_code == 204


def test_a_key_is_shown_once_and_its_secret_kept_nowhere(cast: Cast) -> None:
    response = cast.admin("POST", "/tenants/billing/keys", {"name": "CI job", "scopes": ["read", "permits"]})
    assert response.status_code == 201
    document = response.json()
    key, key_id = document.pop("key"), document["id"]
    assert response["Location"] == f"/api/v1/tenants/billing/keys/{key_id}"
    assert key.startswith(f"relay_{key_id}_")
    assert document["scopes"] == ["permits", "read"]
    assert Api(key)("GET", "/pools").status_code == 200
    listed = [item for item in cast.reader("GET", "/tenants/billing/keys").json()["items"] if item["id"] == key_id]
    assert listed == [document]
    secret = key.split("_", 2)[2]
    assert secret not in str(list(ApiKey.objects.values())) + str(list(Change.objects.values()))
    assert ApiKey.objects.get(id=key_id).digest not in str(list(Change.objects.values()))


def test_a_revoked_key_is_worth_nothing(cast: Cast) -> None:
    document = cast.admin("POST", "/tenants/billing/keys", {"scopes": ["read"]}).json()
    path = f"/tenants/billing/keys/{document['id']}"
    refused(cast.admin("DELETE", path.replace("billing", "search")), 404, "not-found")
    assert cast.admin("DELETE", f"{path}?reason=leaked").status_code == 204
    refused(Api(document["key"])("GET", "/pools"), 401, "unauthenticated")
    refused(cast.admin("DELETE", path), 404, "not-found")
    assert document["id"] not in str(cast.reader("GET", "/tenants/billing/keys").json())


def test_nobody_grants_a_scope_that_they_lack(cast: Cast) -> None:
    scopes = {"scopes": ["admin"]}
    limited = Api(cast.admin("POST", "/tenants/search/keys", scopes).json()["key"])
    assert limited("POST", "/tenants/search/keys", {"scopes": ["operate", "read"]}).status_code == 201
    refused(limited("POST", "/tenants/search/keys", {"scopes": ["permits"]}), 403, "forbidden")
    refused(cast.operator("POST", "/tenants/search/keys", {"scopes": ["read"]}), 403, "forbidden")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes[0]"),
        ({"scopes": "read"}, "scopes"),
        ({"scopes": ["read"], "expires_at": "2001-01-01T00:00:00Z"}, "expires_at"),
        ({"scopes": ["read"], "expires_at": "2100-01-01T00:00:00"}, "expires_at"),
        ({"scopes": ["read"], "expires_at": 4102444800}, "expires_at"),
        ({"scopes": ["read"], "name": "x" * 101}, "name"),
        ({"scopes": ["read"], "tenant": "billing"}, "tenant"),
    ],
)
def test_wrong_keys_are_refused(cast: Cast, body: dict[str, Any], field: str) -> None:
    before = ApiKey.objects.count()
    refused(cast.admin("POST", "/tenants/search/keys", body), 400, "invalid", field)
    refused(cast.admin("POST", "/tenants/none/keys", {"scopes": ["read"]}), 404, "not-found")
    assert ApiKey.objects.count() == before


def test_a_key_expires(cast: Cast) -> None:
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    document = cast.admin("POST", "/tenants/search/keys", {"scopes": ["read"], "expires_at": soon}).json()
    assert Api(document["key"])("GET", "/pools").status_code == 200
    ApiKey.objects.filter(id=document["id"]).update(expires_at=datetime.now(UTC))
    assert "expired" in refused(Api(document["key"])("GET", "/pools"), 401, "unauthenticated")["detail"]


def test_a_reader_sees_the_changes_of_its_own_tenant_only(cast: Cast) -> None:
    cast.operator("POST", "/pools", {"name": "gpu", "capacity": 4})
    for tenant in ("search", "billing"):
        cast.operator("PUT", "/pools/gpu/tenants/" + tenant, {"limit": 1, "reason": "trial"})
    everything = cast.operator("GET", "/changes").json()["items"]
    assert {item["tenant"] for item in everything} == {"", "search", "billing"}
    assert everything[0]["after"]["limit"] == 1
    assert everything[0]["before"] is None
    assert everything[0]["reason"] == "trial"
    assert [item["id"] for item in everything] == sorted((item["id"] for item in everything), reverse=True)
    assert {item["tenant"] for item in cast.other_reader("GET", "/changes").json()["items"]} == {"billing"}
    page = cast.operator("GET", "/changes?limit=3").json()
    rest = cast.operator("GET", f"/changes?cursor={page['next']}").json()
    assert page["items"] + rest["items"] == everything
    refused(cast.permits("GET", "/changes"), 403, "forbidden")


def test_cookies_do_not_count(cast: Cast, client: Any, django_user_model: Any) -> None:
    client.force_login(django_user_model.objects.create_superuser("root", password="x"))
    refused(client.get("/api/v1/pools"), 401, "unauthenticated")


@pytest.mark.parametrize("header", ["Basic abc", "Bearer", "Bearer ", "Bearer relay_x_y", "relay_x_y", "Bearer é", " "])
def test_wrong_keys_do_not_open_anything(cast: Cast, header: str) -> None:
    refused(cast.nobody("GET", "/pools", Authorization=header), 401, "unauthenticated")


def test_the_command_prints_the_key_and_nothing_else(cast: Cast) -> None:
    out = StringIO()
    call_command("create_api_key", tenant="fresh", scopes=",".join(ALL), name="ops", stdout=out)
    key = out.getvalue()
    assert key.count("\n") == 1
    assert Api(key.strip())("GET", "/tenants/fresh").status_code == 200
    change = Change.objects.filter(kind="api-key").first()
    assert change is not None
    assert (change.actor_kind, change.tenant) == ("command", "fresh")
    for wrong in ({"tenant": "Bad"}, {"tenant": "fresh", "scopes": "read,root"}, {"tenant": "fresh", "scopes": ""}):
        with pytest.raises(CommandError):
            call_command("create_api_key", **wrong)
