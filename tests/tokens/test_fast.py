"""The optional fast tokenizer: the exact one's ids, refused or ended where it differs, and never missed where it is not there."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from relay.tokens import fast
from relay.tokens.fast import FOLDING, Fast, beside
from relay.tokens.tokenizer import Tokenizer
from relay.tokens.trial import strings
from relay.tokens.values import ADD_SPECIAL, ALLOW_SPECIAL, COUNT, IDS, SPANS
from tests.tokens import families
from tests.tokens.desk import Desk
from tests.tokens.stack import Stack, prose

NewDesk = Callable[..., Desk]
pytest.importorskip("fastokens")


@pytest.fixture(scope="module")
def quick() -> Tokenizer:
    """A byte-level BPE that has a fast tokenizer beside it."""
    made = Tokenizer(families.document(families.byte_bpe()))
    made.find_fast()
    assert made.fast is not None
    return made


def wrong(texts: list[str]) -> tuple[bytes, bytes]:
    """What a library with a fault gives: one id for each text."""
    ends = b"".join(place.to_bytes(8, "little") for place in range(len(texts) + 1))
    return (7).to_bytes(4, "little") * len(texts), ends


def test_it_gives_the_exact_ids(quick: Tokenizer) -> None:
    assert quick.fast is not None
    texts = [*strings(2000, ["</think>", "<|im_end|>"], seed=5), prose(50_000, 1), "", " "]
    texts = [text for text in texts if not any(letter in text for letter in FOLDING)]
    exact = [each.ids for each in quick.encode(texts)]
    assert quick.fast.ids(texts) == exact
    assert quick.fast.counts(texts) == [len(ids) for ids in exact]


@pytest.mark.parametrize("flags", [0, ADD_SPECIAL, ALLOW_SPECIAL])
@pytest.mark.parametrize("kind", [COUNT, IDS, SPANS])
def test_the_levels_give_the_same_with_it_and_without(quick: Tokenizer, kind: int, flags: int) -> None:
    pick = random.Random(kind + flags)
    texts = [prose(pick.randrange(3000), number) + "</think>\u017f"[: pick.randrange(10)] for number in range(20)]
    plain = Tokenizer(families.document(families.byte_bpe()))
    found = []
    for tokenizer in (quick, plain):
        stack = Stack(tokenizer)
        found.append(stack.values(texts, kind | flags)[0])
        stack.close()
    assert found[0] == found[1]


def test_letters_that_fold_are_the_exact_tokenizers(quick: Tokenizer) -> None:
    assert quick.fast is not None
    assert quick.fast.counts(["it\u017f"]) is None
    assert quick.fast.ids(["fine", "\u212aelvin"]) is None


def test_one_that_differs_when_loaded_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Faulty:
        class Tokenizer:
            @staticmethod
            def from_json_str(_: str) -> Any:
                class Made:
                    encode_batch_flat = staticmethod(wrong)

                return Made()

    exact = families.byte_bpe()
    assert beside(exact, []) is not None
    monkeypatch.setattr(fast, "_library", lambda: Faulty)
    assert beside(exact, []) is None


def test_a_kind_that_it_does_not_know_is_no_fault() -> None:
    made = Tokenizer(families.document(families.word_piece()))
    made.find_fast()
    stack = Stack(made)
    assert [stack.count("hello world")] == made.counts(["hello world"])
    stack.close()


def test_nothing_is_missed_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast, "_library", lambda: None)
    made = Tokenizer(families.document(families.byte_bpe()))
    made.find_fast()
    assert made.fast is None


def test_one_that_differs_later_ends_and_what_it_made_is_forgotten(
    new_desk: NewDesk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fast, "CHECKED_EVERY", 3)
    desk = new_desk()
    _, tokenizer = desk.service.find("gpt2")
    backend = tokenizer._forms[False].whole
    tokenizer.fast = Fast(wrong, backend, "a library with a fault")
    texts = [f"one two three {number}" for number in range(3)]
    for text in texts:
        assert desk.post("count", {"model": "gpt2", "text": text}).body["count"] == 1
    deadline = time.monotonic() + 10
    while tokenizer.fast is not None and tokenizer.fast.trusted and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "differs from the exact tokenizer" in caplog.text
    assert texts[2] not in caplog.text
    desk.post("count", {"model": "gpt2", "text": "the next that is computed"})
    found = [desk.post("count", {"model": "gpt2", "text": text}).body for text in texts]
    assert [body["count"] for body in found] == tokenizer.counts(texts)
    assert found[0]["source"] == "computed"
    assert desk.meter.models["gpt2"].differed == 1
