"""The levels of one process around a tokenizer, without shelf and API; and prose to count."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from relay.telemetry.token_meter import TokenMeter
from relay.tokens.jobs import Job
from relay.tokens.lanes import Lanes
from relay.tokens.registry import ModelSpec
from relay.tokens.reuse import Levels
from relay.tokens.shared import Shared
from relay.tokens.slot import Slot, seeds
from relay.tokens.tokenizer import Tokenizer
from relay.tokens.values import COUNT, IDS, SPANS

T = TypeVar("T")

WORDS = [
    "the",
    "relay",
    "counts",
    "tokens",
    "and",
    "permits",
    "while",
    "callers",
    "wait",
    "and",
    "ask",
    "again",
    "every",
    "answer",
    "is",
    "exact",
    "nothing",
    "guessed",
    "you",
    "can't",
    "have",
    "what",
    "isn't",
    "yours",
    "1234",
    "naïve",
    "café",
    "你好世界",
    "😀👍🏽",
    "don't",
    "re-read",
    "CamelCase",
    "snake_case",
    "x=1;",
    "{json:",
    "true}",
]


def prose(characters: int, seed: int) -> str:
    """Words, lines and marks, the same for the same seed."""
    pick = random.Random(seed)
    parts: list[str] = []
    size = 0
    while size < characters:
        parts.append(pick.choice(WORDS) + pick.choice([" "] * 12 + [". ", ", ", "\n", "\n\n", "  "]))
        size += len(parts[-1])
    return "".join(parts)[:characters]


class Stack:
    """One event loop with levels. Everything that is counted goes through them."""

    def __init__(self, tokenizer: Tokenizer, cache_bytes: int = 4_000_000, redis_url: str | None = None) -> None:
        self.runner = asyncio.Runner()
        self.meter = TokenMeter(lambda: 0)
        self.slot = Slot(ModelSpec("tested", "path"))
        self.slot.tokenizer = self.tokenizer = tokenizer
        self.slot.seeds = seeds(tokenizer.fingerprint, b"a secret of the tests")
        self.lanes = Lanes()
        self.shared: Shared | None = None
        if redis_url is not None:
            self.shared = self.run(self._shared(redis_url))
        self.levels = Levels(cache_bytes, self.lanes, self.meter, self.shared)

    async def _shared(self, url: str) -> Shared:
        shared = Shared(url, self.meter)
        await shared.start()
        return shared

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the stack's loop."""
        return self.runner.run(work)

    def job(self, kind: int = COUNT) -> Job:
        """A request."""
        return Job(self.slot, self.tokenizer, kind)

    def values(self, texts: Sequence[str], kind: int = COUNT) -> tuple[list[Any], Job]:
        """The values of texts in one request, and the request with its tally."""
        job = self.job(kind)
        return self.run(self.levels.values(job, texts, "texts[%d]")), job

    def count(self, text: str, kind: int = COUNT) -> int:
        """The count of one text."""
        return int(self.values([text], kind)[0][0])

    def ids(self, text: str, flags: int = 0) -> list[int]:
        """The ids of one text."""
        return list(self.values([text], IDS | flags)[0][0].ids)

    def offsets(self, text: str, flags: int = 0) -> list[tuple[int, int]]:
        """The spans of one text's ids."""
        return list(self.values([text], SPANS | flags)[0][0].offsets())

    def computed(self, text: str, kind: int = COUNT) -> int:
        """How many characters had to be encoded for it."""
        return self.values([text], kind)[1].tally.levels.get("computed", [0])[0]

    def close(self) -> None:
        """Stops everything."""
        if self.shared is not None:
            self.run(self.shared.stop())
        self.lanes.close()
        self.runner.close()
