"""Numbers that only this page writes: times down to microseconds, and money down to what one text costs."""

from __future__ import annotations

_SMALL_DIGITS = 2


def fine(seconds: float | None) -> tuple[str, str]:
    """A time in figures and unit: `("31", "µs")`, `("1.9", "ms")`, `("2.4", "s")`; a dash without a value."""
    if seconds is None:
        return "–", ""
    if seconds < 0.00009995:
        return f"{seconds * 1e6:.0f}", "µs"
    if seconds < 0.0009995:
        return f"{seconds * 1e3:.2f}", "ms"
    if seconds < 0.09995:
        return f"{seconds * 1e3:.1f}", "ms"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f}", "ms"
    return f"{seconds:.1f}", "s"


def long(seconds: float) -> tuple[str, str]:
    """A sum of times: `("340", "ms")`, `("41", "s")`, `("12.5", "min")`, `("3.1", "h")`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}", "ms"
    if seconds < 99.95:
        return f"{seconds:.1f}", "s"
    if seconds < 5_999.5:
        return f"{seconds / 60:.1f}", "min"
    return f"{seconds / 3600:,.1f}", "h"


def money(dollars: float | None) -> str:
    """US dollars: `$0`, `$0.0001`, `$0.000041`, `$0.35`, `$41.20`, `$1,204`; a dash where no price is known."""
    if dollars is None:
        return "–"
    if dollars == 0:
        return "$0"
    if dollars < 0.00995:
        return "$" + _significant(dollars)
    if dollars < 999.995:
        return f"${dollars:,.2f}"
    return f"${dollars:,.0f}"


def _significant(value: float) -> str:
    """A small number to at most two significant digits, never as 4.1e-05; below 10⁻⁹ it is as good as nothing."""
    if value < 1e-9:
        return "0"
    digits = next(places for places in range(3, 12) if value * 10**places >= 10 ** (_SMALL_DIGITS - 1) - 0.05)
    return f"{value:.{digits}f}".rstrip("0")


def price(dollars: float) -> str:
    """US dollars a million tokens: `$0.15`, `$2.50`, `$15`."""
    return (
        f"${dollars:.0f}"
        if dollars >= 1 and dollars == round(dollars)
        else f"${dollars:.{2 if dollars >= 0.1 else 3}f}"
    )


def size(tokens: int | None) -> str:
    """A context or a vocabulary: `131,072`; a dash where it is unknown."""
    return "–" if tokens is None else f"{tokens:,}"
