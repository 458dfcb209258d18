"""A text cut to a budget of tokens, by what its segments count: only those at the cut are encoded again.

- `right` keeps the part that the first `max_tokens` ids of the whole text cover, `left` that of the last ones. `middle`
  gives the beginning the greater half of the budget and the end the other: it keeps the part that these first ids cover and
  the part that these last ids cover, put together without anything between.
- A character of which an id is cut off is left out whole.
- What is kept may count more by itself than its ids were (another beginning, a joint). It is then cut back from the cut,
  `middle` from both sides in turn, first the beginning's, until its own count, encoded anew, fits.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from relay.tokens.jobs import Job
from relay.tokens.reuse import Levels
from relay.tokens.segment_level import Pieces
from relay.tokens.tokenizer import Truncated
from relay.tokens.values import COUNT

Side = Literal["right", "left", "middle"]

SINGLE_STEPS = 16


class Gap(Struct):
    """What is cut out: characters `start` to `end`."""

    start: int
    end: int


async def truncate(levels: Levels, job: Job, text: str, max_tokens: int, side: Side) -> Truncated:
    """The text within `max_tokens`. `job` asks for counts. Raises what `Levels.values` raises."""
    pieces = await levels.pieces(job, [text], ["text"])
    whole = sum(pieces.values)
    if whole <= max_tokens:
        return Truncated(text, whole, whole)
    if max_tokens == 0:
        return Truncated("", 0, whole, truncated=True)
    head = {"right": max_tokens, "left": 0, "middle": max_tokens - max_tokens // 2}[side]
    tail = max_tokens - head
    gap = Gap(
        (await _edge(levels, job, text, pieces, head))[0] if head else 0,
        (await _edge(levels, job, text, pieces, whole - tail))[1] if tail else len(text),
    )
    return await _narrowed(levels, job, text, max_tokens, gap, whole)


async def _narrowed(levels: Levels, job: Job, text: str, max_tokens: int, gap: Gap, whole: int) -> Truncated:
    """What is around the gap, which widens until the rest fits."""
    step = 0
    while True:
        part = text[: gap.start] + text[gap.end :]
        count = (await levels.values(job.asking(COUNT), [part], "text"))[0] if part else 0
        if count <= max_tokens:
            return Truncated(part, count, whole, truncated=True)
        # character by character, so that no more is lost than must be; an input made to resist is cut faster
        width = 1 if step < SINGLE_STEPS else 1 << min(step - SINGLE_STEPS + 1, 24)
        if gap.start and (step % 2 == 0 or gap.end == len(text)):
            gap.start = max(0, gap.start - width)
        else:
            gap.end = min(len(text), gap.end + width)
        step += 1


async def _edge(levels: Levels, job: Job, text: str, pieces: Pieces, index: int) -> tuple[int, int]:
    """The cut before id `index` (none of the ends): where what lies before it ends, where what lies after it begins.

    Both are whole characters: of a character whose ids lie on both sides, neither side has any.
    """
    before, after = _holding(pieces, index - 1), _holding(pieces, index)
    around = [pieces.segments[place] for place in dict.fromkeys((before[0], after[0]))]
    encoded = await levels.spans(job, text, around)
    last, first = (
        [pieces.segments[place][1] + character for character in part.spans[2 * inner : 2 * inner + 2]]
        for part, (place, inner) in ((encoded[0], before), (encoded[-1], after))
        if part.spans is not None
    )
    return min(last[1], first[0]), max(first[0], last[1])


def _holding(pieces: Pieces, index: int) -> tuple[int, int]:
    """Which segment holds an id, and the id's index in it."""
    for place, count in enumerate(pieces.values):
        if index < count:
            return place, index
        index -= count
    raise IndexError(index)
