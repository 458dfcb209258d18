"""A request under way: what it asks for, and what it found at which level."""

from __future__ import annotations

from relay.telemetry.token_meter import TokenMeter
from relay.tokens.slot import Slot
from relay.tokens.tokenizer import Tokenizer
from relay.tokens.values import Source

TEXT, SEGMENT, SHARED, COMPUTED = "text", "segment", "shared", "computed"


class Tally:
    """What one request found at which level, and whether it found something old, or made something new."""

    def __init__(self) -> None:
        self.levels: dict[str, list[int]] = {}
        self.seconds = 0.0
        self.texts = 0  # found whole
        self.old = False
        self.new = False

    def add(self, level: str, characters: int, tokens: int) -> None:
        """So many characters, and their tokens, came from a level."""
        sums = self.levels.setdefault(level, [0, 0])
        sums[0] += characters
        sums[1] += tokens
        if level == COMPUTED:
            self.new = True
        else:
            self.old = True

    def again(self, characters: int, tokens: int) -> None:
        """The same segment once more in this request: reused, but nothing that was known before."""
        sums = self.levels.setdefault(SEGMENT, [0, 0])
        sums[0] += characters
        sums[1] += tokens

    @property
    def source(self) -> Source:
        """The contract's word for it."""
        return ("partial" if self.old else "computed") if self.new else "cache"

    def tell(self, meter: TokenMeter, model: str) -> int:
        """Books the levels; returns how many tokens were not computed."""
        for level, (characters, tokens) in self.levels.items():
            meter.reused(model, level, characters, tokens, self.seconds if level == COMPUTED else 0.0)
        return sum(tokens for level, (_, tokens) in self.levels.items() if level != COMPUTED)


class Job:
    """What a request asks for: values of one kind, from the tokenizer that was ready when it came."""

    __slots__ = ("kind", "seeds", "tally", "tokenizer")

    def __init__(self, slot: Slot, tokenizer: Tokenizer, kind: int) -> None:
        self.tokenizer = tokenizer
        self.seeds = slot.seeds
        self.kind = kind
        self.tally = Tally()

    def asking(self, kind: int) -> Job:
        """The same for another kind of values, tallied apart."""
        job = Job.__new__(Job)
        job.tokenizer, job.seeds, job.kind, job.tally = self.tokenizer, self.seeds, kind, Tally()
        return job
