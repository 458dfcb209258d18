"""Changes of a pool in words: who, when, from what to what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from django.utils.translation import gettext as _

from dashboard.pool.figures import clock, moment, unix_ms, utc
from relay.tenants.changes import changes_of

SHOWN = 100
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_HIDDEN = {"name", "tenant", "shares", "lease_id"}


@dataclass(frozen=True)
class Entry:
    """A change. `parts` are (what, before, after); either end may be empty."""

    at: datetime
    who: str
    what: str
    parts: list[tuple[str, str, str]]
    why: str
    key: int

    @property
    def utc(self) -> str:
        """When, in UTC."""
        return utc(self.at)

    @property
    def clock(self) -> str:
        """When, until the browser writes it in its own zone."""
        return clock(self.at, datetime.now(UTC))

    @property
    def iso(self) -> str:
        """When, for machines."""
        return self.at.isoformat()

    @property
    def line(self) -> str:
        """The whole change in one line."""
        parts = ", ".join(f"{what} {before} → {after}".replace("  ", " ") for what, before, after in self.parts)
        return " ".join(filter(None, (self.what, parts)))

    def mark(self) -> dict[str, Any]:
        """What a chart's mark says: the short form for its flag, all of it for its title."""
        sizes = [f"{before} → {after}" for _what, before, after in self.parts if before and after]
        short = sizes[0] if len(self.parts) == 1 and sizes else self.what or _("several")
        why = f" · {self.why}" if self.why else ""
        return {"t": unix_ms(self.at) / 1000, "text": f"{self.who} {short}", "title": f"{self.who}: {self.line}{why}"}


def entries(pool: str, since: datetime | None = None) -> list[Entry]:
    """A pool's changes, the newest first."""
    found = changes_of(pool, since or _LONG_AGO, None)
    return [entry_of(change) for change in reversed(found[-SHOWN:])]


def marks(pool: str, range_s: int) -> list[dict[str, Any]]:
    """The changes of the last `range_s` seconds as a chart's marks, the oldest first."""
    return [entry.mark() for entry in reversed(entries(pool, datetime.now(UTC) - timedelta(seconds=range_s)))]


def entry_of(change: dict[str, Any]) -> Entry:
    """A change as `/changes` answers it, in words."""
    before, after = change["before"] or {}, change["after"] or {}
    fields = [name for name in dict.fromkeys((*before, *after)) if name not in _HIDDEN]
    if change["action"] == "update":
        fields = [name for name in fields if before.get(name) != after.get(name)]
    if change["action"] in ("pause", "resume", "drain"):
        fields = []
    if change["action"] == "create" and change["kind"] == "pool":
        fields = ["capacity"]
    if change["action"] in ("create", "delete"):
        fields = [name for name in fields if (after or before).get(name) not in (None, "", 0)]
    parts = [(_label(name), _value(before, name), _value(after, name)) for name in fields]
    return Entry(moment(change["at"]), _who(change), _what(change), parts, change["reason"], change["id"])


def _who(change: dict[str, Any]) -> str:
    kinds = {"key": _("key %(name)s"), "command": _("command %(name)s"), "system": _("system %(name)s")}
    return kinds.get(change["actor_kind"], "%(name)s") % {"name": change["actor"]}


def _what(change: dict[str, Any]) -> str:
    if change["kind"] == "share":
        words = {"create": _("share of %(tenant)s set:"), "delete": _("share of %(tenant)s taken away:")}
        return words.get(change["action"], _("share of %(tenant)s:")) % {"tenant": change["tenant"]}
    if change["action"] in ("revoke", "cancel"):
        words = {"revoke": _("lease of %(tenant)s revoked:"), "cancel": _("waiter of %(tenant)s cancelled:")}
        return words[change["action"]] % {"tenant": (change["before"] or {}).get("tenant", "")}
    words = {"create": _("made,"), "delete": _("deleted"), "pause": _("paused"), "drain": _("draining")}
    return words.get(change["action"], _("resumed") if change["action"] == "resume" else "")


def _label(name: str) -> str:
    labels = {
        "capacity": _("capacity"),
        "weight": _("weight"),
        "limit": _("limit"),
        "guarantee": _("guarantee"),
        "max_waiters": _("most waiters"),
        "max_priority": _("most urgent class"),
        "description": _("description"),
        "permits": _("permits"),
        "holder": _("holder"),
        "priority": _("priority"),
    }
    return labels.get(name, name)


def _value(fields: dict[str, Any], name: str) -> str:
    if name not in fields:
        return ""
    value = fields[name]
    if value is None or value == "":
        return "–"
    return f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Sizing:
    """Who set the present capacity, and when."""

    who: str
    at: datetime

    @property
    def iso(self) -> str:
        """When, for machines."""
        return self.at.isoformat()

    @property
    def utc(self) -> str:
        """When, in UTC."""
        return utc(self.at)


@lru_cache(maxsize=256)
def set_by(pool: str, version: int) -> Sizing | None:
    """Who set the capacity of this version of a pool; None if that is longer ago than the log reaches."""
    for change in reversed(changes_of(pool, _LONG_AGO, None)):
        before, after = change["before"] or {}, change["after"] or {}
        if change["kind"] == "pool" and "capacity" in after and before.get("capacity") != after["capacity"]:
            return Sizing(_who(change), moment(change["at"]))
    return None


def last_change(pool: str) -> Entry | None:
    """The newest change of a pool."""
    return next(iter(entries(pool)), None)
