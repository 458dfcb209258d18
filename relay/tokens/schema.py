"""The token endpoints' part of the OpenAPI 3.1 document, made from the structs that decode and encode them."""

from __future__ import annotations

from typing import Any

import msgspec

from relay.tokens import bodies

Item = dict[str, Any]

TAG = "tokens"
REF = "#/schemas/{name}"

PROBLEMS = {
    400: "`invalid`: a field is wrong; `errors` names it.",
    401: "`unauthenticated`: no key, or one that is not valid.",
    403: "`forbidden`: the key lacks the scope `tokens`.",
    404: "`model-not-found`: no such tokenizer is configured.",
    413: "`body-too-large` (over 16 MiB) or `text-too-large` (a text over 2 MiB).",
    415: "`not-json`: the body is not sent as JSON.",
    500: "`internal`: a fault of the relay.",
    503: "`tokenizer-unavailable` (with why) or `shutting-down`.",
}
RETRIED = (503,)


class ProblemDocument(msgspec.Struct):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: dict[str, list[str]] | msgspec.UnsetType = msgspec.UNSET
    retry_after_s: float | msgspec.UnsetType = msgspec.UNSET


def openapi() -> dict[str, Item]:
    """The path items by path, complete in themselves: no reference leads out of them."""
    prefix = "/api/v1/tokens"
    return {
        f"{prefix}/count": _post(
            "count_tokens", "Count the tokens of a text or of several", bodies.CountBody, bodies.CountAnswer
        ),
        f"{prefix}/encode": _post(
            "encode_text", "The token ids of a text or of several", bodies.EncodeBody,
            bodies.EncodeAnswer, bodies.EncodeTextsAnswer,
        ),
        f"{prefix}/decode": _post("decode_ids", "The text of token ids", bodies.DecodeBody, bodies.DecodeAnswer),
        f"{prefix}/truncate": _post(
            "truncate_text", "Cut a text to a number of tokens", bodies.TruncateBody, bodies.TruncateAnswer
        ),
        f"{prefix}/models": {"get": _models()},
    }  # fmt: skip


def _post(operation: str, summary: str, body: type, *answers: type) -> Item:
    schema = _schema(body)
    if "texts" in schema["properties"]:
        schema["oneOf"] = [{"required": ["text"]}, {"required": ["texts"]}]
    return {
        "post": {
            "operationId": operation,
            "tags": [TAG],
            "summary": summary,
            "description": "Scope `tokens`.",
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
            "responses": _responses(answers, PROBLEMS),
        }
    }


def _models() -> Item:
    limit = {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}
    return {
        "operationId": "list_token_models",
        "tags": [TAG],
        "summary": "The tokenizers, whether they are loaded, their vocabulary size and hit rates",
        "description": "Scope `tokens`.",
        "parameters": [
            {"name": "limit", "in": "query", "schema": limit},
            {
                "name": "cursor",
                "in": "query",
                "schema": {"type": "string"},
                "description": "`next` of the page before.",
            },
        ],
        "responses": _responses((bodies.ModelsAnswer,), {code: PROBLEMS[code] for code in (400, 401, 403, 500)}),
    }


def _responses(answers: tuple[type, ...], problems: dict[int, str]) -> Item:
    schemas = [_schema(each) for each in answers]
    schema = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
    responses: Item = {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}}
    for status, description in problems.items():
        responses[str(status)] = {
            "description": description,
            "content": {"application/problem+json": {"schema": _schema(ProblemDocument)}},
        }
        if status in RETRIED:
            responses[str(status)]["headers"] = {
                "Retry-After": {
                    "description": "Whole seconds, where another try may succeed.",
                    "schema": {"type": "integer"},
                }
            }
    return responses


def _schema(struct: type) -> Item:
    (top,), parts = msgspec.json.schema_components([struct], ref_template=REF)
    found: Item = _inlined(top, parts)
    return found


def _inlined(node: Any, parts: Item) -> Any:
    if isinstance(node, list):
        return [_inlined(each, parts) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(parts[node["$ref"].rsplit("/", 1)[1]], parts)
    return {name: _inlined(value, parts) for name, value in node.items()}
