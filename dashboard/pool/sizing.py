"""The Sizing tab: how the pool is sized, the form of a rule, what that rule would have done, and the latest decisions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.utils.translation import gettext as _
from msgspec import structs

from dashboard.pool.charts import Row
from dashboard.pool.figures import clock, utc
from dashboard.pool.query import Query
from dashboard.pool.sizing_form import ALGORITHMS, RULES, form_fields, sizing_from, values_of
from dashboard.pool.sizing_picture import Picture, picture
from dashboard.pool.sizing_words import field_words, reason_in_words, rule_words
from relay.http import Problem
from relay.permits.autosize import Recent
from relay.permits.live import Serving, on_loop
from relay.permits.models import Pool
from relay.permits.sizing.adaptive import Adaptive
from relay.permits.sizing.base import Decision
from relay.permits.sizing.replay import Replay, Second, replay
from relay.permits.sizing.rows import sizing_fields, sizing_of
from relay.permits.sizing.sizer import Sizing
from relay.telemetry.history import FIELDS, SAMPLES

RENEW_S = 10  # how often a picture is drawn anew
_AT = {name: index + 1 for index, name in enumerate(FIELDS)}  # a row begins with its second


@dataclass(frozen=True)
class Decided:
    """A decision as a row."""

    at: datetime
    before: int
    after: int
    why: str
    applied: bool
    key: str

    @property
    def iso(self) -> str:
        """When, for machines."""
        return self.at.isoformat()

    @property
    def utc(self) -> str:
        """When, in UTC."""
        return utc(self.at)

    @property
    def clock(self) -> str:
        """When, until the browser writes it in its own zone."""
        return clock(self.at, datetime.now(UTC))


def panel(pool: Pool, query: Query) -> dict[str, Any]:
    """What the tab shows. The rule is the address's, else the one in force."""
    present = sizing_of(pool)
    in_force = rule_of(present)
    rule = query.rule or in_force
    decisions = on_loop(lambda server: server.autosizer.recent(pool.name))
    found: dict[str, Any] = {
        "in_force": in_force,
        "rule": rule,
        "rules": [(name, rule_words()[name], query.to(rule=name, sizing=())) for name in RULES],
        "present": present,
        "status": status(pool, present),
        "decisions": [_decided(recent) for recent in decisions],
        "algorithms": ALGORITHMS,
    }
    return found if rule == "fixed" else found | _tried(pool, query, rule)


def rule_of(sizing: Sizing | None) -> str:
    """Which of the rules this is."""
    return "fixed" if sizing is None else str((sizing_fields(sizing) or {})["policy"]["kind"])


def status(pool: Pool, sizing: Sizing | None) -> tuple[str, str]:
    """How the pool is sized: the fact, and the rest."""
    if sizing is None:
        return _("Fixed at %(size)s.") % {"size": pool.capacity}, _("A person sets the size.")
    rule = rule_words()[rule_of(sizing)]
    bold = _("%(rule)s, from %(minimum)s to %(maximum)s.") % {
        "rule": rule,
        "minimum": sizing.minimum,
        "maximum": sizing.maximum,
    }
    if sizing.dry_run:
        return bold, _("A dry run: it decides and changes nothing. The size is %(size)s.") % {"size": pool.capacity}
    if sizing.pin is not None:
        pinned = _("Pinned at %(size)s by hand: until the pin is taken away, the rule decides nothing.")
        return bold, pinned % {"size": sizing.pin}
    return bold, _("The size is %(size)s now.") % {"size": pool.capacity}


def _tried(pool: Pool, query: Query, rule: str) -> dict[str, Any]:
    """The form, and the picture of what it holds; `fault` says why there is none, `wrong` in which field."""
    values = values_of(rule, sizing_of(pool), pool.capacity) | dict(query.sizing)
    found: dict[str, Any] = {"fields": form_fields(rule, values), "wrong": set(), "fault": ""}
    try:
        sizing = sizing_from(rule, values)
    except Problem as problem:
        field = next(iter(problem.errors or {}), "")
        name = field.removeprefix("policy.").partition("[")[0]
        message = next(iter((problem.errors or {}).values()), [problem.detail])[0]
        return found | {"wrong": {name}, "fault": f"{field_words().get(name, name)}: {message}"}
    if isinstance(sizing.policy, Adaptive) and sizing.policy.algorithm != "aimd":
        return found | {"unknown": True}
    free = structs.replace(sizing, pin=None)  # what the rule would do is what a person who pinned it wants to know
    return found | {
        "picture": _picture(pool.name, free),
        "judged_by_reports": isinstance(sizing.policy, Adaptive),
        "pinned": sizing.pin is not None,
    }


def _picture(pool: str, sizing: Sizing) -> Picture | None:
    seconds, done = _replayed(pool, sizing, int(time.time()) // RENEW_S)
    if len(seconds) < 2:
        return None
    return picture(seconds, done.sizes, [_made(at, decision) for at, decision in done.decisions])


@lru_cache(maxsize=32)
def _replayed(pool: str, sizing: Sizing, turn: int) -> tuple[list[Second], Replay]:
    """The pool's past, and its replay. Kept for one turn: a replay may take 0.2 s, and pages renew every few seconds."""
    seconds = on_loop(lambda server: _past(server, pool))
    return seconds, replay(sizing, seconds)


def _made(at: int, decision: Decision) -> Decided:
    return _decided(Recent(at, decision.before, decision.after, decision.reason, applied=True))


def _decided(recent: Recent) -> Decided:
    at = datetime.fromtimestamp(recent.at, UTC)
    why = reason_in_words(recent.reason)
    return Decided(at, recent.before, recent.after, why, recent.applied, f"{recent.at:.6f}-{recent.after}")


def _past(server: Serving, pool: str) -> list[Second]:
    meter = server.meters.pool(pool)
    rows: list[Row] = meter.history(SAMPLES)["rows"]
    return seconds_of(rows, meter.reports.since(int(rows[0][0] or 0)) if rows else {})


def seconds_of(rows: Sequence[Row], reports: dict[int, tuple[dict[str, int], int]]) -> list[Second]:
    """The history's samples as a replay takes them."""
    found = []
    for row in rows:
        at = int(row[0] or 0)
        bad, held_us = reports.get(at, ({}, 0))
        found.append(
            Second(
                at=at,
                capacity=int(row[_AT["capacity"]] or 1),
                in_use=int(row[_AT["in_use"]] or 0),
                waiting=int(row[_AT["waiting"]] or 0),
                oldest_wait_us=int(1e6 * (row[_AT["oldest_wait_s"]] or 0)),
                granted=int(row[_AT["granted"]] or 0),
                bad=bad,  # type: ignore[arg-type]
                held_us=held_us // max(1, sum(bad.values())),
            )
        )
    return found
