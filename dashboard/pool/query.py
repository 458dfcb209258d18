"""What the page's address says: tab, range, view, search, whose share is being edited, and a sizing to try."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from dashboard.pool.charts import DEFAULT_RANGE, RANGES
from dashboard.pool.sizing_form import RULES, typed

TABS = ("holders", "waiters", "tenants", "sizing", "changes", "connect")
VIEWS = ("charts", "table")
_FIND_LIMIT = 200


@dataclass(frozen=True)
class Query:
    """The address of one picture of a pool. What has its default stands in no link."""

    pool: str
    tab: str = TABS[0]
    range: str = DEFAULT_RANGE
    view: str = VIEWS[0]
    q: str = ""
    edit: str = ""
    limit: str = ""
    rule: str = ""
    sizing: tuple[tuple[str, str], ...] = ()  # what was typed into the form of the rule

    @classmethod
    def of(cls, request: HttpRequest, pool: str) -> Query:
        """Reads it; what is unknown counts as its default."""
        given = request.GET

        def one_of(name: str, allowed: Any, default: str) -> str:
            value = given.get(name, default)
            return value if value in allowed else default

        return cls(
            pool=pool,
            tab=one_of("tab", TABS, TABS[0]),
            range=one_of("range", RANGES, DEFAULT_RANGE),
            view=one_of("view", VIEWS, VIEWS[0]),
            q=given.get("q", "").strip()[:_FIND_LIMIT],
            edit=given.get("edit", "")[:_FIND_LIMIT],
            limit=given.get("limit", "")[:9],
            rule=one_of("rule", RULES, ""),
            sizing=tuple(typed({name: str(given[name]) for name in given}).items()) if "rule" in given else (),
        )

    @property
    def range_s(self) -> int:
        """The range in seconds."""
        return RANGES[self.range]

    def to(self, **changes: Any) -> str:
        """The address with some of it changed. Only the Sizing tab has a rule."""
        other = replace(self, **changes)
        plain = Query(self.pool)
        parts = {
            name: getattr(other, name)
            for name in ("range", "view", "tab", "q", "edit", "limit")
            if getattr(other, name) != getattr(plain, name)
        }
        if other.tab == "sizing" and other.rule:
            parts |= {"rule": other.rule, **dict(other.sizing)}
        return reverse("pool", args=[self.pool]) + (f"?{urlencode(parts)}" if parts else "")
