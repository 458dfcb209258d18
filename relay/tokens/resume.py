"""Where the count of a text goes on: of one that begins as an earlier one did, only what comes after is cut and looked up.

A text is cut from its beginning to its end, and a cut depends on less than MARGIN characters around it. So two texts that
have their first n characters in common have the same cuts up to n - MARGIN, and the same count up to there. Points are kept
for every EVERY characters, by a digest of all characters before. For tokenizers of which `resumable` holds, and counts only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from relay.tokens.cache import Cache
from relay.tokens.segments import Segment
from relay.tokens.values import ALLOW_SPECIAL, SEGMENT

EVERY = 4096
MARGIN = 1024
MOST_POINTS = 256
TURN = 64
POINT_BYTES = 96
NO_TEXT = b"\xff"  # no text begins so: a beginning never has a segment's key


class Point(Struct, frozen=True, gc=False):
    """A cut, and the tokens before it."""

    place: int = 0
    count: int = 0


class Trail(Struct, frozen=True):
    """A text from the last known point on. `digests`: of the text's first EVERY characters, twice as many, and so on."""

    start: Point
    rest: str
    digests: list[bytes]


def beginnings(seeds: dict[int, Any], kind: int, text: str) -> list[bytes]:
    """The digests of a text's beginnings, the shortest first."""
    hasher = seeds[SEGMENT | kind & ALLOW_SPECIAL].copy()
    hasher.update(NO_TEXT)
    found = []
    for index, end in enumerate(range(EVERY, len(text) + 1, EVERY)):
        hasher.update(text[end - EVERY : end].encode())
        found.append(hasher.digest())
        if index % TURN == TURN - 1:
            time.sleep(0)  # other threads get their turn
    return found


def trail(cache: Cache, text: str, digests: list[bytes]) -> Trail:
    """The text from the farthest point that is known."""
    for digest in reversed(digests):
        point = cache.get(digest)
        if isinstance(point, Point):
            return Trail(point, text[point.place :], digests)
    return Trail(Point(), text, digests)


def points(trail: Trail, segments: Sequence[Segment], counts: Sequence[int]) -> list[tuple[bytes, Point]]:
    """What to keep for beginnings that had no point. `segments` and `counts`: of the rest.

    Of a very long text not every beginning: at most about MOST_POINTS, and the last one.
    """
    ahead = iter(zip(segments, counts, strict=True))
    place, count = trail.start.place, trail.start.count
    following = next(ahead, None)
    stride, last = 1 + len(trail.digests) // MOST_POINTS, len(trail.digests)
    found = []
    for number, digest in enumerate(trail.digests, start=1):
        bound = number * EVERY - MARGIN
        if bound <= trail.start.place or (number % stride and number != last):
            continue
        while following is not None and trail.start.place + following[0][2] <= bound:
            place, count = trail.start.place + following[0][2], count + following[1]
            following = next(ahead, None)
        if place:
            found.append((digest, Point(place, count)))
    return found
