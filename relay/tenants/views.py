"""The control plane of tenants, their API keys, and the change log. Views parse, call, render."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct
from rest_framework.request import Request
from rest_framework.response import Response

from relay.api import (
    ApiView,
    actor,
    listed,
    make_cursor,
    named_page,
    offset_page,
    page_cursor,
    page_limit,
    principal,
    query_reason,
    read_object,
    visible_tenant,
)
from relay.openapi import LIST_QUERY, REASON_QUERY, documented, list_of, ref
from relay.tenants import config
from relay.tenants.changes import change_answer
from relay.tenants.fields import checked
from relay.tenants.keyring import Scope
from relay.tenants.keys import create_key, find_key, key_fields, revoke_key
from relay.tenants.models import ApiKey, Change, Tenant

LOCATION = {"Location": {"type": "string"}}


class NewKey(Struct, forbid_unknown_fields=True, kw_only=True):
    """What makes an API key."""

    scopes: Annotated[list[Scope], Meta(min_length=1)]
    name: Annotated[str, Meta(max_length=100)] = ""
    expires_at: Annotated[datetime, Meta(tz=True)] | None = None


class TenantsView(ApiView):
    """`/tenants`."""

    write_scope = "admin"

    @documented(
        "list_tenants", "The tenants, by name", answer=list_of("Tenant"), problems=("invalid",), query=LIST_QUERY
    )
    def get(self, request: Request) -> Response:
        """A page of tenants."""
        rows, following = named_page(request, Tenant.objects.all())
        return listed([config.tenant_answer(row) for row in rows], following)

    @documented(
        "create_tenant",
        "Makes a tenant",
        answer=ref("Tenant"),
        status=201,
        body="NewTenant",
        problems=("in-use", "engine-unavailable"),
        headers=LOCATION,
    )
    def post(self, request: Request) -> Response:
        """Makes a tenant."""
        fields, reason = read_object(request)
        row = config.create_tenant(fields, actor=actor(request), reason=reason)
        return Response(config.tenant_answer(row), 201, headers={"Location": f"/api/v1/tenants/{row.name}"})


class TenantView(ApiView):
    """`/tenants/{tenant}`."""

    write_scope = "admin"

    @documented("get_tenant", "One tenant", answer=ref("Tenant"), problems=("not-found",))
    def get(self, request: Request, tenant: str) -> Response:
        """One tenant."""
        return Response(config.tenant_answer(config.find_tenant(tenant)))

    @documented(
        "update_tenant",
        "Changes a tenant; a weight works at once",
        answer=ref("Tenant"),
        body="TenantPatch",
        problems=("not-found", "engine-unavailable"),
    )
    def patch(self, request: Request, tenant: str) -> Response:
        """Changes a tenant."""
        fields, reason = read_object(request)
        row = config.update_tenant(tenant, fields, actor=actor(request), reason=reason)
        return Response(config.tenant_answer(row))

    @documented(
        "delete_tenant",
        "Deletes a tenant that has no keys, shares, leases or waiters",
        answer=None,
        status=204,
        problems=("invalid", "not-found", "in-use", "engine-unavailable"),
        query=REASON_QUERY,
    )
    def delete(self, request: Request, tenant: str) -> Response:
        """Deletes a tenant."""
        config.delete_tenant(tenant, actor=actor(request), reason=query_reason(request))
        return Response(status=204)


class KeysView(ApiView):
    """`/tenants/{tenant}/keys`."""

    write_scope = "admin"

    @documented(
        "list_keys",
        "A tenant's API keys that are not revoked, without their secrets, the oldest first",
        answer=list_of("Key"),
        problems=("invalid", "not-found"),
        query=LIST_QUERY,
    )
    def get(self, request: Request, tenant: str) -> Response:
        """A page of keys."""
        owner = config.find_tenant(tenant)
        rows = ApiKey.objects.filter(tenant=owner, revoked_at=None).select_related("tenant")
        found, following = offset_page(request, lambda offset, limit: list(rows[offset : offset + limit]))
        return listed([key_fields(row) for row in found], following)

    @documented(
        "create_key",
        "Makes an API key. `key` is its text: shown here, and never again",
        answer=ref("KeyOnce"),
        status=201,
        body="NewKey",
        problems=("not-found", "engine-unavailable"),
        headers=LOCATION,
    )
    def post(self, request: Request, tenant: str) -> Response:
        """Makes a key. Nobody grants a scope that they lack."""
        fields, reason = read_object(request)
        new = checked(fields, NewKey)
        scopes = principal(request).scopes
        key, row = create_key(
            tenant, new.name, new.scopes, actor(request), new.expires_at, grantor=scopes, reason=reason
        )
        location = f"/api/v1/tenants/{row.tenant.name}/keys/{row.id}"
        return Response(key_fields(row) | {"key": key}, 201, headers={"Location": location})


class KeyView(ApiView):
    """`/tenants/{tenant}/keys/{id}`."""

    write_scope = "admin"

    @documented("get_key", "An API key, without its secret", answer=ref("Key"), problems=("not-found",))
    def get(self, request: Request, tenant: str, key: str) -> Response:
        """One key."""
        return Response(key_fields(find_key(tenant, key)))

    @documented(
        "revoke_key",
        "Revokes an API key, at once",
        answer=None,
        status=204,
        problems=("invalid", "not-found", "engine-unavailable"),
        query=REASON_QUERY,
    )
    def delete(self, request: Request, tenant: str, key: str) -> Response:
        """Revokes a key."""
        revoke_key(tenant, key, actor(request), reason=query_reason(request))
        return Response(status=204)


class ChangesView(ApiView):
    """`/changes`."""

    @documented(
        "list_changes",
        "Every change of configuration, the newest first; without `operate` those of one's own tenant only",
        answer=list_of("Change"),
        problems=("invalid",),
        query=LIST_QUERY,
    )
    def get(self, request: Request) -> Response:
        """A page of changes."""
        limit, before = page_limit(request), page_cursor(request, int)
        _, tenant = visible_tenant(request)
        rows = Change.objects.order_by("-id")
        if tenant is not None:
            rows = rows.filter(tenant=tenant)
        if before is not None:
            rows = rows.filter(id__lt=before)
        found = list(rows[: limit + 1])
        following = make_cursor(found[limit - 1].id) if len(found) > limit else None
        return listed([change_answer(row) for row in found[:limit]], following)
