"""The OpenAPI document: whole, valid, and true of real answers; and its page in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from playwright.sync_api import sync_playwright

from relay.api_urls import configuration
from relay.schema import data_plane_paths, document
from relay.tokens import schema as tokens
from tests.control.cast import Cast
from tests.relay_server import RelayServer

# What the contract names; its own words for the parameters.
PATHS = {
    "/pools": {"get", "post"},
    "/pools/{pool}": {"get", "patch", "delete"},
    "/pools/{pool}/acquire": {"post"},
    "/pools/{pool}/pause": {"post"},
    "/pools/{pool}/resume": {"post"},
    "/pools/{pool}/drain": {"post"},
    "/pools/{pool}/tenants": {"get"},
    "/pools/{pool}/tenants/{tenant}": {"get", "put", "delete"},
    "/pools/{pool}/leases": {"get"},
    "/pools/{pool}/waiters": {"get"},
    "/pools/{pool}/history": {"get"},
    "/pools/{pool}/sizing": {"get", "put", "patch", "delete"},
    "/acquire": {"post"},
    "/leases/{id}": {"get"},
    "/leases/{id}/renew": {"post"},
    "/leases/{id}/release": {"post"},
    "/leases/{id}/resize": {"post"},
    "/leases/{id}/resume": {"post"},
    "/leases/{id}/yield": {"post"},
    "/leases/{id}/revoke": {"post"},
    "/waiters/{id}/cancel": {"post"},
    "/priority-classes": {"get", "post"},
    "/priority-classes/{name}": {"get", "patch", "delete"},
    "/tenants": {"get", "post"},
    "/tenants/{tenant}": {"get", "patch", "delete"},
    "/tenants/{tenant}/keys": {"get", "post"},
    "/tenants/{tenant}/keys/{key}": {"get", "delete"},
    "/changes": {"get"},
    "/tokens/count": {"post"},
    "/tokens/encode": {"post"},
    "/tokens/decode": {"post"},
    "/tokens/truncate": {"post"},
    "/tokens/fit": {"post"},
    "/tokens/stream": {"post"},
    "/tokens/models": {"get", "post"},
    "/tokens/models/{name}": {"get", "patch", "delete"},
    "/tokens/usage": {"get"},
}

# At the root: addresses of other services.
FACES = {
    "/tokenize": {"post"},
    "/detokenize": {"post"},
    "/tokenizer_info": {"get"},
    "/utils/token_counter": {"post"},
    "/v1/messages/count_tokens": {"post"},
}


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every path, method and operation."""
    for path, item in document()["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def references(node: Any) -> Iterator[str]:
    """Every $ref in the document."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def test_it_holds_every_operation_of_the_contract_and_no_other() -> None:
    found = {path: set(item) for path, item in document()["paths"].items()}
    assert found == {f"/api/v1{path}": methods for path, methods in PATHS.items()} | FACES
    assert len(configuration) == len(PATHS) + len(FACES) - len(data_plane_paths() | tokens.openapi())


def test_it_is_openapi_3_1_in_structure() -> None:
    whole = document()
    assert re.fullmatch(r"3\.1\.\d", whole["openapi"])
    assert whole["info"]["title"] == "Token Relay"
    assert whole["info"]["version"]
    for reference in references(whole):
        node: Any = whole
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    for schema in whole["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    for path, _, operation in operations():
        declared = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path)), path
        assert operation["summary"]
        for status, answer in operation["responses"].items():
            assert re.fullmatch(r"[2345]\d\d", status)
            assert answer["description"]
            if status >= "400":
                media = "application/json" if path in FACES else "application/problem+json"
                assert set(answer["content"]) == {media}


def test_each_operation_has_the_statuses_that_it_can_answer() -> None:
    for path, method, operation in operations():
        statuses = set(operation["responses"])
        assert {"401", "403"} <= statuses, path
        if "requestBody" in operation:
            assert {"400", "413", "415"} <= statuses, (path, method)
        if "{" in path:
            assert "404" in statuses, (path, method)
        if any(p["name"] == "If-Match" for p in operation.get("parameters", [])):
            assert {"400", "412"} <= statuses, (path, method)
    acquire = document()["paths"]["/api/v1/pools/{pool}/acquire"]["post"]["responses"]
    assert set(acquire) == {
        "200", "201", "400", "401", "403", "404", "409", "413", "415", "422", "429", "503",
    }  # fmt: skip


def holds(answer: Any, path: str, method: str, status: int) -> None:
    """Asserts that a real answer is what the document says."""
    whole = document()
    schema = whole["paths"][path][method]["responses"][str(status)]["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator(schema | {"components": whole["components"]})
    validator.validate(answer)


def test_real_answers_are_as_the_document_says(relay: RelayServer, pool_name: str) -> None:
    with relay.http() as admin:
        base, path = "/api/v1", f"/api/v1/pools/{pool_name}"
        holds(admin.post(f"{base}/pools", json={"name": pool_name, "capacity": 3}).json(), f"{base}/pools", "post", 201)
        lease = admin.post(f"{path}/acquire", json={})
        holds(lease.json(), f"{base}/pools/{{pool}}/acquire", "post", 201)
        admin.put(f"{path}/tenants/default", json={"limit": 2})
        for address, method in PATHS.items():
            if "get" not in method or "{key}" in address:
                continue
            real = address.replace("{pool}", pool_name).replace("{tenant}", "default")
            real = real.replace("models/{name}", "models/gpt2").replace("{name}", "batch")
            answer = admin.get(base + real.replace("{id}", lease.json()["lease_id"]))
            assert answer.status_code == 200, (real, answer.text)
            holds(answer.json(), base + address, "get", 200)
        key = admin.post(f"{base}/tenants/default/keys", json={"scopes": ["read"]})
        holds(key.json(), f"{base}/tenants/{{tenant}}/keys", "post", 201)
        released = admin.post(f"{base}/leases/{lease.json()['lease_id']}/release")
        holds(released.json(), f"{base}/leases/{{id}}/release", "post", 200)
        refusal = admin.patch(path, json={"capacity": 0}).json()
        jsonschema.validate(refusal, document()["components"]["schemas"]["Problem"])
        admin.delete(f"{path}?force=true")


def test_it_needs_no_key(cast: Cast) -> None:
    answer = cast.nobody("GET", "/schema")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "application/json"
    assert json.loads(answer.content) == json.loads(json.dumps(document()))
    assert cast.nobody("GET", "/docs").status_code == 200


def test_the_page_shows_it_under_a_strict_policy(relay: RelayServer, chromium: str) -> None:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
        )
        page = browser.new_page()
        faults: list[str] = []
        elsewhere: list[str] = []
        page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request", lambda sent: None if sent.url.startswith((relay.url, "data:")) else elsewhere.append(sent.url)
        )
        answer = page.goto(f"{relay.url}/api/v1/docs")
        assert answer is not None
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        page.get_by_text("/api/v1/pools/{pool}/acquire").wait_for(timeout=20_000)
        assert page.locator(".opblock").count() == sum(len(methods) for methods in PATHS.values()) + len(FACES)
        browser.close()
    assert faults == []
    assert elsewhere == []


@pytest.mark.parametrize("address", ["schema", "docs"])
def test_other_methods_are_refused(cast: Cast, address: str) -> None:
    assert cast.nobody("POST", f"/{address}").status_code == 405
