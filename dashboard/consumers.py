"""`/ws/live/`: the feed's frames, as they are, to people who are logged in."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.http.request import split_domain_port, validate_host

from dashboard.sessions import SessionWatch
from relay import runtime

NOT_LOGGED_IN = 4401
BAD_ORIGIN = 4403
TRY_AGAIN = 1013

watch = SessionWatch()


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """One browser's live stream. It encodes nothing and reads no database; who lags too far is closed with 1013.

    A refusal accepts first: a browser learns the close code only of a socket that was open.
    """

    _pump: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Checks origin and login, then streams until the browser or the service leaves."""
        await self.accept()
        if not _own_origin(self.scope):
            await self.close(BAD_ORIGIN)
        elif not self.scope["user"].is_authenticated:
            await self.close(NOT_LOGGED_IN)
        else:
            self._pump = asyncio.ensure_future(self._stream())
            watch.add(self.scope["session"].session_key, self._session_ended)

    async def _session_ended(self) -> None:
        await self.close(NOT_LOGGED_IN)

    async def _stream(self) -> None:
        try:
            feed = runtime.current().feed
        except RuntimeError:
            await self.close(TRY_AGAIN)
            return
        frames = feed.subscribe()
        hello = feed.hello()
        try:
            await self.send(text_data=hello.decode())
            async for frame in frames:
                await self.send(text_data=frame.decode())
            await self.close(TRY_AGAIN)
        finally:
            frames.close()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """The stream goes one way: what a browser says is ignored."""

    async def disconnect(self, code: int) -> None:
        """Ends the stream."""
        watch.remove(self._session_ended)
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)


def _own_origin(scope: Any) -> bool:
    """Whether the page that asks is ours. No Origin: not a browser, so no foreign page either."""
    headers = dict(scope["headers"])
    host = headers.get(b"host", b"").decode("latin-1")
    domain, _ = split_domain_port(host)
    if not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    origin = headers.get(b"origin")
    if origin is None:
        return True
    named = origin.decode("latin-1")
    return urlsplit(named).netloc.lower() == host.lower() or named in settings.CSRF_TRUSTED_ORIGINS
