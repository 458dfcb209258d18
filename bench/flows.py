"""What one connection of the load generator sends next: one small state machine per scenario.

A flow sees whole answers (head and body) and returns whole requests. It is on the hot path: bytes in, bytes out, no JSON library.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

ACQUIRE_BODY = b'{"permits":1,"priority":"interactive","timeout_s":30,"ttl_s":60,"holder":"worker-7","metadata":{}}'
SAMPLE_TEXT = "The quick brown fox jumps over the lazy dog while 42 engineers count every token of its very long tail."

_LEASE_ID = b'"lease_id":"'
_unique = itertools.count(time.time_ns() % 1_000_000_000_000)


class FlowSpec(Struct, frozen=True):
    """Which flow, and its particulars. `body` replaces the default acquire body, `release` is the release's."""

    name: str
    key: str = ""
    pool: str = ""
    body: str = ""
    path: str = ""
    release: str = ""


class Flow(Protocol):
    """One connection's requests. `step` numbers the kind of the request that is under way; at 0 nothing is held."""

    step: int

    def first(self) -> bytes:
        """The first request."""

    def after(self, status: int, answer: bytes) -> bytes:
        """The next request, given the whole last answer."""


def request(method: str, path: str, key: str = "", body: bytes = b"") -> bytes:
    """A whole HTTP/1.1 request."""
    head = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1"]
    if key:
        head.append(f"authorization: Bearer {key}")
    if body:
        head.append("content-type: application/json")
    if body or method != "GET":
        head.append(f"content-length: {len(body)}")
    return ("\r\n".join(head) + "\r\n\r\n").encode() + body


def lease_id(answer: bytes) -> bytes:
    """The lease's id in an acquire's answer, found without parsing it. Raises ValueError if there is none."""
    start = answer.index(_LEASE_ID) + len(_LEASE_ID)
    return answer[start : answer.index(b'"', start)]


class Same:
    """The same request over and over."""

    def __init__(self, message: bytes) -> None:
        self.step = 0
        self._message = message

    def first(self) -> bytes:
        """The request."""
        return self._message

    def after(self, status: int, answer: bytes) -> bytes:
        """The request again."""
        return self._message


class Pair:
    """Acquire, release, acquire, … A refused acquire is tried again at once. Step 0 is the acquire, 1 the release."""

    def __init__(self, spec: FlowSpec) -> None:
        self.step = 0
        body = spec.body.encode() or ACQUIRE_BODY
        self._acquire = request("POST", f"/api/v1/pools/{spec.pool}/acquire", spec.key, body)
        self._before = b"POST /api/v1/leases/"
        self._after = b"/release" + request("POST", "", spec.key, spec.release.encode()).removeprefix(b"POST ")

    def first(self) -> bytes:
        """An acquire."""
        return self._acquire

    def after(self, status: int, answer: bytes) -> bytes:
        """The other of the two."""
        if self.step == 0 and status < 300:
            self.step = 1
            return self._before + lease_id(answer) + self._after
        self.step = 0
        return self._acquire


class Unique:
    """Token counts of texts that no cache has seen: each begins with a number of its own."""

    def __init__(self, spec: FlowSpec) -> None:
        self.step = 0
        sample = request("POST", "/api/v1/tokens/count", spec.key, count_body(f"{0:015d} {SAMPLE_TEXT}"))
        self._before, self._after = sample.split(b"0" * 15, 1)

    def first(self) -> bytes:
        """A count."""
        return self._before + b"%015d" % next(_unique) + self._after

    def after(self, status: int, answer: bytes) -> bytes:
        """A count of another text."""
        return self._before + b"%015d" % next(_unique) + self._after


def count_body(text: str) -> bytes:
    """The body of a token count of plain ASCII text without quotes."""
    return f'{{"model":"gpt2","text":"{text}"}}'.encode()


def _echo(spec: FlowSpec) -> Flow:
    return Same(request("POST", "/api/v1/pools/bench/acquire", spec.key, spec.body.encode() or ACQUIRE_BODY))


def _get(spec: FlowSpec) -> Flow:
    return Same(request("GET", spec.path, spec.key))


def _count(spec: FlowSpec) -> Flow:
    return Same(request("POST", "/api/v1/tokens/count", spec.key, count_body(SAMPLE_TEXT)))


FLOWS: dict[str, Callable[[FlowSpec], Flow]] = {
    "echo": _echo,
    "get": _get,
    "pair": Pair,
    "count": _count,
    "count-unique": Unique,
}
