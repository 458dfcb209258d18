"""How much the overview weighs: its page in bytes, and each second's work in a browser that shows 200 busy pools."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page

from dashboard import live
from dashboard.live import PoolLine, Snapshot
from relay.telemetry.gauges import Holder
from tests.conftest import NewRelay
from tests.dashboard.conftest import OpenPage
from tests.dashboard.people import sign_in
from tests.dashboard.scenes import make_pool

ROWS, MOST_BYTES = 50, 40_000
POOLS, SECONDS, MOST_MS = 200, 60, 60
CLASSES = ("critical", "interactive", "batch", "background")


def busy_pools(count: int) -> list[PoolLine]:
    """Pools as on a bad day: restless lines without a gap; every tenth starves, and two of ten have a queue."""
    chance = random.Random(3)
    return [replace(_pool(number, chance), **_trouble(number, chance)) for number in range(count)]


def _pool(number: int, chance: random.Random) -> PoolLine:
    qps: list[float | None] = [max(0.0, chance.gauss(60, 8)) / 5 for _ in range(60)]
    waits: list[float | None] = [chance.lognormvariate(-3, 0.6) for _ in range(60)]
    capacity = chance.choice((4, 8, 16, 24, 64, 200))
    in_use = chance.randint(1, capacity)
    return PoolLine(
        name=f"llm-70b-eu-{number:03d}",
        capacity=capacity,
        in_use=in_use,
        over_limit=0,
        waiting=0,
        oldest_wait_s=0.0,
        health="flowing",
        qps=12.3,
        average_wait_s=0.043,
        timeouts=0,
        grants=720,
        guaranteed=0,
        waiting_by=[0] * len(CLASSES),
        most=Holder("evaluation", in_use, 1),
        qps_steps=qps,
        wait_steps=waits,
        version=12,
    )


def _trouble(number: int, chance: random.Random) -> dict[str, Any]:
    if number % 10 > 2:
        return {}
    waiting = [chance.randint(1, 30) for _ in CLASSES]
    found: dict[str, Any] = {"waiting": sum(waiting), "waiting_by": waiting, "oldest_wait_s": 12.0}
    return found | ({"health": "queuing"} if number % 10 else {"health": "starving", "timeouts": 37})


@pytest.mark.django_db
@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_the_page_of_50_busy_pools_weighs_at_most_40_kb_uncompressed(
    client: Client, monkeypatch: pytest.MonkeyPatch, language: str
) -> None:
    lines = sorted(busy_pools(ROWS), key=lambda line: line.trouble)
    found = Snapshot(lines, {"hit_rate": 0.93, "tokens_s": 12_400.0}, "memory", CLASSES)
    monkeypatch.setattr(live, "snapshot", lambda: found)  # this process serves no engine
    client.force_login(User.objects.create_superuser("mara", "", "a long password"))
    page = client.get("/", headers={"Accept-Language": language})
    assert page.status_code == 200
    assert page.content.count(b"<th scope=row>") == ROWS
    assert page.content.count(b"<svg><path d=") > 20
    assert len(page.content) <= MOST_BYTES


# The page's socket: the greeting goes on to the page, and the samples are kept for the test to change and hand over.
KEEP_SAMPLES = """
    window.WebSocket = class extends WebSocket {
        set onmessage(take) {
            window.take = take;
            super.onmessage = (event) => {
                const frame = JSON.parse(event.data);
                if (frame.type === "sample") window.sample = frame;
                if (frame.type === "hello") window.hello = frame;
                if (frame.type !== "sample") take(event);
            };
        }
    };
"""
# Every number of every pool becomes another one; the worst of them are others each time.
CHANGE_ALL = """(second) => {
    const { sample, hello } = window, health = (name) => hello.healths.indexOf(name);
    sample.at = new Date(Date.parse(sample.at) + 1000).toISOString();
    sample.waiting = {};
    Object.entries(sample.pools).forEach(([name, values], pool) => {
        const turn = pool * 7 + second * 13, waits = turn % 4 === 0;
        const now = {
            qps: turn % 50, average_wait_s: turn % 90 / 100, in_use: turn % 8, waiting: waits ? 1 + turn % 9 : 0,
            oldest_wait_s: waits ? turn % 31 : 0, health: health(waits ? "queuing" : "flowing"), granted: turn % 50,
            window_qps: 10 + turn % 500 / 10, window_average_wait_s: (1 + turn % 90) / 100, window_grants: 600, window_timeouts: turn % 3,
        };
        hello.fields.forEach((field, index) => { values[index] = now[field] ?? values[index]; });
        if (waits) sample.waiting[name] = { by: [0, now.waiting, 0, 0], most: ["default", now.in_use, 8] };
    });
    window.next = JSON.stringify(sample);
    window.counted = { changed: 0, moved: 0 };
    window.watch ??= new MutationObserver((records) => {
        for (const { target } of records) window.counted[target.matches?.("[data-pools]") ? "moved" : "changed"] += 1;
    });
    window.watch.observe(document.querySelector("[data-pools]"), { attributes: true, childList: true, characterData: true, subtree: true });
}"""
TAKE = """() => new Promise((done) => {
    window.take({ data: window.next });
    requestAnimationFrame(() => requestAnimationFrame(() => done(window.counted)));
})"""
# What another second is measured by: tables that are made, laid out and thrown away.
YARDSTICK = """() => new Promise((done) => {
    const box = document.body.appendChild(document.createElement("div"));
    for (let round = 0; round < 3; round += 1) {
        const table = document.createElement("table");
        for (let number = 0; number < 1000; number += 1) (number % 10 ? table.lastChild.lastChild : table.insertRow()).insertCell().textContent = number * round;
        box.replaceChildren(table);
        box.getBoundingClientRect();
    }
    box.remove();
    requestAnimationFrame(() => requestAnimationFrame(() => done()));
})"""


IN_SIGHT = """() => [...document.querySelectorAll("[data-pools] > tr > th")]
    .filter((head) => head.checkVisibility({ contentVisibilityAuto: true })).length"""


@dataclass(frozen=True)
class Cost:
    """What a script and the frame after it took of the main thread: ms of CPU, and counts."""

    ms: float
    layouts: int
    styles: int
    changed: int = 0
    moved: int = 0


class MainThread:
    """The main thread of a page."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._tools = page.context.new_cdp_session(page)
        self._tools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def _spent(self) -> dict[str, float]:
        return {metric["name"]: metric["value"] for metric in self._tools.send("Performance.getMetrics")["metrics"]}

    def cost(self, script: str) -> Cost:
        """Runs a script, which may answer what it counted."""
        before = self._spent()
        counted = self._page.evaluate(script) or {}
        after = self._spent()
        spent = {name: after[name] - value for name, value in before.items()}
        return Cost(1000 * spent["TaskDuration"], int(spent["LayoutCount"]), int(spent["RecalcStyleCount"]), **counted)


def test_a_second_of_200_busy_pools_takes_at_most_60_ms_of_the_main_thread(
    new_relay: NewRelay, open_page: OpenPage
) -> None:
    """Beside the figure itself, which a fast machine meets at twice the cost: times against a yardstick's, and counts."""
    relay = new_relay()
    for number in range(POOLS):
        make_pool(relay, f"pool-{number:03d}")
    page = open_page(viewport={"width": 1440, "height": 900})
    page.add_init_script(KEEP_SAMPLES)
    sign_in(page, relay)
    page.wait_for_function("() => window.sample")
    thread, seconds, yardsticks = MainThread(page), list[Cost](), list[float]()
    for second in range(SECONDS):
        page.wait_for_timeout(200)
        page.evaluate(CHANGE_ALL, second)
        seconds.append(thread.cost(TAKE))
        if second % 4 == 0:
            yardsticks.append(thread.cost(YARDSTICK).ms)
    still = [cost for cost in seconds[2:] if not cost.moved]
    sorting = [cost for cost in seconds[2:] if cost.moved]  # every five seconds the rows are put in order
    assert sorting
    assert (4 * median(cost.ms for cost in still) + median(cost.ms for cost in sorting)) / 5 <= MOST_MS
    assert min(cost.ms for cost in still) <= 0.85 * min(yardsticks)
    assert min(cost.ms for cost in sorting) <= 3.5 * min(yardsticks)
    assert median(cost.changed for cost in still) <= 600
    assert median(cost.layouts for cost in still) == 1  # nothing asks for a place or a size after something was written
    assert page.evaluate(IN_SIGHT) <= 60
