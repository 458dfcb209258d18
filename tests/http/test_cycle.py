"""The short cuts past uvicorn's `receive` and `send` say, byte for byte, what the ordinary way says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from relay.http import Receive, Scope, Send, headers_of, read_body, send_json

App = Callable[[Scope, Receive, Send], Any]
POST = b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n%b"


class Transport(asyncio.Transport):
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the body that came."""
    await send_json(201, await read_body(headers_of(scope), receive), receive, send)


async def plain(scope: Scope, receive: Receive, send: Send) -> None:
    """The same under a server that we do not know: the methods are hidden."""

    async def received() -> dict[str, Any]:
        return await receive()

    await echo(scope, received, send)


def answers(app: App, *parts: bytes) -> Transport:
    """What the app's server writes when these parts come, one a turn of the loop."""

    async def run() -> Transport:
        config = uvicorn.Config(app, log_config=None, access_log=False)
        config.load()
        state, transport = ServerState(), Transport()
        state.default_headers = [(b"date", b"today"), (b"x-y", b"z")]
        protocol = HttpToolsProtocol(config, state, {})
        protocol.connection_made(transport)
        for part in parts:
            protocol.data_received(part)
            for _ in range(5):
                await asyncio.sleep(0)
        protocol._unset_keepalive_if_required()
        return transport

    return asyncio.run(run())


def post(body: bytes, headers: bytes = b"") -> bytes:
    return POST % (len(body), headers, body)


@pytest.mark.parametrize("body", [b"{}", b"", b'"%s"' % (b"x" * 100_000)])
def test_both_ways_answer_alike(body: bytes) -> None:
    short, ordinary = answers(echo, post(body)), answers(plain, post(body))
    assert b"".join(short.written) == b"".join(ordinary.written)
    assert b"".join(short.written).endswith(b"\r\n\r\n" + body)


def test_the_short_way_is_one_write() -> None:
    assert len(answers(echo, post(b"{}")).written) == 1
    assert len(answers(plain, post(b"{}")).written) == 2


def test_a_body_in_parts_is_waited_for() -> None:
    whole = post(b'{"a":1}')
    assert b"".join(answers(echo, whole[:-3], whole[-3:]).written).endswith(b'{"a":1}')


def test_requests_in_a_row_are_answered_in_order() -> None:
    written = b"".join(answers(echo, post(b"1") + post(b"2") + post(b"3")).written)
    assert [part[:1] for part in written.split(b"\r\n\r\n")[1:]] == [b"1", b"2", b"3"]


def test_a_caller_that_asks_to_close_is_closed_as_ever() -> None:
    short, ordinary = (answers(app, post(b"{}", b"connection: close\r\n")) for app in (echo, plain))
    assert short.closed
    assert b"".join(short.written) == b"".join(ordinary.written)
