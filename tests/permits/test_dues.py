"""The share that each tenant is due, from claims made by hand."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from relay.permits.engine.dues import dues


@dataclass(frozen=True)
class Claim:
    """A tenant's claim."""

    name: str
    weight: float = 1.0
    in_use: int = 0
    waiting: int = 0
    limit: int | None = None
    guarantee: int = 0

    @property
    def active(self) -> bool:
        """Whether it holds or waits."""
        return self.in_use > 0 or self.waiting > 0


@pytest.mark.parametrize(
    ("claims", "capacity", "expected"),
    [
        ([], 8, {}),
        ([Claim("idle")], 8, {}),
        ([Claim("a", in_use=1), Claim("b", in_use=3), Claim("c", in_use=5, waiting=9)], 12, {"a": 1, "b": 3, "c": 8}),
        ([Claim("a", 3, waiting=9), Claim("b", 1, waiting=9)], 8, {"a": 6, "b": 2}),
        ([Claim("a", waiting=9, limit=2), Claim("b", waiting=9)], 8, {"a": 2, "b": 6}),
        ([Claim("a", waiting=9, guarantee=6), Claim("b", 3, waiting=9)], 8, {"a": 6, "b": 2}),
        ([Claim("a", in_use=1, guarantee=6), Claim("b", 3, waiting=9)], 8, {"a": 1, "b": 7}),
    ],
)
def test_the_capacity_goes_by_weight_and_what_one_leaves_goes_to_the_others(
    claims: list[Claim], capacity: int, expected: dict[str, float]
) -> None:
    assert dues(claims, capacity) == pytest.approx(expected)
