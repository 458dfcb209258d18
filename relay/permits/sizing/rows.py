"""How a pool's row keeps its sizing."""

from __future__ import annotations

from typing import Any

import msgspec

from relay.permits.models import Pool
from relay.permits.sizing.sizer import Sizing


def sizing_of(pool: Pool) -> Sizing | None:
    """How a pool is sized; None: by hand."""
    return None if pool.sizing is None else msgspec.convert(pool.sizing, Sizing)


def sizing_fields(sizing: Sizing | None) -> dict[str, Any] | None:
    """A sizing as answers, rows and the change log hold it."""
    found: dict[str, Any] | None = msgspec.to_builtins(sizing)
    return found
