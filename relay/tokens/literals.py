"""A tokenizer's added tokens as they stand in texts: where one begins, where one could come together, how a text splits.

Pure: no tokenizer is asked. `split` does what the tokenizers library does with a text before it tokenizes what is between.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from msgspec import Struct
from tokenizers import AddedToken

# Private-use characters, taken out of every text before it is tokenized. CONTENT stands before what spells an added token
# in a caller's own words; EDGE keeps such words from becoming one together with what the template writes next to them.
CONTENT, EDGE = "\ue0c0", "\ue0c1"
MARKS = str.maketrans("", "", CONTENT + EDGE)


class Run(Struct, frozen=True):
    """A part of a text: an added token, or (`token` None) text between two of them."""

    start: int
    end: int
    token: int | None


class Literals:
    """The added tokens of one tokenizer. `normalizes`: whether a text is rewritten before normalized tokens are looked for."""

    def __init__(self, added: Mapping[int, AddedToken], *, normalizes: bool) -> None:
        self.ids = {token.content: token_id for token_id, token in added.items() if token.content}
        self._tokens = {token.content: token for token in added.values()}
        # such a token may hide behind other characters in the text, so that looking for its letters is not enough
        self.hidden = normalizes and any(token.normalized for token in added.values())
        raw = [content for content in self.ids if not self._tokens[content].normalized]
        normalized = [content for content in self.ids if self._tokens[content].normalized]
        self._passes = {marks: (_pattern(raw, marks), _pattern(normalized, marks)) for marks in (False, True)}
        self._any = _pattern(self.ids, marks=False)

    @cached_property
    def _heads(self) -> tuple[str, ...]:
        return tuple({content[:length] for content in self.ids for length in range(1, len(content))})

    @cached_property
    def _tails(self) -> tuple[str, ...]:
        return tuple({content[length:] for content in self.ids for length in range(1, len(content))})

    @cached_property
    def _ends(self) -> tuple[frozenset[str], frozenset[str], int]:
        """First and last characters of all literals, and the longest one's length: to look closely at few texts only."""
        longest = max(map(len, self.ids), default=0)
        return frozenset(each[0] for each in self.ids), frozenset(each[-1] for each in self.ids), longest

    def in_text(self, text: str) -> set[str]:
        """The added tokens that are spelled in a text, overlapping ones too."""
        if self._any.search(text) is None:
            return set()
        return {content for content in self.ids if content in text}

    def edges(self, text: str) -> tuple[bool, bool]:
        """Whether the beginning of a text (blanks aside) could be the end of an added token, and its end the beginning."""
        bare = text.strip()
        firsts, lasts, longest = self._ends
        head, tail = bare[:longest], bare[-longest:] if longest else ""
        begins = not lasts.isdisjoint(head) and head.startswith(self._tails)
        ends = not firsts.isdisjoint(tail) and tail.endswith(self._heads)
        inside = bool(bare) and len(bare) < longest and any(bare in content for content in self.ids)
        return begins or inside, ends or inside

    def touches(self, text: str) -> bool:
        """Whether a text in a chat needs to be told from what the template writes."""
        return self._any.search(text) is not None or any(self.edges(text))

    def marked(self, text: str, contents: Collection[str], *, edges: bool) -> str:
        """The text with CONTENT before each of these added tokens, and EDGE where it could become one with its neighbour."""
        begins, ends = self.edges(text) if edges else (False, False)
        if contents:
            text = _before(frozenset(contents)).sub(CONTENT, text)
        if begins or ends:
            start = len(text) - len(text.lstrip())
            end = len(text.rstrip())
            text = f"{text[:start]}{EDGE * begins}{text[start:end]}{EDGE * ends}{text[end:]}"
        return text

    def split(self, text: str, *, marks: bool = False) -> list[Run]:
        """The runs of a text that cover it: added tokens (`marks`: those without a mark), and what is between."""
        raw, normalized = self._passes[marks]
        runs: list[Run] = []
        for run in self._matches(raw, text, 0, len(text)):
            if run.token is None:
                runs.extend(self._matches(normalized, text, run.start, run.end))
            else:
                runs.append(run)
        return runs

    def _matches(self, pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[Run]:
        """As the library does: the leftmost and longest first; tokens that want the blanks beside them take these."""
        done = start
        for match in pattern.finditer(text, start, end):
            token = self._tokens[match.group()]
            left, right = match.span()
            if token.single_word and (_is_word(text[start:left][-1:]) or _is_word(text[right:end][:1])):
                continue
            if token.lstrip:
                left = max(done, len(text[start:left].rstrip()) + start)
            if token.rstrip:
                right = end - len(text[right:end].lstrip())
            if done < left:
                yield Run(done, left, None)
            yield Run(left, right, self.ids[match.group()])
            done = right
        if done < end:
            yield Run(done, end, None)


def _pattern(contents: Collection[str], marks: bool) -> re.Pattern[str]:
    longest_first = "|".join(map(re.escape, sorted(contents, key=len, reverse=True)))
    if not longest_first:
        return re.compile("(?!)")
    return re.compile(f"(?<!{CONTENT})(?:{longest_first})" if marks else longest_first)


def _before(contents: frozenset[str]) -> re.Pattern[str]:
    return re.compile(f"(?={'|'.join(map(re.escape, contents))})")


def _is_word(character: str) -> bool:
    return re.match(r"\w", character) is not None
