"""Cuts are exact whatever the text, allowed only where that is proved, cheap, and fall into step again after an edit."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

import pytest

from tests.tokens.conftest import Family
from tests.tokens.fuzz import Texts, cases
from tests.tokens.stack import Stack
from tests.tokens.vocabularies import FAMILIES


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", FAMILIES)
def test_five_thousand_texts_have_the_tokens_of_the_models_own_tokenizer(family: Family, name: str) -> None:
    judge = family(name)
    for text, target, most in cases(4, 5000, judge.added):
        judge.check(text, target, most)
    assert judge.segments > 5 * 5000


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", FAMILIES)
def test_growing_and_edited_texts_stay_exact_through_the_levels(family: Family, name: str) -> None:
    judge = family(name)
    stack, texts = Stack(judge.tokenizer), Texts(5, judge.added)
    reused = 0
    for turn in range(60):
        text = texts.long()
        judge.serve(stack, text, turn * 37 % 600)
        reused += stack.values([f"{text} and more"])[1].tally.levels.get("segment", [0])[0]
    stack.close()
    assert reused > 60 * 500


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gpt2", 'before blanks line ends " , < ， 。 、, before added tokens where these are parsed'),
        ("llama3", 'before blanks line ends " , < ， 。 、, before added tokens where these are parsed'),
        ("qwen3", 'before blanks line ends " , ， 。 、, before added tokens where these are parsed'),
        ("mistral", 'before blanks line ends " , < ， 。 、, before added tokens where these are parsed'),
        ("bert", "before blanks line ends, before added tokens where these are parsed"),
        ("unigram", "before blanks, before added tokens where these are parsed"),
    ],
)
def test_a_tokenizer_says_where_its_texts_are_cut(family: Family, name: str, found: str) -> None:
    assert family(name).tokenizer.cuttable == found


def test_segments_cover_the_text_and_have_about_the_size_asked_for(family: Family) -> None:
    text = prose(60_000)
    for target in (128, 512, 1024):
        found = family("gpt2").tokenizer.segments(text, target=target)
        sizes = [end - start for start, end, _ in found]
        assert [start for start, _, _ in found] == [0, *(end for _, end, _ in found[:-1])]
        assert found[-1][1] == len(text)
        assert 0.7 * target < sum(sizes) / len(sizes) < 1.3 * target
        assert max(sizes) <= 2 * target


@pytest.mark.parametrize("kind", ["lines", "one line", "json"])
def test_an_edit_disturbs_a_segment_or_two(family: Family, kind: str) -> None:
    source = random.Random(7)
    text = {"lines": prose(100_000), "one line": prose(100_000).replace("\n", " "), "json": rows(100_000)}[kind]
    mine = family("llama3").tokenizer
    before = {text[start:end] for start, end, _ in mine.segments(text)}
    disturbed = []
    for _ in range(50):
        place = source.randrange(1000, len(text) - 1000)
        edited = text[:place] + source.choice((" word", "\nline\n", "12", "。")) + text[place + source.randint(0, 30) :]
        disturbed.append(sum(edited[start:end] not in before for start, end, _ in mine.segments(edited)))
    assert sum(disturbed) / len(disturbed) < 2.5
    assert max(disturbed) <= 12


def test_the_same_beginning_gives_the_same_segments_up_to_its_last_line(family: Family) -> None:
    pages = prose(2000) + "\n\nQuestion: "
    mine = family("cl100k").tokenizer
    first, second = (
        pages + question for question in ("what is a permit, and what is it for?", "how many tokens is that?")
    )
    shared = {first[start:end] for start, end, _ in mine.segments(first)} & {
        second[start:end] for start, end, _ in mine.segments(second)
    }
    assert sum(map(len, shared)) > 1900


def test_a_chat_is_cut_at_its_messages(family: Family) -> None:
    judge = family("qwen3")
    chat = "".join(f"<|im_start|>user\n{prose(700, turn)}<|im_end|>\n" for turn in range(8))
    segments = judge.tokenizer.segments(chat, allow_special=True)
    starts = {start for start, _, _ in segments}
    at_messages = [place for place in range(len(chat)) if chat.startswith(("<|im_start|>", "<|im_end|>"), place)]
    assert len(starts & set(at_messages)) >= 6


@pytest.mark.parametrize("unit", ["a", " ", "\n", "😀", "a ", "a\n", ".\n", "a,", "<|endoftext|>", "é世 "])
def test_a_megabyte_is_cut_in_linear_time(family: Family, unit: str) -> None:
    mine = family("gpt2").tokenizer
    took = []
    for size in (250_000, 1_000_000):
        text = unit * (size // len(unit))
        began = time.process_time()
        mine.segments(text)
        mine.segments(text, allow_special=True)
        took.append(time.process_time() - began)
    assert took[1] < 2.0
    assert took[1] < 10 * max(took[0], 0.02)


@pytest.mark.parametrize("text", ["\n" * 9, "a\n\n\n\n", "\n\na", " " * 9, "", "a"])
def test_a_text_without_a_line_is_covered_too(family: Family, text: str) -> None:
    mine = family("gpt2").tokenizer
    for target in (1, 2, 3, 8, 512):
        assert "".join(text[start:end] for start, end, _ in mine.segments(text, target=target)) == text


def test_cutting_costs_a_small_part_of_encoding(family: Family) -> None:
    mine, text = family("gpt2").tokenizer, prose(100_000)
    mine.segments(text)
    cut = min(clocked(lambda: mine.segments(text)) for _ in range(5))
    encoded = min(clocked(lambda: mine.counts([text])) for _ in range(3))
    assert cut < encoded / 8


def clocked(work: Callable[[], object]) -> float:
    """The CPU seconds of a call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def prose(size: int, seed: int = 1) -> str:
    """Lines of words, none like another."""
    source = random.Random(seed)
    words = [
        "the",
        "relay",
        "counts",
        "tokens",
        "and",
        "permits",
        "while",
        "callers",
        "wait",
        "for",
        "answers",
        "today",
    ]
    lines = []
    while sum(map(len, lines)) < size:
        lines.append(
            " ".join(source.choices(words, k=source.randint(4, 14))) + source.choice((".\n", "\n", ",\n", "\n\n"))
        )
    return "".join(lines)[:size]


def rows(size: int) -> str:
    """Minified JSON."""
    source = random.Random(2)
    items = [
        {"id": source.randrange(10**9), "name": f"x{source.randrange(10**6)}", "n": None} for _ in range(size // 30)
    ]
    return json.dumps(items, separators=(",", ":"))[:size]
