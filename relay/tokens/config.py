"""The one writer of model rows. Each function is one transaction with its Change row; all raise `relay.http.Problem`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from relay.http import Problem, invalid
from relay.tenants import changes
from relay.tenants.changes import Actor
from relay.tenants.fields import checked
from relay.tokens.models import NAME_PATTERN, TokenModel
from relay.tokens.registry import Source
from relay.tokens.sandbox import TemplateFault, compiled

NAME = re.compile(NAME_PATTERN)
NAME_RULE = "must be NAME or ORG/NAME, each of 1 to 96 letters, digits, '.', '_', '-', beginning with a letter or digit"
TEMPLATE_BYTES = 64 * 1024
CONTEXT_MOST = 100_000_000

ModelName = Annotated[str, Meta(max_length=200, description="As callers say it: gpt2, or ORG/NAME as on the hub.")]
Aliases = Annotated[
    list[Annotated[str, Meta(max_length=200)]],
    Meta(max_length=20, description="Other names for it; no two models share a name or an alias."),
]
Location = Annotated[
    str,
    Meta(
        max_length=1000,
        description="hub: a repository id, empty for the name itself; path: a folder or tokenizer.json on the server; "
        "package: empty; estimate: the model whose counts are multiplied.",
    ),
]
Revision = Annotated[
    str, Meta(max_length=100, description="hub: a commit or tag. path: any label; a new one loads the files again.")
]
Template = Annotated[
    str, Meta(description="Jinja source in place of the model's own chat template; empty: its own. At most 64 KiB.")
]
ContextSize = Annotated[
    int, Meta(ge=1, le=CONTEXT_MOST, description="Tokens of prompt and answer together; null: as its files say.")
]
Dollars = Annotated[float, Meta(ge=0, le=1_000_000, description="US dollars a million tokens; null: as genai-prices.")]
Factor = Annotated[float, Meta(gt=0, le=100, description="estimate: what the other model's count is multiplied by.")]
Day = Annotated[date, Meta(description="estimate: when the factor was measured.")]


class NewModel(Struct, forbid_unknown_fields=True, kw_only=True):
    """What makes a model."""

    name: ModelName
    aliases: Aliases = []
    source: Source = "hub"
    location: Location = ""
    revision: Revision = ""
    chat_template: Template = ""
    context_size: ContextSize | None = None
    input_price: Dollars | None = None
    output_price: Dollars | None = None
    estimate_factor: Factor | None = None
    estimate_date: Day | None = None


class ModelPatch(Struct, forbid_unknown_fields=True, kw_only=True):
    """What of a model can be changed. Another source, location or revision loads its tokenizer again."""

    aliases: Aliases | UnsetType = UNSET
    source: Source | UnsetType = UNSET
    location: Location | UnsetType = UNSET
    revision: Revision | UnsetType = UNSET
    chat_template: Template | UnsetType = UNSET
    context_size: ContextSize | UnsetType | None = UNSET
    input_price: Dollars | UnsetType | None = UNSET
    output_price: Dollars | UnsetType | None = UNSET
    estimate_factor: Factor | UnsetType | None = UNSET
    estimate_date: Day | UnsetType | None = UNSET


def find_model(name: str) -> TokenModel:
    """By its name, not an alias. Raises 404 `model-not-found`."""
    row = TokenModel.objects.filter(name=name).first() if NAME.fullmatch(name) else None
    if row is None:
        detail = f"There is no model {name[:200]!r}. GET /api/v1/tokens/models lists them."
        raise Problem(404, "model-not-found", detail)
    return row


def create_model(fields: Mapping[str, Any], *, actor: Actor, reason: str = "") -> TokenModel:
    """The running server begins to load it at once. Raises 400 `invalid`, 409 `in-use` for a name that is taken."""
    new = checked(fields, NewModel)
    row = TokenModel(**asdict(new))
    _check_names(row)
    _check_template(row.chat_template)
    with changes.writing():
        _check_free(row)
        _check_source(row)
        row.save()
        changes.record(actor, "model", row.name, "create", None, model_fields(row), reason=reason)
    return row


def update_model(name: str, fields: Mapping[str, Any], *, actor: Actor, reason: str = "") -> TokenModel:
    """Changes what the fields name. A tokenizer that is in use serves until the new one is ready.

    Raises 400 `invalid`, 404 `model-not-found`, 409 `in-use` for an alias that is taken.
    """
    patch = checked(fields, ModelPatch)
    if patch.chat_template is not UNSET:
        _check_template(patch.chat_template)
    with changes.writing():
        row = find_model(name)
        before = model_fields(row)
        for field, value in asdict(patch).items():
            if value is not UNSET:
                setattr(row, field, value)
        after = model_fields(row)
        if after != before:
            _check_names(row)
            _check_free(row)
            _check_source(row)
            row.save()
            changes.record(actor, "model", name, "update", before, after, reason=reason)
    return row


def delete_model(name: str, *, actor: Actor, reason: str = "") -> None:
    """Its counts end at once. Raises 404 `model-not-found`, 409 `in-use` for the base of an estimate."""
    with changes.writing():
        row = find_model(name)
        users = _estimates_of(name)
        if users:
            raise Problem(409, "in-use", f"Model {name!r} is the base of {', '.join(users[:5])}. Change these first.")
        before = model_fields(row)
        row.delete()
        changes.record(actor, "model", name, "delete", before, None, reason=reason)


def model_fields(row: TokenModel) -> dict[str, Any]:
    """A model's configuration, as bodies, answers, the change log and exports write it."""
    return {
        "name": row.name,
        "aliases": list(row.aliases),
        "source": row.source,
        "location": row.location,
        "revision": row.revision,
        "chat_template": row.chat_template,
        "context_size": row.context_size,
        "input_price": row.input_price,
        "output_price": row.output_price,
        "estimate_factor": row.estimate_factor,
        "estimate_date": None if row.estimate_date is None else row.estimate_date.isoformat(),
    }


def _check_names(row: TokenModel) -> None:
    """The form of the name and the aliases, which are all different. Raises 400 `invalid`."""
    if not NAME.fullmatch(row.name):
        raise invalid("name", NAME_RULE)
    seen = {row.name}
    for index, alias in enumerate(row.aliases):
        if not NAME.fullmatch(alias):
            raise invalid(f"aliases[{index}]", NAME_RULE)
        if alias in seen:
            raise invalid(f"aliases[{index}]", f"{alias!r} stands here already; leave it out")
        seen.add(alias)


def _check_free(row: TokenModel) -> None:
    """Nobody else has one of its names. Raises 409 `in-use`."""
    mine = {row.name, *row.aliases}
    others = TokenModel.objects.exclude(pk=row.pk).only("name", "aliases")
    for other in others:
        taken = sorted(mine & {other.name, *other.aliases})
        if taken:
            raise Problem(409, "in-use", f"The name {taken[0]!r} is taken by the model {other.name!r}. Choose another.")


def _check_template(source: str) -> None:
    """Raises 400 `invalid`."""
    if len(source.encode(errors="surrogatepass")) > TEMPLATE_BYTES:
        raise invalid("chat_template", f"at most {TEMPLATE_BYTES // 1024} KiB of UTF-8")
    try:
        compiled(source)
    except TemplateFault as fault:
        raise invalid("chat_template", str(fault)) from None


def _check_source(row: TokenModel) -> None:
    """What each source needs, and what it must not have. Raises 400 `invalid`."""
    if row.source == "estimate":
        _check_estimate(row)
        return
    if row.source == "path" and not row.location:
        raise invalid("location", "name a folder or a tokenizer.json on the server; source path needs it")
    if row.source == "package" and row.location:
        raise invalid("location", "must be empty: source package needs none")
    if row.source == "hub" and row.location and not NAME.fullmatch(row.location):
        raise invalid("location", "must be a repository id such as ORG/NAME, or empty for the model's own name")
    for field in ("estimate_factor", "estimate_date"):
        if getattr(row, field) is not None:
            raise invalid(
                field, f"only source estimate has it; leave it out, or set source to estimate (is {row.source})"
            )


def _check_estimate(row: TokenModel) -> None:
    base = TokenModel.objects.filter(name=row.location).first() if row.location else None
    if base is None or base.source == "estimate" or base.name == row.name:
        raise invalid("location", "name a configured model that is itself counted; its counts are multiplied")
    if row.estimate_factor is None:
        raise invalid("estimate_factor", "say what the other model's count is multiplied by, such as 1.2")
    if row.estimate_date is None:
        raise invalid("estimate_date", "say when the factor was measured, such as 2026-11-30")
    users = _estimates_of(row.name)
    if users:
        raise invalid("source", f"{', '.join(users[:5])} is estimated from this model; change that first")


def _estimates_of(name: str) -> list[str]:
    rows: Iterable[str] = TokenModel.objects.filter(source="estimate", location=name).values_list("name", flat=True)
    return list(rows)
