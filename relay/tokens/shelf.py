"""The tokenizers of this process: loads what is configured in the background, and says what is ready.

No request ever loads a tokenizer: it finds one that is ready, or is told at once that there is none.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from relay.http import Problem
from relay.tokens.registry import ModelSpec
from relay.tokens.sources import Loaded, SourceFault, load
from relay.tokens.tokenizer import Tokenizer

log = logging.getLogger("relay.tokens")

State = Literal["loading", "ready", "failed"]

RETRY_FIRST_S = 5.0
RETRY_MOST_S = 300.0
LOADING_RETRY_S = 1.0
KINDS = (b"count", b"ids", b"spans")


class ModelView(Struct, frozen=True):
    """A tokenizer as the list shows it. `hit_rate` is the share of texts answered from the cache since the start."""

    name: str
    source: str
    revision: str
    state: str
    loaded: bool
    why: str | None
    vocabulary_size: int | None
    tokenizer: str | None
    checked: str | None
    hits: int
    misses: int
    hit_rate: float | None


class Slot:
    """One configured model: its tokenizer once it is loaded, and the key makers for its cache entries.

    A slot whose configuration changed keeps serving its former tokenizer until the new one is ready.
    """

    __slots__ = ("checked", "hits", "misses", "retry_at", "seeds", "spec", "state", "task", "tokenizer", "tried", "why")

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.state: State = "loading"
        self.why: str | None = None
        self.checked: str | None = None
        self.tokenizer: Tokenizer | None = None
        self.seeds: dict[int, Any] = {}
        self.hits = 0
        self.misses = 0
        self.retry_at = 0.0
        self.task: asyncio.Task[None] | None = None
        self.tried = asyncio.Event()

    def take(self, loaded: Loaded, secret: bytes) -> None:
        """Serves with this tokenizer from now on."""
        self.tokenizer = loaded.tokenizer
        self.checked = loaded.checked
        self.seeds = seeds(loaded.tokenizer.fingerprint, secret)
        self.state = "ready"
        self.why = None
        self.tried.set()

    def fail(self, why: str, retry_in_s: float) -> None:
        """Remembers why there is no tokenizer, or no newer one, and when the next try is."""
        self.state = "failed"
        self.why = why
        self.retry_at = time.monotonic() + retry_in_s
        self.tried.set()


def view_of(slot: Slot) -> ModelView:
    """A slot as the list shows it."""
    tokenizer = slot.tokenizer
    texts = slot.hits + slot.misses
    return ModelView(
        name=slot.spec.name,
        source=slot.spec.source,
        revision=slot.spec.revision,
        state=slot.state,
        loaded=tokenizer is not None,
        why=slot.why,
        vocabulary_size=None if tokenizer is None else tokenizer.vocabulary_size,
        tokenizer=None if tokenizer is None else tokenizer.fingerprint,
        checked=slot.checked,
        hits=slot.hits,
        misses=slot.misses,
        hit_rate=round(slot.hits / texts, 4) if texts else None,
    )


def seeds(fingerprint: str, secret: bytes) -> dict[int, Any]:
    """A started hash for each kind of value and each pair of flags: another tokenizer, flag or kind is another key."""
    found = {}
    for kind, name in enumerate(KINDS):
        for flags in range(4):
            seed = blake2b(key=secret, digest_size=16)
            seed.update(b"%s %d %s " % (fingerprint.encode(), flags, name))
            found[kind * 4 + flags] = seed
    return found


class Shelf:
    """All configured tokenizers. Everything here runs on the event loop; only `load` runs in threads of its own."""

    def __init__(
        self, data_dir: Path, secret: bytes, know: Callable[[str], None], forget: Callable[[str], None]
    ) -> None:
        self.slots: dict[str, Slot] = {}
        self._data_dir = data_dir
        self._secret = secret
        self._know = know
        self._forget = forget

    def find(self, model: str) -> tuple[Slot, Tokenizer]:
        """A tokenizer that is ready. Raises 404 `model-not-found`, 503 `tokenizer-unavailable`."""
        slot = self.slots.get(model)
        if slot is None:
            shown = model if len(model) <= 100 else model[:100] + "…"
            raise Problem(
                404,
                "model-not-found",
                f"No tokenizer is configured for {shown!r}. GET /api/v1/tokens/models lists them.",
            )
        if slot.tokenizer is None:
            raise unavailable(slot)
        return slot, slot.tokenizer

    def set(self, specs: Iterable[ModelSpec]) -> None:
        """Takes the configuration over: new and changed models begin to load, removed ones end at once."""
        wanted = {spec.name: spec for spec in specs}
        for name in [name for name in self.slots if name not in wanted]:
            self._end(self.slots.pop(name))
            self._forget(name)
        # one loads after the other: the packaged ones, which the start waits for, come first
        for name, spec in sorted(wanted.items(), key=lambda item: item[1].source != "package"):
            former = self.slots.get(name)
            if former is not None and former.spec == spec:
                continue
            slot = Slot(spec)
            if former is not None:
                self._end(former)
                slot.tokenizer, slot.seeds, slot.checked = former.tokenizer, former.seeds, former.checked
                slot.hits, slot.misses = former.hits, former.misses
            self.slots[name] = slot
            self._know(name)
            slot.task = asyncio.get_running_loop().create_task(self._keep_loading(slot))

    async def loaded(self, source: str) -> None:
        """Waits until every model of this source was tried once."""
        for slot in [slot for slot in self.slots.values() if slot.spec.source == source]:
            await slot.tried.wait()

    def close(self) -> None:
        """Stops all loading. A load that hangs in its thread is left behind; the thread does not keep the process."""
        for slot in self.slots.values():
            self._end(slot)

    def _end(self, slot: Slot) -> None:
        if slot.task is not None:
            slot.task.cancel()
        slot.tried.set()

    async def _keep_loading(self, slot: Slot) -> None:
        delay = RETRY_FIRST_S
        while True:
            try:
                slot.take(await in_daemon_thread(load, slot.spec, self._data_dir), self._secret)
            except SourceFault as fault:
                wait = delay * random.uniform(0.8, 1.2)
                slot.fail(str(fault), wait)
                log.warning("tokenizer %s: %s Next try in %.0f s.", slot.spec.name, fault, wait)
                await asyncio.sleep(wait)
                delay = min(delay * 2, RETRY_MOST_S)
            else:
                log.info("tokenizer %s is ready: %s", slot.spec.name, slot.checked)
                return


def unavailable(slot: Slot) -> Problem:
    """503 that says why, and when another try may succeed."""
    name = slot.spec.name
    if slot.state == "failed":
        wait = max(1.0, slot.retry_at - time.monotonic())
        return Problem(503, "tokenizer-unavailable", f"{name} could not be loaded: {slot.why}", retry_after_s=wait)
    return Problem(
        503, "tokenizer-unavailable", f"{name} is being loaded. Try again soon.", retry_after_s=LOADING_RETRY_S
    )


def in_daemon_thread(work: Callable[..., Loaded], *args: Any) -> asyncio.Future[Loaded]:
    """Runs `work` in a thread that a stopping process does not wait for (a hub without network hangs 47 s)."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Loaded] = loop.create_future()

    def settle(result: Loaded | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        elif result is not None:
            future.set_result(result)

    def run() -> None:
        result, error = None, None
        try:
            result = work(*args)
        except Exception as fault:
            error = fault
        except BaseException as fault:  # a panic of the tokenizers library is no Exception
            error = SourceFault(f"{type(fault).__name__}: {str(fault)[:300]}")
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            log.debug("a tokenizer was loaded after the server had stopped")

    threading.Thread(target=run, name=f"load {args[0].name}" if args else "load", daemon=True).start()
    return future
