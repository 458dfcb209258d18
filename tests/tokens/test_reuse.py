"""Texts through the levels: exact whatever is reused, and only what is new is encoded."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator

import pytest

from relay.http import Problem
from relay.tokens import resume
from relay.tokens.inspection import inspect
from relay.tokens.jobs import Job
from relay.tokens.tokenizer import Tokenizer
from relay.tokens.values import ADD_SPECIAL, ALLOW_SPECIAL, COUNT, IDS, SPANS
from tests.tokens import families
from tests.tokens.stack import Stack, prose

NewStack = Callable[[Tokenizer], Stack]
MEBI = 1024 * 1024


@pytest.fixture
def new_stack() -> Iterator[NewStack]:
    """Makes levels of the test's own."""
    made: list[Stack] = []

    def make(tokenizer: Tokenizer) -> Stack:
        made.append(Stack(tokenizer))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def stack(gpt2: Tokenizer, new_stack: NewStack) -> Stack:
    """Levels with GPT-2."""
    return new_stack(gpt2)


def test_a_growing_chat_is_encoded_only_where_it_grew(stack: Stack, gpt2: Tokenizer) -> None:
    chat, encoded = "", 0
    for turn in range(30):
        chat += f"\nuser: {prose(300, turn)}\nassistant: {prose(700, 100 + turn)}"
        (count,), job = stack.values([chat])
        assert [count] == gpt2.counts([chat])
        encoded += job.tally.levels["computed"][0]
    assert encoded < 3 * len(chat), "each turn, and the unfinished segment before it"


def test_an_edit_in_the_middle_costs_a_segment_or_two(stack: Stack, gpt2: Tokenizer) -> None:
    text = prose(100_000, 1)
    stack.count(text)
    for place in range(5000, 100_000, 9000):
        edited = text[:place] + " an edit " + text[place + 20 :]
        (count,), job = stack.values([edited])
        assert [count] == gpt2.counts([edited])
        assert job.tally.levels["computed"][0] < 8000
        assert job.tally.source == "partial"


def test_what_is_known_whole_or_in_all_its_parts_comes_from_a_cache(stack: Stack) -> None:
    first, second = prose(20_000, 1), prose(20_000, 2)
    assert [stack.values([first])[1].tally.source for _ in range(2)] == ["computed", "cache"]
    stack.count(second)
    _, job = stack.values([first, second, "short"])
    assert job.tally.source == "partial"
    assert set(job.tally.levels) == {"text", "computed"}


def test_counts_are_known_from_ids_but_ids_not_from_counts(stack: Stack) -> None:
    text, other = prose(20_000, 1), prose(20_000, 2)
    stack.ids(text)
    assert stack.computed(text) == 0
    stack.count(other)
    assert stack.computed(other, IDS) == len(other)
    assert stack.computed(other, IDS) == 0
    assert stack.computed(other, SPANS) == len(other)
    assert stack.computed(other, IDS) == 0


@pytest.mark.parametrize("flags", [0, ADD_SPECIAL, ALLOW_SPECIAL, ADD_SPECIAL | ALLOW_SPECIAL])
@pytest.mark.parametrize("family", ["gpt2", "byte_bpe", "word_piece", "unigram"])
def test_ids_and_spans_are_the_whole_texts(gpt2: Tokenizer, new_stack: NewStack, family: str, flags: int) -> None:
    made = gpt2 if family == "gpt2" else Tokenizer(families.document(getattr(families, family)()))
    stack = new_stack(made)
    pick = random.Random(flags)
    base = prose(6000, 1)
    for _ in range(12):
        place = pick.randrange(len(base))
        extra = pick.choice(["</think>", "<|im_end|>", "[SEP]", " ", "\n", "é", " 12 "])
        base = base[:place] + extra + base[place:]
        (want,) = made.encode(
            [base], add_special=bool(flags & ADD_SPECIAL), allow_special=bool(flags & ALLOW_SPECIAL), spans=True
        )
        assert stack.count(base, COUNT | flags) == len(want.ids)
        assert stack.ids(base, flags) == list(want.ids)
        assert stack.offsets(base, flags) == want.offsets()


def test_a_batch_counts_what_its_texts_share_once(stack: Stack, gpt2: Tokenizer) -> None:
    shared = prose(8000, 1) + "\n"
    texts = [shared + prose(200, 10 + number) for number in range(20)]
    counts, job = stack.values(texts)
    assert counts == gpt2.counts(texts)
    assert job.tally.levels["computed"][0] < 8000 + 20 * 2000
    assert job.tally.source == "computed", "nothing of it was known before"


@pytest.mark.parametrize("family", ["gpt2", "byte_bpe", "word_piece"])
@pytest.mark.parametrize("flags", [0, ALLOW_SPECIAL, ADD_SPECIAL])
def test_counts_that_go_on_from_a_known_beginning_are_exact(
    gpt2: Tokenizer, new_stack: NewStack, monkeypatch: pytest.MonkeyPatch, family: str, flags: int
) -> None:
    monkeypatch.setattr(resume, "EVERY", 1100)
    made = gpt2 if family == "gpt2" else Tokenizer(families.document(getattr(families, family)()))
    stack = new_stack(made)
    pick = random.Random(flags)
    texts = [prose(4000, 5)]
    for _ in range(60):
        # one that goes on behind some place of an earlier one, in words, in marks, or in nothing to cut at
        before = pick.choice(texts)
        hard = pick.choice(["</think>", "<|endoftext|>", "\n\n", "   ", "x" * 900, "é" * 50, "<|im_end|>\n"])
        texts.append(before[: pick.randrange(len(before))] + hard + prose(pick.randrange(3000), pick.randrange(999)))
        want = made.counts(
            [texts[-1]], add_special=bool(flags & ADD_SPECIAL), allow_special=bool(flags & ALLOW_SPECIAL)
        )
        assert [stack.count(texts[-1], COUNT | flags)] == want, texts[-1]


def test_a_cut_behind_a_cut_is_the_texts_own(gpt2: Tokenizer) -> None:
    assert gpt2.resumable()
    pick = random.Random(3)
    for number in range(40):
        shared = prose(6000, number)
        one, other = (gpt2.segments(shared + pick.choice(["", " ", "\n", "x" * 700]) + prose(2000, 100)) for _ in "ab")
        place = len(shared) - resume.MARGIN
        starts = [start for start, _, _ in one if start <= place]
        assert starts == [start for start, _, _ in other if start <= place]
        text = shared + prose(2000, 200)
        rest = [(start + starts[-1], end + starts[-1]) for start, end, _ in gpt2.segments(text[starts[-1] :])]
        assert rest == [(start, end) for start, end, _ in gpt2.segments(text) if start >= starts[-1]]


def test_of_a_long_history_only_the_end_is_looked_at(stack: Stack) -> None:
    history = prose(100_000, 1)
    stack.count(history)
    job = stack.job()
    known = len(stack.levels.segments)
    stack.run(stack.levels.values(job, [history + prose(500, 2)], "text"))
    assert job.tally.levels["segment"][0] > 99_000
    assert len(stack.levels.segments) < known + 8


def test_equal_texts_at_the_same_moment_share_what_is_under_way(stack: Stack) -> None:
    text = prose(200_000, 1)

    async def work() -> list[Job]:
        jobs = [stack.job() for _ in range(20)]
        await asyncio.gather(*(stack.levels.values(job, [text], "text") for job in jobs))
        return jobs

    jobs = stack.run(work())
    assert sum(job.tally.seconds > 0 for job in jobs) == 1, "one of them had it encoded"


def test_a_text_with_cuts_may_be_large_and_one_without_is_refused(stack: Stack, gpt2: Tokenizer) -> None:
    text = prose(3 * MEBI, 1)
    pieces = [text[:MEBI], text[MEBI:]]
    assert abs(stack.count(text) - sum(gpt2.counts(pieces))) <= 1
    for bad in (" " * (2 * MEBI + 1), prose(MEBI, 2) + " " * (2 * MEBI + 2), "é" * (MEBI + 1)):
        with pytest.raises(Problem, match=r"2048 KiB.*Split the text") as refused:
            stack.count(bad)
        assert (refused.value.status, refused.value.code) == (413, "text-too-large")


@pytest.mark.parametrize(("text", "count"), [("a" * 1_000_000, 250_000), (" " * 1_000_000, 1_000_000)])
def test_a_megabyte_of_one_letter_is_answered_in_seconds(stack: Stack, text: str, count: int) -> None:
    began = time.process_time()
    assert stack.count(text) == count
    assert time.process_time() - began < 3


def test_a_megabyte_of_emoji_is_answered_in_seconds(stack: Stack) -> None:
    began = time.process_time()
    assert stack.count("😀👍🏽" * 83_333) > 250_000
    assert time.process_time() - began < 3


@pytest.mark.parametrize("kind", [COUNT, IDS])
def test_a_lone_surrogate_is_named_with_its_place(stack: Stack, kind: int) -> None:
    for text in ("ok \ud800", prose(70_000, 1) + "\ud800"):
        with pytest.raises(Problem) as refused:
            stack.values(["fine", text], kind)
        assert refused.value.errors == {
            "texts[1]": [f"a lone surrogate at character {len(text) - 1}; send whole characters"]
        }


def test_a_caller_that_leaves_ends_the_work_on_its_large_text(stack: Stack) -> None:
    text = prose(8 * MEBI, 1)

    async def work() -> tuple[float, float]:
        task = asyncio.ensure_future(stack.levels.values(stack.job(), [text], "text"))
        while not len(stack.levels.segments):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.3)  # what had begun ends
        kept, began = len(stack.levels.segments), time.process_time()
        await asyncio.sleep(0.5)
        return len(stack.levels.segments) - kept, time.process_time() - began

    more, cpu_s = stack.run(work())
    assert more == 0
    assert cpu_s < 0.2


def test_the_meter_hears_each_level_once_a_request(stack: Stack) -> None:
    text = prose(30_000, 1)
    job = stack.values([text])[1]
    job.tally.tell(stack.meter, "tested")
    edited = text[:15_000] + "!" + text[15_000:]
    job = stack.values([edited])[1]
    reused = job.tally.tell(stack.meter, "tested")
    model = stack.meter.models["tested"]
    assert sum(model.characters) == len(text) + len(edited)
    assert model.characters[1] > 25_000
    assert reused == model.tokens[1]
    assert model.computed_s > 0


def test_an_inspection_shows_what_a_count_would_find(stack: Stack, gpt2: Tokenizer) -> None:
    text = prose(20_000, 1)
    stack.count(text)
    edited = text[:10_000] + " new " + text[10_000:]

    def levels_of(inspected: str, flags: int = 0) -> set[str]:
        found = stack.run(inspect(stack.levels, stack.job(COUNT | flags), inspected))
        allow = bool(flags & ALLOW_SPECIAL)
        ids = [token_id for part in found.parts for token_id in part.ids]
        spans = [place for part in found.parts for place in part.spans]
        (want,) = gpt2.encode([inspected], spans=True, allow_special=allow)
        assert (ids, spans, found.count) == (list(want.ids), list(want.spans or ()), len(want.ids))
        assert "".join(inspected[part.start : part.end] for part in found.parts) == inspected
        return {part.level for part in found.parts}

    assert levels_of(text) == {"text"}
    assert levels_of(edited) == {"segment", "computed"}
    assert levels_of(edited) == {"text"}
    assert levels_of("") == {"computed"}
    assert levels_of("a<|endoftext|>b", ALLOW_SPECIAL) == {"computed"}
    assert levels_of("a<|endoftext|>b") == {"computed"}
