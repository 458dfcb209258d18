"""A scrape of 200 pools x 20 tenants under load: how long it holds the event loop up, and what it costs in throughput."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median
from time import perf_counter

import uvloop
from msgspec import Struct

from bench import loadgen
from bench.flows import FlowSpec, lease_id, request
from bench.handoff import Caller, connect
from bench.loadgen import Load, Result
from bench.probe import Probe
from bench.procs import RelayServer
from bench.report import DURABLE, MEMORY, Figure
from bench.rest import Rest, make_key, make_pool

Say = Callable[[str], None]
POOLS, TENANTS, SCRAPES = 200, 20, 20
GAP_S, BIN_S, LEAD_S = 0.5, 0.005, 2.0
LOADED = "bench-loaded"


class Scraped(Struct):
    """One scrape: from when to when, and what it brought."""

    start: float
    end: float
    size: int
    series: int


async def populate(port: int, pools: list[str], keys: list[str]) -> None:
    """Two outcomes of one class for every tenant in every pool: a grant, and a try that found nothing."""
    callers = [await connect(port) for _ in range(20)]
    for key in keys:
        await asyncio.gather(
            *(_two_outcomes(caller, pools[number :: len(callers)], key) for number, caller in enumerate(callers))
        )


async def _two_outcomes(caller: Caller, pools: list[str], key: str) -> None:
    send = caller.send
    for pool in pools:
        acquire = request("POST", f"/api/v1/pools/{pool}/acquire", key, b'{"timeout_s":0}')
        held = lease_id(await send(acquire))
        refused = await send(acquire)
        if not refused.startswith(b"HTTP/1.1 429"):
            raise RuntimeError(f"A try on a full pool was answered {refused[:300]!r}.")
        await send(request("POST", f"/api/v1/leases/{held.decode()}/release", key))


def prepare(relay: RelayServer, say: Say) -> None:
    """Makes the pools, the tenants and their counts."""
    pools = [f"bench-{number:03d}" for number in range(POOLS)]
    with Rest(relay.url, relay.key) as rest:
        say(f"{POOLS} pools and {TENANTS} tenants are made")
        for pool in pools:
            make_pool(rest, pool, 1)
        make_pool(rest, LOADED, 100_000)
        keys = [make_key(rest, f"bench-tenant-{number:02d}", ["permits"]) for number in range(TENANTS)]
    say(f"{POOLS * TENANTS * 2:,} series are counted")
    uvloop.run(populate(relay.port, pools, keys))


def scrape(rest: Rest) -> Scraped:
    """One scrape as Prometheus would do it. Raises RuntimeError if the series are not there."""
    start = perf_counter()
    status, text = rest.raw("GET", "/metrics")
    end = perf_counter()
    series = text.count(b"\nrelay_acquire_requests_total{")
    if status != 200 or series < POOLS * TENANTS * 2:
        raise RuntimeError(f"GET /metrics answered {status} with {series} series of acquires.")
    return Scraped(start, end, len(text), series)


def run(say: Say) -> list[Figure]:
    """20 scrapes under load of a fresh relay."""
    relay = RelayServer()
    with relay:
        prepare(relay, say)
        with Rest(relay.url) as rest:
            scrape(rest)  # the first one makes what later ones reuse
            idle = scrape(rest)
            seconds = LEAD_S + SCRAPES * (GAP_S + 1.5 * (idle.end - idle.start) + 0.1)
            load = Load(relay.port, FlowSpec("pair", relay.key, LOADED), 32, seconds, bin_s=BIN_S)
            say(f"{SCRAPES} scrapes of {idle.size / 1e6:.1f} MB under load")
            process = loadgen.start(load)
            try:
                scrapes, probe = _scrapes(rest, relay.port)
                result = loadgen.finish(process)
            finally:
                process.kill()
    return _figures(idle, scrapes, probe, result)


def _scrapes(rest: Rest, port: int) -> tuple[list[Scraped], Probe]:
    time.sleep(LEAD_S)
    scrapes = []
    with Probe(port) as probe:
        time.sleep(GAP_S)
        for _ in range(SCRAPES):
            scrapes.append(scrape(rest))
            time.sleep(GAP_S)
    return scrapes, probe


def _figures(idle: Scraped, scrapes: list[Scraped], probe: Probe, result: Result) -> list[Figure]:
    within = [one for one in scrapes if one.end < result.began + result.seconds]
    if len(within) < SCRAPES // 2:
        raise RuntimeError(f"Only {len(within)} of {SCRAPES} scrapes fell into the time of the load.")
    worst_added, median_added, shares = [], [], []
    for one in within:
        took = max(one.end - one.start, 4 * BIN_S)
        during = probe.between(one.start, one.start + took)
        before = probe.between(one.start - took, one.start)
        if during and before:
            worst_added.append((max(during) - max(before)) * 1000)
            median_added.append((median(during) - median(before)) * 1000)
        shares.append((_answers(result, one.start, one.start + took), _answers(result, one.start - took, one.start)))
    share = sum(during for during, _ in shares) / max(1, sum(before for _, before in shares))
    took = median(one.end - one.start for one in within) * 1000
    note = f"{idle.size / 1e6:.1f} MB, {idle.series:,} series of acquires; {(idle.end - idle.start) * 1000:.0f} ms without load"
    return [
        Figure("a scrape under load, median", MEMORY, took, "ms", note=note),
        Figure(
            "added lag of the loop, worst request in a scrape, median over the scrapes",
            MEMORY,
            median(worst_added),
            "ms",
            most=10,
            note=f"largest {max(worst_added):.1f}",
        ),
        Figure("added lag of the loop, median request", MEMORY, median(median_added), "ms"),
        Figure(
            "throughput during a scrape / before it",
            DURABLE,
            share,
            "times",
            least=0.7,
            note=f"{result.rate:,.0f}/s in all",
        ),
    ]


def _answers(result: Result, start: float, end: float) -> int:
    first = max(0, round((start - result.began) / BIN_S))
    return sum(result.bins[first : max(first + 1, round((end - result.began) / BIN_S))])
