"""The event loop's lag as callers see it: a tiny request every few ms from a process of its own.

with Probe(port) as probe: …        probe.samples: (sent, seconds to the answer), on the machine's monotonic clock
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from time import perf_counter
from types import TracebackType

import msgspec
import uvloop

from bench.flows import request
from bench.handoff import connect
from bench.procs import ROOT

PACE_S = 0.002
Sample = tuple[float, float]


async def watch(port: int) -> list[Sample]:
    """Asks /healthz every 2 ms, the next one only after the last answer, until standard input ends."""
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.buffer.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    caller = await connect(port)
    message = request("GET", "/healthz")
    samples: list[Sample] = []
    due = perf_counter()
    print("watching", flush=True)
    while not ended.is_set():
        sent = perf_counter()
        await caller.send(message)
        samples.append((sent, caller.at - sent))
        due = max(due + PACE_S, perf_counter())
        await asyncio.sleep(due - perf_counter())
    return samples


class Probe:
    """Watches while its block runs."""

    def __init__(self, port: int) -> None:
        self.samples: list[Sample] = []
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Probe:
        command = [sys.executable, "-m", "bench.probe", str(self._port)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        output, _ = self._process.communicate(timeout=30)
        if self._process.returncode == 0:
            self.samples = msgspec.json.decode(output, type=list[Sample])
        elif error is None:
            raise RuntimeError("The probe of the event loop failed; its message is above.")

    def between(self, start: float, end: float) -> list[float]:
        """Seconds to the answer of the requests that were under way in this time."""
        return [took for sent, took in self.samples if sent < end and sent + took > start]


def main() -> None:
    """Watches the port given as the only argument."""
    print(msgspec.json.encode(uvloop.run(watch(int(sys.argv[1])))).decode(), flush=True)


if __name__ == "__main__":
    main()
