"""The token endpoints over ASGI: answers, refusals with their field, and what the meter hears."""

from __future__ import annotations

import json
import time
from typing import Any

import jsonschema
import pytest

from relay.tokens.schema import openapi
from tests.tokens.desk import READER, Desk


def test_a_count_says_what_the_contract_says(desk: Desk) -> None:
    first = desk.post("count", {"model": "gpt2", "text": "Count me, I'm new."})
    again = desk.post("count", {"model": "gpt2", "text": "Count me, I'm new."})
    assert first.status == 200
    assert list(first.body) == ["model", "count", "exact", "source", "tokenizer"]
    assert (first.body["count"], first.body["exact"], first.body["source"]) == (7, True, "computed")
    assert again.body == {**first.body, "source": "cache"}


def test_several_texts_are_one_answer_and_may_be_partly_cached(desk: Desk) -> None:
    desk.post("count", {"model": "gpt2", "text": "seen before"})
    mixed = desk.post("count", {"model": "gpt2", "texts": ["seen before", "never seen", "", "never seen"]})
    assert (mixed.body["counts"], mixed.body["count"], mixed.body["source"]) == ([2, 2, 0, 2], 6, "partial")
    cached = desk.post("count", {"model": "gpt2", "texts": ["never seen", "seen before"]})
    assert (cached.body["counts"], cached.body["source"]) == ([2, 2], "cache")
    assert desk.post("count", {"model": "gpt2", "texts": []}).body["counts"] == []


def test_special_tokens_over_http(desk: Desk) -> None:
    text = "<|endoftext|>"
    assert desk.post("count", {"model": "gpt2", "text": text}).body["count"] == 7
    assert desk.post("count", {"model": "gpt2", "text": text, "allow_special": True}).body["count"] == 1
    assert desk.post("count", {"model": "gpt2", "text": text}).body["count"] == 7


def test_encode_gives_ids_and_offsets(desk: Desk) -> None:
    plain = desk.post("encode", {"model": "gpt2", "text": "👍🏽ok"}).body
    assert plain["ids"] == [41840, 235, 8582, 237, 121, 482]
    assert (plain["count"], "offsets" in plain, "counts" in plain) == (6, False, False)
    placed = desk.post("encode", {"model": "gpt2", "text": "👍🏽ok", "offsets": True}).body
    assert placed["offsets"] == [[0, 1], [0, 1], [1, 2], [1, 2], [1, 2], [2, 4]]
    several = desk.post("encode", {"model": "gpt2", "texts": ["ok", "", "hi there"], "offsets": True}).body
    assert (several["ids"], several["counts"], several["count"]) == ([[482], [], [5303, 612]], [1, 0, 2], 3)
    assert several["offsets"] == [[[0, 2]], [], [[0, 2], [2, 8]]]


def test_a_long_text_is_rendered_whole(desk: Desk) -> None:
    found = desk.post("encode", {"model": "gpt2", "text": "a b" * 20_000, "offsets": True}).body
    assert len(found["ids"]) == found["count"] == len(found["offsets"])
    assert found["offsets"][-1][1] == 60_000
    assert desk.post("decode", {"model": "gpt2", "ids": found["ids"]}).body == {"text": "a b" * 20_000}


def test_truncate_says_what_is_left(desk: Desk) -> None:
    body = {"model": "gpt2", "text": "one two three four", "max_tokens": 2}
    assert desk.post("truncate", body).body == {"text": "one two", "count": 2, "truncated": True}
    left = desk.post("truncate", {**body, "side": "left"}).body
    assert left == {"text": " three four", "count": 2, "truncated": True}
    whole = desk.post("truncate", {**body, "max_tokens": 4}).body
    assert whole == {"text": "one two three four", "count": 4, "truncated": False}
    assert desk.post("truncate", {**body, "max_tokens": 0}).body == {"text": "", "count": 0, "truncated": True}


def test_a_count_a_limit_and_a_count_again_agree(desk: Desk) -> None:
    text = "the same text, three times over"
    first = desk.post("count", {"model": "gpt2", "text": text}).body["count"]
    desk.post("truncate", {"model": "gpt2", "text": text, "max_tokens": 2})
    assert desk.post("encode", {"model": "gpt2", "text": text}).body["count"] == first
    assert desk.post("count", {"model": "gpt2", "text": text}).body["count"] == first


@pytest.mark.parametrize(
    ("operation", "change", "field"),
    [
        ("count", {"model": None}, "model"),
        ("count", {"text": None}, "text"),
        ("count", {"text": 7}, "text"),
        ("count", {"texts": ["x"]}, "text"),
        ("count", {"unheard_of": 1}, "unheard_of"),
        ("count", {"messages": []}, "messages"),
        ("count", {"allow_special": "yes"}, "allow_special"),
        ("count", {"offsets": True}, "offsets"),
        ("encode", {"offsets": "utf-16"}, "offsets"),
        ("encode", {"tools": []}, "tools"),
        ("count", {"add_generation_prompt": False}, "add_generation_prompt"),
        ("count", {"breakdown": True}, "breakdown"),
        ("count", {"output_tokens": 3}, "output_tokens"),
        ("count", {"models": ["gpt2"]}, "model"),
        ("fit", {"reserve_output": -1}, "reserve_output"),
        ("truncate", {"max_tokens": -1}, "max_tokens"),
        ("truncate", {"max_tokens": 1.5}, "max_tokens"),
        ("truncate", {"max_tokens": True}, "max_tokens"),
        ("truncate", {"max_tokens": 1, "side": "centre"}, "side"),
        ("truncate", {}, "max_tokens"),
    ],
)
def test_a_wrong_field_is_named(desk: Desk, operation: str, change: dict[str, Any], field: str) -> None:
    refused = desk.post(operation, {"model": "gpt2", "text": "hello", **change})
    assert (refused.status, refused.body["code"], list(refused.body["errors"])) == (400, "invalid", [field])
    assert refused.headers[b"content-type"] == b"application/problem+json"


@pytest.mark.parametrize(("texts", "status"), [(2048, 200), (2049, 400)])
def test_texts_are_bounded(desk: Desk, texts: int, status: int) -> None:
    assert desk.post("count", {"model": "gpt2", "texts": ["a"] * texts}).status == status


def test_neither_text_nor_texts_is_refused(desk: Desk) -> None:
    refused = desk.post("encode", {"model": "gpt2"})
    assert (refused.status, list(refused.body["errors"])) == (400, ["text"])


@pytest.mark.parametrize(
    ("ids", "field"),
    [
        ([999_999], "ids[0]"),
        ([1, -1], "ids[1]"),
        ([1, 2, "a"], "ids[2]"),
        ([True], "ids[0]"),
        ([1.0], "ids[0]"),
        ("1", "ids"),
    ],
)
def test_ids_that_are_none_are_refused_with_their_place(desk: Desk, ids: object, field: str) -> None:
    refused = desk.post("decode", {"model": "gpt2", "ids": ids})
    assert (refused.status, refused.body["code"], list(refused.body["errors"])) == (400, "invalid", [field])


@pytest.mark.parametrize(
    ("body", "field", "place"),
    [
        (rb'{"model": "gpt2", "text": "\ud800"}', "text", "character 0"),
        (rb'{"model": "gpt2", "text": "ab\ude00\ud83d"}', "text", "character 2"),
        (rb'{"model": "gpt2", "texts": ["fine", "ab\ud83dx"]}', "texts[1]", "character 2"),
        (b'{"model": "gpt2", "text": "a\xed\xa0\x80"}', "text", "character 1"),
    ],
)
def test_a_lone_surrogate_is_refused_with_its_place(desk: Desk, body: bytes, field: str, place: str) -> None:
    refused = desk.post("count", body)
    assert (refused.status, refused.body["code"], list(refused.body["errors"])) == (400, "invalid", [field])
    assert place in refused.body["errors"][field][0]


def test_an_escaped_pair_of_surrogates_is_one_emoji(desk: Desk) -> None:
    found = desk.post("encode", rb'{"model": "gpt2", "text": "\ud83d\ude00", "offsets": true}')
    assert {*map(tuple, found.body["offsets"])} == {(0, 1)}
    assert desk.post("decode", {"model": "gpt2", "ids": found.body["ids"]}).body == {"text": "😀"}


def test_who_may_count(desk: Desk) -> None:
    body = {"model": "gpt2", "text": "hello"}
    stranger = desk.post("count", body, key=None)
    assert (stranger.status, stranger.body["code"], b"www-authenticate" in stranger.headers) == (
        401,
        "unauthenticated",
        True,
    )
    assert desk.post("count", body, key="relay_search_wrong").status == 401
    for operation in ("count", "encode", "decode", "truncate"):
        assert desk.post(operation, b"not even json", key=READER).body["code"] == "forbidden"


def test_methods_and_media(desk: Desk) -> None:
    wrong = desk.get("count")
    assert (wrong.status, wrong.body["code"], wrong.headers[b"allow"]) == (405, "method-not-allowed", b"POST")
    assert desk.post("count", {"model": "gpt2", "text": "x"}, media=b"text/plain").body["code"] == "not-json"
    assert desk.post("count", b'{"model": "gpt2", "te').body["code"] == "invalid"


def test_an_unknown_model_is_refused_at_once(desk: Desk) -> None:
    began = time.perf_counter()
    for operation in ("count", "encode"):
        refused = desk.post(operation, {"model": "nobody/knows-this", "text": "hello"})
        assert (refused.status, refused.body["code"]) == (404, "model-not-found")
        assert "nobody/knows-this" in refused.body["detail"]
    assert time.perf_counter() - began < 0.1


def test_a_text_above_two_mebibytes_is_refused(desk: Desk) -> None:
    most = 2 * 1024 * 1024
    for body in ({"text": "é" * (most // 2) + "x"}, {"texts": ["fine", "x" * (most + 1)]}):
        refused = desk.post("count", {"model": "gpt2", **body})
        assert (refused.status, refused.body["code"]) == (413, "text-too-large")
    cut = desk.post("truncate", {"model": "gpt2", "text": "x" * (most + 1), "max_tokens": 1})
    assert cut.body["code"] == "text-too-large"
    large = desk.post("count", b'{"model": "gpt2", "text": "' + b"x" * 16 * 1024 * 1024 + b'"}')
    assert (large.status, large.body["code"]) == (413, "body-too-large")


def test_the_meter_hears_model_tenant_source_and_tokens(desk: Desk) -> None:
    requests, tokens = dict(desk.meter.requests), dict(desk.meter.tokens)
    for _ in range(2):
        desk.post("count", {"model": "gpt2", "text": "metered, once and again"})
    spent = desk.meter.tokens["gpt2", "search"] - tokens.get(("gpt2", "search"), 0)
    assert spent == 2 * desk.post("count", {"model": "gpt2", "text": "metered, once and again"}).body["count"]
    assert desk.meter.requests["gpt2", "computed"] - requests["gpt2", "computed"] == 1
    assert desk.meter.requests["gpt2", "cache"] - requests["gpt2", "cache"] == 2
    assert desk.meter.caches["text"] == (desk.service.levels.texts.bytes, len(desk.service.levels.texts))


@pytest.mark.parametrize(
    ("operation", "body"),
    [
        ("count", {"model": "gpt2", "text": "a schema"}),
        ("count", {"model": "gpt2", "texts": ["a", "schema"]}),
        ("encode", {"model": "gpt2", "text": "a schema", "offsets": True}),
        ("encode", {"model": "gpt2", "texts": ["a", "schema"], "offsets": True}),
        ("decode", {"model": "gpt2", "ids": [1, 2]}),
        ("decode", {"model": "gpt2", "ids": [999_999]}),
        ("decode", {"model": "gpt2", "ids": [1, 235], "pieces": True}),
        ("truncate", {"model": "gpt2", "text": "a schema", "max_tokens": 1}),
        ("fit", {"model": "gpt2", "text": "a schema", "reserve_output": 1}),
        ("count", {"model": "gpt2", "text": "a schema", "cost": True}),
        ("count", {"model": "gpt-4o", "text": "a schema", "cost": True, "output_tokens": 1, "allow_estimate": True}),
        ("count", {"models": ["gpt2", "none"], "texts": ["a schema"]}),
        ("count", {"model": "gpt2", "messages": [{"role": "user", "content": "x"}], "allow_estimate": True}),
        ("/tokenize", {"model": "gpt2", "prompt": "a schema", "return_token_strs": True}),
        ("/detokenize", {"model": "gpt2", "tokens": [1]}),
        ("/detokenize", {"model": "gpt2", "tokens": [999_999]}),
        ("/utils/token_counter", {"model": "gpt2", "prompt": "a schema"}),
        ("/v1/messages/count_tokens", {"model": "gpt2", "messages": [{"role": "user", "content": "x"}]}),
        ("/v1/messages/count_tokens", {"model": "none", "messages": [{"role": "user", "content": "x"}]}),
    ],
)
def test_bodies_and_answers_are_as_the_schema_says(desk: Desk, operation: str, body: dict[str, Any]) -> None:
    path = operation if operation.startswith("/") else f"/api/v1/tokens/{operation}"
    described, found = openapi()[path]["post"], desk.post(operation, body)
    request = described["requestBody"]["content"]["application/json"]["schema"]
    if found.status == 200:
        jsonschema.Draft202012Validator(request).validate(body)
    (media,) = described["responses"][str(found.status)]["content"].values()
    jsonschema.Draft202012Validator(media["schema"]).validate(found.body)


def test_the_schema_refers_to_nothing_outside_itself(desk: Desk) -> None:
    described = openapi()
    assert "$ref" not in json.dumps(described)
    assert set(described) == set(desk.api.routes)


def test_the_examples_in_the_schema_are_what_it_says() -> None:
    for item in openapi().values():
        for content in item.get("post", {}).get("requestBody", {"content": {}})["content"].values():
            for example in content.get("examples", {}).values():
                jsonschema.Draft202012Validator(content["schema"]).validate(example["value"])
