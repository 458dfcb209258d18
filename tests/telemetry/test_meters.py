"""Meters against a clock that the test moves."""

from __future__ import annotations

import pytest

from relay.telemetry.health import health_of
from relay.telemetry.meters import FIELDS, SECOND, Meters
from relay.telemetry.present import describe
from relay.telemetry.tenants import MAX_TENANTS
from relay.telemetry.window import Window
from tests.telemetry.helpers import FakeClock, gauges

QUIET = Window(qps=0.0, average_wait_s=None, timeouts=0, starved=False, active=False, grants=0)


def test_the_window_counts_the_running_second() -> None:
    clock = FakeClock()
    meter = Meters(clock).pool("gpu")
    for _ in range(30):
        meter.arrived()
    assert meter.window().qps == 0.5


def test_an_arrival_leaves_the_window_after_sixty_seconds_and_not_before() -> None:
    clock = FakeClock()
    meter = Meters(clock).pool("gpu")
    meter.arrived()
    clock.forward(59)
    assert meter.window().active
    clock.forward(1)
    assert not meter.window().active


def test_a_pause_longer_than_the_window_empties_it() -> None:
    clock = FakeClock()
    meter = Meters(clock).pool("gpu")
    meter.arrived()
    clock.forward(3600)
    meter.arrived()
    assert meter.window().qps == pytest.approx(1 / 60)


def test_arrivals_of_every_second_of_the_window_add_up() -> None:
    clock = FakeClock()
    meter = Meters(clock).pool("gpu")
    for _ in range(500):
        meter.arrived()
        meter.arrived()
        clock.forward(1)
    clock.forward(-1)
    assert meter.window().qps == 2.0


def test_the_average_wait_is_over_grants_and_counts_waits_of_zero() -> None:
    meter = Meters(FakeClock()).pool("gpu")
    meter.answered("default", "interactive", "granted", 0)
    meter.answered("default", "interactive", "granted", 3 * SECOND)
    meter.answered("default", "interactive", "timeout", 30 * SECOND)
    window = meter.window()
    assert (window.average_wait_s, window.timeouts, window.grants) == (1.5, 1, 2)


def test_without_grants_there_is_no_average() -> None:
    meter = Meters(FakeClock()).pool("gpu")
    meter.answered("default", "interactive", "rejected", 0)
    assert meter.window().average_wait_s is None


@pytest.mark.parametrize("cause", ["timeout", "queue-full"])
def test_a_timeout_or_a_full_queue_starves_for_a_minute(cause: str) -> None:
    clock = FakeClock()
    meter = Meters(clock).pool("gpu")
    if cause == "timeout":
        meter.answered("default", "batch", "timeout", SECOND)
    else:
        meter.queue_full()
    assert meter.window().starved
    clock.forward(60)
    assert not meter.window().starved


def test_tenants_beyond_the_first_two_hundred_share_one_label() -> None:
    meter = Meters(FakeClock()).pool("gpu")
    for number in range(MAX_TENANTS + 50):
        meter.answered(f"t{number}", "batch", "granted", 0)
    meter.answered("t0", "batch", "granted", 0)
    assert meter.requests[("other", "batch", "granted")] == 50
    assert meter.requests[("t0", "batch", "granted")] == 2
    assert len(meter.requests) == MAX_TENANTS + 1


def test_a_sample_says_what_happened_since_the_last_one() -> None:
    clock = FakeClock()
    meter = Meters(clock).pool("gpu")
    clock.forward(1)
    for _ in range(12):
        meter.arrived()
        meter.answered("default", "interactive", "granted", SECOND // 4)
    first = dict(zip(FIELDS, meter.sample(5000, gauges(in_use=5)), strict=True))
    clock.forward(1)
    second = dict(zip(FIELDS, meter.sample(5001, gauges(in_use=5)), strict=True))
    assert (first["qps"], first["average_wait_s"], first["in_use"], first["granted"]) == (12, 0.25, 5, 12)
    assert (second["qps"], second["average_wait_s"], second["granted"]) == (0, None, 0)
    assert second["window_qps"] == 0.2


def test_the_first_sample_after_a_stall_gives_the_rate_and_not_the_heap() -> None:
    clock = FakeClock()
    meter = Meters(clock).pool("gpu")
    for _ in range(40):
        meter.arrived()
    clock.forward(4)
    assert meter.sample(5000, gauges())[0] == 10


def test_history_gives_the_range_and_leaves_gaps_out() -> None:
    clock = FakeClock()
    meter = Meters(clock).pool("gpu")
    for at in [*range(100, 110), *range(113, 120)]:
        clock.forward(1)
        meter.sample(at, gauges(in_use=at % 8))
    history = meter.history(10)
    assert history["step_s"] == 1
    assert [row[0] for row in history["rows"]] == [*range(113, 120)]
    assert [row[0] for row in meter.history(900)["rows"]] == [*range(100, 110), *range(113, 120)]
    column = history["fields"].index("in_use")
    assert [row[column] for row in history["rows"]] == [at % 8 for at in range(113, 120)]
    assert {row[history["fields"].index("average_wait_s")] for row in history["rows"]} == {None}


def test_history_keeps_the_newest_fifteen_minutes() -> None:
    clock = FakeClock()
    meter = Meters(clock).pool("gpu")
    for at in range(1000, 2000):
        clock.forward(1)
        meter.sample(at, gauges())
    rows = meter.history(100_000)["rows"]
    assert (len(rows), rows[0][0], rows[-1][0]) == (900, 1100, 1999)


def test_steps_of_five_seconds_average_their_samples() -> None:
    clock = FakeClock()
    meter = Meters(clock).pool("gpu")
    for at in range(100, 111):
        clock.forward(1)
        if at == 102:
            meter.arrived()
            meter.answered("default", "batch", "granted", 2 * SECOND)
        meter.sample(at, gauges())
    assert list(meter.past.steps) == [(100, 0.2, 2.0), (105, 0.0, None)]


def test_a_dropped_pool_begins_anew() -> None:
    meters = Meters(FakeClock())
    meters.pool("gpu").arrived()
    meters.drop("gpu")
    assert meters.names() == []
    assert not meters.pool("gpu").window().active


@pytest.mark.parametrize(
    ("word", "shown", "window"),
    [
        ("paused", gauges(state="paused", in_use=9), QUIET),
        ("draining", gauges(state="draining", in_use=9), QUIET),
        ("shrinking", gauges(in_use=9, waiting=3, oldest_wait_s=100), QUIET),
        ("starving", gauges(waiting=1, oldest_wait_s=15.1), QUIET),
        ("starving", gauges(), Window(0.1, None, 1, True, True, 0)),
        ("queuing", gauges(in_use=8, waiting=1, oldest_wait_s=15), QUIET),
        ("full", gauges(in_use=8), QUIET),
        ("flowing", gauges(in_use=1), QUIET),
        ("flowing", gauges(), Window(0.1, 0.0, 0, False, True, 1)),
        ("idle", gauges(), QUIET),
    ],
)
def test_health_is_the_first_rule_that_holds(word: str, shown: object, window: Window) -> None:
    assert health_of(shown, window) == word  # type: ignore[arg-type]


def test_a_shrunk_pool_shows_no_negative_number() -> None:
    shown = describe(gauges(capacity=3, in_use=8), QUIET)
    assert (shown["available"], shown["over_limit"], shown["health"]) == (0, 5, "shrinking")
