"""Which rows the overview shows and in what order: all of it in the address. `static/dashboard/list.js` does the same."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _

from dashboard.live import PoolLine, Snapshot

STATES = ("all", "starving", "queuing", "shrinking", "full", "flowing", "rest")
SORTS = ("worst", "name", "load", "qps", "wait")
AT_REST = ("idle", "paused", "draining")
QUERY_LIMIT = 63


@dataclass(frozen=True)
class Row:
    """One pool in the table: whether the filter shows it, and whether its small lines are in the page."""

    pool: PoolLine
    shown: bool
    drawn: bool


@dataclass(frozen=True)
class Listing:
    """What is asked for: a part of the name, a state, an order. What is not known counts as not said."""

    q: str = ""
    state: str = "all"
    sort: str = "worst"

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Listing:
        """From the address."""
        state, sort = parameters.get("state", "all"), parameters.get("sort", "worst")
        query = str(parameters.get("q", "")).strip().lower()[:QUERY_LIMIT]
        return cls(query, state if state in STATES else "all", sort if sort in SORTS else "worst")

    def matches(self, pool: PoolLine) -> bool:
        """Whether this pool is shown."""
        return self.q in pool.name and self.state in ("all", state_of(pool))

    def arrange(self, pools: list[PoolLine]) -> list[PoolLine]:
        """All pools in this order; they come worst first."""
        keys = {
            "name": lambda pool: (pool.name,),
            "load": lambda pool: (-pool.in_use / pool.capacity, pool.name),
            "qps": lambda pool: (-pool.qps, pool.name),
            "wait": lambda pool: (-(pool.average_wait_s or 0.0), pool.name),
        }
        key = keys.get(self.sort)
        return sorted(pools, key=key) if key else pools

    def rows(self, pools: list[PoolLine], drawn: int) -> list[Row]:
        """All pools as rows in this order; the first `drawn` that are shown have their small lines."""
        found, left = [], drawn
        for pool in self.arrange(pools):
            shown = self.matches(pool)
            found.append(Row(pool, shown, shown and left > 0))
            left -= shown
        return found

    @property
    def address(self) -> str:
        """The page's address with this: what is as always is left out."""
        said = {"q": self.q, "state": self.state, "sort": self.sort}
        kept = {name: value for name, value in said.items() if value not in ("", "all", "worst")}
        return f"/?{urlencode(kept)}" if kept else "/"


def state_of(pool: PoolLine) -> str:
    """The segment under which a pool is found."""
    return "rest" if pool.health in AT_REST else pool.health


@dataclass(frozen=True)
class Segment:
    """One choice of the filter by state."""

    key: str
    word: str
    count: int
    address: str
    current: bool
    tone: str


def segments(listing: Listing, pools: list[PoolLine], words: Mapping[str, str]) -> list[Segment]:
    """The choices, with how many pools each has."""
    labels = {**words, "all": _("All"), "rest": _("At rest")}
    tones = {"starving": "is-act", "queuing": "is-watch", "shrinking": "is-watch"}
    counts = {key: sum(state_of(pool) == key for pool in pools) for key in STATES} | {"all": len(pools)}
    return [
        Segment(
            key,
            labels[key],
            counts[key],
            replace(listing, state=key).address,
            key == listing.state,
            tones.get(key, "") if counts[key] else "",
        )
        for key in STATES
    ]


def sorts() -> list[tuple[str, str]]:
    """The orders, with their words."""
    words = (_("Worst first"), _("By name"), _("By load"), _("By QPS"), _("By wait"))
    return list(zip(SORTS, words, strict=True))


_COLUMNS = (
    "name",
    "state",
    "health",
    "capacity",
    "in_use",
    "over_limit",
    "waiting",
    "oldest_wait_s",
    "qps",
    "average_wait_s",
    "timeouts",
)


def as_csv(listing: Listing, snapshot: Snapshot) -> str:
    """The rows that the address asks for. QPS, average wait and timeouts are over the last 60 s; durations in seconds."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([*_COLUMNS, *(f"waiting_{name}" for name in snapshot.classes)])
    for pool in listing.arrange(snapshot.pools):
        if listing.matches(pool):
            writer.writerow([*(getattr(pool, column) for column in _COLUMNS), *pool.waiting_by])
    return text.getvalue()
