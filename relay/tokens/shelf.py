"""The tokenizers of this process: which models there are, which of them are in memory, and what is known of each.

No request ever loads a tokenizer: it finds one that is ready, or is told at once that there is none. Everything here runs
on the event loop; the loading itself is in threads (`loading`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from relay.http import Problem
from relay.tokens.loading import give_back, load_with_retries
from relay.tokens.registry import ModelSpec
from relay.tokens.slot import Slot
from relay.tokens.tokenizer import Tokenizer
from relay.tokens.traits import Traits

log = logging.getLogger("relay.tokens")

LOADING_RETRY_S = 1.0

# How many tokenizers stay in memory, and how much they may take there.
LOADED_MOST = 16
LOADED_BYTES = 1 << 30


class Shelf:
    """All configured models, found by name and by alias.

    All are loaded ahead of use while there is room; the others are idle until somebody asks for them. When a new one takes
    too much, the ones that were not asked for the longest go.
    """

    def __init__(
        self, data_dir: Path, secret: bytes, know: Callable[[str], None], forget: Callable[[str], None]
    ) -> None:
        self.slots: dict[str, Slot] = {}
        self._by_any_name: dict[str, Slot] = {}
        self._uses = 0
        self._data_dir = data_dir
        self._secret = secret
        self._know = know
        self._forget = forget

    def find(self, model: str) -> tuple[Slot, Tokenizer]:
        """A tokenizer that is ready, by name or alias. Raises 404 `model-not-found`, 503 `tokenizer-unavailable`."""
        slot = self._by_any_name.get(model)
        if slot is None:
            raise unknown(model)
        self._uses += 1
        slot.used = self._uses
        tokenizer = slot.tokenizer
        if tokenizer is None:
            if slot.state == "idle":
                self._load(slot)
            raise unavailable(slot)
        return slot, tokenizer

    def look(self, model: str) -> Slot | None:
        """A configured model by name or alias, whatever its state; None if there is none."""
        return self._by_any_name.get(model)

    def set(self, specs: Iterable[ModelSpec]) -> None:
        """Takes the configuration over: new and changed models begin to load, removed ones end at once."""
        wanted = {spec.name: spec for spec in specs}
        for name in [name for name in self.slots if name not in wanted]:
            self.slots.pop(name).stop()
            self._forget(name)
        # one loads after the other: the packaged ones, which the start waits for, come first
        for spec in sorted(wanted.values(), key=lambda spec: spec.source != "package"):
            self._place(spec)
        self._by_any_name = {name: slot for slot in self.slots.values() for name in (slot.name, *slot.spec.aliases)}

    def _place(self, spec: ModelSpec) -> None:
        """Puts a new or changed model on the shelf, and loads it if its tokenizer is another and there is room."""
        slot = self.slots.get(spec.name)
        if slot is None:
            slot = self.slots[spec.name] = Slot(spec)
            self._know(spec.name)
        elif slot.spec.origin == spec.origin:
            slot.spec = spec
            return
        slot.stop()
        slot.spec, slot.state, slot.why = spec, "idle", None
        if slot.estimated:
            slot.drop()
            slot.state, slot.checked, slot.traits = "ready", None, Traits()
        elif slot.tokenizer is not None or sum(map(_in_memory, self.slots.values())) < LOADED_MOST:
            self._load(slot)

    async def loaded(self, source: str) -> None:
        """Waits until every model of this source that is loaded ahead of use was tried once."""
        for slot in [slot for slot in self.slots.values() if slot.spec.source == source and slot.task is not None]:
            await slot.tried.wait()

    def close(self) -> None:
        """Stops all loading. A load that hangs in its thread is left behind; the thread does not keep the process."""
        for slot in self.slots.values():
            slot.stop()

    def _load(self, slot: Slot) -> None:
        slot.state, slot.why = "loading", None
        slot.tried.clear()
        slot.task = asyncio.get_running_loop().create_task(self._keep_loading(slot))

    async def _keep_loading(self, slot: Slot) -> None:
        slot.take(await load_with_retries(slot.spec, self._data_dir, slot.fail), self._secret)
        slot.task = None
        log.info("tokenizer %s is ready: %s", slot.name, slot.checked)
        self._make_room()

    def _make_room(self) -> None:
        """Drops tokenizers, the ones unused for the longest first, until the others are within the bounds."""
        held = sorted((slot for slot in self.slots.values() if slot.tokenizer), key=lambda slot: slot.used)
        total = sum(slot.size for slot in held)
        for slot in held[:-1]:
            if len(held) <= LOADED_MOST and total <= LOADED_BYTES:
                return
            held.remove(slot)
            total -= slot.size
            slot.drop()
            log.info("tokenizer %s is given back: too many are in memory", slot.name)
            asyncio.get_running_loop().run_in_executor(None, give_back)


def _in_memory(slot: Slot) -> bool:
    return slot.tokenizer is not None or slot.state == "loading"


def unknown(model: str) -> Problem:
    """404 that says where the models are listed."""
    shown = model if len(model) <= 100 else model[:100] + "…"
    detail = f"No tokenizer is configured for {shown!r}. GET /api/v1/tokens/models lists them."
    return Problem(404, "model-not-found", detail)


def unavailable(slot: Slot) -> Problem:
    """503 that says why, and when another try may succeed."""
    code, name = "tokenizer-unavailable", slot.name
    if slot.estimated:
        return Problem(
            503,
            code,
            f'{name} has no public tokenizer. Send "allow_estimate": true for an estimate that says it is one.',
        )
    if slot.state == "failed":
        wait = max(1.0, slot.retry_at - time.monotonic())
        return Problem(503, code, f"{name} could not be loaded: {slot.why}", retry_after_s=wait)
    return Problem(503, code, f"{name} is being loaded. Try again soon.", retry_after_s=LOADING_RETRY_S)
