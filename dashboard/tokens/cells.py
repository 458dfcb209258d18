"""Tokens as cells that a person can read: whitespace and control characters visible, and where each came from."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.utils.translation import gettext as _

SHOWN = 2_000  # cells on a page; the count is of the whole text
LEVELS = ("text", "segment", "shared", "computed")

_SIGNS = {" ": "·", "\n": "↵", "\t": "→", "\r": "␍"}
_JOINERS = "\u200d\ufe0f"  # within a text they make one emoji of several, or choose its form
_UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp", "Cn", "Co")


@dataclass(frozen=True)
class Token:
    """One id and the characters that it covers; `name` where it covers none (a special token)."""

    id: int
    start: int
    end: int
    level: str
    name: str = ""


@dataclass(frozen=True)
class Cell:
    """One token ready to be painted: `runs` are its pieces, True where a piece is a sign for what cannot be seen.

    `gap` is text before it that no token covers. `part` says which piece of a character it is, where one has several.
    """

    id: int
    runs: list[tuple[str, bool]]
    title: str
    level: str
    gap: str
    part: str
    special: bool
    breaks: bool


def cells(text: str, tokens: Sequence[Token]) -> Iterator[Cell]:
    """The cells of a text's tokens, in order. `title` says in words what a cell is."""
    pattern = _("token %(number)s: id %(id)s, characters %(start)s to %(end)s, %(level)s")
    special = _("token %(number)s: id %(id)s, special, covers no character, %(level)s")
    words = level_words()
    covered = 0
    for number, (token, part) in enumerate(zip(tokens, _parts(tokens), strict=True), 1):
        names = {"number": number, "id": token.id, "start": token.start, "end": token.end, "level": words[token.level]}
        shown = text[token.start : token.end]
        yield Cell(
            id=token.id,
            runs=runs(shown) if shown else [(token.name, False)],
            title=(pattern if shown else special) % names,
            level=token.level,
            gap="".join(sign for sign, _seen in runs(text[covered : token.start])),
            part=part,
            special=not shown,
            breaks=shown.endswith("\n"),
        )
        covered = max(covered, token.end)


def level_words() -> dict[str, str]:
    """Where a token came from, as a cell says it."""
    return {
        "text": _("from the cache, as part of the whole text"),
        "segment": _("from the cache, as part of a segment"),
        "shared": _("from Redis"),
        "computed": _("computed now"),
    }


def _parts(tokens: Sequence[Token]) -> list[str]:
    """`2/3` for the second of three tokens that are pieces of the same character; empty for all others."""
    found: list[str] = []
    for (start, end), group in groupby(tokens, key=lambda token: (token.start, token.end)):
        count = len(list(group))
        found += [f"{index}/{count}" if count > 1 and start < end else "" for index in range(1, count + 1)]
    return found


def runs(text: str) -> list[tuple[str, bool]]:
    """A text in pieces: what can be seen as it is, all else as signs (`·`, `↵`, `→`, `U+200B`)."""
    found: list[tuple[str, bool]] = []
    last = len(text) - 1
    if text.isascii() and text.isprintable() and " " not in text:  # most tokens
        return [(text, False)] if text else []
    for index, character in enumerate(text):
        joins = index > 0 and (index < last or character == "\ufe0f")
        sign = _sign(character, joins=joins)
        piece, unseen = sign or character, sign is not None
        if not index and unicodedata.category(character) == "Mn" and not unseen:
            piece = "◌" + character  # a mark needs something to stand on
        if found and found[-1][1] == unseen:
            found[-1] = (found[-1][0] + piece, unseen)
        else:
            found.append((piece, unseen))
    return found


def _sign(character: str, *, joins: bool) -> str | None:
    """What is shown instead of a character that cannot be seen; None for all others. `joins`: it has what it joins."""
    if character in _SIGNS:
        return _SIGNS[character]
    unseen = not joins if character in _JOINERS else unicodedata.category(character) in _UNSEEN
    return f"U+{ord(character):04X}" if unseen else None
