"""Truncation through segments: the definition's own result, whatever was cached before."""

from __future__ import annotations

import random

import pytest

from relay.tokens.tokenizer import Tokenizer
from relay.tokens.truncation import Side, truncate
from tests.tokens import families
from tests.tokens.stack import Stack, prose

HARD = ["👍🏽", "é", "e\u0301\u0301", "你好", "\u00a0", " ", "\n", "a", "   ", "ﬁ", "'s", "<|endoftext|>"]


@pytest.mark.parametrize("family", ["gpt2", "byte_bpe", "unigram"])
def test_right_and_left_are_as_the_whole_text_says(gpt2: Tokenizer, family: str) -> None:
    tokenizer = gpt2 if family == "gpt2" else Tokenizer(families.document(getattr(families, family)()))
    stack = Stack(tokenizer)
    pick = random.Random(1)
    for number in range(60):
        long = number % 2
        text = prose(pick.randrange(9000), number) if long else "".join(pick.choices(HARD, k=pick.randrange(60)))
        (whole,) = tokenizer.counts([text])
        for side in ("right", "left"):
            most = pick.randrange(whole + 2)
            found = stack.run(truncate(stack.levels, stack.job(), text, most, side))
            assert found == tokenizer.truncate(text, most, side), (text, most, side)
    stack.close()


def test_the_middle_is_cut_out(gpt2: Tokenizer) -> None:
    stack = Stack(gpt2)
    pick = random.Random(2)
    for number in range(60):
        text = prose(pick.randrange(6000), number) if number % 2 else "".join(pick.choices(HARD, k=40))
        (encoded,) = gpt2.encode([text], spans=True)
        whole = len(encoded.ids)
        most = pick.randrange(whole + 2)
        found = stack.run(truncate(stack.levels, stack.job(), text, most, "middle"))
        assert [found.count] == gpt2.counts([found.text])
        assert found.count <= most
        assert (found.whole_count, found.truncated) == (whole, whole > most)
        assert any(
            found.text == text[:head] + text[len(text) - (len(found.text) - head) :]
            for head in range(len(found.text) + 1)
        ), "a beginning and an end"
        if most > 20 and found.truncated:
            assert found.count >= most - 8, "no more than a few characters' ids are lost"
    stack.close()


@pytest.mark.parametrize(
    ("side", "most", "kept"),
    [
        ("middle", 4, "one two nine ten"),
        ("middle", 3, "one two ten"),
        ("middle", 1, "one"),
        ("middle", 0, ""),
        ("right", 2, "one two"),
        ("left", 2, " nine ten"),
        ("middle", 10, "one two three four five six seven eight nine ten"),
    ],
)
def test_examples(gpt2: Tokenizer, side: Side, most: int, kept: str) -> None:
    stack = Stack(gpt2)
    text = "one two three four five six seven eight nine ten"
    assert stack.run(truncate(stack.levels, stack.job(), text, most, side)).text == kept
    stack.close()


def test_only_what_lies_at_the_cut_is_encoded_again(gpt2: Tokenizer) -> None:
    stack = Stack(gpt2)
    text = prose(200_000, 1)
    stack.count(text)
    job = stack.job()
    known = len(stack.levels.segments)
    stack.run(truncate(stack.levels, job, text, 20_000, "middle"))
    assert "computed" not in job.tally.levels
    assert len(stack.levels.segments) <= known + 8
    stack.close()
