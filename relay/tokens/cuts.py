"""Where a text is cut into segments whose ids, one after the other, are those of the whole text.

Two kinds of place are safe. Between two characters that `proof.py` names; and right before an added token (`marks.py`).

Of the safe places those are taken that depend on nothing but the characters before them: in a window behind the last cut,
the one whose 32 characters before it come first in their order. So after an edit the cuts fall into step again, and the
same paragraph in another text gets the same segments. Added tokens come first, then line ends, then the rest. The end of a
text is cut at its last line as well: that is where the next turn, or another question on the same pages, begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice

from relay.tokens.marks import NONE, Marks
from relay.tokens.proof import BLANK, NEWLINE

Segment = tuple[int, int, bool]

TARGET = 512
LOOK_BACK = 32
MOST_PLACES = 48
BLANK_WITHIN = 64
LONGEST_MARK = 128
# where there are many safe places, only those after one character in sixteen are looked at, else after one in four
THIN, THIN_REST = (16, 4), 4


class Cuts:
    """Cuts the texts of one form of one tokenizer. `prefixed`: the tokenizer puts something before a text."""

    def __init__(self, lefts: dict[str, str], marks: Marks = NONE, *, prefixed: bool = False) -> None:
        self._between = bool(lefts)
        self._marks = marks
        self._prefixed = prefixed
        self._all = _pairs(lefts)
        self._line = _pairs({NEWLINE: lefts.get(NEWLINE, "")})
        self._blank = _pairs({BLANK: lefts.get(BLANK, "")})
        thinned = [{right: _thinned(found, by) for right, found in lefts.items()} for by in THIN]
        self._tiers = [pattern for pattern in (*map(_pairs, thinned), self._all) if pattern is not None]
        # what a tokenizer puts before a text it also puts after an added token, which a segment in the middle cannot have
        self._sectioned = marks.cut_before if prefixed or not lefts else None
        self._in_windows = None if self._sectioned else marks.cut_before

    @property
    def any(self) -> bool:
        """Whether there are texts that can be cut."""
        return self._between or self._marks.cut_before is not None

    @property
    def resumable(self) -> bool:
        """Whether a text is cut behind a cut as if it began there: then nothing far away decides whether it is cut at all."""
        return self._between and not self._prefixed and self._marks.refuse is None

    def segments(self, text: str, target: int = TARGET) -> list[Segment]:
        """Start, end, and whether the segment continues a text: its prefix is left out. Segments cover the text.

        They have about `target` characters where there are enough safe places.
        """
        marks, size = self._marks, len(text)
        whole = [(0, size, False)]
        if size <= target or not self.any or (marks.refuse is not None and marks.refuse.search(text)):
            return whole
        if self._sectioned is not None:
            return list(self._by_sections(text, target))
        if self._prefixed and marks.any is not None and marks.any.search(text):
            return whole
        return list(self._ranges(0, self._places(text, 0, size, target), size))

    def _ranges(self, start: int, places: Iterable[int], end: int) -> Iterator[Segment]:
        first, last = start, start
        for place in (*places, end):
            yield last, place, self._prefixed and last > first
            last = place

    def _by_sections(self, text: str, target: int) -> Iterator[Segment]:
        """Sections begin at added tokens; small ones are put together, and what follows the token in a large one is cut."""
        assert self._sectioned is not None
        found = [match.span() for match in self._sectioned.finditer(text)]
        sections = [(0, 0), *(span for span in found if span[0])]
        ends = [start for start, _ in sections[1:]] + [len(text)]
        start = 0
        for (mark, behind), end in zip(sections, ends, strict=True):
            if mark - start >= target // 2:
                yield start, mark, False
                start = mark
            if end - behind > target and self._between and not self._has_mark(text, behind, end):
                for segment in self._ranges(start, self._places(text, behind, end, target), end):
                    start = segment[1]
                    yield segment
        if start < len(text):
            yield start, len(text), False

    def _has_mark(self, text: str, start: int, end: int) -> bool:
        return self._marks.any is not None and self._marks.any.search(text, start, end) is not None

    def _places(self, text: str, start: int, end: int, target: int) -> list[int]:
        """The cuts in a part of a text, none of them at its start."""
        near, far = max(1, target // 2), max(2, target * 3 // 2)
        places: list[int] = []
        last = start
        while last + far < end:
            place = self._best(text, last + near, last + far) or self._next(text, last + far, end)
            if not place:
                return places
            places.append(place)
            last = place
        place = self._last(text, last + max(1, near // 4), end)
        return [*places, place] if place else places

    def _best(self, text: str, low: int, high: int) -> int:
        """The place in a window that the characters before it single out; 0 if it has none."""
        if self._in_windows is not None:
            matches = islice(self._in_windows.finditer(text, low, high), MOST_PLACES)
            if places := [match.start() for match in matches]:
                return _singled_out(text, places)[0]
        lines = list(islice(_line_ends(text, low, high), MOST_PLACES))
        for line in _singled_out(text, lines):
            if place := self._at_line(text, line, low):
                return place
        for pattern in self._tiers:
            if places := list(islice(self._found(pattern, text, low, high), MOST_PLACES)):
                return _singled_out(text, places)[0]
        return 0

    def _next(self, text: str, low: int, high: int) -> int:
        """The first safe place from `low` on; 0 if there is none."""
        place = next(self._found(self._all, text, low, high), 0)
        mark = self._in_windows.search(text, low, place or high) if self._in_windows is not None else None
        return mark.start() if mark else place

    def _last(self, text: str, low: int, high: int) -> int:
        """The place at the last added token, else at the last line that is not empty; 0 if there is none."""
        while high > low and text[high - 1] == NEWLINE:
            high -= 1
        if self._in_windows is not None:
            starts = [match.start() for match in self._in_windows.finditer(text, low, high)]
            if starts:
                return starts[-1]
        line = text.rfind(NEWLINE, low, high)
        while line > low and text[line - 1] == NEWLINE:
            line -= 1
        return self._at_line(text, line, low) if line >= low else 0

    def _at_line(self, text: str, line: int, low: int) -> int:
        """The safe place nearest before a line's end; 0 if there is none in its last word or two."""
        if self._line is not None and self._line.match(text, line) and self._is_free(text, line):
            return line
        blank = text.rfind(BLANK, max(low, line - BLANK_WITHIN), line)
        while blank > 0 and self._blank is not None:
            if self._blank.match(text, blank) and self._is_free(text, blank):
                return blank
            blank = text.rfind(BLANK, max(low, line - BLANK_WITHIN), blank)
        return 0

    def _found(self, pattern: re.Pattern[str] | None, text: str, low: int, high: int) -> Iterator[int]:
        if pattern is not None:
            for match in pattern.finditer(text, low, high):
                if self._is_free(text, match.start()):
                    yield match.start()

    def _is_free(self, text: str, place: int) -> bool:
        """Whether no added token that takes the blanks behind it ends here."""
        takers = self._marks.takes_blanks
        return not takers or not text.endswith(takers, max(0, place - LONGEST_MARK), place)


def _line_ends(text: str, low: int, high: int) -> Iterator[int]:
    """The first newline of each run."""
    line = text.find(NEWLINE, low, high)
    while line >= 0:
        if text[line - 1] != NEWLINE:
            yield line
        line = text.find(NEWLINE, line + 1, high)


def _singled_out(text: str, places: list[int]) -> list[int]:
    """The places in an order that only the characters before each decide."""
    if len(places) < 2:
        return places
    # as good as a checksum of them, and a third of the work
    return sorted(places, key=lambda place: text[place - LOOK_BACK if place > LOOK_BACK else 0 : place])


def _pairs(lefts: dict[str, str]) -> re.Pattern[str] | None:
    """A pattern that finds the right character of a pair: these are rare, so it looks back from there."""
    rights: dict[str, str] = {}
    for right, found in lefts.items():
        if found:
            rights[found] = rights.get(found, "") + right
    parts = [f"(?<=[{_class(found)}][{_class(right)}])" for found, right in rights.items()]
    return re.compile(f"[{_class(''.join(rights.values()))}](?:{'|'.join(parts)})") if parts else None


@lru_cache(64)
def _thinned(lefts: str, by: int) -> str:
    return "".join(left for left in lefts if ord(left) % by == THIN_REST % by)


@lru_cache(64)
def _class(characters: str) -> str:
    """The inside of a character class: ranges, as short as can be."""
    ranges: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
