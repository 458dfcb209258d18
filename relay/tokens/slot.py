"""One configured model as this process has it: its tokenizer once that is loaded, what is known of it, its cache keys."""

from __future__ import annotations

import asyncio
import time
from hashlib import blake2b
from typing import Any, Literal

from msgspec import Struct

from relay.tokens.registry import ModelSpec
from relay.tokens.sources import Loaded
from relay.tokens.tokenizer import Tokenizer
from relay.tokens.traits import Traits

State = Literal["loading", "ready", "failed", "idle"]

KINDS = (b"count", b"ids", b"spans", b"segment")

# What a tokenizer takes in memory for each entry of its vocabulary, at most about (measured: 33 MB for GPT-2's 50,257,
# 37 MB for the 100,258 of cl100k).
ENTRY_BYTES = 700


class ModelView(Struct, frozen=True):
    """A tokenizer as it is at this moment. `hit_rate` is the share of texts answered from the cache since the start."""

    name: str
    source: str
    revision: str
    state: State
    loaded: bool
    why: str | None
    vocabulary_size: int | None
    tokenizer: str | None
    checked: str | None
    cuttable: str | None
    lossless: bool | None
    has_chat_template: bool
    effective_context_size: int | None
    hits: int
    misses: int
    hit_rate: float | None


class Slot:
    """One configured model: its tokenizer once it is loaded, and the key makers for its cache entries.

    A slot whose configuration changed keeps serving its former tokenizer until the new one is ready. One of a model that is
    only estimated never has a tokenizer, and is ready.
    """

    __slots__ = (
        "checked",
        "hits",
        "misses",
        "name",
        "retry_at",
        "seeds",
        "spec",
        "state",
        "task",
        "tokenizer",
        "traits",
        "tried",
        "used",
        "why",
    )

    def __init__(self, spec: ModelSpec) -> None:
        self.name = spec.name
        self.spec = spec
        self.state: State = "ready" if self.estimated else "idle"
        self.why: str | None = None
        self.checked: str | None = None
        self.tokenizer: Tokenizer | None = None
        self.traits = Traits()
        self.seeds: dict[int, Any] = {}
        self.hits = 0
        self.misses = 0
        self.used = 0
        self.retry_at = 0.0
        self.task: asyncio.Task[None] | None = None
        self.tried = asyncio.Event()

    @property
    def estimated(self) -> bool:
        """Whether its counts are another model's times a factor."""
        return self.spec.source == "estimate"

    @property
    def size(self) -> int:
        """About how many bytes of memory its tokenizer takes."""
        return 0 if self.tokenizer is None else ENTRY_BYTES * self.tokenizer.vocabulary_size

    @property
    def special_map(self) -> dict[str, str]:
        """The named special tokens (`bos_token`, `eos_token` and so on), for chat templates."""
        return self.traits.special_map

    @property
    def context_size(self) -> int | None:
        """Tokens of prompt and answer together: as configured, else as the model's files say; None: unknown."""
        return self.spec.context_size or self.traits.context_size

    def chat_template(self, *, tools: bool = False) -> str | None:
        """The Jinja source for a chat (`tools`: with tools): the configured one, else the model's own, else None."""
        return self.spec.chat_template or self.traits.template(tools=tools)

    def take(self, loaded: Loaded, secret: bytes) -> None:
        """Serves with this tokenizer from now on."""
        self.tokenizer = loaded.tokenizer
        self.checked = loaded.checked
        self.traits = loaded.traits
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

    def drop(self) -> None:
        """Gives the tokenizer's memory back. It is loaded anew when it is asked for."""
        self.tokenizer = None
        self.seeds = {}
        if self.state == "ready":
            self.state = "idle"

    def stop(self) -> None:
        """Ends loading. A load that hangs in its thread is left behind."""
        if self.task is not None:
            self.task.cancel()
            self.task = None
        self.tried.set()


def view_of(slot: Slot) -> ModelView:
    """A slot as lists show it."""
    tokenizer = slot.tokenizer
    texts = slot.hits + slot.misses
    return ModelView(
        name=slot.name,
        source=slot.spec.source,
        revision=slot.spec.revision,
        state=slot.state,
        loaded=tokenizer is not None,
        why=slot.why,
        vocabulary_size=None if tokenizer is None else tokenizer.vocabulary_size,
        tokenizer=None if tokenizer is None else tokenizer.fingerprint,
        checked=slot.checked,
        cuttable=None if tokenizer is None else tokenizer.cuttable,
        lossless=None if tokenizer is None else tokenizer.lossless,
        has_chat_template=slot.chat_template() is not None,
        effective_context_size=slot.context_size,
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
