"""The added tokens of a tokenizer, as far as cuts have to know them.

Added tokens are taken out of a text before anything else, and what stands between them is tokenized piece by piece. So a
cut right before one that is found wherever it is written changes nothing, whatever the tokenizer does otherwise.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from relay.tokens.document import Document
from relay.tokens.proof import META

MOST_MARKS = 64
MOST_ADDED = 1000
_UNUSED = re.compile("unused|reserved|place.?holder|dummy|extra_id")


class Marks(Struct, frozen=True):
    """What cuts have to know of the added tokens that are parsed."""

    # tokens before which a text may be cut: found wherever they stand
    cut_before: re.Pattern[str] | None
    # any added token
    any: re.Pattern[str] | None
    # a text with one of these is left whole: they take blanks or look at letters before them
    refuse: re.Pattern[str] | None
    # tokens that take the blanks after them: no cut right after these
    takes_blanks: tuple[str, ...]
    # why texts must not be cut within what stands between added tokens, else ""
    why: str


NONE = Marks(None, None, None, (), "")


def marks_of(document: Document) -> Marks:
    """Reads the added tokens of a tokenizer's own form."""
    added: Sequence[Document] = [token for token in document.get("added_tokens") or () if token["content"]]
    if not added:
        return NONE
    contents = [token["content"] for token in added]
    late = [token for token in added if token["normalized"] and document.get("normalizer") is not None]
    why = ""
    if late:
        why = f"an added token that is looked for after the normalizer ({late[0]['content']!r})"
    elif len(added) > MOST_ADDED:
        why = f"{len(added)} added tokens"
    candidates = [
        token["content"]
        for token in added
        if token not in late and not token["lstrip"] and not token["single_word"] and _is_mark(token["content"])
    ]
    return Marks(
        cut_before=_any_of(_alone(candidates[:MOST_MARKS], contents)),
        any=None if why else _any_of(contents),
        refuse=_any_of(token["content"] for token in added if token["lstrip"] or token["single_word"]),
        takes_blanks=tuple(token["content"] for token in added if token["rstrip"]),
        why=why,
    )


def without_marks(lefts: dict[str, str], document: Document) -> dict[str, str]:
    """The proved pairs without those that stand inside an added token: a cut there would take it apart."""
    left = dict(lefts)
    for token in document.get("added_tokens") or ():
        content = token["content"]
        for before, after in itertools.pairwise(content):
            if before in left.get(after, ""):
                left[after] = left[after].replace(before, "")
    return {right: found for right, found in left.items() if found}


def _is_mark(content: str) -> bool:
    """Whether it looks like what chat templates put between messages."""
    return len(content) >= 3 and content.strip(f" \t\r\n{META}") == content and not _UNUSED.search(content)


def _alone(candidates: list[str], contents: list[str]) -> list[str]:
    """Those that no other added token can overlap where both are written in one text."""
    heads = {content[:size] for content in contents for size in range(1, len(content))}
    tails = {content[-size:] for content in contents for size in range(1, len(content))}
    known = set(contents)

    def is_alone(content: str) -> bool:
        size = len(content)
        parts = {content[start:end] for start in range(size) for end in range(start + 1, size + 1)} - {content}
        overlaps = any(content[:end] in tails or content[-end:] in heads for end in range(1, size))
        return not overlaps and not parts & known and sum(content in other for other in contents) == 1

    return [content for content in candidates if is_alone(content)]


def _any_of(contents: Iterable[str]) -> re.Pattern[str] | None:
    found = sorted(contents, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, found))) if found else None
