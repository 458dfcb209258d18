"""The people of the control plane's tests: each key says what its holder may do, so every test states a permission too."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.test import Client

from relay.tenants.changes import Actor
from relay.tenants.keys import create_key

SETUP = Actor("system", "tests")
ALL = ("permits", "tokens", "read", "operate", "admin")


@dataclass
class Api:
    """One caller of the API, through Django's client."""

    key: str | None

    def __call__(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str) -> Any:
        """Sends a request; `body` as JSON, or `raw` as it is. Header names with underscores."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.key is not None:
            sent.setdefault("Authorization", f"Bearer {self.key}")
        content_type = sent.pop("Content-Type", "application/json")
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        return Client().generic(method, f"/api/v1{path}", data, content_type=content_type, headers=sent)


@dataclass
class Cast:
    """`search` has a reader, an operator and an admin; `billing` another reader; both have keys for permits alone."""

    reader: Api
    operator: Api
    admin: Api
    other_reader: Api
    permits: Api
    other_permits: Api
    nobody: Api


def make_cast() -> Cast:
    """Makes the tenants and keys in the database."""

    def key(tenant: str, *scopes: str) -> Api:
        return Api(create_key(tenant, "-".join(scopes), scopes, SETUP, make_tenant=True)[0])

    return Cast(
        reader=key("search", "read"),
        operator=key("search", "operate"),
        admin=key("search", *ALL),
        other_reader=key("billing", "read"),
        permits=key("search", "permits"),
        other_permits=key("billing", "permits"),
        nobody=Api(None),
    )


def refused(response: Any, status: int, code: str, field: str | None = None) -> dict[str, Any]:
    """Asserts that an answer is this problem (and names the field), and gives its document."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    assert document["code"] == code
    assert document["type"].endswith(code)
    assert document["title"]
    assert document["detail"]
    if field is not None:
        assert field in document["errors"], document
    return document
