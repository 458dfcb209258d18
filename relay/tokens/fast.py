"""Counts and ids by `fastokens`, several times faster than the exact tokenizer: where it is installed, and agrees with it.

It is tried on 2,000 strings when a tokenizer is loaded; one that differs refuses it. Then one call in a thousand is checked
beside the exact tokenizer, in a thread of its own; one that differs ends its use in this process. It serves texts without
specials only, and none with a letter that folds into an ASCII one (the only kind that was ever seen to differ).
"""

from __future__ import annotations

import importlib
import logging
import sys
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from itertools import pairwise
from typing import Any

import tokenizers

from relay.tokens.probes import probes
from relay.tokens.trial import strings

log = logging.getLogger("relay.tokens")

MIXED, FIXED = 1600, 400
CHECKED_EVERY = 1000
CHECKED_CHARACTERS = 64 * 1024
FOLDING = ("\u017f", "\u212a")  # they match (?i:s) and (?i:k)

_checker = ThreadPoolExecutor(1, thread_name_prefix="tokens-check")


class Fast:
    """The fast tokenizer of one exact one. Any thread may call it."""

    def __init__(
        self, encode: Callable[[list[str]], tuple[bytes, bytes]], exact: tokenizers.Tokenizer, name: str
    ) -> None:
        self.trusted = True
        self.name = name  # part of the shared cache's keys: what it made is not taken where it is not used
        self._encode = encode
        self._exact = exact
        self._calls = 0

    def counts(self, texts: Sequence[str]) -> list[int] | None:
        """How many tokens each text has; None if it is not to be asked."""
        found = self._flat(texts)
        return None if found is None else [end - start for start, end in pairwise(found[1])]

    def ids(self, texts: Sequence[str]) -> list[array[int]] | None:
        """The ids of each text; None if it is not to be asked."""
        found = self._flat(texts)
        if found is None:
            return None
        ids, ends = found
        return [ids[start:end] for start, end in pairwise(ends)]

    def _flat(self, texts: Sequence[str]) -> tuple[array[int], array[int]] | None:
        """All ids, and where each text's end in them, from 0 on."""
        if not self.trusted or any(letter in text for text in texts for letter in FOLDING):
            return None
        flat = self._encode(list(texts))
        ids, ends = array("I"), array("Q")
        ids.frombytes(flat[0])
        ends.frombytes(flat[1])
        self._calls += 1
        if self._calls % CHECKED_EVERY == 0 and texts and len(texts[0]) <= CHECKED_CHARACTERS:
            _checker.submit(self._check, texts[0], ids[: ends[1]].tolist())
        return ids, ends

    def _check(self, text: str, ids: list[int]) -> None:
        (exact,) = self._exact.encode_batch_fast([text], add_special_tokens=False)
        if exact.ids != ids:
            self.trusted = False
            # the text is a tenant's: not for the log
            log.error(
                "%s differs from the exact tokenizer on a text of %d characters; it is off.", self.name, len(text)
            )


def beside(exact: tokenizers.Tokenizer, added: Sequence[str]) -> Fast | None:
    """The fast tokenizer for this one, which parses no added tokens; None if there is none or it differs."""
    library = _library()
    if library is None:
        return None
    name = f"fastokens {metadata.version('fastokens')}"
    try:
        fast = Fast(library.Tokenizer.from_json_str(exact.to_str()).encode_batch_flat, exact, name)
        texts = [*strings(MIXED, added), *probes(FIXED)]
        texts = [text for text in texts if not any(letter in text for letter in FOLDING)]
        mine = fast.ids(texts)
    except BaseException as error:  # a panic is no Exception; not every kind of tokenizer is known to it
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        log.info("%s is not used: %s", name, " ".join(str(error).split())[:200])
        return None
    its = exact.encode_batch_fast(texts, add_special_tokens=False)
    differing = sum(a.tolist() != b.ids for a, b in zip(mine or [], its, strict=True))
    if differing:
        log.info("%s is not used: it differs on %d of %d strings.", name, differing, len(texts))
        return None
    return fast


def _library() -> Any:
    """The optional library, or None. It writes little endian numbers."""
    if sys.byteorder != "little":
        return None
    try:
        return importlib.import_module("fastokens")
    except ImportError:
        return None
