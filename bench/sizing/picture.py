"""Lines over time as an SVG file: what each policy made of the pool's size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 900, 320
LEFT, RIGHT, TOP, BOTTOM = 48, 150, 16, 36
COLOURS = ("#6b7280", "#0f766e", "#b45309", "#7c3aed", "#be123c")


def lines(series: Mapping[str, Sequence[float]], most: float, title: str) -> str:
    """One line a series, a value a second, cut at `most`. The first is drawn thick and grey: the truth."""
    seconds = max(len(values) for values in series.values())

    def x(second: float) -> float:
        return LEFT + second / seconds * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - min(value, most) / most * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<title>{title}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for value in range(0, int(most) + 1, max(1, int(most) // 6)):
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#e5e7eb"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end" fill="#374151">{value}</text>')
    parts.extend(
        f'<text x="{x(minute * 60):.1f}" y="{HEIGHT - 14}" text-anchor="middle" fill="#374151">{minute} min</text>'
        for minute in range(0, seconds // 60 + 1, 2)
    )
    for index, (name, values) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        path = "L".join(f"{x(second):.1f} {y(value):.1f}" for second, value in enumerate(values))
        width = 5 if index == 0 else 1.6
        opacity = 0.45 if index == 0 else 1
        parts.append(
            f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="{width}" opacity="{opacity}"/>'
            f'<text x="{WIDTH - RIGHT + 10}" y="{TOP + 16 + 20 * index}" fill="{colour}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])
