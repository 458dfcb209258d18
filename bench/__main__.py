"""`python -m bench`: everything side by side in one run; tables at the end, JSON beside them.

python -m bench                          the whole run, under 8 minutes
python -m bench --only uncontended,core  some of it
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

from bench import core_bench, large_text, naive, pages, report, reuse_bench, scenarios, scrape, waiters
from bench.procs import ROOT, EchoServer, RelayServer

Say = Callable[[str], None]
SECTIONS: dict[str, tuple[str, Callable[[Say], list[report.Figure]]]] = {
    "core": ("the core alone, all rules on", core_bench.run),
    "naive": ("beside the tutorial's pool", naive.run),
    "waiters": ("10,000 waiting acquires over HTTP", waiters.run),
    "scrape": ("a scrape of 200 pools x 20 tenants", scrape.run),
    "pages": ("500 open pages", pages.run),
    "reuse": ("text tokens, in one process", reuse_bench.run),
    "large": ("a text of 10 MB beside short ones", large_text.run),
}
NAMES = (*scenarios.NAMES, *SECTIONS)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Benchmark of the relay, side by side with an echo."
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="of one HTTP run (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default: %(default)s)")
    parser.add_argument("--connections", type=int, default=32, help="of the load generator (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="NAME", help=f"some of: {', '.join(NAMES)}; separated by commas")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a target was missed")
    options = parser.parse_args(arguments)
    options.names = [name.strip() for name in options.only.split(",") if name.strip()] or list(NAMES)
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"--only {unknown[0]!r} is not one of: {', '.join(NAMES)}")
    if options.seconds <= 0 or options.rounds < 1 or options.connections < 1:
        parser.error("--seconds, --rounds and --connections must be above 0")
    return options


def run(options: argparse.Namespace, say: Say) -> report.Report:
    """Measures what was asked for. Raises RuntimeError with what to look at if a server or a client fails."""
    began = time.monotonic()
    found = report.new({name: getattr(options, name) for name in ("seconds", "rounds", "connections", "names")})
    http = [name for name in options.names if name in scenarios.NAMES]
    if http:
        run_http(found, http, options, say)
    for name, (title, measure) in SECTIONS.items():
        if name in options.names:
            found.figures[title] = measure(say)
    found.seconds = time.monotonic() - began
    return found


def run_http(found: report.Report, names: list[str], options: argparse.Namespace, say: Say) -> None:
    """The scenarios that run beside the echo."""
    say("the echo and the relay start")
    echo, relay = EchoServer(), RelayServer()
    with echo, relay:
        stage = scenarios.Stage(echo, relay, options.connections)
        wanted = scenarios.with_bases(names)
        if wanted:
            found.rates = scenarios.measure(stage, wanted, options.seconds, options.rounds, say)
        if "handoff" in names:
            found.figures["release to the waiter's answer"] = scenarios.measure_handoff(stage, options.rounds, say)


def main() -> None:
    """Exit code 0; 1 with --check if a target was missed; 2 if it could not measure, with one line that says why."""
    options = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, _leave)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    try:
        found = run(options, say)
    except (RuntimeError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    file = report.save(found)
    print(f"\n{report.render(found)}\n\nAll figures: {file.relative_to(ROOT)}")
    sys.exit(1 if options.check and report.missed(found) else 0)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
