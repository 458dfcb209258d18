"""Sizing policies: bounds, cooldown, pins, reasons, and what they make of simulated backends (case 15)."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.sizing.policies import POLICIES, START
from bench.sizing.scenarios import SCENARIOS
from bench.sizing.world import Sized, World
from relay.permits.engine.base import SECOND
from relay.permits.sizing.adaptive import Adaptive
from relay.permits.sizing.base import Completion, Decision, Sample
from relay.permits.sizing.load import ByLoad
from relay.permits.sizing.schedule import BySchedule, Entry
from relay.permits.sizing.sizer import Sizer, Sizing


def at(second: float, capacity: int, in_use: int, *, waiting: int = 0, oldest_s: float = 0, day: float = 0) -> Sample:
    return Sample(int(second * SECOND), day or second, capacity, in_use, waiting, int(oldest_s * SECOND))


def play(sizer: Sizer, in_use: float, seconds: int, capacity: int = 20) -> list[tuple[int, Decision]]:
    """Looks once a second at a pool that is in use by this share, and applies what is decided."""
    found = []
    for second in range(seconds):
        decision = sizer.look(at(second, capacity, round(capacity * in_use)))
        if decision is not None:
            found.append((second, decision))
            capacity = decision.after if decision.applied else capacity
    return found


def test_load_above_the_threshold_for_the_window_is_a_step_up_with_its_reason() -> None:
    second, decision = play(Sizer(Sizing(ByLoad(), 1, 100)), 0.93, 60)[0]
    assert second == 30
    assert decision == Decision(20, 22, "load 0.95 over 0.80 for 30 s: 20 to 22")


def test_an_old_waiter_is_a_step_up_before_the_window_is_full() -> None:
    decision = Sizer(Sizing(ByLoad(), 1, 100)).look(at(0, 20, 20, waiting=3, oldest_s=6.2))
    assert decision is not None
    assert decision.reason == "oldest waiter 6.2 s, over 5 s: 20 to 22"


def test_an_idle_pool_shrinks_step_by_step_to_its_minimum_and_no_further() -> None:
    decisions = [decision for _, decision in play(Sizer(Sizing(ByLoad(window_s=5, step=0.5), 4, 100, 5)), 0.0, 200)]
    assert [decision.after for decision in decisions] == [10, 5, 4]


def test_a_small_pool_grows_by_one_whole_permit() -> None:
    assert play(Sizer(Sizing(ByLoad(), 1, 100)), 1.0, 40, capacity=3)[0][1].after == 4


@pytest.mark.parametrize("load", [x / 20 for x in range(21)])
def test_a_constant_demand_never_makes_it_swing(load: float) -> None:
    """Hysteresis: with the same number in use, a step one way is never followed by a step the other way."""
    sizer, capacity, in_use = Sizer(Sizing(ByLoad(window_s=2), 1, 1000, 0)), 40, round(40 * load)
    directions = []
    for second in range(400):
        decision = sizer.look(at(second, capacity, min(in_use, capacity)))
        if decision is not None:
            directions.append(decision.after > decision.before)
            capacity = decision.after
    assert len(set(directions)) <= 1


def test_thresholds_that_would_swing_are_refused_with_their_field() -> None:
    fault = Sizing(ByLoad(grow_above=0.5, shrink_below=0.48), 1, 10).fault()
    assert fault is not None
    assert fault[0] == "policy.shrink_below"


WEEKDAYS = BySchedule(
    entries=(Entry("08:00", 40, ("mon", "tue", "wed", "thu", "fri")), Entry("20:00", 10)),
    timezone="Europe/Berlin",
    ramp_s=600,
)


@pytest.mark.parametrize(
    ("moment", "size"),
    [
        ("2026-11-30T07:05:00", 25),  # Monday 08:05 in Berlin, half of the ramp from 10 to 40
        ("2026-11-30T12:00:00", 40),
        ("2026-11-30T23:00:00", 10),
        ("2026-11-28T12:00:00", 10),  # Saturday: since Friday 20:00
        ("2026-07-06T06:30:00", 40),  # Monday 08:30 in summer time
    ],
)
def test_a_schedule_follows_the_week_in_its_time_zone(moment: str, size: int) -> None:
    unix = datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    decision = Sizer(Sizing(WEEKDAYS, 1, 100)).look(at(0, 33, 0, day=unix))
    assert decision is not None
    assert decision.after == size


def test_a_schedule_shrinks_no_further_than_what_is_in_use() -> None:
    night = datetime(2026, 11, 30, 23, tzinfo=UTC).timestamp()
    decision = Sizer(Sizing(WEEKDAYS, 1, 100)).look(at(0, 40, 25, day=night))
    assert decision is not None
    assert decision.after == 25


def test_an_hour_that_summer_time_skips_is_no_fault() -> None:
    skipped = BySchedule(entries=(Entry("02:30", 5), Entry("12:00", 9)), timezone="Europe/Berlin")
    unix = datetime(2026, 3, 29, 1, 45, tzinfo=UTC).timestamp()
    decision = Sizer(Sizing(skipped, 1, 100)).look(at(0, 9, 0, day=unix))
    assert decision is not None
    assert decision.after == 5


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (BySchedule(entries=(Entry("08:00", 5), Entry("08:00", 6))), "policy.entries"),
        (BySchedule(entries=(Entry("08:00", 5),), timezone="Mars/Olympus"), "policy.timezone"),
    ],
)
def test_a_schedule_that_contradicts_itself_is_refused(body: BySchedule, field: str) -> None:
    fault = Sizing(body, 1, 10).fault()
    assert fault is not None
    assert fault[0] == field


def report(sizer: Sizer, second: float, outcome: str, capacity: int, held_s: float = 0.1) -> Decision | None:
    return sizer.completed(
        Completion(int(second * SECOND), outcome, int(held_s * SECOND), capacity)  # type: ignore[arg-type]
    )


def test_throttled_calls_are_a_cut_with_its_reason() -> None:
    sizer = Sizer(Sizing(Adaptive(), 1, 100))
    found = [report(sizer, 1 + index / 100, "throttled", 20) for index in range(5)]
    assert found[:4] == [None] * 4
    assert found[4] == Decision(20, 18, "5 of the last 5 calls went wrong, the newest throttled: 20 to 18")


def test_one_overload_is_one_cut_however_many_calls_it_hits() -> None:
    sizer = Sizer(Sizing(Adaptive(), 1, 100))
    cuts = [report(sizer, 30 + index / 100, "timeout", 20 if index < 5 else 18, held_s=20) for index in range(500)]
    assert len([cut for cut in cuts if cut]) == 1


def test_the_backends_own_noise_is_no_reason_to_cut() -> None:
    sizer = Sizer(Sizing(Adaptive(tolerance=0.05), 1, 100))
    outcomes = ["error" if index % 25 == 24 else "ok" for index in range(1000)]
    assert not any(report(sizer, index / 10, outcome, 20) for index, outcome in enumerate(outcomes))


def test_it_holds_while_the_pool_is_not_at_its_limit() -> None:
    sizer = Sizer(Sizing(Adaptive(), 1, 100))
    for second in range(120):
        for _ in range(10):
            report(sizer, second, "ok", 20)
        assert sizer.look(at(second + 0.5, 20, 15)) is None


def test_it_leaves_the_floor_when_calls_go_well_again() -> None:
    sizer, capacity = Sizer(Sizing(Adaptive(), 2, 100)), 3
    for index in range(400):
        decision = report(sizer, index / 20, "throttled", capacity)
        capacity = decision.after if decision else capacity
    assert capacity == 2
    for second in range(20, 120):
        for _ in range(10):
            report(sizer, second, "ok", capacity)
        decision = sizer.look(at(second + 0.5, capacity, capacity, waiting=5))
        capacity = decision.after if decision else capacity
    assert capacity > 20


def test_a_pin_wins_over_policy_and_bounds() -> None:
    pinned = Sizing(ByLoad(), 1, 100, pin=150)
    assert [decision.after for _, decision in play(Sizer(pinned), 1.0, 100)] == [150]
    assert report(Sizer(pinned), 5, "throttled", 150) is None


def test_a_dry_run_says_what_it_would_do_and_applies_nothing() -> None:
    found = play(Sizer(Sizing(ByLoad(), 1, 100, dry_run=True)), 1.0, 100)
    assert [decision.applied for _, decision in found] == [False] * 3
    assert {(decision.before, decision.after) for _, decision in found} == {(20, 22)}


POLICY = st.sampled_from(
    [ByLoad(window_s=1, max_wait_s=1), Adaptive(window_s=0.1, min_samples=1, tolerance=0), Adaptive("gradient"),
     Adaptive("vegas"), BySchedule((Entry("00:00", 7), Entry("00:01", 90)))]
)  # fmt: skip
STEP = st.tuples(
    st.sampled_from(["look", "ok", "throttled", "timeout", "error"]),
    st.floats(0.01, 3),
    st.integers(0, 60),
    st.integers(0, 5),
)


@settings(max_examples=200, deadline=None)
@given(POLICY, st.integers(1, 20), st.integers(0, 40), st.floats(0, 10), st.lists(STEP, max_size=120))
def test_bounds_hold_and_a_cooldown_has_one_decision(
    policy: ByLoad | Adaptive | BySchedule,
    least: int,
    more: int,
    cooldown: float,
    steps: list[tuple[str, float, int, int]],
) -> None:
    sizer, capacity, now, decided = Sizer(Sizing(policy, least, least + more, cooldown)), 15, 0.0, []
    for kind, wait, in_use, waiting in steps:
        now += wait
        if kind == "look":
            decision = sizer.look(at(now, capacity, in_use, waiting=waiting, oldest_s=waiting))
        else:
            decision = report(sizer, now, kind, capacity, held_s=wait / 2)
        if decision is not None:
            decided.append(now)
            assert decision.before == capacity
            assert least <= decision.after <= least + more
            assert decision.after != capacity
            assert decision.reason.endswith(f": {capacity} to {decision.after}")
            capacity = decision.after
    assert all(later - former >= cooldown - 2e-6 for former, later in itertools.pairwise(decided))


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_case_15_capacity_steps_40_10_40(index: int, seed: int) -> None:
    scenario = SCENARIOS[index]
    best = World(scenario, POLICIES["oracle"](scenario), START, seed).run()
    reasons: list[Decision] = []
    sizer = Sizer(Sizing(Adaptive(), 2, 200))

    def kept(decision: Decision | None) -> int | None:
        if decision is not None:
            reasons.append(decision)
        return None if decision is None else decision.after

    found = World(
        scenario,
        Sized(lambda sample: kept(sizer.look(sample)), lambda done, _: kept(sizer.completed(done))),
        START,
        seed,
    ).run()
    (down, _), (up, _) = scenario.steps
    assert found.sizes[down + 60] <= 20
    assert found.sizes[up + 60] >= 20
    assert max(found.sizes[up : up + 180]) >= 36
    assert min(found.sizes) >= 2
    assert found.ok >= 0.9 * best.ok
    assert found.bad_share <= 0.10
    assert all(decision.reason for decision in reasons)


def test_settings_come_from_json_and_go_back() -> None:
    body = b'{"policy":{"kind":"adaptive","decrease":0.8},"minimum":2,"maximum":50}'
    parsed = msgspec.json.decode(body, type=Sizing)
    assert parsed.policy == Adaptive(decrease=0.8)
    assert msgspec.json.decode(msgspec.json.encode(parsed), type=Sizing) == parsed
