"""Work that several callers wait for: made once, dropped when nobody waits for it, kept from those who leave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from relay.http import Problem
from relay.tokens.flights import Flights
from relay.tokens.lanes import CHUNK_BYTES, LARGE_BYTES, Lanes, chunks
from relay.tokens.tokenizer import TokenizerFault
from tests.tokens.desk import KEY, Desk
from tests.tokens.stack import prose


class Mill:
    """Work in lanes that waits until it may go on."""

    def __init__(self) -> None:
        self.lanes = Lanes()
        self.flights: Flights[str, str] = Flights(self.lanes)
        self.made: list[str] = []
        self.kept: list[str] = []
        self.gate = threading.Event()
        self.fault: Exception | None = None

    async def ask(self, *keys: str, size: int = 1000, request: int = 0) -> list[str]:
        """The keys in capitals."""

        def work(places: list[int]) -> tuple[list[str], float]:
            self.gate.wait(10)
            if self.fault is not None:
                raise self.fault
            self.made += [keys[place] for place in places]
            return [keys[place].upper() for place in places], 0.0

        def keep(places: list[int], values: list[str], seconds: float) -> None:
            self.kept += values

        return await self.flights.values(keys, [size] * len(keys), request, work, keep)


@pytest.fixture
def mill() -> Iterator[Mill]:
    """A mill; closed at the end."""
    made = Mill()
    yield made
    made.gate.set()
    made.lanes.close()


async def begun(*asking: asyncio.Task[list[str]]) -> None:
    """Lets the tasks run up to where they wait."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(task.done() for task in asking)


def test_what_is_under_way_is_made_once(mill: Mill) -> None:
    async def work() -> list[list[str]]:
        tasks = [asyncio.ensure_future(mill.ask(*keys)) for keys in (("a", "b"), ("b", "c"), ("a",))]
        await begun(*tasks)
        mill.gate.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(work()) == [["A", "B"], ["B", "C"], ["A"]]
    assert sorted(mill.made) == ["a", "b", "c"]


def test_who_leaves_takes_nothing_from_the_others(mill: Mill) -> None:
    async def work() -> list[str]:
        leaving, staying = (asyncio.ensure_future(mill.ask("a")) for _ in range(2))
        await begun(leaving, staying)
        leaving.cancel()
        await asyncio.sleep(0)
        mill.gate.set()
        return await staying

    assert asyncio.run(work()) == ["A"]


def test_what_nobody_waits_for_is_not_begun_and_what_has_begun_is_kept(mill: Mill) -> None:
    async def work() -> None:
        # one thread serves these: the first begins, the second waits for it
        first, second = (asyncio.ensure_future(mill.ask(key, size=LARGE_BYTES)) for key in "ab")
        await asyncio.sleep(0.05)
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        again = asyncio.ensure_future(mill.ask("b", size=LARGE_BYTES))
        await asyncio.sleep(0)
        mill.gate.set()
        assert await again == ["B"]

    asyncio.run(work())
    assert mill.made == ["a", "b"]
    assert mill.kept == ["A", "B"]


def test_a_fault_reaches_everybody_and_is_not_remembered(mill: Mill) -> None:
    async def work() -> None:
        mill.fault = TokenizerFault("no such piece")
        tasks = [asyncio.ensure_future(mill.ask("a")) for _ in range(2)]
        await begun(*tasks)
        mill.gate.set()
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(error, Problem)
            assert (error.status, error.code) == (503, "tokenizer-unavailable")
            assert "no such piece" in error.detail
        mill.fault = None
        assert await mill.ask("a") == ["A"]

    asyncio.run(work())


def test_the_end_of_the_process_answers_who_waits(mill: Mill) -> None:
    async def work() -> list[str | BaseException]:
        tasks = [asyncio.ensure_future(mill.ask(key, size=LARGE_BYTES)) for key in "abc"]
        await begun(*tasks)
        mill.lanes.close()
        mill.gate.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(Problem, match="shutting down"):
            await mill.ask("d")
        return [each.code if isinstance(each, Problem) else str(each) for each in found]

    assert asyncio.run(work()) == ["['A']", "shutting-down", "shutting-down"]


def test_a_small_request_does_not_wait_for_a_large_one(mill: Mill) -> None:
    async def work() -> None:
        large = asyncio.ensure_future(mill.ask(*"abcdefgh", size=CHUNK_BYTES, request=8 * CHUNK_BYTES))
        whole = asyncio.ensure_future(mill.ask("whole", size=LARGE_BYTES))
        await asyncio.sleep(0.05)
        quick = Mill()
        quick.flights = Flights(mill.lanes)
        quick.gate.set()
        assert await asyncio.wait_for(quick.ask("small"), 5) == ["SMALL"]
        assert not large.done()
        assert not whole.done()
        mill.gate.set()
        await asyncio.gather(large, whole)

    asyncio.run(work())


def test_runs_are_bounded_by_bytes_and_texts() -> None:
    assert chunks([]) == []
    assert [len(run) for run in chunks([1] * 600)] == [256, 256, 88]
    assert [len(run) for run in chunks([CHUNK_BYTES // 2] * 5)] == [2, 2, 1]
    assert [len(run) for run in chunks([10, LARGE_BYTES, 10])] == [1, 1, 1]


def test_a_caller_that_hangs_up_ends_the_work_on_a_large_body(desk: Desk) -> None:
    text = prose(3_000_000, 77)

    async def work() -> int:
        left = asyncio.Event()
        sending = asyncio.ensure_future(desk.send("POST", "count", {"model": "gpt2", "text": text}, key=KEY, left=left))
        known = len(desk.service.levels.segments)
        while len(desk.service.levels.segments) <= known:
            await asyncio.sleep(0.01)
        left.set()
        answer = await sending
        assert (answer.status, answer.body["code"]) == (400, "invalid"), "nobody reads it"
        await asyncio.sleep(0.3)
        kept = len(desk.service.levels.segments)
        await asyncio.sleep(0.3)
        return len(desk.service.levels.segments) - kept

    assert desk.run(work()) == 0
