"""What the token endpoints take and answer. The OpenAPI document is made from these structs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from relay.http import Problem, decode, invalid
from relay.tokens.service import ADD_SPECIAL, ALLOW_SPECIAL, TEXT_LIMIT
from relay.tokens.shelf import ModelView

T = TypeVar("T")

MAX_TEXTS = 2048
NAMED_PLACE_LIMIT = 1024 * 1024

Model = Annotated[str, Meta(min_length=1, description="A configured model, such as gpt2.")]
Text = Annotated[str, Meta(description="At most 2 MiB of UTF-8. Exactly one of text and texts.")]
Texts = Annotated[list[str], Meta(max_length=MAX_TEXTS, description="Counted as one batch.")]
AddSpecial = Annotated[bool, Meta(description="Add the tokens that the model puts around a text.")]
AllowSpecial = Annotated[
    bool, Meta(description="Parse added tokens such as <|endoftext|> in the text; else they are text.")
]
Source = Annotated[
    Literal["cache", "partial", "computed"],
    Meta(description="cache: all of it from a cache; partial: some reused; computed: nothing reused."),
]
Fingerprint = Annotated[str, Meta(description="Changes with the tokenizer's content.")]
TokenId = Annotated[int, Meta(ge=0)]


class CountBody(Struct, forbid_unknown_fields=True):
    """A count of one text or of several."""

    model: Model
    text: Text | UnsetType = UNSET
    texts: Texts | UnsetType = UNSET
    add_special_tokens: AddSpecial = False
    allow_special: AllowSpecial = False


class EncodeBody(Struct, forbid_unknown_fields=True):
    """The ids of one text or of several."""

    model: Model
    text: Text | UnsetType = UNSET
    texts: Texts | UnsetType = UNSET
    add_special_tokens: AddSpecial = False
    allow_special: AllowSpecial = False
    offsets: Annotated[bool, Meta(description="Add [start, end] of each id, in characters.")] = False


class DecodeBody(Struct, forbid_unknown_fields=True):
    """The text of ids."""

    model: Model
    ids: Annotated[list[TokenId], Meta(max_length=TEXT_LIMIT)]


class TruncateBody(Struct, forbid_unknown_fields=True):
    """A text cut to a budget."""

    model: Model
    text: Annotated[str, Meta(description="At most 2 MiB of UTF-8.")]
    max_tokens: TokenId
    side: Annotated[Literal["right", "left"], Meta(description="right: the end is cut; left: the beginning.")] = "right"


class CountAnswer(Struct, frozen=True, omit_defaults=True):
    """`count` is the sum of `counts` where there are several."""

    model: str
    count: int
    exact: bool
    source: Source
    tokenizer: Fingerprint
    counts: list[int] | UnsetType = UNSET


class EncodeAnswer(Struct, frozen=True):
    """One text's ids; `offsets` are untrimmed."""

    model: str
    ids: list[int]
    count: int
    exact: bool
    source: Source
    tokenizer: Fingerprint
    offsets: list[tuple[int, int]] | UnsetType = UNSET


class EncodeTextsAnswer(Struct, frozen=True):
    """The ids of each text in order; `count` is the sum of `counts`."""

    model: str
    ids: list[list[int]]
    counts: list[int]
    count: int
    exact: bool
    source: Source
    tokenizer: Fingerprint
    offsets: list[list[tuple[int, int]]] | UnsetType = UNSET


class DecodeAnswer(Struct, frozen=True):
    """The text; bytes that are no whole character are U+FFFD."""

    text: str


class TruncateAnswer(Struct, frozen=True):
    """The part that is kept, in whole characters, and its own count."""

    text: str
    count: int
    truncated: bool


class ModelsAnswer(Struct, frozen=True):
    """A page of tokenizers; `next` is the cursor of the following page."""

    items: list[ModelView]
    next: str | None


def flags_of(body: CountBody | EncodeBody) -> int:
    """The service's flags."""
    return (ADD_SPECIAL if body.add_special_tokens else 0) | (ALLOW_SPECIAL if body.allow_special else 0)


def texts_of(body: CountBody | EncodeBody) -> tuple[list[str], bool]:
    """The texts, and whether they were sent as several. Raises 400 unless exactly one of the fields is there."""
    if body.text is not UNSET and body.texts is UNSET:
        return [body.text], False
    if body.texts is not UNSET and body.text is UNSET:
        return body.texts, True
    raise invalid("text", "send exactly one of text and texts")


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
