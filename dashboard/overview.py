"""What the overview says: the verdict, the totals, and each pool's picture."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.format import duration, percent, rate, whole
from dashboard.live import PoolLine, Snapshot
from relay.telemetry.health import ACT, WATCH


@dataclass(frozen=True)
class Total:
    """One fact of the strip. `key` is where the live page writes it."""

    key: str
    label: str
    value: str
    unit: str
    note: str
    tone: str = ""


@dataclass(frozen=True)
class Verdict:
    """The page's one heading: the worst pool, what is wrong with it, and how many more; then a line of facts."""

    pool: str
    words: str
    lede: str
    title: str
    tone: str


def verdict(pools: list[PoolLine]) -> Verdict:
    """The state of everything in words."""
    act = [pool for pool in pools if pool.health in ACT]
    watch = [pool for pool in pools if pool.health in WATCH]
    if not pools:
        lede = _("A pool is a number of permits that callers share.")
        return Verdict("", _("No pool yet"), lede, _("Overview"), "")
    if not act and not watch:
        return _calm(pools)
    worst = (act or watch)[0]
    more = len(act) + len(watch) - 1
    words = _verb(worst)
    if more:
        words += _(". ") + ngettext("One more needs watching", "%(more)s more need watching", more) % {"more": more}
    title = ngettext("%(count)s starving", "%(count)s starving", len(act)) if act else _("%(count)s to watch")
    return Verdict(
        worst.name, words, _lede(pools), title % {"count": len(act or watch)}, "is-act" if act else "is-watch"
    )


def _verb(pool: PoolLine) -> str:
    if pool.health == "starving":
        return _("is starving")
    return _("is shrinking") if pool.health == "shrinking" else _("has a queue")


def _calm(pools: list[PoolLine]) -> Verdict:
    off = sum(pool.health in ("paused", "draining") for pool in pools)
    at_rest = all(pool.health in ("idle", "paused", "draining") for pool in pools)
    words = _("Nothing is asked for") if at_rest else _("Everything flows")
    if off:
        words += _(". ") + ngettext("One pool is out of service", "%(off)s pools are out of service", off) % {
            "off": off
        }
    return Verdict("", words, _lede(pools), _("Overview"), "")


def _lede(pools: list[PoolLine]) -> str:
    timeouts = sum(pool.timeouts for pool in pools)
    oldest = max((pool.oldest_wait_s for pool in pools if pool.waiting), default=0.0)
    parts = []
    if timeouts:
        parts.append(
            ngettext(
                "One caller gave up in the last minute.", "%(count)s callers gave up in the last minute.", timeouts
            )
            % {"count": whole(timeouts)}
        )
    if oldest:
        figures, unit = duration(oldest)
        parts.append(_("The oldest has waited %(time)s.") % {"time": f"{figures} {unit}"})
    return " ".join(parts) or _("Nobody waits.")


def totals(snapshot: Snapshot) -> list[Total]:
    """The six facts of the strip. Rates and averages are over the last 60 s."""
    pools = snapshot.pools
    grants = sum(pool.grants for pool in pools)
    waited = sum((pool.average_wait_s or 0) * pool.grants for pool in pools)
    average, average_unit = duration(waited / grants if grants else None)
    in_use, capacity = sum(pool.in_use for pool in pools), sum(pool.capacity for pool in pools)
    timeouts = sum(pool.timeouts for pool in pools)
    return [
        Total("qps", _("Queries per second"), rate(sum(pool.qps for pool in pools)), _("/s"), _("over the last 60 s")),
        Total("average", _("Average wait"), average, average_unit, _("of grants, over the last 60 s")),
        Total("in-use", _("Permits in use"), whole(in_use), f"/ {whole(capacity)}", _full(pools)),
        Total("waiting", _("Waiting"), whole(sum(pool.waiting for pool in pools)), "", _most_waiting(pools)),
        Total(
            "timeouts", _("Timeouts"), whole(timeouts), _("/min"), _("in the last 60 s"), "is-act" if timeouts else ""
        ),
        Total(
            "hits",
            _("Token cache hits"),
            percent(snapshot.tokens["hit_rate"]),
            "" if snapshot.tokens["hit_rate"] is None else "%",
            _("%(rate)s tokens/s") % {"rate": rate(snapshot.tokens["tokens_s"])},
        ),
    ]


def _full(pools: list[PoolLine]) -> str:
    full = sum(pool.in_use >= pool.capacity for pool in pools)
    if not full:
        return _("no pool is full")
    return ngettext("one pool is full", "%(full)s pools are full", full) % {"full": full}


def _most_waiting(pools: list[PoolLine]) -> str:
    most = max(pools, key=lambda pool: pool.waiting, default=None)
    if most is None or not most.waiting:
        return _("nobody waits")
    return _("%(count)s of them in %(pool)s") % {"count": whole(most.waiting), "pool": most.name}


def why(pool: PoolLine) -> tuple[str, str]:
    """A row's line of cause: who (may be empty), and what."""
    if pool.health == "shrinking":
        return "", _("%(count)s over its new size, none evicted") % {"count": whole(pool.over_limit)}
    if pool.health == "paused":
        return "", _("No new grants; leases renew and release")
    if pool.health == "draining":
        return "", _("%(count)s permits still held") % {"count": whole(pool.in_use)}
    if pool.health in ("starving", "queuing") and pool.top_tenant:
        held = {"count": whole(pool.top_permits), "capacity": whole(pool.capacity)}
        return pool.top_tenant, _("holds %(count)s of %(capacity)s") % held
    return "", ""
