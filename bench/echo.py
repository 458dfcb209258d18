"""The yardstick: a raw ASGI echo on the same server program with the same settings as the relay.

It decodes an acquire's body and encodes an answer of a lease's size with msgspec; no key, no pool, no journal.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import uvicorn

from relay.server import listen, server_config


class Acquire(msgspec.Struct, forbid_unknown_fields=True):
    """An acquire's body."""

    permits: int = 1
    priority: str | None = None
    timeout_s: float | None = None
    ttl_s: float | None = None
    holder: str = ""
    metadata: dict[str, Any] = {}


class Answer(msgspec.Struct):
    """A lease as an acquire answers it."""

    lease_id: str
    pool: str
    tenant: str
    permits: int
    priority: str
    holder: str
    metadata: dict[str, Any]
    fencing_token: int
    waited_s: float
    acquired_at: str
    expires_at: str
    expires_in_s: float
    ttl_s: float


decode = msgspec.json.Decoder(Acquire).decode
encode = msgspec.json.Encoder().encode


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers every request with a lease made from its body."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    message = await receive()
    asked = decode(message["body"] or b"{}")
    body = encode(
        Answer(
            lease_id="0198c1a2b3c4d5e6f708192a3b4c5d6e",
            pool="gpu",
            tenant="default",
            permits=asked.permits,
            priority=asked.priority or "interactive",
            holder=asked.holder,
            metadata=asked.metadata,
            fencing_token=1284,
            waited_s=0.0,
            acquired_at="2026-01-01T00:00:00.000000Z",
            expires_at="2026-01-01T00:01:00.000000Z",
            expires_in_s=60.0,
            ttl_s=asked.ttl_s or 60.0,
        )
    )
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return


def main() -> None:
    """Serves on the port given as the only argument, with the relay's own server options."""
    uvicorn.Server(server_config(app)).run(sockets=[listen("127.0.0.1", int(sys.argv[1]))])


if __name__ == "__main__":
    main()
