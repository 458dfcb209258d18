"""A stream of operations: in order, as they come, each line's error its own, and nothing of it all in memory."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from tests.relay_server import RelayServer
from tests.tokens.desk import KEY, READER, Desk

PATH = "/api/v1/tokens/stream"


class Caller:
    """One request whose body comes in parts, and the answers as they are sent."""

    def __init__(self, parts: Iterable[bytes] | AsyncIterator[bytes], *, query: str = "", key: str = KEY) -> None:
        self.scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "query_string": query.encode(),
            "headers": [(b"content-type", b"application/x-ndjson"), (b"authorization", b"Bearer " + key.encode())],
        }
        self.status = 0
        self.sent = b""
        self._parts = parts if hasattr(parts, "__anext__") else _each(parts)

    async def receive(self) -> dict[str, Any]:
        part = await anext(self._parts, None)  # type: ignore[arg-type]
        return {"type": "http.request", "body": part or b"", "more_body": part is not None}

    async def send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.sent += message.get("body", b"")

    def lines(self) -> list[dict[str, Any]]:
        """The answers so far."""
        return [json.loads(line) for line in self.sent.splitlines()]


async def _each(parts: Iterable[bytes]) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def answered(desk: Desk, parts: Iterable[bytes], **options: Any) -> list[dict[str, Any]]:
    """The answers to a stream."""
    caller = Caller(parts, **options)
    desk.run(desk.api.routes[PATH](caller.scope, caller.receive, caller.send))
    assert caller.status == 200, caller.sent
    return caller.lines()


def line(**fields: Any) -> bytes:
    """One line of a stream."""
    return json.dumps(fields).encode() + b"\n"


def test_every_operation_is_answered_in_order(desk: Desk) -> None:
    body = b"".join(
        (
            line(id=1, op="count", text="one two three"),
            line(id="b", op="encode", text="👍🏽ok", offsets="utf16"),
            line(id=[3], op="truncate", text="one two three", max_tokens=2),
            b"\r\n\n",
            line(id=None, op="decode", ids=[5303, 612]),
            line(op="fit", text="one", reserve_output=3),
            line(id=6, op="count", models=["gpt2", "none"], text="x"),
        )
    )
    found = answered(desk, [body], query="model=gpt2")
    assert [each["id"] for each in found] == [1, "b", [3], None, None, 6]
    assert {each["status"] for each in found} == {200}
    bodies = [each["body"] for each in found]
    assert (bodies[0]["count"], bodies[1]["offsets"][-1], bodies[2]["text"]) == (3, [4, 6], "one two")
    assert (bodies[3]["text"], bodies[4]["left"], len(bodies[5]["results"])) == ("hi there", 1024 - 4, 2)


def test_a_wrong_line_is_answered_and_the_others_go_on(desk: Desk) -> None:
    wrong = [
        (b"no json\n", None, 400, "invalid"),
        (line(id=2, op="count", text="x", unheard=1), 2, 400, "invalid"),
        (line(id=3, op="sing"), 3, 400, "invalid"),
        (line(id=4, op="count", model="none", text="x"), 4, 404, "model-not-found"),
        (line(id=5, op="decode", ids=[999_999]), 5, 400, "invalid"),
        (b'{"id": 6, "op": "count", "text": "\\ud800"}\n', 6, 400, "invalid"),
        (line(id=7, op="count", messages=[{"role": "user", "content": "x"}]), 7, 400, "no-chat-template"),
        (b"[" * 100_000 + b"\n", None, 400, "invalid"),
    ]
    body = b"".join(each + line(id="ok", op="count", text="fine") for each, *_ in wrong)
    found = answered(desk, [body], query="model=gpt2")
    assert [each["status"] for each in found[1::2]] == [200] * len(wrong)
    for (_, line_id, status, code), answer in zip(wrong, found[::2], strict=True):
        assert (answer["id"], answer["status"], answer["body"]["code"]) == (line_id, status, code)


def test_one_refused_text_does_not_refuse_those_counted_with_it(desk: Desk) -> None:
    huge = "\U0001f9ff" * 600_000  # above 2 MiB, without a cut
    found = answered(
        desk, [line(id=1, op="count", model="gpt2", text=huge) + line(id=2, op="count", model="gpt2", text="x")]
    )
    assert [each["status"] for each in found] == [413, 200]


def test_lines_may_come_in_any_pieces_and_the_last_without_an_end(desk: Desk) -> None:
    texts = [f"piece {number} 世界" for number in range(300)]
    body = b"".join(line(id=number, op="count", text=text) for number, text in enumerate(texts)).rstrip()
    counts = desk.post("count", {"model": "gpt2", "texts": texts}).body["counts"]
    for size in (1, 7, 1000):
        parts = [body[start : start + size] for start in range(0, len(body), size)]
        found = answered(desk, parts, query="model=gpt2")
        assert [each["body"]["count"] for each in found] == counts
        assert [each["id"] for each in found] == list(range(300))


def test_a_line_over_the_limit_is_refused_and_the_next_counted(desk: Desk) -> None:
    part = b"x" * (1024 * 1024)
    parts = [*[part] * 17, b"\n" + line(id=2, op="count", model="gpt2", text="x")]
    found = answered(desk, parts)
    assert [(each["id"], each["status"]) for each in found] == [(None, 413), (2, 200)]


def test_answers_come_while_the_caller_still_sends(desk: Desk) -> None:
    async def talk() -> None:
        asked: asyncio.Queue[bytes] = asyncio.Queue()

        async def parts() -> AsyncIterator[bytes]:
            while part := await asked.get():
                yield part

        caller = Caller(parts())
        done = asyncio.create_task(desk.api.routes[PATH](caller.scope, caller.receive, caller.send))  # type: ignore[arg-type]
        for number in range(3):
            asked.put_nowait(line(id=number, op="count", model="gpt2", text=f"talk {number}"))
            async with asyncio.timeout(5):
                while len(caller.lines()) <= number:
                    await asyncio.sleep(0.001)
        asked.put_nowait(b"")
        await done

    desk.run(talk())


def test_a_caller_who_takes_nothing_is_not_read_without_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.tokens.stream_api.WAITING_LIMIT", 10_000)
    read = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield line(id=read, op="count", model="gpt2", text="again") * 10

    async def talk() -> None:
        caller = Caller(parts())
        taken = asyncio.Event()

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.body":
                await taken.wait()

        task = asyncio.create_task(desk.api.routes[PATH](caller.scope, caller.receive, send))  # type: ignore[arg-type]
        await asyncio.sleep(0.3)
        held = read
        await asyncio.sleep(0.2)
        assert read == held < 50
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    desk.run(talk())


def test_who_may_stream_and_how(desk: Desk) -> None:
    assert desk.post("stream", b"{}", media=b"application/json").body["code"] == "not-json"
    assert desk.post("stream", b"{}", media=b"application/x-ndjson", key=READER).status == 403
    assert desk.post("stream", b"{}", media=b"application/x-ndjson", query="modle=x").status == 400
    assert desk.get("stream").status == 405


def test_a_long_stream_over_http_stays_small_in_memory(relay: RelayServer) -> None:
    text = "a text of some length, " * 40
    lines = 30_000  # 28 MB

    def resident() -> int:
        with open(f"/proc/{relay.pid}/statm") as file:
            return int(file.read().split()[1]) * 4096

    def body() -> Any:
        for number in range(lines):
            yield line(id=number, op="count", text=f"{number % 50} {text}")

    with relay.http() as client:
        client.post("/api/v1/tokens/count", json={"model": "gpt2", "text": text}).raise_for_status()
        before, began = resident(), time.monotonic()
        answer = client.post(
            f"{PATH}?model=gpt2", content=body(), headers={"content-type": "application/x-ndjson"}, timeout=100
        )
        took = time.monotonic() - began
    found = [json.loads(each) for each in answer.text.splitlines()]
    assert [each["id"] for each in found] == list(range(lines))
    assert len({each["body"]["count"] for each in found}) <= 3
    assert resident() - before < 60 * 1024 * 1024
    assert took < 60
