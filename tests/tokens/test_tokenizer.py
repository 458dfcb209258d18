"""Exactness: what a tokenizer counts, encodes, decodes and truncates, and what threads and forks do not change."""

from __future__ import annotations

import json
import os
import select
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from relay.tokens import gpt2 as gpt2_files
from relay.tokens.tokenizer import Tokenizer, UnknownId
from tests.tokens import families

TEXTS = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" \n'ab1世👍🏽\u0301")), max_size=60
)


def test_gpt2_gives_the_published_ids(gpt2: Tokenizer) -> None:
    assert gpt2.encode(["Hello, world! don't"])[0].ids.tolist() == [15496, 11, 995, 0, 836, 470]
    assert gpt2.encode(["👍🏽"])[0].ids.tolist() == [41840, 235, 8582, 237, 121]
    assert gpt2.counts(["你好" * 50, "", " " * 8]) == [200, 0, 8]
    assert gpt2.vocabulary_size == 50257


@given(text=TEXTS)
def test_gpt2_agrees_with_a_tokenizer_built_by_hand(gpt2: Tokenizer, raw_gpt2: tokenizers.Tokenizer, text: str) -> None:
    ids = raw_gpt2.encode(text).ids
    assert gpt2.counts([text]) == [len(ids)]
    assert gpt2.encode([text], spans=True)[0].ids.tolist() == ids
    assert gpt2.decode(ids) == text


@pytest.fixture(scope="module")
def raw_gpt2(token_data: Path, gpt2: Tokenizer) -> tokenizers.Tokenizer:
    return gpt2_files.raw(token_data / "tokenizers" / "gpt2")


def test_offsets_are_characters_and_keep_their_blanks(gpt2: Tokenizer) -> None:
    (emoji, words) = gpt2.encode(["👍🏽ok", "hello world"], spans=True)
    assert emoji.offsets() == [(0, 1), (0, 1), (1, 2), (1, 2), (1, 2), (2, 4)]
    assert words.offsets() == [(0, 5), (5, 11)]
    trimming = Tokenizer(families.document(families.byte_bpe()))
    assert trimming.encode(["hello world"], spans=True)[0].offsets()[-1][0] == 5


def test_offsets_of_a_long_text_are_those_of_a_short_one(gpt2: Tokenizer) -> None:
    (long,) = gpt2.encode(["ab 👍🏽\n" * 2000], spans=True)
    (short,) = gpt2.encode(["ab 👍🏽\n" * 20], spans=True)
    assert len(long.ids) == 100 * len(short.ids)
    assert long.offsets()[: len(short.ids)] == short.offsets()
    assert long.offsets()[-1] == (6 * 2000 - 1, 6 * 2000)


def test_special_tokens_in_a_text_stay_text_unless_allowed(gpt2: Tokenizer) -> None:
    assert gpt2.encode(["<|endoftext|>"])[0].ids.tolist() == [27, 91, 437, 1659, 5239, 91, 29]
    assert gpt2.encode(["<|endoftext|>"], allow_special=True)[0].ids.tolist() == [50256]


@pytest.mark.parametrize("added", ["<|im_end|>", "</think>", "<|begin|>"])
def test_no_added_token_is_parsed_special_or_not(added: str) -> None:
    made = families.byte_bpe()
    mine = Tokenizer(families.document(made))
    token_id = made.token_to_id(added)
    assert token_id not in mine.encode([f"a{added}b"])[0].ids
    assert mine.encode([f"a{added}b"], allow_special=True)[0].ids.count(token_id) == 1


def test_a_unigram_vocabulary_does_not_spell_its_control_tokens() -> None:
    made = families.unigram()
    mine = Tokenizer(families.document(made))
    end = made.token_to_id("</s>")
    assert end not in mine.encode(["hello</s>"])[0].ids
    assert mine.encode(["hello</s>"], allow_special=True)[0].ids[-1] == end
    assert mine.encode(["hello world"])[0].ids.tolist() == made.encode("hello world", add_special_tokens=False).ids


def test_an_empty_text_has_only_the_specials_that_are_asked_for() -> None:
    bert, llama = (Tokenizer(families.document(made)) for made in (families.word_piece(), families.byte_bpe()))
    assert bert.counts([""]) == [0]
    assert bert.counts([""], add_special=True) == [2]
    assert llama.counts([""], add_special=True) == [1]


def test_truncation_and_padding_in_the_file_are_switched_off() -> None:
    made = families.word_piece()
    made.enable_truncation(128)
    made.enable_padding(length=128)
    mine = Tokenizer(families.document(made))
    assert mine.counts(["hello " * 1000, "hi"], add_special=True) == [1002, 3]
    assert mine.counts(["hello " * 1000], allow_special=True) == [1000]


def test_offsets_point_into_the_text_before_normalization() -> None:
    mine = Tokenizer(families.document(families.word_piece()))
    (encoded,) = mine.encode(["Héllo 世界 CAFÉ"], spans=True)
    assert encoded.offsets() == [(0, 5), (6, 7), (7, 8), (9, 13)]
    assert mine.decode(encoded.ids.tolist()) == "hello 世 [UNK] cafe"


@pytest.mark.parametrize(
    ("side", "most", "part", "count"),
    [("right", 3, "👍", 2), ("left", 3, "🏽", 3), ("left", 2, "", 0), ("right", 0, "", 0), ("right", 5, "👍🏽", 5)],
)
def test_truncation_never_splits_a_character(gpt2: Tokenizer, side: str, most: int, part: str, count: int) -> None:
    cut = gpt2.truncate("👍🏽", most, "left" if side == "left" else "right")
    assert (cut.text, cut.count, cut.truncated) == (part, count, part != "👍🏽")


@given(text=TEXTS, most=st.integers(0, 30), side=st.sampled_from(["left", "right"]))
def test_a_truncated_text_fits_when_it_is_counted_anew(gpt2: Tokenizer, text: str, most: int, side: str) -> None:
    cut = gpt2.truncate(text, most, "left" if side == "left" else "right")
    assert cut.count == gpt2.counts([cut.text])[0] <= most
    assert text.startswith(cut.text) if side == "right" else text.endswith(cut.text)
    assert cut.truncated == (gpt2.counts([text])[0] > most)
    assert cut.truncated or cut.text == text


def test_a_part_whose_own_count_does_not_fit_is_cut_back_further(gpt2: Tokenizer) -> None:
    texts = ["a" * 9, "'''''''ll", "  \n  \n x", "1234567", "éééé", "antidisestablishmentarianism"]
    for text in texts:
        for most in range(1, gpt2.counts([text])[0]):
            cut = gpt2.truncate(text, most)
            ids = gpt2.encode([text], spans=True)[0]
            longest = min(ids.offsets()[most - 1][1], ids.offsets()[most][0])
            fitting = [end for end in range(longest + 1) if gpt2.counts([text[:end]])[0] <= most]
            assert cut.text == text[: max(fitting)]


@pytest.mark.parametrize(("ids", "index"), [([1, 50257], 1), ([999_999], 0), ([0, -1], 1), ([10**30], 0)])
def test_an_id_out_of_the_vocabulary_is_named(gpt2: Tokenizer, ids: list[int], index: int) -> None:
    with pytest.raises(UnknownId) as caught:
        gpt2.decode(ids)
    assert caught.value.index == index


def test_an_id_in_a_hole_of_the_vocabulary_is_refused() -> None:
    found = families.document(families.byte_bpe(think=False))
    found["added_tokens"].append({**found["added_tokens"][0], "content": "<|late|>", "id": 1000})
    found["model"]["vocab"]["<|late|>"] = 1000
    mine = Tokenizer(found)
    assert mine.decode([1000]) == "<|late|>"
    with pytest.raises(UnknownId):
        mine.decode([999])


def test_case_1_eight_threads_that_truncate_and_count_do_not_disturb_each_other(gpt2: Tokenizer) -> None:
    text = "the quick brown fox " * 30
    right = gpt2.counts([text])[0]
    cut = gpt2.truncate(text, 50)

    def work(turn: int) -> bool:
        if turn % 2:
            return gpt2.truncate(text, 50) == cut
        return gpt2.counts([text]) == [right]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(800)))
    assert (cut.count, gpt2.counts([text])) == (50, [right])


def test_case_2_a_forked_child_counts_at_once_and_prints_nothing(
    gpt2: Tokenizer, capfd: pytest.CaptureFixture[str]
) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda turn: gpt2.counts([f"before the fork {turn}"] * 50), range(20)))
    reading, writing = os.pipe()
    capfd.readouterr()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(gpt2.counts(["Hello, world!"] * 20)).encode())
        os._exit(0)
    ready, _, _ = select.select([reading], [], [], 1.0)
    answered = os.read(reading, 1000) if ready else b"null"
    if not ready:
        os.kill(child, 9)
    os.waitpid(child, 0)
    assert json.loads(answered) == [4] * 20
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("text", "count"), [("a" * 1_000_000, 250_000), (" " * 999_999 + "x", 999_999)])
def test_a_megabyte_of_the_same_is_counted_in_seconds(gpt2: Tokenizer, text: str, count: int) -> None:
    began = time.perf_counter()
    assert gpt2.counts([text]) == [count]
    assert time.perf_counter() - began < 3


def test_the_fingerprint_follows_the_content() -> None:
    first = families.document(families.byte_bpe())
    other = json.loads(json.dumps(first))
    other["added_tokens"][-1]["content"] = "</thought>"
    reordered = dict(reversed(list(first.items())))
    assert Tokenizer(first).fingerprint == Tokenizer(reordered).fingerprint != Tokenizer(other).fingerprint
