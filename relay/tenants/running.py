"""The server that runs in this process, if one does, as configuration sees it.

The runtime stands above these packages: it puts itself in here when it serves, so that nothing below has to know it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from relay.tenants.keyring import KeyRing


class Server(Protocol):
    """What configuration needs of a running server. Called from threads."""

    @property
    def keyring(self) -> KeyRing:
        """The keys that count now."""

    def call(self, fn: Callable[..., Any], *args: Any, timeout_s: float = 10.0) -> Any:
        """Runs `fn(*args)` on the event loop, awaits what it returns if it can be awaited."""

    def catch_up(self) -> None:
        """Takes over what changed in the database."""

    def references(self, *, tenant: str | None = None, priority: str | None = None) -> int:
        """How many live leases and waiters name a tenant or a priority class."""


_server: Server | None = None


def serve(server: Server | None) -> None:
    """This process serves from now on (None: no longer)."""
    global _server
    _server = server


def server() -> Server | None:
    """The server of this process; None in a command or a test."""
    return _server


def publish() -> None:
    """After a commit: the running server takes the change over before this returns."""
    if _server is not None:
        _server.catch_up()


def references(*, tenant: str | None = None, priority: str | None = None) -> int:
    """How many live leases and waiters name a tenant or a priority class; 0 where no server runs."""
    return 0 if _server is None else _server.references(tenant=tenant, priority=priority)
