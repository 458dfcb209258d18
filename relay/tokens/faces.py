"""vLLM's and LiteLLM's addresses, so that their clients count here by changing an address.

Added tokens are parsed and errors shaped as the originals do. A chat goes through the model's chat template; LiteLLM's
address also answers where there is none, with an estimate that says it is one.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from relay.http import (
    Handler,
    Problem,
    invalid,
)
from relay.tenants.keyring import KeyRing, Principal
from relay.tokens.chat import Chat, Message
from relay.tokens.chat_api import encode_chat
from relay.tokens.face import FaceAnswer, chat_tally, face, text_tally
from relay.tokens.service import ADD_SPECIAL, ALLOW_SPECIAL, TokenService

OPENAI_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    413: "BadRequestError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}


class TokenizeBody(Struct):
    """vLLM's request: `prompt`, or `messages`. A template in a request is refused, as vLLM does by default."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_special_tokens: bool | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    return_token_strs: bool | None = False
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None


class TokenizeAnswer(Struct, frozen=True):
    """vLLM's answer. `max_model_len` is 0 where the context size is not known."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeBody(Struct):
    """vLLM's request for the text of ids."""

    tokens: list[int]
    model: str | None = None


class DetokenizeAnswer(Struct, frozen=True):
    """vLLM's answer."""

    prompt: str


class TokenizerInfoQuery(Struct):
    """vLLM's question for a tokenizer's configuration, in the query."""

    model: str | None = None


class TokenCounterBody(Struct):
    """LiteLLM's request: `prompt`, or `messages`."""

    model: str
    prompt: str | None = None
    messages: list[Message] | None = None
    tools: list[dict[str, Any]] | None = None


class TokenCounterAnswer(Struct, frozen=True):
    """LiteLLM's answer. `tokenizer_type` is `huggingface_tokenizer` for an exact count, else `estimate`."""

    total_tokens: int
    request_model: str
    model_used: str
    tokenizer_type: str


def faces(service: TokenService, keyring: KeyRing) -> dict[str, Handler]:
    """The handlers by path, at the root."""
    return {
        "/tokenize": face(service, keyring, TokenizeBody, tokenize, openai_error),
        "/detokenize": face(service, keyring, DetokenizeBody, detokenize, openai_error),
        "/tokenizer_info": face(service, keyring, TokenizerInfoQuery, tokenizer_info, openai_error, method="GET"),
        "/utils/token_counter": face(service, keyring, TokenCounterBody, token_counter, litellm_error),
    }


async def tokenize(service: TokenService, who: Principal, body: TokenizeBody) -> FaceAnswer:
    """POST /tokenize."""
    model = _model(service, body.model)
    if body.chat_template is not None:
        raise invalid("chat_template", "templates in requests are not accepted; set chat_template of the model")
    if (body.prompt is None) == (body.messages is None):
        raise invalid("prompt", "send exactly one of prompt and messages")
    if body.messages is None:
        flags = ALLOW_SPECIAL | (0 if body.add_special_tokens is False else ADD_SPECIAL)
        result = await service.encode(who.tenant, model, [str(body.prompt)], flags, batch=False)
        encoded = result.encoded[0]
    else:
        if body.continue_final_message and body.add_generation_prompt:
            raise invalid("continue_final_message", "cannot be true together with add_generation_prompt")
        chat = Chat(
            [_with_arguments(message) for message in body.messages],
            body.tools,
            body.add_generation_prompt,
            body.continue_final_message,
            body.chat_template_kwargs or {},
        )
        flags = ALLOW_SPECIAL | (ADD_SPECIAL if body.add_special_tokens else 0)
        encoded = (await encode_chat(service, who.tenant, model, chat, flags)).encoded
    slot, tokenizer = service.find(model)
    strings = None
    if body.return_token_strs:
        strings = await service.run(4 * len(encoded.ids), partial(tokenizer.pieces.names, encoded.ids))
    return FaceAnswer(TokenizeAnswer(len(encoded.ids), slot.context_size or 0, encoded.ids.tolist(), strings))


async def detokenize(service: TokenService, who: Principal, body: DetokenizeBody) -> FaceAnswer:
    """POST /detokenize."""
    try:
        return FaceAnswer(DetokenizeAnswer(await service.decode(_model(service, body.model), body.tokens)))
    except Problem as problem:
        if problem.errors is None:
            raise
        errors = {field.replace("ids", "tokens", 1): words for field, words in problem.errors.items()}
        raise Problem(400, "invalid", problem.detail.replace("ids[", "tokens[", 1), errors=errors) from None


async def tokenizer_info(service: TokenService, who: Principal, query: TokenizerInfoQuery) -> FaceAnswer:
    """GET /tokenizer_info: what clients that render templates themselves want to know."""
    slot, _ = service.find(_model(service, query.model))
    return FaceAnswer(
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": slot.context_size,
            "chat_template": slot.chat_template(),
            **slot.special_map,
        }
    )


async def token_counter(service: TokenService, who: Principal, body: TokenCounterBody) -> FaceAnswer:
    """POST /utils/token_counter."""
    if (body.prompt is None) == (body.messages is None):
        raise invalid("prompt", "send exactly one of prompt and messages")
    if body.messages is not None:
        chat = Chat([_with_arguments(message) for message in body.messages], body.tools)
        found = await chat_tally(service, who.tenant, body.model, chat)
    else:
        found = await text_tally(service, who.tenant, body.model, str(body.prompt))
    slot = service.slot(body.model)
    used = body.model if slot is None else slot.name
    kind = "huggingface_tokenizer" if found.exact else "estimate"
    return FaceAnswer(TokenCounterAnswer(found.count, body.model, used, kind), found.exact)


def openai_error(problem: Problem) -> Any:
    """As vLLM answers."""
    kind = OPENAI_TYPES.get(problem.status, "BadRequestError")
    param = next(iter(problem.errors), None) if problem.errors else None
    return {"error": {"message": problem.detail, "type": kind, "param": param, "code": problem.status}}


def litellm_error(problem: Problem) -> Any:
    """As LiteLLM answers: the code is a text."""
    found = openai_error(problem)
    found["error"]["code"] = str(problem.status)
    return found


def _model(service: TokenService, named: str | None) -> str:
    """The model that is asked, or the only one there is."""
    if named is not None:
        return named
    names = [model.name for model in service.models() if model.source != "estimate"]
    if len(names) != 1:
        raise invalid("model", "say which: more than one is configured here")
    return names[0]


def _with_arguments(message: Message) -> Message:
    """A message whose tool calls have their arguments as objects, as vLLM gives them to templates."""
    calls = message.get("tool_calls")
    if message.get("role") != "assistant" or not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [_parsed_call(call) for call in calls]}


def _parsed_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(arguments := function.get("arguments"), str):
        return call
    try:
        parsed = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return call
    return {**call, "function": {**function, "arguments": parsed}}
