"""The embedded engine on an event loop of its own, with a journal on disk: callers, restarts, a disk that refuses."""

from __future__ import annotations

import asyncio
import errno
import shutil
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from relay.permits.engine.base import SECOND, Ask, CallerGone, LeaseEnded, PoolConfig, PoolGauges, Refused
from relay.permits.engine.clock import EngineClock
from relay.permits.engine.journal import Journal, Record
from relay.permits.engine.memory import MemoryEngine
from relay.telemetry.meters import Meters

RANKS = {"critical": 0, "interactive": 1, "batch": 2, "background": 3}


class Caller:
    """A connection that the test can cut."""

    def __init__(self) -> None:
        self.left = asyncio.get_running_loop().create_future()

    def gone(self) -> bool:
        return self.left.done()

    def watch(self) -> Awaitable[None]:
        return self.left


class FullDisk(Journal):
    """A journal whose disk is full while `full` is set."""

    full = False

    def start_segment(self) -> None:
        self._check()
        super().start_segment()

    def write(self, records: list[Record]) -> None:
        self._check()
        super().write(records)

    def _check(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


class House:
    """An engine and the way to restart it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pools: dict[str, PoolConfig] = {"gpu": PoolConfig("gpu", 1)}

    async def open(self) -> MemoryEngine:
        clock = EngineClock()
        self.meters = Meters(clock)
        self.journal = FullDisk(self.folder)
        self.engine = MemoryEngine(self.journal, "second", clock, self.meters)
        await self.engine.start(self.pools, RANKS, {})
        return self.engine

    def outcomes(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for (_, _, outcome), count in self.meters.pool("gpu").requests.items():
            counts[outcome] = counts.get(outcome, 0) + count
        return counts


def ask(holder: str = "", timeout_s: float = 5, permits: int = 1, key: str | None = None, ttl_s: float = 60) -> Ask:
    return Ask("search", permits, "interactive", int(timeout_s * SECOND), int(ttl_s * SECOND), holder, {}, key)


Scenario = Callable[[House], Coroutine[Any, Any, None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Scenario], None]:
    def runner(scenario: Scenario) -> None:
        asyncio.run(scenario(House(tmp_path / "engine")))

    return runner


def gauges_of(engine: MemoryEngine) -> PoolGauges:
    gauges = engine.pool_gauges("gpu")
    assert gauges is not None
    return gauges


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_release_hands_over_to_the_waiter_at_once(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        first, granted = await engine.acquire("gpu", ask(), Caller())
        assert granted
        waiting = asyncio.ensure_future(engine.acquire("gpu", ask(), Caller()))
        await settle()
        assert gauges_of(engine).waiting == 1
        await engine.release(first.lease_id, "search")
        second, _ = await asyncio.wait_for(waiting, 0.5)
        assert second.fencing_token > first.fencing_token
        assert gauges_of(engine).in_use == 1

    run(scenario)


def test_a_caller_who_leaves_ends_its_wait(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        await engine.acquire("gpu", ask(), Caller())
        caller = Caller()
        waiting = asyncio.ensure_future(engine.acquire("gpu", ask(), caller))
        await settle()
        caller.left.set_result(None)
        with pytest.raises(CallerGone):
            await waiting
        assert gauges_of(engine).waiting == 0
        assert house.outcomes()["cancelled"] == 1

    run(scenario)


def test_a_call_cancelled_after_its_grant_gives_the_permit_back(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        first, _ = await engine.acquire("gpu", ask(), Caller())
        engine.delivered(first)
        waiting = asyncio.ensure_future(engine.acquire("gpu", ask(), Caller()))
        await settle()
        releasing = asyncio.ensure_future(engine.release(first.lease_id, "search"))
        await asyncio.sleep(0)
        waiting.cancel()
        await releasing
        await settle()
        assert gauges_of(engine).in_use == 0
        assert house.meters.pool("gpu").ended_by["dropped"] == 1

    run(scenario)


def test_a_repeat_takes_the_wait_over_and_the_first_is_told(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        held, _ = await engine.acquire("gpu", ask(), Caller())
        first = asyncio.ensure_future(engine.acquire("gpu", ask(key="k"), Caller()))
        await settle()
        second = asyncio.ensure_future(engine.acquire("gpu", ask(key="k", timeout_s=9), Caller()))
        with pytest.raises(Refused) as refused:
            await first
        assert refused.value.code == "superseded"
        await engine.release(held.lease_id, "search")
        lease, granted = await second
        assert granted
        again, granted = await engine.acquire("gpu", ask(key="k"), Caller())
        assert again.lease_id == lease.lease_id
        assert not granted

    run(scenario)


def test_a_restart_loses_no_lease_and_gives_each_its_full_time(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        held, _ = await engine.acquire("gpu", ask("w", ttl_s=30, key="k"), Caller())
        # no stop: as after kill -9
        engine = await house.open()
        gauges = gauges_of(engine)
        assert (gauges.in_use, gauges.drift) == (1, 0)
        view = engine.lease(held.lease_id, "search")
        assert view.holder == "w"
        assert 29.5 < view.expires_in_s <= 30
        with pytest.raises(Refused) as refused:
            await engine.acquire("gpu", ask(timeout_s=0), Caller())
        assert refused.value.code == "acquire-timeout"
        again, granted = await engine.acquire("gpu", ask("w", ttl_s=30, key="k"), Caller())
        assert (again.lease_id, granted) == (held.lease_id, False)
        assert (await engine.release(held.lease_id, "search")).reason is None
        after, _ = await engine.acquire("gpu", ask(), Caller())
        assert after.fencing_token > held.fencing_token

    run(scenario)


def test_how_a_lease_ended_is_known_after_a_restart(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        held, _ = await engine.acquire("gpu", ask(), Caller())
        await engine.revoke(held.lease_id)
        engine = await house.open()
        with pytest.raises(LeaseEnded) as ended:
            await engine.renew(held.lease_id, "search", None)
        assert ended.value.reason == "revoked"
        with pytest.raises(Refused, match="no such lease"):
            await engine.release(held.lease_id, "another")

    run(scenario)


def test_fencing_tokens_go_on_upwards_when_a_pool_is_made_again(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        held, _ = await engine.acquire("gpu", ask(), Caller())
        with pytest.raises(Refused) as refused:
            engine.remove("gpu", force=False)
        assert refused.value.code == "in-use"
        engine.remove("gpu", force=True)
        assert (await engine.release(held.lease_id, "search")).reason == "revoked"
        engine.configure({"gpu": PoolConfig("gpu", 1)}, None, None)
        again, _ = await engine.acquire("gpu", ask(), Caller())
        assert again.fencing_token > held.fencing_token
        house.pools = {}
        engine = await house.open()
        engine.configure({"gpu": PoolConfig("gpu", 1)}, None, None)
        last, _ = await engine.acquire("gpu", ask(), Caller())
        assert last.fencing_token > again.fencing_token

    run(scenario)


def test_a_full_disk_fails_closed_and_heals_without_a_restart(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        house.pools = {"gpu": PoolConfig("gpu", 4)}
        engine = await house.open()
        held = [(await engine.acquire("gpu", ask(), Caller()))[0] for _ in range(4)]
        waiting = asyncio.ensure_future(engine.acquire("gpu", ask(), Caller()))
        await settle()
        house.journal.full = True
        assert (await engine.release(held[0].lease_id, "search")).reason is None
        with pytest.raises(Refused) as refused:
            await waiting
        assert refused.value.code == "engine-unavailable"
        with pytest.raises(Refused) as refused:
            await engine.acquire("gpu", ask(), Caller())
        assert refused.value.code == "engine-unavailable"
        await engine.renew(held[1].lease_id, "search", None)
        await engine.release(held[2].lease_id, "search")
        gauges = gauges_of(engine)
        assert (gauges.in_use, gauges.drift, engine.up) == (2, 0, False)
        await engine.tick()
        assert not engine.up
        house.journal.full = False
        await engine.tick()
        assert engine.up
        lease, _ = await engine.acquire("gpu", ask(), Caller())
        engine = await house.open()
        assert gauges_of(engine).in_use == 3
        assert engine.lease(lease.lease_id, "search")

    run(scenario)


def test_nothing_is_granted_that_was_not_written(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        house.journal.full = True
        with pytest.raises(Refused) as refused:
            await engine.acquire("gpu", ask(), Caller())
        assert refused.value.code == "engine-unavailable"
        assert gauges_of(engine).in_use == 0
        assert house.outcomes() == {"error": 1}

    run(scenario)


def test_a_shutdown_answers_every_waiter(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        await engine.acquire("gpu", ask(), Caller())
        waiting = asyncio.ensure_future(engine.acquire("gpu", ask(), Caller()))
        await settle()
        engine.shut_down()
        with pytest.raises(Refused) as refused:
            await waiting
        assert refused.value.code == "shutting-down"
        with pytest.raises(Refused) as refused:
            await engine.acquire("gpu", ask(), Caller())
        assert refused.value.code == "shutting-down"

    run(scenario)


def test_expiry_and_deadline_need_nobody_to_call(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        house.pools = {"gpu": PoolConfig("gpu", 1)}
        engine = await house.open()
        await engine.acquire("gpu", ask(ttl_s=0.3), Caller())
        with pytest.raises(Refused) as refused:
            await engine.acquire("gpu", ask(timeout_s=0.1), Caller())
        assert refused.value.code == "acquire-timeout"
        assert refused.value.retry_after_us is not None
        lease, _ = await asyncio.wait_for(engine.acquire("gpu", ask(timeout_s=5), Caller()), 1)
        assert lease.waited_us > 0.1 * SECOND
        assert house.meters.pool("gpu").ended_by["expired"] == 1

    run(scenario)


def test_wall_times_are_right_at_once_after_a_restart(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        held, _ = await engine.acquire("gpu", ask(ttl_s=7200), Caller())
        before = engine.view(held)
        house.engine.now.continue_from(3600 * SECOND)  # as if it had run for an hour
        await engine.renew(held.lease_id, "search", None)
        engine = await house.open()
        after = engine.lease(held.lease_id, "search")
        assert after.acquired_at == before.acquired_at
        assert abs(datetime.fromisoformat(after.expires_at).timestamp() - time.time() - after.expires_in_s) < 0.5

    run(scenario)


def test_tokens_rise_even_after_an_older_copy_of_the_folder_is_put_back(
    run: Callable[[Scenario], None], tmp_path: Path
) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        await engine.acquire("gpu", ask(), Caller())
        await engine.stop()
        shutil.copytree(house.folder, tmp_path / "copy")
        engine = await house.open()
        engine.configure({"gpu": PoolConfig("gpu", 9), "later": PoolConfig("later", 1)}, None, None)
        newest, _ = await engine.acquire("gpu", ask(), Caller())
        other, _ = await engine.acquire("later", ask(), Caller())
        await engine.stop()
        house.folder, house.pools = tmp_path / "copy", {"gpu": PoolConfig("gpu", 9), "later": PoolConfig("later", 1)}
        engine = await house.open()
        assert (await engine.acquire("gpu", ask(), Caller()))[0].fencing_token > newest.fencing_token
        assert (await engine.acquire("later", ask(), Caller()))[0].fencing_token > other.fencing_token

    run(scenario)


def test_a_lease_kept_for_its_key_can_be_released_after_a_restart(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        held, _ = await engine.acquire("gpu", ask(key="k"), Caller())
        engine.undelivered(held)
        await engine.renew(held.lease_id, "search", None)
        engine.undelivered(held)
        await engine.stop()
        engine = await house.open()
        assert (await engine.release(held.lease_id, "search")).reason is None
        assert gauges_of(engine).in_use == 0

    run(scenario)


def test_a_repeat_is_not_answered_before_its_lease_is_written(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        house.journal.full = True
        calls = [asyncio.ensure_future(engine.acquire("gpu", ask(key="k"), Caller())) for _ in range(2)]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(answer, Refused) and answer.code for answer in answers] == ["engine-unavailable"] * 2

    run(scenario)


def test_a_class_that_is_deleted_while_somebody_waits_in_it_stops_nothing(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        held, _ = await engine.acquire("gpu", ask(), Caller())
        waiting = asyncio.ensure_future(engine.acquire("gpu", ask(), Caller()))
        await settle()
        engine.configure({}, {"critical": 0}, None)
        await engine.release(held.lease_id, "search")
        assert (await waiting)[1]

    run(scenario)


def test_nothing_is_kept_of_waiters_that_are_gone(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        held, _ = await engine.acquire("gpu", ask(), Caller())
        caller = Caller()
        waiting = asyncio.ensure_future(engine.acquire("gpu", ask(key="k"), caller))
        await settle()
        waiter_id = engine.waiters("gpu", tenant=None, priority=None, offset=0, limit=9)[0].waiter_id
        caller.left.set_result(None)
        with pytest.raises(CallerGone):
            await waiting
        await engine.release(held.lease_id, "search")
        lease, granted = await engine.acquire("gpu", ask(key="k"), Caller())
        assert granted
        assert engine.alive == 1
        with pytest.raises(Refused, match="Nobody waits"):
            engine.cancel(waiter_id)
        await engine.release(lease.lease_id, "search")
        assert engine.alive == 0

    run(scenario)


def test_a_grant_made_while_the_journal_went_down_is_not_answered(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        await engine.acquire("gpu", ask(ttl_s=0.05), Caller())
        waiting = asyncio.ensure_future(engine.acquire("gpu", ask(), Caller()))
        await settle()
        house.journal.full = True
        time.sleep(0.06)  # the lease is due in the same turn in which the journal fails
        with pytest.raises(Refused) as refused:
            await engine.acquire("gpu", ask(timeout_s=0), Caller())
        assert refused.value.code in {"acquire-timeout", "engine-unavailable"}
        with pytest.raises(Refused) as refused:
            await waiting
        assert refused.value.code == "engine-unavailable"
        assert gauges_of(engine).in_use == 0

    run(scenario)


def test_a_restart_shortens_no_promise(run: Callable[[Scenario], None]) -> None:
    async def scenario(house: House) -> None:
        engine = await house.open()
        held, _ = await engine.acquire("gpu", ask(ttl_s=3600), Caller())
        await engine.renew(held.lease_id, "search", SECOND)
        engine = await house.open()
        assert engine.lease(held.lease_id, "search").expires_in_s > 3500

    run(scenario)
