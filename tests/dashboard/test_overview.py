"""What the overview says and draws, from lines made by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from dashboard import format as figures
from dashboard.attempts import MAX_BY_ADDRESS, MAX_BY_NAME, WINDOW_S, Attempts
from dashboard.live import PoolLine, Snapshot, columns
from dashboard.overview import totals, verdict, why
from dashboard.pictures import Meter, spark
from relay.telemetry.gauges import Holder

CALM = PoolLine("gpu", 8, 3, 0, 0, 0.0, "flowing", 12.0, 0.004, 0, 720, 0, [], Holder("search", 3, 3), [], [])


def line(name: str = "gpu", **fields: Any) -> PoolLine:
    return replace(CALM, name=name, **fields)


def test_the_verdict_names_the_worst_pool_and_how_many_more() -> None:
    pools = [
        line("a", health="starving", timeouts=3, waiting=2, oldest_wait_s=41),
        line("b", health="queuing"),
        line("c"),
    ]
    found = verdict(pools)
    assert (found.pool, found.words, found.title, found.tone) == (
        "a",
        "is starving. One more needs watching",
        "1 starving",
        "is-act",
    )
    assert found.lede == "3 callers gave up in the last minute. The oldest has waited 41.0 s."


def test_a_queue_alone_is_to_watch() -> None:
    assert verdict([line(health="queuing")]).tone == "is-watch"


@pytest.mark.parametrize(
    ("health", "words"),
    [
        ("flowing", "Everything flows"),
        ("idle", "Nothing is asked for"),
        ("paused", "Nothing is asked for. One pool is out of service"),
    ],
)
def test_a_calm_page_says_so(health: str, words: str) -> None:
    assert verdict([line(health=health)]).words == words


def test_without_pools_the_verdict_is_what_to_do_first() -> None:
    assert verdict([]).words == "No pool yet"


def test_worst_first_is_who_waits_longest_times_how_many() -> None:
    pools = [
        line("flowing"),
        line("few", health="queuing", waiting=2, oldest_wait_s=10),
        line("many", health="queuing", waiting=50, oldest_wait_s=1),
        line("starving", health="starving"),
    ]
    assert [pool.name for pool in sorted(pools, key=lambda pool: pool.trouble)] == [
        "starving",
        "many",
        "few",
        "flowing",
    ]


def test_totals_weigh_the_average_wait_by_grants() -> None:
    pools = [
        line("a", average_wait_s=1.0, grants=1),
        line("b", average_wait_s=0.0, grants=3),
        line("c", average_wait_s=None, grants=0),
    ]
    snapshot = Snapshot(pools, {"hit_rate": None, "tokens_s": 0.0}, "memory")
    found = {total.key: (total.value, total.unit) for total in totals(snapshot)}
    assert found["average"] == ("250", "ms")
    assert found["in-use"] == ("9", "/ 24")
    assert found["hits"] == ("–", "")


def test_the_notes_compare_with_five_minutes_ago() -> None:
    steps: list[float | None] = [10.0] * 60
    waits: list[float | None] = [0.2] * 60
    snapshot = Snapshot(
        [line(qps=12.0, qps_steps=steps, wait_steps=waits)], {"hit_rate": 0.5, "tokens_s": 0.0}, "memory"
    )
    notes = {total.key: total.note for total in totals(snapshot)}
    assert notes["qps"] == "in 60 s; 20 % above 5 min ago"
    assert notes["average"] == "in 60 s; 200 ms 5 min ago"
    assert notes["in-use"] == "38 %, no pool full"


def test_the_cause_names_the_tenant_that_holds_most() -> None:
    over = line(health="starving", most=Holder("eval", 6, 2))
    assert why(over) == ("eval", "holds 6 of 8, its share is 2")
    assert why(line(health="queuing", most=Holder("eval", 6, 6))) == ("eval", "holds 6 of 8")
    assert why(line(health="queuing", most=None)) == ("", "")
    assert why(line(health="shrinking", over_limit=5)) == ("", "5 over its new size, none evicted")
    assert why(line()) == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ("–", "")),
        (0, ("0", "ms")),
        (0.0004, ("0.4", "ms")),
        (0.34, ("340", "ms")),
        (0.9999, ("1.0", "s")),
        (1.2, ("1.2", "s")),
        (120, ("120", "s")),
        (7200, ("120", "min")),
    ],
)
def test_durations_read_as_people_write_them(seconds: float | None, text: tuple[str, str]) -> None:
    assert figures.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1 / 60, "0.02"), (12.14, "12.1"), (412, "412"), (9120, "9,120"), (12_400, "12.4k"), (3.1e6, "3.1M")],
)
def test_rates_read_as_people_write_them(value: float, text: str) -> None:
    assert figures.rate(value) == text


def test_a_bar_holds_only_what_uses_capacity() -> None:
    assert Meter.of(6, 8) == Meter("75%", "", True)
    assert Meter.of(10, 8) == Meter("80%", "20%", False)
    assert (Meter.of(6, 8, 2).due, Meter.of(6, 8, 8).due) == ("25%", "")
    assert Meter.of(3, 25).cells is False


def test_a_gap_in_a_line_stays_a_gap() -> None:
    assert spark([1.0, 2.0, None, 1.0], log=False) == "M2 14l25-9M77 14l0 0"
    assert spark([None, 0.0], log=True) == ""


def test_a_line_keeps_its_ends_and_peaks_and_leaves_out_what_nobody_would_miss() -> None:
    flat, peak = spark([5.0, 5.1] * 30, log=False), spark([1.0] * 30 + [9.0] + [1.0] * 29, log=False)
    assert flat == "M2 5l75 0"
    assert [int(step) for step in re.findall("-[0-9]+", peak)] == [-16]
    assert len(peak) < 40


def test_steps_become_columns_that_end_with_the_newest() -> None:
    qps, wait = columns([(100, 1.0, 0.5), (110, 3.0, None)])
    assert (len(qps), qps[-3:], wait[-3:]) == (60, [1.0, None, 3.0], [0.5, None, None])


def test_wrong_passwords_are_slowed_by_address_and_name_and_nobody_is_locked_out_from_elsewhere() -> None:
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for _ in range(MAX_BY_NAME):
        assert attempts.begin("10.0.0.1", "admin") == 0
    assert attempts.begin("10.0.0.1", "admin") == WINDOW_S
    assert attempts.begin("10.0.0.2", "admin") == 0
    assert attempts.begin("10.0.0.1", "other") == 0
    now[0] = WINDOW_S
    assert attempts.begin("10.0.0.1", "admin") == 0


def test_guessing_many_names_from_one_address_is_slowed_too() -> None:
    attempts = Attempts(lambda: 0.0)
    for number in range(MAX_BY_ADDRESS):
        assert attempts.begin("10.0.0.1", f"name{number}") == 0
    assert attempts.begin("10.0.0.1", "fresh") > 0


def test_a_right_password_counts_against_nobody() -> None:
    attempts = Attempts(lambda: 0.0)
    for _ in range(3 * MAX_BY_ADDRESS):
        assert attempts.begin("10.0.0.1", "admin") == 0
        attempts.succeeded("10.0.0.1", "admin")
