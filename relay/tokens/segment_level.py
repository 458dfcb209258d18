"""Segments: known to this process, or to the shared cache, or encoded, in one batch for all that a request lacks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct

from relay.telemetry.token_meter import TokenMeter
from relay.tokens.cache import Cache
from relay.tokens.flights import Flights, Keep, Work
from relay.tokens.jobs import COMPUTED, SEGMENT, SHARED, Job
from relay.tokens.lanes import INLINE_BYTES, Lanes, faulty
from relay.tokens.segments import Segment, segment_keys
from relay.tokens.shared import Shared
from relay.tokens.tokenizer import Encoded, TokenizerFault
from relay.tokens.values import IDS, SPANS, bytes_of, part_values, tokens_in, value_as

K = TypeVar("K", bound=Hashable)

SEGMENTED_FROM = 1024  # characters; below it, cutting costs more than it saves
# Bytes of new segments that are encoded on the loop, in a millisecond at most: a turn of a chat. In a thread on the other
# core, with cold caches, 2 KB took 0.75 ms instead of 0.55, and the hop 0.2 ms beside that (GPT-2, two busy cores).
ENCODED_INLINE = 4096
CUT_INLINE = 128 * 1024  # characters that are hashed or cut on the event loop, in about a millisecond


class Pieces(Struct):
    """Segments with their values and the levels that these came from, side by side."""

    segments: list[Segment]
    values: list[Any]
    levels: list[str]


class Lack(Struct):
    """What the segment cache does not know of a request. `first`: the place of each key in the request."""

    first: dict[bytes, int]
    parts: list[str]
    continued: list[bool]


class SegmentLevel:
    """The segments that one process knows, and those under way."""

    def __init__(self, cache: Cache, lanes: Lanes, meter: TokenMeter, shared: Shared | None) -> None:
        self.cache = cache
        self._lanes = lanes
        self._meter = meter
        self._shared = shared
        self._flights: Flights[tuple[int, bytes], Any] = Flights(lanes)

    async def look(self, job: Job, texts: Sequence[str], segments: Sequence[Segment], request: int) -> Pieces:
        """The values of segments. `request`: the characters of the whole request.

        Raises 503 `tokenizer-unavailable`, `shutting-down`.
        """
        characters = sum([end - start for _, start, end, _ in segments])
        make_keys = partial(segment_keys, job.seeds, job.kind, texts, segments)
        keys = await self._lanes.run(characters, make_keys, inline=CUT_INLINE)
        values = self.cache.get_all(keys)
        if job.kind >= IDS or Encoded in set(map(type, values)):
            values = [value_as(value, job.kind) for value in values]
        pieces = Pieces(list(segments), values, [SEGMENT] * len(values))
        if None not in values:
            job.tally.add(SEGMENT, characters, sum(map(tokens_in, values)))
            return pieces
        unknown = [place for place, value in enumerate(values) if value is None]
        known = [value for value in values if value is not None]
        if known:
            lacking = sum(segments[place][2] - segments[place][1] for place in unknown)
            job.tally.add(SEGMENT, characters - lacking, sum(map(tokens_in, known)))
        await self._complete(job, texts, keys, unknown, pieces, request)
        return pieces

    async def _complete(
        self, job: Job, texts: Sequence[str], keys: list[bytes], unknown: list[int], pieces: Pieces, request: int
    ) -> None:
        """Puts what the cache lacks into the pieces: from the shared cache, else by encoding. Equal segments once."""
        lack = Lack({}, [], [])
        for at in unknown:
            if keys[at] not in lack.first:
                lack.first[keys[at]] = at
                place, start, end, continued = pieces.segments[at]
                lack.parts.append(texts[place][start:end])
                lack.continued.append(continued)
        shared_keys = await self._from_shared(job, lack, pieces, request)
        await self._computed(job, lack, pieces, shared_keys, request)
        for at in unknown:
            first = lack.first[keys[at]]
            characters = pieces.segments[at][2] - pieces.segments[at][1]
            tokens = tokens_in(pieces.values[first])
            if at == first:
                job.tally.add(pieces.levels[at], characters, tokens)
            else:
                pieces.values[at], pieces.levels[at] = pieces.values[first], pieces.levels[first]
                job.tally.again(characters, tokens)

    async def _from_shared(self, job: Job, lack: Lack, pieces: Pieces, request: int) -> list[bytes]:
        """Asks the shared cache. Returns its keys for what is lacking; none if it is not asked, nor told."""
        shared = self._shared
        if shared is None or not shared.usable or job.kind >= SPANS or request < SEGMENTED_FROM:
            return []
        shared_keys = shared.keys(job.tokenizer, job.kind, lack.parts, lack.continued)
        found = await shared.read(shared_keys, job.kind, job.tokenizer)
        for (key, at), value in zip(lack.first.items(), found, strict=True):
            if value is not None:
                pieces.values[at], pieces.levels[at] = value, SHARED
                self.cache.put(key, value, bytes_of(value))
        return shared_keys

    async def _computed(self, job: Job, lack: Lack, pieces: Pieces, shared_keys: list[bytes], request: int) -> None:
        """Encodes what nobody knew."""
        keys, places = list(lack.first), list(lack.first.values())
        left = [index for index, at in enumerate(places) if pieces.values[at] is None]
        if not left:
            return

        def work(chosen: list[int]) -> tuple[list[Any], float]:
            indexes = [left[index] for index in chosen]
            parts = [lack.parts[index] for index in indexes]
            return part_values(job.tokenizer, job.kind, parts, [lack.continued[index] for index in indexes])

        def keep(chosen: list[int], values: list[Any], seconds: float) -> None:
            job.tally.seconds += seconds
            for index, value in zip(chosen, values, strict=True):
                self.cache.put(keys[left[index]], value, bytes_of(value))
            self._meter.cache(self.cache.bytes, len(self.cache), SEGMENT)
            if self._shared is not None and shared_keys:
                self._shared.write([shared_keys[left[index]] for index in chosen], values)

        values = await made(
            self._flights,
            [(job.kind >> 2, keys[index]) for index in left],
            [weight(lack.parts[index]) for index in left],
            request,
            work,
            keep,
            ENCODED_INLINE,
        )
        for index, value in zip(left, values, strict=True):
            pieces.values[places[index]], pieces.levels[places[index]] = value, COMPUTED


async def made(
    flights: Flights[K, Any],
    keys: list[K],
    sizes: list[int],
    request: int,
    work: Work[Any],
    keep: Keep[Any],
    inline: int = INLINE_BYTES,
) -> list[Any]:
    """The values of different keys: up to `inline` bytes here, where a hop to a thread would cost as much, else in the lanes.

    Raises 503 `tokenizer-unavailable`, `shutting-down`.
    """
    total = sum(sizes)
    if total > inline:
        return await flights.values(keys, sizes, max(request, total), work, keep)
    places = list(range(len(keys)))
    try:
        values, seconds = work(places)
    except TokenizerFault as fault:
        raise faulty(fault) from None
    keep(places, values, seconds)
    return values


def weight(text: str) -> int:
    """About how many bytes of UTF-8 a text is, without encoding it."""
    return len(text) if text.isascii() else 3 * len(text)
