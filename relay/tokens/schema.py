"""The token endpoints' part of the OpenAPI 3.1 document, made from the structs that decode and encode them."""

from __future__ import annotations

from typing import Any

import msgspec

from relay.tokens import answers, bodies, stream_api
from relay.tokens.faces import (
    DetokenizeAnswer,
    DetokenizeBody,
    TokenCounterAnswer,
    TokenCounterBody,
    TokenizeAnswer,
    TokenizeBody,
)
from relay.tokens.messages_face import PATH as MESSAGES_PATH
from relay.tokens.messages_face import MessagesAnswer, MessagesBody

Item = dict[str, Any]
Examples = dict[str, Item]

TAG = "tokens"
FACES_TAG = "compatible faces"
PREFIX = "/api/v1/tokens"
REF = "#/schemas/{name}"
INPUTS = ("text", "texts", "messages")

PROBLEMS = {
    400: "`invalid`: a field is wrong; `errors` names it. `no-chat-template`: messages for a model that has none.",
    401: "`unauthenticated`: no key, or one that is not valid.",
    403: "`forbidden`: the key lacks the scope `tokens`.",
    404: "`model-not-found`: no such model is configured.",
    413: "`body-too-large` (over 16 MiB) or `text-too-large` (a text over 2 MiB that can't be cut).",
    415: "`not-json`: the body is not sent as JSON.",
    500: "`internal`: a fault of the relay.",
    503: "`tokenizer-unavailable` (with why) or `shutting-down`.",
}
RETRIED = (503,)

_HELLO = {"role": "user", "content": "hello"}
_COUNT_EXAMPLES: Examples = {
    "text": {"model": "gpt2", "text": "Count me."},
    "texts": {"model": "gpt2", "texts": ["one", "two words"]},
    "chat": {"model": "Qwen/Qwen3-8B", "messages": [_HELLO], "breakdown": True},
    "several models": {"models": ["gpt2", "Qwen/Qwen3-8B"], "text": "Count me."},
    "cost, or an estimate": {
        "model": "claude-sonnet-4-5", "text": "Count me.", "allow_estimate": True, "cost": True, "output_tokens": 100,
    },
}  # fmt: skip
_ENCODE_EXAMPLES: Examples = {"offsets": {"model": "gpt2", "text": "👍🏽ok", "offsets": "utf16"}}
_DECODE_EXAMPLES: Examples = {"pieces": {"model": "gpt2", "ids": [41840, 235, 8582, 237, 121], "pieces": True}}
_TRUNCATE_EXAMPLES: Examples = {"middle": {"model": "gpt2", "text": "one two three", "max_tokens": 2, "side": "middle"}}
_FIT_EXAMPLES: Examples = {"chat": {"model": "Qwen/Qwen3-8B", "messages": [_HELLO], "reserve_output": 1024}}
_TOKENIZE_EXAMPLES: Examples = {"prompt": {"model": "gpt2", "prompt": "hello world", "return_token_strs": True}}
_MESSAGES_EXAMPLES: Examples = {"chat": {"model": "claude-sonnet-4-5", "system": "Be short.", "messages": [_HELLO]}}
_STREAM_LINES = (
    '{"id": 1, "op": "count", "text": "one line"}\n{"id": 2, "op": "truncate", "text": "two three", "max_tokens": 1}\n'
)


def openapi() -> dict[str, Item]:
    """The path items by path, complete in themselves: no reference leads out of them."""
    counted = _any_of(answers.CountAnswer, answers.CountsAnswer)
    encoded = _any_of(answers.EncodeAnswer, answers.EncodeTextsAnswer)
    return {
        f"{PREFIX}/count": _post(
            "count_tokens", "Count the tokens of a text, of several or of a chat", bodies.CountBody, counted, _COUNT_EXAMPLES
        ),
        f"{PREFIX}/encode": _post(
            "encode_text", "The token ids of a text, of several or of a chat", bodies.EncodeBody, encoded, _ENCODE_EXAMPLES
        ),
        f"{PREFIX}/decode": _post(
            "decode_ids", "The text of token ids", bodies.DecodeBody, _schema(answers.DecodeAnswer), _DECODE_EXAMPLES
        ),
        f"{PREFIX}/truncate": _post(
            "truncate_text", "Cut a text to a number of tokens", bodies.TruncateBody, _schema(answers.TruncateAnswer),
            _TRUNCATE_EXAMPLES,
        ),
        f"{PREFIX}/fit": _post(
            "fit_context", "Whether an input fits a model's context, and what is left", bodies.FitBody,
            _schema(answers.FitAnswer), _FIT_EXAMPLES,
        ),
        f"{PREFIX}/stream": {"post": _stream()},
        "/tokenize": _face("vllm_tokenize", "vLLM's tokenize", TokenizeBody, TokenizeAnswer, _TOKENIZE_EXAMPLES),
        "/detokenize": _face("vllm_detokenize", "vLLM's detokenize", DetokenizeBody, DetokenizeAnswer, {}),
        "/tokenizer_info": {"get": _tokenizer_info()},
        "/utils/token_counter": _face(
            "litellm_token_counter", "LiteLLM's token counter", TokenCounterBody, TokenCounterAnswer, {}
        ),
        MESSAGES_PATH: _face(
            "anthropic_count_tokens", "Anthropic's count of a Messages request", MessagesBody, MessagesAnswer,
            _MESSAGES_EXAMPLES,
        ),
    }  # fmt: skip


def _post(operation: str, summary: str, body: type, answer: Item, examples: Examples) -> Item:
    return {
        "post": {
            "operationId": operation,
            "tags": [TAG],
            "summary": summary,
            "description": "Scope `tokens`.",
            "requestBody": _body(_request_schema(body), examples),
            "responses": {"200": _answer("OK", answer)} | _problems(_schema(answers.ProblemDocument)),
        }
    }


def _face(operation: str, summary: str, body: type, answer: type, examples: Examples) -> Item:
    found = _face_operation(operation, summary, _schema(answer)) | {"requestBody": _body(_schema(body), examples)}
    return {"post": found}


def _face_operation(operation: str, summary: str, answer: Item) -> Item:
    error = {"type": "object", "properties": {"error": {"type": "object"}}, "required": ["error"]}
    return {
        "operationId": operation,
        "tags": [FACES_TAG],
        "summary": summary,
        "description": "Scope `tokens`; the key as a bearer token or as `x-api-key`. Unknown fields are ignored, added"
        " tokens are parsed, errors have the original's shape. `X-Relay-Exact` says whether a number is the model's own.",
        "security": [{"key": []}, {"header_key": []}],
        "responses": {"200": _answer("OK", answer)} | _problems(error, "application/json"),
    }


def _tokenizer_info() -> Item:
    answer = {"type": "object", "properties": {"tokenizer_class": {"type": "string"}}, "required": ["tokenizer_class"]}
    model = {"name": "model", "in": "query", "schema": {"type": "string"}, "description": "The only one, if left out."}
    return _face_operation("vllm_tokenizer_info", "vLLM's tokenizer info", answer) | {"parameters": [model]}


def _stream() -> Item:
    lines = _any_of(*(kind for kind in _LINES))
    answer = _schema(stream_api.AnswerLine)
    problems = _problems(_schema(answers.ProblemDocument))
    return {
        "operationId": "stream_operations",
        "tags": [TAG],
        "summary": "Many operations: a line of JSON in, a line out, in order and as they come",
        "description": "Scope `tokens`. Each line is an operation (`op`) with the fields of its endpoint and an `id` that is"
        " given back. A line may have 16 MiB, the stream any length: take answers while you send. Lines that arrive together"
        " are counted together, and `source` is then that of them all. A line that is wrong is answered with its problem;"
        " the others go on.",
        "parameters": [
            {"name": "model", "in": "query", "schema": {"type": "string"}, "description": "For lines that name none."}
        ],
        "requestBody": {
            "required": True,
            "content": {"application/x-ndjson": {"schema": lines, "example": _STREAM_LINES}},
        },
        "responses": {"200": {"description": "OK", "content": {"application/x-ndjson": {"schema": answer}}}}
        | {status: problems[status] for status in ("400", "401", "403", "413", "415", "500")},
    }


_LINES = (
    stream_api.CountLine,
    stream_api.EncodeLine,
    stream_api.DecodeLine,
    stream_api.TruncateLine,
    stream_api.FitLine,
)


def _body(schema: Item, examples: Examples) -> Item:
    content: Item = {"schema": schema}
    if examples:
        content["examples"] = {name: {"value": value} for name, value in examples.items()}
    return {"required": True, "content": {"application/json": content}}


def _request_schema(body: type) -> Item:
    schema = _schema(body)
    rules = []
    if "texts" in schema["properties"]:
        rules.append({"oneOf": [{"required": [name]} for name in INPUTS]})
    if "models" in schema["properties"]:
        rules.append({"oneOf": [{"required": ["model"]}, {"required": ["models"]}]})
    return schema | {"allOf": rules} if rules else schema


def _answer(description: str, schema: Item, media: str = "application/json") -> Item:
    return {"description": description, "content": {media: {"schema": schema}}}


def _problems(schema: Item, media: str = "application/problem+json") -> dict[str, Item]:
    found = {str(status): _answer(description, schema, media) for status, description in PROBLEMS.items()}
    for status in RETRIED:
        found[str(status)]["headers"] = {
            "Retry-After": {
                "description": "Whole seconds, where another try may succeed.",
                "schema": {"type": "integer"},
            }
        }
    return found


def _any_of(*structs: type) -> Item:
    return {"oneOf": [_schema(each) for each in structs]}


def _schema(struct: type) -> Item:
    (top,), parts = msgspec.json.schema_components([struct], ref_template=REF)
    found: Item = _inlined(top, parts)
    if struct is answers.CountsAnswer:
        found["properties"]["results"]["items"] = _any_of(answers.CountAnswer, answers.ModelProblem)
    return found


def _inlined(node: Any, parts: Item) -> Any:
    if isinstance(node, list):
        return [_inlined(each, parts) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(parts[node["$ref"].rsplit("/", 1)[1]], parts)
    return {name: _inlined(value, parts) for name, value in node.items()}
