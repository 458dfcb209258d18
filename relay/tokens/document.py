"""A tokenizer's json, made fit for a service that many threads and tenants share. Pure functions on the parsed document.

Two forms are built from one document: its own (added tokens in the text are parsed) and the plain one (the text of a
user never turns into an added token).
"""

from __future__ import annotations

import copy
import hashlib
import json
import secrets
from collections.abc import Iterator
from typing import Any

import tokenizers

Document = dict[str, Any]


def own_form(document: Document) -> Document:
    """The document without baked-in truncation and padding, and with offsets that keep their blanks."""
    own = dict(document)
    own["truncation"] = None
    own["padding"] = None
    own["post_processor"] = _untrimmed(copy.deepcopy(document.get("post_processor")))
    return own


def plain_form(document: Document) -> Document:
    """The own form with no added tokens: nothing in a text is parsed, special or not.

    The model itself must not spell a special token either: a Unigram trie holds `<s>` as a piece, and a merge table made
    from a vocabulary can join `<s` and `>`.
    """
    plain = own_form(document)
    special = {token["content"] for token in document.get("added_tokens") or () if token.get("special")}
    plain["added_tokens"] = []
    plain["model"] = _without_spelling(document["model"], special)
    return plain


def continued_form(document: Document) -> Document:
    """The form that encodes a text from a place in its middle on: without what a tokenizer puts before a text."""
    continued = copy.deepcopy({key: document.get(key) for key in ("normalizer", "pre_tokenizer")})
    normalizer = continued["normalizer"]
    if normalizer and normalizer["type"] == "Prepend":
        continued["normalizer"] = None
    elif normalizer and normalizer["type"] == "Sequence":
        normalizer["normalizers"] = [part for part in normalizer["normalizers"] if part["type"] != "Prepend"]
    for index, step in enumerate(steps_of(continued["pre_tokenizer"])):
        # a later step works on pieces that a former one has split: each has its prefix wherever the text begins
        if step["type"] == "Metaspace" and (index == 0 or step.get("prepend_scheme") == "first"):
            step["prepend_scheme"] = "never"
        elif step["type"] == "ByteLevel" and index == 0:
            step["add_prefix_space"] = False
    return {**document, **continued}


def adds_prefix(step: Document) -> bool:
    """Whether a pre-tokenizer's step puts a blank before a piece."""
    if step["type"] == "Metaspace":
        return step.get("prepend_scheme") != "never"
    return step["type"] == "ByteLevel" and bool(step.get("add_prefix_space"))


def steps_of(step: Document | None) -> Iterator[Document]:
    """The single steps of a normalizer or pre-tokenizer in their order."""
    if step is not None and step["type"] == "Sequence":
        for part in step.get("normalizers") or step.get("pretokenizers") or ():
            yield from steps_of(part)
    elif step is not None:
        yield step


def fingerprint(document: Document) -> str:
    """32 hex digits that change with the tokenizer's content and with the library that runs it."""
    canonical = json.dumps(document, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()
    return hashlib.blake2b(canonical, digest_size=16, key=f"tokenizers {tokenizers.__version__}".encode()).hexdigest()


def _untrimmed(processor: Any) -> Any:
    if isinstance(processor, dict):
        if "trim_offsets" in processor:
            processor["trim_offsets"] = False
        for part in processor.get("processors") or ():
            _untrimmed(part)
    return processor


def _without_spelling(model: Document, special: set[str]) -> Document:
    kind = model.get("type")
    if kind == "Unigram":
        # a piece that no text contains: its id and score stay, so all other ids and the unknown score do too
        nonce = secrets.token_hex(16)
        vocabulary = [
            [f"\0{nonce}:{index}", score] if piece in special else [piece, score]
            for index, (piece, score) in enumerate(model["vocab"])
        ]
        return {**model, "vocab": vocabulary}
    if kind == "BPE":
        merges = [merge for merge in model["merges"] if _merged(merge) not in special]
        return {**model, "merges": merges} if len(merges) != len(model["merges"]) else model
    return model


def _merged(merge: str | list[str]) -> str:
    """What a merge makes; old files write it as one string with a blank between."""
    return merge.replace(" ", "") if isinstance(merge, str) else "".join(merge)
