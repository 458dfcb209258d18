"""`python -m bench.sizing`: all policies on all backends, seeds 1 to 20, the worst reported; table and picture in docs/."""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from msgspec import Struct
from tqdm import tqdm

from bench.sizing.picture import lines
from bench.sizing.policies import POLICIES, START
from bench.sizing.scenarios import SCENARIOS
from bench.sizing.world import Tally, World

DOCS = Path("docs")
DRAWN = ("fixed at 20", "by load, +10 %", "AIMD (Netflix)", "adaptive")
NEVER = 9_999


class Outcome(Struct, frozen=True):
    """One policy on one backend with one seed. `back_s`: how long it took to come near after each step."""

    scenario: int
    policy: str
    seed: int
    goodput: float
    bad_share: float
    back_s: tuple[int, ...]


def play(scenario: int, policy: str, seed: int) -> Tally:
    """One run."""
    world = World(SCENARIOS[scenario], POLICIES[policy](SCENARIOS[scenario]), START, seed)
    return world.run()


def measure(scenario: int, seed: int) -> list[Outcome]:
    """All policies on one backend with one seed, beside the oracle."""
    best = play(scenario, "oracle", seed).ok
    found = []
    for policy in POLICIES:
        tally = play(scenario, policy, seed)
        back = tuple(_back(tally.sizes, at, to) for at, to in SCENARIOS[scenario].steps)
        found.append(Outcome(scenario, policy, seed, tally.ok / best, tally.bad_share, back))
    return found


def _back(sizes: list[int], at: int, to: float) -> int:
    """Seconds from a step until the size is within a tenth of the new capacity, or within one permit."""
    near = max(1.0, to * 0.1)
    return next((second - at for second in range(at, len(sizes)) if abs(sizes[second] - to) <= near), NEVER)


def table(outcomes: list[Outcome], seeds: int) -> str:
    """The worst of all seeds, as Markdown."""
    rows = [
        "| backend | policy | goodput of the oracle's | throttled or timed out | back after each step |",
        "| --- | --- | --- | --- | --- |",
    ]
    for index, scenario in enumerate(SCENARIOS):
        for policy in POLICIES:
            found = [each for each in outcomes if each.scenario == index and each.policy == policy]
            steps = zip(*(each.back_s for each in found), strict=True)
            back = ", ".join("never" if max(step) == NEVER else f"{max(step)} s" for step in steps)
            rows.append(
                f"| {scenario.name} | {policy} | {min(each.goodput for each in found):.2f} "
                f"| {max(each.bad_share for each in found):.1%} | {back or '-'} |"
            )
    return "\n".join(rows)


def main() -> None:
    """Measures, prints the table, writes docs/sizing-table.md and docs/sizing.svg."""
    parser = argparse.ArgumentParser(prog="python -m bench.sizing", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    seeds = parser.parse_args().seeds
    work = [(scenario, seed) for scenario in range(len(SCENARIOS)) for seed in range(1, seeds + 1)]
    with ProcessPoolExecutor() as pool:
        futures = [pool.submit(measure, *each) for each in work]
        outcomes = [outcome for future in tqdm(futures, unit="runs") for outcome in future.result()]
    text = f"Seeds 1 to {seeds}, the worst of each; `python -m bench.sizing` makes this anew.\n\n{table(outcomes, seeds)}\n"
    print(text)
    (DOCS / "sizing-table.md").write_text(text, encoding="utf-8")
    steps = SCENARIOS[0]
    truth = [steps.capacity(second) for second in range(steps.seconds)]
    series = {"true capacity": truth} | {name: play(0, name, 1).sizes for name in DRAWN}
    (DOCS / "sizing.svg").write_text(lines(series, 60, "The pool's size while the backend's capacity steps"), "utf-8")


if __name__ == "__main__":
    main()
