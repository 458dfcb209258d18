"""Texts as segments: cut, told apart by keys, taken in stretches, and put together again. Pure; any thread may call it."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

from relay.http import Problem, invalid
from relay.tokens.tokenizer import Encoded, Tokenizer
from relay.tokens.values import ADD_SPECIAL, ALLOW_SPECIAL, CONTINUED, SEGMENT

TEXT_LIMIT = 2 * 1024 * 1024  # bytes of a text, or of a segment, that are encoded in one piece
HASH_CHARACTERS = 64 * 1024
STRETCH_CHARACTERS = 512 * 1024
TURN = 256  # segments between two pauses


# Which text, from which of its characters to which; whether a prefix that the tokenizer puts before a text is left out.
# A plain tuple: a text of 100 KB has two hundred of them.
Segment = tuple[int, int, int, bool]


def cut(tokenizer: Tokenizer, kind: int, texts: Sequence[str], fields: Sequence[str]) -> list[Segment]:
    """The segments of all texts, one after the other. Raises 413 `text-too-large`."""
    allow = bool(kind & ALLOW_SPECIAL)
    found: list[Segment] = []
    for place, text in enumerate(texts):
        segments = tokenizer.segments(text, allow_special=allow) or [(0, 0, False)]
        if 4 * len(text) > TEXT_LIMIT:
            for start, end, _ in segments:
                if 4 * (end - start) > TEXT_LIMIT:
                    _check_size(text[start:end], fields[place], tokenizer)
        found += [(place, start, end, continued) for start, end, continued in segments]
    return found


def _check_size(part: str, field: str, tokenizer: Tokenizer) -> None:
    if len(part) <= TEXT_LIMIT and len(part.encode()) <= TEXT_LIMIT:
        return
    raise Problem(
        413,
        "text-too-large",
        f"{field}: over {TEXT_LIMIT // 1024} KiB of UTF-8 without a place where a cut changes no token "
        f"(this tokenizer's cuts: {tokenizer.cuttable}). Split the text and count its parts.",
    )


def segment_keys(seeds: dict[int, Any], kind: int, texts: Sequence[str], segments: Sequence[Segment]) -> list[bytes]:
    """The cache keys of the segments: one for counts and ids."""
    flag = kind & ALLOW_SPECIAL
    fresh = {False: seeds[SEGMENT | flag].copy, True: seeds[SEGMENT | flag | CONTINUED].copy}
    keys = []
    for begin in range(0, len(segments), TURN):
        if begin:
            time.sleep(0)  # other threads get their turn
        for place, start, end, continued in segments[begin : begin + TURN]:
            hasher = fresh[continued]()
            hasher.update(texts[place][start:end].encode())
            keys.append(hasher.digest())
    return keys


def text_key(seed: Any, text: str, field: str) -> bytes:
    """The cache key of a whole text. Raises 400 `invalid` for a lone surrogate."""
    hasher = seed.copy()
    if len(text) <= HASH_CHARACTERS:
        hasher.update(utf8(text, field))
    else:  # piece by piece: no second copy of a large text
        for start in range(0, len(text), HASH_CHARACTERS):
            hasher.update(utf8(text[start : start + HASH_CHARACTERS], field, start))
    digest: bytes = hasher.digest()
    return digest


def check(text: str, field: str) -> None:
    """Raises 400 `invalid` for a lone surrogate."""
    if not text.isascii():
        for start in range(0, len(text), HASH_CHARACTERS):
            utf8(text[start : start + HASH_CHARACTERS], field, start)


def utf8(text: str, field: str, start: int = 0) -> bytes:
    """The text's bytes; `start`: its place in the field. Raises 400 `invalid` for a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        message = f"a lone surrogate at character {start + error.start}; send whole characters"
        raise invalid(field, message) from None


def stretches(segments: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
    """The segments in runs of about STRETCH_CHARACTERS: what is under way of one request at a time."""
    begin = characters = 0
    for index, (_, start, end, _) in enumerate(segments):
        if index > begin and characters + end - start > STRETCH_CHARACTERS:
            yield segments[begin:index]
            begin, characters = index, 0
        characters += end - start
    if begin < len(segments):
        yield segments[begin:]


def joined(tokenizer: Tokenizer, kind: int, starts: Sequence[int], parts: Sequence[Encoded], *, spans: bool) -> Encoded:
    """One text's ids, and spans, from its segments'. `starts`: where these begin, in characters."""
    ids = array("I")
    flat = array("I")
    around = (tokenizer.prefix_ids, tokenizer.suffix_ids) if kind & ADD_SPECIAL else ([], [])
    ids.extend(around[0])
    flat.extend([0, 0] * len(around[0]))
    for start, part in zip(starts, parts, strict=True):
        ids.extend(part.ids)
        if spans and part.spans is not None:
            flat.extend([place + start for place in part.spans] if start else part.spans)
    ids.extend(around[1])
    flat.extend([0, 0] * len(around[1]))
    return Encoded(ids, flat if spans else None)
