"""The token endpoints: check the key, decode the body, have the operation done, answer. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from relay.http import (
    TOKENS_BODY_LIMIT,
    Handler,
    Receive,
    Reply,
    Respond,
    Scope,
    Send,
    attended,
    endpoint,
    headers_of,
    read_body,
    streaming,
)
from relay.telemetry.token_meter import TokenMeter
from relay.tenants.keyring import KeyRing
from relay.tokens import operations
from relay.tokens.bodies import CountBody, DecodeBody, EncodeBody, FitBody, TruncateBody, decode_body
from relay.tokens.faces import faces
from relay.tokens.messages_face import messages_face
from relay.tokens.service import TokenService
from relay.tokens.stream_api import stream

B = TypeVar("B")
Operation = Callable[[TokenService, str, B], Awaitable[bytes]]

PREFIX = "/api/v1/tokens"

_COUNT = msgspec.json.Decoder(CountBody)


class TokensApi:
    """The handlers by path. The service meters what it counts; the meter is told which models there are."""

    def __init__(self, service: TokenService, keyring: KeyRing, meter: TokenMeter) -> None:
        self.service = service
        self.meter = meter
        self._permit = keyring.permit
        self.routes: dict[str, Handler] = {
            f"{PREFIX}/count": endpoint("POST", self.count),
            f"{PREFIX}/encode": self._endpoint(EncodeBody, operations.encode),
            f"{PREFIX}/decode": self._endpoint(DecodeBody, operations.decode),
            f"{PREFIX}/truncate": self._endpoint(TruncateBody, operations.truncate),
            f"{PREFIX}/fit": self._endpoint(FitBody, operations.fit),
            f"{PREFIX}/stream": streaming("POST", self.stream),
            **faces(service, keyring),
            **messages_face(service, keyring),
        }

    async def count(self, scope: Scope, receive: Receive) -> Reply:
        """POST /tokens/count, the hot one: not through `_endpoint`, which costs a call more."""
        headers = headers_of(scope)
        principal = self._permit(headers.get(b"authorization"), "tokens")
        raw = await read_body(headers, receive, TOKENS_BODY_LIMIT)
        counted = operations.count(self.service, principal.tenant, decode_body(_COUNT, raw))
        return Reply(200, await attended(receive, len(raw), counted))

    async def stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """POST /tokens/stream."""
        principal = self._permit(headers_of(scope).get(b"authorization"), "tokens")
        await stream(self.service, principal, scope, receive, send)

    def _endpoint(self, kind: type[B], operation: Operation[B]) -> Handler:
        """The handler of an operation that takes a body of this kind."""
        decoder = msgspec.json.Decoder(kind)

        async def respond(scope: Scope, receive: Receive) -> Reply:
            headers = headers_of(scope)
            principal = self._permit(headers.get(b"authorization"), "tokens")
            raw = await read_body(headers, receive, TOKENS_BODY_LIMIT)
            answer = operation(self.service, principal.tenant, decode_body(decoder, raw))
            return Reply(200, await attended(receive, len(raw), answer))

        answered: Respond = respond
        return endpoint("POST", answered)
