"""Where cuts are allowed: what patterns, normalizers, vocabularies and added tokens may carry over a place forbids it."""

from __future__ import annotations

from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from relay.tokens import forms
from relay.tokens import tokenizer as tokenizer_module
from relay.tokens.cuts import Cuts
from relay.tokens.patterns import Pattern, Unclear
from relay.tokens.proof import LEFTS, prove
from relay.tokens.trial import disagreement
from tests.tokens import families
from tests.tokens.conftest import Family
from tests.tokens.vocabularies import CL100K, O200K

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
MARKS = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"


@pytest.mark.parametrize(
    ("pattern", "right", "joined"),
    [
        (GPT2, " ", ""),
        (GPT2, "\n", ""),
        (GPT2, ",", MARKS),
        (CL100K, " ", ""),
        (CL100K, "\n", MARKS),
        (O200K, "\n", MARKS),
        (r"\w+ ?|\s+|.", " ", "azAZ09_"),
        (r"[a-z]+(?= )|\S|\s+", " ", "az"),
        (r"\S+(?! x)|\s+", " ", "azAZ09_" + MARKS),
    ],
)
def test_a_pattern_joins_only_what_one_of_its_matches_can_hold_or_see(pattern: str, right: str, joined: str) -> None:
    found = Pattern(pattern).joined_lefts("azAZ09" + MARKS, right)
    assert found == set(joined)


@pytest.mark.parametrize(
    ("pattern", "begins"),
    [
        (GPT2, True),
        (r"\s+", True),
        (r" ?x|\S", False),
        (r" {2,}|\S", False),
        (r"\s+(?!\S)|\S", False),
        (r" ?+ |\S", False),
    ],
)
def test_a_match_begins_at_a_blank_only_if_one_takes_it_alone(pattern: str, begins: bool) -> None:
    assert Pattern(pattern).begins(" ") is begins


@pytest.mark.parametrize(
    "pattern",
    [r"(?<=a) b", r"(?<!a)\s", r"^a", r"a$", r"\bx", r"(a)\1", r"[[:alpha:]]+", r"[a-z&&[^b]]", r"a*", r"(?x) a", "(a"],
)
def test_a_pattern_that_is_not_understood_proves_nothing(pattern: str) -> None:
    with pytest.raises(Unclear):
        Pattern(pattern)


def bytes_split_at(pattern: str, **options: Any) -> Tokenizer:
    """A byte-level BPE whose pre-tokenizer is one pattern."""
    made = families.byte_bpe()
    split = pre_tokenizers.Split(Regex(pattern), behavior=options.get("behavior", "isolated"))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return made


def with_normalizer(normalizer: normalizers.Normalizer) -> Tokenizer:
    """A byte-level BPE with a normalizer."""
    made = families.byte_bpe()
    made.normalizer = normalizer
    return made


def whole_text(model: models.Model) -> Tokenizer:
    """A tokenizer without a pre-tokenizer."""
    made = Tokenizer(model)
    made.normalizer = normalizers.Replace(" ", "▁")
    made.decoder = decoders.Replace("▁", " ")
    return made


def pieces(*more: str) -> dict[str, int]:
    """A small vocabulary of characters, and these."""
    return {piece: index for index, piece in enumerate(("<unk>", "▁", "a", "b", "\n", *more))}


@pytest.mark.parametrize(
    ("tokenizer", "why"),
    [
        (bytes_split_at(r"(?<=\w) |\s+|\S+"), "(?<="),
        (bytes_split_at(r"\S+\s?|\s+|[\s\S]"), "its patterns join"),
        (bytes_split_at(r"\p{N}+"), "byte-level BPE over the whole text"),
        (bytes_split_at(r"\s+|\S+", behavior="merged_with_previous"), "pieces split as MergedWithPrevious"),
        (with_normalizer(normalizers.Strip(left=True, right=False)), "strips the beginning"),
        (with_normalizer(normalizers.Replace(Regex(r"\s+"), "")), "removes"),
        (with_normalizer(normalizers.Replace(Regex(r"\s{2,}"), "_")), "several blanks"),
        (with_normalizer(normalizers.ByteLevel()), "normalizer ByteLevel"),
        (whole_text(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("▁", -2.0)], unk_id=0)), "Unigram over the whole text"),
        (whole_text(models.BPE({"a": 0, "b": 1}, [], unk_token=None)), "does not have"),
        (whole_text(models.BPE(pieces(), [], dropout=0.5)), "at random"),
        (whole_text(models.BPE(pieces(), [], end_of_word_suffix="</w>")), "where a piece ends"),
    ],
)  # fmt: skip
def test_what_could_carry_a_token_over_a_cut_forbids_it(tokenizer: Tokenizer, why: str) -> None:
    proof = prove(families.document(tokenizer))
    assert proof.lefts == {}
    assert why in proof.why


def test_a_vocabulary_that_spans_a_blank_forbids_cuts_after_that_letter_only() -> None:
    model = models.BPE(pieces("a▁", "ab"), [("a", "▁"), ("a", "b")])
    found = prove(families.document(whole_text(model))).lefts
    assert set(LEFTS) - set(found[" "]) == {"a"}
    assert set(found["\n"]) == set(LEFTS)


def test_cuts_never_stand_within_an_added_token_or_after_one_that_takes_blanks() -> None:
    made = families.byte_bpe(think=False)
    made.add_tokens([AddedToken("<a b>", normalized=False), AddedToken("<eats>", rstrip=True, normalized=False)])
    mine = tokenizer_module.Tokenizer(families.document(made))
    text = "x <a b> y <eats> z " * 20
    places = {start for start, _, _ in mine.segments(text, allow_special=True, target=2)}
    assert not {place for place in places if text[place - 2 : place + 2] in ("<a b", "s> z")}
    assert len(places) > 20
    assert {text[place - 2 : place + 2] for place, _, _ in mine.segments(text, target=2)} >= {"<a b", "s> z"}


@pytest.mark.parametrize("options", [{"lstrip": True}, {"single_word": True}])
def test_a_text_with_a_token_that_looks_to_its_left_is_not_cut(options: dict[str, bool]) -> None:
    made = families.byte_bpe(think=False)
    made.add_tokens([AddedToken("<mask>", normalized=False, **options)])
    mine = tokenizer_module.Tokenizer(families.document(made))
    text = "hello there, old friend <mask> hello " * 10
    assert mine.segments(text, allow_special=True, target=8) == [(0, len(text), False)]
    assert len(mine.segments(text, target=8)) > 10
    assert len(mine.segments(text.replace("<mask>", ""), allow_special=True, target=8)) > 10


def test_a_tokenizer_that_cannot_be_cut_is_cut_before_added_tokens() -> None:
    made = families.unigram()
    made.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    made.add_special_tokens([AddedToken("<|turn|>", normalized=False)])
    mine = tokenizer_module.Tokenizer(families.document(made))
    assert mine.cuttable == "only before added tokens where these are parsed (Unigram over the whole text)"
    text = "<|turn|>hello world who holds the permits" * 9
    assert mine.segments(text, target=16) == [(0, len(text), False)]
    assert [text[start : start + 8] for start, _, _ in mine.segments(text, allow_special=True, target=16)] == [
        "<|turn|>"
    ] * 9


def test_the_trial_finds_a_cut_that_the_proof_should_have_forbidden(family: Family) -> None:
    raw = family("cl100k").raw
    assert disagreement(raw, raw, Cuts({"\n": LEFTS}), ()) is not None
    assert disagreement(raw, raw, Cuts(prove(families.document(raw)).lefts), ()) is None


def test_a_proof_that_fails_its_trial_switches_cuts_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "disagreement", lambda *_: "a\nb")
    mine = tokenizer_module.Tokenizer(families.document(families.byte_bpe()))
    assert mine.cuttable == r"nowhere: cuts change the tokens of 'a\nb'"
    assert mine.segments("hello world " * 200, target=16) == [(0, 2400, False)]


def test_an_odd_document_still_loads() -> None:
    found = families.document(families.byte_bpe())
    found["pre_tokenizer"] = {"type": "UnicodeScripts"}
    mine = tokenizer_module.Tokenizer(found)
    assert mine.cuttable.endswith("(pre-tokenizer UnicodeScripts)")
