"""What the templates need beyond Django's own: figures in the reader's form, badges, bars and small lines."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.translation import gettext as _

from dashboard import format as figures
from dashboard import pictures
from dashboard.live import PoolLine
from dashboard.overview import why

register = template.Library()

register.filter("rate", figures.rate)
register.filter("whole", figures.whole)


def words() -> dict[str, str]:
    """The health words in the reader's language."""
    return {
        "starving": _("Starving"),
        "queuing": _("Queuing"),
        "shrinking": _("Shrinking"),
        "full": _("Full"),
        "flowing": _("Flowing"),
        "idle": _("Idle"),
        "paused": _("Paused"),
        "draining": _("Draining"),
    }


@register.filter
def duration(seconds: float | None) -> str:
    """`412 ms`, `3.1 s`, `–`."""
    return " ".join(figures.duration(seconds)).strip()


@register.inclusion_tag("dashboard/badge.html")
def badge(health: str) -> dict[str, Any]:
    """A health word with its shape."""
    return {"health": health, "word": words()[health]}


@register.inclusion_tag("dashboard/meter.html")
def meter(pool: PoolLine, number: int) -> dict[str, Any]:
    """Permits held of capacity; `number` makes the pattern's id unique on the page."""
    bar = pictures.Meter.of(pool.in_use, pool.capacity)
    return {"pool": pool, "bar": bar, "number": number}


@register.inclusion_tag("dashboard/spark.html")
def spark(values: list[float | None], kind: str) -> dict[str, Any]:
    """Five minutes as a line; `kind` is qps or wait."""
    line, dot = pictures.spark(values, log=kind == "wait")
    return {"kind": kind, "line": line, "dot": dot}


@register.simple_tag
def cause(pool: PoolLine) -> dict[str, str]:
    """Why a pool is in need: `who` and `what`."""
    who, what = why(pool)
    return {"who": who, "what": what}
