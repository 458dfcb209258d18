"""What the page's address says: the range of use and cost, and the model that the playground begins with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

HOUR_S = 3_600
RANGES = {"24h": 24 * HOUR_S, "7d": 7 * 24 * HOUR_S, "30d": 30 * 24 * HOUR_S}
DEFAULT_RANGE = "24h"
_NAME_LIMIT = 200


@dataclass(frozen=True)
class Query:
    """The address of one picture. What has its default stands in no link."""

    range: str = DEFAULT_RANGE
    model: str = ""

    @classmethod
    def of(cls, given: QueryDict) -> Query:
        """Reads it; what is unknown counts as its default."""
        name = given.get("range", DEFAULT_RANGE)
        return cls(name if name in RANGES else DEFAULT_RANGE, given.get("model", "")[:_NAME_LIMIT])

    @property
    def range_s(self) -> int:
        """The range in seconds."""
        return RANGES[self.range]

    def to(self, **changes: str) -> str:
        """The address with some of it changed."""
        other, plain = replace(self, **changes), Query()
        parts = {
            name: getattr(other, name) for name in ("range", "model") if getattr(other, name) != getattr(plain, name)
        }
        return reverse("tokens") + (f"?{urlencode(parts)}" if parts else "")
