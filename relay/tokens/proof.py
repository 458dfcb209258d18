"""Between which characters a tokenizer's text may be cut without changing a token: read from its json, not tried out.

A cut stands between a left character and a right one. T(a + b) = T(a) + T(b) holds there if each step of the tokenizer
works on both sides as if the other were not there:

1. The normalizer leaves the left character as it is and makes one known character of the right one, and no replacement
   reaches over the cut. (No character composes with a blank, a newline or a mark of punctuation before it.)
2. No match of a pre-tokenizer goes over the cut, and no look-ahead sees over it; and one of them makes a piece begin at
   the cut. Then the model, which works piece by piece, never sees both sides at once.
3. Where no pre-tokenizer does (SentencePiece's kind of BPE, one piece for the whole text), no entry of the vocabulary
   holds the two characters side by side. A merge over the cut would make such an entry.

What is not known here forbids the cut: a wrong one costs a true count, a missing one only time. `cuts.py` knows of one more
place, before an added token, and `trial.py` tries all of them on strings when a model is loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from msgspec import Struct
from tokenizers import Tokenizer, normalizers

from relay.tokens.document import Document, adds_prefix, continued_form, steps_of
from relay.tokens.patterns import Pattern, Unclear, escaped

BLANK, NEWLINE, META = " ", "\n", "\u2581"
# a cut goes before one of these; blanks and line ends come first, the others are for texts that have few of them
RIGHTS = (BLANK, NEWLINE, '"', ",", "<", "，", "。", "、")
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# letters, digits and punctuation that stand alone: no marks, no format or control characters, nothing that
# decomposes to a blank
RANGES = (
    (0x21, 0x7E), (0xC0, 0x24F), (0x391, 0x3A1), (0x3A3, 0x3A9), (0x3B1, 0x3C9), (0x400, 0x481), (0x5D0, 0x5EA),
    (0x621, 0x63A), (0x641, 0x64A), (0x905, 0x939), (0xE01, 0xE2E), (0x3001, 0x3002), (0x3041, 0x3096),
    (0x30A1, 0x30FA), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0xFF01, 0xFF5E),
)  # fmt: skip
LEFTS = "".join(chr(code) for first, last in RANGES for code in range(first, last + 1))
_BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")


class Proof(Struct, frozen=True):
    """For each right character the left ones between which a cut is exact; and in words why there are none."""

    lefts: dict[str, str]
    why: str = ""


class _Side(Struct):
    """What a cut's sides have become on the way through the tokenizer: lefts that are out, and what the right one may be."""

    out: set[str]
    rights: frozenset[str]


def prove(document: Document) -> Proof:
    """Reads a form of a tokenizer. The segments after the first are to be encoded by its `continued_form`."""
    document = continued_form(document)
    lefts, why = {}, ""
    for right in RIGHTS:
        try:
            out = _forbidden(document, right)
        except Unclear as unclear:
            why = why or str(unclear)
            continue
        if found := "".join(left for left in LEFTS if left not in out):
            lefts[right] = found
    return Proof(lefts, "" if lefts else why or "its patterns join what stands beside a blank")


def _forbidden(document: Document, right: str) -> set[str]:
    """The left characters from which `right` must not be cut off. Raises Unclear where no cut is safe."""
    if document["model"].get("dropout"):
        raise Unclear("merges left out at random")
    steps = list(steps_of(document.get("pre_tokenizer")))
    side = _Side(set(), frozenset([right]))
    _normalize_side(
        document, side, blanks_go=bool(steps) and steps[0]["type"] in ("BertPreTokenizer", "WhitespaceSplit")
    )
    for step in steps:
        if _pre_tokenize_side(step, side, first=step is steps[0]):
            return side.out
    return side.out | _mergeable(document, side.rights)


# --- the normalizer

# each works on one character, or on a character and the marks after it; a blank in between stops them
_LOCAL = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Precompiled", "Nmt", "BertNormalizer"}


def _normalize_side(document: Document, side: _Side, *, blanks_go: bool) -> None:
    """`blanks_go`: the pre-tokenizer splits at every blank first and drops it; then it does not matter what is beside it."""
    parts = list(steps_of(document.get("normalizer")))
    if not parts:
        return
    kinds = {part["type"] for part in parts}
    (right,) = side.rights
    if unknown := kinds - _LOCAL - {"Replace", "Strip"}:
        raise Unclear(f"normalizer {', '.join(sorted(unknown))}")
    if any(part["type"] == "Strip" and part.get("strip_left") for part in parts):
        raise Unclear("a normalizer that strips the beginning of a text")
    if right not in (BLANK, NEWLINE) and not all(_leaves_marks(part, right) for part in parts):
        raise Unclear("a normalizer that may change punctuation")
    found = _normalizer(document)(f"a{right}a")
    if len(found) != 3:
        raise Unclear("a normalizer that removes or doubles blanks")
    side.rights = frozenset(found[1])
    for part in parts:
        if part["type"] == "Replace":
            _replace_side(part, right, side)
    if blanks_go and all(each.isspace() for each in side.rights):
        return
    if "BertNormalizer" in kinds:
        raise Unclear("a normalizer that puts blanks in")
    side.out |= _changed(_normalizer(document), right, found[1])


def _leaves_marks(part: Document, right: str) -> bool:
    """Whether punctuation stays what it is, whatever follows it. A stroke (U+0338) makes another character of `<`."""
    if part["type"] == "Replace":
        return bool(part["pattern"].get("String") == BLANK)
    return part["type"] in ("NFC", "NFD") and right != "<"


def _replace_side(part: Document, right: str, side: _Side) -> None:
    """Takes out the lefts that a replacement could touch, so that none reaches over the cut."""
    content, literal = part["content"], part["pattern"].get("String")
    if not content:
        raise Unclear("a normalizer that removes characters")
    if literal is None:
        pattern = Pattern(part["pattern"]["Regex"])
        side.out |= pattern.touches(LEFTS)
        begins_right, alone = bool(pattern.touches(right)), False
    else:
        side.out |= set(literal)
        begins_right, alone = right in literal, literal == right
    if begins_right and not alone:
        if len(content) > 1 or content not in (BLANK, META):
            raise Unclear("a normalizer that makes something else of several blanks")
        side.rights |= {content}


def _normalizer(document: Document) -> Callable[[str], str]:
    bare = {"version": "1.0", "added_tokens": [], "normalizer": document["normalizer"]}
    model = {"type": "BPE", "vocab": {}, "merges": []}
    made: normalizers.Normalizer = Tokenizer.from_str(json.dumps({**bare, "model": model})).normalizer
    return made.normalize_str


def _changed(normalize: Callable[[str], str], right: str, mark: str) -> set[str]:
    """The lefts that the normalizer makes something else of."""
    lefts = LEFTS.replace(right, "")
    found = normalize(right.join(["a", *lefts, "a"])).split(mark)[1:-1]
    if len(found) != len(lefts):
        raise Unclear("a normalizer that removes characters or puts blanks in")
    return {left for left, after in zip(lefts, found, strict=True) if left != after} | {right}


# --- the pre-tokenizer


def _pre_tokenize_side(step: Document, side: _Side, *, first: bool) -> bool:
    """Takes out the lefts that the step joins to the right; whether a piece begins at the right for certain."""
    if not first and adds_prefix(step):
        raise Unclear("a prefix before pieces that may go over a cut")
    kind = step["type"]
    if kind == "Split":
        return _split(step, side)
    if kind == "ByteLevel":
        return step.get("use_regex", True) and _match(GPT2_PATTERN, side)
    if kind == "Whitespace":
        _match(r"\w+|[^\w\s]+", side)
        return True  # what matches nothing is dropped
    if kind == "BertPreTokenizer":
        return True  # every right is a blank, which is dropped, or punctuation, which stands alone
    if kind == "WhitespaceSplit":
        return all(right.isspace() for right in side.rights)
    if kind == "Metaspace" and step["replacement"] == META:
        side.rights = frozenset(META if right == BLANK else right for right in side.rights)
        return step.get("split", True) and side.rights == {META}
    if kind == "Digits":
        return False
    if (
        kind == "Punctuation"
        and step["behavior"] in ("Isolated", "Contiguous")
        and side.rights <= {BLANK, NEWLINE, META}
    ):
        return False
    raise Unclear(f"pre-tokenizer {kind}")


def _match(pattern: str, side: _Side) -> bool:
    """Takes out what a pattern joins; whether it matches from the right character on for certain."""
    read = Pattern(pattern)
    for right in side.rights:
        side.out |= read.joined_lefts(LEFTS, right)
    return all(read.begins(right) for right in side.rights)


def _split(step: Document, side: _Side) -> bool:
    behavior, literal = step["behavior"], step["pattern"].get("String")
    if behavior in ("Isolated", "Removed"):
        begins = _match(step["pattern"]["Regex"] if literal is None else escaped(literal), side)
        # inverted, only what matches is kept: nothing that goes over the cut
        return begins or (behavior == "Removed" and step["invert"])
    if literal and not step["invert"]:
        side.out |= set(literal)
        if behavior == "MergedWithNext" and side.rights == {literal}:
            return True
        if behavior in ("MergedWithPrevious", "MergedWithNext") and not side.rights & set(literal):
            return False
    raise Unclear(f"pieces split as {behavior}")


# --- the model


def _mergeable(document: Document, rights: frozenset[str]) -> set[str]:
    """The lefts that stand beside the right in an entry of the vocabulary. Raises Unclear where that proves nothing."""
    model = document["model"]
    if model["type"] != "BPE":
        raise Unclear(f"{model['type']} over the whole text")
    if any(step["type"] == "ByteLevel" for step in steps_of(document.get("pre_tokenizer"))):
        raise Unclear("byte-level BPE over the whole text")
    parts = list(steps_of(document.get("normalizer")))
    if any(part["type"] != "Replace" or part["pattern"].get("String") != BLANK for part in parts):
        raise Unclear("a normalizer before a BPE over the whole text")
    if model.get("ignore_merges") or model.get("end_of_word_suffix") or model.get("continuing_subword_prefix"):
        raise Unclear("a BPE that looks where a piece ends")
    (right,) = rights
    vocabulary = model["vocab"]
    # one that is not in the vocabulary would be joined to another unknown one
    as_byte = model.get("byte_fallback") and f"<0x{ord(right):02X}>" in vocabulary
    if right not in vocabulary and not as_byte:
        raise Unclear("a right character that the vocabulary does not have")
    if any(_BYTE_PIECE.search(entry) and not _BYTE_PIECE.fullmatch(entry) for entry in vocabulary):
        raise Unclear("merges of byte pieces")
    return {entry[place - 1] for entry in vocabulary for place in _places(entry, right)}


def _places(entry: str, right: str) -> list[int]:
    return [place for place in range(1, len(entry)) if entry[place] == right] if right in entry else []
