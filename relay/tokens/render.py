"""Ids and offsets as JSON, piece by piece: one call over a million numbers would hold the GIL for tens of milliseconds."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from msgspec import UNSET, Raw, Struct, UnsetType

from relay.http import encode_json
from relay.tokens.service import Encodings
from relay.tokens.tokenizer import Encoded

PIECE = 8192


class _Answer(Struct, frozen=True):
    """The wire form of answers.EncodeAnswer and answers.EncodeTextsAnswer, with the long lists rendered already."""

    model: str
    ids: Raw
    count: int
    exact: bool
    source: str
    tokenizer: str
    counts: list[int] | UnsetType = UNSET
    offsets: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    lossless: bool | UnsetType = UNSET


def encode_answer(
    model: str,
    result: Encodings,
    *,
    batch: bool,
    offsets: bool,
    text: str | UnsetType = UNSET,
    lossless: bool | UnsetType = UNSET,
) -> bytes:
    """The whole body of an answer to encode."""
    counts = [len(each.ids) for each in result.encoded]
    ids = [_ids(each.ids) for each in result.encoded]
    spans = [_spans(each) for each in result.encoded] if offsets else []
    answer = _Answer(
        model=model,
        ids=Raw(_list(ids) if batch else ids[0]),
        count=sum(counts),
        exact=True,
        source=result.source,
        tokenizer=result.tokenizer,
        counts=counts if batch else UNSET,
        offsets=Raw(_list(spans) if batch else spans[0]) if offsets else UNSET,
        text=text,
        lossless=lossless,
    )
    return encode_json(answer)


def _list(parts: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def _ids(ids: array[int]) -> bytes:
    return _list([encode_json(ids[start : start + PIECE].tolist())[1:-1] for start in range(0, len(ids), PIECE)])


def _spans(encoded: Encoded) -> bytes:
    flat = encoded.spans or array("I")
    pieces = (flat[start : start + 2 * PIECE] for start in range(0, len(flat), 2 * PIECE))
    return _list([encode_json(list(zip(piece[::2], piece[1::2], strict=True)))[1:-1] for piece in pieces])
