"""Many acquires that only wait: a process of its own that opens connections at a steady pace and keeps them.

with Parked(Park(port=…, pool="full", key=…, count=1000)): …   they wait until the block is left
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from types import TracebackType
from typing import Any

import msgspec
import uvloop
from msgspec import Struct

from bench.flows import request
from bench.procs import ROOT, raise_file_limit


class Park(Struct, frozen=True):
    """`count` acquires of `pool`, `per_second` new connections a second, each waiting up to `timeout_s`."""

    port: int
    pool: str
    key: str
    count: int
    per_second: int = 4000
    timeout_s: int = 3600


class Waiting(asyncio.Protocol):
    """One connection with one acquire under way; counts what it is answered."""

    def __init__(self, message: bytes, statuses: Counter[str]) -> None:
        self._message = message
        self._statuses = statuses
        self.transport: Any = None
        self.closing = False

    def connection_made(self, transport: Any) -> None:
        """Sends the acquire."""
        self.transport = transport
        transport.write(self._message)

    def data_received(self, data: bytes) -> None:
        """Counts an answer by its status."""
        if data.startswith(b"HTTP/1.1 "):
            self._statuses[data[9:12].decode()] += 1

    def connection_lost(self, error: Exception | None) -> None:
        """A connection that the server closed is counted."""
        if not self.closing:
            self._statuses["lost"] += 1


async def park(spec: Park) -> Counter[str]:
    """Opens the connections, says so on standard output, keeps them until standard input ends."""
    loop = asyncio.get_running_loop()
    statuses: Counter[str] = Counter()
    body = msgspec.json.encode({"timeout_s": spec.timeout_s, "ttl_s": 600})
    message = request("POST", f"/api/v1/pools/{spec.pool}/acquire", spec.key, body)
    connections: list[Waiting] = []
    began = loop.time()
    while len(connections) < spec.count:
        due = min(spec.count, int((loop.time() - began) * spec.per_second) + 1)
        fresh = [
            loop.create_connection(lambda: Waiting(message, statuses), "127.0.0.1", spec.port)
            for _ in range(due - len(connections))
        ]
        connections += [protocol for _, protocol in await asyncio.gather(*fresh)]
        await asyncio.sleep(0.005)
    print("parked", flush=True)
    await loop.run_in_executor(None, sys.stdin.buffer.read)
    for connection in connections:
        connection.closing = True
        connection.transport.close()
    await asyncio.sleep(0.1)
    return statuses


class Parked:
    """The waiting acquires of a `with` block. `answered` (after the block) counts answers by status."""

    def __init__(self, spec: Park) -> None:
        self.spec = spec
        self.answered: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Parked:
        command = [sys.executable, "-m", "bench.parker"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(self.spec) + b"\n")
        self._process.stdin.flush()
        if self._process.stdout.readline() != b"parked\n":
            self._process.kill()
            self._process.wait()
            raise RuntimeError("The process that holds the waiting connections failed; its message is above.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        output, _ = self._process.communicate(timeout=30)
        self.answered = msgspec.json.decode(output or b"{}")


def main() -> None:
    """Reads a Park from the first line of standard input."""
    spec = msgspec.json.decode(sys.stdin.buffer.readline(), type=Park)
    raise_file_limit()
    print(msgspec.json.encode(uvloop.run(park(spec))).decode(), flush=True)


if __name__ == "__main__":
    main()
