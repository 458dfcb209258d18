"""Who counts a corpus and keeps the counts: this process with the shared cache, or a running server."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Awaitable, Sequence
from typing import Any, Literal
from urllib.parse import quote, urlsplit

import msgspec
from django.conf import settings
from msgspec import Struct

from relay.http import Problem, encode_json
from relay.telemetry.token_meter import LEVELS, TokenMeter
from relay.tokens.chat import Chat
from relay.tokens.chat_api import count_chat
from relay.tokens.models import TokenModel
from relay.tokens.prices import Price, price_of
from relay.tokens.registry import ModelSpec, spec_of
from relay.tokens.segment_level import SEGMENTED_FROM
from relay.tokens.service import TokenService
from relay.tokens.warm import Counted

TENANT = "warm_tokens"  # of counts that no caller asked for; they are in nobody's usage
LOOK_S = 0.1
PATIENCE_S = 60.0  # for a server that is away or asks to come back later
TIMEOUT_S = 300.0

KEPT_SHARED = (
    f"in the shared cache (RELAY_REDIS_URL): what is in texts of {SEGMENTED_FROM:,} characters and more; shorter ones are "
    "counted faster than fetched"
)

_COMPUTED = LEVELS.index("computed")


class Local:
    """Counts in this process. Only what goes to the shared cache is there for others."""

    def __init__(self, model: str) -> None:
        """Raises Problem: 404 `model-not-found`, 503 `tokenizer-unavailable`."""
        self.spec = find_spec(model)
        self._meter = TokenMeter(lambda: time.monotonic_ns() // 1000)
        self._runner = asyncio.Runner()
        self.place = settings.RELAY_REDIS_URL
        self.keeps = KEPT_SHARED if self.place else ""
        cache_bytes = settings.RELAY_TOKEN_CACHE_MB * 1024 * 1024
        self._service = TokenService(settings.RELAY_DATA_DIR, cache_bytes, self._meter, self.place)
        try:
            self.fingerprint = self._runner.run(self._ready())
        except Problem:
            self.close()
            raise
        self.price = price_of(self.spec)

    async def _ready(self) -> str:
        await self._service.start([self.spec])
        if self._service.shared is not None and not self._service.shared.usable:
            raise Problem(
                503, "away", "The shared cache (RELAY_REDIS_URL) does not answer. Start it, or check the address."
            )
        while True:
            (view,) = self._service.models()
            if view.tokenizer is not None:
                return view.tokenizer
            if view.state != "loading":
                why = view.why or "it has no tokenizer: its counts are estimates"
                raise Problem(503, "tokenizer-unavailable", f"{view.name} cannot count: {why}")
            await asyncio.sleep(LOOK_S)

    def count(self, texts: Sequence[str]) -> Counted:
        """Counts texts as one batch."""
        return self._runner.run(self._counted(self._texts(texts)))

    def chat(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> Counted:
        """Counts one chat."""
        return self._runner.run(self._counted(self._chat(Chat(messages, tools))))

    @property
    def lost(self) -> int:
        """How many values the shared cache did not take in time."""
        return 0 if self._service.shared is None else self._service.shared.dropped

    async def _texts(self, texts: Sequence[str]) -> list[int]:
        return (await self._service.counts(TENANT, self.spec.name, texts)).counts

    async def _chat(self, chat: Chat) -> list[int]:
        return [(await count_chat(self._service, TENANT, self.spec.name, chat)).count]

    async def _counted(self, count: Awaitable[list[int]]) -> Counted:
        """Counts; ends when what the shared cache takes is there."""
        known = self._known()
        counts = await count
        if self._service.shared is not None:
            await self._service.shared.flush()
        return Counted(counts, self._known() - known)

    def close(self) -> None:
        """Stops."""
        self._runner.run(self._service.stop())
        self._runner.close()

    def _known(self) -> int:
        return sum(self._meter.models[self.spec.name].tokens[:_COMPUTED])


class Server:
    """Has a running server count, so that its own caches get warm. The counts are in the usage of the key's tenant."""

    def __init__(self, url: str, key: str, model: str) -> None:
        """Raises Problem, also 400 `invalid` for an address that is none."""
        self._model = model
        self._key = key
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Problem(400, "invalid", f"{url!r} is no address of a server, such as http://127.0.0.1:8000.")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
        self.lost = 0
        self._prefix = f"{parts.path.rstrip('/')}/api/v1/tokens"
        self.place = url
        self.keeps = f"in the caches of {url}"
        self.fingerprint = str(self._count({"text": ""}).tokenizer)
        self.price = self._price()

    def count(self, texts: Sequence[str]) -> Counted:
        """Counts texts as one batch."""
        return counted(self._count({"texts": texts}))

    def chat(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> Counted:
        """Counts one chat."""
        return counted(self._count({"messages": messages, "tools": tools}))

    def close(self) -> None:
        """Hangs up."""
        self._connection.close()

    def _count(self, what: dict[str, Any]) -> CountAnswer:
        return msgspec.json.decode(self._ask("POST", "/count", {"model": self._model, **what}), type=CountAnswer)

    def _price(self) -> Price | None:
        try:
            data = self._ask("GET", f"/models/{quote(self._model)}")
        except Problem:
            return None  # an alias
        return msgspec.json.decode(data, type=ModelAnswer).price

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        """An answer's body; a server that is away or busy is asked again for PATIENCE_S. Raises Problem."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            problem = self._once(method, path, body)
            if isinstance(problem, bytes):
                return problem
            wait = problem.retry_after_s
            if wait is None or time.monotonic() + wait > deadline:
                raise problem
            time.sleep(wait)

    def _once(self, method: str, path: str, body: dict[str, Any] | None) -> bytes | Problem:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            self._connection.request(method, self._prefix + path, None if body is None else encode_json(body), headers)
            answer = self._connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            return Problem(503, "away", f"{self.place} does not answer ({error}).", retry_after_s=1.0)
        return data if answer.status == 200 else problem_of(answer.status, data)


class CountAnswer(Struct):
    """What is read of a count's answer."""

    count: int
    source: Literal["cache", "partial", "computed"]
    tokenizer: str
    counts: list[int] | None = None


class ModelAnswer(Struct):
    """What is read of a model's answer."""

    price: Price | None = None


class ProblemAnswer(Struct):
    """What is read of a problem."""

    detail: str
    code: str
    retry_after_s: float | None = None


def counted(answer: CountAnswer) -> Counted:
    """A server says of a batch only whether all, some or none of it was known."""
    known = {"cache": answer.count, "computed": 0, "partial": None}[answer.source]
    return Counted([answer.count] if answer.counts is None else answer.counts, known)


def problem_of(status: int, data: bytes) -> Problem:
    """What a server refused; an answer that is no problem document is one of something else."""
    try:
        found = msgspec.json.decode(data, type=ProblemAnswer)
    except msgspec.DecodeError:
        return Problem(502, "unexpected", f"The answer is not a relay's (status {status}). Check the address.")
    return Problem(status, found.code, found.detail, retry_after_s=found.retry_after_s)


def find_spec(model: str) -> ModelSpec:
    """A configured model by name or alias. Raises 404 `model-not-found`."""
    rows = list(TokenModel.objects.order_by("name"))
    for row in rows:
        if model == row.name or model in row.aliases:
            return spec_of(row)
    names = ", ".join(row.name for row in rows[:20]) or "none yet"
    raise Problem(404, "model-not-found", f"No model {model!r} is configured. There are: {names}.")
