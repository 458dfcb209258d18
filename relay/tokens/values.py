"""What is kept for a text or a segment: a count, its ids, or ids with spans; how it is made, sized and read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

from relay.tokens.tokenizer import Encoded, Tokenizer

Source = Literal["cache", "partial", "computed"]

# A kind is one of these and flags. A slot's seeds (the started hashes of its cache keys) are by kind.
COUNT, IDS, SPANS = 0, 4, 8
ADD_SPECIAL, ALLOW_SPECIAL = 1, 2
# Segments have one key for counts and ids, and no specials around them; the flag says that they continue a text.
SEGMENT, CONTINUED = 12, 1

INT_BYTES = 32
ENCODED_BYTES, ARRAY_BYTES = 48, 96


def text_values(tokenizer: Tokenizer, kind: int, texts: Sequence[str]) -> tuple[list[Any], float]:
    """In any thread: the values of whole texts, and the seconds that they took. Raises TokenizerFault."""
    began = time.perf_counter()
    add, allow = bool(kind & ADD_SPECIAL), bool(kind & ALLOW_SPECIAL)
    values: list[Any]
    fast = _fast_values(tokenizer, kind, texts)
    if fast is not None:
        values = fast
    elif kind < IDS:
        values = tokenizer.counts(texts, add_special=add, allow_special=allow)
    else:
        values = tokenizer.encode(texts, add_special=add, allow_special=allow, spans=kind >= SPANS)
    return values, time.perf_counter() - began


def part_values(
    tokenizer: Tokenizer, kind: int, parts: Sequence[str], continued: Sequence[bool]
) -> tuple[list[Any], float]:
    """In any thread: the values of segments, and the seconds that they took. Raises TokenizerFault."""
    began = time.perf_counter()
    fast = _fast_values(tokenizer, kind, parts)  # of these tokenizers a segment that goes on is as any other
    if fast is not None:
        return fast, time.perf_counter() - began
    values: list[Any] = [None] * len(parts)
    for goes_on in (False, True):
        places = [place for place, each in enumerate(continued) if each is goes_on]
        if places:
            made = _parts(tokenizer, kind, [parts[place] for place in places], continued=goes_on)
            for place, value in zip(places, made, strict=True):
                values[place] = value
    return values, time.perf_counter() - began


def _fast_values(tokenizer: Tokenizer, kind: int, texts: Sequence[str]) -> list[Any] | None:
    """The same by the fast tokenizer, which has neither specials nor spans; None if it is not to be asked."""
    fast = tokenizer.fast
    if fast is None or kind & (ADD_SPECIAL | ALLOW_SPECIAL) or kind >= SPANS:
        return None
    if kind < IDS:
        return fast.counts(texts)
    ids = fast.ids(texts)
    return None if ids is None else [Encoded(each) for each in ids]


def _parts(tokenizer: Tokenizer, kind: int, parts: list[str], *, continued: bool) -> Sequence[Any]:
    allow = bool(kind & ALLOW_SPECIAL)
    if kind < IDS:
        return tokenizer.part_counts(parts, continued, allow_special=allow)
    return tokenizer.part_encode(parts, continued, allow_special=allow, spans=kind >= SPANS)


def value_as(value: Any, kind: int) -> Any:
    """A kept value as this kind, or None if it does not say enough: ids have a count, a count has no ids."""
    if kind < IDS:
        return len(value.ids) if isinstance(value, Encoded) else value
    if not isinstance(value, Encoded) or (kind >= SPANS and value.spans is None):
        return None
    return value


def tokens_in(value: Any) -> int:
    """How many tokens a value tells of."""
    return len(value.ids) if isinstance(value, Encoded) else int(value)


def bytes_of(value: Any) -> int:
    """The memory that a value takes, in bytes."""
    if not isinstance(value, Encoded):
        return INT_BYTES
    arrays = [value.ids] if value.spans is None else [value.ids, value.spans]
    return ENCODED_BYTES + sum(ARRAY_BYTES + len(each) * each.itemsize for each in arrays)
