"""A process that is flooded with texts never seen before; prints by how many MB it grew at most. Run by test_memory.py."""

from __future__ import annotations

import ctypes
import gc
import random
import sys
from pathlib import Path

import django

django.setup()

from relay.tokens.registry import ModelSpec  # noqa: E402
from relay.tokens.reuse import Levels  # noqa: E402
from relay.tokens.sources import load  # noqa: E402
from relay.tokens.values import COUNT, IDS  # noqa: E402
from tests.tokens.stack import Stack  # noqa: E402

MEBI = 1024 * 1024
PAGE = 4096


def resident() -> int:
    """The process's memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class Flood:
    """Words never seen before, and the memory that counting them took."""

    def __init__(self, cache_bytes: int) -> None:
        gpt2 = load(ModelSpec("gpt2", "package"), Path(sys.argv[1])).tokenizer
        self._pick = random.Random(1)
        self._stack = Stack(gpt2, 100_000)
        # the library keeps some words of its own, and each thread some buffers: that is no growth of the caches
        for _ in range(100):
            for kind in (COUNT, IDS):
                self._stack.values([self.words(300), self.words(12_000)], kind)
        self._stack.levels = Levels(cache_bytes, self._stack.lanes, self._stack.meter, None)
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what loading left free would hide the growth
        self._before = resident()
        self.most = 0

    def words(self, characters: int) -> str:
        """New words."""
        return "".join(self._pick.choices("abcdefghijklmnopqrstuvwxyz    \n", k=characters))

    def count(self, texts: list[str], kind: int) -> None:
        """Counts, or encodes, and looks at the memory."""
        self._stack.values(texts, kind)
        self.most = max(self.most, resident() - self._before)

    @property
    def held(self) -> int:
        """What the caches say that they hold."""
        return self._stack.levels.texts.bytes + self._stack.levels.segments.bytes


def texts(flood: Flood) -> None:
    """Short texts, segments' counts and ids, several times what the caches can hold."""
    for _ in range(400):
        flood.count([flood.words(40) for _ in range(200)], COUNT)
        flood.count([flood.words(12_000)], COUNT)
        flood.count([flood.words(12_000)], IDS)
        flood.count([flood.words(300) for _ in range(20)], IDS)


def words(flood: Flood) -> None:
    """1.2 million words."""
    for _ in range(1200):
        flood.count([" ".join(flood.words(6).replace(" ", "x") for _ in range(1000))], COUNT)


if __name__ == "__main__":
    flooded = Flood(int(sys.argv[3]) * MEBI)
    {"texts": texts, "words": words}[sys.argv[2]](flooded)
    print(f"{flooded.most / MEBI:.1f} {flooded.held / MEBI:.1f}")
