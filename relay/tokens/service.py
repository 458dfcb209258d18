"""Counts, encodes, decodes and truncates for the API: tokenizers from the shelf, answers from the caches, work in the lanes.

Everything is called on the event loop. A cached count is one hash and one dict lookup. What is the same is made once.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from relay.http import invalid
from relay.telemetry.token_meter import TokenMeter
from relay.tokens.inspection import Inspection, inspect
from relay.tokens.jobs import Job
from relay.tokens.lanes import Lanes
from relay.tokens.registry import ModelSpec
from relay.tokens.reuse import Levels
from relay.tokens.segment_level import CUT_INLINE, SEGMENTED_FROM
from relay.tokens.segments import TEXT_LIMIT, utf8
from relay.tokens.shared import Shared
from relay.tokens.shelf import Shelf
from relay.tokens.slot import ModelView, Slot, seeds, view_of
from relay.tokens.tokenizer import Encoded, Tokenizer, Truncated, UnknownId
from relay.tokens.truncation import Side, truncate
from relay.tokens.values import ADD_SPECIAL, ALLOW_SPECIAL, COUNT, IDS, SPANS, Source, tokens_in

__all__ = ["ADD_SPECIAL", "ALLOW_SPECIAL", "TEXT_LIMIT", "Counts", "Encodings", "Inspection", "Source", "TokenService"]


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
    """The tokenizers of one process behind caches of `cache_bytes`, and one in Redis if there is a `redis_url`."""

    def __init__(self, data_dir: Path, cache_bytes: int, meter: TokenMeter, redis_url: str | None = None) -> None:
        self._meter = meter
        self._lanes = Lanes()
        self.shared = Shared(redis_url, meter) if redis_url else None
        self.levels = Levels(cache_bytes, self._lanes, meter, self.shared)
        self._shelf = Shelf(data_dir, secrets.token_bytes(32), meter.know, meter.forget)
        self._find = self._shelf.find
        self._cached = self.levels.texts.get
        self.run = self._lanes.run

    async def start(self, specs: Iterable[ModelSpec]) -> None:
        """Begins to load every model; those that come with a package (gpt2) were tried when this returns."""
        self._shelf.set(specs)
        if self.shared is not None:
            await self.shared.start()
        await self._shelf.loaded("package")

    async def stop(self) -> None:
        """Ends loading and takes no more work."""
        self._shelf.close()
        self._lanes.close()
        if self.shared is not None:
            await self.shared.stop()

    def set_models(self, specs: Iterable[ModelSpec]) -> None:
        """Takes changed configuration over, without a restart: adds, reloads, removes."""
        self._shelf.set(specs)

    def models(self) -> list[ModelView]:
        """All configured tokenizers by name."""
        return [view_of(slot) for _, slot in sorted(self._shelf.slots.items())]

    def slot(self, model: str) -> Slot | None:
        """A configured model by name or alias, whatever its state; None if there is none."""
        return self._shelf.look(model)

    def find(self, model: str) -> tuple[Slot, Tokenizer]:
        """A model that is ready, by name or alias. Raises 404 `model-not-found`, 503 `tokenizer-unavailable`."""
        return self._find(model)

    async def count(self, tenant: str, model: str, text: str, flags: int = 0) -> tuple[int, Source, str]:
        """The count of one text, its source, and the fingerprint. `flags`: ADD_SPECIAL | ALLOW_SPECIAL.

        Raises 400 `invalid` for a lone surrogate, 404 `model-not-found`, 413 `text-too-large`, 503
        `tokenizer-unavailable`, `shutting-down`.
        """
        began = time.perf_counter()
        slot, tokenizer = self._find(model)
        if len(text) > CUT_INLINE:
            (count,), source = await self._values(tenant, slot, tokenizer, COUNT | flags, [text], "text", began)
            return count, source, tokenizer.fingerprint
        hasher = slot.seeds[flags].copy()
        hasher.update(utf8(text, "text"))
        key = hasher.digest()
        known = cast("int | None", self._cached(key))
        if known is not None:
            slot.hits += 1
            self._meter.counted(slot.name, tenant, "cache", known, time.perf_counter() - began, 0, len(text))
            return known, "cache", tokenizer.fingerprint
        job = Job(slot, tokenizer, COUNT | flags)
        if len(text) < SEGMENTED_FROM:
            (count,) = await self.levels.whole(job, [key], [text])
        else:
            (count,) = await self.levels.segmented(job, [key], [text], ["text"])
        return count, self._book(tenant, slot, job, 1, count, began), tokenizer.fingerprint

    async def counts(self, tenant: str, model: str, texts: Sequence[str], flags: int = 0) -> Counts:
        """The counts of several texts as one batch. Raises as `count`."""
        began = time.perf_counter()
        slot, tokenizer = self._find(model)
        counts, source = await self._values(tenant, slot, tokenizer, COUNT | flags, texts, "texts[%d]", began)
        return Counts(counts, source, tokenizer.fingerprint)

    async def encode(
        self, tenant: str, model: str, texts: Sequence[str], flags: int = 0, *, spans: bool = False, batch: bool = True
    ) -> Encodings:
        """The ids of several texts (of one, with `batch` false), with spans in characters if asked. Raises as `count`."""
        began = time.perf_counter()
        slot, tokenizer = self._find(model)
        kind = SPANS if spans else IDS
        field = "texts[%d]" if batch else "text"
        encoded, source = await self._values(tenant, slot, tokenizer, kind | flags, texts, field, began)
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
        """A part of a text within `max_tokens`; `truncation` says which. Raises as `count`."""
        began = time.perf_counter()
        slot, tokenizer = self._find(model)
        job = Job(slot, tokenizer, COUNT)
        result = await truncate(self.levels, job, text, max_tokens, side)
        self._book(tenant, slot, job, 1, result.whole_count, began)
        return result

    async def inspect(self, tenant: str, model: str, text: str, flags: int = 0) -> Inspection:
        """The tokens of a text, and which level a count of it finds them at. Books nothing. Raises as `count`."""
        slot, tokenizer = self._find(model)
        return await inspect(self.levels, Job(slot, tokenizer, COUNT | flags), text)

    async def _values(
        self, tenant: str, slot: Slot, tokenizer: Tokenizer, kind: int, texts: Sequence[str], field: str, began: float
    ) -> tuple[list[Any], Source]:
        """A value for each text, and where they came from."""
        job = Job(slot, tokenizer, kind)
        values = await self.levels.values(job, texts, field)
        return values, self._book(tenant, slot, job, len(texts), sum(map(tokens_in, values)), began)

    def _book(self, tenant: str, slot: Slot, job: Job, texts: int, tokens: int, began: float) -> Source:
        """Meters a request; returns the source."""
        if slot.tokenizer is not None and slot.tokenizer.fast is not None and not slot.tokenizer.fast.trusted:
            self._distrust(slot, slot.tokenizer)
        source = job.tally.source
        hits = texts if source == "cache" else job.tally.texts
        slot.hits += hits
        slot.misses += texts - hits
        reused = job.tally.tell(self._meter, slot.name)
        self._meter.counted(slot.name, tenant, source, tokens, time.perf_counter() - began, reused)
        return source

    def _distrust(self, slot: Slot, tokenizer: Tokenizer) -> None:
        """The fast tokenizer gave another result than the exact one: what it made is not found any more."""
        tokenizer.fast = None
        slot.seeds = seeds(tokenizer.fingerprint, secrets.token_bytes(32))
        self._meter.differed(slot.name)
