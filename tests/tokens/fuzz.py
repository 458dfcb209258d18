"""Random texts that have broken cuts, and what must hold for each: all that the tokenizer says is what its file says.

`Judge.check` takes a text through `Tokenizer`, cut into segments of every size; `Judge.serve` through the service with all
its caches. Both are compared with the raw tokenizer, made from the untouched tokenizer.json by `tokenizers` alone.
"""

from __future__ import annotations

import pydoc_data.topics
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import tokenizers

from relay.tokens.tokenizer import Side, Tokenizer
from relay.tokens.trial import PIECES
from relay.tokens.truncation import truncate
from relay.tokens.values import ADD_SPECIAL, ALLOW_SPECIAL, COUNT, IDS, SPANS
from tests.tokens.stack import Stack

TARGETS = (2, 2, 3, 8, 40)
LONG_TARGETS = (40, 200, 512)
PLANES = ((0x20, 0x7E), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x6FF), (0x900, 0xFFF), (0x2000, 0x206F), (0x3000, 0x30FF),
          (0x4E00, 0x9FFF), (0xAC00, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF), (0, 0x1F), (0x80, 0x9F))  # fmt: skip
OTHERS = (
    "你好，世界。請用中文回答，謝謝。今天天氣很好、我們去公園。\n",
    "Съешь ещё этих мягких французских булок, да выпей чаю. 1234 рубля.\n",
    "def f(x, y):\n    if x > 10_000:\n        return {'a': [1, 2.5e-3], \"b\": None}\n\n\tpass  # TODO\n",
    '{"id":12345,"name":"Relay","tags":["a","b c"],"nested":{"ok":true,"n":null}},\n',
    "नमस्ते दुनिया। مرحبا بالعالم، كيف حالك؟ かなカナ漢字、テスト。\n한국어 문장입니다. 👍🏽👩‍👩‍👧 ok\n",
    '<div class="x"><p>Text &amp; more</p></div>\r\n\r\n| a | b |\r\n|---|---|\r\n',
    "I'll say it's DON'T we'Ve 'tis they'd ...\n\n\n   \t \n- item\n  - item 2\n",
)


class Disagreement(AssertionError):
    """The tokenizer says something else than its file."""


class Texts:
    """An endless stream of texts: mixtures, any characters, prose with edits, growing chats."""

    def __init__(self, seed: int, added: Sequence[str] = ()) -> None:
        self._random = random.Random(seed)
        self._added = list(added)
        topics = pydoc_data.topics.topics
        self._prose = "\n".join(topics[name] for name in sorted(topics)[:30])
        self._chat = ""

    def short(self) -> str:
        """A text of up to a few hundred characters."""
        return self._random.choice((self._mixture, self._characters, self._runs, self._excerpt))()

    def long(self) -> str:
        """A text of one to some thousand characters; many of them share their beginning, or all but a few characters."""
        source = self._random
        if len(self._chat) > 6000 or not self._chat:
            self._chat = self._excerpt(source.randint(300, 3000))
        turn = source.random()
        if turn < 0.6:
            name = source.choice(self._added) if self._added and source.random() < 0.5 else "\n\nuser: "
            self._chat += name + self._excerpt(source.randint(20, 600))
        elif turn < 0.95:
            place = source.randrange(len(self._chat))
            self._chat = self._chat[:place] + self._mixture() + self._chat[place + source.randint(0, 12) :]
        else:
            self._chat = ""
            return self._mixture(1500)
        return self._chat

    def _mixture(self, most: int = 60) -> str:
        pieces = self._random.choices(PIECES, k=self._random.randint(1, most))
        for content in self._random.choices(self._added, k=min(len(self._added), self._random.randint(0, 3))):
            at = self._random.randint(0, len(content))
            pieces.insert(
                self._random.randint(0, len(pieces)), self._random.choice((content, content[:at], content[at:]))
            )
        return "".join(pieces)

    def _characters(self) -> str:
        planes = self._random.choices(PLANES, k=self._random.randint(1, 4))
        codes = [self._random.randint(*self._random.choice(planes)) for _ in range(self._random.randint(1, 80))]
        return "".join(chr(code) if self._random.random() < 0.8 else self._random.choice(" \n,") for code in codes)

    def _runs(self) -> str:
        chosen = self._random.choices(PIECES, k=self._random.randint(1, 4))
        return "".join(
            self._random.choice(chosen) * self._random.randint(1, 9) for _ in range(self._random.randint(1, 9))
        )

    def _excerpt(self, size: int = 200) -> str:
        if self._random.random() < 0.5:
            return "".join(self._random.choices(OTHERS, k=1 + size // 60))[:size]
        start = self._random.randrange(len(self._prose) - size)
        return self._prose[start : start + size]


class Judge:
    """Compares one tokenizer with its file."""

    def __init__(self, tokenizer: Tokenizer, raw: tokenizers.Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.raw = raw
        self.raw.no_truncation()
        self.raw.no_padding()
        self.added = [token.content for token in raw.get_added_tokens_decoder().values()]
        self.segments = 0
        # characters that the levels gave
        self.levels: Counter[str] = Counter()

    def expected(self, text: str, *, own: bool) -> list[int]:
        """The ids that the model's own tokenizer gives; of a text without added tokens where these are not parsed."""
        if not own and any(content in text for content in self.added):
            return self.tokenizer.encode([text])[0].ids.tolist()
        return list(self.raw.encode(text, add_special_tokens=False).ids)

    def check(self, text: str, target: int, most: int) -> None:
        """Ids, offsets, counts, decoding and truncation of a text cut into segments of about `target`. Raises Disagreement."""
        for own in (False, True):
            ids = self.expected(text, own=own)
            (whole,) = self.tokenizer.encode([text], allow_special=own, spans=True)
            _same("ids", text, whole.ids.tolist(), ids)
            segments = self.tokenizer.segments(text, allow_special=own, target=target)
            _same("cover", text, "".join(text[start:end] for start, end, _ in segments), text)
            self.segments += len(segments)
            if len(segments) > 1:
                self._check_parts(text, segments, ids, whole.offsets(), own=own)
            _same("decoded", text, self.tokenizer.decode(ids), self.raw.decode(ids, skip_special_tokens=False))
        if self.tokenizer.lossless:
            _same("lossless", text, self.tokenizer.decode(self.tokenizer.encode([text])[0].ids.tolist()), text)
        if most % 4 == 0:
            self._check_truncated(text, most)

    def _check_truncated(self, text: str, most: int) -> None:
        right, left = self.tokenizer.truncate(text, most, "right"), self.tokenizer.truncate(text, most, "left")
        for cut in (right, left):
            _same("fits", text, cut.count <= most and cut.count == len(self.expected(cut.text, own=False)), True)
        _same("beginning", text, text[: len(right.text)], right.text)
        _same("end", text, text[len(text) - len(left.text) :], left.text)

    def _check_parts(
        self,
        text: str,
        segments: list[tuple[int, int, bool]],
        ids: list[int],
        spans: list[tuple[int, int]],
        *,
        own: bool,
    ) -> None:
        parts = {again: [text[start:end] for start, end, flag in segments if flag == again] for again in (False, True)}
        counts = sum(
            sum(self.tokenizer.part_counts(parts[again], again, allow_special=own)) for again in parts if parts[again]
        )
        encoded = {
            again: iter(self.tokenizer.part_encode(parts[again], again, allow_special=own, spans=True))
            for again in parts
        }
        found: list[int] = []
        offsets: list[tuple[int, int]] = []
        for start, _, again in segments:
            part = next(encoded[again])
            found += part.ids
            offsets += [(left + start, right + start) for left, right in part.offsets()]
        _same(f"ids of {segments}", text, found, ids)
        _same(f"offsets of {segments}", text, offsets, spans)
        _same(f"count of {segments}", text, counts, len(ids))

    def serve(self, stack: Stack, text: str, most: int) -> None:
        """The same through the levels of the service. Raises Disagreement."""
        for own, flags in ((False, 0), (True, ALLOW_SPECIAL)):
            ids = self.expected(text, own=own)
            (whole,) = self.tokenizer.encode([text], allow_special=own, spans=True)
            # each kind of value is cached by itself, so their order decides what is reused
            _same("served count", text, self._value(stack, text, COUNT | flags), len(ids))
            _same("served offsets", text, self._value(stack, text, SPANS | flags).offsets(), whole.offsets())
            _same("served ids", text, self._value(stack, text, IDS | flags).ids.tolist(), ids)
            specials = self.tokenizer.counts([text], add_special=True, allow_special=own)[0]
            _same("served count, again", text, self._value(stack, text, COUNT | flags), len(ids))
            _same("served specials", text, self._value(stack, text, COUNT | ADD_SPECIAL | flags), specials)
        sides: tuple[Side, ...] = ("right", "left")
        for side in sides:
            cut = stack.run(truncate(stack.levels, stack.job(), text, most, side))
            expected = self.tokenizer.truncate(text, most, side)
            _same(f"served, cut {side} to {most}", text, (cut.text, cut.count), (expected.text, expected.count))
        middle = stack.run(truncate(stack.levels, stack.job(), text, most, "middle"))
        _same("served, cut in the middle", text, middle.count, len(self.expected(middle.text, own=False)))
        _same("fits", text, middle.count <= most or not middle.truncated, True)

    def _value(self, stack: Stack, text: str, kind: int) -> Any:
        (value,), job = stack.values([text], kind)
        self.levels.update({level: characters for level, (characters, _) in job.tally.levels.items()})
        return value


def cases(seed: int, count: int, added: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Texts, each with the size of segments and a number of tokens to truncate to."""
    source = random.Random(seed)
    texts = Texts(seed, added)
    for _ in range(count):
        if source.random() < 0.95:
            yield texts.short(), source.choice(TARGETS), source.randint(0, 40)
        else:
            yield texts.long(), source.choice(LONG_TARGETS), source.randint(0, 400)


def _same(what: str, text: str, found: object, expected: object) -> None:
    if found != expected:
        raise Disagreement(f"{what} of {text!a}:\n{found!r:.600}\nnot\n{expected!r:.600}")
