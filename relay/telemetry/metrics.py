"""`GET /metrics`: Prometheus text or OpenMetrics, made in small slices on the event loop."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator

from relay.http import Handler, Problem, Receive, Scope, Send, headers_of, streaming
from relay.telemetry.collector import Collector
from relay.telemetry.gauges import Gauged
from relay.telemetry.meters import Meters

TEXT = b"text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = b"application/openmetrics-text; version=1.0.0; charset=utf-8"

_CHUNK_PARTS = 64  # some 100 KB at most: encoding and writing a chunk must not hold the loop either


def metrics_handler(meters: Meters, engine: Gauged, token: str | None) -> Handler:
    """The handler. With `token` (RELAY_METRICS_TOKEN) a scrape must send it as a bearer token, else 401."""
    collector = Collector(meters, engine)
    expected = None if not token else b"Bearer " + token.encode()

    async def scrape(scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        if expected is not None and not hmac.compare_digest(headers.get(b"authorization") or b"", expected):
            raise Problem(401, "unauthenticated", "Send the metrics token: Authorization: Bearer TOKEN.")
        openmetrics = wants_openmetrics(headers.get(b"accept") or b"")
        media = OPENMETRICS if openmetrics else TEXT
        answer_headers = [(b"content-type", media), (b"cache-control", b"no-store")]
        chunks = [chunk async for chunk in render(collector, openmetrics)]
        await send({"type": "http.response.start", "status": 200, "headers": answer_headers})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": b""})

    return streaming("GET", scrape)


async def render(collector: Collector, openmetrics: bool) -> AsyncIterator[bytes]:
    """The document in chunks. Lets the event loop run between two pools and between two chunks."""
    for families in collector.collect():
        if families is None:
            await asyncio.sleep(0)
            continue
        for family in families:
            pieces = [family.head(openmetrics), *family.parts]
            for start in range(0, len(pieces), _CHUNK_PARTS):
                yield "".join(pieces[start : start + _CHUNK_PARTS]).encode()
                await asyncio.sleep(0)
    if openmetrics:
        yield b"# EOF\n"


def wants_openmetrics(accept: bytes) -> bool:
    """Whether an Accept header prefers OpenMetrics to plain text."""
    best = {"application/openmetrics-text": 0.0, "text/plain": 0.0}
    for choice in accept.decode("latin-1").split(","):
        media, *parameters = (part.strip().lower() for part in choice.split(";"))
        if media not in best:
            continue
        quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        try:
            best[media] = max(best[media], float(quality))
        except ValueError:
            continue
    return best["application/openmetrics-text"] > best["text/plain"]
