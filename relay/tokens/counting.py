"""One question of how many tokens: text, texts or chat; exact, or an estimate where that is allowed and says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from relay.http import Problem, invalid
from relay.tokens.answers import Breakdown, CountAnswer, CountsAnswer, EstimateNote, ModelProblem, ProblemDocument
from relay.tokens.bodies import CountBody, Input, chat_of, check_input, flags_of, texts_of
from relay.tokens.budget import cost_of
from relay.tokens.chat import Chat
from relay.tokens.chat_api import count_chat, texts_in
from relay.tokens.estimate import estimated
from relay.tokens.service import Source, TokenService

# A chat for which there is no template: what OpenAI documents for its models, tokens beside those of roles and contents.
MESSAGE_TOKENS, ANSWER_TOKENS = 3, 3
ESTIMATED = frozenset(("model-not-found", "tokenizer-unavailable", "no-chat-template"))


class Tally(Struct, frozen=True):
    """A count, where it came from, and how it was made if it is not exact (then `tokenizer` is null)."""

    count: int
    source: Source
    tokenizer: str | None
    counts: list[int] | UnsetType = UNSET
    estimate: EstimateNote | UnsetType = UNSET
    breakdown: Breakdown | UnsetType = UNSET

    @property
    def exact(self) -> bool:
        """Whether it is the model's own number."""
        return self.estimate is UNSET


async def tally(
    service: TokenService, tenant: str, model: str, body: Input, *, allow_estimate: bool, breakdown: bool = False
) -> Tally:
    """The count of an input with one model. Raises 400 `invalid`, `no-chat-template`, and as the service."""
    flags = flags_of(body)
    chat = chat_of(body)
    try:
        if chat is not None:
            found = await count_chat(service, tenant, model, chat, flags, shared=breakdown)
            return Tally(found.count, found.source, found.tokenizer, breakdown=found.shares or UNSET)
        counted = await service.counts(tenant, model, texts_of(body), flags)
        several = counted.counts if body.texts is not UNSET else UNSET
        return Tally(sum(counted.counts), counted.source, counted.tokenizer, several)
    except Problem as problem:
        if not allow_estimate or problem.code not in ESTIMATED:
            raise
    if chat is not None:
        return await estimated_chat(service, tenant, model, chat)
    found_texts = await estimated_texts(service, tenant, model, texts_of(body), flags)
    return found_texts if body.texts is not UNSET else structs.replace(found_texts, counts=UNSET)


async def estimated_texts(
    service: TokenService, tenant: str, model: str, texts: Sequence[str], flags: int = 0
) -> Tally:
    """Estimated counts of texts."""
    guess = await estimated(service, tenant, model, texts, flags)
    note = EstimateNote(guess.method, guess.factor, guess.date, guess.spread)
    return Tally(guess.count, "computed", None, guess.counts, note)


async def estimated_chat(service: TokenService, tenant: str, model: str, chat: Chat) -> Tally:
    """A chat without a template, or without a tokenizer: roles and contents, and a few tokens for each message."""
    texts = list(texts_in(chat.messages))
    if chat.tools:
        texts += [json.dumps(tool, ensure_ascii=False) for tool in chat.tools]
    frames = MESSAGE_TOKENS * len(chat.messages) + ANSWER_TOKENS * chat.add_generation_prompt
    beside = f"{MESSAGE_TOKENS} tokens beside each message and {ANSWER_TOKENS} for the answer"
    try:
        counted = await service.counts(tenant, model, texts)
    except Problem as problem:
        if problem.code not in ESTIMATED:
            raise
    else:
        note = EstimateNote(f"the model has no chat template: its tokens of all texts, {beside}", None, "", None)
        return Tally(sum(counted.counts) + frames, counted.source, counted.tokenizer, estimate=note)
    guess = await estimated(service, tenant, model, texts)
    note = EstimateNote(f"{guess.method}; {beside}", guess.factor, guess.date, guess.spread)
    return Tally(guess.count + frames, "computed", None, estimate=note)


async def count_answer(service: TokenService, tenant: str, model: str, body: CountBody) -> CountAnswer:
    """The answer of one model."""
    found = await tally(service, tenant, model, body, allow_estimate=body.allow_estimate, breakdown=body.breakdown)
    return CountAnswer(
        model,
        found.count,
        found.exact,
        found.source,
        found.tokenizer,
        found.counts,
        found.estimate,
        found.breakdown,
        cost_of(service, model, found.count, body.output_tokens) if body.cost else UNSET,
    )


async def count_answers(service: TokenService, tenant: str, body: CountBody) -> CountAnswer | CountsAnswer:
    """The answer to a count that is more than a text and a model. Raises as `tally`; with `models` each has its problem."""
    check_input(body)
    if body.breakdown and body.messages is UNSET:
        raise invalid("breakdown", "belongs to messages; leave it out with text")
    if body.output_tokens is not UNSET and not body.cost:
        raise invalid("output_tokens", 'belongs to "cost": true; add that, or leave it out')
    if (body.model is UNSET) == (body.models is UNSET):
        raise invalid("model", "send exactly one of model and models")
    if body.model is not UNSET:
        return await count_answer(service, tenant, body.model, body)
    names = list(dict.fromkeys(body.models or ()))
    results = await asyncio.gather(*(_result(service, tenant, name, body) for name in names))
    return CountsAnswer(list(results))


async def _result(service: TokenService, tenant: str, model: str, body: CountBody) -> Any:
    try:
        return await count_answer(service, tenant, model, body)
    except Problem as problem:
        if problem.status == 400 and problem.code == "invalid":
            raise  # the request itself is wrong, whatever the model
        return ModelProblem(model, msgspec.convert(problem.body(), ProblemDocument))
