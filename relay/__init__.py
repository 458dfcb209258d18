"""Token Relay: pools of permits and exact token counts for scarce AI compute."""

from __future__ import annotations

__version__ = "0.1.0"
