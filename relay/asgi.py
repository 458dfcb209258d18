"""The entry: data plane, metrics and health first, then WebSocket, then Django.

Django starts a thread per request even for async views, so what is called thousands of times a second is answered
before it is reached.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relay.settings")

from django.core.asgi import get_asgi_application

_application = get_asgi_application()


from channels.auth import AuthMiddlewareStack
from channels.routing import URLRouter
from django.conf import settings
from django.urls import re_path

from dashboard.routing import websocket_urlpatterns
from relay.http import Handler, Receive, Reply, Scope, Send, bounded, encode_json, endpoint
from relay.permits.engine.journal import JournalRefused
from relay.runtime import Runtime
from relay.telemetry.metrics import metrics_handler

_django = bounded(_application)  # type: ignore[arg-type]  # Django's types are narrower than ASGI's


async def _no_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuses a WebSocket at an address that has none: uvicorn makes 403 of it."""
    await receive()
    await send({"type": "websocket.close", "code": 4404})


_sockets = [*websocket_urlpatterns, re_path(r"", _no_socket)]  # type: ignore[arg-type]  # an ASGI application is meant
_websockets: Handler = AuthMiddlewareStack(URLRouter(_sockets))


class Application:
    """The ASGI application of one process; its lifespan is the runtime's."""

    def __init__(self) -> None:
        self._runtime: Runtime | None = None
        self._routes: dict[str, Handler] = {}
        self._handler: Callable[[str], Handler | None] = lambda path: None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Routes one connection. No coroutine of its own: that would cost every request."""
        kind = scope["type"]
        if kind == "http":
            path = scope["path"]
            handler = self._handler(path) or self._routes.get(path) or _django
            return handler(scope, receive, send)
        if kind == "lifespan":
            return self._lifespan(receive, send)
        return _websockets(scope, receive, send)

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
        self._handler = runtime.permits_api.handler
        self._routes = {
            **runtime.tokens_api.routes,
            runtime.several_api.path: runtime.several_api.acquire,
            "/metrics": metrics_handler(runtime.meters, runtime.engine, settings.RELAY_METRICS_TOKEN),
            "/healthz": endpoint("GET", self._alive),
            "/readyz": endpoint("GET", self._ready),
        }

    async def _alive(self, scope: Scope, receive: Receive) -> Reply:
        return Reply(200, b'{"status":"ok"}')

    async def _ready(self, scope: Scope, receive: Receive) -> Reply:
        assert self._runtime is not None
        ready, body = self._runtime.ready()
        return Reply(200 if ready else 503, encode_json(body))


application = Application()
