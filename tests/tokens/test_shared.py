"""The shared cache in a real Redis: what one process knows the other reads; whatever happens to it, counts keep coming."""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from collections.abc import Callable, Iterator

import pytest
from redis import Redis

from relay.tokens import shared
from relay.tokens.codec import Damaged, pack_count, pack_ids, unpack_count, unpack_ids
from relay.tokens.tokenizer import Tokenizer
from relay.tokens.values import ALLOW_SPECIAL, COUNT, IDS, SPANS
from tests.conftest import NewRelay
from tests.redis_server import RedisServer
from tests.tokens import families
from tests.tokens.stack import Stack, prose

NewNode = Callable[..., Stack]
TEXT = prose(40_000, 1)


@pytest.fixture
def new_node(redis: RedisServer, gpt2: Tokenizer) -> Iterator[NewNode]:
    """Makes processes, so to speak, that share the Redis."""
    nodes: list[Stack] = []

    def make(tokenizer: Tokenizer = gpt2) -> Stack:
        nodes.append(Stack(tokenizer, redis_url=redis.url))
        return nodes[-1]

    yield make
    redis.resume()
    for node in nodes:
        node.close()


def told(node: Stack) -> shared.Shared:
    """The node's view of the shared cache, when everything is written."""
    assert node.shared is not None
    node.run(node.shared.flush())
    return node.shared


def settled(redis: RedisServer) -> None:
    """Waits until nothing more is written, which happens in the background."""
    with Redis.from_url(redis.url) as client:
        known = -1
        while not known == client.dbsize() > 0:
            known = int(str(client.dbsize()))
            time.sleep(0.3)


def until(node: Stack, usable: bool, within_s: float = 10.0) -> None:
    """Waits until the node has seen that the cache answers, or does not."""

    async def wait() -> None:
        assert node.shared is not None
        async with asyncio.timeout(within_s):
            while node.shared.usable is not usable:
                await asyncio.sleep(0.02)

    node.run(wait())


def test_what_one_process_counted_another_does_not(new_node: NewNode, gpt2: Tokenizer) -> None:
    first, second = new_node(), new_node()
    first.count(TEXT)
    told(first)
    edited = TEXT[:20_000] + " other words " + TEXT[20_000:]
    (count,), job = second.values([edited])
    assert [count] == gpt2.counts([edited])
    assert job.tally.levels["shared"][0] > 35_000
    assert job.tally.levels["computed"][0] < 3000
    assert job.tally.source == "partial"
    assert second.computed(TEXT) < 3000, "the segments came into this process's own cache"


def test_ids_are_shared_and_tell_counts_too(new_node: NewNode, gpt2: Tokenizer) -> None:
    first, second, third = new_node(), new_node(), new_node()
    first.ids(TEXT)
    told(first)
    assert second.ids(TEXT) == list(gpt2.encode([TEXT])[0].ids)
    assert second.computed(TEXT, IDS) == 0
    assert third.computed(TEXT, COUNT) == 0
    assert third.computed(TEXT, SPANS) == len(TEXT), "spans are not shared"


def test_another_tokenizer_another_flag_is_another_key(new_node: NewNode) -> None:
    first = new_node()
    first.count(TEXT)
    told(first)
    bert = Tokenizer(families.document(families.byte_bpe()))
    assert new_node(bert).computed(TEXT) == len(TEXT)
    assert new_node().computed(TEXT, COUNT | ALLOW_SPECIAL) == len(TEXT)


def test_short_texts_are_not_asked_for(new_node: NewNode, redis: RedisServer) -> None:
    node = new_node()
    node.count("a short text")
    node.count("x" * 900)
    told(node)
    with Redis.from_url(redis.url) as client:
        assert client.dbsize() == 0


def test_what_is_kept_ends_by_itself(new_node: NewNode, redis: RedisServer) -> None:
    node = new_node()
    node.ids(TEXT)
    told(node)
    with Redis.from_url(redis.url) as client:
        keys = list(client.scan_iter())
        assert all(key.startswith(shared.PREFIX) for key in keys)
        assert {0 < client.ttl(key) <= shared.KEPT_S for key in keys} == {True}


@pytest.mark.parametrize("kind", [COUNT, IDS])
def test_damaged_values_are_counted_anew_and_told(
    new_node: NewNode, redis: RedisServer, gpt2: Tokenizer, kind: int
) -> None:
    first, second = new_node(), new_node()
    first.ids(TEXT)
    told(first)
    pick = random.Random(1)
    with Redis.from_url(redis.url) as client:
        keys = list(client.scan_iter())
        values = [client.get(key) or b"" for key in keys]
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            assert isinstance(value, bytes)
            place = pick.randrange(len(value))
            flipped = value[:place] + bytes([value[place] ^ 1]) + value[place + 1 :]
            wrong = [flipped, value[:-1], b"", b"nonsense", values[number - 1]]
            client.set(key, wrong[number % len(wrong)])
    found = second.values([TEXT], kind)[0][0]
    assert (found if kind == COUNT else list(found.ids)) == (
        gpt2.counts([TEXT])[0] if kind == COUNT else list(gpt2.encode([TEXT])[0].ids)
    )
    assert told(second).damaged > 20


@pytest.mark.parametrize("trouble", ["kill", "pause"])
def test_counts_keep_coming_whatever_happens_to_it(
    new_node: NewNode, redis: RedisServer, gpt2: Tokenizer, trouble: str
) -> None:
    node = new_node()
    node.count(TEXT)
    getattr(redis, trouble)()
    for number in range(12):
        text = prose(3000, 100 + number)
        began = time.perf_counter()
        assert [node.count(text)] == gpt2.counts([text])
        assert time.perf_counter() - began < 1.0
    assert node.shared is not None
    assert not node.shared.usable, "after some failures nobody asks any more"
    began = time.perf_counter()
    for number in range(20):
        node.count(prose(3000, 200 + number))
    assert time.perf_counter() - began < 20 * shared.READ_S, "and nobody waits for it"
    if trouble == "kill":
        redis.start()
    else:
        redis.resume()
    until(node, usable=True)
    node.count(prose(3000, 300))
    told(node)
    assert new_node().computed(prose(3000, 300)) == 0


def test_without_a_redis_at_the_start_it_is_found_later(new_node: NewNode, redis: RedisServer, gpt2: Tokenizer) -> None:
    redis.kill()
    began = time.perf_counter()
    node = new_node()
    assert time.perf_counter() - began < 5
    assert [node.count(TEXT)] == gpt2.counts([TEXT])
    redis.start()
    until(node, usable=True)


def test_no_more_waits_to_be_written_than_is_bounded(
    new_node: NewNode, gpt2: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "QUEUE_BYTES", 1000)
    node = new_node()
    assert [node.count(TEXT)] == gpt2.counts([TEXT])
    assert told(node).dropped > 20


@pytest.mark.parametrize("count", [0, 1, 256, 257, 5000])
def test_values_come_back_as_they_were(count: int) -> None:
    ids = array("I", random.Random(count).choices(range(50_000), k=count))
    assert unpack_ids(b"k", pack_ids(b"k", ids), 49_999).ids == ids
    assert unpack_count(b"k", pack_count(b"k", count)) == count
    for wrong in (pack_ids(b"other", ids), pack_count(b"k", count), b"", b"r"):
        with pytest.raises(Damaged):
            unpack_ids(b"k", wrong, 49_999)
    if count > 1:
        with pytest.raises(Damaged):
            unpack_ids(b"k", pack_ids(b"k", ids), max(ids) - 1)
        assert count < 1000 or len(pack_ids(b"k", ids)) < 3 * count


def test_two_servers_share_what_they_count(new_relay: NewRelay, redis: RedisServer) -> None:
    env = {"RELAY_REDIS_URL": redis.url}
    first, second = new_relay(env=env), new_relay(env=env)
    body = {"model": "gpt2", "text": TEXT}
    sources = []
    for server in (first, second):
        with server.http() as client:
            answer = client.post("/api/v1/tokens/count", json=body)
            sources.append((answer.json()["count"], answer.json()["source"]))
            assert client.get("/readyz").json()["checks"]["shared_cache"] == "ok"
        settled(redis)
    assert [source for _, source in sources] == ["computed", "cache"]
    assert sources[0][0] == sources[1][0]
    redis.kill()
    with second.http() as client:
        for number in range(shared.FAILURES + 1):
            assert client.post("/api/v1/tokens/count", json=body | {"text": prose(3000, number)}).status_code == 200
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert ready.json()["checks"]["shared_cache"] == "down"
        assert "relay_token_cache_entries" in client.get("/metrics").text
