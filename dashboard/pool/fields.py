"""What forms hold, as the configuration takes it. The configuration's own checks say what is wrong."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, QueryDict
from msgspec import UNSET, UnsetType

from relay.http import invalid

_WHOLE = ("limit", "guarantee", "max_waiters")


def whole(text: str) -> int | str:
    """A whole number, or the text as it is."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def decimal(text: str) -> float | str:
    """A number, or the text as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def pin(form: QueryDict) -> int | UnsetType | None:
    """The pin that an Undo puts back: empty is none, nothing given is no Undo. Raises 400 `invalid`."""
    if "pin" not in form:
        return UNSET
    found = whole(str(form["pin"]))
    if found == "":
        return None
    if isinstance(found, int):
        return found
    raise invalid("pin", "must be a whole number, or empty for none")


def version(request: HttpRequest) -> int | None:
    """The version of the pool that the person saw; None if the form did not say."""
    found = whole(request.POST.get("version", ""))
    return found if isinstance(found, int) else None


def share(form: QueryDict) -> dict[str, Any]:
    """A share; an empty field is its default: no override, no bound."""
    found: dict[str, Any] = {}
    for name in _WHOLE:
        given = form.get(name, "").strip()
        if given:
            found[name] = whole(given)
    weight, most_urgent = form.get("weight", "").strip(), form.get("max_priority", "")
    if weight:
        found["weight"] = decimal(weight)
    if most_urgent:
        found["max_priority"] = most_urgent
    return found


def text(value: Any) -> str:
    """A field's value as a form holds it."""
    if value is None:
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)
