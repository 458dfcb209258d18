"""Use and cost over a range, from what the database keeps by the hour: by tenant and model, and along the time."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils.translation import gettext as _

from dashboard.format import percent, whole
from dashboard.pool.charts import ceiling
from dashboard.tokens.figures import money
from dashboard.tokens.query import HOUR_S, RANGES
from relay.tokens import usage
from relay.tokens.usage import UsageTotal

MAX_LINES = 12
WIDTH, HEIGHT = 600, 100
_STEP_S = {"24h": HOUR_S, "7d": 6 * HOUR_S, "30d": 24 * HOUR_S}
_SPACE = 0.18  # of a bar's width, between two

_COLUMNS = ("tenant", "model", "requests", "tokens", "reused_tokens", "spent_s", "saved_s", "cost_usd")


@dataclass(frozen=True)
class Line:
    """One tenant's use of one model. `share`: of the cost, or of the tokens where nothing has a price."""

    total: UsageTotal
    cost: str
    share: float

    @property
    def width(self) -> str:
        """How long its bar is."""
        return f"{100 * self.share:.1f}%"

    @property
    def percent(self) -> str:
        """Its share in whole percent."""
        return f"{100 * self.share:.0f}"

    @property
    def reused_percent(self) -> str:
        """How much of its tokens was known before."""
        return percent(self.total.reused_tokens / self.total.tokens) if self.total.tokens else "–"


@dataclass(frozen=True)
class Bar:
    """One step of the time: what was counted from `at_ms` on, as two rectangles in a box of 600 by 100."""

    at_ms: int
    tokens: int
    reused: int
    cost: str
    x: str
    width: str
    top: str
    height: str
    reused_y: str
    reused_height: str

    @property
    def at(self) -> str:
        """When it begins, in UTC; the page's script puts it into the reader's zone."""
        return f"{datetime.fromtimestamp(self.at_ms / 1000, UTC):%m-%d %H:%M}"

    @property
    def reused_percent(self) -> str:
        """How much of it was known before."""
        return percent(self.reused / self.tokens) if self.tokens else "–"


@dataclass(frozen=True)
class Bill:
    """All that was counted in a range. `by_cost`: the shares are of the cost."""

    lines: list[Line]
    more: int
    bars: list[Bar]
    top: str
    tokens: int
    cost: float | None
    unpriced: int
    note: str
    by_cost: bool

    @property
    def ends(self) -> list[Bar]:
        """The bars whose times stand under the chart: the first, the middle one, the last."""
        return [self.bars[0], self.bars[len(self.bars) // 2], self.bars[-1]]

    @property
    def newest_first(self) -> list[Bar]:
        """The bars as the rows of a table."""
        return self.bars[::-1]


def bill(range_name: str, now: datetime | None = None) -> Bill:
    """The bill of a range that ends now."""
    first, last, step = _steps(range_name, now or datetime.now(UTC))
    totals = usage.totals(first, by=("tenant", "model"))
    priced = [total.cost_usd for total in totals if total.cost_usd is not None]
    cost = sum(priced) if priced else None
    lines = _lines(totals, cost)
    bars, top = _bars(usage.totals(first, by=("hour",)), first, last, step)
    return Bill(
        lines=lines[:MAX_LINES],
        more=max(0, len(lines) - MAX_LINES),
        bars=bars,
        top=top,
        tokens=sum(total.tokens for total in totals),
        cost=cost,
        unpriced=sum(total.unpriced_tokens for total in totals),
        note=_note(totals, cost),
        by_cost=bool(cost),
    )


def _steps(range_name: str, now: datetime) -> tuple[datetime, datetime, timedelta]:
    """When the first and the last step of the range begin (the last one is not over), and how long one is."""
    seconds = _STEP_S[range_name]
    last = datetime.fromtimestamp(int(now.timestamp()) // seconds * seconds, UTC)
    step = timedelta(seconds=seconds)
    return last - timedelta(seconds=RANGES[range_name]) + step, last, step


def _lines(totals: Sequence[UsageTotal], cost: float | None) -> list[Line]:
    tokens = sum(total.tokens for total in totals)

    def share(total: UsageTotal) -> float:
        return (total.cost_usd or 0.0) / cost if cost else total.tokens / tokens if tokens else 0.0

    ordered = sorted(totals, key=lambda total: (-share(total), -total.tokens, total.tenant, total.model))
    return [Line(total, money(total.cost_usd), share(total)) for total in ordered]


def _note(totals: Sequence[UsageTotal], cost: float | None) -> str:
    """Who causes most of the cost; without a price, what was counted."""
    if not totals:
        return _("nothing counted yet")
    if not cost:
        return _("no price known for %(tokens)s tokens") % {"tokens": whole(sum(total.tokens for total in totals))}
    by_tenant: dict[str, float] = {}
    for total in totals:
        assert isinstance(total.tenant, str)
        by_tenant[total.tenant] = by_tenant.get(total.tenant, 0.0) + (total.cost_usd or 0.0)
    most = max(by_tenant, key=lambda tenant: by_tenant[tenant])
    return _("%(tenant)s %(percent)s %%") % {"tenant": most, "percent": f"{100 * by_tenant[most] / cost:.0f}"}


def _bars(totals: Sequence[UsageTotal], first: datetime, last: datetime, step: timedelta) -> tuple[list[Bar], str]:
    """A bar for each step of the range, the empty ones too, and the scale's end in words."""
    count = (last - first) // step + 1
    tokens, reused = [0] * count, [0] * count
    costs: list[float | None] = [None] * count
    for total in totals:
        assert isinstance(total.hour, datetime)
        index = (total.hour - first) // step
        if 0 <= index < count:
            tokens[index] += total.tokens
            reused[index] += total.reused_tokens
            if total.cost_usd is not None:
                costs[index] = (costs[index] or 0.0) + total.cost_usd
    top = ceiling(max(tokens, default=0))
    pitch = WIDTH / count
    bars = []
    for index in range(count):
        known = HEIGHT * reused[index] / top
        whole_height = HEIGHT * tokens[index] / top
        bars.append(
            Bar(
                at_ms=int((first + index * step).timestamp() * 1000),
                tokens=tokens[index],
                reused=reused[index],
                cost=money(costs[index]),
                x=f"{pitch * (index + _SPACE / 2):.1f}",
                width=f"{pitch * (1 - _SPACE):.1f}",
                top=f"{HEIGHT - whole_height:.2f}",
                height=f"{whole_height - known:.2f}",
                reused_y=f"{HEIGHT - known:.2f}",
                reused_height=f"{known:.2f}",
            )
        )
    return bars, whole(top).replace(".0", "")


def as_csv(range_name: str, now: datetime | None = None) -> str:
    """All tenants and models of a range. Times in seconds, cost in US dollars, empty where no price is known."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    first, _last, _step = _steps(range_name, now or datetime.now(UTC))
    for line in _lines(usage.totals(first, by=("tenant", "model")), None):
        writer.writerow([getattr(line.total, column) for column in _COLUMNS])
    return text.getvalue()
