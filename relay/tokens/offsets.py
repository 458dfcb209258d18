"""Offsets in characters of a text as offsets in UTF-16 units or in UTF-8 bytes of the same text. Slow for long texts: lanes."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Literal

Unit = Literal["characters", "utf16", "bytes"]

PIECE = 8192  # characters; others get their turn between two pieces


def in_unit(text: str, spans: array[int], unit: Unit) -> array[int]:
    """Flat starts and ends in characters, in another unit."""
    if unit == "characters" or text.isascii() or (unit == "utf16" and max(text) <= "\uffff"):
        return spans
    places = _places(text, _units if unit == "utf16" else _bytes)
    found = array("I")
    for start in range(0, len(spans), PIECE):
        found.extend([places[each] for each in spans[start : start + PIECE]])
    return found


def _places(text: str, width: Callable[[str], list[int]]) -> array[int]:
    """Where each character begins, and at last where the text ends."""
    places, place = array("I", [0]), 0
    for start in range(0, len(text), PIECE):
        piece = array("I")
        for each in width(text[start : start + PIECE]):
            place += each
            piece.append(place)
        places.extend(piece)
    return places


def _units(text: str) -> list[int]:
    return [2 if each > "\uffff" else 1 for each in text]


def _bytes(text: str) -> list[int]:
    return [1 if each < "\x80" else 2 if each < "\u0800" else 3 if each <= "\uffff" else 4 for each in text]
