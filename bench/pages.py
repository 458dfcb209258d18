"""500 open pages: what their live streams cost the server, and what they do to an acquire's p99 (case 17)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import uvloop
import websockets

from bench import loadgen
from bench.flows import FlowSpec
from bench.loadgen import Load
from bench.procs import ROOT, RelayServer, cpu_us
from bench.report import DURABLE, MEMORY, Figure
from bench.rest import Rest, make_pool

Say = Callable[[str], None]
PAGES, POOLS = 500, 200
QUIET_S, LOAD_S, ROUNDS = 15.0, 2.0, 5
POOL = "bench-pages"


async def watch(port: int, cookie: str) -> None:
    """Keeps the pages' streams open and reads what comes, until the process is ended."""
    address, headers = f"ws://127.0.0.1:{port}/ws/live/", {"Cookie": cookie}

    async def page() -> None:
        async with websockets.connect(address, additional_headers=headers, compression=None, ping_interval=None) as one:
            async for _ in one:
                pass

    tasks = []
    for _ in range(PAGES):
        tasks.append(asyncio.ensure_future(page()))
        await asyncio.sleep(0.005)
    print("open", flush=True)
    await asyncio.gather(*tasks)


@contextmanager
def open_pages(relay: RelayServer, cookie: str) -> Iterator[None]:
    """500 streams in a process of their own while the block runs. Raises RuntimeError if they cannot be opened."""
    command = [sys.executable, "-m", "bench.pages", str(relay.port), cookie]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != b"open\n":
            raise RuntimeError("The pages' streams could not be opened; the message is above.")
        time.sleep(1.5)
        yield
    finally:
        process.kill()
        process.wait()
        time.sleep(1.0)


def quiet_share(relay: RelayServer) -> float:
    """The share of a core that the server uses now, in percent."""
    before, began = cpu_us(relay.pid), time.perf_counter()
    time.sleep(QUIET_S)
    return (cpu_us(relay.pid) - before) / (time.perf_counter() - began) / 1e4


def p99_ms(relay: RelayServer) -> float:
    """An acquire's p99 under a light closed loop."""
    load = Load(relay.port, FlowSpec("pair", relay.key, POOL), connections=8, seconds=LOAD_S, pid=relay.pid)
    return float(loadgen.run(load).latency_ms[0]["p99"])


def run(say: Say) -> list[Figure]:
    """A fresh relay with 200 pools, with and without pages in turns."""
    relay = RelayServer()
    with relay:
        with Rest(relay.url, relay.key) as rest:
            for number in range(POOLS):
                make_pool(rest, f"bench-{number:03d}", 8)
            make_pool(rest, POOL, 100)
        with Rest(relay.url) as person:
            person.log_in("admin", relay.password)
            cookie = person.cookie
        say("the server alone")
        alone = quiet_share(relay)
        say(f"{PAGES} pages open")
        with open_pages(relay, cookie):
            shared = quiet_share(relay)
        ratios, without, beside = [], [], []
        for number in range(ROUNDS):
            say(f"acquires without and with pages, round {number + 1} of {ROUNDS}")
            without.append(p99_ms(relay))
            with open_pages(relay, cookie):
                beside.append(p99_ms(relay))
            ratios.append(beside[-1] / without[-1])
    return [
        Figure(
            f"{PAGES} open pages, {POOLS} pools",
            MEMORY,
            shared - alone,
            "% core",
            most=5.0,
            note=f"{alone:.1f} without, {shared:.1f} with",
        ),
        Figure(
            "acquire's p99 with pages / without, median",
            DURABLE,
            median(ratios),
            "times",
            most=1.25,
            note=f"{median(without):.2f} ms without, {median(beside):.2f} with",
        ),
    ]


if __name__ == "__main__":
    uvloop.run(watch(int(sys.argv[1]), sys.argv[2]))
