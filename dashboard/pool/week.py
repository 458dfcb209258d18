"""A schedule's entries as lines that a person writes: `mon-fri 08:00 40`, `sat,sun 10:00 12`, `daily 22:00 8`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from django.utils.translation import gettext as _

from relay.http import invalid
from relay.permits.sizing.schedule import DAYS

DAILY = "daily"


def lines_of(entries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Entries as lines."""
    return [f"{_days_text(entry['days'])} {entry['at']} {entry['capacity']}" for entry in entries]


def entries_of(text: str) -> list[dict[str, Any]]:
    """Lines as entries; the sizing's own checks judge times and sizes. Raises 400 `invalid` that names the line."""
    return [_entry(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _entry(number: int, line: str) -> dict[str, Any]:
    words = line.split()
    days = _days_of(words[0]) if len(words) == 3 else None
    if days is None or not (words[2].isascii() and words[2].isdigit() and len(words[2]) < 10):
        text = _("line %(number)s, “%(line)s”: write days, time and size, such as mon-fri 08:00 40 or daily 22:00 8")
        raise invalid("policy.entries", text % {"number": number, "line": line.strip()[:40]})
    return {"days": days, "at": words[1].zfill(5), "capacity": int(words[2])}


def _days_of(word: str) -> list[str] | None:
    word = word.lower()
    if word == DAILY:
        return list(DAYS)
    found: list[str] = []
    for part in word.split(","):
        first, dash, last = part.partition("-")
        if first not in DAYS or (dash and last not in DAYS):
            return None
        begin, end = DAYS.index(first), DAYS.index(last if dash else first)
        span = range(begin, end + 1 if end >= begin else end + 8)  # sat-mon goes over the week's end
        found += [DAYS[at % 7] for at in span]
    return list(dict.fromkeys(found))


def _days_text(days: Iterable[str]) -> str:
    numbers = sorted(DAYS.index(day) for day in days)
    if len(numbers) == len(DAYS):
        return DAILY
    parts: list[str] = []
    for _key, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        span = [number for _index, number in run]
        parts += [f"{DAYS[span[0]]}-{DAYS[span[-1]]}"] if len(span) > 2 else [DAYS[number] for number in span]
    return ",".join(parts)
