"""Counts a corpus, batch by batch, so that whoever asks later finds the counts in a cache. Remembers how far it came."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from msgspec import Struct

from relay.http import Problem
from relay.tokens.chat_api import texts_in
from relay.tokens.corpus import Document, Input, Place, documents
from relay.tokens.warm_state import WarmState

BATCH_TEXTS = 512
BATCH_CHARACTERS = 2 * 1024 * 1024
REFUSED = (400, 413, 422)  # what is wrong with a document, and not with the one that counts


class Counted(Struct, frozen=True):
    """The counts of a batch, and how many of the tokens a cache knew; None where only some of a batch were known."""

    counts: list[int]
    known: int | None


class Target(Protocol):
    """Who counts, and keeps the counts. Every method raises Problem."""

    def count(self, texts: Sequence[str]) -> Counted:
        """Counts texts as one batch."""

    def chat(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> Counted:
        """Counts one chat."""


class Summary(Struct):
    """What a warm-up did. `known` tokens came from a cache, `partly` are of batches of which some did."""

    documents: int = 0
    failed: int = 0
    before: int = 0
    characters: int = 0
    tokens: int = 0
    known: int = 0
    partly: int = 0
    seconds: float = 0.0


class Warming:
    """One warm-up. `advance` hears of bytes that are done, `fail` of each document that could not be counted, and why."""

    def __init__(
        self,
        target: Target,
        state: WarmState,
        *,
        batch: int = BATCH_TEXTS,
        advance: Callable[[int], None],
        fail: Callable[[str], None],
    ) -> None:
        self.summary = Summary()
        self._target = target
        self._state = state
        self._batch = batch
        self._advance = advance
        self._fail = fail
        self._waiting: list[Document] = []
        self._characters = 0
        # read since the last batch was done
        self._places: dict[Input, Place] = {}
        self._documents = self._bytes = 0

    def run(self, sources: Sequence[Input], field: str) -> None:
        """Counts all documents. Raises Problem and CorpusFault; what was counted until then is in `summary`."""
        began = time.perf_counter()
        try:
            for source in sources:
                self._read(source, field)
            self._flush()
        finally:
            self.summary.seconds = time.perf_counter() - began

    def _read(self, source: Input, field: str) -> None:
        place = self._state.place(source)
        self.summary.before += place.documents
        if place.whole:
            self._advance(source.size or 0)
            return
        self._bytes += place.offset
        for document in documents(source, field, place):
            self._take(source, place, document)
            place = document.place
        if source.size is not None:
            self._bytes += max(0, source.size - place.offset)
        self._places[source] = Place(place.documents, place.line, place.offset, whole=True)

    def _take(self, source: Input, before: Place, document: Document) -> None:
        size = len(document.text)
        if self._waiting and self._characters + size > BATCH_CHARACTERS:
            self._flush()
        if document.fault:
            self._refuse(document, document.fault)
        elif document.messages is not None:
            self._try([document], lambda: self._target.chat(document.messages or [], document.tools))
        else:
            self._waiting.append(document)
            self._characters += size
        self._places[source] = document.place
        self._bytes += document.place.offset - before.offset
        self._documents += 1
        if self._documents >= self._batch:
            self._flush()

    def _flush(self) -> None:
        """Counts what waits, and only then says that everything read so far is done."""
        if self._waiting:
            self._count(self._waiting)
        self._state.note(self._places.items())
        self._advance(self._bytes)
        self._waiting, self._characters, self._places = [], 0, {}
        self._documents = self._bytes = 0

    def _count(self, batch: list[Document]) -> None:
        """Counts a batch; if it is refused, its halves, down to the documents that are the cause."""
        if not self._try(batch, lambda: self._target.count([document.text for document in batch])):
            middle = len(batch) // 2
            self._count(batch[:middle])
            self._count(batch[middle:])

    def _try(self, batch: list[Document], count: Callable[[], Counted]) -> bool:
        """Whether the batch is dealt with: counted, or a single document that is refused."""
        try:
            found = count()
        except Problem as problem:
            if problem.status not in REFUSED:
                raise
            if len(batch) == 1:
                self._refuse(batch[0], problem.detail)
            return len(batch) == 1
        tokens = sum(found.counts)
        summary = self.summary
        summary.documents += len(batch)
        summary.characters += sum(map(characters_of, batch))
        summary.tokens += tokens
        if found.known is None:
            summary.partly += tokens
        else:
            summary.known += found.known
        return True

    def _refuse(self, document: Document, why: str) -> None:
        self.summary.failed += 1
        self._fail(f"{document.name}: {why}")


def characters_of(document: Document) -> int:
    """The characters of a text, or of everything that is said in a chat."""
    return len(document.text) + sum(map(len, texts_in(document.messages)))


def lines_of(summary: Summary) -> Iterator[tuple[str, str]]:
    """The summary in words."""
    counted, seconds = summary.documents, summary.seconds or 1e-9
    more = [f"{summary.failed:,} failed"] if summary.failed else []
    more += [f"{summary.before:,} done before"] if summary.before else []
    yield "Documents", f"{counted:,}" + (f" ({', '.join(more)})" if more else "")
    yield "Characters", f"{summary.characters:,}"
    new = summary.tokens - summary.known - summary.partly
    partly = f", {summary.partly:,} in batches of which some was known" if summary.partly else ""
    yield "Tokens", f"{summary.tokens:,}: {new:,} new, {summary.known:,} known{partly}"
    yield "Time", f"{seconds:.1f} s: {counted / seconds:,.0f} documents/s, {summary.tokens / seconds:,.0f} tokens/s"
