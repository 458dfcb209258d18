"""The server program: uvicorn's options, its socket, and the way it ends. The benchmark's echo uses the same options."""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

BACKLOG = 4096
FILES = 1_048_576

# Waiters are answered at once when the end begins; what else is under way gets this long, in seconds.
GRACE_S = 6


class StartRefused(Exception):
    """Why the server can't start: one line for the person who started it."""


def server_config(app: Any, *, proxies: list[str] | None = None) -> uvicorn.Config:
    """uvicorn's options for an ASGI application. `proxies`: whose X-Forwarded-For and -Proto headers count."""
    return uvicorn.Config(
        app,
        interface="asgi3",
        loop="uvloop",
        http="httptools",
        ws="websockets-sansio",
        ws_max_size=1024 * 1024,
        ws_per_message_deflate=False,  # deflated for each socket, one live frame costs as much as it has readers
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies or [],
        backlog=BACKLOG,
        timeout_keep_alive=75,  # above what proxies and client pools keep, so that they close first
        timeout_graceful_shutdown=GRACE_S,
    )


class Server(uvicorn.Server):
    """uvicorn, that says when it serves, and lets the relay answer its waiters first when it ends."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None], on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start
        self._on_end = on_end
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the application, then the listeners."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._on_start()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """On SIGTERM and SIGINT: `on_end` runs on the event loop, before the connections are closed."""
        super().handle_exit(sig, frame)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_end)


def run(server: Server, listener: socket.socket) -> None:
    """Serves until SIGTERM or SIGINT, then raises SystemExit(0). Raises SystemExit(3) if the application can't start."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    # uvicorn raises the signal anew when it has ended: an orderly end is no failure
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    server.run(sockets=[listener])


def _is_news(record: logging.LogRecord) -> bool:
    # the application has said in one line why it can't start
    return "startup failed" not in record.getMessage()


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; callers queue in it until the server accepts. `port` 0 takes a free one. Raises StartRefused."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror:
        raise StartRefused(f"--host {host!r} is no address of this machine. Use 127.0.0.1 or 0.0.0.0.") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise StartRefused(_why_not(error, host, port)) from None
    listener.set_inheritable(False)
    return listener


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use. Stop what uses it, or choose another: make run PORT={_other(port)}"
    if error.errno == errno.EACCES:
        return f"Port {port} needs privileges. Choose one above 1023: make run PORT=8000"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"--host {host!r} is no address of this machine. Use 127.0.0.1 or 0.0.0.0."
    return f"Can't listen on {host} port {port}: {error.strerror}."


def _other(port: int) -> int:
    return port + 1 if port < 65535 else 8000


def raise_file_limit() -> None:
    """Lets the process open as many files as it may: each waiting caller is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def address(listener: socket.socket) -> str:
    """The URL at which a browser on this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
