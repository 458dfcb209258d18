"""The token endpoints: check the key, decode the body, ask the service, answer. Nothing is computed here."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET

from relay.http import (
    TOKENS_BODY_LIMIT,
    Handler,
    Receive,
    Reply,
    Scope,
    encode_json,
    endpoint,
    headers_of,
    invalid,
    read_body,
)
from relay.telemetry.meters import TokenMeter
from relay.tenants.keyring import KeyRing, Principal
from relay.tokens.bodies import (
    CountAnswer,
    CountBody,
    DecodeAnswer,
    DecodeBody,
    EncodeBody,
    ModelsAnswer,
    TruncateAnswer,
    TruncateBody,
    decode_body,
    flags_of,
    texts_of,
)
from relay.tokens.render import encode_answer
from relay.tokens.service import TokenService

PREFIX = "/api/v1/tokens"
PAGE = 100
PAGE_MOST = 500

_COUNT = msgspec.json.Decoder(CountBody)
_ENCODE = msgspec.json.Decoder(EncodeBody)
_DECODE = msgspec.json.Decoder(DecodeBody)
_TRUNCATE = msgspec.json.Decoder(TruncateBody)


class Page(NamedTuple):
    """A part of a list: at most `limit` items after `cursor`."""

    limit: int
    cursor: str


class TokensApi:
    """The handlers by path. The service meters what it counts; the meter is told which models there are."""

    def __init__(self, service: TokenService, keyring: KeyRing, meter: TokenMeter) -> None:
        self.service = service
        self.meter = meter
        self._authenticate = keyring.authenticate
        self.routes: dict[str, Handler] = {
            f"{PREFIX}/count": endpoint("POST", self.count),
            f"{PREFIX}/encode": endpoint("POST", self.encode),
            f"{PREFIX}/decode": endpoint("POST", self.decode),
            f"{PREFIX}/truncate": endpoint("POST", self.truncate),
            f"{PREFIX}/models": endpoint("GET", self.models),
        }

    def _principal(self, headers: dict[bytes, bytes]) -> Principal:
        principal = self._authenticate(headers.get(b"authorization"))
        principal.require("tokens")
        return principal

    async def count(self, scope: Scope, receive: Receive) -> Reply:
        """POST /tokens/count."""
        headers = headers_of(scope)
        principal = self._principal(headers)
        body = decode_body(_COUNT, await read_body(headers, receive, TOKENS_BODY_LIMIT))
        flags = flags_of(body)
        if body.text is not UNSET and body.texts is UNSET:
            count, source, tokenizer = await self.service.count(principal.tenant, body.model, body.text, flags)
            found = CountAnswer(body.model, count, True, source, tokenizer)
        else:
            texts, _ = texts_of(body)
            batch = await self.service.counts(principal.tenant, body.model, texts, flags)
            found = CountAnswer(body.model, sum(batch.counts), True, batch.source, batch.tokenizer, batch.counts)
        return Reply(200, encode_json(found))

    async def encode(self, scope: Scope, receive: Receive) -> Reply:
        """POST /tokens/encode."""
        headers = headers_of(scope)
        principal = self._principal(headers)
        body = decode_body(_ENCODE, await read_body(headers, receive, TOKENS_BODY_LIMIT))
        texts, batch = texts_of(body)
        result = await self.service.encode(
            principal.tenant, body.model, texts, flags_of(body), spans=body.offsets, batch=batch
        )
        render = partial(encode_answer, body.model, result, batch=batch, offsets=body.offsets)
        size = sum(len(each.ids) for each in result.encoded)
        return Reply(200, await self.service.run(size // 4, render))

    async def decode(self, scope: Scope, receive: Receive) -> Reply:
        """POST /tokens/decode."""
        headers = headers_of(scope)
        self._principal(headers)
        body = decode_body(_DECODE, await read_body(headers, receive, TOKENS_BODY_LIMIT))
        return Reply(200, encode_json(DecodeAnswer(await self.service.decode(body.model, body.ids))))

    async def truncate(self, scope: Scope, receive: Receive) -> Reply:
        """POST /tokens/truncate."""
        headers = headers_of(scope)
        principal = self._principal(headers)
        body = decode_body(_TRUNCATE, await read_body(headers, receive, TOKENS_BODY_LIMIT))
        cut = await self.service.truncate(principal.tenant, body.model, body.text, body.max_tokens, body.side)
        return Reply(200, encode_json(TruncateAnswer(cut.text, cut.count, cut.truncated)))

    async def models(self, scope: Scope, receive: Receive) -> Reply:
        """GET /tokens/models."""
        self._principal(headers_of(scope))
        page = _page(scope)
        views = [view for view in self.service.models() if view.name > page.cursor]
        items = views[: page.limit]
        following = items[-1].name if len(views) > len(items) else None
        return Reply(200, encode_json(ModelsAnswer(items, following)))


def _page(scope: Scope) -> Page:
    """The part of the list that was asked for. Raises 400 `invalid`."""
    limit, cursor = PAGE, ""
    for name, value in parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True):
        if name == "limit":
            if not (value.isascii() and value.isdigit() and 1 <= int(value[:4]) <= PAGE_MOST and len(value) <= 3):
                raise invalid("limit", f"an integer from 1 to {PAGE_MOST}")
            limit = int(value)
        elif name == "cursor":
            cursor = value
    return Page(limit, cursor)
