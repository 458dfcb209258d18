"""What the token endpoints answer. The OpenAPI document is made from these structs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

Lossy = Annotated[
    bool,
    Meta(description="false: this tokenizer changes texts (case, accents, blanks); decoding does not give them back."),
]
Source = Annotated[
    Literal["cache", "partial", "computed"],
    Meta(description="cache: all of it from a cache; partial: some reused; computed: nothing reused."),
]
Fingerprint = Annotated[str, Meta(description="Changes with the tokenizer's content.")]


class Breakdown(Struct, frozen=True):
    """A token is of the message in whose words its first character stands; all others are the template's: role headers,
    separators, tools, the generation prompt. Together they are the count."""

    messages: list[int]
    template: int


class EstimateNote(Struct, frozen=True):
    """How a count that is not exact was made; `spread`: the relative error that nine texts of ten stay within."""

    method: str
    factor: float | None
    date: str
    spread: float | None


class Cost(Struct, frozen=True):
    """US dollars; `source` and `date` of the price. Null where no price is known; `note` says what to do, or what is left out."""

    input_usd: float | None
    currency: str
    source: str | None
    date: str | None
    note: str
    output_usd: float | UnsetType | None = UNSET


class CountAnswer(Struct, frozen=True, omit_defaults=True):
    """`count` is the sum of `counts` where there are several."""

    model: str
    count: int
    exact: bool
    source: Source
    tokenizer: Fingerprint | None
    counts: list[int] | UnsetType = UNSET
    estimate: EstimateNote | UnsetType = UNSET
    breakdown: Breakdown | UnsetType = UNSET
    cost: Cost | UnsetType = UNSET


class ProblemDocument(Struct, frozen=True):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: dict[str, list[str]] | UnsetType = UNSET
    retry_after_s: float | UnsetType = UNSET


class ModelProblem(Struct, frozen=True):
    """One model of several that has no answer, and why."""

    model: str
    problem: ProblemDocument


class CountsAnswer(Struct, frozen=True):
    """An answer or a problem for each of `models`, in their order."""

    results: list[Any]


class FitAnswer(Struct, frozen=True, omit_defaults=True):
    """`left` is what the context has beside the input and the reserve; negative: that much is too much."""

    model: str
    fits: bool
    count: int
    reserve_output: int
    context_size: int
    left: int
    exact: bool
    source: Source
    tokenizer: Fingerprint | None
    estimate: EstimateNote | UnsetType = UNSET


class EncodeAnswer(Struct, frozen=True):
    """One text's ids; `offsets` are untrimmed. `text` is what the template made of messages, which the offsets are in."""

    model: str
    ids: list[int]
    count: int
    exact: bool
    source: Source
    tokenizer: Fingerprint
    offsets: list[tuple[int, int]] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    lossless: Lossy | UnsetType = UNSET


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
    lossless: Lossy | UnsetType = UNSET


class Piece(Struct, frozen=True, gc=False):
    """One id: its text alone (U+FFFD for part of a character), and its bytes in hex."""

    id: int
    text: str
    bytes: str


class DecodeAnswer(Struct, frozen=True, omit_defaults=True):
    """The text; bytes that are no whole character are U+FFFD. The bytes of `pieces` one after the other are the text's."""

    text: str
    pieces: list[Piece] | UnsetType = UNSET
    lossless: Lossy | UnsetType = UNSET


class TruncateAnswer(Struct, frozen=True):
    """The part that is kept, in whole characters, and its own count."""

    text: str
    count: int
    truncated: bool
