"""What the templates need beyond Django's own: figures in the reader's form, badges, bars and small lines."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.translation import gettext as _

from dashboard import format as figures
from dashboard import pictures
from dashboard.frame import who
from dashboard.live import PoolLine
from dashboard.overview import why

register = template.Library()

register.filter("rate", figures.rate)
register.filter("whole", figures.whole)

_CLASS_LETTERS = 5


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


@register.filter
def class_word(name: str) -> str:
    """A priority class as a narrow column's head: short, and those that exist from the start in the reader's language."""
    known = {
        "critical": _("crit"),
        "interactive": _("inter"),
        "batch": _("batch"),
        "background": _("backg"),
    }
    return known.get(name, name[:_CLASS_LETTERS])


@register.inclusion_tag("dashboard/badge.html")
def badge(health: str) -> dict[str, Any]:
    """A health word with its shape."""
    return {"health": health, "word": words()[health]}


@register.inclusion_tag("dashboard/meter.html")
def meter(pool: PoolLine) -> dict[str, Any]:
    """The cell with the permits held of capacity, as numbers and as a bar."""
    return {"pool": pool, "bar": pictures.Meter.of(pool.in_use, pool.capacity, pool.guaranteed)}


@register.simple_tag
def spark(values: list[float | None], kind: str, drawn: bool) -> str:
    """Five minutes as a line; `kind` is qps or wait. What is not drawn is left to the page's script."""
    line = pictures.spark(values, log=kind == "wait") if drawn else ""
    return format_html('<svg><path d="{}"/></svg>', line) if line else ""


@register.simple_tag
def cause(pool: PoolLine) -> dict[str, str]:
    """Why a pool is in need: `who` and `what`."""
    if pool.off is not None:
        return {"who": "", "what": _taken_out(pool)}
    who, what = why(pool)
    return {"who": who, "what": what}


def _taken_out(pool: PoolLine) -> str:
    """Who took it out of service, when and why; the page's script puts the time into the reader's zone."""
    assert pool.off is not None
    at = datetime.fromisoformat(pool.off["at"])
    time = format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', pool.off["at"], f"{at:%Y-%m-%d %H:%M}", f"{at:%H:%M}"
    )
    text = format_html(_("by {who} at {time}"), who=who(pool.off), time=time)
    if pool.off["reason"]:
        text = format_html(_("{what}, {reason}"), what=text, reason=pool.off["reason"])
    if pool.health == "draining":
        text = format_html(_("{what}; {held}"), what=text, held=why(pool)[1])
    return text
