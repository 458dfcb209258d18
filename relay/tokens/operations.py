"""What each token endpoint does with a decoded body, for one call as for a line of a stream. Gives the answer's bytes."""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import UNSET, UnsetType

from relay.http import encode_json
from relay.tokens.answers import CountAnswer, DecodeAnswer, FitAnswer, Piece, TruncateAnswer
from relay.tokens.bodies import (
    CountBody,
    DecodeBody,
    EncodeBody,
    FitBody,
    TruncateBody,
    chat_of,
    check_input,
    flags_of,
    texts_of,
)
from relay.tokens.budget import context_of
from relay.tokens.chat_api import encode_chat
from relay.tokens.counting import count_answers, tally
from relay.tokens.offsets import Unit, in_unit
from relay.tokens.render import encode_answer
from relay.tokens.service import Encodings, TokenService
from relay.tokens.tokenizer import Encoded, Tokenizer


async def count(service: TokenService, tenant: str, body: CountBody) -> bytes:
    """POST /tokens/count."""
    if body.is_plain:
        # the two are there: `is_plain`
        model, text = str(body.model), str(body.text)
        counted, source, tokenizer = await service.count(tenant, model, text, flags_of(body))
        return encode_json(CountAnswer(model, counted, True, source, tokenizer))
    return encode_json(await count_answers(service, tenant, body))


async def encode(service: TokenService, tenant: str, body: EncodeBody) -> bytes:
    """POST /tokens/encode."""
    check_input(body)
    chat, unit = chat_of(body), _unit(body)
    rendered: str | UnsetType = UNSET
    batch = body.texts is not UNSET
    if chat is not None:
        found = await encode_chat(service, tenant, body.model, chat, flags_of(body), spans=unit is not None)
        result = Encodings([found.encoded], found.source, found.tokenizer)
        texts, rendered = [found.text], found.text
    else:
        texts = texts_of(body)
        spans = unit is not None
        result = await service.encode(tenant, body.model, texts, flags_of(body), spans=spans, batch=batch)
    lossless = _lossless(service, body.model)

    def work() -> bytes:
        placed = result
        if unit is not None:
            encoded = [_placed(text, each, unit) for text, each in zip(texts, result.encoded, strict=True)]
            placed = Encodings(encoded, result.source, result.tokenizer)
        offsets = unit is not None
        text = rendered if offsets else UNSET
        return encode_answer(body.model, placed, batch=batch, offsets=offsets, text=text, lossless=lossless)

    size = sum(len(each.ids) for each in result.encoded) // 4
    return await service.run(size + (sum(map(len, texts)) // 4 if unit in ("utf16", "bytes") else 0), work)


async def decode(service: TokenService, tenant: str, body: DecodeBody) -> bytes:
    """POST /tokens/decode."""
    text = await service.decode(body.model, body.ids)
    lossless = _lossless(service, body.model)
    if not body.pieces:
        return encode_json(DecodeAnswer(text, lossless=lossless))
    _, tokenizer = service.find(body.model)
    work = partial(_pieces_answer, tokenizer, text, body.ids, lossless)
    return await service.run(16 * len(body.ids), work)


async def truncate(service: TokenService, tenant: str, body: TruncateBody) -> bytes:
    """POST /tokens/truncate."""
    cut = await service.truncate(tenant, body.model, body.text, body.max_tokens, body.side)
    return encode_json(TruncateAnswer(cut.text, cut.count, cut.truncated))


async def fit(service: TokenService, tenant: str, body: FitBody) -> bytes:
    """POST /tokens/fit."""
    check_input(body)
    found = await tally(service, tenant, body.model, body, allow_estimate=body.allow_estimate)
    context = context_of(service, body.model, body.context_size)
    left = context - found.count - body.reserve_output
    answer = FitAnswer(
        body.model,
        left >= 0,
        found.count,
        body.reserve_output,
        context,
        left,
        found.exact,
        found.source,
        found.tokenizer,
        found.estimate,
    )
    return encode_json(answer)


def _unit(body: EncodeBody) -> Unit | None:
    if body.offsets is True:
        return "characters"
    return body.offsets or None


def _lossless(service: TokenService, model: str) -> Any:
    """False where a tokenizer changes texts; else nothing is said."""
    _, tokenizer = service.find(model)
    return UNSET if tokenizer.lossless else False


def _placed(text: str, encoded: Encoded, unit: Unit) -> Encoded:
    return encoded if encoded.spans is None else Encoded(encoded.ids, in_unit(text, encoded.spans, unit))


def _pieces_answer(tokenizer: Tokenizer, text: str, ids: list[int], lossless: Any) -> bytes:
    pieces = [
        Piece(token_id, data.decode(errors="replace"), data.hex())
        for token_id, data in zip(ids, tokenizer.pieces.of(ids), strict=True)
    ]
    return encode_json(DecodeAnswer(text, pieces, lossless))
