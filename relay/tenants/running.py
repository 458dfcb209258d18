"""From configuration up to the server that runs in this process, if one does.

The runtime stands above these packages and reads from them, hence the late imports: here, and nowhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relay.runtime import Runtime


def server() -> Runtime | None:
    """The runtime of this process; None in a command or a test."""
    from relay import runtime

    try:
        return runtime.current()
    except RuntimeError:
        return None


def publish() -> None:
    """After a commit: the running server takes the change over before this returns."""
    from relay import runtime

    runtime.publish()


def references(*, tenant: str | None = None, priority: str | None = None) -> int:
    """How many live leases and waiters name a tenant or a priority class; 0 where no server runs."""
    found = server()
    if found is None:
        return 0
    engine = found.engine
    return int(found.call(lambda: engine.references(tenant=tenant, priority=priority)))
