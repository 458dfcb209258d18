"""`python -m bench.fuzz_tokens`: are the relay's tokens those of the model's own tokenizer? For each family, on random texts.

python -m bench.fuzz_tokens --texts 100000            every family, and the table into docs/exactness.md; an hour or more
python -m bench.fuzz_tokens --texts 2000 --only gpt2  one family; writes nothing

Texts come from seeds that are printed, so a disagreement can be had again. It ends at the first one, with exit code 1.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from msgspec import Struct
from tqdm import tqdm

from relay.tokens.tokenizer import Tokenizer
from tests.redis_server import PROGRAMS, RedisServer
from tests.tokens import vocabularies
from tests.tokens.fuzz import Disagreement, Judge, Texts, cases
from tests.tokens.stack import Stack

PAGE = Path(__file__).resolve().parent.parent / "docs" / "exactness.md"
LONG_SHARE = 50
CACHE_BYTES = 2_000_000
LEVELS = ("text", "segment", "shared", "computed")
ABOUT = {
    "gpt2": "byte-level BPE, GPT-2's pattern",
    "cl100k": "byte-level BPE, cl100k's pattern",
    "o200k": "byte-level BPE, o200k's pattern",
    "llama3": "byte-level BPE, Llama 3.1's tokenizer.json",
    "qwen3": "byte-level BPE with NFC, Qwen 3's tokenizer.json",
    "mistral": "SentencePiece's BPE, Mistral 7B",
    "bert": "WordPiece, bert-base-uncased",
    "t5": "Unigram split at blanks, as T5; trained here",
    "unigram": "Unigram with marks for blanks, as XLM-R; trained here",
}
HEAD = """# Are the counts exact?

Made by `python -m bench.fuzz_tokens --texts {texts} --seed {seed}` on {day}; Python {python}, {versions}. Do not edit.

Each text is compared with the model's own tokenizer: `tokenizers`, from the untouched tokenizer.json, on the whole text at
once. Texts are mixtures of what has broken cuts (blanks and line ends in runs, joiners, marks, letters that change when
normalized, added tokens and pieces of them), any characters, prose, code and JSON in many scripts, chats that grow and
documents edited in the middle.

- **Cut**: the text is cut into segments of 2 to 512 characters, so that every kind of place is used. The ids and offsets of
  the segments, one after the other, must be those of the whole text, with added tokens parsed and as text. Decoding must give
  what the model's own gives, and the text itself where the tokenizer is lossless. Truncated texts must fit when counted anew.
- **Served**: texts of a thousand characters and more go through the levels of the service: counts, ids, offsets, counts with
  specials, truncation right, left and in the middle, with small caches and {shared}.
  The columns say which level the characters came from.

| family | what | texts | segments | of these served | text | segment | shared | computed | disagreements | cut |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
{rows}

Five thousand texts a family run with the tests. Why cuts are exact stands in `relay/tokens/proof.py`: it is read from each
tokenizer's json, then tried on 3,000 strings when a model is loaded. A tokenizer for which it does not hold is not cut.
"""


class Result(Struct, frozen=True):
    """What came of one family."""

    name: str
    texts: int
    segments: int
    served: int
    levels: dict[str, float]
    cuttable: str
    seconds: float


def main() -> int:
    """Runs the families; 1 after a disagreement."""
    options = _parse()
    names = options.only.split(",") if options.only else list(vocabularies.FAMILIES)
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    redis = RedisServer(program) if program else None
    try:
        url = redis.url if redis else None
        with ProcessPoolExecutor() as pool:  # a family a process, one for each core
            running = [
                pool.submit(_fuzz, name, options.texts, options.seed, url, place) for place, name in enumerate(names)
            ]
            results = [each.result() for each in running]
    except (Disagreement, vocabularies.Unavailable) as fault:
        print(fault, file=sys.stderr)
        return 1
    finally:
        if redis is not None:
            redis.kill()
    page = _page(results, options, shared=redis is not None)
    print(page)
    if not options.only:
        PAGE.write_text(page, encoding="utf-8")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.fuzz_tokens", description="Compares tokens on random texts.")
    parser.add_argument("--texts", type=int, default=100_000, help="for each family (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--only", default="", metavar="NAME", help=f"some of: {', '.join(vocabularies.FAMILIES)}")
    return parser.parse_args()


def _fuzz(name: str, count: int, seed: int, redis_url: str | None, position: int = 0) -> Result:
    """One family: short texts cut everywhere, longer ones through the levels of two nodes. Raises Disagreement."""
    began = time.monotonic()
    judge = Judge(Tokenizer(vocabularies.document(name)), vocabularies.reference(name))
    nodes = [Stack(judge.tokenizer, CACHE_BYTES, redis_url) for _ in range(2 if redis_url else 1)]
    served = count // LONG_SHARE
    with tqdm(total=count, desc=f"{name:8}", unit=" texts", position=position) as progress:
        try:
            for text, target, most in cases(seed, count - served, judge.added):
                judge.check(text, target, most)
                progress.update()
            texts = Texts(seed, judge.added)
            for turn in range(served):
                judge.serve(nodes[turn % len(nodes)], texts.long(), turn * 37 % 900)
                progress.update()
        except Disagreement as found:
            raise Disagreement(f"{name}, seed {seed}, text {progress.n}: {found}") from None
        finally:
            for node in nodes:
                node.close()
    total = sum(judge.levels.values()) or 1
    shares = {level: judge.levels[level] / total for level in LEVELS}
    return Result(name, count, judge.segments, served, shares, judge.tokenizer.cuttable, time.monotonic() - began)


def _page(results: Iterable[Result], options: argparse.Namespace, *, shared: bool) -> str:
    """What stands in docs/exactness.md."""
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in ("tokenizers", "transformers"))
    rows = [
        f"| {each.name} | {ABOUT[each.name]} | {each.texts:,} | {each.segments:,} | {each.served:,} | "
        + " | ".join(f"{each.levels[level]:.0%}" for level in LEVELS)
        + f" | 0 | {each.cuttable} |"
        for each in results
    ]
    return HEAD.format(
        texts=options.texts,
        seed=options.seed,
        day=datetime.now(UTC).date(),
        python=platform.python_version(),
        versions=versions,
        shared="a Redis that two processes' caches share" if shared else "no Redis (none was installed)",
        rows="\n".join(rows),
    )


if __name__ == "__main__":
    sys.exit(main())
