"""The control plane of models: which there are, whether their tokenizers are loaded, what they cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol, cast
from urllib.parse import quote

from msgspec.structs import asdict
from rest_framework.request import Request
from rest_framework.response import Response

from relay.api import ApiView, actor, listed, named_page, query_reason, read_object
from relay.openapi import LIST_QUERY, REASON_QUERY, documented, list_of, ref
from relay.tenants import running
from relay.tenants.fields import rfc3339
from relay.tokens import config
from relay.tokens.config import NewModel
from relay.tokens.models import TokenModel
from relay.tokens.prices import Price, price_of
from relay.tokens.registry import spec_of
from relay.tokens.service import TokenService
from relay.tokens.slot import ModelView, Slot, State, view_of

LOCATION = {"Location": {"type": "string"}}


class Model(NewModel, kw_only=True):
    """A model: its configuration, and its tokenizer at this moment.

    `checked`: how the tokenizer was compared with AutoTokenizer's. `cuttable`: where texts are cut for reuse. `lossless`:
    decoding gives the text back. `hit_rate`: the share of texts answered from the cache since the start.
    """

    state: State
    loaded: bool
    why: str | None
    vocabulary_size: int | None
    tokenizer: str | None
    checked: str | None
    cuttable: str | None
    lossless: bool | None
    has_chat_template: bool
    effective_context_size: int | None
    price: Price | None
    hits: int
    misses: int
    hit_rate: float | None
    created_at: datetime
    updated_at: datetime


class Serving(Protocol):
    """A running server with its tokenizers."""

    tokens: TokenService

    def call(self, fn: Callable[..., Any], *args: Any, timeout_s: float = 10.0) -> Any:
        """Runs `fn(*args)` on the event loop."""


def model_answers(rows: Iterable[TokenModel]) -> list[dict[str, Any]]:
    """Models as answers show them. Where no server runs (a command, a test) nothing is loaded."""
    found = running.server()
    views: dict[str, ModelView] = {}
    if found is not None:
        serving = cast("Serving", found)
        views = {view.name: view for view in serving.call(serving.tokens.models)}
    return [_answer(row, views.get(row.name)) for row in rows]


def _answer(row: TokenModel, view: ModelView | None) -> dict[str, Any]:
    spec = spec_of(row)
    live = asdict(view or view_of(Slot(spec)))
    times = {"created_at": rfc3339(row.created_at), "updated_at": rfc3339(row.updated_at)}
    return live | config.model_fields(row) | {"price": price_of(spec)} | times


class ModelApiView(ApiView):
    """Who counts tokens may see the models, as may who reads."""

    read_scope = "tokens"
    read_scope_too = "read"
    write_scope = "admin"


class ModelsView(ModelApiView):
    """`/tokens/models`."""

    @documented(
        "list_token_models",
        "The models by name, whether their tokenizers are loaded, vocabulary size, hit rates and prices",
        answer=list_of("Model"),
        problems=("invalid", "engine-unavailable"),
        query=LIST_QUERY,
    )
    def get(self, request: Request) -> Response:
        """A page of models."""
        rows, following = named_page(request, TokenModel.objects.all())
        return listed(model_answers(rows), following)

    @documented(
        "create_token_model",
        "Adds a model; its tokenizer begins to load at once",
        answer=ref("Model"),
        status=201,
        body="NewModel",
        problems=("in-use", "engine-unavailable"),
        headers=LOCATION,
    )
    def post(self, request: Request) -> Response:
        """Makes a model."""
        fields, reason = read_object(request)
        row = config.create_model(fields, actor=actor(request), reason=reason)
        (answer,) = model_answers([row])
        return Response(answer, 201, headers={"Location": f"/api/v1/tokens/models/{quote(row.name)}"})


class ModelDetailView(ModelApiView):
    """`/tokens/models/{name}`; a name may hold one slash."""

    @documented("get_token_model", "One model", answer=ref("Model"), problems=("model-not-found", "engine-unavailable"))
    def get(self, request: Request, name: str) -> Response:
        """One model."""
        (answer,) = model_answers([config.find_model(name)])
        return Response(answer)

    @documented(
        "update_token_model",
        "Changes a model. With another source, location or revision its tokenizer loads again, the former one serving "
        "meanwhile",
        answer=ref("Model"),
        body="ModelPatch",
        problems=("model-not-found", "in-use", "engine-unavailable"),
    )
    def patch(self, request: Request, name: str) -> Response:
        """Changes a model."""
        fields, reason = read_object(request)
        (answer,) = model_answers([config.update_model(name, fields, actor=actor(request), reason=reason)])
        return Response(answer)

    @documented(
        "delete_token_model",
        "Removes a model, at once",
        answer=None,
        status=204,
        problems=("invalid", "model-not-found", "in-use", "engine-unavailable"),
        query=REASON_QUERY,
    )
    def delete(self, request: Request, name: str) -> Response:
        """Removes a model."""
        config.delete_model(name, actor=actor(request), reason=query_reason(request))
        return Response(status=204)
