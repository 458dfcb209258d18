"""The two forms of a tokenizer (added tokens in a text are parsed, or are text), each with its clone for the middle of a text.

Built once, when a model is loaded; slow (up to a second for a large vocabulary), so in threads only.
"""

from __future__ import annotations

import json

from msgspec import Struct
from tokenizers import Tokenizer

from relay.tokens.cuts import Cuts
from relay.tokens.document import Document, continued_form, own_form, plain_form
from relay.tokens.marks import NONE, Marks, marks_of, without_marks
from relay.tokens.proof import BLANK, NEWLINE, Proof, prove
from relay.tokens.trial import disagreement

_NAMES = {BLANK: "blanks", NEWLINE: "line ends"}
NO_CUTS = Cuts({})


class Form(Struct, frozen=True):
    """What encodes a text from its beginning, what encodes the rest of one, and where texts may be cut."""

    whole: Tokenizer
    continued: Tokenizer
    cuts: Cuts


class Forms(Struct, frozen=True):
    """`plain`: added tokens in a text are text. `own`: they are parsed, as the model's own tokenizer does."""

    plain: Form
    own: Form
    # in words: where texts are cut, or why nowhere
    cuttable: str


def build(document: Document) -> Forms:
    """Both forms of a tokenizer. What is proved is tried as well; where that fails, nothing is cut."""
    own = own_form(document)
    proof = prove(own)
    marks = marks_of(own)
    prefixed = continued_form(own) != own
    lefts = {} if marks.why else without_marks(proof.lefts, own)
    marked = _form(own, Cuts(lefts, marks, prefixed=prefixed))
    plain = marked
    if own.get("added_tokens"):
        plain = _form(plain_form(document), Cuts(proof.lefts, prefixed=prefixed))
    failed = disagreement(plain.whole, plain.continued, plain.cuts, ())
    if failed is None and marked is not plain:
        failed = disagreement(marked.whole, marked.continued, marked.cuts, _contents(own))
    if failed is not None:
        nowhere = Form(plain.whole, plain.continued, NO_CUTS), Form(marked.whole, marked.continued, NO_CUTS)
        return Forms(*nowhere, f"nowhere: cuts change the tokens of {failed!a}")
    return Forms(plain, marked, _in_words(proof, marks))


def _form(document: Document, cuts: Cuts) -> Form:
    whole = Tokenizer.from_str(json.dumps(document))
    rest = continued_form(document)
    return Form(whole, whole if rest == document else Tokenizer.from_str(json.dumps(rest)), cuts)


def _contents(document: Document) -> tuple[str, ...]:
    return tuple(token["content"] for token in document.get("added_tokens") or ())


def _in_words(proof: Proof, marks: Marks = NONE) -> str:
    places = [_NAMES.get(right, right) for right in proof.lefts]
    words = f"before {' '.join(places)}" if places else ""
    if marks.cut_before is not None:
        words += f"{', ' if words else 'only '}before added tokens where these are parsed"
    if not proof.lefts:
        words += f"{' ' if words else 'nowhere '}({proof.why})"
    elif marks.why:
        words += f" (there nowhere else: {marks.why})"
    return words
