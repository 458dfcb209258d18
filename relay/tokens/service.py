"""Counts, encodes, decodes and truncates for the API: tokenizers from the shelf, answers from the cache, work in the lanes.

Everything is called on the event loop. A cached count is one hash and one dict lookup. Equal texts that are being
encoded at the same moment are encoded once.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from msgspec import Struct

from relay.http import Problem, invalid
from relay.telemetry.meters import TokenMeter
from relay.tokens.cache import Cache
from relay.tokens.lanes import INLINE_BYTES, LARGE_BYTES, Lanes, chunks
from relay.tokens.registry import ModelSpec
from relay.tokens.shelf import ModelView, Shelf, Slot, view_of
from relay.tokens.tokenizer import Encoded, Side, Tokenizer, TokenizerFault, Truncated, UnknownId

Source = Literal["cache", "partial", "computed"]
T = TypeVar("T")

TEXT_LIMIT = 2 * 1024 * 1024
ADD_SPECIAL, ALLOW_SPECIAL = 1, 2
COUNT, IDS, SPANS = 0, 4, 8
INT_BYTES = 32


class Counts(Struct, frozen=True, gc=False):
    """Token counts in the order of the texts, where they came from, and the tokenizer's fingerprint."""

    counts: list[int]
    source: Source
    tokenizer: str


class Encodings(Struct, frozen=True):
    """Encoded texts in their order, where they came from, and the tokenizer's fingerprint."""

    encoded: list[Encoded]
    source: Source
    tokenizer: str


class TokenService:
    """The tokenizers of one process behind one cache of `cache_bytes`."""

    def __init__(self, data_dir: Path, cache_bytes: int, meter: TokenMeter) -> None:
        self.cache = Cache(cache_bytes)
        self._meter = meter
        self._lanes = Lanes()
        self._shelf = Shelf(data_dir, secrets.token_bytes(32), meter.know, meter.forget)
        self._find = self._shelf.find
        self._flying: dict[bytes, asyncio.Future[Any]] = {}

    async def start(self, specs: Iterable[ModelSpec]) -> None:
        """Begins to load every model; those that come with a package (gpt2) were tried when this returns."""
        self._shelf.set(specs)
        await self._shelf.loaded("package")

    async def stop(self) -> None:
        """Ends loading and takes no more work."""
        self._shelf.close()
        self._lanes.close()

    def set_models(self, specs: Iterable[ModelSpec]) -> None:
        """Takes changed configuration over, without a restart: adds, reloads, removes."""
        self._shelf.set(specs)

    def models(self) -> list[ModelView]:
        """All configured tokenizers by name."""
        return [view_of(slot) for _, slot in sorted(self._shelf.slots.items())]

    async def count(self, tenant: str, model: str, text: str, flags: int = 0) -> tuple[int, Source, str]:
        """The count of one text, its source, and the fingerprint. `flags`: ADD_SPECIAL | ALLOW_SPECIAL.

        Raises 404 `model-not-found`, 413 `text-too-large`, 503 `tokenizer-unavailable`.
        """
        began = time.perf_counter()
        slot, tokenizer = self._find(model)
        data = _utf8(text, "text")
        hasher = slot.seeds[flags].copy()
        hasher.update(data)
        key = hasher.digest()
        count = cast("int | None", self.cache.get(key))
        if count is not None:
            slot.hits += 1
            self._meter.counted(model, tenant, "cache", count, time.perf_counter() - began)
            return count, "cache", tokenizer.fingerprint
        (count,) = await self._compute(tokenizer, COUNT | flags, [key], [text], [len(data)])
        slot.misses += 1
        self._meter.counted(model, tenant, "computed", count, time.perf_counter() - began)
        return count, "computed", tokenizer.fingerprint

    async def counts(self, tenant: str, model: str, texts: Sequence[str], flags: int = 0) -> Counts:
        """The counts of several texts as one batch. Raises as `count`."""
        began = time.perf_counter()
        slot, tokenizer = self._find(model)
        counts, source = await self._values(slot, tokenizer, COUNT | flags, texts, "texts[%d]")
        self._meter.counted(model, tenant, source, sum(counts), time.perf_counter() - began)
        return Counts(counts, source, tokenizer.fingerprint)

    async def encode(
        self, tenant: str, model: str, texts: Sequence[str], flags: int = 0, *, spans: bool = False, batch: bool = True
    ) -> Encodings:
        """The ids of several texts (of one, with `batch` false), with spans in characters if asked. Raises as `count`."""
        began = time.perf_counter()
        slot, tokenizer = self._find(model)
        kind = SPANS if spans else IDS
        encoded, source = await self._values(slot, tokenizer, kind | flags, texts, "texts[%d]" if batch else "text")
        self._meter.counted(model, tenant, source, sum(len(each.ids) for each in encoded), time.perf_counter() - began)
        return Encodings(encoded, source, tokenizer.fingerprint)

    async def decode(self, model: str, ids: list[int]) -> str:
        """The text of the ids. Raises 400 `invalid` for ids out of the vocabulary, else as `count`."""
        _, tokenizer = self._find(model)
        try:
            # an id is about as much work as four characters
            return await self.run(4 * len(ids), partial(tokenizer.decode, ids))
        except UnknownId as unknown:
            message = f"{unknown.token_id} is not in the vocabulary of {model} (0 to {tokenizer.largest_id})"
            raise invalid(f"ids[{unknown.index}]", message) from None

    async def truncate(self, tenant: str, model: str, text: str, max_tokens: int, side: Side) -> Truncated:
        """The beginning (`right`: the end is cut) or the end of a text within `max_tokens`. Raises as `count`."""
        began = time.perf_counter()
        slot, tokenizer = self._find(model)
        size = len(_utf8(text, "text"))
        result = await self.run(size, partial(tokenizer.truncate, text, max_tokens, side))
        slot.misses += 1
        self._meter.counted(model, tenant, "computed", result.whole_count, time.perf_counter() - began)
        return result

    async def run(self, size: int, work: Callable[[], T]) -> T:
        """Runs work on about `size` bytes of text, here or in a lane. Raises 503 `tokenizer-unavailable` for a fault."""
        if size <= INLINE_BYTES:
            return _guarded(work)
        future = self._lane(size, work)
        try:
            return await future
        except TokenizerFault as fault:
            raise faulty(fault) from fault

    async def _values(
        self, slot: Slot, tokenizer: Tokenizer, kind: int, texts: Sequence[str], field: str
    ) -> tuple[list[Any], Source]:
        """A value for each text, from the cache or computed in one batch, and where they came from."""
        seed = slot.seeds[kind]
        characters = sum(map(len, texts))
        if characters > LARGE_BYTES:
            keys, sizes = await self.run(characters, partial(_keys, seed, texts, field))
        else:
            keys, sizes = _keys(seed, texts, field)
        get = self.cache.get
        found = {key: value for key in keys if (value := get(key)) is not None}
        lacking = {key: index for index, key in enumerate(keys) if key not in found}
        misses = sum(key in lacking for key in keys)
        if lacking:
            places = list(lacking.values())
            values = await self._compute(
                tokenizer, kind, list(lacking), [texts[place] for place in places], [sizes[place] for place in places]
            )
            found.update(zip(lacking, values, strict=True))
        slot.misses += misses
        slot.hits += len(keys) - misses
        source: Source = "cache" if not misses else "computed" if misses == len(keys) else "partial"
        return [found[key] for key in keys], source

    async def _compute(
        self, tokenizer: Tokenizer, kind: int, keys: list[bytes], texts: list[str], sizes: list[int]
    ) -> list[Any]:
        """Values for different keys, none of them cached. What is under way already is waited for, not repeated."""
        if sum(sizes) <= INLINE_BYTES:
            values = _guarded(partial(_work, tokenizer, kind, texts))
            self._keep(keys, values)
            return values
        flying = self._flying
        new = [place for place, key in enumerate(keys) if key not in flying]
        for run in chunks([sizes[place] for place in new]):
            places = [new[index] for index in run]
            self._launch(
                tokenizer,
                kind,
                [keys[place] for place in places],
                [texts[place] for place in places],
                sum(sizes[place] for place in places),
            )
        futures = [flying[key] for key in keys]
        # shielded: a caller that leaves must not take the work from the others that wait for it
        return [await asyncio.shield(future) for future in futures]

    def _launch(self, tokenizer: Tokenizer, kind: int, keys: list[bytes], texts: list[str], size: int) -> None:
        """Starts the work for a run of texts; each key has a future until it ends."""
        started = self._lane(size, partial(_work, tokenizer, kind, texts))
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in keys]
        self._flying.update(zip(keys, futures, strict=True))

        def landed(work: asyncio.Future[list[Any]]) -> None:
            for key in keys:
                self._flying.pop(key, None)
            error = _error_of(work)
            if error is None:
                self._keep(keys, work.result())
            for index, future in enumerate(futures):
                if future.done():
                    continue
                if error is None:
                    future.set_result(work.result()[index])
                else:
                    future.set_exception(error)
                    future.exception()  # whoever waits gets it; nobody waiting is no fault

        started.add_done_callback(landed)

    def _keep(self, keys: list[bytes], values: list[Any]) -> None:
        cache = self.cache
        for key, value in zip(keys, values, strict=True):
            cache.put(key, value, _bytes_of(value))
        self._meter.cache(cache.bytes, len(cache))

    def _lane(self, size: int, work: Callable[[], T]) -> asyncio.Future[T]:
        try:
            return self._lanes.submit(size, work)
        except RuntimeError:
            raise Problem(503, "shutting-down", "The relay is shutting down.", retry_after_s=5.0) from None


def faulty(fault: TokenizerFault) -> Problem:
    """503: the tokenizer itself failed on a text."""
    return Problem(503, "tokenizer-unavailable", f"The tokenizer failed on this input: {fault}")


def _guarded(work: Callable[[], T]) -> T:
    try:
        return work()
    except TokenizerFault as fault:
        raise faulty(fault) from fault


def _error_of(work: asyncio.Future[Any]) -> BaseException | None:
    if work.cancelled():
        return Problem(503, "shutting-down", "The relay is shutting down.", retry_after_s=5.0)
    error = work.exception()
    return faulty(error) if isinstance(error, TokenizerFault) else error


def _work(tokenizer: Tokenizer, kind: int, texts: list[str]) -> list[Any]:
    add, allow = bool(kind & ADD_SPECIAL), bool(kind & ALLOW_SPECIAL)
    if kind < IDS:
        return tokenizer.counts(texts, add_special=add, allow_special=allow)
    return tokenizer.encode(texts, add_special=add, allow_special=allow, spans=kind >= SPANS)


def _keys(seed: Any, texts: Sequence[str], field: str) -> tuple[list[bytes], list[int]]:
    """The cache key and the UTF-8 size of each text."""
    keys, sizes = [], []
    for index, text in enumerate(texts):
        data = _utf8(text, field % index if "%" in field else field)
        hasher = seed.copy()
        hasher.update(data)
        keys.append(hasher.digest())
        sizes.append(len(data))
    return keys, sizes


def _utf8(text: str, field: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise invalid(field, f"a lone surrogate at character {error.start}; send whole characters") from None
    if len(data) > TEXT_LIMIT:
        raise Problem(
            413,
            "text-too-large",
            f"{field}: over {TEXT_LIMIT // 1024} KiB of UTF-8. Split the text and count its parts.",
        )
    return data


def _bytes_of(value: Any) -> int:
    if isinstance(value, int):
        return INT_BYTES
    encoded = cast("Encoded", value)
    arrays: list[array[int]] = [encoded.ids] if encoded.spans is None else [encoded.ids, encoded.spans]
    return sum(64 + len(each) * each.itemsize for each in arrays)
