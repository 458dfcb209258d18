"""One request through the levels: whole texts, segments, the shared cache, and what is left is encoded.

Runs on the event loop; hashing and cutting of large texts, and all encoding but the shortest, is in the lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from relay.telemetry.token_meter import TokenMeter
from relay.tokens.cache import Cache, Room
from relay.tokens.flights import Flights
from relay.tokens.jobs import COMPUTED, SEGMENT, TEXT, Job
from relay.tokens.lanes import Lanes
from relay.tokens.resume import POINT_BYTES, Point, Trail, beginnings, points, trail
from relay.tokens.segment_level import CUT_INLINE, SEGMENTED_FROM, Pieces, SegmentLevel, made, weight
from relay.tokens.segments import Segment, check, cut, joined, stretches, text_key
from relay.tokens.shared import Shared
from relay.tokens.tokenizer import Encoded
from relay.tokens.values import ADD_SPECIAL, ALLOW_SPECIAL, IDS, SPANS, bytes_of, text_values, tokens_in

COUNTED_INLINE = 2048  # segments that are added up on the event loop


class Levels:
    """The caches of one process, and what is under way. `cache_bytes` bounds texts and segments together."""

    def __init__(self, cache_bytes: int, lanes: Lanes, meter: TokenMeter, shared: Shared | None) -> None:
        room = Room(cache_bytes)
        self.texts = Cache(room)
        self.segments = Cache(room)
        self._level = SegmentLevel(self.segments, lanes, meter, shared)
        self._lanes = lanes
        self._meter = meter
        self._flights: Flights[bytes, Any] = Flights(lanes)

    async def values(self, job: Job, texts: Sequence[str], field: str) -> list[Any]:
        """The value of each text. `field` names them in errors: `text`, or `texts[%d]` for several.

        Raises 400 `invalid`, 413 `text-too-large`, 503 `tokenizer-unavailable`, `shutting-down`.
        """
        keys = await self._lanes.run(sum(map(len, texts)), partial(_keys, job, texts, field), inline=CUT_INLINE)
        found: dict[bytes | str, Any] = {}
        for key in set(keys):
            if isinstance(key, bytes) and (value := self.texts.get(key)) is not None:
                found[key] = value
        lacking: dict[bytes | str, int] = {}
        for place, key in enumerate(keys):
            if key in found:
                job.tally.texts += 1
                job.tally.add(TEXT, len(texts[place]), tokens_in(found[key]))
            else:
                lacking.setdefault(key, place)
        short = {key: place for key, place in lacking.items() if len(texts[place]) < SEGMENTED_FROM}
        if short:
            chosen = [texts[place] for place in short.values()]
            found.update(zip(short, await self.whole(job, cast("list[bytes]", list(short)), chosen), strict=True))
        long = {key: place for key, place in lacking.items() if key not in short}
        if long:
            chosen = [texts[place] for place in long.values()]
            fields = [named(field, place) for place in long.values()]
            found.update(zip(long, await self.segmented(job, list(long), chosen, fields), strict=True))
        return [found[key] for key in keys]

    async def whole(self, job: Job, keys: list[bytes], texts: list[str]) -> list[Any]:
        """The values of short texts that no cache has, in one batch. Raises as `values`."""

        def work(places: list[int]) -> tuple[list[Any], float]:
            return text_values(job.tokenizer, job.kind, [texts[place] for place in places])

        def keep(places: list[int], values: list[Any], seconds: float) -> None:
            job.tally.seconds += seconds
            self._keep([keys[place] for place in places], values)

        values = await made(self._flights, keys, [weight(text) for text in texts], 0, work, keep)
        for text, value in zip(texts, values, strict=True):
            job.tally.add(COMPUTED, len(text), tokens_in(value))
        return values

    async def segmented(
        self, job: Job, keys: Sequence[bytes | str], texts: Sequence[str], fields: Sequence[str]
    ) -> list[Any]:
        """The values of longer texts that no cache has whole. Raises as `values`."""
        if job.kind >= IDS:
            pieces = await self.pieces(job, texts, fields)
            work = partial(_encodings, job, pieces, len(texts))
            return await self._lanes.run(sum(map(len, texts)), work, inline=CUT_INLINE)
        trails = await self._trails(job, texts)
        pieces = await self.pieces(job, [known.rest for known in trails], fields)
        adding = partial(_counted, job, trails, pieces)
        counts, kept = await self._lanes.run(len(pieces.segments), adding, inline=COUNTED_INLINE)
        for known in trails:
            if known.start.place:
                job.tally.add(SEGMENT, known.start.place, known.start.count)
        for digest, point in kept:
            self.segments.put(digest, point, POINT_BYTES)
        self._keep(keys, counts)
        return counts

    async def _trails(self, job: Job, texts: Sequence[str]) -> list[Trail]:
        """The texts from where their counts go on."""
        if not job.tokenizer.resumable(allow_special=bool(job.kind & ALLOW_SPECIAL)):
            return [Trail(Point(), text, []) for text in texts]

        def work() -> list[list[bytes]]:
            return [beginnings(job.seeds, job.kind, text) for text in texts]

        digests = await self._lanes.run(sum(map(len, texts)), work, inline=CUT_INLINE)
        return [trail(self.segments, text, found) for text, found in zip(texts, digests, strict=True)]

    def cached(self, job: Job, text: str) -> bool:
        """Whether the whole text's value is known."""
        return self.texts.get(text_key(job.seeds[job.kind], text, "text")) is not None

    async def pieces(self, job: Job, texts: Sequence[str], fields: Sequence[str]) -> Pieces:
        """The segments of all texts with their values, one text after the other. Raises as `values`."""
        characters = sum(map(len, texts))
        work = partial(cut, job.tokenizer, job.kind, texts, fields)
        segments = await self._lanes.run(characters, work, inline=CUT_INLINE)
        found = Pieces([], [], [])
        for stretch in stretches(segments):
            pieces = await self._level.look(job, texts, stretch, characters)
            found.segments += pieces.segments
            found.values += pieces.values
            found.levels += pieces.levels
        return found

    async def spans(self, job: Job, text: str, segments: Sequence[Segment]) -> list[Encoded]:
        """The ids and spans of some of a text's segments. Raises as `values`."""
        asking = job.asking(SPANS | (job.kind & (ADD_SPECIAL | ALLOW_SPECIAL)))
        return (await self._level.look(asking, [text], segments, len(text))).values

    def _keep(self, keys: Sequence[Any], values: Sequence[Any]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.texts.put(key, value, bytes_of(value))
        self._meter.cache(self.texts.bytes, len(self.texts), TEXT)


def named(field: str, place: int) -> str:
    """The field's name in an error."""
    return field % place if "%" in field else field


def _keys(job: Job, texts: Sequence[str], field: str) -> list[bytes | str]:
    """What tells the texts apart: a cache key, or the text itself where only its segments are kept (ids of long texts)."""
    seed, counts = job.seeds[job.kind], job.kind < IDS
    keys: list[bytes | str] = []
    for place, text in enumerate(texts):
        if counts or len(text) < SEGMENTED_FROM:
            keys.append(text_key(seed, text, named(field, place)))
        else:
            check(text, named(field, place))
            keys.append(text)
    return keys


def _counted(job: Job, trails: Sequence[Trail], pieces: Pieces) -> tuple[list[int], list[tuple[bytes, Point]]]:
    """The counts of whole texts, of what is known of their beginnings and the segments of the rest; and points to keep."""
    segments: list[list[Segment]] = [[] for _ in trails]
    values: list[list[int]] = [[] for _ in trails]
    for segment, value in zip(pieces.segments, pieces.values, strict=True):
        segments[segment[0]].append(segment)
        values[segment[0]].append(value)
    added = job.tokenizer.specials_added if job.kind & ADD_SPECIAL else 0
    counts, found = [], []
    for known, cuts, tokens in zip(trails, segments, values, strict=True):
        counts.append(known.start.count + sum(tokens) + added)
        found += points(known, cuts, tokens)
    return counts, found


def _encodings(job: Job, pieces: Pieces, texts: int) -> list[Encoded]:
    starts: list[list[int]] = [[] for _ in range(texts)]
    parts: list[list[Encoded]] = [[] for _ in range(texts)]
    for (place, start, _, _), value in zip(pieces.segments, pieces.values, strict=True):
        starts[place].append(start)
        parts[place].append(value)
    spans = job.kind >= SPANS
    return [joined(job.tokenizer, job.kind, *each, spans=spans) for each in zip(starts, parts, strict=True)]
