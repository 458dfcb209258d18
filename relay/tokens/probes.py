"""Strings on which two tokenizers that should be the same are compared when a model is loaded."""

from __future__ import annotations

import random

FIXED = (
    "",
    " ",
    "\n",
    "\r\n\t",
    "Hello, world! don't",
    "  two  blanks   and a trailing one ",
    "def f(x):\n    return {x: [1, 2.5, 'a']}\n",
    "https://example.org/?q=a%20b&c=1#top",
    "你好，世界。請用中文回答。",
    "こんにちは、カタカナと漢字",
    "Привет, мир! Ёлка",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "é e\u0301 ﬁ Å \u212b ſ",
    "👍🏽ok 👩‍👩‍👧 🏳️‍🌈",
    "\u200b\ufeff\u00a0\u3000",
    "\0\x01\x7f",
    "1234567890 3.14159 1e-9 ⅷ ²",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "CamelCaseAndSNAKE_CASE-and-kebab",
    "I'll you've THEY'RE it's 'tis",
    "<s> </s> [CLS] [SEP] <|endoftext|> <|im_start|>",
)
PIECES = (
    "the", "token", "Relay", " ", "  ", "\n", "\n\n", "\t", ".", ",", "'s", "'", '"', "-", "_", "/", "ing", "un", "Ω", "ß",
    "ü", "世", "界", "の", "ы", "ع", "ह", "👍", "🏽", "\u200d", "\u0301", "7", "42", "2026", "(", ")", "{", "}", "==", "<|",
    "|>", "\u00a0", "▁", "Ġ", "A", "Z", "x",
)  # fmt: skip


def probes(count: int = 400) -> list[str]:
    """The same `count` strings every time: fixed traps first, then seeded mixtures of pieces."""
    source = random.Random(20_231)
    mixed = ["".join(source.choices(PIECES, k=source.randint(1, 24))) for _ in range(max(0, count - len(FIXED)))]
    return [*FIXED, *mixed][:count]
