"""Other services' addresses: their requests, their answers, their errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relay.tokens.registry import ModelSpec
from tests.tokens import families
from tests.tokens.desk import GPT2, KEY, READER, Desk

PLAIN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}{% for call in m.tool_calls %}"
    "{{ call.function.name }}({{ call.function.arguments.city }}){% endfor %}<|im_end|>{% endfor %}"
    "{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}<|im_start|>assistant: {% endif %}"
)
HELLO = [{"role": "user", "content": "hello"}]
TOKENIZE, DETOKENIZE, COUNTER, MESSAGES = (
    "/tokenize",
    "/detokenize",
    "/utils/token_counter",
    "/v1/messages/count_tokens",
)


@pytest.fixture(scope="module")
def made(token_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The API with gpt2, which has no chat template, a made model that has one, and an estimate."""
    folder = families.written(families.byte_bpe(), tmp_path_factory.mktemp("faces"))
    estimate = ModelSpec("claude", "estimate", "gpt2", aliases=("claude-sonnet-4-5",), estimate_factor=1.2)
    desk = Desk(
        token_data, [GPT2, ModelSpec("made", "path", str(folder), chat_template=PLAIN, context_size=4096), estimate]
    )
    desk.run(desk.all_loaded())
    yield desk
    desk.close()


def made_ids(text: str, *, special: bool = False) -> list[int]:
    """What the made tokenizer gives for a text."""
    found: list[int] = families.byte_bpe().encode(text, add_special_tokens=special).ids
    return found


def test_vllm_tokenize_of_a_prompt_adds_and_parses_specials(made: Desk) -> None:
    text = "hello <|im_end|>"
    found = made.post(TOKENIZE, {"model": "made", "prompt": text, "return_token_strs": True, "stream": 1}).body
    assert list(found) == ["count", "max_model_len", "tokens", "token_strs"]
    assert found["tokens"] == made_ids(text, special=True)
    assert (found["count"], found["max_model_len"]) == (len(found["tokens"]), 4096)
    assert (found["token_strs"][0], found["token_strs"][-1]) == ("<|begin|>", "<|im_end|>")
    bare = made.post(TOKENIZE, {"model": "made", "prompt": text, "add_special_tokens": False}).body
    assert (bare["tokens"], bare["token_strs"]) == (made_ids(text), None)


def test_vllm_tokenize_of_messages(made: Desk) -> None:
    found = made.post(TOKENIZE, {"model": "made", "messages": HELLO}).body
    assert found["tokens"] == made_ids("<|im_start|>user: hello<|im_end|><|im_start|>assistant: ")
    opened = {"model": "made", "messages": HELLO, "add_generation_prompt": False, "continue_final_message": True}
    assert made.post(TOKENIZE, opened).body["tokens"] == made_ids("<|im_start|>user: hello")
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}}
    called = [*HELLO, {"role": "assistant", "content": "", "tool_calls": [call]}]
    tokens = made.post(TOKENIZE, {"model": "made", "messages": called, "add_generation_prompt": False}).body["tokens"]
    assert tokens == made_ids("<|im_start|>user: hello<|im_end|><|im_start|>assistant: weather(Bonn)<|im_end|>")


def test_vllm_detokenize_gives_the_text_back(made: Desk) -> None:
    tokens = made.post(TOKENIZE, {"model": "gpt2", "prompt": "hello 世界"}).body["tokens"]
    assert made.post(DETOKENIZE, {"model": "gpt2", "tokens": tokens}).body == {"prompt": "hello 世界"}


@pytest.mark.parametrize(
    ("path", "body", "status", "param", "kind"),
    [
        (TOKENIZE, {"model": "made"}, 400, "prompt", "BadRequestError"),
        (TOKENIZE, {"model": "made", "prompt": 1}, 400, "prompt", "BadRequestError"),
        (TOKENIZE, {"model": "none", "prompt": "x"}, 404, None, "NotFoundError"),
        (TOKENIZE, {"model": "gpt2", "messages": HELLO}, 400, "messages", "BadRequestError"),
        (TOKENIZE, {"prompt": "x"}, 400, "model", "BadRequestError"),
        (TOKENIZE, {"model": "made", "messages": HELLO, "chat_template": "x"}, 400, "chat_template", "BadRequestError"),
        (
            TOKENIZE,
            {"model": "made", "messages": HELLO, "continue_final_message": True},
            400,
            "continue_final_message",
            "BadRequestError",
        ),
        (DETOKENIZE, {"model": "gpt2", "tokens": [1, 999_999]}, 400, "tokens[1]", "BadRequestError"),
        (TOKENIZE, b"not json", 400, "body", "BadRequestError"),
    ],
)
def test_vllm_errors_have_its_shape(
    made: Desk, path: str, body: Any, status: int, param: str | None, kind: str
) -> None:
    refused = made.post(path, body)
    error = refused.body["error"]
    assert (refused.status, error["code"], error["type"], error["param"]) == (status, status, kind, param)
    assert error["message"]
    assert refused.headers[b"content-type"] == b"application/json"


def test_litellm_counts_prompts_and_messages(made: Desk) -> None:
    found = made.post(COUNTER, {"model": "made", "prompt": "hello", "contents": None})
    assert found.body == {
        "total_tokens": len(made_ids("hello", special=True)),
        "request_model": "made",
        "model_used": "made",
        "tokenizer_type": "huggingface_tokenizer",
    }
    assert found.headers[b"x-relay-exact"] == b"true"
    chat = made.post(COUNTER, {"model": "made", "messages": HELLO}).body["total_tokens"]
    assert chat == made.post(TOKENIZE, {"model": "made", "messages": HELLO}).body["count"]


def test_litellm_without_a_template_estimates_and_says_so(made: Desk) -> None:
    found = made.post(COUNTER, {"model": "gpt2", "messages": HELLO})
    assert (found.body["total_tokens"], found.body["tokenizer_type"]) == (1 + 1 + 3 + 3, "estimate")
    assert found.headers[b"x-relay-exact"] == b"false"
    refused = made.post(COUNTER, {"model": "none", "messages": HELLO})
    assert (refused.status, refused.body["error"]["code"]) == (404, "404")


def test_anthropic_counts_with_the_configured_tokenizer_and_says_so(made: Desk) -> None:
    body = {
        "model": "made",
        "system": [{"type": "text", "text": "Be nice."}],
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Bonn"}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "rain"}]},
        ],
    }
    found = made.post(MESSAGES, body, key=None, headers=[(b"x-api-key", KEY.encode())])
    text = (
        "<|im_start|>system: Be nice.<|im_end|><|im_start|>user: hello<|im_end|>"
        "<|im_start|>assistant: weather(Bonn)<|im_end|><|im_start|>tool: rain<|im_end|><|im_start|>assistant: "
    )
    assert found.body["input_tokens"] == len(made_ids(text))
    assert (found.body["x_relay"]["model"], found.body["x_relay"]["exact"]) == ("made", True)
    tool = {"name": "weather", "description": "Says it", "input_schema": {"type": "object"}}
    assert made.post(MESSAGES, {**body, "tools": [tool]}).body["input_tokens"] > found.body["input_tokens"]


@pytest.mark.parametrize("model", ["claude", "claude-sonnet-4-5", "claude-opus-4-1"])
def test_case_25_a_claude_model_gets_an_estimate_that_says_so(made: Desk, model: str) -> None:
    found = made.post(MESSAGES, {"model": model, "messages": HELLO})
    assert (found.status, found.headers[b"x-relay-exact"]) == (200, b"false")
    assert found.body["input_tokens"] > 3
    assert (found.body["x_relay"]["exact"], found.body["x_relay"]["tokenizer"]) == (False, None)
    assert found.body["x_relay"]["estimate"]["method"]
    if model == "claude":
        assert found.body["x_relay"]["estimate"]["factor"] == 1.2
        own = made.post("count", {"model": model, "text": "hello"})
        assert (own.status, own.body["code"]) == (503, "tokenizer-unavailable")
        guessed = made.post("count", {"model": model, "text": "hello", "allow_estimate": True}).body
        assert (guessed["count"], guessed["exact"], guessed["tokenizer"]) == (2, False, None)


@pytest.mark.parametrize(
    ("body", "key", "status", "kind"),
    [
        ({"model": "none", "messages": HELLO}, KEY, 404, "not_found_error"),
        ({"model": "made"}, KEY, 400, "invalid_request_error"),
        (
            {"model": "made", "messages": [{"role": "user", "content": [{"type": "image"}]}]},
            KEY,
            400,
            "invalid_request_error",
        ),
        ({"model": "made", "messages": HELLO}, "relay_no_key", 401, "authentication_error"),
        ({"model": "made", "messages": HELLO}, READER, 403, "permission_error"),
        (b" " * (16 * 1024 * 1024 + 1), KEY, 413, "request_too_large"),
    ],
)
def test_anthropic_errors_have_its_shape(made: Desk, body: Any, key: str, status: int, kind: str) -> None:
    refused = made.post(MESSAGES, body, key=None, headers=[(b"x-api-key", key.encode())])
    assert refused.status == status
    assert (refused.body["type"], refused.body["error"]["type"]) == ("error", kind)
    assert refused.body["error"]["message"]


def test_only_post_is_answered(made: Desk) -> None:
    for path in (TOKENIZE, DETOKENIZE, COUNTER, MESSAGES):
        refused = made.get(path)
        assert (refused.status, refused.headers[b"allow"]) == (405, b"POST")
