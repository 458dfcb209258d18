"""Counting and encoding of messages: the template is rendered in a lane, its text goes through the service's levels."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from relay.http import Problem, invalid
from relay.tokens.answers import Breakdown
from relay.tokens.chat import WAY_OUT, Chat, Prompt, Rendering
from relay.tokens.lanes import INLINE_BYTES
from relay.tokens.service import ADD_SPECIAL, ALLOW_SPECIAL, TEXT_LIMIT, Source, TokenService
from relay.tokens.tokenizer import Encoded, Tokenizer

Runs = list[tuple[str, int | None]]


class ChatCount(Struct, frozen=True):
    """The count of a chat; `shares` where they were asked for."""

    count: int
    source: Source
    tokenizer: str
    shares: Breakdown | None = None


class ChatEncoding(Struct, frozen=True):
    """The ids of a chat and the text that they are of. Spans are in characters of that text."""

    text: str
    encoded: Encoded
    source: Source
    tokenizer: str


async def count_chat(
    service: TokenService, tenant: str, model: str, chat: Chat, flags: int = 0, *, shared: bool = False
) -> ChatCount:
    """The count of messages, exactly that of what the model's template makes of them.

    `flags`: ALLOW_SPECIAL has added tokens in the messages parsed, ADD_SPECIAL adds those around a text that the template
    left out. Raises 400 `invalid`, `no-chat-template`, and as the service.
    """
    if shared:
        return await _shares_of(service, tenant, model, chat, flags)
    tokenizer, rendering, prompt = await _prompt(service, model, chat, flags)
    if prompt.runs is not None:
        encoding = await _of_runs(service, tenant, model, tokenizer, prompt, flags, spans=False)
        return ChatCount(len(encoding.encoded.ids), encoding.source, encoding.tokenizer)
    before, after = _around(tokenizer, rendering.text, flags)
    count, source, fingerprint = await service.count(tenant, model, rendering.text, ALLOW_SPECIAL)
    return ChatCount(count + len(before) + len(after), source, fingerprint)


async def encode_chat(
    service: TokenService, tenant: str, model: str, chat: Chat, flags: int = 0, *, spans: bool = False
) -> ChatEncoding:
    """The ids of messages. Raises as `count_chat`."""
    tokenizer, _, prompt = await _prompt(service, model, chat, flags)
    return await _encoded(service, tenant, model, tokenizer, prompt, flags, spans=spans)


async def _shares_of(service: TokenService, tenant: str, model: str, chat: Chat, flags: int) -> ChatCount:
    tokenizer, rendering, prompt = await _prompt(service, model, chat, flags)
    found = await _encoded(service, tenant, model, tokenizer, prompt, flags, spans=True)
    starts = (found.encoded.spans or array("I"))[::2].tolist()
    before, after = _around(tokenizer, rendering.text, flags)
    inner = starts[len(before) : len(starts) - len(after)]
    owners = await service.run(4 * len(rendering.text), partial(rendering.owners, inner))
    shares = [0] * len(chat.messages)
    for owner in owners:
        if owner is not None:
            shares[owner] += 1
    return ChatCount(len(starts), found.source, found.tokenizer, Breakdown(shares, len(starts) - sum(shares)))


async def _prompt(service: TokenService, model: str, chat: Chat, flags: int) -> tuple[Tokenizer, Rendering, Prompt]:
    slot, tokenizer = service.find(model)
    source = slot.chat_template(tools=bool(chat.tools))

    def work() -> tuple[Rendering, Prompt]:
        rendering = Rendering(source, slot.special_map, chat)
        return rendering, rendering.prompt(tokenizer.literals, allow_special=bool(flags & ALLOW_SPECIAL))

    # always in a lane: how long somebody else's program runs can't be known from the size of the messages
    rendering, prompt = await service.run(max(INLINE_BYTES + 1, sum(map(len, texts_in(chat.messages)))), work)
    return tokenizer, rendering, prompt


async def _encoded(
    service: TokenService, tenant: str, model: str, tokenizer: Tokenizer, prompt: Prompt, flags: int, *, spans: bool
) -> ChatEncoding:
    if prompt.runs is not None:
        return await _of_runs(service, tenant, model, tokenizer, prompt, flags, spans=spans)
    result = await service.encode(tenant, model, [prompt.text], ALLOW_SPECIAL, spans=spans, batch=False)
    return _surrounded(tokenizer, prompt.text, result.encoded[0], flags, result.source, result.tokenizer)


async def _of_runs(
    service: TokenService, tenant: str, model: str, tokenizer: Tokenizer, prompt: Prompt, flags: int, *, spans: bool
) -> ChatEncoding:
    """Added tokens by their ids, the texts between them as texts: so what a caller spells stays text."""
    runs = prompt.runs or []
    if len(prompt.text.encode()) > TEXT_LIMIT:
        detail = f"messages: over {TEXT_LIMIT // 1024} KiB that hold added tokens of the model. {WAY_OUT}"
        raise Problem(413, "text-too-large", detail)
    continued = await service.run(len(prompt.text), partial(_treatment, tokenizer, prompt.text))
    source: Source = "computed"
    if continued:
        texts = await service.run(len(prompt.text), partial(_continued, tokenizer, runs, spans=spans))
    else:
        wanted = [text for text, token in runs if token is None]
        result = await service.encode(tenant, model, wanted, spans=spans)
        texts, source = result.encoded, result.source
    encoded = await service.run(len(prompt.text), partial(_joined, runs, texts, spans=spans))
    return _surrounded(tokenizer, prompt.text, encoded, flags, source, tokenizer.fingerprint)


def _treatment(tokenizer: Tokenizer, text: str) -> bool:
    """Whether the tokenizer takes a text after an added token as the continuation of one (else as a text of its own).

    Found out on this very text, every added token in it parsed: so that the runs are put together exactly as the model's
    own tokenizer would is not assumed but seen. Raises 400 if neither is so.
    """
    (own,) = tokenizer.encode([text], allow_special=True)
    runs: Runs = [(text[run.start : run.end], run.token) for run in tokenizer.literals.split(text)]
    alone = tokenizer.encode([each for each, token in runs if token is None])
    if _joined(runs, alone, spans=False).ids == own.ids:
        return False
    if _joined(runs, _continued(tokenizer, runs, spans=False), spans=False).ids == own.ids:
        return True
    raise invalid("messages", f"they hold added tokens of the model, which can't be told from text here. {WAY_OUT}")


def _continued(tokenizer: Tokenizer, runs: Runs, *, spans: bool) -> list[Encoded]:
    texts = [text for text, token in runs if token is None]
    if not texts:
        return []
    if runs[0][1] is not None:
        return tokenizer.part_encode(texts, True, spans=spans)
    return tokenizer.encode(texts[:1], spans=spans) + tokenizer.part_encode(texts[1:], True, spans=spans)


def _joined(runs: Runs, texts: Sequence[Encoded], *, spans: bool) -> Encoded:
    ids, flat, place = array("I"), array("I"), 0
    following = iter(texts)
    for text, token in runs:
        if token is not None:
            ids.append(token)
            flat.extend((place, place + len(text)))
        else:
            encoded = next(following)
            ids.extend(encoded.ids)
            flat.extend([each + place for each in encoded.spans or ()])
        place += len(text)
    return Encoded(ids, flat if spans else None)


def _around(tokenizer: Tokenizer, text: str, flags: int) -> tuple[list[int], list[int]]:
    """The ids that ADD_SPECIAL adds around a chat: none that the template has written itself."""
    if not flags & ADD_SPECIAL:
        return [], []
    contents = {token_id: content for content, token_id in tokenizer.literals.ids.items()}

    def spelled(ids: list[int]) -> str:
        return "".join(contents.get(token_id, "\0") for token_id in ids)

    before, after = tokenizer.prefix_ids, tokenizer.suffix_ids
    return (
        [] if text.startswith(spelled(before)) else before,
        [] if text.endswith(spelled(after)) else after,
    )


def _surrounded(
    tokenizer: Tokenizer, text: str, encoded: Encoded, flags: int, source: Source, fingerprint: str
) -> ChatEncoding:
    before, after = _around(tokenizer, text, flags)
    if before or after:
        spans = encoded.spans
        if spans is not None:
            spans = array("I", [0, 0] * len(before)) + spans + array("I", [len(text)] * 2 * len(after))
        encoded = Encoded(array("I", before) + encoded.ids + array("I", after), spans)
    return ChatEncoding(text, encoded, source, fingerprint)


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
