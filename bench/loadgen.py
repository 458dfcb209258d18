"""The load generator: keep-alive HTTP/1.1 connections in a closed loop, in a process of its own.

Raw asyncio protocols on uvloop, one request in flight per connection; of an answer it reads the status and the length only,
so that a request costs clearly less here than in the server and the server is what is measured.

    run(Load(port=…, flow=FlowSpec("pair", …)))   starts the process and returns its Result
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from array import array
from collections import Counter
from time import perf_counter
from typing import Any

import msgspec
import uvloop
from msgspec import Struct

from bench.flows import FLOWS, Flow, FlowSpec
from bench.procs import ROOT, cpu_us

_NOT_WAITED = b'"waited_s":0.0,'


class Load(Struct, frozen=True):
    """One run: `connections` in a closed loop for `seconds` after `warmup_s`; `pid` is the server, whose CPU is read."""

    port: int
    flow: FlowSpec
    connections: int = 32
    seconds: float = 2.0
    warmup_s: float = 0.3
    pid: int = 0
    bin_s: float = 0.0


class Result(Struct):
    """What one run saw. Rates are requests a second; `latency_ms` has p50, p90, p99, max per step of the flow.

    `bins` counts answers in slices of `bin_s` from `began` (the machine's monotonic clock), where asked for.
    """

    requests: int
    seconds: float
    rate: float
    server_us: float
    client_us: float
    latency_ms: list[dict[str, float]]
    statuses: dict[str, int]
    lost: int
    waited_share: float
    sample: str = ""
    began: float = 0.0
    bins: list[int] = []


class Tally:
    """What all connections of a run count together."""

    def __init__(self, bin_s: float) -> None:
        self.latencies = (array("d"), array("d"))
        self.statuses: Counter[int] = Counter()
        self.lost = 0
        self.at_once = 0
        self.sample = b""
        self.stopping = False
        self.bin_s = bin_s
        self.times = array("d")

    def clear(self) -> None:
        """Forgets the warm-up."""
        self.latencies = (array("d"), array("d"))
        self.statuses.clear()
        self.at_once = 0
        self.times = array("d")


class Connection(asyncio.Protocol):
    """One keep-alive connection, one request in flight."""

    def __init__(self, flow: Flow, tally: Tally) -> None:
        self._flow = flow
        self._tally = tally
        self._buffer = b""
        self._sent = 0.0
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        """Sends the first request."""
        self.transport = transport
        self._sent = perf_counter()
        transport.write(self._flow.first())

    def data_received(self, data: bytes) -> None:
        """Counts a whole answer and sends the next request."""
        if self._buffer:
            data = self._buffer + data
        if not is_whole(data):
            self._buffer = data
            return
        self._buffer = b""
        now = perf_counter()
        tally, flow = self._tally, self._flow
        status = int(data[9:12])
        tally.statuses[status] += 1
        tally.latencies[flow.step].append(now - self._sent)
        if tally.bin_s:
            tally.times.append(now)
        if flow.step == 0 and _NOT_WAITED in data:
            tally.at_once += 1
        if status >= 300 and not tally.sample:
            tally.sample = data[-300:]
        following = flow.after(status, data)
        if tally.stopping and flow.step == 0:
            self.transport.close()
            return
        self._sent = now
        self.transport.write(following)

    def connection_lost(self, error: Exception | None) -> None:
        """A connection that the server closed is a finding."""
        if not self._tally.stopping:
            self._tally.lost += 1

    def stop(self) -> None:
        """Closes the connection, whatever is under way."""
        if self.transport is not None:
            self.transport.close()


def is_whole(data: bytes) -> bool:
    """Whether these bytes are a whole answer, by its content-length."""
    head = data.find(b"\r\n\r\n")
    if head < 0:
        return False
    start = data.find(b"content-length: ", 0, head)
    if start < 0:
        start = data[:head].lower().find(b"content-length: ")
        if start < 0:
            raise ValueError(f"An answer without content-length: {data[:200]!r}")
    end = data.find(b"\r", start)
    return len(data) >= head + 4 + int(data[start + 16 : end])


def spread(values: array[float]) -> dict[str, float]:
    """p50, p90, p99 and the worst, in ms."""
    if not values:
        return {}
    ordered = sorted(values)
    last = len(ordered) - 1
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[round(last * share)] * 1000, 4) for name, share in shares.items()}


async def measure(load: Load) -> Result:
    """Runs the load in this process."""
    loop = asyncio.get_running_loop()
    tally = Tally(load.bin_s)
    connections = []
    for _ in range(load.connections):
        _, connection = await loop.create_connection(
            lambda: Connection(FLOWS[load.flow.name](load.flow), tally), "127.0.0.1", load.port
        )
        connections.append(connection)
    await asyncio.sleep(load.warmup_s)
    tally.clear()
    server, own, began = cpu_us(load.pid) if load.pid else 0.0, time.process_time(), perf_counter()
    await asyncio.sleep(load.seconds)
    seconds = perf_counter() - began
    own = time.process_time() - own
    server = cpu_us(load.pid) - server if load.pid else 0.0
    result = _result(load, tally, began, seconds, server, own)
    tally.stopping = True
    await asyncio.sleep(0.1)
    for connection in connections:
        connection.stop()
    await asyncio.sleep(0.05)
    return result


def _result(load: Load, tally: Tally, began: float, seconds: float, server: float, own: float) -> Result:
    requests = sum(tally.statuses.values())
    if not requests:
        raise SystemExit(f"No answer came within {seconds:.1f} s from port {load.port} ({load.flow.name}).")
    acquires = len(tally.latencies[0])
    bins = [0] * (int(seconds / load.bin_s) + 1) if load.bin_s else []
    for moment in tally.times:
        bins[min(len(bins) - 1, int((moment - began) / load.bin_s))] += 1
    return Result(
        requests=requests,
        seconds=round(seconds, 4),
        rate=round(requests / seconds, 1),
        server_us=round(server / requests, 2),
        client_us=round(own * 1e6 / requests, 2),
        latency_ms=[spread(values) for values in tally.latencies if values],
        statuses={str(status): count for status, count in sorted(tally.statuses.items())},
        lost=tally.lost,
        waited_share=round(1 - tally.at_once / acquires, 5) if acquires else 0.0,
        sample=tally.sample.decode(errors="replace"),
        began=began,
        bins=bins,
    )


def start(load: Load) -> subprocess.Popen[bytes]:
    """Starts a run in a process of its own; collect it with `finish`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.loadgen"],
        cwd=ROOT,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(load))
    process.stdin.close()
    process.stdin = None
    return process


def finish(process: subprocess.Popen[bytes]) -> Result:
    """Waits for a run's end. Raises RuntimeError if the generator failed."""
    try:
        output, _ = process.communicate()
    finally:
        process.kill()
    if process.returncode:
        raise RuntimeError(f"The load generator ended with code {process.returncode}; its message is above.")
    return msgspec.json.decode(output, type=Result)


def run(load: Load) -> Result:
    """One run in a process of its own."""
    return finish(start(load))


def main() -> None:
    """Reads a Load from standard input, writes the Result to standard output."""
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(measure(load))))


if __name__ == "__main__":
    main()
