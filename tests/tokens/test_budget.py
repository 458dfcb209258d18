"""What a request may ask beside a count: several models, an estimate, the cost, whether it fits; units of offsets; pieces."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage, calc_price

from relay.tokens.registry import ModelSpec
from tests.tokens import families
from tests.tokens.desk import Desk

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def models(token_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The API with gpt2 under a second name and with a price, and made models of other families."""
    folder = tmp_path_factory.mktemp("budget")
    specs = [
        ModelSpec("gpt2", "package", aliases=("p",), input_price=2.5, output_price=10.0),
        ModelSpec("bytes", "path", str(families.written(families.byte_bpe(), folder / "bytes"))),
    ]
    specs.append(ModelSpec("words", "path", str(families.written(families.word_piece(), folder / "words"))))
    specs.append(ModelSpec("unigram", "path", str(families.written(families.unigram(), folder / "unigram"))))
    desk = Desk(token_data, specs)
    desk.run(desk.all_loaded())
    yield desk
    desk.close()


def test_several_models_have_an_answer_or_a_problem_each(models: Desk) -> None:
    found = models.post("count", {"models": ["gpt2", "none", "bytes", "gpt2"], "text": "hello world"})
    assert found.status == 200
    first, second, third = found.body["results"]
    assert (first["model"], first["count"], first["exact"]) == ("gpt2", 2, True)
    assert (second["model"], second["problem"]["code"], second["problem"]["status"]) == ("none", "model-not-found", 404)
    assert third["count"] == models.post("count", {"model": "bytes", "text": "hello world"}).body["count"]
    chats = models.post("count", {"models": ["gpt2", "bytes"], "messages": HELLO}).body["results"]
    assert [each["problem"]["code"] for each in chats] == ["no-chat-template"] * 2
    assert models.post("count", {"models": ["gpt2"], "text": "\ud800"}).status == 400
    assert models.post("count", {"models": ["gpt2"] * 17, "text": "x"}).status == 400


def test_an_estimate_is_given_only_where_it_is_allowed_and_says_so(models: Desk) -> None:
    body = {"model": "unheard-of", "texts": ["hello world", "def f(x): return x"]}
    assert models.post("count", body).body["code"] == "model-not-found"
    found = models.post("count", {**body, "allow_estimate": True}).body
    assert (found["exact"], found["tokenizer"], len(found["counts"])) == (False, None, 2)
    assert found["count"] == sum(found["counts"])
    assert 0 < found["estimate"]["spread"] < 1
    exact = models.post("count", {"model": "gpt2", "text": "hello world", "allow_estimate": True}).body
    assert (exact["exact"], exact["count"], "estimate" in exact) == (True, 2, False)


def test_a_chat_without_a_template_is_estimated_with_the_models_own_tokens(models: Desk) -> None:
    assert models.post("count", {"model": "gpt2", "messages": HELLO}).body["code"] == "no-chat-template"
    found = models.post("count", {"model": "gpt2", "messages": HELLO, "allow_estimate": True}).body
    assert (found["count"], found["exact"]) == (1 + 1 + 3 + 3, False)


def test_cost_says_its_source_or_why_there_is_none(models: Desk) -> None:
    body = {"text": "hello world", "cost": True, "output_tokens": 1000}
    set_by_hand = models.post("count", {"model": "p", **body}).body["cost"]
    assert (set_by_hand["input_usd"], set_by_hand["output_usd"]) == (pytest.approx(5e-6), pytest.approx(0.01))
    assert (set_by_hand["source"], set_by_hand["currency"]) == ("set by hand", "USD")
    unknown = models.post("count", {"model": "words", **body}).body["cost"]
    assert (unknown["input_usd"], unknown["output_usd"], unknown["source"]) == (None, None, None)
    assert "input_price" in unknown["note"]
    hosted = models.post("count", {"model": "gpt-4o-mini", "allow_estimate": True, **body}).body
    listed = calc_price(Usage(input_tokens=hosted["count"], output_tokens=1000), "gpt-4o-mini")
    assert hosted["cost"]["input_usd"] == pytest.approx(float(listed.input_price))
    assert hosted["cost"]["output_usd"] == pytest.approx(float(listed.output_price))
    assert hosted["cost"]["source"].startswith("genai-prices")
    assert "output_usd" not in models.post("count", {"model": "gpt2", "text": "x", "cost": True}).body["cost"]


@pytest.mark.parametrize(
    ("fields", "fits", "left"),
    [
        ({}, True, 1022),
        ({"reserve_output": 1022}, True, 0),
        ({"reserve_output": 1023}, False, -1),
        ({"context_size": 1}, False, -1),
    ],
)
def test_fit_says_what_is_left(models: Desk, fields: dict[str, Any], fits: bool, left: int) -> None:
    found = models.post("fit", {"model": "gpt2", "text": "hello world", **fields}).body
    assert (found["fits"], found["left"], found["count"], found["exact"]) == (fits, left, 2, True)


def test_fit_needs_a_context_size(models: Desk) -> None:
    refused = models.post("fit", {"model": "none", "text": "x", "allow_estimate": True})
    assert (refused.status, list(refused.body["errors"])) == (400, ["context_size"])
    found = models.post("fit", {"model": "none", "text": "x", "allow_estimate": True, "context_size": 10}).body
    assert (found["fits"], found["exact"]) == (True, False)


@pytest.mark.parametrize("model", ["gpt2", "bytes", "words", "unigram"])
def test_offsets_mean_the_same_place_in_every_unit(models: Desk, model: str) -> None:
    source = random.Random(model)
    alphabet = "aé\u0301世👍🏽 \n'ſ\u2028Z9"
    texts = ["".join(source.choices(alphabet, k=source.randint(0, 60))) for _ in range(40)]
    texts.append("".join(source.choices(alphabet, k=20_000)))

    def offsets(unit: object) -> list[list[list[int]]]:
        found: list[list[list[int]]] = models.post("encode", {"model": model, "texts": texts, "offsets": unit}).body[
            "offsets"
        ]
        return found

    for text, characters, units, in_bytes in zip(texts, offsets(True), offsets("utf16"), offsets("bytes"), strict=True):
        wide, data = text.encode("utf-16-le"), text.encode()
        for (start, end), (start16, end16), (start8, end8) in zip(characters, units, in_bytes, strict=True):
            assert wide[2 * start16 : 2 * end16].decode("utf-16-le") == text[start:end]
            assert data[start8:end8].decode() == text[start:end]


@pytest.mark.parametrize("model", ["gpt2", "bytes", "unigram"])
def test_case_20_pieces_carry_the_bytes_of_the_text(models: Desk, model: str) -> None:
    text = " hello world" if model == "unigram" else " Héllo 👍🏽 世界\n"
    ids = models.post("encode", {"model": model, "text": text}).body["ids"]
    found = models.post("decode", {"model": model, "ids": ids, "pieces": True}).body
    assert [piece["id"] for piece in found["pieces"]] == ids
    joined = b"".join(bytes.fromhex(piece["bytes"]) for piece in found["pieces"]).decode()
    assert joined.strip() == found["text"].strip() == text.strip()


def test_pieces_of_part_of_a_character_are_marked(models: Desk) -> None:
    found = models.post("decode", {"model": "gpt2", "ids": [41840, 235, 50256], "pieces": True}).body
    assert found["pieces"] == [
        {"id": 41840, "text": "\ufffd", "bytes": "f09f91"},
        {"id": 235, "text": "\ufffd", "bytes": "8d"},
        {"id": 50256, "text": "<|endoftext|>", "bytes": b"<|endoftext|>".hex()},
    ]
    assert found["text"] == "👍<|endoftext|>"


def test_case_21_a_tokenizer_that_loses_something_says_so(models: Desk) -> None:
    encoded = models.post("encode", {"model": "words", "text": "Hello, world! don't"}).body
    assert encoded["lossless"] is False
    decoded = models.post("decode", {"model": "words", "ids": encoded["ids"], "pieces": True}).body
    assert (decoded["lossless"], decoded["text"] == "Hello, world! don't") == (False, False)
    assert decoded["pieces"][1]["text"] == " ,"
    assert "lossless" not in models.post("encode", {"model": "gpt2", "text": "x"}).body
