"""The strip of facts at the head of a page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """One fact of the strip; `key` is where the live page writes it."""

    key: str
    label: str
    value: str
    unit: str
    note: str
    tone: str = ""
