"""The entry: data plane, metrics and health first, then WebSocket, then Django.

Django starts a thread per request even for async views, so what is called thousands of times a second is answered
before it is reached.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relay.settings")

from django.core.asgi import get_asgi_application

_django = get_asgi_application()

from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.conf import settings

from dashboard.routing import websocket_urlpatterns
from relay.http import Handler, Receive, Scope, Send, answer, encode_json, endpoint
from relay.permits.engine.journal import JournalRefused
from relay.runtime import Runtime
from relay.telemetry.metrics import metrics_handler

_websockets = AuthMiddlewareStack(URLRouter(websocket_urlpatterns))


class Application:
    """The ASGI application of one process; its lifespan is the runtime's."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._routes: dict[str, Handler] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Routes one connection."""
        kind = scope["type"]
        if kind == "http":
            await self._handler(scope["path"])(scope, receive, send)
        elif kind == "websocket":
            await _websockets(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)

    def _handler(self, path: str) -> Handler:
        handler = self._routes.get(path)
        if handler is None and self._runtime is not None:
            handler = self._runtime.permits_api.handler(path)
        return handler or _django

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        runtime = Runtime()
        try:
            await runtime.start()
        except (JournalRefused, OSError) as error:
            print(f"token-relay: {error}", file=sys.stderr)
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        self._serve(runtime)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await runtime.stop()
        await send({"type": "lifespan.shutdown.complete"})

    def _serve(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._routes = {
            **runtime.tokens_api.routes,
            "/metrics": metrics_handler(runtime.meters, runtime.engine, settings.RELAY_METRICS_TOKEN),
            "/healthz": endpoint("GET", self._alive),
            "/readyz": endpoint("GET", self._ready),
        }

    async def _alive(self, scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, 200, b'{"status":"ok"}')

    async def _ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._runtime is not None
        ready, body = self._runtime.ready()
        await answer(send, 200 if ready else 503, encode_json(body))


application = Application()
