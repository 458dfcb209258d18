"""The load generator: whole answers, its small state machines, and a run against a real socket."""

from __future__ import annotations

import asyncio

import pytest

from bench.flows import FLOWS, FlowSpec, lease_id, request
from bench.loadgen import Load, is_whole, measure

BODY = b'{"lease_id":"abc-1","waited_s":0.0,"ttl_s":60.0}'
LEASE = b"HTTP/1.1 201 Created\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY
SPEC = FlowSpec("pair", key="k", pool="gpu")


@pytest.mark.parametrize("cut", [10, 30, 44, len(LEASE) - 1])
def test_an_answer_that_is_cut_off_is_not_whole(cut: int) -> None:
    assert not is_whole(LEASE[:cut])


@pytest.mark.parametrize("name", [b"content-length", b"Content-Length"])
def test_an_answer_is_whole_when_all_of_its_length_is_there(name: bytes) -> None:
    assert is_whole(LEASE.replace(b"content-length", name))


def test_an_answer_without_a_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="content-length"):
        is_whole(b"HTTP/1.1 200 OK\r\nserver: x\r\n\r\n")


def test_a_pair_releases_the_lease_that_it_was_given_and_acquires_again() -> None:
    flow = FLOWS["pair"](SPEC)
    assert flow.first().startswith(b"POST /api/v1/pools/gpu/acquire HTTP/1.1\r\n")
    release = flow.after(201, LEASE)
    assert release == request("POST", "/api/v1/leases/abc-1/release", "k")
    assert flow.step == 1
    assert flow.after(200, b"") == flow.first()
    assert flow.step == 0


def test_a_pair_that_is_refused_acquires_again() -> None:
    flow = FLOWS["pair"](SPEC)
    assert flow.after(429, b"") == flow.first()
    assert flow.step == 0


def test_texts_that_no_cache_has_seen_differ_between_connections_too() -> None:
    one, other = FLOWS["count-unique"](SPEC), FLOWS["count-unique"](SPEC)
    sent = [one.first(), one.after(200, b""), other.first(), other.after(200, b"")]
    assert len(set(sent)) == len({len(message) for message in sent}) + 3 == 4


def test_a_request_says_the_length_of_its_body() -> None:
    assert request("POST", "/x", "key", b"{}").endswith(b"content-length: 2\r\n\r\n{}")
    assert b"content-length: 0" in request("POST", "/x")
    assert b"content-length" not in request("GET", "/x")


def test_an_answer_without_a_lease_has_no_lease_id() -> None:
    with pytest.raises(ValueError, match="not found"):
        lease_id(b"{}")


class Granter:
    """A server that grants and releases, sending every answer in two pieces; counts what is held."""

    def __init__(self) -> None:
        self.held = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return writer.close()
            length = head.partition(b"content-length: ")[2].partition(b"\r")[0]
            await reader.readexactly(int(length))
            self.held += -1 if b"/release " in head else 1
            writer.write(LEASE[:50])
            await asyncio.sleep(0)
            writer.write(LEASE[50:])


def test_a_run_counts_whole_answers_and_ends_with_nothing_held() -> None:
    async def run() -> None:
        granter = Granter()
        server = await asyncio.start_server(granter.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        result = await measure(Load(port, SPEC, connections=4, seconds=0.3, warmup_s=0.05, bin_s=0.1))
        server.close()
        assert result.requests > 20
        assert result.rate == pytest.approx(result.requests / result.seconds, rel=0.01)
        assert result.statuses == {"201": result.requests}
        assert sum(result.bins) == result.requests
        assert [set(latency) for latency in result.latency_ms] == [{"p50", "p90", "p99", "max"}] * 2
        assert (result.lost, result.waited_share) == (0, 0.0)
        assert granter.held == 0

    asyncio.run(run())
