"""What configuration looks like from outside: names, times, and how fields are checked. Used by every writer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from relay.http import Problem, invalid, misfit

NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
NAME_RULE = "must be 1 to 63 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit"

Name = Annotated[str, Meta(pattern=NAME_PATTERN, max_length=63)]
Description = Annotated[str, Meta(max_length=1000)]
Weight = Annotated[float, Meta(ge=0.000001, le=1_000_000)]

T = TypeVar("T")


def checked(fields: Mapping[str, Any], shape: type[T]) -> T:
    """Fields as a struct: types strict, nothing unknown, no NUL. Raises 400 `invalid` that names the field."""
    try:
        struct = msgspec.convert(fields, shape)
    except msgspec.ValidationError as error:
        # a name's is the only pattern of ours
        raise misfit(error, NAME_RULE if "matching regex" in str(error) else None) from None
    for field, value in fields.items():
        if isinstance(value, str) and "\x00" in value:
            raise invalid(field, "must not contain a NUL character")
    return struct


def checked_name(name: str, field: str = "name") -> str:
    """A name of ours. Raises 400 `invalid`."""
    if not NAME.fullmatch(name):
        raise invalid(field, NAME_RULE)
    return name


def not_found(what: str, name: str) -> Problem:
    """404 `not-found`."""
    return Problem(404, "not-found", f"There is no {what} {name[:100]!r}.")


def rfc3339(moment: datetime) -> str:
    """A time as answers show it: UTC, ending in Z."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def rfc3339_or_none(moment: datetime | None) -> str | None:
    """The same for what may be missing."""
    return None if moment is None else rfc3339(moment)
