"""Changes of a pool in words: who, when, from what to what. Decisions of the sizing that follow each other are one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from django.utils.translation import gettext as _

from dashboard.frame import who
from dashboard.pool.figures import clock, moment, unix_ms, utc
from dashboard.pool.sizing_words import reason_in_words, sizing_parts
from relay.permits.models import Pool
from relay.tenants.changes import changes_of, newest_changes

SHOWN = 100
MARKS = 30  # decisions within this part of a chart's range are one mark
TOGETHER_S = 60  # and in the list those of a minute
_DECISION = "resize"
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_HIDDEN = {"name", "tenant", "shares", "lease_id"}


@dataclass(frozen=True)
class Entry:
    """A change. `parts` are (what, before, after); either end may be empty. `size`: from what capacity to what."""

    at: datetime
    who: str
    what: str
    parts: list[tuple[str, str, str]]
    why: str
    key: int
    size: str = ""

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
        short = self.size or (sizes[0] if len(self.parts) == 1 and sizes else self.what or _("several"))
        why = f" · {self.why}" if self.why else ""
        return {"t": unix_ms(self.at) / 1000, "text": f"{self.who} {short}", "title": f"{self.who}: {self.line}{why}"}


def entries(pool: str, since: datetime | None = None, together_s: float = TOGETHER_S) -> list[Entry]:
    """A pool's changes, the newest first. What the sizing decided within `together_s` seconds is one."""
    since = since or _LONG_AGO
    found = changes_of(pool, since, None, but=_DECISION)
    decided = changes_of(pool, since, None, action=_DECISION)
    together = sorted(found + decided, key=lambda change: int(change["id"]))
    return [entry_of(change) for change in reversed(_runs(together, together_s)[-SHOWN:])]


def _runs(changes: list[dict[str, Any]], together_s: float) -> list[dict[str, Any]]:
    """The changes, with decisions that nothing else parts put together: from the first's size to the last's."""
    runs: list[dict[str, Any]] = []
    began = _LONG_AGO
    for change in changes:
        at, last = moment(change["at"]), runs[-1] if runs else None
        if last and last["action"] == change["action"] == _DECISION and (at - began).total_seconds() < together_s:
            runs[-1] = change | {"before": last["before"], "steps": last.get("steps", 1) + 1}
        else:
            began = at
            runs.append(change)
    return runs


def marks(pool: str, range_s: int) -> list[dict[str, Any]]:
    """The changes of the last `range_s` seconds as a chart's marks, the oldest first."""
    since = datetime.now(UTC) - timedelta(seconds=range_s)
    return [entry.mark() for entry in reversed(entries(pool, since, range_s / MARKS))]


def entry_of(change: dict[str, Any]) -> Entry:
    """A change as `/changes` answers it, in words."""
    before, after = change["before"] or {}, change["after"] or {}
    fields = _told(change, before, after)
    parts = [(_label(name), _value(before, name), _value(after, name)) for name in fields]
    if change["action"] == "sizing":
        parts = sizing_parts(before.get("sizing"), after.get("sizing"))
    sized = "capacity" in fields and change["action"] in ("update", _DECISION)
    return Entry(
        at=moment(change["at"]),
        who=who(change),
        what=_what(change),
        parts=parts,
        why=_why(change),
        key=change["id"],
        size=f"{before.get('capacity')} → {after.get('capacity')}" if sized else "",
    )


def _told(change: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The fields that a change tells of."""
    action = change["action"]
    if action in ("pause", "resume", "drain", "sizing"):
        return []
    if action == _DECISION or (action == "create" and change["kind"] == "pool"):
        return ["capacity"]
    fields = [name for name in dict.fromkeys((*before, *after)) if name not in _HIDDEN]
    if action == "update":
        return [name for name in fields if before.get(name) != after.get(name)]
    if action in ("create", "delete"):
        return [name for name in fields if (after or before).get(name) not in (None, "", 0)]
    return fields


def _why(change: dict[str, Any]) -> str:
    reason = reason_in_words(change["reason"]) if change["action"] == _DECISION else change["reason"]
    steps = change.get("steps", 1)
    return str(reason) if steps == 1 else _("%(why)s, the last of %(steps)s steps") % {"why": reason, "steps": steps}


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
        "pin": _("pinned at"),
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


def set_by(pool: Pool) -> Sizing | None:
    """Who set the present capacity of a pool; None if that is longer ago than the log reaches."""
    found = [_sized_by_hand(pool.name, pool.version), newest_changes("pool", [pool.name], [_DECISION]).get(pool.name)]
    newest = max(filter(None, found), key=lambda change: int(change["id"]), default=None)
    return None if newest is None else Sizing(who(newest), moment(newest["at"]))


@lru_cache(maxsize=256)
def _sized_by_hand(pool: str, version: int) -> dict[str, Any] | None:
    """The change by which anybody but the sizing set the capacity of this version of a pool: each raises the version."""

    def sized(change: dict[str, Any]) -> bool:
        before, after = change["before"] or {}, change["after"] or {}
        return change["kind"] == "pool" and "capacity" in after and before.get("capacity") != after["capacity"]

    return next(filter(sized, reversed(changes_of(pool, _LONG_AGO, None, but=_DECISION))), None)


def last_change(pool: str) -> Entry | None:
    """The newest change of a pool that raised its version."""
    newest = changes_of(pool, _LONG_AGO, None, but=_DECISION)[-1:]
    return entry_of(newest[0]) if newest else None
