"""The cache: bounded by bytes whatever comes, and keeping what is asked for again."""

from __future__ import annotations

import random
import sys
import tracemalloc
from collections import OrderedDict
from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from relay.tokens.cache import ENTRY_OVERHEAD, Cache, Room


def key(number: int) -> bytes:
    """A cache key: a digest, as the service's."""
    return blake2b(number.to_bytes(8, "big"), digest_size=16).digest()


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 900), st.booleans()), max_size=400))
def test_it_never_holds_more_than_its_bound_and_never_a_wrong_value(steps: list[tuple[int, int, bool]]) -> None:
    cache = Cache(Room(8192))
    for number, size, reading in steps:
        if reading:
            assert cache.get(key(number)) in (None, number)
        else:
            kept = cache.put(key(number), number, size)
            assert kept == (size + ENTRY_OVERHEAD <= 8192 // 8)
            assert not kept or cache.get(key(number)) == number
        assert 0 <= cache.bytes <= 8192
        assert cache.bytes >= len(cache) * ENTRY_OVERHEAD


def test_a_large_entry_is_not_taken() -> None:
    cache = Cache(Room(80_000))
    assert cache.put(key(1), "x", 10_000 - ENTRY_OVERHEAD)
    assert not cache.put(key(2), "y", 10_001 - ENTRY_OVERHEAD)
    assert cache.get(key(2)) is None


def test_what_is_asked_for_again_outlives_a_scan() -> None:
    cache = Cache(Room(100_000))
    for number in range(100):
        cache.put(key(number), number, 0)
        cache.get(key(number))
    for number in range(1000, 11_000):
        cache.put(key(number), number, 0)
    assert sum(cache.get(key(number)) is not None for number in range(100)) == 100


def test_it_hits_more_often_than_least_recently_used() -> None:
    source = random.Random(7)
    weights = [1 / rank**1.1 for rank in range(1, 20_001)]
    wanted = source.choices(range(20_000), weights, k=60_000)
    wanted = [number if source.random() < 0.67 else 1_000_000 + place for place, number in enumerate(wanted)]
    entries = 1000
    cache = Cache(Room(entries * (ENTRY_OVERHEAD + 32)))
    lru: OrderedDict[int, None] = OrderedDict()
    hits = {"s3-fifo": 0, "lru": 0}
    for number in wanted:
        if cache.get(key(number)) is not None:
            hits["s3-fifo"] += 1
        else:
            cache.put(key(number), number, 32)
        if number in lru:
            hits["lru"] += 1
            lru.move_to_end(number)
        else:
            lru[number] = None
            if len(lru) > entries:
                lru.popitem(last=False)
    assert hits["s3-fifo"] > 1.05 * hits["lru"]


def test_an_entry_costs_about_what_is_reckoned_for_it() -> None:
    tracemalloc.start()
    cache = Cache(Room(50_000_000))
    for number in range(22_000):
        cache.put(key(number), 1_000_000 + number, sys.getsizeof(1_000_000))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.5 < used / cache.bytes < 1.2
