"""What the pool page's templates need beyond the others: addresses with a part changed, and a form's values."""

from __future__ import annotations

from typing import Any

from django import template

from dashboard.pool.fields import text
from dashboard.pool.query import Query

register = template.Library()

register.filter("field", text)


@register.simple_tag
def to(query: Query, **changes: Any) -> str:
    """The page's address with some of it changed."""
    return query.to(**{name: str(value) for name, value in changes.items()})


@register.filter
def or_dash(value: Any) -> str:
    """A configured value; a dash where none is set."""
    return text(value) or "–"


@register.filter
def share(value: float | None) -> str:
    """A share of permits: `6`, `4.5`; a dash without one."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value - round(value)) < 0.05 else f"{value:.1f}"


@register.filter
def percent_of(part: float, most: float) -> str:
    """Where a tick stands on a slider from 1 to `most`."""
    return f"{100 * (part - 1) / max(1, most - 1):.2f}%"
