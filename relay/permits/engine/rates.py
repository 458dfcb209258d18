"""Rates beside concurrency: requests and tokens a minute, each a token bucket (Turner, "New directions in communications", 1986).

Whole numbers throughout: a level is kept in units of 1/60,000,000, so that R a minute is R units a microsecond, and nothing
is rounded. What is used in any window of T minutes is at most R T + burst; what a call used above what it had stated
cannot be known before, and is paid before the next.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

from msgspec import Struct

from relay.permits.engine.timeline import NEVER

UNITS = 60_000_000  # a level's units in one: the microseconds of a minute
MARKS = 64  # lows that a bucket keeps, at most; even

Kind = Literal["requests", "tokens"]


class Rate(Struct, frozen=True):
    """So many a minute, and how many at once after a pause."""

    per_minute: int
    burst: int


class Bucket:
    """One rate. It begins full unless a level is given; `now` (µs) never goes back. A grant is known by its fencing token.

    What comes back must not count twice: where the bucket was full again in the meantime, the minute has made up for it
    already, and two bursts would follow each other. So a grant gets back at most the least that was missing from the full
    bucket at any time since: then the level is the one that it would be, had the true number been taken in the first place
    (the reflection of a fluid queue; Harrison, "Brownian Motion and Stochastic Flow Systems", 1985).

    `stored` is the level in units when it was looked at last: until something is taken it is at least that.
    """

    __slots__ = ("_at", "_full", "_kept", "_last", "_lows", "_marks", "_since", "rate", "stored")

    def __init__(self, rate: Rate, now: int, level: int | None = None, *, kept: int = MARKS) -> None:
        self.rate = rate
        self._kept = kept
        self._full = rate.burst * UNITS
        self.stored = self._full if level is None else level * UNITS
        self._at = now
        self._last = 0  # the last grant
        self._since = NEVER  # grants before this one get nothing back
        self._marks: list[int] = []  # grants, and below what was missing just before each: rising, as only the least
        self._lows: list[int] = []  # since an earlier grant is asked for

    def level(self, now: int) -> float:
        """How many can be taken now; negative after a charge for more than was stated."""
        self._fill(now)
        return self.stored / UNITS

    def ready(self, amount: int, now: int) -> int:
        """When so many will have come in: `now`, or a later microsecond. Above the burst: over several takes."""
        self._fill(now)
        missing = amount * UNITS - self.stored
        return now if missing <= 0 else now - (-missing // self.rate.per_minute)

    def take(self, amount: int, now: int, token: int) -> None:
        """A grant takes what `ready` said can be taken."""
        stored = self.stored + (now - self._at) * self.rate.per_minute
        self._at, self._last = now, token
        if stored < self._full:
            if token < self._since:
                self._since = token
            self._mark(token, self._full - stored)
            self.stored = stored - amount * UNITS
        else:
            self._since = token
            if self._marks:
                self._marks, self._lows = [], []
            self.stored = self._full - amount * UNITS

    def charge(self, amount: int, now: int) -> None:
        """Takes this too, whatever is there: the work is done already."""
        self._fill(now)
        self._mark(self._last + 1, self._full - self.stored)
        self.stored -= amount * UNITS

    def give_back(self, amount: int, now: int, token: int) -> None:
        """A grant did not use so many of what it took."""
        self._fill(now)
        if token < self._since:
            return
        marks, lows = self._marks, self._lows
        missing = self._full - self.stored
        first = bisect_right(marks, token)
        least = min(lows[first], missing) if first < len(lows) else missing
        back = min(amount * UNITS, least)
        self.stored += back
        for index in range(first, len(lows)):
            lows[index] -= back
        while first and first < len(lows) and lows[first - 1] >= lows[first]:
            first -= 1
            del marks[first], lows[first]

    def change(self, rate: Rate, now: int) -> None:
        """Another rate from now on. What is there stays, within the new burst; earlier grants get nothing back."""
        if rate == self.rate:
            return
        self._fill(now)
        self.rate = rate
        self._full = rate.burst * UNITS
        self.stored = min(self.stored, self._full)
        self._since, self._marks, self._lows = NEVER, [], []

    def _mark(self, token: int, missing: int) -> None:
        marks, lows = self._marks, self._lows
        while lows and lows[-1] >= missing:
            lows.pop()
            marks.pop()
        marks.append(token)
        lows.append(missing)
        if len(marks) > self._kept:  # of two the later mark, with the lesser low: nobody gets back more for it
            self._marks, self._lows = [*marks[1:-1:2], marks[-1]], lows[::2]

    def _fill(self, now: int) -> None:
        if now > self._at:
            self.stored = min(self.stored + (now - self._at) * self.rate.per_minute, self._full)
            self._at = now


class Rates:
    """A pool's rates. An acquire costs one request, and as many tokens as it states. `empty`: they begin so."""

    __slots__ = ("_requests", "_tokens")

    def __init__(self, requests: Rate | None, tokens: Rate | None, now: int, *, empty: bool = False) -> None:
        level = 0 if empty else None
        self._requests = None if requests is None else Bucket(requests, now, level)
        self._tokens = None if tokens is None else Bucket(tokens, now, level)

    def change(self, requests: Rate | None, tokens: Rate | None, now: int) -> None:
        """Takes configuration over; a rate that is new begins full."""
        self._requests = _changed(self._requests, requests, now)
        self._tokens = _changed(self._tokens, tokens, now)

    def ready(self, tokens: int, now: int, requests: int = 1) -> int:
        """When a request with so many tokens can be let through, in µs: `now`, or later. Also for several together."""
        ready = now
        bucket = self._requests
        if bucket is not None and bucket.stored < requests * UNITS:
            ready = bucket.ready(requests, now)
        bucket = self._tokens
        if tokens and bucket is not None and bucket.stored < tokens * UNITS:
            ready = max(ready, bucket.ready(tokens, now))
        return ready

    def scarcer(self, tokens: int, now: int) -> Kind:
        """Which rate lets a request with so many tokens wait the longer."""
        if self._tokens is None or not tokens:
            return "requests"
        if self._requests is None or self._tokens.ready(tokens, now) > self._requests.ready(1, now):
            return "tokens"
        return "requests"

    def gap_us(self, tokens: int) -> int:
        """How far apart requests with so many tokens come through when nothing is saved up, in µs."""
        gap = 0 if self._requests is None else UNITS // self._requests.rate.per_minute
        return gap if self._tokens is None else max(gap, tokens * UNITS // self._tokens.rate.per_minute)

    def take(self, tokens: int, now: int, token: int) -> None:
        """Lets one through: the grant with this fencing token."""
        if self._requests is not None:
            self._requests.take(1, now, token)
        if tokens and self._tokens is not None:
            self._tokens.take(tokens, now, token)

    def give_back(self, tokens: int, now: int, token: int) -> None:
        """A grant that never reached its caller used nothing."""
        if self._requests is not None:
            self._requests.give_back(1, now, token)
        if tokens and self._tokens is not None:
            self._tokens.give_back(tokens, now, token)

    def settle(self, stated: int, used: int, now: int, token: int) -> None:
        """The true number of a grant's tokens is known: the difference is charged or given back."""
        if self._tokens is None or used == stated:
            return
        if used > stated:
            self._tokens.charge(used - stated, now)
        else:
            self._tokens.give_back(stated - used, now, token)

    def levels(self, now: int) -> dict[Kind, tuple[Rate, float]]:
        """Each rate that there is, and how many could go at once now."""
        buckets: dict[Kind, Bucket | None] = {"requests": self._requests, "tokens": self._tokens}
        return {kind: (bucket.rate, bucket.level(now)) for kind, bucket in buckets.items() if bucket is not None}


def _changed(bucket: Bucket | None, rate: Rate | None, now: int) -> Bucket | None:
    if rate is None:
        return None
    if bucket is None:
        return Bucket(rate, now)
    bucket.change(rate, now)
    return bucket
