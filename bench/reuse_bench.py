"""Reuse of text tokens, in one process without HTTP: growing chats, edits, hit rates beside LRU, and the plain libraries."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from bench.procs import ROOT
from bench.questions import ASKED, QUESTIONS, Prose, asked
from bench.report import MEMORY, Figure

if TYPE_CHECKING:
    from relay.tokens.service import TokenService

Say = Callable[[str], None]
MEBI = 1024 * 1024
TURNS, CHATS, SYSTEM = 30, 5, 4000
PAGE, EDITS = 100_000, 20
PROMPT = 2048
SHARED_PAGES = 50
PLAIN_TEXTS = 4000


class Hits(Struct):
    """Hit rates of the relay's cache and of an LRU of as many entries as it held at most, over the same requests."""

    relay: float
    lru: float
    entries: int


class Found(Struct):
    """What the process measured."""

    fast: str
    chat_times: float
    edit_times: float
    exact_chat_times: float
    exact_edit_times: float
    questions: Hits
    one_time: Hits
    prompts: float
    micros: dict[str, float]


class Desk:
    """A service with GPT-2, and the reference beside it."""

    def __init__(self, folder: Path) -> None:
        from relay.tokens import gpt2

        self.runner = asyncio.Runner()
        self.folder = folder
        self.service = self.new_service(64 * MEBI)
        self.prose = Prose()
        # one of its own: the library remembers words, and whoever comes second would not pay for the new ones
        self.reference = gpt2.raw(gpt2.prepare(folder))

    def new_service(self, cache_bytes: int) -> TokenService:
        """A service of its own, with a cache of so many bytes."""
        from relay.telemetry.token_meter import TokenMeter
        from relay.tokens.registry import ModelSpec
        from relay.tokens.service import TokenService

        async def start() -> TokenService:
            service = TokenService(self.folder, cache_bytes, TokenMeter(lambda: 0))
            await service.start([ModelSpec("gpt2", "package")])
            return service

        return self.runner.run(start())

    def timed(self, text: str) -> tuple[float, float]:
        """Seconds through the levels, and seconds of encoding the whole text. Raises RuntimeError if they disagree."""
        began = time.perf_counter()
        count, _, _ = self.runner.run(self.service.count("bench", "gpt2", text))
        between = time.perf_counter()
        whole = len(self.reference.encode_batch_fast([text])[0])
        ended = time.perf_counter()
        if count != whole:
            raise RuntimeError(f"The relay counts {count}, the tokenizer {whole}.")
        return between - began, ended - between

    def close(self) -> None:
        """Ends it."""
        self.runner.run(self.service.stop())
        self.runner.close()


def growing_chats(desk: Desk) -> float:
    """How many times faster 30 turns behind a system prompt are than encoding each history whole; median of several chats, all new."""
    ratios = []
    for _ in range(CHATS):
        chat, mine, whole = f"system: {desk.prose.take(SYSTEM)}", 0.0, 0.0
        for _turn in range(TURNS):
            chat += f"\nuser: {desk.prose.take(400)}\nassistant: {desk.prose.take(1000)}"
            took = desk.timed(chat)
            mine, whole = mine + took[0], whole + took[1]
        ratios.append(whole / mine)
    return median(ratios)


def edited_page(desk: Desk) -> float:
    """How many times faster a 100 KB text with an edit in its middle is than encoding it whole."""
    page = desk.prose.take(PAGE)
    desk.timed(page)
    times = []
    for number in range(EDITS):
        place = PAGE // 2 + 100 * number
        times.append(desk.timed(f"{page[:place]} edit {number} {page[place + 20 :]}"))
    return median(whole for _, whole in times) / median(mine for mine, _ in times)


def hit_rates(desk: Desk, *, one_time: bool) -> Hits:
    """The cache bounded to a fifth of the questions, beside an LRU of as many entries in the same run."""
    from relay.tokens.cache import ENTRY_OVERHEAD
    from relay.tokens.values import INT_BYTES

    service = desk.new_service(QUESTIONS // 5 * (ENTRY_OVERHEAD + INT_BYTES))

    async def run() -> tuple[int, int]:
        hits = most = 0
        for text in asked(one_time=one_time):
            _, source, _ = await service.count("bench", "gpt2", text)
            hits += source == "cache"
            most = max(most, len(service.levels.texts))
        return hits, most

    hits, entries = desk.runner.run(run())
    desk.runner.run(service.stop())
    return Hits(hits / ASKED, lru_hits(entries, one_time=one_time) / ASKED, entries)


def lru_hits(entries: int, *, one_time: bool) -> int:
    """How often an LRU of so many entries hits on the same questions."""
    lru: OrderedDict[str, None] = OrderedDict()
    hits = 0
    for text in asked(one_time=one_time):
        if text in lru:
            hits += 1
            lru.move_to_end(text)
        else:
            lru[text] = None
            if len(lru) > entries:
                lru.popitem(last=False)
    return hits


def prompts(desk: Desk) -> float:
    """The share of characters that is not encoded again: 2 KB of shared text before each question, a third one-time."""
    service = desk.new_service(8 * MEBI)
    pages = [desk.prose.take(PROMPT) for _ in range(SHARED_PAGES)]

    async def run() -> float:
        for place, text in enumerate(asked(one_time=True)):
            await service.count("bench", "gpt2", f"{pages[place * 7 % SHARED_PAGES]}\n\nQuestion: {text}")
        *reused, computed = service._meter.models["gpt2"].characters
        return sum(reused) / (sum(reused) + computed)

    found = desk.runner.run(run())
    desk.runner.run(service.stop())
    return found


def beside_libraries(desk: Desk) -> dict[str, float]:
    """µs a question: the relay and the plain libraries, on the same questions, each seen for the first time."""
    import tiktoken
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks
    from tokenizers import Tokenizer as Raw
    from transformers import AutoTokenizer

    from relay.tokens import gpt2

    folder = gpt2.prepare(desk.folder)
    raw: Raw = gpt2.raw(folder)
    auto = AutoTokenizer.from_pretrained(str(folder))
    ranks = data_gym_to_mergeable_bpe_ranks(str(folder / "merges.txt"), str(folder / "vocab.json"))
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    tik = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    texts = list(dict.fromkeys(asked(one_time=True)))[:PLAIN_TEXTS]
    service = desk.new_service(64 * MEBI)

    async def one_by_one() -> list[int]:
        return [(await service.count("bench", "gpt2", text))[0] for text in texts]

    async def batch(of: TokenService) -> list[int]:
        return (await of.counts("bench", "gpt2", texts)).counts

    fresh = desk.new_service(64 * MEBI)
    ways: dict[str, Callable[[], Iterable[int]]] = {
        "relay, one by one": lambda: desk.runner.run(one_by_one()),
        "relay, cached": lambda: desk.runner.run(one_by_one()),
        "relay, as one batch": lambda: desk.runner.run(batch(fresh)),
        "transformers": lambda: [len(auto(text)["input_ids"]) for text in texts],
        "tokenizers": lambda: [len(raw.encode(text).ids) for text in texts],
        "tokenizers, as one batch": lambda: [len(each) for each in raw.encode_batch_fast(texts)],
        "tiktoken": lambda: [len(tik.encode_ordinary(text)) for text in texts],
    }
    micros, counts = {}, []
    for name, way in ways.items():
        began = time.perf_counter()
        counts.append(list(way()))
        micros[name] = 1e6 * (time.perf_counter() - began) / len(texts)
    if any(each != counts[0] for each in counts):
        raise RuntimeError("The libraries and the relay disagree.")
    for each in (service, fresh):
        desk.runner.run(each.stop())
    return micros


def measure() -> Found:
    """Everything, in this process."""
    with tempfile.TemporaryDirectory(prefix="relay-bench-tokens-") as folder:
        os.environ["RELAY_DATA_DIR"] = folder
        os.environ["RELAY_LOG_LEVEL"] = "WARNING"
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relay.settings")
        import django

        django.setup()
        desk = Desk(Path(folder))
        tokenizer = desk.service.find("gpt2")[1]
        fast, tokenizer.fast = tokenizer.fast, None
        exact = growing_chats(desk), edited_page(desk)
        tokenizer.fast = fast
        found = Found(
            fast.name if fast else "not installed",
            growing_chats(desk),
            edited_page(desk),
            *exact,
            hit_rates(desk, one_time=False),
            hit_rates(desk, one_time=True),
            prompts(desk),
            beside_libraries(desk),
        )
        desk.close()
    return found


def run(say: Say) -> list[Figure]:
    """The figures, measured in a process of its own."""
    say("text tokens: reuse, hit rates, and the plain libraries")
    done = subprocess.run([sys.executable, "-m", "bench.reuse_bench"], cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise RuntimeError(f"The tokens' measurement ended with code {done.returncode}; its message is above.")
    return figures(msgspec.json.decode(done.stdout, type=Found))


def figures(found: Found) -> list[Figure]:
    """As rows of the report."""
    chat = f"a growing chat of {TURNS} turns, beside encoding each history"
    page = "a 100 KB text edited in its middle, beside encoding it"
    note = f"fastokens: {found.fast.removeprefix('fastokens ')}"
    rows = [
        _row(chat, found.chat_times, "times", least=5, note=note),
        _row(page, found.edit_times, "times", least=10, note=note),
        _row(f"{chat}, without fastokens", found.exact_chat_times, "times"),
        _row(f"{page}, without fastokens", found.exact_edit_times, "times"),
    ]
    for title, hits, least in (
        (f"{ASKED:,} questions, cache for a fifth of {QUESTIONS:,}", found.questions, 70.0),
        ("the same, a third asked once", found.one_time, None),
    ):
        note = f"LRU of {hits.entries:,} entries: {hits.lru:.1%}"
        rows.append(_row(f"{title}: hits", 100 * hits.relay, "%", least=least, note=note))
        rows.append(_row(f"{title}: hits beside LRU", hits.relay / hits.lru, "times", least=1))
    rows.append(_row("as prompts behind 2 KB of shared text: characters reused", 100 * found.prompts, "%", least=85))
    rows += [_row(f"a new question: {name}", micros, "µs") for name, micros in found.micros.items()]
    return rows


def _row(name: str, value: float, unit: str, **more: Any) -> Figure:
    return Figure(name, MEMORY, value, unit, **more)


def main() -> None:
    """Measures, prints JSON."""
    print(msgspec.json.encode(measure()).decode())


if __name__ == "__main__":
    main()
