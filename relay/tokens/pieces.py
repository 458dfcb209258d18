"""The bytes that one id stands for, so that a character whose bytes are in several ids can be put together again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import tokenizers

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Pieces:
    """The ids of one tokenizer as bytes, each as it is inside a text: what a decoder does to the beginning or the end of
    a whole text (a first blank taken away) or to punctuation (WordPiece's clean-up) is not in them."""

    def __init__(self, own: tokenizers.Tokenizer) -> None:
        self._own = own
        steps = (
            {}
            if own.decoder is None
            else {step["type"]: step for step in _steps(json.loads(own.decoder.__getstate__()))}
        )
        self._byte_level = "ByteLevel" in steps
        self._fallback = "ByteFallback" in steps
        self._blanks = _blanks(steps)
        self._prefix = steps["WordPiece"]["prefix"] if "WordPiece" in steps else None
        self._added = {token_id: token.content for token_id, token in own.get_added_tokens_decoder().items()}

    def of(self, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each id. Ids must be of the vocabulary."""
        return [self._bytes(token_id) for token_id in ids]

    def names(self, ids: Sequence[int]) -> list[str]:
        """Each id as the vocabulary writes it, such as `Ġworld`."""
        return [str(self._own.id_to_token(token_id)) for token_id in ids]

    def _bytes(self, token_id: int) -> bytes:
        added = self._added.get(token_id)
        if added is not None:
            return added.encode()
        token = str(self._own.id_to_token(token_id))
        if self._byte_level and all(each in _BYTES for each in token):
            return bytes(_BYTES[each] for each in token)
        if self._fallback and (byte := _BYTE.fullmatch(token)):
            return bytes((int(byte.group(1), 16),))
        if self._prefix is not None:
            token = token.removeprefix(self._prefix) if token.startswith(self._prefix) else f" {token}"
        for blank in self._blanks:
            token = token.replace(blank, " ")
        return token.encode()


def _steps(decoder: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if decoder["type"] == "Sequence":
        for each in decoder["decoders"]:
            yield from _steps(each)
    else:
        yield decoder


def _blanks(steps: dict[str, dict[str, Any]]) -> list[str]:
    """What stands for a blank in the vocabulary."""
    found = []
    if "Metaspace" in steps:
        found.append(steps["Metaspace"]["replacement"])
    if "BPEDecoder" in steps:
        found.append(steps["BPEDecoder"]["suffix"])
    replace = steps.get("Replace", {})
    if replace.get("content") == " " and "String" in replace["pattern"]:
        found.append(replace["pattern"]["String"])
    return found


def _byte_alphabet() -> dict[str, int]:
    """The characters that stand for bytes in a byte-level vocabulary: printable ones for themselves, the rest from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTES = _byte_alphabet()
