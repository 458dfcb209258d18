"""Sizing by schedule: sizes by time of week in a time zone, ramped."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from msgspec import Meta, Struct

from relay.permits.sizing.base import Completion, Proposal, Sample

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """From `at` (HH:MM) on these days the pool has this size, until the next entry begins."""

    at: Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]\Z")]
    capacity: Annotated[int, Meta(ge=1, le=1_000_000)]
    days: Annotated[tuple[Day, ...], Meta(min_length=1, max_length=7)] = DAYS


class BySchedule(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="schedule"):
    """Entries of a week in `timezone` (IANA name). A change is spread evenly over `ramp_s` from its time on."""

    entries: Annotated[tuple[Entry, ...], Meta(min_length=1, max_length=100)]
    timezone: str = "UTC"
    ramp_s: Annotated[float, Meta(ge=0, le=86_400)] = 0.0

    def fault(self) -> tuple[str, str] | None:
        """The field that is wrong beyond its shape, and how."""
        try:
            _zone(self.timezone)
        except (KeyError, ValueError, OSError):
            return "timezone", f"{self.timezone!r} is no time zone; use a name such as Europe/Berlin or UTC"
        moments = [(day, entry.at) for entry in self.entries for day in entry.days]
        twice = next((moment for moment in moments if moments.count(moment) > 1), None)
        if twice is not None:
            return "entries", f"two of them begin on {twice[0]} at {twice[1]}"
        return None


class SchedulePolicy:
    """See BySchedule. Shrinks no further than to what is in use, so nobody waits for a place that is already promised."""

    def __init__(self, settings: BySchedule) -> None:
        self._zone = _zone(settings.timezone)
        self._ramp = timedelta(seconds=settings.ramp_s)
        self._week: list[list[tuple[str, int]]] = [
            sorted((entry.at, entry.capacity) for entry in settings.entries if day in entry.days) for day in DAYS
        ]

    def look(self, sample: Sample) -> Proposal | None:
        """The size of this moment."""
        began, size, former = self._entry_at(datetime.fromtimestamp(sample.at, self._zone))
        reason = f"schedule: {size} from {began:%a %H:%M} ({self._zone.key})"
        elapsed = sample.at - began.timestamp()
        if self._ramp and elapsed < self._ramp.total_seconds():
            share = elapsed / self._ramp.total_seconds()
            reason += f", {share:.0%} of the ramp from {former}"
            size = round(former + (size - former) * share)
        target = size if size >= sample.capacity else max(size, sample.in_use)
        return None if target == sample.capacity else Proposal(target, reason)

    def completed(self, completion: Completion) -> Proposal | None:
        """Outcomes do not count here."""
        return None

    def resized(self, now_us: int, *, shrunk: bool) -> None:
        """The week knows what comes next."""

    def _entry_at(self, now: datetime) -> tuple[datetime, int, int]:
        """When the present entry began, its size, and the size of the one before."""
        moments: list[tuple[datetime, int]] = []
        for back in range(9):  # a week and a day: one entry a week has its last beginning at most that long ago
            day = (now - timedelta(days=back)).date()
            for at, capacity in reversed(self._week[day.weekday()]):
                began = _local(datetime.fromisoformat(f"{day}T{at}:00"), self._zone)
                if began <= now:
                    moments.append((began, capacity))
                if len(moments) == 2:
                    return (*moments[0], moments[1][1])
        return (*moments[0], moments[0][1])  # it is the week's only entry


def _local(naive: datetime, zone: ZoneInfo) -> datetime:
    """A local time as a moment; one that summer time skips becomes the moment an hour later."""
    return naive.replace(tzinfo=zone).astimezone(UTC).astimezone(zone)


@functools.cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
