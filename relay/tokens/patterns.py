"""What a pre-tokenizer's regular expression can do at a place between two characters. Pure; used when a tokenizer is loaded.

A pattern is read as an automaton over character classes (Glushkov's): one position for each class or letter in it, and for
each position those that may come next. From it follow, without trying texts:

- which pairs of neighbouring characters no match can hold, and no look-ahead can see together: `joined_lefts`;
- whether a match begins at a character whatever stands after it: `begins`.

What a class matches is asked of the library that runs the pattern, so no second reading of Unicode can differ from it.
What is not understood (look-behind, anchors, back references, flags) raises Unclear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import tokenizers
from tokenizers import pre_tokenizers

_ESCAPES = frozenset("sSdDwWrntfv")
_PROPERTY = re.compile(r"\\[pP]\{\^?[A-Za-z_ ]+\}|\\x\{[0-9A-Fa-f]+\}|\\x[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}")
_REPEAT = re.compile(r"\{(\d*)(,?)(\d*)\}")
_MOST = 400


class Unclear(Exception):
    """The pattern has something that is not understood here; nothing may be concluded."""


class _Part(NamedTuple):
    """A part of the pattern: whether it may match nothing; the positions it begins with, looks at, and ends with."""

    empty: bool
    first: frozenset[int]
    peek: frozenset[int]
    last: frozenset[int]


_NOTHING = _Part(True, frozenset(), frozenset(), frozenset())


class Pattern:
    """A regular expression as an automaton. Raises Unclear."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._fold = False
        self._classes: list[str] = []
        self._follow: set[tuple[int, int]] = set()
        self._tricky = False
        # the alternatives whose plain reading is exact: no look-ahead, nothing possessive, no count of two or more
        self._plain: list[_Part] = []
        whole = self._alternatives(top=True)
        if self._at < len(source):
            raise Unclear(f"')' at {self._at}")
        if whole.empty:
            raise Unclear("a pattern that matches nothing at all")

    def joined_lefts(self, lefts: str, right: str) -> set[str]:
        """Those of `lefts` after which a match, or a look-ahead, may go on to `right`."""
        ends = {before for before, after in self._follow if matched(self._classes[after], right)}
        return set().union(*(matched(self._classes[end], lefts) for end in ends))

    def begins(self, right: str) -> bool:
        """Whether a match begins at `right` whatever comes after it: an alternative takes that one character alone."""
        return any(matched(self._classes[place], right) for part in self._plain for place in part.first & part.last)

    def touches(self, characters: str) -> set[str]:
        """Those of the characters that can be part of a match, or be looked at."""
        return set().union(*(matched(each, characters) for each in self._classes))

    def _alternatives(self, *, top: bool = False) -> _Part:
        parts = []
        while True:
            if top:
                self._tricky = False
            part = self._sequence()
            if top and not self._tricky:
                self._plain.append(part)
            parts.append(part)
            if self._peek() != "|":
                break
            self._at += 1
        return _Part(
            any(part.empty for part in parts),
            frozenset().union(*(part.first for part in parts)),
            frozenset().union(*(part.peek for part in parts)),
            frozenset().union(*(part.last for part in parts)),
        )

    def _sequence(self) -> _Part:
        whole = _NOTHING
        while self._peek() not in ("", "|", ")"):
            part = self._repeated(self._atom())
            self._join(whole.last, part)
            whole = _Part(
                whole.empty and part.empty,
                whole.first | part.first if whole.empty else whole.first,
                whole.peek | part.peek if whole.empty else whole.peek,
                part.last | whole.last if part.empty else part.last,
            )
        return whole

    def _join(self, ends: Iterable[int], part: _Part) -> None:
        self._follow.update((end, start) for end in ends for start in part.first | part.peek)

    def _repeated(self, part: _Part) -> _Part:
        while True:
            sign = self._peek()
            count = _REPEAT.match(self._source, self._at) if sign == "{" else None
            if sign in ("?", "*", "+") and sign:
                self._at += 1
                least, loop = int(sign == "+"), sign != "?"
            elif count and (count[1] or count[3]):
                self._at = count.end()
                least, loop = int(count[1] or 0), True
            else:
                return part
            if self._peek() == "+":
                # one that takes all it can may leave nothing for what has to follow
                self._tricky = self._tricky or least == 0 or part.first != part.last or len(part.first) > 1
                self._at += 1
            elif self._peek() == "?":
                self._at += 1
            self._tricky = self._tricky or least > 1
            if loop:
                self._join(part.last, part)
            if least == 0:
                part = part._replace(empty=True)

    def _atom(self) -> _Part:
        sign = self._source[self._at]
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._position(self._bracket())
        if sign == "\\":
            return self._position(self._escape())
        if sign in "^$*+?{":
            raise Unclear(f"{sign} at {self._at}")
        self._at += 1
        # a dot stands for everything here; that claims too much for a match, so nothing is said to begin with it
        self._tricky = self._tricky or sign == "."
        return self._position(r"[\s\S]" if sign == "." else escaped(sign))

    def _group(self) -> _Part:
        fold, source = self._fold, self._source
        looks = False
        for head in ("(?:", "(?i:", "(?=", "(?!", "(?>"):
            if source.startswith(head, self._at):
                self._at += len(head)
                self._fold = fold or head == "(?i:"
                looks = head in ("(?=", "(?!")
                self._tricky = self._tricky or looks or head == "(?>"
                break
        else:
            if source.startswith("(?", self._at):
                raise Unclear(f"{source[self._at : self._at + 4]} at {self._at}")
            self._at += 1
        part = self._alternatives()
        if self._peek() != ")":
            raise Unclear("a group without an end")
        self._at += 1
        self._fold = fold
        return _Part(True, frozenset(), part.first | part.peek, frozenset()) if looks else part

    def _bracket(self) -> str:
        start = self._at
        self._at += 1 + self._source.startswith("^", self._at + 1)
        if self._peek() == "]":
            raise Unclear("a class that begins with ]")
        while (sign := self._peek()) != "]":
            if not sign or sign == "[" or self._source.startswith("&&", self._at):
                raise Unclear(f"a class within a class at {self._at}")
            if sign == "\\":
                self._escape(inside=True)
            else:
                self._at += 1
        self._at += 1
        return self._source[start : self._at]

    def _escape(self, *, inside: bool = False) -> str:
        start = self._at
        named = _PROPERTY.match(self._source, start)
        if named:
            self._at = named.end()
            return named[0]
        sign = self._source[start + 1 : start + 2]
        if not sign or (sign.isalnum() and sign not in _ESCAPES):
            raise Unclear(f"\\{sign} at {start}")
        self._at = start + 2
        return self._source[start : self._at] if inside or sign in _ESCAPES else escaped(sign)

    def _position(self, source: str) -> _Part:
        if len(self._classes) >= _MOST:
            raise Unclear("too long a pattern")
        self._classes.append(f"(?i:{source})" if self._fold else source)
        place = frozenset([len(self._classes) - 1])
        return _Part(False, place, frozenset(), place)

    def _peek(self) -> str:
        return self._source[self._at : self._at + 1]


def escaped(text: str) -> str:
    """A pattern for exactly this text."""
    return "".join(rf"\x{{{ord(character):x}}}" for character in text)


@lru_cache(64)
def matched(source: str, text: str) -> str:
    """The characters of a text that a class matches, as the tokenizers' own engine reads it."""
    split = pre_tokenizers.Split(tokenizers.Regex(f"(?:{source})+"), behavior="removed", invert=True)
    return "".join(piece for piece, _ in split.pre_tokenize_str(text))
