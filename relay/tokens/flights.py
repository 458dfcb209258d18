"""Work that several callers may wait for: what is asked for while it is being made is made once.

Work that no caller waits for any more is dropped if it has not begun; what has begun is kept for later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, Generic, TypeVar

from relay.tokens.lanes import Lanes, chunks, faulty, shutting_down
from relay.tokens.tokenizer import TokenizerFault

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Work = Callable[[list[int]], tuple[list[V], float]]
Keep = Callable[[list[int], list[V], float], None]


class Flight(Generic[K, V]):
    """One run in a lane: `landed` gets its values, in the order of its keys."""

    __slots__ = ("keys", "landed", "run", "waiting")

    def __init__(self, keys: list[K], run: Future[tuple[list[V], float]]) -> None:
        self.keys = keys
        self.run = run
        self.landed: asyncio.Future[list[V]] = asyncio.get_running_loop().create_future()
        self.waiting = 0


class Flights(Generic[K, V]):
    """What is under way, by key. Everything here runs on the event loop, only `work` in the lanes."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._flying: dict[K, tuple[Flight[K, V], int]] = {}

    async def values(self, keys: Sequence[K], sizes: list[int], request: int, work: Work[V], keep: Keep[V]) -> list[V]:
        """The values of different keys, which `work` makes of their places, in a thread, with the seconds that it took.

        `keep` is told places, values and seconds on the loop. `sizes` and `request` (the whole request's) in bytes.
        Raises 503 `tokenizer-unavailable`, `shutting-down`.
        """
        flying = self._flying
        new = [place for place, key in enumerate(keys) if key not in flying]
        for run in chunks([sizes[place] for place in new]):
            places = [new[index] for index in run]
            started = self._lanes.submit(partial(work, places), sum(sizes[place] for place in places), request)
            self._launch([keys[place] for place in places], started, partial(keep, places))
        seats = [flying[key] for key in keys]
        flights = {id(flight): flight for flight, _ in seats}.values()
        for flight in flights:
            flight.waiting += 1
        try:
            for flight in flights:
                await asyncio.shield(flight.landed)  # a caller that leaves must not take it from the others
        except TokenizerFault as fault:
            raise faulty(fault) from None
        except CancelledError:
            raise shutting_down() from None
        finally:
            for flight in flights:
                self._leave(flight)
        return [flight.landed.result()[seat] for flight, seat in seats]

    def _launch(
        self, keys: list[K], run: Future[tuple[list[V], float]], keep: Callable[[list[V], float], None]
    ) -> None:
        flight: Flight[K, V] = Flight(keys, run)
        self._flying.update((key, (flight, seat)) for seat, key in enumerate(keys))
        loop = asyncio.get_running_loop()

        def ended(_: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._land, flight, keep)

        run.add_done_callback(ended)

    def _land(self, flight: Flight[K, V], keep: Callable[[list[V], float], None]) -> None:
        self._forget(flight)
        try:
            values, seconds = flight.run.result()
        except BaseException as error:  # a flight must land whatever happened
            flight.landed.set_exception(error)
            flight.landed.exception()  # whoever waits gets it; nobody waiting is no fault
        else:
            keep(values, seconds)
            flight.landed.set_result(values)

    def _leave(self, flight: Flight[K, V]) -> None:
        flight.waiting -= 1
        if not flight.waiting and not flight.landed.done() and flight.run.cancel():
            self._forget(flight)

    def _forget(self, flight: Flight[K, V]) -> None:
        for key in flight.keys:
            if self._flying.get(key, (None,))[0] is flight:
                del self._flying[key]
