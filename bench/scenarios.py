"""The HTTP scenarios, measured in interleaved rounds beside the echo: what is set up for each, and its target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

from msgspec import Struct

from bench import handoff, loadgen
from bench.flows import ACQUIRE_BODY, FlowSpec
from bench.loadgen import Load, Result
from bench.parker import Park, Parked
from bench.procs import EchoServer, RelayServer
from bench.report import DURABLE, MEMORY, Figure, Rate
from bench.rest import Rest, acquire, make_key, make_pool, wait_for_waiting

Say = Callable[[str], None]
CROWD = 1000
FREE, EIGHT, FULL, SHARED, TURNS = "bench-free", "bench-eight", "bench-full", "bench-shared", "bench-turns"
RATED = "bench-rated"
VAST = 1_000_000_000
RATES = dict.fromkeys(("requests_per_minute", "requests_burst", "tokens_per_minute", "tokens_burst"), VAST)
STATED = ACQUIRE_BODY.decode().replace("{}}", '{},"tokens":1000}')


class Scenario(Struct, frozen=True):
    """One row. `crowd` names the pool in which 1,000 acquires wait meanwhile; the bodies are those of `FlowSpec`."""

    name: str
    title: str
    kept: str
    flow: str
    pool: str = ""
    crowd: str = ""
    against: str = "echo"
    target: float | None = None
    body: str = ""
    release: str = ""


SCENARIOS = (
    Scenario("echo", "raw ASGI echo", MEMORY, "echo", against=""),
    Scenario("uncontended", "acquire and release, uncontended", DURABLE, "pair", FREE, target=0.70),
    Scenario(
        "rated",
        "the same under two rates, tokens stated and settled",
        DURABLE,
        "pair",
        RATED,
        against="uncontended",
        target=0.80,  # 1.25 times the cost
        body=STATED,
        release='{"tokens":700}',
    ),
    Scenario("contended", "every acquire waits, pool of 8", DURABLE, "pair", EIGHT, against="uncontended", target=0.45),
    Scenario("others-wait", "1,000 wait in another pool", DURABLE, "pair", FREE, FULL, target=0.65),
    Scenario(
        "limited-wait", "1,000 of a tenant at its limit wait in this pool", DURABLE, "pair", SHARED, SHARED, target=0.65
    ),
    Scenario("cached", "token count, cached", MEMORY, "count", target=0.85),
    Scenario("uncached", "token count, text never seen", MEMORY, "count-unique", target=0.30),
)
NAMES = (*(scenario.name for scenario in SCENARIOS), "handoff")


class Stage:
    """The two servers, the pools and the keys that the scenarios need."""

    def __init__(self, echo: EchoServer, relay: RelayServer, connections: int) -> None:
        self.echo = echo
        self.relay = relay
        self.connections = connections
        self.key = relay.key
        with Rest(relay.url, self.key) as rest:
            for pool, capacity in ((FREE, 100_000), (EIGHT, 8), (FULL, 1), (SHARED, 100_000), (TURNS, 1)):
                make_pool(rest, pool, capacity, max_ttl_s=3600)
            make_pool(rest, RATED, 100_000, **RATES)
            self.crowd_key = make_key(rest, "bench-crowd", ["permits"])
            rest.call("PUT", f"/api/v1/pools/{SHARED}/tenants/bench-crowd", {"limit": 1})
        with Rest(relay.url, self.crowd_key) as crowd:
            for pool in (FULL, SHARED):
                acquire(crowd, pool, ttl_s=3600)

    @contextmanager
    def crowded(self, pool: str) -> Iterator[None]:
        """1,000 acquires wait in the pool; after it, nobody does."""
        if not pool:
            yield
            return
        with Rest(self.relay.url, self.key) as rest:
            with Parked(Park(self.relay.port, pool, self.crowd_key, CROWD)) as parked:
                wait_for_waiting(rest, pool, CROWD)
                yield
            if parked.answered:
                raise RuntimeError(f"Some of the 1,000 waiters in {pool} were answered: {parked.answered}")
            wait_for_waiting(rest, pool, 0, most=True)

    def measure(self, scenario: Scenario, seconds: float) -> Result:
        """One run of one scenario. Raises RuntimeError if an answer was not a success."""
        server = self.echo if scenario.flow == "echo" else self.relay
        flow = FlowSpec(scenario.flow, self.key, scenario.pool, scenario.body, release=scenario.release)
        load = Load(server.port, flow, self.connections, seconds, pid=server.pid)
        with self.crowded(scenario.crowd):
            result = loadgen.run(load)
        bad = {status: count for status, count in result.statuses.items() if status not in {"200", "201"}}
        if bad or result.lost:
            raise RuntimeError(f"{scenario.name}: answers {bad}, {result.lost} lost connections; {result.sample}")
        return result


def measure(stage: Stage, wanted: list[Scenario], seconds: float, rounds: int, say: Say) -> list[Rate]:
    """Runs the scenarios in interleaved rounds, every other one backwards, after a short unmeasured one."""
    results: dict[str, list[Result]] = {scenario.name: [] for scenario in wanted}
    for scenario in wanted:
        say(f"warm-up: {scenario.title}")
        stage.measure(scenario, 0.5)
    for number in range(rounds):
        for scenario in wanted if number % 2 == 0 else reversed(wanted):
            result = stage.measure(scenario, seconds)
            results[scenario.name].append(result)
            say(f"round {number + 1} of {rounds}: {scenario.title}: {result.rate:,.0f}/s, {result.server_us:.1f} µs")
    return [_rate(scenario, results) for scenario in wanted]


def _rate(scenario: Scenario, results: dict[str, list[Result]]) -> Rate:
    own = results[scenario.name]
    base = results.get(scenario.against)
    note = ""
    if scenario.name == "contended":
        note = f"{median(result.waited_share for result in own):.2%} of the acquires waited"
    return Rate(
        scenario.name,
        scenario.title,
        scenario.kept,
        rates=[result.rate for result in own],
        server_us=[result.server_us for result in own],
        client_us=[result.client_us for result in own],
        p50_ms=[result.latency_ms[0]["p50"] for result in own],
        p99_ms=[result.latency_ms[0]["p99"] for result in own],
        against=scenario.against,
        ratio=median(mine.rate / other.rate for mine, other in zip(own, base, strict=True)) if base else None,
        cpu_ratio=median(other.server_us / mine.server_us for mine, other in zip(own, base, strict=True))
        if base
        else None,
        target=scenario.target,
        note=note,
    )


def with_bases(names: list[str]) -> list[Scenario]:
    """The scenarios of these names, and those that they are compared with."""
    wanted = set(names)
    for scenario in SCENARIOS[::-1]:
        if scenario.name in wanted and scenario.against:
            wanted.add(scenario.against)
    return [scenario for scenario in SCENARIOS if scenario.name in wanted]


def measure_handoff(stage: Stage, rounds: int, say: Say) -> list[Figure]:
    """Release to the waiter's answer over HTTP, beside an echo's round trip, sample by sample in turns."""
    say("release to the waiter's answer")
    spec = handoff.Handoff(stage.relay.port, stage.echo.port, stage.key, TURNS)
    runs = [handoff.run(spec) for _ in range(max(1, min(rounds, 3)))]
    ratio = median(run.handoff_ms["p50"] / run.echo_ms["p50"] for run in runs)
    note = f"{median(run.waited_share for run in runs):.1%} waited"
    return [
        Figure(
            "release to the waiter's answer, median",
            DURABLE,
            median(run.handoff_ms["p50"] for run in runs),
            "ms",
            note=note,
        ),
        Figure("release to its own answer, median", DURABLE, median(run.release_ms["p50"] for run in runs), "ms"),
        Figure("an echo's round trip, median", MEMORY, median(run.echo_ms["p50"] for run in runs), "ms"),
        Figure("release to the waiter's answer / echo's round trip", DURABLE, ratio, "times", most=1.5),
    ]
