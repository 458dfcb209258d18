"""What a sizing would have done: samples again through the real policies."""

from __future__ import annotations

from typing import Any

import pytest

from relay.permits.sizing.adaptive import Adaptive
from relay.permits.sizing.load import ByLoad
from relay.permits.sizing.replay import Second, replay
from relay.permits.sizing.schedule import BySchedule, Entry
from relay.permits.sizing.sizer import Sizing
from relay.telemetry.reports import Reports

NOON = 1_800_014_400  # a Friday, 12:00 UTC


def seconds(count: int, **given: Any) -> list[Second]:
    return [Second(**{"at": NOON + index, "capacity": 10, "in_use": 0} | given) for index in range(count)]


def sizing(policy: Any, **given: Any) -> Sizing:
    return Sizing(**{"policy": policy, "minimum": 2, "maximum": 40, "cooldown_s": 5.0} | given)


def test_a_busy_pool_grows_until_its_demand_is_met_with_room_and_no_further() -> None:
    found = replay(sizing(ByLoad(window_s=10)), seconds(300, in_use=10, waiting=6, oldest_wait_us=30_000_000))
    assert found.sizes[0] == 11  # callers waited too long at once
    assert found.sizes[-1] == 20  # a load of 16 over 20 is not over 0.8
    assert [decision.after for _at, decision in found.decisions] == sorted(set(found.sizes))
    assert found.decisions[0][1].reason == "oldest waiter 30.0 s, over 5 s: 10 to 11"


def test_an_idle_pool_shrinks_to_its_minimum_and_never_below() -> None:
    found = replay(sizing(ByLoad(window_s=1), minimum=4), seconds(300))
    assert found.sizes[-1] == min(found.sizes) == 4


def test_a_size_that_became_too_small_makes_callers_wait_and_grows_again() -> None:
    quiet, busy = seconds(200, in_use=1), seconds(60, in_use=10)
    busy = [Second(at=NOON + 200 + index, capacity=10, in_use=10) for index in range(60)]
    found = replay(sizing(ByLoad(window_s=10)), [*quiet, *busy])
    assert found.sizes[199] < 10
    assert any(decision.reason.startswith("oldest waiter") for _at, decision in found.decisions)
    assert found.sizes[-1] > found.sizes[199]


def test_what_callers_reported_cuts_an_adaptive_size_once_for_one_overload() -> None:
    past = seconds(20, in_use=10, granted=20, held_us=400_000)
    past[10] = Second(at=NOON + 10, capacity=10, in_use=10, granted=20, bad={"throttled": 6}, held_us=400_000)
    found = replay(sizing(Adaptive(window_s=60)), past)
    cuts = [(at, decision.before, decision.after) for at, decision in found.decisions]
    assert cuts == [(NOON + 10, 10, 9)]


def test_an_adaptive_size_grows_at_the_limit_while_all_goes_well_and_not_beyond_what_is_asked_for() -> None:
    found = replay(sizing(Adaptive(), cooldown_s=None), seconds(60, in_use=10, waiting=5, granted=20))
    assert found.sizes[-1] == 16  # at 15 everybody was served, with nothing to spare


def test_a_schedule_is_followed_and_a_pin_wins() -> None:
    policy = BySchedule((Entry("12:01", 30, ("fri",)), Entry("08:00", 10)))
    past = seconds(120)
    assert replay(sizing(policy), past).sizes[-1] == 30
    assert set(replay(sizing(policy, pin=7), past).sizes) == {7}


@pytest.mark.parametrize("policy", [ByLoad(), Adaptive(), BySchedule((Entry("08:00", 10),))])
def test_no_samples_no_picture_and_a_dry_run_is_drawn_as_if_it_counted(policy: Any) -> None:
    assert replay(sizing(policy), []).sizes == []
    assert replay(sizing(policy, pin=3, dry_run=True), seconds(2)).sizes == [3, 3]


def test_reports_are_kept_by_the_second_for_15_minutes() -> None:
    reports = Reports()
    for at in range(NOON, NOON + 1000):
        reports.add(at, "throttled", 100)
        reports.add(at, "timeout", 300)
    found = reports.since(NOON)
    assert len(found) == 900
    assert found[NOON + 999] == ({"throttled": 1, "timeout": 1}, 400)
