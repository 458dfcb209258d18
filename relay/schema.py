"""The OpenAPI 3.1 document of both planes, and its page.

The control plane's operations come from drf-spectacular and `relay.openapi.documented`, the permits' data plane from here,
the tokens' from `relay.tokens.schema`.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.generators import SchemaGenerator

from relay import http
from relay.api_urls import configuration
from relay.middleware import content_security_policy
from relay.openapi import HEADER_KEY_SCHEME, KEY_SCHEME, PROBLEM, Schema, operations, problem_answers, ref
from relay.permits import api, lease_api, serializers, several_api, shapes
from relay.permits.engine.base import LeaseAnswer
from relay.permits.sizing.sizer import Sizing
from relay.permits.sizing_views import PoolSizing, SizingPatch
from relay.tenants import config as tenants
from relay.tenants.changes import REASON_LIMIT
from relay.tenants.views import NewKey
from relay.tokens import schema as tokens
from relay.tokens.config import ModelPatch, NewModel
from relay.tokens.usage_views import Usage
from relay.tokens.views import Model

BASE = "/api/v1"
CONFIGURING = (
    serializers.NewPool,
    serializers.PoolPatch,
    serializers.ShareBody,
    serializers.NewClass,
    serializers.ClassPatch,
    tenants.NewTenant,
    tenants.TenantPatch,
    NewKey,
    Sizing,
    SizingPatch,
    NewModel,
    ModelPatch,
    shapes.Reason,
)
SHAPES = (
    shapes.Pool,
    shapes.Share,
    shapes.PriorityClass,
    shapes.Tenant,
    shapes.Key,
    shapes.KeyOnce,
    shapes.Change,
    LeaseAnswer,
    shapes.Waiter,
    shapes.History,
    PoolSizing,
    Model,
    Usage,
    shapes.Revoked,
    shapes.Cancelled,
    api.ReleaseAnswer,
    api.AcquireBody,
    lease_api.ResizeBody,
    lease_api.ResumeBody,
    lease_api.YieldBody,
    several_api.AcquireSeveralBody,
    several_api.SeveralLeases,
    api.RenewBody,
    api.ReleaseBody,
)
METHODS = ("get", "put", "post", "patch", "delete")


@lru_cache(maxsize=1)
def document() -> Schema:
    """The whole document. Made once: it depends on the code alone."""
    found: Schema = SchemaGenerator(patterns=configuration).get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    paths = {f"{BASE}{path}": _completed(item) for path, item in found["paths"].items()}
    return found | {
        "openapi": "3.1.0",
        "paths": dict(sorted((paths | data_plane_paths() | tokens.openapi()).items())),
        "components": {
            "schemas": components(),
            "securitySchemes": {"key": KEY_SCHEME, "header_key": HEADER_KEY_SCHEME},
        },
        "security": [{"key": []}],
        "servers": [{"url": "/"}],
    }


def _completed(item: Schema) -> Schema:
    return {
        method: operation | operations[operation["operationId"]] | {"tags": ["configuration"]}
        if method in METHODS
        else operation
        for method, operation in item.items()
    }


def components() -> dict[str, Schema]:
    """The schemas by name; every configuring body takes a `reason`."""
    _, found = msgspec.json.schema_components([*CONFIGURING, *SHAPES], ref_template="#/components/schemas/{name}")
    for shape in CONFIGURING:
        found[shape.__name__].setdefault("properties", {})["reason"] = {
            "type": "string",
            "maxLength": REASON_LIMIT,
            "description": "Why; kept in the change log",
        }
    return {"Problem": PROBLEM} | found


def data_plane_paths() -> dict[str, Schema]:
    """Acquire, renew, release, and one's own lease."""
    lease = _parameter("id", "path")
    return {
        f"{BASE}/pools/{{pool}}/acquire": {"post": _acquire()},
        f"{BASE}/acquire": {"post": _acquire_several()},
        f"{BASE}/leases/{{id}}": {
            "get": _operation(
                "get_lease",
                "A live lease: one's own with `permits`, any with `operate`",
                {"200": _answer("LeaseAnswer", "The lease")},
                ("unauthenticated", "forbidden", "lease-not-found", "lease-ended", "engine-unavailable"),
                [lease],
            )
        },
        f"{BASE}/leases/{{id}}/renew": {
            "post": _operation(
                "renew_lease",
                "Moves a lease's expiry forward, never back",
                {"200": _answer("LeaseAnswer", "The lease")},
                (*_BODY, "lease-not-found", "lease-ended", "engine-unavailable"),
                [lease],
                "RenewBody",
            )
        },
        f"{BASE}/leases/{{id}}/release": {
            "post": _operation(
                "release_lease",
                "Gives the permits back; a lease that has ended is answered too",
                {"200": _answer("ReleaseAnswer", "What the release found")},
                (*_BODY, "lease-not-found", "engine-unavailable"),
                [lease],
                "ReleaseBody",
            )
        },
        f"{BASE}/leases/{{id}}/resize": {
            "post": _operation(
                "resize_lease",
                "Changes the permits of a live lease; more are had at once or not at all",
                {"200": _answer("LeaseAnswer", "The lease")},
                ("acquire-invalid", *_BODY[1:], *_LEASE, "acquire-busy", "acquire-unavailable"),
                [lease],
                "ResizeBody",
            )
        },
        f"{BASE}/leases/{{id}}/yield": {
            "post": _operation(
                "yield_lease",
                "Gives the permits back for a while; the lease lives on, and so does its time to live",
                {"200": _answer("LeaseAnswer", "The lease")},
                (*_BODY, *_LEASE, "engine-unavailable"),
                [lease],
                "YieldBody",
            )
        },
        f"{BASE}/leases/{{id}}/resume": {
            "post": _operation(
                "resume_lease",
                "Gets a yielded lease's permits back at its original place, with a new fencing token",
                {"200": _answer("LeaseAnswer", "The lease")},
                ("acquire-invalid", *_BODY[1:], *_LEASE, "acquire-conflict", "acquire-busy", "acquire-unavailable"),
                [lease],
                "ResumeBody",
            )
        },
    }


_LEASE = ("lease-not-found", "lease-ended")
_BODY = ("invalid", "unauthenticated", "forbidden", "body-too-large", "not-json")


def _acquire() -> Schema:
    key = _parameter("Idempotency-Key", "header", {"type": "string", "minLength": 1, "maxLength": 200})
    problems = (
        "acquire-invalid",
        *_BODY[1:],
        "pool-not-found",
        "model-not-found",
        "acquire-conflict",
        "idempotency-conflict",
        "acquire-busy",
        "acquire-unavailable",
    )
    successes = {
        "201": _answer("LeaseAnswer", "Granted by this call"),
        "200": _answer("LeaseAnswer", "It existed: a repeat"),
    }
    summary = "Acquires permits, waiting for them up to `timeout_s`"
    return _operation("acquire", summary, successes, problems, [_parameter("pool", "path"), key], "AcquireBody")


def _acquire_several() -> Schema:
    one = _acquire()
    successes = {
        "201": _answer("SeveralLeases", "Granted by this call"),
        "200": _answer("SeveralLeases", "They existed: a repeat"),
    }
    several = {
        "operationId": "acquire_several",
        "summary": "Acquires permits of several pools, all or nothing",
        "parameters": one["parameters"][1:],
        "requestBody": {"required": True, "content": {"application/json": {"schema": ref("AcquireSeveralBody")}}},
    }
    return one | several | {"responses": one["responses"] | successes}


def _operation(
    name: str,
    summary: str,
    successes: dict[str, Schema],
    problems: tuple[str, ...],
    parameters: list[Schema],
    body: str | None = None,
) -> Schema:
    found: Schema = {
        "operationId": name,
        "summary": summary,
        "tags": ["permits"],
        "parameters": parameters,
        "responses": successes | problem_answers(problems),
    }
    if body is not None:
        found["requestBody"] = {
            "required": body in ("RenewBody", "ResizeBody"),
            "content": {"application/json": {"schema": ref(body)}},
        }
    return found


def _answer(shape: str, description: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": ref(shape)}}}


def _parameter(name: str, place: str, schema: Schema | None = None) -> Schema:
    return {"name": name, "in": place, "required": place == "path", "schema": schema or {"type": "string"}}


@lru_cache(maxsize=1)
def _encoded() -> bytes:
    return http.encode_json(document())


@csrf_exempt
def schema(request: HttpRequest) -> HttpResponse:
    """`/api/v1/schema`, without a key."""
    if request.method not in ("GET", "HEAD"):
        return _not_allowed()
    return HttpResponse(_encoded(), content_type="application/json")


@csrf_exempt
def docs(request: HttpRequest) -> HttpResponse:
    """`/api/v1/docs`, without a key: Swagger UI from our own host. It sets styles by itself, so its policy lets it."""
    if request.method not in ("GET", "HEAD"):
        return _not_allowed()
    assets = "drf_spectacular_sidecar/swagger-ui-dist"
    page = render_to_string(
        "relay/docs.html",
        {
            "css": static(f"{assets}/swagger-ui.css"),
            "bundle": static(f"{assets}/swagger-ui-bundle.js"),
            "icon": static(f"{assets}/favicon-32x32.png"),
            "start": static("relay/docs.js"),
        },
    )
    policy = content_security_policy(style_src="'self' 'unsafe-inline'")
    return HttpResponse(page, headers={"Content-Security-Policy": policy})


def _not_allowed() -> HttpResponse:
    problem = http.method_not_allowed("GET")
    return HttpResponse(
        http.encode_json(problem.body()), status=405, content_type="application/problem+json", headers={"Allow": "GET"}
    )
