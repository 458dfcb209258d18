"""POST: what an admin changes about models on this page; all else of their configuration is the API's."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from dashboard.pool.fields import decimal, whole
from dashboard.roles import by_script, problem_response, require
from relay.http import Problem
from relay.tenants.changes import Actor
from relay.tokens import config


@require_POST
@require("admin")
def add_model(request: HttpRequest) -> HttpResponse:
    """Adds a model; its tokenizer begins to load at once."""
    try:
        row = config.create_model(_fields(request.POST), actor=Actor("person", request.user.get_username()))
    except Problem as problem:
        if by_script(request):
            return problem_response(problem)
        messages.error(request, problem.detail)
    else:
        if by_script(request):
            return HttpResponse(status=204)
        messages.success(request, _("%(model)s is being loaded.") % {"model": row.name})
    return redirect("tokens")


def _fields(form: QueryDict) -> dict[str, Any]:
    """A model as the configuration takes it; an empty field is its default."""
    found: dict[str, Any] = {name: form.get(name, "").strip() for name in ("name", "source", "location")}
    context, price = form.get("context_size", "").strip(), form.get("input_price", "").strip()
    if context:
        found["context_size"] = whole(context)
    if price:
        found["input_price"] = decimal(price)
    return found
