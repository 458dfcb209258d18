"""How a view of the control plane says in the OpenAPI document what it takes and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, extend_schema

F = TypeVar("F", bound=Callable[..., Any])

Schema = dict[str, Any]

PROBLEM: Schema = {
    "type": "object",
    "description": "RFC 9457. `code` is stable; `retry_after_s` stands wherever another try may succeed.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "errors": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        "retry_after_s": {"type": "number"},
    },
    "required": ["type", "title", "status", "detail", "code"],
}

# status -> the codes that it stands for, by the names that `documented` and the data plane use
PROBLEMS: dict[str, tuple[int, str]] = {
    "invalid": (400, "`invalid`; `errors` names the fields"),
    "acquire-invalid": (400, "`invalid`, `exceeds-capacity`, `exceeds-tenant-limit`"),
    "unauthenticated": (401, "`unauthenticated`"),
    "forbidden": (403, "`forbidden`: the key lacks the scope"),
    "not-found": (404, "`not-found`"),
    "pool-not-found": (404, "`pool-not-found`"),
    "model-not-found": (404, "`model-not-found`"),
    "share-not-found": (404, "`pool-not-found`, or `not-found` for the tenant or its share"),
    "lease-not-found": (404, "`lease-not-found`"),
    "pool-exists": (409, "`pool-exists`"),
    "in-use": (409, "`in-use`: what has leases, waiters or references, or a name that is taken"),
    "acquire-conflict": (409, "`superseded`, `waiter-cancelled`, `would-deadlock`"),
    "lease-ended": (410, "`lease-released`, `lease-expired`, `lease-revoked`, `lease-dropped`"),
    "version-conflict": (412, "`version-conflict`: If-Match is stale"),
    "body-too-large": (413, "`body-too-large`"),
    "not-json": (415, "`not-json`"),
    "idempotency-conflict": (422, "`idempotency-conflict`"),
    "acquire-busy": (429, "`acquire-timeout`, `queue-full`, `rate-limited`"),
    "acquire-unavailable": (
        503,
        "`pool-paused`, `pool-draining`, `engine-unavailable`, `tokenizer-unavailable`, `shutting-down`",
    ),
    "engine-unavailable": (503, "`engine-unavailable`, `shutting-down`"),
}

LIST_QUERY = [
    OpenApiParameter("limit", {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}),
    OpenApiParameter("cursor", str, description="`next` of the page before"),
]
REASON_QUERY = [OpenApiParameter("reason", {"type": "string", "maxLength": 500}, description="Kept in the change log")]
IF_MATCH = [
    OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description='The ETag of the pool as read, or "*"')
]


def range_query(default: str) -> OpenApiParameter:
    """`?range=`."""
    return OpenApiParameter("range", {"type": "string", "pattern": "^[0-9]{1,6}[smhd]$", "default": default})


class KeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """An API key as a bearer token."""

    target_class = "relay.api.KeyAuthentication"
    name = "key"

    def get_security_definition(self, auto_schema: Any) -> Schema:
        """The scheme."""
        return KEY_SCHEME


KEY_SCHEME: Schema = {"type": "http", "scheme": "bearer", "bearerFormat": "relay_<id>_<secret>"}
# for clients of other services, at the addresses that look like theirs
HEADER_KEY_SCHEME: Schema = {"type": "apiKey", "in": "header", "name": "x-api-key"}


def ref(name: str) -> Schema:
    """A component's reference."""
    return {"$ref": f"#/components/schemas/{name}"}


def list_of(name: str) -> Schema:
    """A list's answer."""
    return {
        "type": "object",
        "properties": {"items": {"type": "array", "items": ref(name)}, "next": {"type": ["string", "null"]}},
        "required": ["items", "next"],
    }


def problem_answers(names: tuple[str, ...]) -> dict[str, Schema]:
    """The `responses` of an operation for these problems, those of one status joined."""
    texts: dict[int, list[str]] = {}
    for name in names:
        status, text = PROBLEMS[name]
        texts.setdefault(status, []).append(text)
    return {
        str(status): {
            "description": "; ".join(found),
            "content": {"application/problem+json": {"schema": ref("Problem")}},
        }
        for status, found in sorted(texts.items())
    }


# What `documented` collected, by operation id; `relay.schema.document` puts it into drf-spectacular's document.
operations: dict[str, Schema] = {}


def documented(
    operation: str,
    summary: str,
    *,
    answer: Schema | None,
    status: int = 200,
    body: str | None = None,
    body_required: bool = True,
    problems: tuple[str, ...] = (),
    query: list[OpenApiParameter] | None = None,
    headers: Mapping[str, Schema] | None = None,
) -> Callable[[F], F]:
    """Describes a view's method. `body` is a component's name; 401, 403 and a body's 400, 413, 415 are added."""
    names = ("unauthenticated", "forbidden", *problems)
    if body is not None:
        names += tuple(name for name in ("invalid", "body-too-large", "not-json") if name not in names)
    success: Schema = {"description": summary}
    if answer is not None:
        success["content"] = {"application/json": {"schema": answer}}
    if headers:
        success["headers"] = {name: {"schema": schema} for name, schema in headers.items()}
    found: Schema = {"responses": {str(status): success} | problem_answers(names)}
    if body is not None:
        found["requestBody"] = {
            "required": body_required,
            "content": {"application/json": {"schema": ref(body)}},
        }
    operations[operation] = found
    return extend_schema(operation_id=operation, summary=summary, parameters=query, request=None, responses={})
