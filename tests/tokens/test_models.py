"""Models over the API: made, changed and deleted with their rules, told in the change log, and seen with their state."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from relay.tenants.keys import create_key
from relay.tenants.models import Change
from relay.tokens import config
from relay.tokens.models import TokenModel
from tests.control.cast import SETUP, Api, Cast, make_cast, refused
from tests.relay_server import RelayServer
from tests.tokens import families

PATH = "/tokens/models"
LLAMA = {"name": "acme/llama", "source": "path", "location": "/models/llama", "aliases": ["llama", "our-chat"]}
CLAUDE = {
    "name": "claude",
    "source": "estimate",
    "location": "gpt2",
    "estimate_factor": 1.2,
    "estimate_date": "2026-11-01",
}


@pytest.fixture
def cast(db: None) -> Cast:
    """Keys of two tenants with different scopes."""
    return make_cast()


def make(cast: Cast, **fields: Any) -> dict[str, Any]:
    """A model that was made."""
    response = cast.admin("POST", PATH, fields)
    assert response.status_code == 201, response.content
    answer: dict[str, Any] = response.json()
    return answer


def test_an_admin_makes_reads_changes_and_deletes_a_model(cast: Cast) -> None:
    response = cast.admin("POST", PATH, {**LLAMA, "reason": "the new chat model"})
    assert (response.status_code, response["Location"]) == (201, "/api/v1/tokens/models/acme/llama")
    made = response.json()
    assert {name: made[name] for name in LLAMA} == LLAMA
    assert cast.reader("GET", f"{PATH}/acme/llama").json() == made
    changed = cast.admin("PATCH", f"{PATH}/acme/llama", {"aliases": ["llama"], "context_size": 8192}).json()
    assert (changed["aliases"], changed["context_size"], changed["effective_context_size"]) == (["llama"], 8192, 8192)
    assert cast.admin("PATCH", f"{PATH}/acme/llama", {"context_size": None}).json()["context_size"] is None
    assert cast.admin("DELETE", f"{PATH}/acme/llama?reason=gone").status_code == 204
    refused(cast.admin("GET", f"{PATH}/acme/llama"), 404, "model-not-found")
    log = [(row.action, row.name, row.reason) for row in Change.objects.filter(kind="model").order_by("id")]
    assert [action for action, _, _ in log] == ["create", "update", "update", "delete"]
    assert (log[0], log[3]) == (("create", "acme/llama", "the new chat model"), ("delete", "acme/llama", "gone"))


def test_what_changes_nothing_is_not_told(cast: Cast) -> None:
    make(cast, **LLAMA)
    before = Change.objects.count()
    assert cast.admin("PATCH", f"{PATH}/acme/llama", {"aliases": ["llama", "our-chat"]}).status_code == 200
    assert Change.objects.count() == before


def test_who_may_what(cast: Cast) -> None:
    counter = Api(make_key("tokens"))
    for caller, status in ((counter, 200), (cast.reader, 200), (cast.permits, 403), (cast.nobody, 401)):
        assert caller("GET", PATH).status_code == status
        assert caller("GET", f"{PATH}/gpt2").status_code == status
    for caller in (counter, cast.operator):
        refused(caller("POST", PATH, LLAMA), 403, "forbidden")
        refused(caller("PATCH", f"{PATH}/gpt2", {}), 403, "forbidden")
        refused(caller("DELETE", f"{PATH}/gpt2"), 403, "forbidden")


def make_key(scope: str) -> str:
    """A key of the tenant `search` with one scope."""
    return create_key("search", scope, (scope,), SETUP, make_tenant=True)[0]


def test_the_list_has_pages_and_every_field_of_the_document(cast: Cast) -> None:
    make(cast, **LLAMA)
    first = cast.reader("GET", f"{PATH}?limit=1").json()
    assert [item["name"] for item in first["items"]] == ["acme/llama"]
    second = cast.reader("GET", f"{PATH}?limit=1&cursor={first['next']}").json()
    assert ([item["name"] for item in second["items"]], second["next"]) == (["gpt2"], None)
    (gpt2,) = second["items"]
    assert (gpt2["source"], gpt2["state"], gpt2["loaded"], gpt2["price"]) == ("package", "idle", False, None)
    for query in ("limit=0", "limit=501", "limit=x", "cursor=gpt2!"):
        refused(cast.reader("GET", f"{PATH}?{query}"), 400, "invalid", query.split("=")[0])


@pytest.mark.parametrize("name", ["gpt2", "acme/llama", "llama"])
def test_a_name_is_taken_by_names_and_by_aliases(cast: Cast, name: str) -> None:
    make(cast, **LLAMA)
    before = TokenModel.objects.count()
    assert name in refused(cast.admin("POST", PATH, {"name": name}), 409, "in-use")["detail"]
    refused(cast.admin("POST", PATH, {"name": "another", "aliases": [name]}), 409, "in-use")
    assert TokenModel.objects.count() == before
    if name != "gpt2":
        refused(cast.admin("PATCH", f"{PATH}/gpt2", {"aliases": [name]}), 409, "in-use")
        assert TokenModel.objects.get(name="gpt2").aliases == []


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"name": ""}, "name"),
        ({"name": "a/b/c"}, "name"),
        ({"name": "../x"}, "name"),
        ({"name": "x\n"}, "name"),
        ({"name": 7}, "name"),
        ({"aliases": ["a b"]}, "aliases[0]"),
        ({"aliases": ["a", "a"]}, "aliases[1]"),
        ({"aliases": ["new"]}, "aliases[0]"),
        ({"aliases": [f"a{number}" for number in range(21)]}, "aliases"),
        ({"aliases": "a"}, "aliases"),
        ({"source": "pypi"}, "source"),
        ({"source": "path"}, "location"),
        ({"source": "package", "location": "x"}, "location"),
        ({"source": "hub", "location": "https://hub/x"}, "location"),
        ({"location": "a\0b"}, "location"),
        ({"location": "x" * 1001}, "location"),
        ({"context_size": 0}, "context_size"),
        ({"context_size": 2.5}, "context_size"),
        ({"input_price": -1}, "input_price"),
        ({"output_price": True}, "output_price"),
        ({"output_price": "1"}, "output_price"),
        ({"estimate_factor": 1.5}, "estimate_factor"),
        ({"estimate_date": "2026-11-01"}, "estimate_date"),
        ({"chat_template": "{% for %}"}, "chat_template"),
        ({"chat_template": "{{ messages | no_such_filter }}"}, "chat_template"),
        ({"chat_template": "{% break %}"}, "chat_template"),
        ({"chat_template": "x" * 65_537}, "chat_template"),
        ({"chat_template": None}, "chat_template"),
        ({"vocabulary_size": 5}, "vocabulary_size"),
        ({**CLAUDE, "name": "new", "location": "nobody"}, "location"),
        ({**CLAUDE, "name": "new", "location": ""}, "location"),
        ({**CLAUDE, "name": "new", "location": "new"}, "location"),
        ({**CLAUDE, "name": "new", "estimate_factor": 0}, "estimate_factor"),
        ({**CLAUDE, "name": "new", "estimate_factor": None}, "estimate_factor"),
        ({**CLAUDE, "name": "new", "estimate_date": None}, "estimate_date"),
        ({**CLAUDE, "name": "new", "estimate_date": "last week"}, "estimate_date"),
    ],
)
def test_a_wrong_field_is_named_and_changes_nothing(cast: Cast, fields: dict[str, Any], named: str) -> None:
    refused(cast.admin("POST", PATH, {"name": "new", **fields}), 400, "invalid", named)
    if "name" not in fields:
        make(cast, name="new")
        row = config.model_fields(TokenModel.objects.get(name="new"))
        refused(cast.admin("PATCH", f"{PATH}/new", fields), 400, "invalid", named)
        assert config.model_fields(TokenModel.objects.get(name="new")) == row
    else:
        assert list(TokenModel.objects.values_list("name", flat=True)) == ["gpt2"]


def test_not_a_number_is_no_price(cast: Cast) -> None:
    for price in (float("nan"), float("inf")):
        with pytest.raises(Exception, match="input_price"):
            config.create_model({"name": "new", "input_price": price}, actor=SETUP)


def test_a_template_that_transformers_can_use_is_taken(cast: Cast) -> None:
    template = "{% for message in messages %}{% generation %}{{ message.content }}{% endgeneration %}{% endfor %}"
    made = make(cast, name="new", chat_template=template)
    assert (made["chat_template"], made["has_chat_template"]) == (template, True)


def test_the_base_of_an_estimate_stays(cast: Cast) -> None:
    made = make(cast, **CLAUDE)
    assert (made["estimate_factor"], made["estimate_date"], made["state"]) == (1.2, "2026-11-01", "ready")
    assert "claude" in refused(cast.admin("DELETE", f"{PATH}/gpt2"), 409, "in-use")["detail"]
    refused(cast.admin("POST", PATH, {**CLAUDE, "name": "opus", "location": "claude"}), 400, "invalid", "location")
    make(cast, **LLAMA)
    circle = {**CLAUDE, "location": "acme/llama"}
    del circle["name"]
    refused(cast.admin("PATCH", f"{PATH}/gpt2", circle), 400, "invalid", "source")
    assert cast.admin("PATCH", f"{PATH}/claude", {"location": "acme/llama"}).status_code == 200
    assert cast.admin("DELETE", f"{PATH}/gpt2").status_code == 204


def test_an_estimate_becomes_a_model_of_its_own(cast: Cast) -> None:
    make(cast, **CLAUDE)
    half = {"source": "path", "location": "/models/claude"}
    refused(cast.admin("PATCH", f"{PATH}/claude", half), 400, "invalid", "estimate_factor")
    whole = {**half, "estimate_factor": None, "estimate_date": None}
    assert cast.admin("PATCH", f"{PATH}/claude", whole).json()["source"] == "path"


def test_what_the_log_says_can_be_sent_again(cast: Cast) -> None:
    make(cast, **CLAUDE)
    after = Change.objects.filter(kind="model").latest("id").after
    cast.admin("DELETE", f"{PATH}/claude")
    make(cast, **after)
    assert config.model_fields(TokenModel.objects.get(name="claude")) == after


@pytest.mark.parametrize("name", ["nobody", "llama", "acme/llama/x", "gpt2/", "a b", "x" * 300])
def test_only_a_models_own_name_is_its_address(cast: Cast, name: str) -> None:
    make(cast, **LLAMA)
    for method, body in (("GET", None), ("PATCH", {}), ("DELETE", None)):
        refused(cast.admin(method, f"{PATH}/{name}", body), 404, "model-not-found")


def test_prices_by_hand_go_before_the_table(cast: Cast) -> None:
    listed = make(cast, name="gpt-4o", source="path", location="/x")["price"]
    assert listed["source"].startswith("genai-prices ")
    assert listed["input_per_million"] > 0
    changed = cast.admin("PATCH", f"{PATH}/gpt-4o", {"input_price": 0, "output_price": 7.5}).json()["price"]
    assert (changed["input_per_million"], changed["output_per_million"]) == (0, 7.5)
    assert (changed["source"], changed["currency"], len(changed["date"])) == ("set by hand", "USD", 10)


def test_models_come_change_and_go_in_a_running_server(relay: RelayServer, tmp_path: Path) -> None:
    name, alias = "acme/coming-and-going", "coming"
    place = families.written(families.word_piece(), tmp_path)
    with relay.http() as admin:

        def count(model: str, text: str = "hello [SEP] world") -> tuple[int, Any]:
            answer = admin.post("/api/v1/tokens/count", json={"model": model, "text": text})
            return answer.status_code, answer.json().get("count", answer.json().get("code"))

        def until_ready() -> dict[str, Any]:
            for _ in range(300):
                found: dict[str, Any] = admin.get(f"/api/v1{PATH}/{name}").json()
                if found["state"] == "ready":
                    return found
                time.sleep(0.1)
            raise AssertionError(found)

        fields = {"name": name, "source": "path", "location": str(place), "aliases": [alias]}
        assert admin.post(f"/api/v1{PATH}", json=fields).status_code == 201
        ready = until_ready()
        assert (ready["loaded"], ready["vocabulary_size"]) == (True, 15)
        assert count(name) == count(alias) == (200, 5)
        families.written(families.byte_bpe(), place)
        assert admin.patch(f"/api/v1{PATH}/{name}", json={"aliases": []}).json()["tokenizer"] == ready["tokenizer"]
        assert count(alias) == (404, "model-not-found")
        assert admin.patch(f"/api/v1{PATH}/{name}", json={"revision": "byte-level"}).status_code == 200
        assert count(name)[0] == 200, "the former one serves until the new one is there"
        assert until_ready()["tokenizer"] != ready["tokenizer"]
        assert admin.delete(f"/api/v1{PATH}/{name}").status_code == 204
        assert count(name) == (404, "model-not-found")
