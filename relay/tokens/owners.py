"""In whose words each place of a rendered chat stands. Pure.

Every text of a message gets a mark before and one after it; where the template leaves the chat what it is but for the marks,
what is between them is that message's. A template that cuts a text (as Qwen's cuts the reasoning off) loses one of the two:
then as much beside the other is the message's as agrees with what it sent.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

MOST = 0xFFFD  # messages
_BEGIN, _END = 0xF0000, 0x100000
MARKS = re.compile("[\U000f0000-\U0010fffd]")


def marked(text: str, index: int, *, stripped: bool) -> str:
    """A text of a message between its marks; `stripped`: the blanks at its ends outside."""
    bare = text.strip() if stripped else text
    if not bare:
        return text
    start = text.index(bare[0])
    return f"{text[:start]}{chr(_BEGIN + index)}{bare}{chr(_END + index)}{text[start + len(bare) :]}"


def owners(rendered: str, texts: Sequence[Sequence[str]], starts: Sequence[int]) -> list[int | None]:
    """The message of each place of a rendering, of which `rendered` is the form with marks; None: the template's words.

    `texts`: what each message holds. `starts` are in characters of the form without marks.
    """
    bare = MARKS.sub("", rendered)
    changes: list[tuple[int, int | None]] = [(0, None)]
    opened: tuple[int, int] | None = None  # message, place

    def close(until: int) -> None:
        """Ends what has lost its second mark."""
        nonlocal opened
        if opened is not None:
            index, start = opened
            kept = max(_common(bare[start:until], text) for text in texts[index])
            changes.extend([(start, index), (start + kept, None)])
            opened = None

    for before, mark in enumerate(MARKS.finditer(rendered)):
        place, code = mark.start() - before, ord(mark.group())
        if code < _END:
            close(place)
            opened = (code - _BEGIN, place)
        elif opened == (code - _END, opened[1] if opened else -1):
            changes.extend([(opened[1], code - _END), (place, None)])
            opened = None
        else:
            close(place)
            since = changes[-1][0]
            end = bare[since:place][::-1]
            kept = max(_common(end, text[::-1]) for text in texts[code - _END])
            changes.extend([(place - kept, code - _END), (place, None)])
    close(len(bare))
    places = [place for place, _ in changes]
    return [changes[bisect_right(places, start) - 1][1] for start in starts]


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
