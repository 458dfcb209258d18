"""How an address that looks like another service's is served: its key, its body, its errors. What they share in counting.

The key comes as a bearer token or as `x-api-key`, unknown fields are ignored (by the bodies' structs), errors have the shape
of the original's. What is not the model's own number is an estimate, and a header says so.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from relay.http import (
    JSON_HEADERS,
    TOKENS_BODY_LIMIT,
    Handler,
    Problem,
    Receive,
    Scope,
    Send,
    attended,
    encode_json,
    headers_of,
    method_not_allowed,
    read_body,
)
from relay.tenants.keyring import KeyRing, Principal
from relay.tokens.bodies import decode_body
from relay.tokens.chat import Chat
from relay.tokens.chat_api import count_chat
from relay.tokens.counting import ESTIMATED, Tally, estimated_chat, estimated_texts
from relay.tokens.prices import price_of_name
from relay.tokens.service import ADD_SPECIAL, ALLOW_SPECIAL, TokenService

log = logging.getLogger("relay.tokens")

B = TypeVar("B")
Shape = Callable[[Problem], Any]


class FaceAnswer(Struct, frozen=True):
    """A body, and whether its number is the model's own (null: nothing was counted that could be inexact)."""

    body: Any
    exact: bool | None = None


Answer = Callable[[TokenService, Principal, B], Awaitable[FaceAnswer]]


def face(
    service: TokenService, keyring: KeyRing, kind: type[B], answer: Answer[B], shape: Shape, *, method: str = "POST"
) -> Handler:
    """The ASGI handler of one address; every error has the shape of the original's. A GET is asked in its query."""
    decoder = msgspec.json.Decoder(kind)

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        headers: list[tuple[bytes, bytes]] = []
        status = 200
        try:
            if scope["method"] != method:
                raise method_not_allowed(method)
            sent = headers_of(scope)
            principal = keyring.permit(_authorization(sent), "tokens")
            raw = _query(scope) if method == "GET" else await read_body(sent, receive, TOKENS_BODY_LIMIT)
            found = await attended(receive, len(raw), answer(service, principal, decode_body(decoder, raw)))
            content = await service.run(_size(found.body), partial(encode_json, found.body))
            if found.exact is not None:
                headers.append((b"x-relay-exact", b"true" if found.exact else b"false"))
        except Exception as error:
            problem = _problem(scope, error)
            status, content = problem.status, encode_json(shape(problem))
            headers.extend(problem.headers)
            if (seconds := problem.retry_after()) is not None:
                headers.append((b"retry-after", b"%d" % seconds))
        start = [(b"content-length", b"%d" % len(content)), JSON_HEADERS, *headers]
        await send({"type": "http.response.start", "status": status, "headers": start})
        await send({"type": "http.response.body", "body": content})

    return run


async def chat_tally(service: TokenService, tenant: str, model: str, chat: Chat) -> Tally:
    """The count of a chat by the model's template; else an estimate, for a model that is configured or has a known price.

    Raises 404 `model-not-found` for any other name, which may be misspelled.
    """
    try:
        found = await count_chat(service, tenant, model, chat, ALLOW_SPECIAL)
    except Problem as problem:
        _check_estimated(service, model, problem)
        return await estimated_chat(service, tenant, model, chat)
    return Tally(found.count, found.source, found.tokenizer)


async def text_tally(service: TokenService, tenant: str, model: str, text: str) -> Tally:
    try:
        count, source, tokenizer = await service.count(tenant, model, text, ALLOW_SPECIAL | ADD_SPECIAL)
    except Problem as problem:
        _check_estimated(service, model, problem)
        return await estimated_texts(service, tenant, model, [text])
    return Tally(count, source, tokenizer)


def _check_estimated(service: TokenService, model: str, problem: Problem) -> None:
    slot = service.slot(model)
    if problem.code not in ESTIMATED or (slot is None and price_of_name(model) is None):
        raise problem
    if problem.code == "tokenizer-unavailable" and slot is not None and not slot.estimated:
        raise problem  # it will be there soon, and exact


def _authorization(headers: dict[bytes, bytes]) -> bytes | None:
    key = headers.get(b"x-api-key")
    return headers.get(b"authorization") if key is None else b"Bearer " + key


def _query(scope: Scope) -> bytes:
    return encode_json(dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"))))


def _size(body: Any) -> int:
    """About how many bytes of work it is to write a body."""
    return 2 * len(getattr(body, "tokens", ()))


def _problem(scope: Scope, error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
    return Problem(500, "internal", "The relay failed; its log says why.")
