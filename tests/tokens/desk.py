"""The token API in memory: its handlers behind a real key ring, service and meter, called as an ASGI server calls them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from relay.telemetry.token_meter import TokenMeter
from relay.tenants.keyring import KeyRing, KeyRow, digest_of
from relay.tokens.api import TokensApi
from relay.tokens.registry import ModelSpec
from relay.tokens.service import TokenService

T = TypeVar("T")

PEPPER = b"pepper of the tests"
KEY, READER = "relay_search_secret", "relay_reader_secret"
GPT2 = ModelSpec("gpt2", "package")


class Answer(NamedTuple):
    """What a caller gets back."""

    status: int
    headers: Mapping[bytes, bytes]
    body: Any


class Desk:
    """One event loop with a started service; `call` sends a request and waits for its answer."""

    def __init__(self, data_dir: Path, specs: Iterable[ModelSpec] = (GPT2,), cache_bytes: int = 4_000_000) -> None:
        self.runner = asyncio.Runner()
        self.meter = TokenMeter(lambda: 0)
        keyring = KeyRing(PEPPER)
        keyring.load(
            KeyRow(key.split("_")[1], tenant, scopes, digest_of(key, PEPPER), None)
            for key, tenant, scopes in ((KEY, "search", ("tokens",)), (READER, "reader", ("read", "permits")))
        )
        self.service = self.run(self._started(data_dir, list(specs), cache_bytes))
        self.api = TokensApi(self.service, keyring, self.meter)

    async def _started(self, data_dir: Path, specs: list[ModelSpec], cache_bytes: int) -> TokenService:
        service = TokenService(data_dir, cache_bytes, self.meter)
        await service.start(specs)
        return service

    async def all_loaded(self) -> None:
        """Waits until every model that has a tokenizer can be used."""
        async with asyncio.timeout(100):
            while any(model.state == "loading" for model in self.service.models()):
                await asyncio.sleep(0.02)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the desk's loop."""
        return self.runner.run(work)

    def close(self) -> None:
        """Stops the service and the loop."""
        self.run(self.service.stop())
        self.runner.close()

    def post(self, operation: str, body: object, **options: Any) -> Answer:
        """One POST; `body` as an object, or as bytes that are sent as they are."""
        return self.run(self.send("POST", operation, body, **options))

    def get(self, operation: str, query: str = "", **options: Any) -> Answer:
        """One GET."""
        return self.run(self.send("GET", operation, b"", query=query, **options))

    async def send(
        self,
        method: str,
        operation: str,
        body: object = b"",
        *,
        key: str | None = KEY,
        media: bytes = b"application/json",
        query: str = "",
        headers: Iterable[tuple[bytes, bytes]] = (),
        left: asyncio.Event | None = None,
    ) -> Answer:
        """One request, on the loop. `operation`: a token endpoint, or a whole path that begins with a slash.

        `left`: set when the caller leaves; without it, never.
        """
        path = operation if operation.startswith("/") else f"/api/v1/tokens/{operation}"
        headers = [(b"content-type", media), *headers]
        if key is not None:
            headers.append((b"authorization", b"Bearer " + key.encode()))
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": headers}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent: list[dict[str, Any]] = []
        arrived = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if arrived:
                return arrived.pop()
            await (left or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.api.routes[path](scope, receive, send)
        return Answer(sent[0]["status"], dict(sent[0]["headers"]), json.loads(sent[1]["body"]))
