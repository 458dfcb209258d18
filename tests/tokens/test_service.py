"""The service: one load, one computation for equal texts, keys that tell tokenizers and flags apart, a loop that goes on."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import connection

from relay.tokens import registry
from relay.tokens.models import TokenModel
from relay.tokens.registry import ModelSpec
from relay.tokens.service import ADD_SPECIAL, ALLOW_SPECIAL
from relay.tokens.tokenizer import Tokenizer
from tests.tokens import families
from tests.tokens.desk import GPT2, Desk

NewDesk = Callable[..., Desk]


async def until_state(desk: Desk, model: str, state: str) -> None:
    """Waits until a model is in a state."""
    async with asyncio.timeout(20):
        while {view.name: view.state for view in desk.service.models()}[model] != state:
            await asyncio.sleep(0.01)


def test_gpt2_is_ready_when_start_returns(desk: Desk) -> None:
    assert [(view.name, view.state) for view in desk.service.models()] == [("gpt2", "ready")]


@pytest.mark.django_db
def test_the_migration_configures_gpt2() -> None:
    migration = importlib.import_module("relay.tokens.migrations.0001_initial")
    TokenModel.objects.all().delete()
    for _ in range(2):
        migration.make_gpt2(apps, connection.schema_editor())
    assert [(row.name, row.source) for row in TokenModel.objects.all()] == [("gpt2", "package")]


@pytest.mark.django_db
def test_a_changed_row_is_another_spec() -> None:
    row = TokenModel.objects.create(name="acme/llama", source="path", location="/a")
    before = registry.spec_of(row)
    row.location = "/b"
    row.save()
    assert registry.spec_of(row) != before == registry.ModelSpec("acme/llama", "path", "/a", stamp=before.stamp)


@pytest.mark.parametrize("name", ["gpt2", "meta-llama/Llama-3.1-8B", "a_b.c"])
def test_names_of_the_hub_are_allowed(name: str) -> None:
    TokenModel(name=name).clean_fields()


@pytest.mark.parametrize("name", ["", "a/b/c", "../x", "/x", "x/", "a b", "gpt2\n"])
def test_names_that_are_no_ids_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        TokenModel(name=name).clean_fields()


def test_case_13_a_hundred_first_requests_load_a_model_once(
    new_desk: NewDesk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "relay.tokens")
    desk = new_desk()
    spec = ModelSpec("acme/bert", "path", str(families.written(families.word_piece(), tmp_path)))
    body = {"model": "acme/bert", "text": "hello"}

    async def work() -> set[int]:
        desk.service.set_models([GPT2, spec])
        early = await asyncio.gather(*(desk.send("POST", "count", body) for _ in range(100)))
        await until_state(desk, "acme/bert", "ready")
        late = await asyncio.gather(*(desk.send("POST", "count", body) for _ in range(100)))
        assert {answer.body["count"] for answer in late} == {1}
        assert {answer.body.get("code", "") for answer in early} <= {"", "tokenizer-unavailable"}
        assert all(answer.headers[b"retry-after"] == b"1" for answer in early if answer.status == 503)
        return {answer.status for answer in late}

    assert desk.run(work()) == {200}
    assert sum("acme/bert is ready" in record.getMessage() for record in caplog.records) == 1


def test_models_come_and_go_without_a_restart(new_desk: NewDesk, tmp_path: Path) -> None:
    desk = new_desk()
    spec = ModelSpec("acme/llama", "path", str(families.written(families.byte_bpe(), tmp_path) / "tokenizer.json"))

    async def work() -> None:
        desk.service.set_models([GPT2, spec])
        await until_state(desk, "acme/llama", "ready")

    desk.run(work())
    plain = desk.post("count", {"model": "acme/llama", "text": ""}).body
    special = desk.post("count", {"model": "acme/llama", "text": "", "add_special_tokens": True}).body
    assert (plain["count"], special["count"]) == (0, 1)
    assert ("acme/llama", "cache") in desk.meter.requests

    async def remove() -> None:
        desk.service.set_models([GPT2])

    desk.run(remove())
    assert desk.post("count", {"model": "acme/llama", "text": ""}).status == 404
    assert ("acme/llama", "cache") not in desk.meter.requests


def test_a_model_that_cannot_be_had_says_why(new_desk: NewDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    desk = new_desk(
        GPT2,
        ModelSpec("nobody/offline", "hub"),
        ModelSpec("lost", "path", "/no/such/folder"),
        ModelSpec("x", "package"),
    )
    for name, why in (("nobody/offline", "HF_HUB_OFFLINE"), ("lost", "does not exist"), ("x", "No installed package")):
        desk.run(until_state(desk, name, "failed"))
        began = time.perf_counter()
        refused = desk.post("count", {"model": name, "text": "hello"})
        assert time.perf_counter() - began < 0.1
        assert (refused.status, refused.body["code"]) == (503, "tokenizer-unavailable")
        assert why in refused.body["detail"]
        assert int(refused.headers[b"retry-after"]) >= 1
    assert desk.post("count", {"model": "gpt2", "text": "hello"}).status == 200


def test_a_changed_file_gets_other_cache_entries(new_desk: NewDesk, tmp_path: Path) -> None:
    folder = families.written(families.byte_bpe(), tmp_path)
    spec = ModelSpec("acme/llama", "path", str(folder), stamp="1")
    desk = new_desk(spec)
    desk.run(until_state(desk, "acme/llama", "ready"))
    body = {"model": "acme/llama", "text": "hello</think>", "allow_special": True}
    before = desk.post("count", body).body
    found = json.loads((folder / "tokenizer.json").read_text())
    found["added_tokens"] = [token for token in found["added_tokens"] if token["content"] != "</think>"]
    (folder / "tokenizer.json").write_text(json.dumps(found))

    async def reload() -> int:
        desk.service.set_models([ModelSpec("acme/llama", "path", str(folder), stamp="2")])
        during = await desk.send("POST", "count", body)
        await until_state(desk, "acme/llama", "ready")
        return during.status

    assert desk.run(reload()) == 200, "the former tokenizer serves until the new one is ready"
    after = desk.post("count", body).body
    assert (before["tokenizer"] == after["tokenizer"], after["source"]) == (False, "computed")
    assert after["count"] > before["count"]


def test_models_and_flags_do_not_share_cache_entries(new_desk: NewDesk, tmp_path: Path) -> None:
    desk = new_desk(GPT2, ModelSpec("acme/bert", "path", str(families.written(families.word_piece(), tmp_path))))
    desk.run(until_state(desk, "acme/bert", "ready"))
    seen = [
        desk.run(desk.service.count("search", model, "hello [SEP] world", flags))[:2]
        for model in ("gpt2", "acme/bert")
        for flags in (0, ADD_SPECIAL, ALLOW_SPECIAL, ADD_SPECIAL | ALLOW_SPECIAL)
    ]
    assert [source for _, source in seen] == ["computed"] * 8
    assert [count for count, _ in seen[4:]] == [5, 7, 3, 5]
    assert desk.run(desk.service.encode("search", "gpt2", ["hello [SEP] world"])).source == "computed"


def test_equal_texts_at_the_same_moment_are_computed_once(new_desk: NewDesk, gpt2: Tokenizer) -> None:
    desk = new_desk()
    text = "the same long text for everybody " * 3000

    async def cpu_s(callers: int, text: str) -> float:
        began = time.process_time()
        found = await asyncio.gather(*(desk.service.count("search", "gpt2", text) for _ in range(callers)))
        assert {count for count, _, _ in found} == set(gpt2.counts([text]))
        return time.process_time() - began

    alone = desk.run(cpu_s(1, f"{text}!"))
    assert desk.run(cpu_s(60, text)) < 15 * alone
    assert len(desk.service.levels.texts) == 2


def test_a_caller_that_leaves_does_not_take_the_work_from_the_others(new_desk: NewDesk, gpt2: Tokenizer) -> None:
    desk = new_desk()
    text = "somebody leaves, somebody stays " * 3000

    async def work() -> int:
        leaving = asyncio.ensure_future(desk.service.count("search", "gpt2", text))
        staying = asyncio.ensure_future(desk.service.count("search", "gpt2", text))
        await asyncio.sleep(0)
        leaving.cancel()
        return (await staying)[0]

    assert [desk.run(work())] == gpt2.counts([text])


def test_others_are_served_while_a_megabyte_is_counted(new_desk: NewDesk) -> None:
    desk = new_desk()

    async def work() -> tuple[int, float, int]:
        huge = asyncio.ensure_future(desk.service.count("search", "gpt2", "a" * 1_000_000))
        worst, served = 0.0, 0
        while not huge.done():
            began = time.perf_counter()
            await desk.service.count("search", "gpt2", f"meanwhile {served} " * 40)
            worst, served = max(worst, time.perf_counter() - began), served + 1
        return (await huge)[0], worst, served

    count, worst, served = desk.run(work())
    assert count == 250_000
    assert worst < 0.25
    assert served > 20


def test_a_stopped_service_refuses_work(token_data: Path) -> None:
    desk = Desk(token_data)
    desk.run(desk.service.stop())
    refused = desk.post("count", {"model": "gpt2", "text": "too late " * 100})
    assert (refused.status, refused.body["code"]) == (503, "shutting-down")
    desk.close()
