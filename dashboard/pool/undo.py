"""What a person just did and may take back for ten seconds: kept in the session for the page without JavaScript."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from relay.permits.models import Pool

OFFERED_S = 10
_KEY = "pool_undo"


@dataclass(frozen=True)
class Done:
    """A change that was made: what to say, and the form that takes it back (none: it cannot be)."""

    said: str
    url: str = ""
    fields: tuple[tuple[str, str], ...] = ()

    def answer(self) -> dict[str, Any]:
        """For the page's script."""
        undo = {"url": self.url, "fields": dict(self.fields), "seconds": OFFERED_S} if self.url else None
        return {"said": self.said, "undo": undo}


def keep(request: HttpRequest, pool: str, done: Done) -> None:
    """Remembers it for the next page."""
    request.session[_KEY] = {
        "pool": pool,
        "at": time.time(),
        "said": done.said,
        "url": done.url,
        "fields": list(done.fields),
    }


def offered(request: HttpRequest, pool: Pool) -> dict[str, Any] | None:
    """What may be taken back on this page now: the last change, if it was less than ten seconds ago."""
    kept: dict[str, Any] | None = request.session.get(_KEY)
    if kept is None or kept["pool"] != pool.name:
        return None
    if time.time() - kept["at"] > OFFERED_S:
        del request.session[_KEY]
        return None
    return kept
