"""The demo's HTTP client: kept connections, and what it does when the relay has closed one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bench.client import Api


class Answers:
    """A server whose connections each live for so many requests."""

    def __init__(self, per_connection: int, answer: bytes) -> None:
        self.per_connection = per_connection
        self.answer = answer
        self.connections = 0
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for _ in range(self.per_connection):
            try:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            except asyncio.IncompleteReadError:
                break
            writer.write(self.answer)
            await writer.drain()
        writer.close()


GOOD = b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}'


def talk(server: Answers, conversation: Callable[[Api], Awaitable[None]]) -> None:
    async def run() -> None:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        api = Api(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", "secret")
        await conversation(api)
        api.close()
        listener.close()

    asyncio.run(run())


def test_requests_one_after_the_other_share_a_connection() -> None:
    server = Answers(10, GOOD)

    async def conversation(api: Api) -> None:
        for _ in range(3):
            assert await api.call("POST", "/x", None, key="k-1") == (200, {"a": 1})

    talk(server, conversation)
    assert server.connections == 1
    assert b"\r\nauthorization: Bearer secret\r\n" in server.heads[0]
    assert b"\r\nidempotency-key: k-1\r\n" in server.heads[0]


def test_a_request_on_a_connection_that_was_closed_meanwhile_is_sent_again() -> None:
    server = Answers(1, GOOD)

    async def conversation(api: Api) -> None:
        for _ in range(3):
            assert (await api.call("GET", "/x"))[0] == 200
            await asyncio.sleep(0.01)

    talk(server, conversation)
    assert server.connections == 3


def test_a_broken_answer_is_a_connection_error() -> None:
    async def conversation(api: Api) -> None:
        with pytest.raises(ConnectionError, match="broken answer"):
            await api.call("GET", "/x")

    talk(Answers(1, b"HTTP/1.1 200 OK\r\nContent-Length: 80\r\n\r\n{}"), conversation)


def test_a_relay_that_is_not_there_is_an_os_error() -> None:
    async def run() -> None:
        with pytest.raises(OSError, match="Connect"):
            await Api("http://127.0.0.1:9", "k").call("GET", "/x")

    asyncio.run(run())
