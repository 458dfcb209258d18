"""A text's tokens, and the level at which a count finds each of its parts: for people who want to see it."""

from __future__ import annotations

from array import array

from msgspec import Struct

from relay.tokens.jobs import TEXT, Job
from relay.tokens.reuse import Levels
from relay.tokens.values import ADD_SPECIAL, Source


class Part(Struct, frozen=True):
    """Characters `start` to `end`, from one level. `spans`: start and end of each id in the text, one after the other."""

    start: int
    end: int
    level: str
    ids: array[int]
    spans: array[int]


class Inspection(Struct, frozen=True):
    """All parts in order; specials around the text are in the first and the last."""

    parts: list[Part]
    count: int
    tokenizer: str
    source: Source


async def inspect(levels: Levels, job: Job, text: str) -> Inspection:
    """Counts the text as anybody's request would, then looks at its tokens. `job` asks for counts."""
    whole = levels.cached(job, text)
    counted = await levels.pieces(job, [text], ["text"])
    if not whole:
        await levels.values(job.asking(job.kind), [text], "text")  # so that the text itself is known from now on
    parts = []
    encoded = await levels.spans(job, text, counted.segments)
    for (_, start, end, _), level, part in zip(counted.segments, counted.levels, encoded, strict=True):
        spans = array("I", [start + place for place in part.spans or ()])
        parts.append(Part(start, end, TEXT if whole else level, part.ids, spans))
    if job.kind & ADD_SPECIAL:
        parts = _with_specials(parts, job)
    count = sum(len(part.ids) for part in parts)
    return Inspection(parts, count, job.tokenizer.fingerprint, "cache" if whole else job.tally.source)


def _with_specials(parts: list[Part], job: Job) -> list[Part]:
    prefix, suffix = array("I", job.tokenizer.prefix_ids), array("I", job.tokenizer.suffix_ids)
    first = parts[0]
    parts[0] = Part(
        first.start, first.end, first.level, prefix + first.ids, array("I", [0, 0] * len(prefix)) + first.spans
    )
    last = parts[-1]
    around = array("I", [last.end, last.end] * len(suffix))
    parts[-1] = Part(last.start, last.end, last.level, last.ids + suffix, last.spans + around)
    return parts
