"""One model's exact tokenizer. Nothing in it changes after it is made, so that any number of threads may share it.

Only `encode_batch*` and `decode_batch` are used: they release the GIL where `encode` and `decode` hold it. Truncation and
padding are never set on the shared objects: such settings leak between threads. We truncate by offsets instead.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

# The library's own threads fall silent or complain after a fork; the service spreads work over its own threads.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import tokenizers

from relay.tokens.cuts import TARGET
from relay.tokens.document import Document, fingerprint
from relay.tokens.fast import Fast, beside
from relay.tokens.forms import build
from relay.tokens.literals import Literals
from relay.tokens.pieces import Pieces
from relay.tokens.probes import probes

Side = Literal["left", "right"]

SINGLE_STEPS = 16
OFFSETS_AT_ONCE = 4096


class TokenizerFault(Exception):
    """The tokenizer itself failed on an input; the message is the library's."""


class UnknownId(Exception):
    """An id that the vocabulary does not have, at `index` of the list."""

    def __init__(self, index: int, token_id: int) -> None:
        super().__init__(f"{token_id} is not in the vocabulary")
        self.index = index
        self.token_id = token_id


class Encoded(Struct, frozen=True, gc=False):
    """Ids, and where asked for the spans: start and end of each id in characters, one after the other."""

    ids: array[int]
    spans: array[int] | None = None

    def offsets(self) -> list[tuple[int, int]]:
        """The spans as pairs."""
        flat = self.spans or array("I")
        return list(zip(flat[::2], flat[1::2], strict=True))


class Truncated(Struct, frozen=True):
    """A part of a text: `count` is its own count, `whole_count` that of the text it was cut from."""

    text: str
    count: int
    whole_count: int

    truncated: bool = False


class Tokenizer:
    """Counts, encodes, decodes and truncates. Every method may be called from any thread.

    `add_special`: the post-processor's tokens (such as a begin-of-text) are added. `allow_special`: added tokens in the
    text are parsed, as the model's own tokenizer does; without it they are text.
    """

    def __init__(self, document: Document) -> None:
        self.fingerprint = fingerprint(document)
        forms = build(document)
        self._forms = (forms.plain, forms.own)
        self._own = forms.own.whole
        # set when it was found to agree (`loading`); only `values` uses it, all methods here are the exact tokenizer's
        self.fast: Fast | None = None
        # in words: where texts may be cut, or why nowhere
        self.cuttable = forms.cuttable
        self.vocabulary_size = self._own.get_vocab_size(with_added_tokens=True)
        ids = set(self._own.get_vocab(with_added_tokens=True).values())
        self._end = max(ids, default=-1) + 1
        self._holes = frozenset(range(self._end)) - ids
        self.prefix_ids, self.suffix_ids = _around(self._own)
        self.pieces = Pieces(self._own)
        self.literals = Literals(
            self._own.get_added_tokens_decoder(), normalizes=document.get("normalizer") is not None
        )
        # whether decoding the ids of a text gives that text, as far as the probes tell
        self.lossless = self._is_lossless()

    @property
    def largest_id(self) -> int:
        """The largest id of the vocabulary, added tokens included."""
        return self._end - 1

    @property
    def specials_added(self) -> int:
        """How many ids `add_special` puts around a text."""
        return len(self.prefix_ids) + len(self.suffix_ids)

    def segments(self, text: str, *, allow_special: bool = False, target: int = TARGET) -> list[tuple[int, int, bool]]:
        """Where the text may be cut without changing a token: start, end, and whether the segment continues a text.

        `target`: about how many characters each has. The segments cover the text. Their ids, from `part_encode`, one after the other are those of the whole text.
        """
        return self._forms[allow_special].cuts.segments(text, target)

    def resumable(self, *, allow_special: bool = False) -> bool:
        """Whether what follows a cut is cut as a text of its own would be (but for the last 768 characters before its end)."""
        return self._forms[allow_special].cuts.resumable

    def find_fast(self) -> None:
        """Looks for a fast tokenizer that agrees with this one; in half a second, in any thread."""
        plain = self._forms[False]
        if plain.continued is plain.whole:
            self.fast = beside(plain.whole, list(self.literals.ids))

    def counts(self, texts: Sequence[str], *, add_special: bool = False, allow_special: bool = False) -> list[int]:
        """How many tokens each text has. Raises TokenizerFault."""
        return _counted(self._forms[allow_special].whole, texts, add_special=add_special)

    def part_counts(self, parts: Sequence[str], continued: bool, *, allow_special: bool = False) -> list[int]:
        """How many tokens each segment has; `continued` as `segments` says. Raises TokenizerFault."""
        form = self._forms[allow_special]
        return _counted(form.continued if continued else form.whole, parts, add_special=False)

    def encode(
        self, texts: Sequence[str], *, add_special: bool = False, allow_special: bool = False, spans: bool = False
    ) -> list[Encoded]:
        """The ids of each text, with their spans if asked for. Raises TokenizerFault."""
        return _encoded(self._forms[allow_special].whole, texts, add_special=add_special, spans=spans)

    def part_encode(
        self, parts: Sequence[str], continued: bool, *, allow_special: bool = False, spans: bool = False
    ) -> list[Encoded]:
        """The ids of each segment, with spans that count from its own start. Raises TokenizerFault."""
        form = self._forms[allow_special]
        return _encoded(form.continued if continued else form.whole, parts, add_special=False, spans=spans)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, special tokens included; bytes that are no whole character become U+FFFD.

        Raises UnknownId, TokenizerFault.
        """
        if ids and (min(ids) < 0 or max(ids) >= self._end or self._holes):
            for index, token_id in enumerate(ids):
                if not 0 <= token_id < self._end or token_id in self._holes:
                    raise UnknownId(index, token_id)
        try:
            return str(self._own.decode_batch([list(ids)], skip_special_tokens=False)[0])
        except BaseException as error:
            raise _fault(error) from error

    def _is_lossless(self) -> bool:
        texts = probes()
        encodings = self._forms[False].whole.encode_batch_fast(texts, add_special_tokens=False)
        return self._own.decode_batch([each.ids for each in encodings], skip_special_tokens=False) == texts

    def truncate(self, text: str, max_tokens: int, side: Side = "right") -> Truncated:
        """The part that the first (`right`: the end is cut) or last (`left`) `max_tokens` ids cover, in whole characters.

        It is cut back further until its own count, encoded anew, fits. Raises TokenizerFault.
        """
        (encoded,) = self.encode([text], spans=True)
        whole = len(encoded.ids)
        if whole <= max_tokens:
            return Truncated(text, whole, whole)
        cut = _first_cut(encoded, max_tokens, side, len(text))
        step = 0
        while True:
            part = text[:cut] if side == "right" else text[cut:]
            count = self.counts([part])[0] if part else 0
            if count <= max_tokens or not part:
                return Truncated(part, count, whole, truncated=True)
            step += 1
            # character by character, so that no more is lost than must be; an input made to resist is cut faster
            width = 1 if step <= SINGLE_STEPS else 1 << min(step - SINGLE_STEPS, 24)
            cut = max(0, cut - width) if side == "right" else min(len(text), cut + width)


def _counted(backend: tokenizers.Tokenizer, texts: Sequence[str], *, add_special: bool) -> list[int]:
    try:
        return [len(each) for each in backend.encode_batch_fast(list(texts), add_special_tokens=add_special)]
    except BaseException as error:
        raise _fault(error) from error


def _encoded(backend: tokenizers.Tokenizer, texts: Sequence[str], *, add_special: bool, spans: bool) -> list[Encoded]:
    encode = backend.encode_batch if spans else backend.encode_batch_fast
    try:
        return _taken(encode(list(texts), add_special_tokens=add_special), spans=spans)
    except BaseException as error:
        raise _fault(error) from error


def _around(backend: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    """The ids that the post-processor puts before and after a text."""
    for text in ("a", "1", "."):
        (encoding,) = backend.encode_batch_fast([text])
        own = [place for place, special in enumerate(encoding.special_tokens_mask) if not special]
        if own:
            return encoding.ids[: own[0]], encoding.ids[own[-1] + 1 :]
    (encoding,) = backend.encode_batch_fast([""])
    return encoding.ids, []


def _first_cut(encoded: Encoded, max_tokens: int, side: Side, length: int) -> int:
    """The place (in characters) where the ids that are kept end or begin, back to a whole character."""
    spans = encoded.spans or array("I")
    whole = len(encoded.ids)
    if max_tokens == 0:
        return 0 if side == "right" else length
    if side == "right":
        return min(spans[2 * max_tokens - 1], spans[2 * max_tokens])
    first = whole - max_tokens
    return max(spans[2 * first], spans[2 * first - 1])


def _taken(encodings: list[tokenizers.Encoding], *, spans: bool) -> list[Encoded]:
    """What we keep of the library's encodings, which are given back one by one."""
    encodings.reverse()
    taken = []
    while encodings:
        encoding = encodings.pop()
        # each step holds the GIL for tens of milliseconds where a text has a million ids: others get their turn between
        pause = time.sleep if len(encoding) > OFFSETS_AT_ONCE else _no_pause
        numbers = encoding.ids
        pause(0)
        ids = array("I", numbers)
        pause(0)
        del numbers
        pause(0)
        taken.append(Encoded(ids, _spans(encoding) if spans else None))
        pause(0)
        del encoding
        pause(0)
    return taken


def _no_pause(_: float) -> None:
    pass


def _spans(encoding: tokenizers.Encoding) -> array[int]:
    flat = array("I")
    count = len(encoding)
    if count <= OFFSETS_AT_ONCE:
        for pair in encoding.offsets:
            flat.extend(pair)
        return flat
    # `offsets` builds its whole list under the GIL (0.37 s for a million ids); one by one, other threads get their turn
    for index in range(count):
        flat.extend(encoding.token_to_chars(index) or (0, 0))
    return flat


def _fault(error: BaseException) -> BaseException:
    """A panic of the library is no `Exception`; it must not end more than one request."""
    if isinstance(error, (KeyboardInterrupt, SystemExit, TokenizerFault)):
        return error
    return TokenizerFault(str(error)[:300] or type(error).__name__)
