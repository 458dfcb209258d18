"""Durations of a table's cell: ages and countdowns. `static/dashboard/pool-time.js` writes the same forms."""

from __future__ import annotations

from datetime import UTC, datetime


def age(seconds: float) -> str:
    """`3.4 s`, `2 min 41 s`, `3 h 12 min`, `2 d 4 h`."""
    seconds = max(0.0, seconds)
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = int(seconds + 0.05)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def countdown(seconds: float) -> str:
    """`0:19`, `12:05`, `1:02:03`."""
    whole = max(0, int(seconds))
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def moment(text: str) -> datetime:
    """An RFC 3339 time of ours."""
    return datetime.fromisoformat(text)


def unix_ms(when: datetime) -> int:
    """Milliseconds since 1970, as browsers count."""
    return int(when.timestamp() * 1000)


def utc(when: datetime) -> str:
    """`2026-11-30 20:58:01 UTC`."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def clock(when: datetime, now: datetime) -> str:
    """The time of a moment of today, the date too of an older one; in UTC, until the browser writes it in its own zone."""
    own = when.astimezone(UTC)
    return f"{own:%H:%M:%S} UTC" if own.date() == now.astimezone(UTC).date() else f"{own:%Y-%m-%d %H:%M} UTC"
