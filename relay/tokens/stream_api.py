"""Many token operations over one request: a line in, a line out, in order and as they come.

Lines that have arrived together are worked on together (counts of short texts as one batch), nobody waits for more. What is
read ahead and what is not yet taken by the caller is bounded, so that a stream may be of any length.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, Struct, UnsetType

from relay.http import TOKENS_BODY_LIMIT, Problem, Receive, Scope, Send, encode_json, headers_of, invalid
from relay.tenants.keyring import Principal
from relay.tokens import operations
from relay.tokens.answers import CountAnswer
from relay.tokens.bodies import (
    CountBody,
    DecodeBody,
    EncodeBody,
    FitBody,
    Model,
    TruncateBody,
    decode_body,
    flags_of,
)
from relay.tokens.service import TokenService

log = logging.getLogger("relay.tokens")

MEDIA = (b"application/x-ndjson", b"application/jsonl", b"application/x-jsonlines")
LINE_LIMIT = TOKENS_BODY_LIMIT
TOGETHER = 512  # lines
WAITING_LIMIT = 16 * 1024 * 1024  # bytes of answers that the caller has not taken yet
STALLED_S = 120.0  # a caller that takes nothing for so long is left

NEWLINE = b"\n"


class CountLine(CountBody, tag_field="op", tag="count", forbid_unknown_fields=True, kw_only=True):
    """As POST /tokens/count."""

    id: Any = None


class EncodeLine(EncodeBody, tag_field="op", tag="encode", forbid_unknown_fields=True, kw_only=True):
    """As POST /tokens/encode."""

    id: Any = None
    model: Model | UnsetType = UNSET  # type: ignore[assignment]  # the stream's model is put in before it is used


class DecodeLine(DecodeBody, tag_field="op", tag="decode", forbid_unknown_fields=True, kw_only=True):
    """As POST /tokens/decode."""

    id: Any = None
    model: Model | UnsetType = UNSET  # type: ignore[assignment]


class TruncateLine(TruncateBody, tag_field="op", tag="truncate", forbid_unknown_fields=True, kw_only=True):
    """As POST /tokens/truncate."""

    id: Any = None
    model: Model | UnsetType = UNSET  # type: ignore[assignment]


class FitLine(FitBody, tag_field="op", tag="fit", forbid_unknown_fields=True, kw_only=True):
    """As POST /tokens/fit."""

    id: Any = None
    model: Model | UnsetType = UNSET  # type: ignore[assignment]


Line = CountLine | EncodeLine | DecodeLine | TruncateLine | FitLine


class AnswerLine(Struct, frozen=True):
    """What one line is answered: the operation's status and body; the line's `id`, or null where it could not be read."""

    id: Any
    status: int
    body: dict[str, Any]


_LINE = msgspec.json.Decoder(Line)


async def stream(service: TokenService, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
    """POST /tokens/stream, for a caller who may. Raises 400, 415 before the answer begins."""
    media = headers_of(scope).get(b"content-type", b"").split(b";", 1)[0].strip().lower()
    if media not in MEDIA:
        raise Problem(415, "not-json", "Send lines of JSON with Content-Type: application/x-ndjson.")
    work = _Work(service, principal.tenant, _default_model(scope))
    start = [(b"content-type", MEDIA[0]), (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": start})
    answers = _Answers(send)
    writing = asyncio.create_task(answers.write())
    try:
        async for lines in _lines(receive):
            for begin in range(0, len(lines), TOGETHER):
                await answers.put(await work.done(lines[begin : begin + TOGETHER]))
        await answers.end()
        await writing
    except _Gone:
        log.debug("%s: the caller left", scope["path"])
    finally:
        writing.cancel()


class _Gone(Exception):
    """The caller is not there any more, or takes nothing."""


async def _lines(receive: Receive) -> AsyncIterator[list[bytes | None]]:
    """The lines of the body, those that came together in one list. None stands for a line over the limit."""
    rest = bytearray()
    skipping = False
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        more = message.get("more_body", False)
        *whole, last = message.get("body", b"").split(NEWLINE)
        found: list[bytes | None] = []
        for part in whole:
            found.append(None if skipping or len(rest) + len(part) > LINE_LIMIT else bytes(rest + part))
            rest.clear()
            skipping = False
        if not skipping:
            rest += last
            if len(rest) > LINE_LIMIT:
                skipping = True
                rest.clear()
        if not more:
            found.append(None if skipping else bytes(rest))
        found = [line for line in found if line is None or line.strip()]
        if found:
            yield found


class _Work:
    """The operations of one stream."""

    def __init__(self, service: TokenService, tenant: str, model: str | None) -> None:
        self._service = service
        self._tenant = tenant
        self._model = model

    async def done(self, lines: list[bytes | None]) -> bytes:
        """The answers to lines that came together, in their order."""
        parsed = [self._parsed(line) for line in lines]
        answers: list[bytes | None] = [each if isinstance(each, bytes) else None for each in parsed]
        groups: dict[tuple[str, int], list[int]] = {}
        single: list[int] = []
        for place, each in enumerate(parsed):
            if isinstance(each, bytes):
                continue
            if isinstance(each, CountLine) and each.is_plain:
                groups.setdefault((str(each.model), flags_of(each)), []).append(place)
            else:
                single.append(place)
        done = [self._group(model, flags, places, parsed, answers) for (model, flags), places in groups.items()]
        await asyncio.gather(*done, *(self._one(place, parsed, answers) for place in single))
        return b"".join(each or b"" for each in answers)

    def _parsed(self, line: bytes | None) -> Line | bytes:
        """The line, or its answer if it is none."""
        if line is None:
            return _refusal(None, Problem(413, "body-too-large", f"The line is over {LINE_LIMIT // 1024} KiB."))
        try:
            found = decode_body(_LINE, line)
            if found.model is UNSET and not (isinstance(found, CountLine) and found.models is not UNSET):
                if self._model is None:
                    raise invalid("model", "say which, here or as ?model= of the stream")
                found.model = self._model
        except Problem as problem:
            return _refusal(_id_of(line), problem)
        return found

    async def _group(
        self, model: str, flags: int, places: list[int], parsed: list[Line | bytes], answers: list[bytes | None]
    ) -> None:
        """Counts with one model as one batch; if one of them is refused, each by itself."""
        lines = [line for place in places if isinstance(line := parsed[place], CountLine)]
        try:
            counted = await self._service.counts(self._tenant, model, [str(line.text) for line in lines], flags)
        except Problem:
            for place in places:
                await self._one(place, parsed, answers)
            return
        for place, line, count in zip(places, lines, counted.counts, strict=True):
            body = encode_json(CountAnswer(model, count, True, counted.source, counted.tokenizer))
            answers[place] = _answer(line.id, 200, body)

    async def _one(self, place: int, parsed: list[Line | bytes], answers: list[bytes | None]) -> None:
        line = parsed[place]
        assert not isinstance(line, bytes)
        try:
            answers[place] = _answer(line.id, 200, await self._operated(line))
        except Problem as problem:
            answers[place] = _refusal(line.id, problem)
        except Exception:
            log.exception("a line of a stream failed")
            answers[place] = _refusal(line.id, Problem(500, "internal", "The relay failed; its log says why."))

    async def _operated(self, line: Line) -> bytes:
        service, tenant = self._service, self._tenant
        if isinstance(line, CountLine):
            return await operations.count(service, tenant, line)
        if isinstance(line, EncodeLine):
            return await operations.encode(service, tenant, line)
        if isinstance(line, DecodeLine):
            return await operations.decode(service, tenant, line)
        if isinstance(line, TruncateLine):
            return await operations.truncate(service, tenant, line)
        return await operations.fit(service, tenant, line)


class _Answers:
    """What goes out. Reading goes on while the caller is slow to take answers, up to a bound: many callers send all first."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[bytes] = []
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()

    async def put(self, data: bytes) -> None:
        """Hands answers over; waits while too many were not taken. Raises _Gone if nothing is taken for STALLED_S."""
        self._waiting.append(data)
        self._size += len(data)
        self._changed.set()
        while self._size > WAITING_LIMIT:
            self._taken.clear()
            try:
                await asyncio.wait_for(self._taken.wait(), STALLED_S)
            except TimeoutError:
                raise _Gone from None

    async def end(self) -> None:
        """No more answers come."""
        self._ended = True
        self._changed.set()

    async def write(self) -> None:
        """Sends until the end."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            data, self._waiting = b"".join(self._waiting), []
            ended = self._ended
            if data:
                await self._send({"type": "http.response.body", "body": data, "more_body": True})
                self._size -= len(data)
                self._taken.set()
            if ended and not self._waiting:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                return


def _default_model(scope: Scope) -> str | None:
    found = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))
    for name in found:
        if name != "model":
            raise invalid(name, "unknown; only model may stand in the query")
    return found.get("model") or None


def _answer(line_id: Any, status: int, body: bytes) -> bytes:
    return b'{"id":%b,"status":%d,"body":%b}\n' % (encode_json(line_id), status, body)


def _refusal(line_id: Any, problem: Problem) -> bytes:
    return _answer(line_id, problem.status, encode_json(problem.body()))


def _id_of(line: bytes) -> Any:
    """The `id` of a line that is refused, if it has one; Python's reader takes more for JSON than msgspec does."""
    try:
        found = json.loads(line)
        line_id = found.get("id") if isinstance(found, dict) else None
        encode_json(line_id)
    except (ValueError, RecursionError, msgspec.EncodeError):
        return None
    return line_id
