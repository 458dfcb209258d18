"""How long from a release to the answer of the acquire that waited for it, beside an echo's round trip.

Two connections take turns on a pool of one permit: one holds, the other waits. Between the samples both servers rest equally long.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from array import array
from time import perf_counter
from typing import Any

import msgspec
import uvloop
from msgspec import Struct

from bench.flows import ACQUIRE_BODY, lease_id, request
from bench.loadgen import is_whole, spread
from bench.procs import ROOT


class Handoff(Struct, frozen=True):
    """Where to measure; `pause_s` lies before every sample."""

    relay_port: int
    echo_port: int
    key: str
    pool: str
    samples: int = 300
    pause_s: float = 0.002


class Times(Struct):
    """p50, p90, p99 and the worst in ms: release to the waiter's answer, release to its own answer, an echo's round trip."""

    handoff_ms: dict[str, float]
    release_ms: dict[str, float]
    echo_ms: dict[str, float]
    waited_share: float


class Caller(asyncio.Protocol):
    """One connection whose answers are awaited; remembers when each one came."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.at = 0.0
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: Any) -> None:
        """Keeps the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """A whole answer wakes who waits for it."""
        at = perf_counter()
        self._buffer += data
        if is_whole(self._buffer) and self._answer is not None and not self._answer.done():
            self.at = at
            self._answer.set_result(self._buffer)
            self._buffer = b""

    def connection_lost(self, error: Exception | None) -> None:
        """Whoever waits is told."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionError("The server closed the connection."))

    def send(self, message: bytes) -> asyncio.Future[bytes]:
        """Sends a request; the future is its answer."""
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(message)
        return self._answer


async def connect(port: int) -> Caller:
    """A keep-alive connection to this port of the loopback address."""
    _, caller = await asyncio.get_running_loop().create_connection(Caller, "127.0.0.1", port)
    return caller


async def measure(spec: Handoff) -> Times:
    """Takes the samples, in turns with the echo."""
    acquire = request("POST", f"/api/v1/pools/{spec.pool}/acquire", spec.key, ACQUIRE_BODY)
    echo = request("POST", "/echo", "", ACQUIRE_BODY)
    holder, waiter = await connect(spec.relay_port), await connect(spec.relay_port)
    pinger = await connect(spec.echo_port)
    times = (array("d"), array("d"), array("d"))
    held, waited = lease_id(await holder.send(acquire)), 0
    for sample in range(spec.samples + 20):
        answer = waiter.send(acquire)
        await asyncio.sleep(spec.pause_s)
        release = request("POST", f"/api/v1/leases/{held.decode()}/release", spec.key)
        began = perf_counter()
        released = holder.send(release)
        granted = await answer
        await released
        ended = waiter.at - began, holder.at - began
        await asyncio.sleep(spec.pause_s)
        began = perf_counter()
        await pinger.send(echo)
        if sample >= 20:
            for values, value in zip(times, (*ended, pinger.at - began), strict=True):
                values.append(value)
            waited += b'"waited_s":0.0,' not in granted
        held = lease_id(granted)
        holder, waiter = waiter, holder
    await holder.send(request("POST", f"/api/v1/leases/{held.decode()}/release", spec.key))
    return Times(spread(times[0]), spread(times[1]), spread(times[2]), round(waited / spec.samples, 4))


def run(spec: Handoff) -> Times:
    """Measures in a process of its own. Raises RuntimeError if that failed."""
    command = [sys.executable, "-m", "bench.handoff"]
    done = subprocess.run(
        command, cwd=ROOT, start_new_session=True, input=msgspec.json.encode(spec), stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        raise RuntimeError(f"The hand-over measurement ended with code {done.returncode}; its message is above.")
    return msgspec.json.decode(done.stdout, type=Times)


def main() -> None:
    """Reads a Handoff from standard input, writes Times to standard output."""
    spec = msgspec.json.decode(sys.stdin.buffer.read(), type=Handoff)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(measure(spec))))


if __name__ == "__main__":
    main()
