"""The playground: one text, its tokens, what they cost, and which of them were known before.

It looks through the same caches as a caller's count would, so what a person tries warms them. It books no usage: what
somebody tries out is no tenant's traffic, and no tenant's cost.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from django.http import QueryDict
from django.utils.translation import gettext as _

from dashboard.tokens.cells import LEVELS, SHOWN, Cell, Token, cells
from relay.http import Problem, invalid
from relay.runtime import Runtime
from relay.tenants import running
from relay.tokens.config import find_model
from relay.tokens.inspection import Inspection
from relay.tokens.prices import Price, price_of
from relay.tokens.registry import ModelSpec, spec_of
from relay.tokens.values import ADD_SPECIAL, ALLOW_SPECIAL

MAX_CHARACTERS = 400_000  # in every encoding within what a form may send (DATA_UPLOAD_MAX_MEMORY_SIZE)
SAMPLE = "You are the night shift’s assistant. Answer in one sentence, plain words.\nWhich pool is short of permits, and who holds them? 请用中文回答。"
REQUEST_CHARACTERS = 2_000
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Asked:
    """What the form asks: a text, a model, and what is done with special tokens."""

    text: str = ""
    model: str = ""
    add_special: bool = False
    allow_special: bool = False

    @classmethod
    def of(cls, form: QueryDict) -> Asked:
        """Reads it. A form sends every line break as two characters; they count as one, as they were typed."""
        text = SAMPLE if "sample" in form else form.get("text", "").replace("\r\n", "\n")
        return cls(text, form.get("model", ""), "add_special" in form, "allow_special" in form)

    @property
    def flags(self) -> int:
        """The service's flags."""
        return (ADD_SPECIAL if self.add_special else 0) | (ALLOW_SPECIAL if self.allow_special else 0)


@dataclass(frozen=True)
class Share:
    """How many of the tokens came from one level; `x` and `width` place it on a bar."""

    level: str
    tokens: int
    x: str
    width: str


@dataclass(frozen=True)
class Played:
    """A text, counted. `took_s` is the time on the event loop and in the lanes, without the page's own."""

    asked: Asked
    count: int
    took_s: float
    tokenizer: str
    shares: list[Share]
    cells: list[Cell]
    left_out: int
    cost: float | None
    price: Price | None

    @property
    def reused(self) -> int:
        """How many of the tokens were known before."""
        return sum(share.tokens for share in self.shares if share.level != "computed")

    @property
    def body(self) -> str:
        """The body of a request that gives these tokens, within a shell's single quotes; a long text is cut short."""
        text = self.asked.text
        fields: dict[str, str | bool] = {"model": self.asked.model}
        fields["text"] = text if len(text) <= REQUEST_CHARACTERS else text[:60] + "…"
        if self.asked.add_special:
            fields["add_special_tokens"] = True
        if self.asked.allow_special:
            fields["allow_special"] = True
        return json.dumps(fields | {"offsets": True}, ensure_ascii=False).replace("'", "'\\''")

    @property
    def per_token(self) -> str:
        """Characters a token."""
        return f"{len(self.asked.text) / self.count:.1f}" if self.count else "–"


@dataclass
class _Found:
    """What the loop says of a text."""

    inspection: Inspection
    took_s: float
    names: dict[int, str] = field(default_factory=dict)


def play(asked: Asked) -> Played:
    """Counts the text and shows its first tokens. Raises what the service raises, and 400 and 413 for the form's own."""
    if not asked.text:
        raise invalid("text", _("Type or paste a text first."))
    if len(asked.text) > MAX_CHARACTERS:
        detail = _("The playground takes up to %(most)s characters. Send longer texts to POST /api/v1/tokens/count.")
        raise Problem(413, "text-too-large", detail % {"most": f"{MAX_CHARACTERS:,}"})
    server = running.server()
    if server is None:
        raise Problem(503, "tokenizer-unavailable", _("No tokenizer is served by this process."))
    spec = spec_of(find_model(asked.model))
    if spec.source == "estimate":
        raise Problem(503, "tokenizer-unavailable", _estimated(spec))
    found: _Found = server.call(_look, server, asked, timeout_s=TIMEOUT_S)
    price = price_of(spec)
    per_million = price.input_per_million if price else None
    count = found.inspection.count
    return Played(
        asked=asked,
        count=count,
        took_s=found.took_s,
        tokenizer=found.inspection.tokenizer,
        shares=_shares(found.inspection),
        cells=list(cells(asked.text, list(islice(_tokens(found), SHOWN)))),
        left_out=max(0, count - SHOWN),
        cost=None if per_million is None else count * per_million / 1e6,
        price=price,
    )


def _estimated(spec: ModelSpec) -> str:
    words = _("%(model)s has no public tokenizer: its counts are %(factor)s times those of %(base)s. Choose that one.")
    return words % {"model": spec.name, "factor": spec.estimate_factor, "base": spec.location}


async def _look(server: Runtime, asked: Asked) -> _Found:
    """On the event loop: the tokens, and the names of those that cover no character."""
    began = time.perf_counter()
    inspection = await server.tokens.inspect("", asked.model, asked.text, asked.flags)
    found = _Found(inspection, time.perf_counter() - began)
    bare = {token.id for token in islice(_tokens(found), SHOWN) if token.start == token.end}
    for token_id in bare:
        found.names[token_id] = await server.tokens.decode(asked.model, [token_id])
    return found


def _tokens(found: _Found) -> Iterator[Token]:
    for part in found.inspection.parts:
        spans = part.spans
        for index, token_id in enumerate(part.ids):
            start, end = spans[2 * index], spans[2 * index + 1]
            name = "" if start < end else found.names.get(token_id, "")
            yield Token(token_id, start, end, part.level, name)


def _shares(inspection: Inspection) -> list[Share]:
    """The levels that gave tokens, from the whole text to what was computed."""
    counts = dict.fromkeys(LEVELS, 0)
    for part in inspection.parts:
        counts[part.level] += len(part.ids)
    found, x = [], 0.0
    for level, tokens in counts.items():
        if tokens:
            width = 100 * tokens / max(1, inspection.count)
            found.append(Share(level, tokens, f"{x:.2f}%", f"{width:.2f}%"))
            x += width
    return found
