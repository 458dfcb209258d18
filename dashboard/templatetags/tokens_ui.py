"""What the token page's templates need beyond the others: fine times, money, bars of levels."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from dashboard.tokens import figures
from dashboard.tokens.cells import Cell
from dashboard.tokens.facts import by_level
from dashboard.tokens.numbers import TIER_OF, ModelLine, Shares
from dashboard.tokens.query import Query
from dashboard.tokens.words import level_names
from relay.tokens.prices import SET_BY_HAND, Price

register = template.Library()

register.filter("money", figures.money)
register.filter("size", figures.size)
register.filter("fine_parts", figures.fine)

_SHAPES = {"ready": "flowing", "loading": "queuing", "failed": "starving", "idle": "idle", "estimate": "full"}


@register.filter
def fine(seconds: float | None) -> str:
    """`31 µs`, `1.9 ms`, `–`."""
    return " ".join(figures.fine(seconds)).strip()


@register.filter
def price(dollars: float | None) -> str:
    """`$2.50`; a dash where it is not known."""
    return "–" if dollars is None else figures.price(dollars)


@register.filter
def price_source(found: Price) -> str:
    """Who says a price, in the reader's language, and for which day."""
    words = _("set by hand")
    return f"{found.source.replace(SET_BY_HAND, words)}, {found.date}"


@register.filter
def exact(count: int) -> str:
    """A count, every digit of it."""
    return f"{count:,}"


@register.filter
def level(name: str) -> str:
    """A level in the reader's language."""
    return level_names()[name]


@register.simple_tag
def to(query: Query, **changes: Any) -> str:
    """The page's address with some of it changed."""
    return query.to(**{name: str(value) for name, value in changes.items()})


@register.inclusion_tag("dashboard/badge.html")
def model_badge(line: ModelLine) -> dict[str, str]:
    """A model's state, as a word with its shape."""
    return {"health": _SHAPES[line.state], "word": line.state_word}


@register.simple_tag
def token_cells(cells: Iterable[Cell]) -> SafeString:
    """Cells as buttons, the first of them in the order of tabs. In Python: two thousand take a template ten times as long."""
    tab = ""
    parts = []
    for cell in cells:
        parts.append(_cell(cell, tab))
        tab = ' tabindex="-1"'
    return mark_safe("".join(parts))  # noqa: S308  # every text is escaped in _cell


def _cell(cell: Cell, tab: str) -> str:
    text = "".join(f'<i class="ws">{escape(piece)}</i>' if unseen else escape(piece) for piece, unseen in cell.runs)
    gap = f'<i class="gap">{escape(cell.gap)}</i>' if cell.gap else ""
    part = f'<i class="part">{cell.part}</i>' if cell.part else ""
    css = f"tok lv-{cell.level}{' is-special' if cell.special else ''}"
    end = '<i class="nl"></i>' if cell.breaks else ""
    title = escape(cell.title)
    return f'{gap}<button class="{css}" title="{title}"{tab}><span>{text}{part}</span><small>{cell.id}</small></button>{end}'


@register.simple_tag
def tiers(shares: Shares) -> SafeString:
    """Each level's share of one whole, side by side, from best to worst."""
    x = 0.0
    parts = []
    for name, css in TIER_OF.items():
        width = (shares[name] or 0.0) * 100
        parts.append((css, f"{x:.1f}%", f"{width:.1f}%"))
        x += width
    bars = format_html_join("", '<rect class="{}" x="{}" width="{}" height="12"/>', parts)
    return format_html('<svg class="tiers" role="img" aria-label="{}">{}</svg>', by_level(shares, "tiers"), bars)
