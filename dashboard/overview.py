"""What the overview says: the verdict, the totals, and each pool's line of cause. `static/dashboard/says.js` says the same."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from dashboard.format import duration, percent, rate, whole
from dashboard.live import PoolLine, Snapshot
from dashboard.strip import Fact
from dashboard.words import Phrases, phrases, say
from relay.telemetry.health import ACT, WATCH

OUT_OF_SERVICE = ("paused", "draining")
_MINUTE = 12  # steps of 5 s


@dataclass(frozen=True)
class Verdict:
    """The page's one heading: the worst pool, what is wrong with it, and how many more; then a line of facts."""

    pool: str
    words: str
    lede: str
    title: str
    tone: str


def verdict(pools: list[PoolLine]) -> Verdict:
    """The state of everything in words. The pools come worst first."""
    if not pools:
        lede = _("A pool is a number of permits that callers share.")
        return Verdict("", _("No pool yet"), lede, _("Overview"), "")
    words = phrases()
    act = [pool for pool in pools if pool.health in ACT]
    watch = [pool for pool in pools if pool.health in WATCH]
    if not act and not watch:
        return Verdict("", _calm(pools, words), _lede(pools, words), say(words, "title"), "")
    worst = (act or watch)[0]
    more = len(act) + len(watch) - 1
    heading = say(words, worst.health)
    if more:
        heading += say(words, "join") + say(words, "more", more, more=more)
    count = len(act or watch)
    title = say(words, "title-act" if act else "title-watch", count, count=count)
    return Verdict(worst.name, heading, _lede(pools, words), title, "is-act" if act else "is-watch")


def _calm(pools: list[PoolLine], words: Phrases) -> str:
    off = sum(pool.health in OUT_OF_SERVICE for pool in pools)
    at_rest = all(pool.health in ("idle", *OUT_OF_SERVICE) for pool in pools)
    heading = say(words, "rest" if at_rest else "flows")
    return heading + say(words, "join") + say(words, "off", off, off=off) if off else heading


def _lede(pools: list[PoolLine], words: Phrases) -> str:
    timeouts = sum(pool.timeouts for pool in pools)
    oldest = max((pool.oldest_wait_s for pool in pools if pool.waiting), default=0.0)
    parts = []
    if timeouts:
        parts.append(say(words, "gave-up", timeouts, count=whole(timeouts)))
    if oldest:
        parts.append(say(words, "oldest", time=" ".join(duration(oldest))))
    return " ".join(parts) or say(words, "nobody")


def totals(snapshot: Snapshot) -> list[Fact]:
    """The six facts of the strip. Rates and averages are over the last 60 s."""
    pools, words = snapshot.pools, phrases()
    qps = sum(pool.qps for pool in pools)
    grants = sum(pool.grants for pool in pools)
    waited = sum((pool.average_wait_s or 0) * pool.grants for pool in pools)
    average, average_unit = duration(waited / grants if grants else None)
    in_use, capacity = sum(pool.in_use for pool in pools), sum(pool.capacity for pool in pools)
    timeouts = sum(pool.timeouts for pool in pools)
    hits = snapshot.tokens["hit_rate"]
    qps_note, wait_note = _notes_of_before(pools, qps, words)
    return [
        Fact("qps", _("Queries per second"), rate(qps), _("/s"), qps_note),
        Fact("average", _("Average wait"), average, average_unit, wait_note),
        Fact(
            "in-use", _("Permits in use"), whole(in_use), f"/ {whole(capacity)}", _full(pools, in_use, capacity, words)
        ),
        Fact("waiting", _("Waiting"), whole(sum(pool.waiting for pool in pools)), "", _most_waiting(pools, words)),
        Fact(
            "timeouts",
            _("Timeouts"),
            whole(timeouts),
            _("/min"),
            _most_timeouts(pools, words),
            "is-act" if timeouts else "",
        ),
        Fact(
            "hits",
            _("Token cache hits"),
            percent(hits),
            "" if hits is None else "%",
            say(words, "tokens", rate=rate(snapshot.tokens["tokens_s"])),
        ),
    ]


def before(pools: list[PoolLine]) -> tuple[float, float | None] | None:
    """QPS and average wait (s) in the minute that began 5 minutes ago; None where nothing is known of it."""
    known, qps, waited, weight = False, 0.0, 0.0, 0.0
    for pool in pools:
        rates = [value for value in pool.qps_steps[:_MINUTE] if value is not None]
        known = known or bool(rates)
        qps += sum(rates) / len(rates) if rates else 0.0
        for value, wait in zip(pool.qps_steps[:_MINUTE], pool.wait_steps[:_MINUTE], strict=True):
            if value and wait is not None:
                waited, weight = waited + wait * value, weight + value
    return (qps, waited / weight if weight else None) if known else None


def _notes_of_before(pools: list[PoolLine], qps: float, words: Phrases) -> tuple[str, str]:
    past = before(pools)
    plain = say(words, "window")
    if past is None:
        return plain, plain
    rate_before, wait_before = past
    qps_note = plain
    if rate_before:
        change = round((qps / rate_before - 1) * 100)
        key = "above" if change > 0 else "below" if change < 0 else "same"
        qps_note = say(words, key, percent=whole(abs(change)))
    wait_note = plain if wait_before is None else say(words, "before", time=" ".join(duration(wait_before)))
    return qps_note, wait_note


def _full(pools: list[PoolLine], in_use: int, capacity: int, words: Phrases) -> str:
    full = sum(pool.in_use >= pool.capacity for pool in pools)
    share = f"{100 * in_use / capacity:.0f}" if capacity else "0"
    return say(words, "full", full, percent=share, full=full) if full else say(words, "none-full", percent=share)


def _most_waiting(pools: list[PoolLine], words: Phrases) -> str:
    most = max(pools, key=lambda pool: pool.waiting, default=None)
    if most is None or not most.waiting:
        return say(words, "nobody-waits")
    return say(words, "of-them", count=whole(most.waiting), pool=most.name)


def _most_timeouts(pools: list[PoolLine], words: Phrases) -> str:
    most = max(pools, key=lambda pool: pool.timeouts, default=None)
    if most is None or not most.timeouts:
        return say(words, "no-timeouts")
    return say(words, "timeouts", count=whole(most.timeouts), pool=most.name)


def why(pool: PoolLine) -> tuple[str, str]:
    """A row's line of cause: who (may be empty), and what."""
    words = phrases()
    if pool.health == "shrinking":
        return "", say(words, "over", count=whole(pool.over_limit))
    if pool.health == "paused":
        return "", say(words, "paused")
    if pool.health == "draining":
        return "", say(words, "left", pool.in_use, count=whole(pool.in_use))
    if pool.health in ("starving", "queuing") and pool.most is not None:
        most = pool.most
        held = {"count": whole(most.in_use), "capacity": whole(pool.capacity), "due": whole(most.due)}
        return most.tenant, say(words, "over-share" if most.in_use > most.due else "holds", **held)
    return "", ""
