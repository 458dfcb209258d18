"""What the token endpoints take and answer. The OpenAPI document is made from these structs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from relay.http import Problem, decode, invalid
from relay.tokens.chat import Chat
from relay.tokens.service import ADD_SPECIAL, ALLOW_SPECIAL, TEXT_LIMIT

T = TypeVar("T")

MAX_TEXTS = 2048
MAX_MESSAGES = 10_000
MAX_MODELS = 16
NAMED_PLACE_LIMIT = 1024 * 1024

Model = Annotated[str, Meta(min_length=1, description="A configured model, such as gpt2.")]
Models = Annotated[
    list[Model], Meta(min_length=1, max_length=MAX_MODELS, description="Instead of model: an answer for each.")
]
Text = Annotated[str, Meta(description="Exactly one of text, texts and messages.")]
Texts = Annotated[list[str], Meta(max_length=MAX_TEXTS, description="Counted as one batch.")]
Messages = Annotated[
    list[dict[str, Any]],
    Meta(
        min_length=1,
        max_length=MAX_MESSAGES,
        description="A chat, rendered by the model's chat template: role, content (a text or parts of type text), and what"
        " the template takes beside them, such as tool_calls.",
    ),
]
Tools = Annotated[
    list[dict[str, Any]] | None, Meta(description="messages only: the tools, as the template takes them.")
]
AddGenerationPrompt = Annotated[bool, Meta(description="messages only: end with what makes the model answer.")]
TemplateOptions = Annotated[
    dict[str, Any], Meta(description="messages only: further variables of the template, such as enable_thinking.")
]
AllowEstimate = Annotated[
    bool, Meta(description="Where the tokenizer cannot be had: an estimate that says it is one (exact false).")
]
AddSpecial = Annotated[bool, Meta(description="Add the tokens that the model puts around a text.")]
AllowSpecial = Annotated[
    bool, Meta(description="Parse added tokens such as <|endoftext|> in the text; else they are text.")
]
TokenId = Annotated[int, Meta(ge=0)]


class Input(Struct, forbid_unknown_fields=True):
    """What to count: one text, several, or a chat; and how."""

    text: Text | UnsetType = UNSET
    texts: Texts | UnsetType = UNSET
    messages: Messages | UnsetType = UNSET
    tools: Tools = None
    add_generation_prompt: AddGenerationPrompt = True
    chat_template_kwargs: TemplateOptions = {}
    add_special_tokens: AddSpecial = False
    allow_special: AllowSpecial = False


class CountBody(Input, forbid_unknown_fields=True, kw_only=True):
    """A count with one model or several, of one text, of several or of a chat."""

    model: Model | UnsetType = UNSET
    models: Models | UnsetType = UNSET
    allow_estimate: AllowEstimate = False
    breakdown: Annotated[
        bool, Meta(description="messages only: add the count of each message and of the template.")
    ] = False
    cost: Annotated[bool, Meta(description="Add what the tokens cost as input, in US dollars.")] = False
    output_tokens: (
        Annotated[int, Meta(ge=0, description="With cost: tokens of the answer to price too.")] | UnsetType
    ) = UNSET

    @property
    def is_plain(self) -> bool:
        """Whether it is one text with one model and nothing else is asked: the case that must be fast."""
        return (
            self.text is not UNSET
            and self.model is not UNSET
            and self.texts is UNSET
            and self.messages is UNSET
            and self.models is UNSET
            and not (self.cost or self.allow_estimate or self.breakdown or self.tools or self.chat_template_kwargs)
            and self.add_generation_prompt
            and self.output_tokens is UNSET
        )


class EncodeBody(Input, forbid_unknown_fields=True, kw_only=True):
    """The ids of one text, of several or of a chat."""

    model: Model
    offsets: Annotated[
        bool | Literal["utf16", "bytes"],
        Meta(description="Add [start, end] of each id: true in characters, utf16 in UTF-16 units, bytes in UTF-8."),
    ] = False


class FitBody(Input, forbid_unknown_fields=True, kw_only=True):
    """Whether an input fits a model's context, with room for the answer."""

    model: Model
    reserve_output: Annotated[int, Meta(ge=0, description="Tokens kept for the answer, as in max_tokens.")] = 0
    context_size: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    allow_estimate: AllowEstimate = False


class DecodeBody(Struct, forbid_unknown_fields=True):
    """The text of ids."""

    model: Model
    ids: Annotated[list[TokenId], Meta(max_length=TEXT_LIMIT)]
    pieces: Annotated[bool, Meta(description="Add the text and the bytes of each id.")] = False


class TruncateBody(Struct, forbid_unknown_fields=True):
    """A text cut to a budget."""

    model: Model
    text: Annotated[str, Meta(description="At most 2 MiB of UTF-8.")]
    max_tokens: TokenId
    side: Annotated[
        Literal["right", "left", "middle"],
        Meta(description="right: the end is cut; left: the beginning; middle: what is between them."),
    ] = "right"


def flags_of(body: Input) -> int:
    """The service's flags."""
    return (ADD_SPECIAL if body.add_special_tokens else 0) | (ALLOW_SPECIAL if body.allow_special else 0)


def check_input(body: Input) -> None:
    """Raises 400 `invalid` unless exactly one of text, texts and messages is there, and what belongs to messages with them."""
    if sum(each is not UNSET for each in (body.text, body.texts, body.messages)) != 1:
        raise invalid("text", "send exactly one of text, texts and messages")
    if body.messages is not UNSET:
        return
    for field, given in (
        ("tools", body.tools is not None),
        ("add_generation_prompt", not body.add_generation_prompt),
        ("chat_template_kwargs", bool(body.chat_template_kwargs)),
    ):
        if given:
            raise invalid(field, "belongs to messages; leave it out with text")


def texts_of(body: Input) -> list[str]:
    """The texts, of a body that has text or texts."""
    if body.text is not UNSET:
        return [body.text]
    return [] if body.texts is UNSET else body.texts


def chat_of(body: Input) -> Chat | None:
    """The chat of a body that has messages."""
    if body.messages is UNSET:
        return None
    return Chat(body.messages, body.tools, body.add_generation_prompt, options=body.chat_template_kwargs)


def decode_body(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decodes a body; a lone surrogate, which no text has, is named with its place. Raises 400 `invalid`."""
    try:
        return decode(decoder, body)
    except Problem as problem:
        if problem.status == 400 and len(body) <= NAMED_PLACE_LIMIT:
            for field, place, code in _surrogates(body):
                message = f"a lone surrogate (U+{code:04X}) at character {place}; send whole characters"
                raise invalid(field, message) from None
        raise


def _surrogates(body: bytes) -> Iterator[tuple[str, int, int]]:
    """Field, place and code of each string's first lone surrogate."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return
    for field, text in _strings(document, ""):
        for place, character in enumerate(text):
            if "\ud800" <= character <= "\udfff":
                yield field, place, ord(character)
                break


def _strings(value: Any, field: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield field or "body", value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _strings(item, f"{field}[{index}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            inner = f"{field}.{name}" if field else name
            yield field or "body", name
            yield from _strings(item, inner)
