"""The feed and its ticker: order, one encoding, and who lags is let go."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from relay.telemetry.feed import MAX_LAG, Feed
from relay.telemetry.meters import FIELDS, Meters
from relay.telemetry.ticker import Ticker
from tests.telemetry.helpers import FakeClock, StillEngine, gauges


def read(frame: bytes) -> Any:
    return msgspec.json.decode(frame)


def test_every_subscriber_gets_the_same_bytes_in_order() -> None:
    async def run() -> None:
        feed = Feed(Meters(FakeClock()))
        one, two = feed.subscribe(), feed.subscribe()
        for at in range(5):
            feed.sample(at, {}, {})
        first = [await anext(one) for _ in range(5)]
        second = [await anext(two) for _ in range(5)]
        assert [read(frame)["seq"] for frame in first] == [1, 2, 3, 4, 5]
        assert all(a is b for a, b in zip(first, second, strict=True))

    asyncio.run(run())


def test_hello_and_the_first_frame_leave_no_hole() -> None:
    async def run() -> None:
        feed = Feed(Meters(FakeClock()))
        feed.sample(1, {}, {})
        frames = feed.subscribe()
        hello = read(feed.hello())
        feed.sample(2, {}, {})
        assert (hello["type"], hello["fields"]) == ("hello", list(FIELDS))
        assert read(await anext(frames))["seq"] == hello["seq"] + 1

    asyncio.run(run())


def test_a_subscriber_that_lags_is_let_go_and_the_others_are_not() -> None:
    async def run() -> None:
        feed = Feed(Meters(FakeClock()))
        slow, quick = feed.subscribe(), feed.subscribe()
        seen = []
        for at in range(MAX_LAG + 5):
            feed.sample(at, {}, {})
            seen.append(read(await anext(quick))["seq"])
        assert slow.dropped
        assert [frame async for frame in slow] == []
        assert seen == list(range(1, MAX_LAG + 6))

    asyncio.run(run())


def test_a_change_is_sent_at_once() -> None:
    async def run() -> None:
        feed = Feed(Meters(FakeClock()))
        frames = feed.subscribe()
        waiting = asyncio.ensure_future(anext(frames))
        await asyncio.sleep(0)
        feed.change({"kind": "pool", "name": "gpu", "action": "update"})
        assert read(await waiting) == {"type": "change", "kind": "pool", "name": "gpu", "action": "update"}

    asyncio.run(run())


def test_the_ticker_samples_every_pool_and_forgets_the_deleted() -> None:
    async def run() -> None:
        clock = FakeClock()
        meters = Meters(clock)
        engine = StillEngine(gauges("gpu", in_use=5), gauges("cpu"))
        feed = Feed(meters)
        ticker = Ticker(engine, meters, feed)  # type: ignore[arg-type]
        frames = feed.subscribe()
        ticker.sample(1_700_000_000)
        frame = read(await anext(frames))
        assert frame["at"] == "2023-11-14T22:13:20Z"
        assert frame["pools"]["gpu"][FIELDS.index("in_use")] == 5
        del engine.pools["cpu"]
        ticker.sample(1_700_000_001)
        assert list(read(await anext(frames))["pools"]) == ["gpu"]
        assert meters.names() == ["gpu"]

    asyncio.run(run())


def test_the_ticker_leaves_the_seconds_of_a_stall_out() -> None:
    async def run() -> None:
        # The clock is read before and after each sleep: the first sleep until 101 ends at 104.2, a stall.
        wall = [100.995, 104.2, 104.995, 105.001]

        def wall_clock() -> float:
            return wall.pop(0) if len(wall) > 1 else wall[0]

        meters = Meters(FakeClock())
        feed = Feed(meters)
        ticker = Ticker(StillEngine(gauges()), meters, feed, wall_clock)  # type: ignore[arg-type]
        frames = feed.subscribe()
        ticker.start()
        first, second = [read(await asyncio.wait_for(anext(frames), 2))["at"] for _ in range(2)]
        await ticker.stop()
        assert (first[-3:], second[-3:]) == ("44Z", "45Z")

    asyncio.run(run())


def test_hello_has_five_minutes_in_steps_with_gaps_as_null() -> None:
    clock = FakeClock()
    meters = Meters(clock)
    feed = Feed(meters)
    ticker = Ticker(StillEngine(gauges("gpu")), meters, feed)  # type: ignore[arg-type]
    for at in [*range(1000, 1010), *range(1015, 1021)]:
        clock.forward(1)
        ticker.sample(at)
    history = read(feed.hello())["history"]
    qps, wait = history["pools"]["gpu"]
    assert history["step_s"] == 5
    assert len(qps) == len(wait) == 60
    assert qps[-4:] == [0.0, 0.0, None, 0.0]
    assert history["start"] == 1015 - 59 * 5
