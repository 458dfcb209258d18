"""Warming with a corpus: batches, faults, interruptions, and the command against real caches."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from relay.http import Problem, invalid
from relay.tokens.corpus import inputs
from relay.tokens.warm import Counted, Summary, Warming, lines_of
from relay.tokens.warm_state import WarmState
from tests.conftest import NewRelay
from tests.redis_server import RedisServer
from tests.relay_server import ROOT, RelayServer, environment
from tests.tokens.families import byte_bpe, written


class Counter:
    """Counts characters as tokens, in memory. `refuses` texts with an x; stops at batch `stops_at` like a pressed Ctrl-C."""

    def __init__(self, *, stops_at: int | None = None, known: int | None = 0) -> None:
        self.batches: list[list[str]] = []
        self.chats: list[list[Any]] = []
        self._stops_at = stops_at
        self._known = known

    def count(self, texts: Sequence[str]) -> Counted:
        if self._stops_at == len(self.batches):
            raise KeyboardInterrupt
        if any("x" in text for text in texts):
            raise invalid("texts", "no x is taken")
        self.batches.append(list(texts))
        return Counted([len(text) for text in texts], self._known)

    def chat(self, messages: list[Any], tools: list[Any] | None) -> Counted:
        self.chats.append(messages)
        return Counted([7], self._known)

    @property
    def counted(self) -> list[str]:
        """Every text that was counted, in order."""
        return [text for batch in self.batches for text in batch]


class Bench:
    """Warms from one folder with one state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults: list[str] = []
        self.advanced = 0

    def warm(self, counter: Counter, *paths: Path, batch: int = 2, identity: str = "gpt2") -> Summary:
        """One warm-up, as the command does it."""
        state = WarmState(self.folder / "warm", [identity])
        state.load()
        warming = Warming(counter, state, batch=batch, advance=self._advance, fail=self.faults.append)
        whole = False
        try:
            warming.run(inputs(map(str, paths), lines=True, field=None), "text")
            whole = True
        except KeyboardInterrupt:
            pass
        finally:
            state.close(done=whole)
        return warming.summary

    def _advance(self, size: int) -> None:
        self.advanced += size


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_documents_are_counted_in_batches_over_the_files(bench: Bench, tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.txt", "a", "bb", "ccc"), write(tmp_path / "2.txt", "dddd", "eeeee")
    counter = Counter(known=1)
    summary = bench.warm(counter, one, two)
    assert counter.batches == [["a", "bb"], ["ccc", "dddd"], ["eeeee"]]
    assert (summary.documents, summary.characters, summary.tokens, summary.known) == (5, 15, 15, 3)
    assert bench.advanced == one.stat().st_size + two.stat().st_size


def test_a_refused_document_is_named_and_its_batch_is_counted(bench: Bench, tmp_path: Path) -> None:
    path = write(tmp_path / "1.txt", "a", "b", "xx", "c", "d", "e", "f", "x")
    counter = Counter()
    summary = bench.warm(counter, path, batch=8)
    assert counter.counted == ["a", "b", "c", "d", "e", "f"]
    assert bench.faults == [f"{path}:{line}: texts: no x is taken" for line in (3, 8)]
    assert (summary.documents, summary.failed) == (6, 2)


def test_a_fault_of_the_one_that_counts_ends_it(bench: Bench, tmp_path: Path) -> None:
    class Away(Counter):
        def count(self, texts: Sequence[str]) -> Counted:
            raise Problem(503, "engine-unavailable", "away")

    with pytest.raises(Problem, match="away"):
        bench.warm(Away(), write(tmp_path / "1.txt", "a"))


@pytest.mark.parametrize("stops_at", range(6))
def test_an_interrupted_warm_up_goes_on_and_counts_nothing_twice(bench: Bench, tmp_path: Path, stops_at: int) -> None:
    one = write(tmp_path / "1.txt", *"abcde")
    two = write(tmp_path / "2.txt", *"fghijkl")
    first, second = Counter(stops_at=stops_at), Counter()
    assert bench.warm(first, one, two).documents == 2 * stops_at
    advanced, bench.advanced = bench.advanced, 0
    summary = bench.warm(second, one, two)
    assert first.counted + second.counted == list("abcdefghijkl")
    assert summary.before == 2 * stops_at
    assert bench.advanced == one.stat().st_size + two.stat().st_size > advanced


def test_a_finished_warm_up_begins_anew_and_leaves_nothing(bench: Bench, tmp_path: Path) -> None:
    path = write(tmp_path / "1.txt", *"abc")
    bench.warm(Counter(), path)
    assert list((tmp_path / "warm").iterdir()) == []
    again = Counter()
    assert bench.warm(again, path).before == 0
    assert again.counted == ["a", "b", "c"]


def test_another_tokenizer_or_a_changed_file_is_read_from_its_beginning(bench: Bench, tmp_path: Path) -> None:
    one, two = write(tmp_path / "1.txt", *"abcd"), write(tmp_path / "2.txt", *"ef")
    bench.warm(Counter(stops_at=2), one, two)
    other = Counter()
    bench.warm(other, one, two, identity="llama")
    assert other.counted == list("abcdef")
    write(one, *"ABCD", "E")
    changed = Counter()
    bench.warm(changed, one, two)
    assert changed.counted == list("ABCDEef")


def test_a_state_that_was_cut_off_loses_its_end_only(bench: Bench, tmp_path: Path) -> None:
    path = write(tmp_path / "1.txt", *"abcdefgh")
    bench.warm(Counter(stops_at=3), path)
    (state,) = (tmp_path / "warm").iterdir()
    state.write_bytes(state.read_bytes()[:-5])
    second = Counter()
    assert bench.warm(second, path).before == 4
    assert second.counted == list("efgh")


def test_chats_are_counted_one_by_one_and_remembered(bench: Bench, tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "hello"}]
    path = tmp_path / "chats.jsonl"
    path.write_text("\n".join([json.dumps({"messages": chat})] * 3))
    counter = Counter()
    summary = bench.warm(counter, path)
    assert counter.chats == [chat] * 3
    assert (summary.documents, summary.tokens) == (3, 21)


def test_the_summary_tells_new_from_known() -> None:
    said = dict(lines_of(Summary(documents=10, failed=1, before=5, characters=400, tokens=100, known=60, partly=30)))
    assert said["Documents"] == "10 (1 failed, 5 done before)"
    assert said["Tokens"] == "100: 10 new, 60 known, 30 in batches of which some was known"


def command(relay: RelayServer, *arguments: str, text: bytes = b"", key: str | None = None) -> tuple[int, str, str]:
    """Runs warm_tokens on the server's data folder: exit code, what it printed, what it complained of."""
    variables = {**relay.env, "RELAY_API_KEY": relay.api_key if key is None else key, "RELAY_LOG_LEVEL": "ERROR"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "warm_tokens", *arguments],
        env=environment(relay.data_dir, variables),
        input=text,
        capture_output=True,
        timeout=90,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def source_of(relay: RelayServer, text: str) -> str:
    with relay.http() as api:
        return str(api.post("/api/v1/tokens/count", json={"model": "gpt2", "text": text}).json()["source"])


def test_a_warmed_server_answers_from_its_cache(relay: RelayServer, tmp_path: Path) -> None:
    texts = [f"{tmp_path.name}: question {number}, asked often" for number in range(40)]
    path = write(tmp_path / "questions.txt", *texts)
    arguments = ("--model", "gpt2", "--url", relay.url, "--lines", str(path))
    code, printed, complained = command(relay, *arguments)
    assert (code, complained) == (0, "")
    assert re.search(r"^Documents +40$", printed, re.M)
    assert re.search(r"^Tokens +([\d,]+): \1 new, 0 known$", printed, re.M)
    assert f"in the caches of {relay.url}" in printed
    assert source_of(relay, texts[17]) == "cache"
    _, again, _ = command(relay, *arguments)
    assert re.search(r"^Tokens +([\d,]+): 0 new, \1 known$", again, re.M)


def test_the_shared_cache_serves_a_server_that_never_saw_the_text(
    new_relay: NewRelay, redis: RedisServer, tmp_path: Path
) -> None:
    """Redis is given 50 ms; on a busy machine some reads and writes miss that, and another run makes up for it."""
    relay = new_relay(env={"RELAY_REDIS_URL": redis.url})
    texts = [" ".join(f"word{number * place}" for place in range(300)) for number in range(1, 20)]
    path = write(tmp_path / "documents.txt", *texts)
    runs = [command(relay, "--model", "gpt2", "--lines", str(path))[1]]
    assert re.search(r"^Tokens +([\d,]+): \1 new, 0 known$", runs[0], re.M)
    assert "in the shared cache (RELAY_REDIS_URL)" in runs[0]
    while not re.search(r"^Tokens +([\d,]+): 0 new, \1 known$", runs[-1], re.M):
        assert len(runs) < 6, runs
        runs.append(command(relay, "--model", "gpt2", "--lines", str(path))[1])
    with relay.http() as api:
        for text in texts:
            api.post("/api/v1/tokens/count", json={"model": "gpt2", "text": text}).raise_for_status()
        metrics = api.get("/metrics").text
    found = re.findall(r'relay_token_reused_characters_total{model="gpt2",level="shared"} (\d+)', metrics)
    assert int(found[0]) > sum(map(len, texts)) / 2
    redis.kill()
    code, printed, complained = command(relay, "--model", "gpt2", "--lines", str(path))
    assert (code, printed) == (2, "")
    assert "The shared cache (RELAY_REDIS_URL) does not answer" in complained


def test_without_a_place_to_keep_them_it_says_so_and_counts(relay: RelayServer, tmp_path: Path) -> None:
    code, printed, complained = command(relay, "--model", "gpt2", "-", text=b"hello hello")
    assert code == 0
    assert "Nothing is kept" in complained
    assert re.search(r"^Tokens +2: 2 new, 0 known$", printed, re.M)


def test_a_document_that_fails_is_named_and_the_exit_code_is_1(relay: RelayServer, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one"}\nnot json\n{"text": "two"}\n')
    code, printed, complained = command(relay, "--model", "gpt2", "--url", relay.url, str(path))
    assert code == 1
    assert f"{path}:2: not a JSON object" in complained
    assert re.search(r"^Documents +2 \(1 failed\)$", printed, re.M)


def test_chats_are_counted_as_the_template_renders_them_by_a_server_and_here(
    relay: RelayServer, tmp_path: Path
) -> None:
    template = "{% for message in messages %}{{ message.content }} hello{% endfor %}"
    name = f"chat-{uuid.uuid4().hex}"
    tokenizer = byte_bpe()
    folder = written(tokenizer, tmp_path / "tokenizer")
    texts = ("hello hello", "hello")  # the first as the template makes it
    tokens = sum(len(tokenizer.encode(text, add_special_tokens=False).ids) for text in texts)
    path = tmp_path / "chats.jsonl"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "hello"}]}) + "\n" + '{"text": "hello"}')
    with relay.http() as api:
        model = {"name": name, "source": "path", "location": str(folder), "chat_template": template}
        made = api.post("/api/v1/tokens/models", json=model)
        assert made.status_code == 201, made.text
        try:
            deadline = time.monotonic() + 30
            while api.get(f"/api/v1/tokens/models/{name}").json()["state"] != "ready":
                assert time.monotonic() < deadline
                time.sleep(0.05)
            for where in (("--url", relay.url), ()):
                code, printed, complained = command(relay, "--model", name, *where, str(path))
                assert code == 0, complained
                assert re.search(rf"^Tokens +{tokens}: ", printed, re.M)
        finally:
            api.delete(f"/api/v1/tokens/models/{name}")


@pytest.mark.parametrize(
    ("arguments", "key", "complaint"),
    [
        (("--model", "gpt5000", "--url", "URL", "-"), None, "No tokenizer is configured for 'gpt5000'"),
        (("--model", "gpt5000", "-"), None, "No model 'gpt5000' is configured. There are: gpt2"),
        (("--model", "gpt2", "--url", "URL", "-"), "relay_wrong_key", "key"),
        (("--model", "gpt2", "--url", "somewhere", "-"), None, "'somewhere' is no address of a server"),
        (("--model", "gpt2", "/nowhere/at/all"), None, "/nowhere/at/all: No such file or directory."),
        (("--model", "gpt2", "--batch", "0", "-"), None, "'0' is not a whole number from 1 to 1000"),
    ],
)
def test_what_cannot_begin_ends_with_code_2_and_why(
    relay: RelayServer, arguments: tuple[str, ...], key: str | None, complaint: str
) -> None:
    code, printed, complained = command(relay, *(relay.url if word == "URL" else word for word in arguments), key=key)
    assert (code, printed) == (2, "")
    assert complaint in complained


def test_ctrl_c_ends_it_cleanly_and_the_same_command_goes_on(new_relay: NewRelay, tmp_path: Path) -> None:
    relay = new_relay()
    path = write(tmp_path / "many.txt", *(f"document {number}" for number in range(20_000)))
    arguments = ["--model", "gpt2", "--url", relay.url, "--batch", "1", "--lines", str(path)]
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "warm_tokens", *arguments],
        env=environment(relay.data_dir, {"RELAY_API_KEY": relay.api_key}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while not list((relay.data_dir / "warm").glob("*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    printed, complained = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "The same command goes on" in complained.decode()
    done = int(re.findall(r"^Documents +([\d,]+)", printed.decode(), re.M)[0].replace(",", ""))
    code, again, _ = command(relay, *arguments[:4], "--batch", "1000", "--lines", str(path))
    assert code == 0
    assert re.search(rf"^Documents +{20_000 - done:,} \({done:,} done before\)$", again, re.M)
