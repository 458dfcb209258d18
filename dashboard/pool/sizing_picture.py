"""The picture of a dry run: the size as a rule would have set it, beside the size as it was and what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from dashboard.format import whole
from dashboard.pool.charts import POINTS, Column, ceiling, path
from relay.permits.sizing.replay import Second

ROWS = 30  # decisions in the table


@dataclass(frozen=True)
class Picture:
    """Paths of a box of 600 by 100 with their classes, the scale's end, the decisions behind it, and all of it in a sentence."""

    paths: list[tuple[str, str]]
    top: str
    minutes: int
    said: str
    decisions: list[Any]
    more: int


def picture(seconds: Sequence[Second], sizes: Sequence[int], decisions: Sequence[Any]) -> Picture:
    """Draws a replay; `sizes` go with the seconds. Decisions the newest first."""
    was: Column = [float(second.capacity) for second in seconds]
    asked: Column = [float(second.in_use + second.waiting) for second in seconds]
    would: Column = [float(size) for size in sizes]
    ats = [second.at for second in seconds]
    drawn = [(_spread(ats, column), kind, css) for column, kind, css in _lines(asked, was, would)]
    top = ceiling(max(value for column, _kind, _css in drawn for value in column if value is not None))
    return Picture(
        paths=[(path(column, top, kind), css) for column, kind, css in drawn],
        top=whole(top),
        minutes=max(1, round((ats[-1] - ats[0]) / 60)),
        said=said(seconds, sizes, len(decisions)),
        decisions=list(reversed(decisions))[:ROWS],
        more=max(0, len(decisions) - ROWS),
    )


def _lines(asked: Column, was: Column, would: Column) -> list[tuple[Column, str, str]]:
    return [(asked, "area", "p-area"), (was, "step", "p-2"), (would, "step", "p-1")]


def _spread(ats: Sequence[int], values: Column) -> Column:
    """One value for each of at most 300 steps of the time from the first second to the last; a gap has none."""
    span = ats[-1] - ats[0] + 1
    count = min(POINTS, span)
    found: Column = [None] * count
    for at, value in zip(ats, values, strict=True):
        found[(at - ats[0]) * count // span] = value
    return found


def said(seconds: Sequence[Second], sizes: Sequence[int], decisions: int) -> str:
    """What the rule would have done, in a sentence."""
    if not decisions:
        return _("It would have decided nothing: the size stays %(size)s.") % {"size": whole(sizes[-1])}
    steps = ngettext("One decision", "%(count)s decisions", decisions) % {"count": whole(decisions)}
    held = [seconds[0].capacity, *sizes]
    return _("%(decisions)s, between %(least)s and %(most)s permits; %(end)s at the end, where it was %(was)s.") % {
        "decisions": steps,
        "least": whole(min(held)),
        "most": whole(max(held)),
        "end": whole(sizes[-1]),
        "was": whole(seconds[-1].capacity),
    }
