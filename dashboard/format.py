"""Numbers as people read them. `static/dashboard/format.js` writes the same forms; a test holds them together."""

from __future__ import annotations


def rate(value: float) -> str:
    """A rate a second: `0`, `0.02`, `12.1`, `412`, `12.4k`."""
    if value == 0:
        return "0"
    if value < 0.995:
        return f"{max(value, 0.01):.2f}"
    if value < 99.95:
        return f"{value:.1f}"
    return whole(value)


def whole(value: float) -> str:
    """A count: `37`, `9,120`, `12.4k`, `3.1M`."""
    if value < 9_999.5:
        return f"{value:,.0f}"
    if value < 999_950:
        return f"{value / 1_000:.1f}k"
    return f"{value / 1_000_000:.1f}M"


def duration(seconds: float | None) -> tuple[str, str]:
    """A duration in figures and unit: `("412", "ms")`, `("3.1", "s")`, `("12", "min")`; a dash without a value."""
    if seconds is None:
        return "–", ""
    if seconds < 0.00095:
        return (f"{seconds * 1000:.1f}" if seconds >= 0.00005 else "0"), "ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}", "ms"
    if seconds < 99.95:
        return f"{seconds:.1f}", "s"
    if seconds < 5_999.5:
        return f"{seconds:.0f}", "s"
    return f"{seconds / 60:,.0f}", "min"


def percent(share: float | None) -> str:
    """A share of one: `93.1`; a dash without a value."""
    return "–" if share is None else f"{share * 100:.1f}"
