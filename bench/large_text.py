"""Short counts while a text of 10 MB is counted, over HTTP: what it does to their p99, and how much memory it takes."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from msgspec import Struct

from bench.procs import RelayServer, rss_bytes
from bench.questions import Prose, question
from bench.report import MEMORY, Figure
from bench.rest import Rest

Say = Callable[[str], None]
LARGE, ROUNDS = 10_000_000, 5
IDLE_S = 3.0
PAUSE_S = 0.002  # between two short counts: a caller that has something else to do, as most have
MEBI = 1024 * 1024


class Round(Struct):
    """Latencies of short counts in ms, and what the large text took."""

    idle_p99_ms: float
    busy_p99_ms: float
    large_s: float
    grown_mb: float


def percentile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def large_text(prose: str, seed: int) -> str:
    """10 MB of prose whose words come in another order each time."""
    pick, lines = random.Random(seed), prose.split("\n")
    parts: list[str] = []
    size = 0
    while size < LARGE:
        parts.append(f"{pick.choice(lines)} {pick.randrange(10_000)} {pick.choice(lines)}")
        size += len(parts[-1]) + 1
    return "\n".join(parts)[:LARGE]


class Short:
    """Short counts, one after the other, each of a text never seen before."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest
        self._number = 0

    def while_(self, going_on: Callable[[], bool]) -> list[float]:
        """Their latencies in ms as long as something goes on."""
        found = []
        while going_on():
            self._number += 1
            began = time.perf_counter()
            self._rest.call("POST", "/api/v1/tokens/count", {"model": "gpt2", "text": question(self._number)})
            found.append(1000 * (time.perf_counter() - began))
            time.sleep(PAUSE_S)
        return found


@contextmanager
def counting(relay: RelayServer, text: str) -> Iterator[threading.Thread]:
    """Counts a large text from a thread of its own while the block runs."""
    body = json.dumps({"model": "gpt2", "text": text}, ensure_ascii=False).encode()
    headers = {"authorization": f"Bearer {relay.key}", "content-type": "application/json"}
    statuses: list[int] = []

    def send() -> None:
        with Rest(relay.url, timeout_s=120) as rest:
            statuses.append(rest.raw("POST", "/api/v1/tokens/count", body, headers)[0])

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield thread
    finally:
        thread.join()
    if statuses != [200]:
        raise RuntimeError(f"The large text was answered {statuses}.")


def measure(relay: RelayServer, say: Say) -> list[Round]:
    """Idle and busy in turns."""
    prose = Prose().take(500_000)
    rounds = []
    with Rest(relay.url, relay.key) as rest:
        short = Short(rest)
        for number in range(ROUNDS):
            end = time.monotonic() + IDLE_S
            idle = short.while_(lambda end=end: time.monotonic() < end)  # type: ignore[misc]  # each round's own end
            text = large_text(prose, number)
            before, most = rss_bytes(relay.pid), 0
            began = time.monotonic()
            with counting(relay, text) as thread:

                def going_on(thread: threading.Thread = thread) -> bool:
                    nonlocal most
                    most = max(most, rss_bytes(relay.pid))
                    return thread.is_alive()

                busy = short.while_(going_on)
            took = time.monotonic() - began
            found = Round(percentile(idle, 0.99), percentile(busy, 0.99), took, (most - before) / MEBI)
            say(
                f"10 MB, round {number + 1} of {ROUNDS}: p99 {found.idle_p99_ms:.2f} ms idle, {found.busy_p99_ms:.2f} busy"
            )
            rounds.append(found)
    return rounds


def run(say: Say) -> list[Figure]:
    """The figures, on a relay of their own."""
    with RelayServer() as server:
        assert isinstance(server, RelayServer)
        rounds = measure(server, say)
    ratio = median(each.busy_p99_ms / each.idle_p99_ms for each in rounds)
    note = f"p99 {median(each.idle_p99_ms for each in rounds):.2f} ms idle"
    return [
        Figure("short counts' p99 while 10 MB are counted, beside idle", MEMORY, ratio, "times", most=3, note=note),
        Figure("10 MB counted, over HTTP", MEMORY, median(each.large_s for each in rounds), "s"),
        Figure("memory more meanwhile", MEMORY, max(each.grown_mb for each in rounds), "MB", most=300),
    ]
