"""Tries cuts on strings when a tokenizer is loaded: a second look at what `proof.py` concluded.

The strings are short mixtures of what has broken cuts: blanks and line ends in runs, marks and joiners, letters that change
when normalized, digits, quotes, added tokens and pieces of them. They are cut wherever it is allowed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tokenizers import Encoding, Tokenizer

from relay.tokens.cuts import Cuts

TEXTS = 3000
EVERYWHERE = 2
PIECES = (
    "a", "B", "hello", "World", "the", " ", " ", " ", "  ", "   ", "\n", "\n", "\n\n", "\r\n", "\t", ".", ",", ",", "!", ":",
    '"', '"', "'s", "'LL", "'", "1", "1234", "é", "e\u0301", "\u0301", "\u0308", "\u3099", "你好", "世", "かな", "カ", "。", "，", "、",
    "한국", "ы", "ع", "न", "ा", "😀", "👩‍👩‍👧", "👍🏽", "\u00a0", "\u3000", "\u2009", "(", ")", "#", "/", "-", "_", "=", "ſ", "ﬁ", "Å",
    "\u200d", "\u200b", "\u180e", "\u2581", "\u0120", "<", ">", "</", "<b>", "İ", "ß", "\x85", "\x1c", "\0", "``", "''", "½", "x²",
    "\u00a8", "\ufeff", "\u0600", "\ufdfa", "<0x0A>", "{", "}:",
)  # fmt: skip


def disagreement(whole: Tokenizer, continued: Tokenizer, cuts: Cuts, added: Sequence[str]) -> str | None:
    """A string that its segments encode differently, ids or offsets; None if there is none among 3,000."""
    if not cuts.any:
        return None
    texts = strings(TEXTS, added)
    cut = [(text, cuts.segments(text, EVERYWHERE)) for text in texts]
    segments = [(text[start:end], start, again) for text, found in cut for start, end, again in found]
    encoded = iter(_encoded(whole, continued, segments))
    for expected, (text, found) in zip(whole.encode_batch(texts, add_special_tokens=False), cut, strict=True):
        parts = [next(encoded) for _ in found]
        if [token for part in parts for token in part] != list(zip(expected.ids, expected.offsets, strict=True)):
            return text
    return None


def strings(count: int, added: Sequence[str], seed: int = 1) -> list[str]:
    """Mixtures, the same ones every time."""
    source = random.Random(seed)
    pieces = list(PIECES)
    for content in source.sample(list(added), min(24, len(added))):
        pieces += [content, content, content[: len(content) // 2], content[len(content) // 2 :]]
    return ["".join(source.choices(pieces, k=source.randint(3, 16))) for _ in range(count)]


def _encoded(
    whole: Tokenizer, continued: Tokenizer, segments: list[tuple[str, int, bool]]
) -> list[list[tuple[int, tuple[int, int]]]]:
    """The ids of each segment with their offsets in its text."""
    first = [text for text, _, again in segments if not again]
    rest = [text for text, _, again in segments if again]
    encodings = {
        False: iter(whole.encode_batch(first, add_special_tokens=False)),
        True: iter(continued.encode_batch(rest, add_special_tokens=False)),
    }
    return [_shifted(next(encodings[again]), start) for _, start, again in segments]


def _shifted(encoding: Encoding, start: int) -> list[tuple[int, tuple[int, int]]]:
    return [
        (number, (left + start, right + start))
        for number, (left, right) in zip(encoding.ids, encoding.offsets, strict=True)
    ]
