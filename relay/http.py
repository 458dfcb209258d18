"""The few lines of ASGI that both data planes share: read, decode, answer, problem+json.

A data plane's handler gets scope and receive and returns a `Reply`; `endpoint` makes an ASGI function of it. It
raises `Problem` for every other answer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from relay.uvicorn_cycle import answer_json, cycle_of, is_lost, take_body

log = logging.getLogger("relay.http")

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]
Respond = Callable[[Scope, Receive], Awaitable["Reply | None"]]
T = TypeVar("T")

BODY_LIMIT = 2 * 1024 * 1024
TOKENS_BODY_LIMIT = 16 * 1024 * 1024

JSON_HEADERS = (b"content-type", b"application/json")
PROBLEM_HEADERS = (b"content-type", b"application/problem+json")

ATTENDED_BYTES = 64 * 1024

NAME_SHOWN = 100  # characters of a field's name that an error repeats

TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    410: "Gone",
    412: "Precondition failed",
    413: "Too large",
    415: "Unsupported media type",
    422: "Unprocessable",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
}

encode_json = msgspec.json.Encoder().encode

# what `send` raises if the connection was lost unnoticed: uvicorn does not read while it has requests
LOST = (RuntimeError, OSError)


class Problem(Exception):
    """An error as the caller sees it (RFC 9457). `retry_after_s` is set wherever another try may succeed."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Mapping[str, list[str]] | None = None,
        retry_after_s: float | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.errors = errors
        self.retry_after_s = retry_after_s
        self.headers = headers

    def body(self) -> dict[str, Any]:
        """The members of the problem document."""
        document: dict[str, Any] = {
            "type": f"urn:token-relay:{self.code}",
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        if self.errors is not None:
            document["errors"] = self.errors
        if self.retry_after_s is not None:
            document["retry_after_s"] = round(self.retry_after_s, 3)
        return document

    def retry_after(self) -> int | None:
        """The Retry-After header's value: whole seconds, at least 1."""
        return None if self.retry_after_s is None else max(1, math.ceil(self.retry_after_s))


def invalid(field: str, message: str) -> Problem:
    """400 `invalid` that names one field."""
    return Problem(400, "invalid", f"{field}: {message}", errors={field: [message]})


def cut_off() -> Problem:
    """400: nobody reads it. Made anew each time: a raised exception keeps its traceback, and with that the bodies."""
    return Problem(400, "invalid", "The caller left before the body was whole.")


def method_not_allowed(*allowed: str) -> Problem:
    """405 with the methods that are."""
    names = ", ".join(allowed)
    return Problem(405, "method-not-allowed", f"Use {names} here.", headers=((b"allow", names.encode()),))


async def answer_problem(send: Send, problem: Problem) -> None:
    """Sends a problem document, with Retry-After where it has one."""
    body = encode_json(problem.body())
    headers = [(b"content-length", b"%d" % len(body)), PROBLEM_HEADERS, *problem.headers]
    retry_after = problem.retry_after()
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % retry_after))
    if problem.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="token-relay"'))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_json(status: int, body: bytes, receive: Receive, send: Send) -> None:
    """Sends an answer with a JSON body. May raise what `LOST` names."""
    cycle = cycle_of(receive)
    if cycle is not None and answer_json(cycle, status, body):
        return
    headers = [(b"content-length", b"%d" % len(body)), JSON_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Reply(Struct, frozen=True):
    """An answer with a JSON body."""

    status: int
    body: bytes


def endpoint(method: str, respond: Respond) -> Handler:
    """The ASGI handler of one method: `respond` gives the answer, or None if there is nobody to answer.

    A `Problem` becomes its answer, a bug becomes a 500 that is logged.
    """

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] != method:
                raise method_not_allowed(method)
            reply = await respond(scope, receive)
        except Exception as error:
            await answer_error(scope, send, error)
            return
        if reply is None:
            return
        try:
            await send_json(reply.status, reply.body, receive, send)
        except LOST:
            log.debug("%s %s: the caller was gone", scope["method"], scope["path"])

    return run


def streaming(method: str, handler: Handler) -> Handler:
    """The same for a handler that sends its answer itself, in parts."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] != method:
                raise method_not_allowed(method)
            await handler(scope, receive, send)
        except Exception as error:
            await answer_error(scope, send, error)

    return run


async def answer_error(scope: Scope, send: Send, error: Exception) -> None:
    """Answers a `Problem` as it is, anything else as a 500 that is logged."""
    if not isinstance(error, Problem):
        log.error("%s %s failed", scope["method"], scope["path"], exc_info=error)
        error = Problem(500, "internal", "The relay failed; its log says why.")
    await answer_problem(send, error)


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers by name in lower case; of several with one name the last."""
    return dict(scope["headers"])


async def read_body(headers: dict[bytes, bytes], receive: Receive, limit: int = BODY_LIMIT) -> bytes:
    """The whole body. Raises 413 before it is in memory, 415 if it is not said to be JSON."""
    cycle = cycle_of(receive)
    body = None if cycle is None else take_body(cycle)
    if body is None:
        body = await _receive_body(headers, receive, limit)
    if body:
        if len(body) > limit:
            raise body_too_large(limit)
        media = headers.get(b"content-type")
        if media != b"application/json" and not _is_json(media):
            raise Problem(415, "not-json", "Send the body with Content-Type: application/json.")
    return body


async def _receive_body(headers: dict[bytes, bytes], receive: Receive, limit: int) -> bytes:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise cut_off()
    body: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return body
    declared = headers.get(b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise body_too_large(limit)
    chunks, size, more = [body], len(body), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise cut_off()
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            raise body_too_large(limit)
        more = message.get("more_body", False)
    return b"".join(chunks)


def _is_json(media: bytes | None) -> bool:
    return media is not None and media.split(b";", 1)[0].strip().lower() == b"application/json"


def body_too_large(limit: int) -> Problem:
    """413 that says the limit."""
    return Problem(
        413, "body-too-large", f"The body is over {limit // 1024} KiB.", headers=((b"connection", b"close"),)
    )


# msgspec says where: "... - at `$.requests[0].permits`" and "unknown field `x`"
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")
_FIELD = re.compile(r"(?:unknown|required) field `([^`]*)`")


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decodes a body; an empty one counts as `{}`. Raises 400 `invalid` that names the field."""
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as error:
        raise misfit(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise invalid("body", f"not valid JSON ({error})") from None


def misfit(error: msgspec.ValidationError, message: str | None = None) -> Problem:
    """400 `invalid` that names the field which did not fit. `message` replaces msgspec's own words."""
    text = str(error)
    place, field = _PLACE.search(text), _FIELD.search(text)
    names = [part.group(1).partition("[...]")[0][:NAME_SHOWN] for part in (place, field) if part is not None]
    if message is None:
        message = _FIELD.sub(lambda found: found.group(0)[:NAME_SHOWN], _PLACE.sub("", text))
    return invalid(".".join(name for name in names if name not in ("", "...")) or "body", message)


def bounded(app: Handler, limit: int = BODY_LIMIT) -> Handler:
    """Puts a limit on the bodies of an application that would take in any: 413 before more than that was read."""

    async def run(scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def counted() -> dict[str, Any]:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit:
                raise body_too_large(limit)
            return message

        try:
            await app(scope, counted, send)
        except Problem as problem:
            await answer_problem(send, problem)

    return run


class Connection:
    """A caller's connection while its request is under way: is it still there?

    uvicorn does not cancel a handler when its client leaves; only `receive` tells. The body must have been read.
    """

    __slots__ = ("_cycle", "_receive", "_watch")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._cycle = cycle_of(receive)
        self._watch: asyncio.Task[None] | None = None

    def gone(self) -> bool:
        """Whether the caller has left, without waiting."""
        if self._cycle is not None:
            return is_lost(self._cycle)
        if self._watch is not None:
            return self._watch.done()
        step = self._receive().__await__()
        try:
            step.send(None)
        except StopIteration as stop:
            return bool(stop.value["type"] == "http.disconnect")
        step.close()
        return False

    def dropped(self) -> bool:
        """After the answer: whether the connection was lost before all of it was taken. Only uvicorn tells."""
        return self._cycle is not None and self._cycle.disconnected

    def answer_json(self, status: int, body: bytes) -> bool:
        """Answers at once if uvicorn lets us; False: the ordinary way is to be taken."""
        try:
            return self._cycle is not None and not self.gone() and answer_json(self._cycle, status, body)
        except LOST:
            return False

    def watch(self) -> asyncio.Task[None]:
        """A task that is done when the caller has left. End it with `close`."""
        if self._watch is None:
            self._watch = asyncio.ensure_future(self._until_gone())
        return self._watch

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def close(self) -> None:
        """Stops watching."""
        if self._watch is not None and not self._watch.done():
            self._watch.cancel()


def attended(receive: Receive, size: int, work: Awaitable[T]) -> Awaitable[T]:
    """`work` on a body of `size` bytes, to be awaited. On a large one it is cancelled when the caller leaves meanwhile."""
    return work if size <= ATTENDED_BYTES else _attended(receive, work)


async def _attended(receive: Receive, work: Awaitable[T]) -> T:
    connection = Connection(receive)
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, connection.watch()}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise cut_off()
    finally:
        task.cancel()
        connection.close()
