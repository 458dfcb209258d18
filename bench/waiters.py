"""10,000 waiting HTTP acquires: what they cost in memory, and whether pages and releases stay quick beside them."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from time import perf_counter

import uvloop
from msgspec import Struct

from bench.flows import ACQUIRE_BODY, lease_id, request
from bench.handoff import Caller, connect
from bench.parker import Park, Parked
from bench.probe import Probe
from bench.procs import RelayServer, raise_file_limit, rss_bytes
from bench.report import DURABLE, MEMORY, Figure
from bench.rest import Rest, make_key, make_pool, wait_for_waiting

Say = Callable[[str], None]
HELD = 300
PAGES = 40
BUSY, QUIET, CALM = "bench-busy", "bench-quiet", "bench-calm"
LIST = "/api/v1/pools"


class Speed(Struct):
    """Medians in ms. `busy_ms`: releases in the pool where the crowd waits, each hands over; without a crowd in one like it."""

    page_ms: float
    list_ms: float
    calm_ms: float
    busy_ms: float


class Desk:
    """An operator's browser and a caller with leases, one request at a time."""

    def __init__(self, relay: RelayServer) -> None:
        self._relay = relay
        self._key = relay.key
        self.rest = Rest(relay.url, self._key)
        self._browser = Rest(relay.url)
        for pool in (BUSY, QUIET, CALM):
            make_pool(self.rest, pool, HELD, max_waiters=100_000, max_ttl_s=3600)
        self._held: dict[str, list[str]] = {}
        self.crowd_key = make_key(self.rest, "bench-crowd", ["permits"])
        self._browser.log_in("admin", relay.password)

    def measure(self, pool: str) -> Speed:
        """The Overview, a list over the API, releases in a calm pool and in the named one, all held leases of each."""
        self.fill(CALM)
        return Speed(
            page_ms=self._pages(self._browser, "/", {}),
            list_ms=self._pages(self.rest, LIST, {"authorization": f"Bearer {self._key}"}),
            calm_ms=uvloop.run(self._releases(CALM)),
            busy_ms=uvloop.run(self._releases(pool)),
        )

    def _pages(self, rest: Rest, path: str, headers: dict[str, str]) -> float:
        times = []
        for _ in range(PAGES):
            began = perf_counter()
            status, _ = rest.raw("GET", path, None, headers)
            times.append(perf_counter() - began)
            if status != 200:
                raise RuntimeError(f"GET {path} answered {status} instead of 200.")
        return median(times) * 1000

    async def _releases(self, pool: str) -> float:
        caller = await connect(self._relay.port)
        times = []
        for held in self._held.pop(pool):
            message = request("POST", f"/api/v1/leases/{held}/release", self._key)
            began = perf_counter()
            answer = await caller.send(message)
            times.append(caller.at - began)
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"A release was answered {answer[:300]!r}.")
        return median(times) * 1000

    def fill(self, pool: str) -> None:
        """Takes all permits of a pool."""
        self._held[pool] = uvloop.run(self._take(pool))

    async def _take(self, pool: str) -> list[str]:
        caller: Caller = await connect(self._relay.port)
        body = ACQUIRE_BODY.replace(b'"ttl_s":60', b'"ttl_s":600')
        message = request("POST", f"/api/v1/pools/{pool}/acquire", self._key, body)
        return [lease_id(await caller.send(message)).decode() for _ in range(HELD)]


def run(say: Say, count: int = 10_000) -> list[Figure]:
    """Measures a fresh relay without the crowd, with it, and without it again. Raises RuntimeError if files are too few."""
    limit = raise_file_limit()
    if limit < count + 500:
        raise RuntimeError(
            f"{count:,} connections need a limit of open files above {count + 500:,} (ulimit -n), not {limit:,}."
        )
    relay = RelayServer()
    with relay:
        desk = Desk(relay)
        say("pages and releases without waiters")
        quiet(desk)  # warms up
        before = quiet(desk)
        with Probe(relay.port) as alone:
            time.sleep(2)
        desk.fill(BUSY)
        rss = rss_bytes(relay.pid)
        say(f"{count:,} acquires start to wait")
        with Parked(Park(relay.port, BUSY, desk.crowd_key, count, per_second=2500)):
            wait_for_waiting(desk.rest, BUSY, count, timeout_s=60)
            grown = (rss_bytes(relay.pid) - rss) / count
            with Probe(relay.port) as crowded:
                time.sleep(2)
            say("pages and releases beside them")
            beside = desk.measure(BUSY)
        wait_for_waiting(desk.rest, BUSY, 0, most=True)
        say("pages and releases without waiters again")
        after = quiet(desk)
    return _figures(count, (before, after), beside, grown, (alone, crowded))


def quiet(desk: Desk) -> Speed:
    """One measurement with nobody waiting."""
    desk.fill(QUIET)
    return desk.measure(QUIET)


def _figures(
    count: int, without: tuple[Speed, Speed], beside: Speed, grown: float, probes: tuple[Probe, Probe]
) -> list[Figure]:
    names = {
        "page_ms": ("Overview page", MEMORY, 2.0),
        "list_ms": ("GET /api/v1/pools", MEMORY, 2.0),
        "calm_ms": ("release in another pool", DURABLE, 2.0),
        "busy_ms": ("release that hands over to one of them", DURABLE, 2.0),
    }
    figures = []
    for field, (title, kept, most) in names.items():
        base, now = sum(getattr(speed, field) for speed in without) / 2, getattr(beside, field)
        note = f"{base:.3g} ms without, {now:.3g} ms with {count:,} waiting"
        figures.append(Figure(title, kept, now / base, "times", most=most, note=note))
    figures.append(Figure("memory a waiter", MEMORY, grown / 1000, "KB", most=20))
    for title, probe in zip(("without", f"with {count:,}"), probes, strict=True):
        times = sorted(took for _, took in probe.samples)
        note = f"p50 {times[len(times) // 2] * 1000:.2f} ms"
        figures.append(
            Figure(f"tiny request every 2 ms, worst, {title} waiting", MEMORY, times[-1] * 1000, "ms", note=note)
        )
    return figures
