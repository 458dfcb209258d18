"""The Change log, and the one kind of transaction in which configuration is written.

A writer opens `writing()`, changes its rows, calls `record` and leaves: after the commit the running server takes the
change over. Writers take turns (SQLite by itself, PostgreSQL by a lock), so change ids appear in the order of the commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Literal

from django.db import connection, transaction
from django.db.models import Max
from msgspec import Struct

from relay.http import invalid
from relay.tenants import running
from relay.tenants.fields import rfc3339
from relay.tenants.models import Change

ActorKind = Literal["person", "key", "command", "system"]
Kind = Literal["pool", "share", "priority-class", "tenant", "api-key", "model", "person"]

REASON_LIMIT = 500
_TURN = 7_021_960_119  # the advisory lock's number on PostgreSQL


class Actor(Struct, frozen=True):
    """Who changes something. `request_id` groups what one action did."""

    kind: ActorKind
    name: str
    request_id: str = ""


@contextmanager
def writing() -> Iterator[None]:
    """One transaction of configuration. The running server has taken it over when this returns."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_TURN])
        yield
        transaction.on_commit(running.publish)


def record(
    actor: Actor,
    kind: Kind,
    name: str,
    action: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    pool: str = "",
    tenant: str = "",
    reason: str = "",
    request_id: str = "",
) -> Change:
    """Writes the Change row, in the caller's transaction. `before` and `after` must hold no secret.

    Raises 400 `invalid` if the reason is too long.
    """
    return Change.objects.create(
        actor_kind=actor.kind,
        actor=actor.name,
        request_id=request_id or actor.request_id,
        kind=kind,
        name=name,
        pool=pool,
        tenant=tenant,
        action=action,
        before=before,
        after=after,
        reason=checked_reason(reason),
    )


def checked_reason(reason: str) -> str:
    """The reason as the log keeps it. Raises 400 `invalid`."""
    if len(reason) > REASON_LIMIT:
        raise invalid("reason", f"at most {REASON_LIMIT} characters; this has {len(reason)}")
    if "\x00" in reason:
        raise invalid("reason", "must not contain a NUL character")
    return reason


def change_answer(change: Change) -> dict[str, Any]:
    """A change as lists and the live feed show it."""
    return {
        "id": change.id,
        "at": rfc3339(change.at),
        "actor_kind": change.actor_kind,
        "actor": change.actor,
        "request_id": change.request_id,
        "kind": change.kind,
        "name": change.name,
        "pool": change.pool,
        "tenant": change.tenant,
        "action": change.action,
        "before": change.before,
        "after": change.after,
        "reason": change.reason,
    }


def changes_of(
    pool: str, since: datetime, tenant: str | None, *, action: str | None = None, but: str | None = None
) -> list[dict[str, Any]]:
    """A pool's changes since a moment, the oldest first, at most 500; `tenant`: only those of this tenant.

    `action`: only those; `but`: all others.
    """
    rows = Change.objects.filter(pool=pool, at__gte=since)
    if tenant is not None:
        rows = rows.filter(tenant=tenant)
    if action is not None:
        rows = rows.filter(action=action)
    if but is not None:
        rows = rows.exclude(action=but)
    return [change_answer(row) for row in reversed(rows.order_by("-id")[:500])]


def newest_changes(kind: Kind, names: Collection[str], actions: Collection[str]) -> dict[str, dict[str, Any]]:
    """Of each of these names the newest change of this kind whose action is one of these."""
    if not names:
        return {}
    rows = Change.objects.filter(kind=kind, name__in=names, action__in=actions)
    newest = rows.values("name").annotate(newest=Max("id")).values("newest")
    return {row.name: change_answer(row) for row in Change.objects.filter(id__in=newest)}
