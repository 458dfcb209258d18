"""The shelf: aliases, what reloads and what does not, how many stay in memory, and loading in a process of its own."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from relay.http import Problem
from relay.tokens import child, shelf, sources
from relay.tokens.child import load_in_child, packed, unpacked
from relay.tokens.registry import ModelSpec
from relay.tokens.slot import ENTRY_BYTES
from relay.tokens.sources import Loaded, SourceFault, load, load_from
from tests.tokens import families
from tests.tokens.desk import GPT2, Desk

NewDesk = Callable[..., Desk]


async def until_state(desk: Desk, model: str, *states: str) -> None:
    """Waits until a model is in one of these states."""
    async with asyncio.timeout(30):
        while {view.name: view.state for view in desk.service.models()}[model] not in states:
            await asyncio.sleep(0.01)


def states(desk: Desk) -> dict[str, str]:
    """The state of each model."""
    return {view.name: view.state for view in desk.service.models()}


def small(folder: Path, *names: str) -> list[ModelSpec]:
    """Models with one small tokenizer."""
    place = families.written(families.word_piece(), folder)
    return [ModelSpec(name, "path", str(place)) for name in names]


def count(desk: Desk, model: str) -> tuple[int, str]:
    """The status of a count, and its problem's code."""
    answer = desk.post("count", {"model": model, "text": "hello"})
    return answer.status, answer.body.get("code", "")


def test_an_alias_is_the_model_and_is_metered_as_it(new_desk: NewDesk) -> None:
    desk = new_desk(ModelSpec("gpt2", "package", aliases=("gpt-2", "openai-community/gpt2")))
    for name in ("gpt-2", "openai-community/gpt2", "gpt2"):
        assert desk.post("count", {"model": name, "text": "one cache for all names"}).body["count"] == 5
    assert {model for model, _ in desk.meter.tokens} == {"gpt2"}
    (view,) = desk.service.models()
    assert (view.hits, view.misses) == (2, 1)


def test_only_another_origin_loads_again(new_desk: NewDesk, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "relay.tokens")
    (spec,) = small(tmp_path, "acme/bert")
    desk = new_desk(GPT2, spec)
    desk.run(until_state(desk, "acme/bert", "ready"))

    async def change(**fields: object) -> None:
        changed = {name: getattr(spec, name) for name in spec.__struct_fields__} | fields
        desk.service.set_models([GPT2, ModelSpec(**changed)])

    desk.run(change(aliases=("bert",), input_price=2.0, context_size=512, chat_template="{{ messages }}"))
    assert states(desk)["acme/bert"] == "ready"
    slot = desk.service.slot("bert")
    assert slot is not None
    assert (slot.context_size, slot.chat_template()) == (512, "{{ messages }}")
    assert count(desk, "bert") == (200, "")
    desk.run(change(revision="2"))
    assert states(desk)["acme/bert"] == "loading"
    assert count(desk, "acme/bert") == (200, ""), "the former one serves meanwhile"
    assert count(desk, "bert") == (404, "model-not-found")
    desk.run(until_state(desk, "acme/bert", "ready"))
    assert sum("acme/bert is ready" in record.getMessage() for record in caplog.records) == 2


def test_those_beyond_the_bound_wait_until_they_are_asked_for(
    new_desk: NewDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "LOADED_MOST", 3)
    desk = new_desk(GPT2, *small(tmp_path, "a", "b", "c"))
    for name in ("a", "b"):
        desk.run(until_state(desk, name, "ready"))
        assert count(desk, name)[0] == 200
    assert states(desk)["c"] == "idle"
    count(desk, "a")
    first = desk.post("count", {"model": "c", "text": "hello"})
    assert (first.status, first.headers[b"retry-after"]) == (503, b"1")
    assert "being loaded" in first.body["detail"]
    desk.run(until_state(desk, "c", "ready"))
    assert states(desk) == {"gpt2": "idle", "a": "ready", "b": "ready", "c": "ready"}
    assert count(desk, "c") == (200, "")
    count(desk, "a")
    assert count(desk, "gpt2") == (503, "tokenizer-unavailable")
    desk.run(until_state(desk, "gpt2", "ready"))
    assert states(desk) == {"gpt2": "ready", "a": "ready", "b": "idle", "c": "ready"}, "b was unused for the longest"
    assert [view.loaded for view in desk.service.models()] == [True, False, True, True]


def test_a_hundred_requests_for_an_idle_model_load_it_once(
    new_desk: NewDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "relay.tokens")
    monkeypatch.setattr(shelf, "LOADED_MOST", 1)
    desk = new_desk(GPT2, *small(tmp_path, "a"))

    async def work() -> None:
        asked = [desk.send("POST", "count", {"model": "a", "text": "hello"}) for _ in range(100)]
        assert {answer.status for answer in await asyncio.gather(*asked)} == {503}
        await until_state(desk, "a", "ready")

    desk.run(work())
    assert sum("a is ready" in record.getMessage() for record in caplog.records) == 1
    assert count(desk, "a") == (200, "")


def test_memory_is_bounded_too(new_desk: NewDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "LOADED_BYTES", ENTRY_BYTES * 50_260)
    desk = new_desk()
    assert count(desk, "gpt2") == (200, "")

    async def add() -> None:
        desk.service.set_models([GPT2, *small(tmp_path, "a")])
        await until_state(desk, "a", "ready", "idle")

    desk.run(add())
    assert states(desk) == {"gpt2": "ready", "a": "idle"}, "nobody had asked for a"


def test_an_estimated_model_is_ready_and_says_how_to_ask(new_desk: NewDesk) -> None:
    claude = ModelSpec("claude", "estimate", "gpt2", estimate_factor=1.2, estimate_date="2026-11-01")
    desk = new_desk(GPT2, claude)
    assert states(desk)["claude"] == "ready"
    refusal = desk.post("count", {"model": "claude", "text": "hello"})
    assert (refusal.status, refusal.body["code"]) == (503, "tokenizer-unavailable")
    assert "allow_estimate" in refusal.body["detail"]
    assert b"retry-after" not in refusal.headers, "another try would not help"


def test_what_stands_beside_a_tokenizer_is_read(tmp_path: Path) -> None:
    folder = families.written(families.byte_bpe(), tmp_path / "model")
    said = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin|>",
        "eos_token": {"content": "<|im_end|>", "__type": "AddedToken"},
        "model_max_length": 4096,
        "chat_template": [
            {"name": "default", "template": "{{ bos_token }}plain"},
            {"name": "tool_use", "template": "{{ bos_token }}tools"},
        ],
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    traits = load(ModelSpec("m", "path", str(folder)), tmp_path).traits
    assert (traits.special_map["bos_token"], traits.special_map["eos_token"]) == ("<|begin|>", "<|im_end|>")
    assert (traits.template(), traits.template(tools=True)) == ("{{ bos_token }}plain", "{{ bos_token }}tools")
    assert traits.context_size == 4096


@pytest.mark.parametrize(
    ("declared", "positions", "size"), [(10**30, 512, 512), (10**30, None, None), (None, "x", None)]
)
def test_a_context_size_that_nobody_set_is_unknown(
    tmp_path: Path, declared: object, positions: object, size: int | None
) -> None:
    folder = families.written(families.byte_bpe(), tmp_path / "model")
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": declared}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "max_position_embeddings": positions}))
    assert load(ModelSpec("m", "path", str(folder)), tmp_path).traits.context_size == size


def test_gpt2s_context_is_known(token_data: Path) -> None:
    assert load(GPT2, token_data).traits.context_size == 1024


@pytest.mark.parametrize("family", [families.byte_bpe, families.word_piece, families.unigram])
def test_a_tokenizer_is_the_same_after_it_was_handed_over(family: Callable[[], object], tmp_path: Path) -> None:
    made = family()
    here = load_from(families.written(made, tmp_path))  # type: ignore[arg-type]  # each makes a Tokenizer
    there = unpacked(packed(here))
    assert isinstance(there, Loaded)
    assert (there.tokenizer.fingerprint, there.checked, there.traits) == (
        here.tokenizer.fingerprint,
        here.checked,
        here.traits,
    )
    texts = [*sources.probes(), "hello </think> world<|im_end|>", "[SEP] hello", "</s>the world"]
    for allow in (False, True):
        for add in (False, True):
            options = {"allow_special": allow, "add_special": add}
            assert there.tokenizer.encode(texts, spans=True, **options) == here.tokenizer.encode(
                texts, spans=True, **options
            )
        long = " ".join(texts * 3)
        assert there.tokenizer.segments(long, allow_special=allow) == here.tokenizer.segments(long, allow_special=allow)
        assert there.tokenizer.part_counts(texts, True, allow_special=allow) == here.tokenizer.part_counts(
            texts, True, allow_special=allow
        )
    assert there.tokenizer.decode([1, 2, 3]) == here.tokenizer.decode([1, 2, 3])


def test_a_large_vocabulary_is_loaded_in_a_process_of_its_own(
    new_desk: NewDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SMALL_BYTES", 0)
    asked: list[Path] = []
    started = child.subprocess.run

    def run(command: list[str], **options: object) -> object:
        asked.append(Path(command[-1]))
        return started(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(child.subprocess, "run", run)
    (spec,) = small(tmp_path, "acme/bert")
    desk = new_desk(spec)
    desk.run(until_state(desk, "acme/bert", "ready", "failed"))
    assert count(desk, "acme/bert") == (200, "")
    assert asked == [Path(spec.location)]


def test_a_child_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Unheard"}}')
    with pytest.raises(SourceFault, match="Exception"):
        load_in_child(tmp_path)


def test_unknown_names_are_refused_without_a_search(desk: Desk) -> None:
    with pytest.raises(Problem, match="nobody/knows"):
        desk.service.find("nobody/knows")
    assert desk.service.slot("nobody/knows") is None
