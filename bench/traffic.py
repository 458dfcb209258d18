"""The demo's traffic: which pools and callers there are, how the phases go, and what one caller does."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.client import Api


@dataclass(frozen=True)
class Crew:
    """Callers of one tenant in one pool. `think_s`: the mean rest between two acquires in a busy phase."""

    tenant: str
    callers: int
    think_s: float
    priority: str = "interactive"
    permits: int = 1


@dataclass(frozen=True)
class PoolPlan:
    """A pool, the mean time that its permits are held, its tenants' shares and its callers."""

    name: str
    capacity: int
    hold_s: float
    description: str
    crews: tuple[Crew, ...]
    shares: dict[str, dict[str, Any]] = field(default_factory=dict)
    timeout_s: float = 30


@dataclass(frozen=True)
class Phase:
    """`load` divides the rests; `slow` multiplies how long permits of the named pools are held."""

    name: str
    seconds: float
    load: float
    slow: dict[str, float] = field(default_factory=dict)


TENANTS = {"search": 3.0, "chat": 2.0, "research": 1.0, "nightly": 0.5}

POOLS = (
    PoolPlan(
        "gpu-a100",
        24,
        1.0,
        "Inference slots on the A100 nodes",
        (Crew("search", 10, 0.7), Crew("chat", 12, 0.9), Crew("research", 12, 1.2, "batch")),
        {"search": {"guarantee": 4}, "research": {"limit": 10}},
    ),
    PoolPlan(
        "gpu-l4",
        12,
        0.5,
        "Embeddings and reranking on the L4 nodes",
        (Crew("search", 8, 0.5), Crew("nightly", 8, 1.0, "background"), Crew("chat", 2, 1.5, permits=4)),
        {"nightly": {"limit": 6}},
    ),
    PoolPlan(
        "openai",
        40,
        0.9,
        "Open connections to OpenAI",
        (Crew("chat", 30, 0.9), Crew("search", 10, 1.0), Crew("research", 12, 1.5, "batch")),
        {"chat": {"weight": 3.0, "guarantee": 10}},
    ),
    PoolPlan(
        "anthropic",
        16,
        1.4,
        "Open connections to Anthropic",
        (Crew("chat", 11, 1.7, "critical"), Crew("research", 11, 2.2, "batch")),
    ),
    PoolPlan(
        "eval-runners",
        4,
        0.7,
        "Evaluation jobs; becomes slow now and then and starves",
        (Crew("research", 6, 2.5, "batch"), Crew("nightly", 5, 3.0, "background")),
        timeout_s=5,
    ),
    PoolPlan("crawler", 8, 0.25, "Fetchers of the nightly crawl", (Crew("nightly", 6, 0.6, "background"),)),
)

PHASES = (
    Phase("busy", 15, 1.0),
    Phase("surge", 25, 6.0),
    Phase("calm", 20, 0.35),
    Phase("slow evals", 30, 0.9, {"eval-runners": 15.0}),
)

PROMPTS = (
    "Summarise the incident report below for an executive audience, in five bullet points.",
    "You are a careful reviewer. List every unsupported claim in the following abstract.",
    "Translate the customer's message into German and keep the tone friendly:",
    "Write a SQL query that returns the ten tenants with the highest p99 wait of last week.",
)


class Scene:
    """What all callers share: the phase, the counts of the present second, what is under way."""

    def __init__(self) -> None:
        self.phase = PHASES[0]
        self.granted = 0
        self.held: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.tokens = 0
        self.lost = 0

    def begin_second(self) -> None:
        """Clears the counts of a second."""
        self.granted = self.tokens = self.lost = 0
        self.refused.clear()


class Caller:
    """One caller: rests, counts its prompt's tokens, acquires, works, releases; for ever, also through restarts."""

    def __init__(self, scene: Scene, api: Api, plan: PoolPlan, crew: Crew, number: int) -> None:
        self._scene = scene
        self._api = api
        self._plan = plan
        self._crew = crew
        self._holder = f"{crew.tenant}-{plan.name}-{number}"
        self._random = random.Random(self._holder)
        self._failures = 0

    async def run(self) -> None:
        """Works until cancelled; then gives back what it holds."""
        await asyncio.sleep(self._random.random() * self._crew.think_s * 2)
        while True:
            await asyncio.sleep(self._random.expovariate(self._scene.phase.load / self._crew.think_s))
            try:
                if self._random.random() < 0.4:
                    await self._count_tokens()
                await self._work()
                self._failures = 0
            except OSError:
                self._scene.lost += 1
                self._failures += 1
                await asyncio.sleep(min(5.0, 0.25 * 2**self._failures) * (0.5 + self._random.random()))

    async def _count_tokens(self) -> None:
        text = self._random.choice(PROMPTS)
        if self._random.random() < 0.3:
            text += f" Ticket {self._random.randrange(1_000_000)}."
        status, answer = await self._api.call("POST", "/api/v1/tokens/count", {"model": "gpt2", "text": text})
        if status == 200:
            self._scene.tokens += int(answer["count"])
        else:
            self._note(answer, status)

    async def _work(self) -> None:
        body = {
            "permits": self._crew.permits,
            "priority": self._crew.priority,
            "timeout_s": self._plan.timeout_s,
            "ttl_s": 20,
            "holder": self._holder,
        }
        name = self._plan.name
        path, key = f"/api/v1/pools/{name}/acquire", uuid.uuid4().hex
        self._scene.waiting[name] += 1
        try:
            status, answer = await self._api.call("POST", path, body, key)
        except asyncio.CancelledError:
            await self._settle(path, body, key)
            raise
        finally:
            self._scene.waiting[name] -= 1
        if status >= 300:
            self._note(answer, status)
            await asyncio.sleep(min(3.0, float(answer.get("retry_after_s", 1.0))))
            return
        self._scene.granted += 1
        self._scene.held[name] += self._crew.permits
        try:
            await self._hold(answer["lease_id"])
        finally:
            self._scene.held[name] -= self._crew.permits
            await self._release(answer["lease_id"])

    async def _settle(self, path: str, body: dict[str, Any], key: str) -> None:
        """The end came while an acquire was under way: if it was granted after all, it goes back."""
        try:
            status, answer = await self._api.call("POST", path, {**body, "timeout_s": 0}, key)
        except OSError:
            return
        if status < 300:
            await self._release(answer["lease_id"])

    async def _hold(self, lease_id: str) -> None:
        slow = self._scene.phase.slow.get(self._plan.name, 1.0)
        left = self._random.lognormvariate(0.0, 0.4) * self._plan.hold_s * slow
        while left > 0:
            await asyncio.sleep(min(left, 8.0))
            left -= 8.0
            if left > 0:
                status, answer = await self._api.call("POST", f"/api/v1/leases/{lease_id}/renew", {})
                if status >= 300:
                    self._note(answer, status)
                    return

    async def _release(self, lease_id: str) -> None:
        """Gives the permits back; through a restart of the relay as well, for a few seconds."""
        outcome = "ok" if self._random.random() < 0.97 else "error"
        for attempt in range(6):
            try:
                status, answer = await self._api.call(
                    "POST", f"/api/v1/leases/{lease_id}/release", {"outcome": outcome}
                )
            except OSError:
                self._scene.lost += 1
                await asyncio.sleep(0.25 * 2**attempt)
                continue
            if status >= 300:
                self._note(answer, status)
            return

    def _note(self, answer: dict[str, Any], status: int) -> None:
        self._scene.refused[str(answer.get("code", status))] += 1


def callers(scene: Scene, api_of: Callable[[str], Api]) -> list[Caller]:
    """All callers of all pools."""
    return [
        Caller(scene, api_of(crew.tenant), plan, crew, number)
        for plan in POOLS
        for crew in plan.crews
        for number in range(crew.callers)
    ]
