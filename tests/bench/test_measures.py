"""What the benchmark makes of its figures, and its parts that need no server."""

from __future__ import annotations

import asyncio

import pytest

from bench import __main__ as command
from bench import core_bench, naive, report, scenarios
from bench.report import DURABLE, MEMORY, Figure, Rate
from relay import runtime


def rate(name: str, ratio: float | None, target: float | None) -> Rate:
    return Rate(name, name, DURABLE, [100.0, 300.0, 200.0], [30.0], [10.0], [0.5], [1.5], "echo", ratio, ratio, target)


def test_the_table_shows_medians_and_whether_each_target_is_met() -> None:
    found = report.new({})
    found.rates = [rate("quick", 0.71, 0.7), rate("slow", 0.69, 0.7), rate("free", None, None)]
    found.figures["other"] = [
        Figure("small", MEMORY, 3.0, "µs", most=4),
        Figure("big", MEMORY, 0.5, "times", least=0.7),
    ]
    text = report.render(found)
    quick, slow = (next(line for line in text.splitlines() if line.startswith(name)) for name in ("quick", "slow"))
    assert quick.split()[1:4] == ["durable", "200", "0.71"]
    assert quick.endswith("≥ 0.70  met")
    assert slow.endswith("MISSED")
    assert "2 of 4 targets met" in text
    assert report.missed(found)


def test_a_table_keeps_its_columns() -> None:
    lines = report.table(("a", "bb"), [("xxx", "1"), ("y", "222")], right=(1,)).splitlines()
    assert lines == ["a     bb", "---  ---", "xxx    1", "y    222"]


def test_a_scenario_brings_what_it_is_compared_with() -> None:
    assert [scenario.name for scenario in scenarios.with_bases(["contended"])] == ["echo", "uncontended", "contended"]
    assert scenarios.with_bases(["handoff"]) == []


def test_an_unknown_name_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.parse(["--only", "echo,nothing"])
    assert ended.value.code == 2
    assert "'nothing' is not one of: echo, uncontended" in capsys.readouterr().err


def test_the_core_is_measured_with_a_full_queue_of_many_tenants() -> None:
    world = core_bench.World(200)
    assert len(world.core.waiters) == 200
    assert world.core.in_use > core_bench.CAPACITY - 2  # one permit may be saved up for a request of two
    assert len(world.core.tenants) > 100


def test_the_core_is_measured_with_the_collector_as_the_relay_sets_it() -> None:
    assert core_bench.GC_THRESHOLDS == runtime.GC_THRESHOLDS


def test_the_tutorials_pool_breaks_the_order_and_the_core_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(naive, "TURNS", 3)
    seen = {make.__name__: asyncio.run(naive.crowd(make(2))) for make in (naive.NaivePool, naive.CorePool)}
    assert all(seen["CorePool"][1])
    assert not all(seen["NaivePool"][1])


def test_a_lone_waiter_is_woken_at_once_by_the_core_only() -> None:
    assert asyncio.run(naive.lone(naive.CorePool(1), 0.02)) < 0.03
    assert asyncio.run(naive.lone(naive.NaivePool(1), 0.02)) > 0.05
