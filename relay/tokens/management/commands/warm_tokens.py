"""`manage.py warm_tokens --model M FILE…`: counts a corpus ahead of use. Goes on where it was interrupted."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db.utils import OperationalError, ProgrammingError
from tqdm import tqdm

from relay.http import Problem
from relay.tokens.corpus import CorpusFault, Input, inputs
from relay.tokens.prices import Price
from relay.tokens.warm import BATCH_TEXTS, Summary, Warming, lines_of
from relay.tokens.warm_state import WarmState
from relay.tokens.warm_targets import Local, Server

INTERRUPTED = 130  # as shells say it of SIGINT
FAULTS_SHOWN = 100

KEEPS_NOTHING = (
    "Nothing is kept: without RELAY_REDIS_URL this only counts. With --url http://… --key KEY a running server counts, and "
    "its caches get warm."
)


class Command(BaseCommand):
    """Thin: corpus.py reads, warm_targets.py counts, warm.py does the one with the other."""

    help = "Counts a corpus ahead of use: into the shared cache (RELAY_REDIS_URL), or into a running server's (--url)."
    requires_system_checks: list[str] = []  # they belong to deployment, and cost a second at each start

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The command's options."""
        parser.add_argument(
            "paths",
            nargs="+",
            metavar="FILE",
            help="a text file is a document; a folder is all text files in it; .jsonl and .ndjson have a document a line; "
            "- is standard input",
        )
        parser.add_argument("--model", required=True, help="whose tokens are counted")
        parser.add_argument("--lines", action="store_true", help="each line of a text file is a document")
        parser.add_argument(
            "--field", help="files are JSONL, and this field holds the text (default: text, else messages as a chat)"
        )
        parser.add_argument("--url", default="", help="a running server that counts, instead of this process")
        parser.add_argument("--key", default="", help="its API key, with scope tokens (default: RELAY_API_KEY)")
        parser.add_argument(
            "--batch", type=batch, default=BATCH_TEXTS, help="documents counted at once (default: %(default)s)"
        )
        parser.add_argument("--restart", action="store_true", help="begin anew after an interruption")

    def handle(self, *args: Any, **options: Any) -> None:
        """Exit code 0; 1 if a document could not be counted; 2 if nothing can be; 130 when interrupted."""
        try:
            sources = inputs(options["paths"], lines=options["lines"], field=options["field"])
            with closing(self.target(options)) as target:
                self.warm(target, sources, options)
        except (Problem, CorpusFault) as fault:
            raise CommandError(fault, returncode=2) from None
        except (OperationalError, ProgrammingError) as error:
            raise CommandError(
                f"The database is not ready ({error}). Start the relay once (make run), or check RELAY_DATA_DIR."
            ) from None

    def target(self, options: dict[str, Any]) -> Local | Server:
        """Who counts. Raises Problem."""
        if not options["url"]:
            return Local(options["model"])
        return Server(options["url"], options["key"] or os.environ.get("RELAY_API_KEY", ""), options["model"])

    def warm(self, target: Local | Server, sources: list[Input], options: dict[str, Any]) -> None:
        """Counts, and says what was done, however it ends."""
        if not target.keeps:
            self.stderr.write(KEEPS_NOTHING, style_func=str)
        identity = (target.fingerprint, target.place or "", str(options["lines"]), options["field"] or "")
        state = WarmState(settings.RELAY_DATA_DIR / "warm", identity)
        if target.keeps and not options["restart"]:
            state.load()
        sizes = [source.size for source in sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        with tqdm(total=total, unit="B", unit_scale=True, disable=None, leave=False) as bar:
            faults = Faults(lambda line: self.stderr.write(line, style_func=str))

            def advance(size: int) -> None:
                done = warming.summary
                bar.set_postfix_str(f"{done.documents:,} documents, {done.tokens:,} tokens", refresh=False)
                bar.update(size)

            warming = Warming(target, state, batch=options["batch"], advance=advance, fail=faults.tell)
            whole = False
            try:
                warming.run(sources, options["field"] or "text")
                whole = True
            except KeyboardInterrupt:
                raise CommandError("Interrupted. The same command goes on from here.", returncode=INTERRUPTED) from None
            finally:
                state.close(done=whole or not target.keeps)
                bar.close()
                self.say(target, warming.summary)
        if target.lost:
            raise CommandError(
                f"The shared cache did not take {target.lost:,} values in time. The same command gives it those that it lacks.",
                returncode=1,
            )
        if warming.summary.failed:
            raise CommandError(f"{warming.summary.failed:,} documents could not be counted.", returncode=1)

    def say(self, target: Local | Server, summary: Summary) -> None:
        """The summary on standard output."""
        cost = cost_line(target.price, summary.tokens)
        for name, text in (*lines_of(summary), ("Cost", cost), ("Kept", target.keeps or "nowhere")):
            self.stdout.write(f"{name:<11}{text}")


class Faults:
    """Tells of documents that could not be counted, without tearing the progress bar."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._told = 0

    def tell(self, fault: str) -> None:
        """One line on standard error; after many only the number will be said."""
        self._told += 1
        if self._told <= FAULTS_SHOWN + 1:
            with tqdm.external_write_mode():
                self._write(fault if self._told <= FAULTS_SHOWN else "More are counted, and not shown.")


def cost_line(price: Price | None, tokens: int) -> str:
    """What the tokens cost as input, with the source of the price."""
    if price is None or price.input_per_million is None:
        return "no price is known for this model"
    dollars = tokens * price.input_per_million / 1e6
    return f"{dollars:,.4f} USD as input, at {price.input_per_million:g} a million ({price.source}, {price.date})"


def batch(text: str) -> int:
    """A number of documents that one request may hold."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 1000")
    return int(text)
